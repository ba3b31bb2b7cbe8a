/* batch: GetBatch, GET /v1/ml/moss[/BUCKET] with a JSON body: as a stream, or as multipart with a part of metadata before it. */
#include <string.h>

#include "api/ais/ops.h"
#include "api/ais/xact.h"
#include "api/batch_reply.h"
#include "base/mem.h"
#include "wire/batchlist.h"
#include "wire/tar.h"

#define BUCKETS_MAX 64u /* of one batch */
#define BOUNDARY    "forebay-batch-7MA4YWxkTrZu0gW9"

/* A bucket as items spell it. Each spelling is resolved once: resolving takes memory of the request. */
struct spelling {
    struct span uname; /* "PROVIDER/NAMESPACE/NAME/"; empty: the other two */
    struct span bucket, provider;
};

struct getbatch_item {
    const char *object, *member, *opaque; /* borrowed of the message */
    const char *bucket;                   /* of the answer */
    const char *provider;
    uint64_t size; /* multipart: of the metadata */
    const char *error;
};
struct getbatch {
    struct request *q;
    struct batch_item *items;   /* in the work arena */
    struct getbatch_item *told; /* likewise */
    uint32_t count;
    struct span own_bucket;                        /* of the path */
    const struct map_bucket *buckets[BUCKETS_MAX]; /* one reference each */
    struct ais_bucket names[BUCKETS_MAX];
    struct spelling spellings[BUCKETS_MAX];
    const char *texts[BUCKETS_MAX];
    unsigned bucket_count;
    bool no_bucket_names, streams, goes_on;
    enum shard_format format;
    struct xact *xact;
};

/* ---- buckets ---- */

/* What stands before the object in a uname. */
static struct span
uname_bucket(struct span uname)
{
    size_t at = 0;

    for (unsigned slashes = 0; at < uname.len && slashes < 3; at++)
        slashes += uname.at[at] == '/';
    return (struct span){uname.at, at};
}

static enum err
getbatch_spelling(struct getbatch *b, const json_t *v, uint32_t i, struct spelling *out)
{
    struct request *q = b->q;
    const char *uname, *bucket, *provider;
    enum err rc = ais_text(q, v, "uname", &uname);

    if (rc == ERR_OK)
        rc = ais_text(q, v, "bucket", &bucket);
    if (rc == ERR_OK)
        rc = ais_text(q, v, "provider", &provider);
    if (rc != ERR_OK)
        return rc;
    *out = (struct spelling){.uname = uname_bucket(span_of(uname)),
                             .bucket = span_of(bucket),
                             .provider = span_of(provider)};
    if (uname[0] != '\0' && b->told[i].object[0] == '\0')
        b->told[i].object = uname + out->uname.len;
    if (uname[0] == '\0' && bucket[0] == '\0')
        out->bucket = b->own_bucket;
    if (uname[0] == '\0' && provider[0] == '\0')
        out->provider = query_get(&q->query, "provider");
    return uname[0] != '\0' || out->bucket.len > 0
               ? ERR_OK
               : ais_fault(q, 400, NULL,
                           "item %u: it names no bucket, and neither does the path", i);
}

static enum err
getbatch_find_bucket(struct getbatch *b, const struct spelling *s, unsigned *at)
{
    struct ais_bucket *name;
    struct span rest;
    enum err rc;

    for (*at = 0; *at < b->bucket_count; ++*at) {
        const struct spelling *k = &b->spellings[*at];

        if (span_eq(k->uname, s->uname) && span_eq(k->bucket, s->bucket) &&
            span_eq(k->provider, s->provider))
            return ERR_OK;
    }
    if (b->bucket_count == BUCKETS_MAX)
        return ais_fault(b->q, 400, NULL, "a batch reads at most %u buckets",
                         BUCKETS_MAX);
    name = &b->names[b->bucket_count];
    rc = s->uname.len > 0
             ? ais_bucket_uname(b->q, s->uname, name, &rest)
             : ais_bucket_name(b->q, s->provider, query_get(&b->q->query, "namespace"),
                               s->bucket, name);
    if (rc == ERR_OK)
        rc = ais_bucket_find(b->q, name, &b->buckets[b->bucket_count]);
    if (rc != ERR_OK)
        return rc;
    b->texts[b->bucket_count] = arena_strdup(b->q->arena, name->name);
    b->spellings[b->bucket_count++] = *s;
    return ERR_OK;
}

/* ---- items ---- */

static enum err
getbatch_range(struct getbatch *b, const json_t *v, uint32_t i)
{
    const json_t *s = ais_member(v, "start"), *l = ais_member(v, "length");
    json_int_t start = json_integer_value(s), length = json_integer_value(l);

    if ((s != NULL && !json_is_integer(s)) || (l != NULL && !json_is_integer(l)))
        return ais_fault(b->q, 400, NULL, "item %u: start and length must be numbers", i);
    if (start < 0 || length < -1 || (start != 0 && length == 0))
        return ais_fault(b->q, 416, "ErrRangeNotSatisfiable",
                         "item %u: a range from %lld of %lld bytes", i, (long long)start,
                         (long long)length);
    b->items[i].first = (uint64_t)start;
    b->items[i].len = length <= 0 ? BATCH_TO_END : (uint64_t)length;
    return ERR_OK;
}

static void
getbatch_put_name(void *arg, uint32_t i, struct buf *out)
{
    const struct getbatch *b = arg;

    if (!b->no_bucket_names) {
        buf_puts(out, b->told[i].bucket);
        buf_putc(out, '/');
    }
    buf_puts(out, b->told[i].object);
    if (b->told[i].member[0] != '\0') {
        buf_putc(out, '/');
        buf_puts(out, b->told[i].member);
    }
}

static enum err
getbatch_check_name(struct getbatch *b, uint32_t i, struct buf *name)
{
    buf_clear(name);
    getbatch_put_name(b, i, name);
    if (!name->full && name->len + sizeof "__404__/" <= TAR_PATH_MAX &&
        tar_path_safe(buf_span(name)))
        return ERR_OK;
    return ais_fault(b->q, 400, NULL,
                     "item %u: the name \"%.*s\" is not one that an archive may hold", i,
                     (int)MIN(name->len, 200u), name->at);
}

static enum err
getbatch_take_item(struct getbatch *b, const json_t *v, uint32_t i, struct buf *name)
{
    struct getbatch_item *t = &b->told[i];
    struct request *q = b->q;
    struct spelling bucket = {.uname = {"", 0}};
    unsigned at = 0;
    enum err rc;

    if (!json_is_object(v))
        return ais_fault(q, 400, NULL, "item %u is no JSON object", i);
    rc = ais_text(q, v, "objname", &t->object);
    if (rc == ERR_OK)
        rc = ais_text(q, v, "archpath", &t->member);
    if (rc == ERR_OK)
        rc = ais_text(q, v, "opaque", &t->opaque);
    if (rc == ERR_OK)
        rc = getbatch_spelling(b, v, i, &bucket);
    if (rc == ERR_OK && t->object[0] == '\0')
        rc = ais_fault(q, 400, NULL, "item %u has no objname", i);
    if (rc == ERR_OK)
        rc = getbatch_find_bucket(b, &bucket, &at);
    if (rc != ERR_OK)
        return rc;
    t->bucket = b->texts[at];
    t->provider = map_provider_name(b->names[at].provider);
    b->items[i] =
        (struct batch_item){.bucket = b->buckets[at], .key = span_of(t->object)};
    if (t->member[0] != '\0')
        b->items[i].member = span_of(t->member);
    rc = getbatch_range(b, v, i);
    if (rc == ERR_OK)
        rc = caller_require(q, AUTH_GET_OBJECT, b->names[at].uname, b->items[i].key);
    return rc == ERR_OK ? getbatch_check_name(b, i, name) : rc;
}

static enum err
getbatch_take_items(struct getbatch *b, const json_t *in)
{
    struct arena *a = request_work(b->q);
    struct buf name;
    enum err rc = ERR_OK;

    if (json_array_size(in) == 0)
        return ais_fault(b->q, 400, NULL, "an empty batch: \"in\" has no items");
    if (json_array_size(in) > BATCHLIST_ITEMS_MAX)
        return ais_fault(b->q, 400, NULL, "a batch of %zu items, at most %u",
                         json_array_size(in), BATCHLIST_ITEMS_MAX);
    b->count = (uint32_t)json_array_size(in);
    b->items = arena_try(a, b->count * sizeof *b->items);
    b->told = arena_try(a, b->count * sizeof *b->told);
    if (b->items == NULL || b->told == NULL)
        return ais_fault(b->q, 503, NULL, "no memory for a batch of %u items", b->count);
    buf_init(&name, 2 * TAR_PATH_MAX);
    for (uint32_t i = 0; rc == ERR_OK && i < b->count; i++)
        rc = getbatch_take_item(b, json_array_get(in, i), i, &name);
    buf_fini(&name);
    return rc;
}

static enum err
getbatch_take_options(struct getbatch *b)
{
    struct request *q = b->q;
    const json_t *m = q->ais->message;
    const char *mime;
    enum err rc = ais_text(q, m, "mime", &mime);

    if (rc == ERR_OK)
        rc = ais_flag(q, m, "coer", &b->goes_on);
    if (rc == ERR_OK)
        rc = ais_flag(q, m, "onob", &b->no_bucket_names);
    if (rc == ERR_OK)
        rc = ais_flag(q, m, "strm", &b->streams);
    if (rc != ERR_OK)
        return rc;
    b->format = mime[0] != '\0' ? shard_format_of_mime(span_of(mime)) : SHARD_TAR;
    if (b->format != SHARD_NONE)
        return ERR_OK;
    return ais_fault(q, 400, NULL,
                     "mime \"%.60s\" is not known: .tar, .tgz, .tar.gz, .tar.lz4, .zip",
                     mime);
}

/* ---- errors ---- */

static enum err
getbatch_refuse(struct getbatch *b, uint32_t i, enum err rc, const struct errbuf *eb)
{
    struct request *q = b->q;
    const char *bucket = ais_bucket_text(q->arena, b->items[i].bucket);

    if (rc == ERR_NOT_FOUND)
        return ais_fault(
            q, 404, "ErrNotFound", "object \"%s/%.200s\" does not exist: %.200s", bucket,
            b->told[i].object,
            b->told[i].member[0] != '\0' ? b->told[i].member : "item of a batch");
    if (rc == ERR_RANGE)
        return ais_fault(q, 416, "ErrRangeNotSatisfiable", "item %u: %s", i, eb->text);
    if (rc == ERR_BAD_REQUEST || rc == ERR_INCOMPLETE || rc == ERR_TOO_LARGE)
        return ais_fault(q, 400, NULL, "item %u: %s", i, eb->text);
    return ais_fault_from(q, rc, eb);
}

/* ---- multipart ---- */

/* What is there, and how large: the metadata stand before the archive. */
static enum err
getbatch_look(struct getbatch *b)
{
    struct errbuf eb = {{0}};
    struct batch *batch;
    struct batch_got got;
    bool end = false;
    enum err rc = batch_begin(b->q->api->options.object, b->q->api->shards, b->items,
                              b->count, &batch, &eb);

    if (rc != ERR_OK)
        return ais_fault_from(b->q, rc, &eb);
    while (rc == ERR_OK) {
        batch_release(batch);
        rc = batch_next(batch, &got, &end, &eb);
        if (rc != ERR_OK || end)
            break;
        if (got.status != ERR_OK && !(got.status == ERR_NOT_FOUND && b->goes_on)) {
            err_set(&eb, got.status, "%s", got.why);
            rc = getbatch_refuse(b, got.index, got.status, &eb);
            break;
        }
        b->told[got.index].size = got.size;
        b->told[got.index].error = got.status != ERR_OK ? "does not exist" : NULL;
    }
    batch_end(&batch);
    return rc;
}

/* Standard base64 of what came, URL-safe or not. */
static void
getbatch_put_opaque(struct json *j, const char *text)
{
    char out[1032];
    size_t n = 0;

    for (; text[n] != '\0' && n < sizeof out - 8; n++)
        out[n] = text[n] == '-' ? '+' : text[n] == '_' ? '/' : text[n];
    while (n % 4 != 0)
        out[n++] = '=';
    out[n] = '\0';
    if (n > 0)
        json_text(j, "opaque", out);
}

static void
getbatch_put_metadata(const struct getbatch *b, struct buf *out)
{
    struct json j;

    json_begin(&j, out);
    json_open_object(&j, NULL);
    json_open_array(&j, "out");
    for (uint32_t i = 0; i < b->count; i++) {
        const struct getbatch_item *t = &b->told[i];

        json_open_object(&j, NULL);
        json_text(&j, "objname", t->object);
        if (t->member[0] != '\0')
            json_text(&j, "archpath", t->member);
        json_text(&j, "bucket", t->bucket);
        json_text(&j, "provider", t->provider);
        getbatch_put_opaque(&j, t->opaque);
        if (t->error != NULL)
            json_text(&j, "err_msg", t->error);
        json_u64(&j, "size", t->size);
        json_end(&j);
    }
    json_end(&j);
    json_text(&j, "uuid", xact_id(b->xact));
    json_end(&j);
}

static enum err
getbatch_before(void *arg, struct http_request *http)
{
    const struct getbatch *b = arg;
    struct buf out;
    enum err rc;

    buf_init(&out, AIS_DOCUMENT_MAX);
    buf_puts(&out,
             "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"metadata\"\r\n"
             "Content-Type: application/json\r\n\r\n");
    getbatch_put_metadata(b, &out);
    buf_printf(&out,
               "\r\n--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"archive\"; "
               "filename=\"%s%s\"\r\nContent-Type: %s\r\n\r\n",
               xact_id(b->xact), shard_format_extension(b->format),
               shard_format_media(b->format));
    rc = out.full ? ERR_TOO_LARGE : http_reply_write(http, out.at, out.len);
    buf_fini(&out);
    return rc;
}

static enum err
getbatch_after(void *arg, struct http_request *http)
{
    static const char end[] = "\r\n--" BOUNDARY "--\r\n";

    (void)arg;
    return http_reply_write(http, end, sizeof end - 1);
}

/* ---- the request ---- */

static bool
getbatch_may_go_on(void *arg)
{
    const struct getbatch *b = arg;

    return !xact_is_aborted(b->xact);
}

static enum err
getbatch_send(struct getbatch *b)
{
    struct batch_reply r = {.q = b->q,
                            .items = b->items,
                            .count = b->count,
                            .name = getbatch_put_name,
                            .arg = b,
                            .format = b->format,
                            .mark_missing = b->goes_on,
                            .may_go_on = getbatch_may_go_on};
    struct errbuf eb = {{0}};
    enum err rc = ERR_OK;

    if (!b->streams) {
        r.content_type = "multipart/mixed; boundary=" BOUNDARY;
        r.before = getbatch_before;
        r.after = getbatch_after;
        rc = getbatch_look(b);
    }
    if (rc != ERR_OK)
        return rc;
    request_put_ids(b->q);
    rc = batch_reply_send(&r, &eb);
    if (rc != ERR_OK)
        http_headers_clear(b->q->http);
    xact_count(b->xact, r.objects, r.bytes);
    return rc == ERR_OK ? ERR_OK : getbatch_refuse(b, r.failed, rc, &eb);
}

enum err
ais_get_batch(struct request *q)
{
    struct getbatch *b = arena_alloc(q->arena, sizeof *b);
    enum err rc = ais_read_message(q);

    b->q = q;
    b->own_bucket = q->ais->rest;
    if (rc == ERR_OK && q->ais->message == NULL)
        rc = ais_fault(q, 400, NULL, "a batch is asked for by a JSON body");
    if (rc == ERR_OK)
        rc = getbatch_take_options(b);
    if (rc == ERR_OK)
        rc = getbatch_take_items(b, ais_member(q->ais->message, "in"));
    if (rc == ERR_OK) {
        b->xact = xact_begin(q->api->xacts, "get-batch", span_of(b->told[0].provider),
                             span_of(b->told[0].bucket), "gbt-");
        rc = b->xact != NULL ? getbatch_send(b)
                             : ais_fault(q, 503, NULL, "too many jobs are running");
        xact_end(q->api->xacts, &b->xact, rc != ERR_OK ? q->fault.message : NULL);
    }
    for (unsigned k = 0; k < b->bucket_count; k++)
        map_bucket_drop(&b->buckets[k]);
    return rc;
}
