#include "api/node_ask.h"

#include <assert.h>
#include <string.h>

#include "api/s3/s3.h"
#include "api/share.h"
#include "base/mem.h"
#include "base/num.h"
#include "peer/peer.h"

#define ASK_BODY_MAX (16u << 10)
#define ASK_PREFIX   "/_peer/"

typedef enum err node_answer(struct request *q, struct buf *out, struct errbuf *eb);

/* ---- answering ---- */

/* A page of the names that this node owns. */
static enum err
answer_names(struct request *q, struct buf *out, struct errbuf *eb)
{
    struct share_ask ask;
    struct share_page page;
    struct span body;
    struct query query;
    enum err rc = http_body_all(q->http, ASK_BODY_MAX, &body, eb);

    if (rc == ERR_OK && query_parse(body, q->arena, &query, &q->fault) != ERR_OK)
        rc = err_set(eb, ERR_BAD_REQUEST, "%s", q->fault.message);
    if (rc == ERR_OK)
        rc = share_ask_get(&query, &ask, eb);
    if (rc == ERR_OK)
        rc = share_list_owned(q->api->options.nodes, q->api->options.object, q->bucket,
                              &ask, request_work(q), &page, eb);
    if (rc == ERR_OK)
        share_page_encode(&page, out);
    return rc;
}

/* Closes the bucket here, where it is empty; the asking node removes it, or has it opened again. */
static enum err
answer_close(struct request *q, struct buf *out, struct errbuf *eb)
{
    (void)out;
    return object_bucket_close_here(q->api->options.object, q->bucket, eb);
}

static enum err
answer_reopen(struct request *q, struct buf *out, struct errbuf *eb)
{
    (void)out;
    (void)eb;
    object_bucket_reopen_here(q->api->options.object, q->bucket);
    return ERR_OK;
}

static enum err
item_number(struct span text, bool *has, uint64_t *out)
{
    *has = text.len > 0;
    return *has ? num_u64(text, out) : ERR_OK;
}

static enum err
item_get(const struct query *q, struct s3xml_delete_item *out, struct errbuf *eb)
{
    uint64_t size = 0, mtime_s = 0;

    *out = (struct s3xml_delete_item){.key = query_get(q, "key"),
                                      .version = query_get(q, "version"),
                                      .etag = query_get(q, "etag")};
    if (out->key.len == 0 || out->key.len > S3_KEY_MAX ||
        item_number(query_get(q, "size"), &out->has_size, &size) != ERR_OK ||
        item_number(query_get(q, "mtime"), &out->has_mtime, &mtime_s) != ERR_OK ||
        mtime_s > INT64_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "bad key or condition in a delete");
    out->size = size;
    out->mtime_s = (int64_t)mtime_s;
    if (out->etag.len == 0)
        out->etag = (struct span){NULL, 0};
    out->has_condition = out->etag.at != NULL || out->has_size || out->has_mtime;
    return ERR_OK;
}

/* The outcome of S3 is an answer, too. */
static void
put_outcome(struct request *q, enum err rc, const struct object_deleted *done,
            struct buf *out)
{
    char version[OBJECT_VERSION_TEXT] = "";

    query_put(out, "err", span_of(err_name(rc)));
    if (rc != ERR_OK) {
        char code[16];

        snprintf(code, sizeof code, "%u", (unsigned)q->fault.code);
        query_put(out, "code", span_of(code));
        query_put(out, "message", span_of(q->fault.message));
        return;
    }
    if (done->named)
        object_version_text(&done->version, version);
    query_put(out, "marker", done->marker ? SPAN("1") : SPAN(""));
    query_put(out, "version", span_of(version));
}

static enum err
answer_delete(struct request *q, struct buf *out, struct errbuf *eb)
{
    struct s3xml_delete_item item;
    struct object_deleted done;
    struct span body;
    struct query query;
    enum err rc = http_body_all(q->http, ASK_BODY_MAX, &body, eb);

    if (rc == ERR_OK && query_parse(body, q->arena, &query, &q->fault) != ERR_OK)
        rc = err_set(eb, ERR_BAD_REQUEST, "%s", q->fault.message);
    if (rc == ERR_OK)
        rc = item_get(&query, &item, eb);
    if (rc == ERR_OK && !nodes_owns(q->api->options.nodes, q->bucket, item.key))
        rc = err_set(eb, ERR_UNAVAILABLE,
                     "the map of the cluster is changing; retry later");
    if (rc != ERR_OK)
        return rc;
    rc = s3_delete_item(q, &item, &done);
    put_outcome(q, rc, &done, out);
    audit_write(q, false);
    return ERR_OK;
}

static const struct {
    const char *op;
    node_answer *run;
} answers[] = {
    {"names", answer_names},
    {"delete", answer_delete},
    {"close", answer_close},
    {"reopen", answer_reopen},
};

bool
node_ask_is_one(const struct request *q)
{
    return q->from != NULL && (q->from->flags & PEER_TRUSTED) != 0 &&
           span_starts(q->http->head->path, SPAN(ASK_PREFIX));
}

static enum err
answer_run(struct request *q, struct buf *out, struct errbuf *eb)
{
    struct span op = span_from(q->http->head->path, sizeof ASK_PREFIX - 1);
    struct span uname = fields_get(http_fields(q->http->head), NODE_BUCKET_FIELD);
    const struct map_bucket *b = map_bucket_find(map_now(q->api->options.map), uname);

    q->name.bucket = uname;
    if (b == NULL)
        return err_set(eb, ERR_NO_BUCKET, "there is no bucket \"%.*s\"",
                       (int)MIN(uname.len, 64u), uname.at);
    q->bucket = map_bucket_ref(b);
    for (size_t i = 0; i < ARRAY_LEN(answers); i++)
        if (span_is(op, answers[i].op))
            return answers[i].run(q, out, eb);
    return err_set(eb, ERR_NOT_IMPLEMENTED, "this node does not know the question %.*s",
                   (int)MIN(op.len, 64u), op.at);
}

void
node_ask_serve(struct request *q)
{
    struct errbuf eb = {{0}};
    struct buf out;
    enum err rc;

    assert(node_ask_is_one(q));
    buf_init(&out, SHARE_PAGE_MAX);
    rc = answer_run(q, &out, &eb);
    if (rc == ERR_OK && out.full)
        rc = err_set(&eb, ERR_TOO_LARGE, "an answer of more than %u bytes",
                     SHARE_PAGE_MAX);
    if (rc == ERR_OK) {
        (void)http_reply(q->http, 200, buf_span(&out));
    } else {
        http_header(q->http, NODE_ERROR_FIELD, span_of(err_name(rc)));
        (void)http_reply(q->http, 500, span_of(eb.text));
    }
    buf_fini(&out);
}

/* ---- asking ---- */

/* The error that the other node has found; ERR_UNAVAILABLE where it names none. */
static enum err
error_of(const struct http_head *head)
{
    struct span name = fields_get(http_fields(head), NODE_ERROR_FIELD);

    for (unsigned i = ERR_OK + 1; i < ERR_COUNT_; i++)
        if (span_is(name, err_name((enum err)i)))
            return (enum err)i;
    return ERR_UNAVAILABLE;
}

static enum err
read_reply(struct http_call *call, struct buf *out, struct errbuf *eb)
{
    for (;;) {
        size_t room = MIN(out->limit - out->len, 65536), n;
        char one, *to = room > 0 ? buf_reserve(out, room) : &one;
        enum err rc = to == NULL ? ERR_TOO_LARGE
                                 : http_call_read(call, to, room > 0 ? room : 1, &n, eb);

        if (rc == ERR_TOO_LARGE || (rc == ERR_OK && room == 0 && n > 0))
            return err_set(eb, ERR_TOO_LARGE, "an answer of more than %zu bytes",
                           out->limit);
        if (rc != ERR_OK || n == 0)
            return rc != ERR_OK ? ERR_UNAVAILABLE : ERR_OK;
        out->len += n;
    }
}

enum err
node_ask(struct request *q, const struct nodes_route *to, const char *op,
         const struct map_bucket *b, struct span body, struct buf *out, uint64_t *stale,
         struct errbuf *eb)
{
    struct peer_target target = {to->address, to->number, to->epoch};
    struct field headers[] = {{SPAN(NODE_BUCKET_FIELD), span_of(b->uname)},
                              {SPAN(PEER_USER_FIELD), q->caller.name}};
    char path[32];
    struct peer_request req = {.method = "POST",
                               .headers = {headers, ARRAY_LEN(headers)},
                               .length = (int64_t)body.len,
                               .flags = PEER_TRUSTED,
                               .id = q->http->id,
                               .client = q->http->peer};
    const struct http_head *head;
    struct http_call *call = NULL;
    enum err rc;

    *stale = 0;
    req.target =
        (struct span){path, (size_t)snprintf(path, sizeof path, ASK_PREFIX "%s", op)};
    rc = peer_call_begin(q->api->peers, &target, &req, &call, eb);
    if (rc == ERR_OK && body.len > 0)
        rc = http_call_write(call, body.at, body.len, eb);
    if (rc == ERR_OK)
        rc = http_call_finish(call, &head, eb);
    if (rc == ERR_OK) {
        *stale = peer_stale_epoch(head);
        rc = read_reply(call, out, eb);
    } else {
        rc = ERR_UNAVAILABLE;
    }
    if (rc == ERR_OK && head->code != 200) {
        rc = error_of(head);
        err_set(eb, rc, "%.*s", (int)MIN(out->len, 300u), out->at);
    }
    if (rc != ERR_OK)
        err_prefix(eb, "node %u", to->number);
    http_call_end(&call);
    return rc;
}

static void
ask_put_number(struct buf *out, const char *name, uint64_t n)
{
    char text[24];

    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    query_put(out, name, span_of(text));
}

static enum err
error_named(struct span name)
{
    for (unsigned i = ERR_OK; i < ERR_COUNT_; i++)
        if (span_is(name, err_name((enum err)i)))
            return (enum err)i;
    return ERR_UNAVAILABLE;
}

static enum err
take_outcome(struct arena *a, struct span text, struct object_deleted *done,
             struct fault *fault)
{
    struct span version;
    struct query query;
    uint64_t code;
    enum err rc = query_parse(text, a, &query, fault);

    if (rc != ERR_OK)
        return rc;
    rc = error_named(query_get(&query, "err"));
    version = query_get(&query, "version");
    if (rc == ERR_OK) {
        done->marker = query_get(&query, "marker").len > 0;
        done->named = version.len > 0;
        if (done->named && !object_version_parse(version, &done->version))
            return fault_set(fault, S3_InternalError, NULL);
        return ERR_OK;
    }
    if (num_u64(query_get(&query, "code"), &code) != ERR_OK || code == S3_OK ||
        code >= S3_CODE_COUNT_)
        code = S3_InternalError;
    fault_set(fault, (enum s3_code)code, "%.*s", SPAN_ARG(query_get(&query, "message")));
    return rc;
}

enum err
node_ask_delete(struct request *q, const struct nodes_route *to,
                const struct s3xml_delete_item *item, struct object_deleted *done,
                struct fault *fault)
{
    struct errbuf eb = {{0}};
    struct buf body, out;
    uint64_t stale;
    enum err rc;

    buf_init(&body, ASK_BODY_MAX);
    buf_init(&out, KIB(8));
    query_put(&body, "key", item->key);
    query_put(&body, "version", item->version);
    if (item->etag.at != NULL)
        query_put(&body, "etag", item->etag);
    if (item->has_size)
        ask_put_number(&body, "size", item->size);
    if (item->has_mtime)
        ask_put_number(&body, "mtime", (uint64_t)item->mtime_s);
    rc = node_ask(q, to, "delete", q->bucket, buf_span(&body), &out, &stale, &eb);
    if (rc == ERR_OK) {
        struct arena *a = arena_new(KIB(4), KIB(64)); /* of each key: there may be many */

        rc = take_outcome(a, buf_span(&out), done, fault);
        arena_free(&a);
    } else
        fault_set(fault, S3_ServiceUnavailable, "%s", eb.text);
    buf_fini(&body);
    buf_fini(&out);
    return rc;
}
