#include "api/inline_get.h"

#include <assert.h>
#include <string.h>

#include "api/access.h"
#include "api/response_cache.h"
#include "api/s3/s3.h"
#include "api/signature_cache.h"
#include "base/metrics.h"

/* ---- plain? ---- */

/* Header fields that do not affect the reply to a GET. The http room handles Connection and similar fields. */
#define BIT(f) (UINT64_C(1) << HTTP_##f)
#define PLAIN_FIELDS                                                                     \
    (BIT(HOST) | BIT(USER_AGENT) | BIT(ACCEPT) | BIT(ACCEPT_ENCODING) |                  \
     BIT(CONNECTION) | BIT(KEEP_ALIVE) | BIT(CACHE_CONTROL) | BIT(CONTENT_TYPE) |        \
     BIT(AMZ_SDK_INVOCATION_ID) | BIT(AMZ_SDK_REQUEST))
#define SIGNATURE_FIELDS                                                                 \
    (BIT(AUTHORIZATION) | BIT(AMZ_DATE) | BIT(DATE) | BIT(AMZ_CONTENT_SHA256) |          \
     BIT(AMZ_SECURITY_TOKEN))

static bool
is_signed(const struct http_request *http)
{
    return (http->head->seen & BIT(AUTHORIZATION)) != 0;
}

static bool
is_plain(const struct http_request *http)
{
    const struct http_head *h = http->head;
    uint64_t allowed = is_signed(http) ? PLAIN_FIELDS | SIGNATURE_FIELDS : PLAIN_FIELDS;

    return h->method == HTTP_METHOD_GET && (h->seen & ~allowed) == 0 &&
           h->unknown_count == 0 && h->body_length == 0 && !http->draining &&
           h->host.len + h->target.len < CACHED_RESPONSE_TEXT / 2;
}

/* ---- from the response cache ---- */

static void
end_read(void *read)
{
    object_inline_end(read);
}

/* Sends the bytes of a read after the head without a copy; end(arg) releases them in every case. */
static enum err
send_read(struct http_request *http, const struct object_inline *read,
          void (*end)(void *arg), void *arg)
{
    http_reply_headroom(http, read->headroom);
    return http_reply_zero_copy(http, 200, read->pieces, read->count, end, arg);
}

/* Uses the cached head with this request's ids; on a connection that will close, only its lines. */
static void
put_cached_head(struct http_request *http, const struct cached_response *k)
{
    struct span head = {k->text + k->host_len + k->target_len, k->head_len};
    char *lines = http_reply_template(http, head, k->lines_at);

    if (lines != NULL) {
        request_write_ids(lines, http->id);
        return;
    }
    request_ids_header(http);
    head = span_from(head, k->lines_at + REQUEST_IDS_LEN);
    http_header_lines(http, (struct span){head.at, head.len - 2}); /* its empty line */
}

/* This node owned the key by the map of that epoch. */
static bool
still_owns(const struct api *a, const struct cached_response *k)
{
    return k->epoch == nodes_epoch(a->options.nodes) && nodes_has_lease(a->options.nodes);
}

static bool
serve_cached(struct api *a, struct http_request *http, struct cached_response *k)
{
    struct object_inline *read = arena_alloc(http->arena, sizeof *read);

    if (k->map_serial != map_serial(map_now(a->options.map)) ||
        (a->options.nodes != NULL && !still_owns(a, k)) ||
        !object_inline_revalidate(a->options.object, &k->object, read))
        return false;
    metric_add(M_RESPONSE_CACHE_HITS, 0, 1);
    put_cached_head(http, k);
    /* An error means that the client disconnected. */
    (void)!send_read(http, read, end_read, read);
    return http_reply_began(http);
}

/* True if the cached response may be sent to this caller. Unsigned: it was sent to an unsigned request of the same kind of
 * peer. Signed: the signature is valid, and the response was made for the same key. */
static bool
was_given_to(const struct api *a, const struct http_request *http,
             const struct cached_response *k)
{
    if (!is_signed(http))
        return k->to_anonymous && k->on_loopback == http->is_loopback;
    return k->users != 0 && k->users == auth_serial(a->options.auth) &&
           k->key == signature_cache_find(a, http);
}

static bool
find_and_serve(struct api *a, struct http_request *http)
{
    struct cached_response *k = response_cache_find(a->responses, http);

    return k != NULL && was_given_to(a, http, k) && serve_cached(a, http, k);
}

bool
inline_get_cached(struct api *a, struct http_request *http)
{
    return is_plain(http) && find_and_serve(a, http);
}

/* Records that this caller passed the gate: for the next request a valid signature suffices. */
static void
keep_key(struct cached_response *k, const struct caller *caller)
{
    k->key = caller->signed_request ? caller->signed_by : NULL;
    k->users = caller->signed_request ? caller->users : 0;
}

bool
inline_get_authorized(struct request *q)
{
    struct cached_response *k = NULL;

    if (q->caller.signed_request && q->caller.by_object == 0 && !access_has_policy(q) &&
        is_plain(q->http))
        k = response_cache_find(q->api->responses, q->http);
    if (k == NULL)
        return false;
    keep_key(k, &q->caller);
    return serve_cached(q->api, q->http, k);
}

void
inline_get_keep(struct request *q, const struct object_get *get)
{
    const struct http_head *h = q->http->head;
    size_t names = h->host.len + h->target.len, len, lines_at;
    struct object_revalidated object;
    char head[CACHED_RESPONSE_TEXT];
    struct cached_response *k;

    /* What a policy or an object's list decided holds for this request only. */
    if (q->caller.by_object != 0 || access_has_policy(q))
        return;
    /* Of S3 a query always means something; of AIS the operation has looked at it. */
    if (q->api->responses == NULL || !is_plain(q->http) ||
        (h->query.at != NULL && q->ais == NULL) ||
        http_header_text(q->http).len < REQUEST_IDS_LEN ||
        !object_revalidated_keep(get, &object))
        return;
    len = http_template_make(q->http, object.size, head, sizeof head - names, &lines_at);
    k = len > 0 ? response_cache_place(q->api->responses, q->http) : NULL;
    if (k == NULL)
        return;
    assert(lines_at + REQUEST_IDS_LEN < len);
    k->object = object;
    k->map_serial = q->map_serial;
    k->epoch = q->node_epoch;
    k->host_len = (uint16_t)h->host.len;
    k->target_len = (uint16_t)h->target.len;
    k->head_len = (uint16_t)len;
    k->lines_at = (uint16_t)lines_at;
    /* Not what a token or a password opened. */
    k->to_anonymous =
        q->caller.kind == CALLER_ANONYMOUS || q->caller.kind == CALLER_LOCAL;
    k->on_loopback = q->http->is_loopback;
    keep_key(k, &q->caller);
    memcpy(k->text, h->host.at, h->host.len);
    memcpy(k->text + h->host.len, h->target.at, h->target.len);
    memcpy(k->text + names, head, len);
}

/* ---- from the disk ---- */

struct async_get {
    struct object_inline read;
    struct request q;
    struct object_info info;
};

static void
async_end(void *async)
{
    struct async_get *g = async;

    object_inline_end(&g->read);
    map_bucket_drop(&g->q.bucket);
}

static void
async_on_done(struct object_inline *read, bool good)
{
    struct async_get *g = CONTAINER_OF(read, struct async_get, read);
    struct http_request *http = g->q.http;

    if (good && !nodes_has_lease(g->q.api->options.nodes)) {
        async_end(g);
        good = false;
    } else if (good) {
        object_inline_info(read, &g->info);
        s3_put_found_headers(&g->q, &g->info);
        good = send_read(http, read, async_end, g) == ERR_OK;
    } else {
        async_end(g);
    }
    http_deferred_done(http, good);
}

/* On abandon: a hanging disk delays neither server shutdown nor the close of a connection. */
static void
async_on_abandon(struct http_request *http)
{
    struct async_get *g = CONTAINER_OF((struct request *)http->user, struct async_get, q);

    object_inline_abandon(&g->read);
    async_end(g);
}

/* Finds bucket and key, and checks that the caller may read the key. */
static bool
async_find(struct async_get *g)
{
    struct request *q = &g->q;
    const struct map_bucket *b;

    if (request_split_name(q) != ERR_OK || !q->front->serves_objects ||
        q->name.key.len == 0 || !gate_may_read(q))
        return false;
    b = map_bucket_find(map_now(q->api->options.map), q->name.bucket);
    if (b == NULL || !nodes_owns(q->api->options.nodes, b, q->name.key))
        return false;
    q->bucket = map_bucket_ref(b);
    if (object_inline_begin(q->api->options.object, b, q->name.key, &g->read))
        return true;
    map_bucket_drop(&q->bucket);
    return false;
}

bool
inline_get(struct api *a, struct http_request *http)
{
    struct async_get *g;

    if (!is_plain(http))
        return false;
    if (find_and_serve(a, http))
        return true;
    if (http->head->query.at != NULL)
        return false;
    g = arena_alloc(http->arena, sizeof *g);
    g->q = (struct request){.api = a, .http = http, .arena = http->arena, .op = OP_get};
    g->read.on_done = async_on_done;
    if (!async_find(g))
        return false;
    http->user = &g->q;
    http_defer(http, async_on_abandon);
    return true;
}
