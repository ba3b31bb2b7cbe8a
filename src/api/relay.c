#include "api/relay.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "peer/peer.h"
#include "rt/file.h"

#define RELAY_BYTES (128u << 10) /* of a body in transit, each way one after the other */
#define RELAY_SMALL (8u << 10)   /* bodies up to this size travel through the arena */
#define RELAY_TRIES 2u

struct relaying {
    struct request *q;
    struct nodes_route to;
    struct http_call *call; /* owned; NULL: none */
    struct fields headers;
    int64_t length; /* of the request's body */
    bool here;      /* the body came with the head, and is `body` */
    struct span body;
    bool consumed;     /* bytes of it were taken from the client otherwise */
    struct iobuf *buf; /* owned; NULL: none */
    char *at;
    size_t room;
};

/* ---- headers ---- */

/* What belongs to one connection, or is set by the sender of each hop. */
static bool
is_of_one_hop(struct span name)
{
    static const char *const names[] = {
        "connection",     "keep-alive",        "te",      "upgrade", "expect",
        "content-length", "transfer-encoding", "trailer", "date",    "host",
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (span_case_is(name, names[i]))
            return true;
    return name.len > 8 && strncasecmp(name.at, "forebay-", 8) == 0;
}

/* A client's Date is signed; the Date of an answer is the sender's. */
static bool
is_passed_on(struct span name, bool request)
{
    return (request && span_case_is(name, "date")) || !is_of_one_hop(name);
}

static struct fields
request_headers(struct request *q)
{
    const struct http_head *h = q->http->head;
    struct field *out = arena_alloc(q->arena, (h->count + 1) * sizeof *out);
    size_t count = 0;

    for (unsigned i = 0; i < h->count; i++)
        if (is_passed_on(h->headers[i].name, true))
            out[count++] = h->headers[i];
    return (struct fields){out, count};
}

static void
answer_headers(struct request *q, const struct http_head *h)
{
    for (unsigned i = 0; i < h->count; i++)
        if (is_passed_on(h->headers[i].name, false))
            http_header(q->http, arena_strdup(q->arena, h->headers[i].name),
                        h->headers[i].value);
}

/* ---- the way there ---- */

static enum err
relay_begin(struct relaying *r, struct errbuf *eb)
{
    const struct http_request *http = r->q->http;
    struct peer_target to = {r->to.address, r->to.number, r->to.epoch};
    struct peer_request req = {
        .method = arena_strdup(r->q->arena, http->head->method_text),
        .target = http->head->target,
        .host = http->head->host,
        .headers = r->headers,
        .length = r->length,
        .expect_continue = r->length != 0 && r->length != HTTP_NO_BODY && !r->here,
        .flags =
            (http->is_loopback ? PEER_LOOPBACK : 0u) | (http->is_tls ? PEER_TLS : 0u),
        .id = http->id,
        .client = http->peer,
    };

    return peer_call_begin(r->q->api->peers, &to, &req, &r->call, eb);
}

static enum err
relay_get_buffer(struct relaying *r, int64_t bytes, struct errbuf *eb)
{
    enum err rc;

    if (r->at != NULL)
        return ERR_OK;
    if (bytes >= 0 && bytes <= (int64_t)RELAY_SMALL) {
        r->room = RELAY_SMALL;
        r->at = arena_alloc(r->q->arena, r->room);
        return ERR_OK;
    }
    rc = iobuf_wait(RELAY_BYTES, deadline_in_ms(IOBUF_WAIT_MS), &r->buf); /* may switch */
    if (rc != ERR_OK)
        return err_set(eb, ERR_BUSY, "no memory is free for a request to another node");
    r->at = r->buf->at;
    r->room = r->buf->room;
    return ERR_OK;
}

static void
relay_drop_buffer(struct relaying *r)
{
    iobuf_drop(&r->buf);
    r->at = NULL;
}

/* The client's body, as far as the owner wants it. */
static enum err
relay_send_body(struct relaying *r, struct errbuf *eb)
{
    enum err rc;
    size_t n;

    if (r->length == HTTP_NO_BODY || r->length == 0)
        return ERR_OK;
    if (r->here)
        return http_call_write(r->call, r->body.at, r->body.len, eb);
    if (http_call_answered(r->call))
        return ERR_OK;
    rc = relay_get_buffer(r, r->length, eb);
    while (rc == ERR_OK && !http_call_answered(r->call)) {
        r->consumed = true;
        rc = http_body_read(r->q->http, r->at, r->room, &n, eb);
        if (rc != ERR_OK || n == 0)
            break;
        rc = http_call_write(r->call, r->at, n, eb);
        if (rc == ERR_CLOSED || rc == ERR_TIMEOUT)
            rc = ERR_UNAVAILABLE;
    }
    relay_drop_buffer(r);
    return rc;
}

/* ---- the way back ---- */

/* Of the body of the answer; of HEAD: of the one that GET would have. */
static int64_t
answer_length(const struct request *q, const struct http_head *h)
{
    uint64_t n;

    if (q->http->head->method != HTTP_METHOD_HEAD)
        return h->body_length == HTTP_TO_END ? HTTP_CHUNKED : h->body_length;
    if (num_u64(http_get(h, HTTP_CONTENT_LENGTH), &n) == ERR_OK && n <= INT64_MAX)
        return (int64_t)n;
    return 0;
}

/* Once the head is begun, what goes wrong resets the client's connection. */
static enum err
relay_answer(struct relaying *r, const struct http_head *h, struct errbuf *eb)
{
    struct request *q = r->q;
    int64_t length = answer_length(q, h);
    enum err rc = ERR_OK;
    size_t n;

    if (http_call_has_body(r->call))
        rc = relay_get_buffer(r, length, eb);
    if (rc != ERR_OK)
        return rc;
    answer_headers(q, h);
    rc = http_reply_begin(q->http, h->code, length);
    if (rc != ERR_OK)
        return rc;
    while (http_call_has_body(r->call)) {
        if (http_call_read(r->call, r->at, r->room, &n, eb) != ERR_OK) {
            LOG(LOG_WARN, "relay.broken", eb->text, L_TEXT("id", q->http->id),
                L_U64("node", r->to.number), L_SPAN("path", q->http->head->path));
            http_reply_abort(q->http);
            return ERR_OK;
        }
        if (n == 0)
            break;
        if (http_reply_write(q->http, r->at, n) != ERR_OK)
            return ERR_OK; /* the client has left: the end of the call ends the owner's work */
    }
    (void)http_reply_end(q->http);
    return ERR_OK;
}

/* One try. *stale: the epoch of the owner's map, which is later; nothing was read or answered. */
static enum err
relay_once(struct relaying *r, uint64_t *stale, struct errbuf *eb)
{
    const struct http_head *head;
    enum err rc;

    *stale = 0;
    assert(r->call == NULL);
    rc = relay_begin(r, eb);
    if (rc == ERR_OK)
        rc = relay_send_body(r, eb);
    if (rc == ERR_OK) {
        rc = http_call_finish(r->call, &head, eb);
        if (rc != ERR_OK) {
            err_prefix(eb, "node %u", r->to.number);
            rc = ERR_UNAVAILABLE; /* of a write the outcome is unknown */
        }
    }
    if (rc == ERR_OK && peer_stale_epoch(head) != 0 && !r->consumed)
        *stale = peer_stale_epoch(head);
    else if (rc == ERR_OK && peer_stale_epoch(head) != 0)
        rc = err_set(eb, ERR_UNAVAILABLE,
                     "the map of the cluster changed during the request; retry");
    else if (rc == ERR_OK)
        rc = relay_answer(r, head, eb);
    http_call_end(&r->call);
    relay_drop_buffer(r);
    return rc;
}

/* ---- deciding ---- */

/* A request that another node passed on, or split, for a key that is not here: its sender has another map. */
static enum err
refuse_misdirected(struct request *q, bool *answered)
{
    http_header_u64(q->http, PEER_EPOCH_FIELD, nodes_epoch(q->api->options.nodes));
    (void)http_reply(q->http, PEER_STALE, SPAN("another node owns the key\n"));
    *answered = true;
    return ERR_OK;
}

static enum err
relay_pass_on(struct request *q, const struct map_bucket *b, struct span key,
              struct nodes_route *to, bool *answered, struct errbuf *eb)
{
    struct nodes *nodes = q->api->options.nodes;
    struct relaying *r = arena_alloc(q->arena, sizeof *r);
    const struct http_head *head = q->http->head;
    enum err rc = ERR_OK;

    *r = (struct relaying){.q = q, .headers = request_headers(q)};
    r->length = http_body_length(q->http);
    if (r->length == 0 && !head->has_length)
        r->length = HTTP_NO_BODY;
    r->here = r->length > 0 && http_body_here(q->http, &r->body);
    for (unsigned i = 0; i < RELAY_TRIES; i++) {
        uint64_t stale;

        r->to = *to;
        /* The address is the snapshot's: it must outlive the switches of a try. */
        r->to.address = arena_strdup(q->arena, span_of(to->address));
        q->relayed_to = to->number;
        rc = relay_once(r, &stale, eb);
        if (rc != ERR_OK || stale == 0) {
            *answered = rc == ERR_OK;
            return rc;
        }
        rc = nodes_catch_up(nodes, stale, eb);
        if (rc == ERR_OK)
            rc = nodes_route(nodes, b, key, to, eb);
        if (rc != ERR_OK)
            return rc;
        q->relayed_to = 0;
        if (to->here && r->here)
            return err_set(eb, ERR_UNAVAILABLE,
                           "the map of the cluster changed during the request; retry");
        if (to->here)
            return ERR_OK;
    }
    return err_set(
        eb, ERR_UNAVAILABLE,
        "the map of the cluster is changing, and its nodes do not agree yet on "
        "who holds the key; retry later");
}

enum err
relay_to_owner(struct request *q, const struct map_bucket *b, struct span key,
               bool *answered)
{
    struct nodes *nodes = q->api->options.nodes;
    const struct map_bucket *held;
    struct errbuf eb = {{0}};
    struct nodes_route to;
    enum err rc;

    *answered = false;
    if (nodes == NULL)
        return ERR_OK;
    rc = nodes_route(nodes, b, key, &to, &eb);
    if (rc == ERR_OK && !to.here && q->from != NULL)
        return refuse_misdirected(q, answered);
    if (rc == ERR_OK && !to.here) {
        held = map_bucket_ref(b);
        rc = relay_pass_on(q, held, key, &to, answered, &eb);
        map_bucket_drop(&held);
    }
    q->node_epoch = to.epoch;
    if (rc != ERR_OK && q->fault.code == S3_OK)
        fault_from(q, rc, &eb);
    return rc;
}

enum err
relay_route(struct request *q, bool *answered)
{
    const struct map_bucket *b;

    *answered = false;
    if (q->api->options.nodes == NULL)
        return ERR_OK;
    b = map_bucket_find(map_now(q->api->options.map), q->name.bucket);
    return b != NULL ? relay_to_owner(q, b, q->name.key, answered) : ERR_OK;
}

bool
relay_may_answer(struct http_request *http, void *arg)
{
    const struct api *a = arg;
    const struct request *q =
        http->user; /* NULL: from the response cache, or refused before */

    if (q != NULL && (q->relayed_to != 0 || q->front->handle == admin_handle))
        return true;
    return nodes_has_lease(a->options.nodes);
}
