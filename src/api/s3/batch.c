/* batch: POST /BUCKET?batch: objects, ranges and members of shards, in the order of a list, as one archive. */
#include "api/batch_reply.h"
#include "api/s3/s3.h"
#include "base/mem.h"
#include "wire/batchlist.h"
#include "wire/tar.h"

#define BUCKETS_MAX 64u /* of one batch */

struct s3_batch {
    struct request *q;
    struct batchlist list;
    struct batch_item *items;                    /* in the work arena */
    const struct map_bucket *named[BUCKETS_MAX]; /* one reference each */
    unsigned named_count;
};

/* ---- the request ---- */

static enum err
bad_item(struct request *q, const struct s3_batch *b, uint32_t i, enum s3_code code,
         const char *why)
{
    const struct batchlist_item *it = &b->list.items[i];

    return fault_set(&q->fault, code, "item %u, \"%.*s\": %s", i,
                     (int)MIN(it->name.len, 200), it->name.at, why);
}

static enum err
batch_parse_list(struct s3_batch *b)
{
    struct request *q = b->q;
    struct span type = fields_get(http_fields(q->http->head), "content-type");
    const char *semicolon = span_find(type, ';');
    struct errbuf eb = {{0}};
    struct span doc;
    enum err rc = s3_body_document(q, BATCHLIST_BYTES_MAX, false, &doc);

    if (rc != ERR_OK)
        return rc;
    if (semicolon != NULL)
        type.len = (size_t)(semicolon - type.at);
    rc = span_case_is(span_trim(type), "application/json")
             ? batchlist_parse_json(doc, request_work(q), &b->list, &eb)
             : batchlist_parse_text(doc, request_work(q), &b->list, &eb);
    return rc == ERR_OK ? ERR_OK
                        : fault_set(&q->fault, S3_InvalidArgument, "%s", eb.text);
}

/* "frames", an extension, or a media type. */
static bool
batch_format_of(struct span text, struct batch_reply *r)
{
    r->frames = span_is(text, "frames") || span_is(text, "application/x-forebay-frames");
    r->format = r->frames ? SHARD_TAR : shard_format_of_mime(text);
    return r->format != SHARD_NONE;
}

/* By ?format, the list, or Accept; a tar when it leaves the choice. */
static enum err
choose_format(struct s3_batch *b, struct batch_reply *r)
{
    struct request *q = b->q;
    struct span asked = query_get(&q->query, "format");
    struct span accept = fields_get(http_fields(q->http->head), "accept");

    r->format = SHARD_TAR;
    if (asked.len == 0)
        asked = b->list.format;
    if (asked.len > 0 && !batch_format_of(asked, r))
        return fault_set(
            &q->fault, S3_InvalidArgument,
            "The format \"%.*s\" is not known: tar, tgz, tar.lz4, zip, frames",
            (int)MIN(asked.len, 60), asked.at);
    if (asked.len > 0)
        return ERR_OK;
    for (;;) { /* the first that is known, whatever its weight */
        const char *comma = span_find(accept, ',');
        struct span one = {accept.at,
                           comma != NULL ? (size_t)(comma - accept.at) : accept.len};
        const char *semicolon = span_find(one, ';');

        if (semicolon != NULL)
            one.len = (size_t)(semicolon - one.at);
        if (one.len > 0 && batch_format_of(span_trim(one), r))
            return ERR_OK;
        if (comma == NULL)
            break;
        accept = span_from(accept, (size_t)(comma - accept.at) + 1);
    }
    r->format = SHARD_TAR;
    r->frames = false;
    return ERR_OK;
}

static enum err
choose_missing(struct s3_batch *b, struct batch_reply *r)
{
    struct span asked = query_get(&b->q->query, "on-missing");

    r->mark_missing = !b->list.fail_on_missing;
    if (asked.len == 0)
        return ERR_OK;
    r->mark_missing = span_is(asked, "mark");
    if (r->mark_missing || span_is(asked, "fail"))
        return ERR_OK;
    return fault_set(&b->q->fault, S3_InvalidArgument,
                     "on-missing is \"mark\" or \"fail\", not \"%.*s\"",
                     (int)MIN(asked.len, 60), asked.at);
}

/* ---- the items ---- */

static enum err
batch_find_bucket(struct s3_batch *b, uint32_t i, const struct map_bucket **out)
{
    struct span name = b->list.items[i].bucket;
    const struct map_bucket *found;

    for (unsigned k = 0; k < b->named_count; k++)
        if (span_is(name, b->named[k]->name)) {
            *out = b->named[k];
            return ERR_OK;
        }
    if (!caller_has_any_right(b->q, name))
        return fault_from(b->q, ERR_DENIED, &(struct errbuf){{0}});
    found = map_bucket_find(map_now(b->q->api->options.map), name);
    if (found == NULL)
        return bad_item(b->q, b, i, S3_NoSuchBucket, "its bucket does not exist");
    if (b->named_count == BUCKETS_MAX)
        return bad_item(b->q, b, i, S3_InvalidArgument,
                        "a batch reads at most 64 buckets");
    *out = b->named[b->named_count++] = map_bucket_ref(found);
    return ERR_OK;
}

static void
batch_put_name(void *arg, uint32_t i, struct buf *out)
{
    const struct s3_batch *b = arg;

    if (b->list.items[i].bucket.at != NULL) {
        buf_put_span(out, b->list.items[i].bucket);
        buf_putc(out, '/');
    }
    buf_put_span(out, b->items[i].key);
    if (b->items[i].member.at != NULL) {
        buf_putc(out, '/');
        buf_put_span(out, b->items[i].member);
    }
}

/* A name that would not be extracted where it belongs is refused: into a client's folder, or above it. */
static enum err
check_archive_name(struct s3_batch *b, uint32_t i, struct buf *name)
{
    buf_clear(name);
    batch_put_name(b, i, name);
    if (name->full || name->len + sizeof "__404__/" > TAR_PATH_MAX)
        return bad_item(b->q, b, i, S3_InvalidArgument,
                        "its name is too long for an archive: at most 4,087 bytes");
    if (!tar_path_safe(buf_span(name)))
        return bad_item(
            b->q, b, i, S3_InvalidArgument,
            "an archive must not hold this name: \"..\", \".\", \"//\", a slash "
            "at an end, control bytes or no UTF-8; ask for format=frames");
    return ERR_OK;
}

static enum err
batch_take_item(struct s3_batch *b, uint32_t i, struct buf *name, bool archive)
{
    const struct batchlist_item *it = &b->list.items[i];
    struct batch_item *out = &b->items[i];
    struct request *q = b->q;
    enum err rc = ERR_OK;

    *out = (struct batch_item){
        .bucket = q->bucket,
        .key = it->name,
        .member = it->member,
        .first = it->first,
        .len = it->last == BATCHLIST_TO_END ? BATCH_TO_END : it->last - it->first + 1};
    if (it->plain)
        shard_path_split(it->name, &out->key, &out->member);
    if (it->bucket.at != NULL)
        rc = batch_find_bucket(b, i, &out->bucket);
    if (rc == ERR_OK)
        rc = s3_key_check(out->key, q->arena, &q->fault);
    if (rc == ERR_OK)
        rc = caller_require(q, AUTH_READ, span_of(out->bucket->name), out->key);
    return rc == ERR_OK && archive ? check_archive_name(b, i, name) : rc;
}

static enum err
batch_take_items(struct s3_batch *b, bool archive)
{
    struct buf name;
    enum err rc = ERR_OK;

    b->items = arena_try(request_work(b->q), b->list.count * sizeof *b->items);
    if (b->items == NULL)
        return fault_set(&b->q->fault, S3_SlowDown, NULL);
    buf_init(&name, 2 * TAR_PATH_MAX);
    for (uint32_t i = 0; rc == ERR_OK && i < b->list.count; i++)
        rc = batch_take_item(b, i, &name, archive);
    buf_fini(&name);
    return rc;
}

/* Nothing was sent: the whole is refused, with the item's name. */
static enum err
batch_refuse(struct s3_batch *b, const struct batch_reply *r, enum err rc,
             const struct errbuf *eb)
{
    struct request *q = b->q;

    switch ((int)rc) {
    case ERR_NOT_FOUND:
        return bad_item(q, b, r->failed, S3_NoSuchKey, "it does not exist");
    case ERR_RANGE:
        return bad_item(q, b, r->failed, S3_InvalidRange, eb->text);
    case ERR_BAD_REQUEST:
    case ERR_TOO_LARGE:
        return bad_item(q, b, r->failed, S3_InvalidArgument, eb->text);
    default:
        return fault_from(q, rc, eb);
    }
}

enum err
s3_batch(struct request *q)
{
    struct s3_batch *b = arena_alloc(q->arena, sizeof *b);
    struct batch_reply r = {.q = q, .name = batch_put_name, .arg = b};
    struct errbuf eb = {{0}};
    enum err rc;

    b->q = q;
    rc = batch_parse_list(b);
    if (rc == ERR_OK)
        rc = choose_format(b, &r);
    if (rc == ERR_OK)
        rc = choose_missing(b, &r);
    if (rc == ERR_OK)
        rc = batch_take_items(b, !r.frames);
    if (rc == ERR_OK) {
        r.items = b->items;
        r.count = b->list.count;
        rc = batch_reply_send(&r, &eb);
        if (rc != ERR_OK)
            rc = batch_refuse(b, &r, rc, &eb);
    }
    for (unsigned k = 0; k < b->named_count; k++)
        map_bucket_drop(&b->named[k]);
    return rc;
}
