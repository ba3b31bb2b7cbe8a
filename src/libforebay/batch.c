/* batch: many objects, ranges and members in one answer: POST /BUCKET?batch with format=frames (docs/s3.md).
 *
 * The answer is received as it comes into one piece of memory, frame heads included, and parsed where it lies: no byte is
 * copied. A batch that breaks off keeps its whole items and goes on with a request for the rest. When the server ends the
 * answer because of an item, that item is the first of the next request, and the server says in words what is wrong with it.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "libforebay/internal.h"
#include "wire/batchlist.h"
#include "wire/json.h"
#include "wire/s3name.h"

#define FRAME_HEAD    16u
#define ROOM_FIRST    KIB(256)
#define RECV_MIN      KIB(64) /* free room before each receive */
#define RECV_MOST     MIB(4)
#define ITEM_LIST_MAX (BATCHLIST_BYTES_MAX - 64u) /* of names in one request */
#define LIMIT_USUAL   GIB(64)

struct forebay_batch {
    char *bytes; /* owned */
    size_t len, room;
    struct forebay_part *parts; /* owned; `count` of them */
    size_t count;
};

/* A batch in progress, across requests. */
struct gathering {
    const struct forebay_wanted *wanted;
    const char *bucket;
    struct forebay_batch *batch;
    uint64_t limit;
    size_t done;  /* whole items */
    size_t first; /* the first item of the request in progress */
    size_t asked; /* the item behind its last one */
    size_t at;    /* in the bytes: the next frame head */
    struct buf list;
};

static void
set_item(struct forebay_error *e, size_t item)
{
    e->item = item;
}

/* ---- the list ---- */

/* Names for people: "object", or "object/member". */
static void
name_item(const struct forebay_wanted *w, size_t i, char *out, size_t room)
{
    const char *member = w->members != NULL ? w->members[i] : NULL;

    snprintf(out, room, "item %zu, \"%.100s%s%.60s\"", i, w->objects[i],
             member != NULL ? "/" : "", member != NULL ? member : "");
}

static bool
is_plain_json(const char *s)
{
    for (; *s != '\0'; s++)
        if ((unsigned char)*s < 0x20 || (unsigned char)*s > 0x7e || *s == '"' ||
            *s == '\\')
            return false;
    return true;
}

static void
put_json_text(struct buf *out, const char *name, const char *value)
{
    buf_puts(out, name);
    if (is_plain_json(value))
        buf_puts(out, value);
    else
        json_escape(out, span_of(value));
    buf_putc(out, '"');
}

static void
put_wanted_item(struct buf *out, const struct forebay_wanted *w, size_t i)
{
    uint64_t first = w->first != NULL ? w->first[i] : 0;
    uint64_t len = w->len != NULL ? w->len[i] : FOREBAY_TO_END;

    put_json_text(out, "{\"object\":\"", w->objects[i]);
    if (w->members != NULL && w->members[i] != NULL)
        put_json_text(out, ",\"member\":\"", w->members[i]);
    if (w->buckets != NULL && w->buckets[i] != NULL)
        put_json_text(out, ",\"bucket\":\"", w->buckets[i]);
    if (first > 0 || len != FOREBAY_TO_END)
        buf_printf(out, ",\"start\":%" PRIu64, first);
    if (len != FOREBAY_TO_END)
        buf_printf(out, ",\"end\":%" PRIu64, first + len - 1);
    buf_putc(out, '}');
}

/* Items from `done` on, as many as one request may carry. */
static void
write_list(struct gathering *g)
{
    const struct forebay_wanted *w = g->wanted;

    g->first = g->done;
    g->asked = g->done;
    buf_clear(&g->list);
    buf_puts(&g->list, "{\"items\":[");
    while (g->asked < w->count && g->asked - g->first < BATCHLIST_ITEMS_MAX) {
        size_t before = g->list.len;

        if (g->asked > g->first)
            buf_putc(&g->list, ',');
        put_wanted_item(&g->list, w, g->asked);
        if (g->list.full || g->list.len > ITEM_LIST_MAX) {
            g->list.len = before;
            g->list.full = false;
            break;
        }
        g->asked++;
    }
    buf_puts(&g->list, "]}");
    assert(g->asked > g->first); /* names have limits: check_wanted() */
    assert(!g->list.full);
}

static bool
check_wanted_item(const struct forebay_wanted *w, size_t i, struct forebay_error *e,
                  int *rc)
{
    const char *bucket = w->buckets != NULL ? w->buckets[i] : NULL;
    const char *member = w->members != NULL ? w->members[i] : NULL;
    uint64_t first = w->first != NULL ? w->first[i] : 0;
    uint64_t len = w->len != NULL ? w->len[i] : FOREBAY_TO_END;
    char name[256];

    if (w->objects[i] == NULL) {
        *rc = result_invalid(e, "item %zu names no object", i);
        return false;
    }
    name_item(w, i, name, sizeof name);
    if (strlen(w->objects[i]) == 0 || strlen(w->objects[i]) > S3_KEY_MAX)
        *rc = result_invalid(e, "%s: its key has %zu bytes: 1 to %d", name,
                             strlen(w->objects[i]), S3_KEY_MAX);
    else if (member != NULL && (member[0] == '\0' || strlen(member) > BATCHLIST_NAME_MAX))
        *rc = result_invalid(e, "%s: its member has %zu bytes: 1 to %u", name,
                             strlen(member), BATCHLIST_NAME_MAX);
    else if (!utf8_valid(span_of(w->objects[i])) ||
             (member != NULL && !utf8_valid(span_of(member))))
        *rc = result_invalid(e, "%s: its name is not UTF-8", name);
    else if (bucket != NULL && !s3_bucket_ok(span_of(bucket)))
        *rc = result_invalid(e, "%s: \"%.100s\" cannot be a bucket's name", name, bucket);
    else if (len == 0 || (len != FOREBAY_TO_END && len - 1 > INT64_MAX - first) ||
             first > INT64_MAX)
        *rc = result_invalid(e,
                             "%s: %" PRIu64 " bytes from %" PRIu64
                             " on: a range has at least 1 byte and ends below 2^63",
                             name, len, first);
    else
        return true;
    return false;
}

static bool
check_wanted(const struct forebay_wanted *w, struct forebay_error *e, int *rc)
{
    if (w->count == 0 || w->count > FOREBAY_BATCH_MAX) {
        *rc = result_invalid(e, "a batch of %zu items: 1 to %u; split it into several",
                             w->count, FOREBAY_BATCH_MAX);
        return false;
    }
    for (size_t i = 0; i < w->count; i++)
        if (!check_wanted_item(w, i, e, rc)) {
            set_item(e, i);
            return false;
        }
    return true;
}

/* ---- the answer ---- */

static uint64_t
take_be(const char *at, unsigned bytes)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < bytes; i++)
        v = v << 8 | (unsigned char)at[i];
    return v;
}

/* Room for `more` bytes at least. Memory whose size the server chooses: it may be refused. */
static enum err
batch_reserve(struct gathering *g, uint64_t more, struct errbuf *eb)
{
    struct forebay_batch *b = g->batch;
    uint64_t wanted = b->len + more;
    size_t room = MAX(b->room, ROOM_FIRST);
    char *bytes;

    if (b->room - b->len >= more)
        return ERR_OK;
    if (wanted > g->limit + FRAME_HEAD * (uint64_t)b->count)
        return err_set(eb, ERR_TOO_LARGE,
                       "the items have over %" PRIu64 " bytes together", g->limit);
    while (room < wanted)
        room *= 2;
    bytes = realloc(b->bytes, room);
    if (bytes == NULL)
        return err_set(eb, ERR_TOO_LARGE, "there is no memory for %" PRIu64 " bytes",
                       wanted);
    b->bytes = bytes;
    b->room = room;
    return ERR_OK;
}

/* Takes the frames that are there whole. *need: bytes that the next one lacks, as far as that is known. */
static enum err
take_frames(struct gathering *g, uint64_t *need, struct errbuf *eb)
{
    struct forebay_batch *b = g->batch;

    *need = RECV_MIN;
    while (b->len - g->at >= FRAME_HEAD) {
        const char *head = b->bytes + g->at;
        uint64_t index = take_be(head, 4), status = take_be(head + 4, 4);
        uint64_t size = take_be(head + 8, 8), there = b->len - g->at - FRAME_HEAD;

        if (index != g->done - g->first || g->done >= g->asked ||
            (status != 200 && status != 404) || (status == 404 && size > 0))
            return err_set(eb, ERR_BACKEND,
                           "the server sent item %" PRIu64 " with status %" PRIu64
                           " where item %zu was due",
                           index + g->first, status, g->done);
        if (size > g->limit)
            return err_set(eb, ERR_TOO_LARGE,
                           "an item of %" PRIu64 " bytes, at most %" PRIu64, size,
                           g->limit);
        if (there < size) {
            *need = size - there;
            return ERR_OK;
        }
        b->parts[g->done++] =
            (struct forebay_part){g->at + FRAME_HEAD, size, status == 200};
        g->at += FRAME_HEAD + (size_t)size;
        assert(g->at <= b->len);
    }
    return ERR_OK;
}

static enum err
receive_frames(struct gathering *g, struct exchange *x, struct errbuf *eb)
{
    struct forebay_batch *b = g->batch;
    uint64_t need = RECV_MIN;
    size_t n = 1;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && n > 0) {
        rc = batch_reserve(g, MAX(MIN(need, RECV_MOST), RECV_MIN), eb);
        if (rc == ERR_OK)
            rc = exchange_read(x, b->bytes + b->len, MIN(b->room - b->len, RECV_MOST), &n,
                               eb);
        if (rc != ERR_OK)
            break;
        b->len += n;
        rc = take_frames(g, &need, eb);
    }
    if (rc == ERR_OK && g->done < g->asked)
        rc = err_set(eb, ERR_INCOMPLETE, "the server sent %zu of %zu items",
                     g->done - g->first, g->asked - g->first);
    if (rc == ERR_OK && g->at != b->len)
        rc = err_set(eb, ERR_BACKEND, "the server sent more than the items asked for");
    b->len = g->at; /* what is not whole is asked for again */
    return rc;
}

static enum err
batch_attempt(struct forebay *f, struct gathering *g, struct failure *why,
              struct errbuf *eb)
{
    struct param params[] = {{SPAN("batch"), SPAN("")}, {SPAN("format"), SPAN("frames")}};
    struct call c = {.method = "POST",
                     .bucket = span_of(g->bucket),
                     .params = params,
                     .param_count = ARRAY_LEN(params),
                     .headers = {{SPAN("content-type"), SPAN("application/json")}},
                     .header_count = 1,
                     .hash_body = true};
    struct exchange x;
    enum err rc;

    write_list(g);
    c.body = buf_span(&g->list);
    rc = exchange_begin(f, &c, &x, why, eb);
    if (rc != ERR_OK)
        return rc;
    rc = receive_frames(g, &x, eb);
    why->retry = rc == ERR_INCOMPLETE || rc == ERR_CLOSED || rc == ERR_TIMEOUT;
    exchange_end(&x);
    return rc;
}

/* Which item the failure is about, where that is known: the server's sentence counts from the first item of its list. */
static void
blame_item(const struct gathering *g, enum err rc, const struct failure *why,
           struct errbuf *eb, struct forebay_error *e)
{
    const char *says = strstr(eb->text, "item ");
    unsigned long index = 0;
    bool named = says != NULL && sscanf(says, "item %lu", &index) == 1 &&
                 index < g->asked - g->first;
    char name[256];

    if (why->status >= 400 && named)
        set_item(e, g->first + index);
    else if (why->status == 200 && g->done < g->wanted->count)
        set_item(e, g->done);
    if (e->item == FOREBAY_NO_ITEM || (named && g->first == 0 && why->status >= 400))
        return;
    name_item(g->wanted, e->item, name, sizeof name);
    err_prefix(eb, "%s", name);
    (void)rc;
}

static int
gather_items(struct forebay *f, struct gathering *g, struct forebay_error *e)
{
    struct attempts tries = {0};
    struct failure why = {0};
    struct errbuf eb = {{0}};

    while (g->done < g->wanted->count) {
        size_t before = g->done;
        enum err rc = batch_attempt(f, g, &why, &eb);

        if (g->done > before)
            tries.failed = 0;
        if (rc == ERR_OK || attempts_go_on(f, &tries, rc, &why, &eb))
            continue;
        blame_item(g, rc, &why, &eb, e);
        return result_of(rc, &why, &eb, e);
    }
    return FOREBAY_OK;
}

static int
refuse_missing(const struct gathering *g, struct forebay_error *e)
{
    char name[256];

    for (size_t i = 0; i < g->batch->count; i++) {
        if (g->batch->parts[i].found != 0)
            continue;
        name_item(g->wanted, i, name, sizeof name);
        snprintf(e->text, sizeof e->text, "s3://%s: %s does not exist", g->bucket, name);
        set_item(e, i);
        return e->code = FOREBAY_NOT_FOUND;
    }
    return FOREBAY_OK;
}

int
forebay_get_batch(struct forebay *f, const char *bucket,
                  const struct forebay_wanted *wanted, struct forebay_batch **out,
                  struct forebay_error *e)
{
    struct gathering g = {.wanted = wanted,
                          .bucket = bucket,
                          .limit = wanted->limit > 0 ? wanted->limit : LIMIT_USUAL};
    int rc;

    *out = NULL;
    if (!check_names(bucket, NULL, e, &rc) || !check_wanted(wanted, e, &rc))
        return rc;
    g.batch = xcalloc(1, sizeof *g.batch);
    g.batch->count = wanted->count;
    g.batch->parts = xcalloc(wanted->count, sizeof *g.batch->parts);
    buf_init(&g.list, BATCHLIST_BYTES_MAX);
    rc = gather_items(f, &g, e);
    buf_fini(&g.list);
    if (rc == FOREBAY_OK && wanted->fail_on_missing != 0)
        rc = refuse_missing(&g, e);
    if (rc != FOREBAY_OK) {
        forebay_batch_free(&g.batch);
        return rc;
    }
    *out = g.batch;
    return FOREBAY_OK;
}

const void *
forebay_batch_bytes(const struct forebay_batch *b, size_t *len)
{
    *len = b->len;
    return b->bytes;
}

const struct forebay_part *
forebay_batch_parts(const struct forebay_batch *b, size_t *count)
{
    *count = b->count;
    return b->parts;
}

void
forebay_batch_free(struct forebay_batch **bp)
{
    struct forebay_batch *b = *bp;

    *bp = NULL;
    if (b == NULL)
        return;
    free(b->bytes);
    free(b->parts);
    free(b);
}
