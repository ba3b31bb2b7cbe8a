#include "peer/peer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"

/* Peers answer 100 Continue for sure: a gateway must not ask its client for a body that the owner may refuse. */
#define CONTINUE_MS      60000u
#define PER_HOST_MAX     256u
#define AUTHORITY_LABEL  "forebay cluster authority"
#define NO_REQUEST_ID    "0000000000000000"
#define RETRY_AFTER_TEXT "1"

struct peers {
    struct peer_options o; /* without the key; `name` is owned */
    unsigned char cluster_id[16];
    struct tls_context *server_tls, *client_tls; /* owned */
    struct http_server *server;                  /* owned */
    struct http_client *client;                  /* owned */
};

/* ---- server ---- */

static void
peer_answer_text(struct http_request *r, int status, const char *text)
{
    http_header(r, "content-type", SPAN("text/plain"));
    if (status == 503)
        http_header(r, "retry-after", SPAN(RETRY_AFTER_TEXT));
    (void)http_reply(r, status, span_of(text));
}

/* The map of this node has at least the epoch of the request afterwards. False: it was answered. May switch. */
static bool
epoch_fits(struct peers *p, struct http_request *r, const struct peer_head *h)
{
    struct errbuf eb = {{0}};
    uint64_t own = p->o.epoch(p->o.arg);
    enum err rc = ERR_OK;

    if (h->epoch > own) {
        rc = p->o.catch_up(p->o.arg, h->epoch, &eb); /* may switch */
        own = p->o.epoch(p->o.arg);
    }
    if (rc != ERR_OK || own < h->epoch) {
        peer_answer_text(r, 503, eb.text);
        return false;
    }
    if (h->epoch < own) {
        http_header_u64(r, PEER_EPOCH_FIELD, own);
        peer_answer_text(r, PEER_STALE, "the map of the cluster has a later epoch");
        return false;
    }
    return true;
}

static void
peer_handle(struct http_request *r, void *arg)
{
    struct fields f = http_fields(r->head);
    struct peer_head *h = arena_alloc(r->arena, sizeof *h);
    struct peers *p = arg;
    struct errbuf eb = {{0}};
    enum err rc = peer_head_parse(fields_get(f, PEER_FIELD), h, &eb);

    if (rc != ERR_OK) {
        peer_answer_text(r, rc == ERR_NOT_IMPLEMENTED ? 501 : 400, eb.text);
        return;
    }
    if (h->to != p->o.self) {
        err_set(&eb, ERR_UNAVAILABLE, "this is node %u (%s), not node %u", p->o.self,
                p->o.name, h->to);
        peer_answer_text(r, 503, eb.text);
        return;
    }
    http_body_trust(r);
    if (!epoch_fits(p, r, h))
        return;
    http_request_pass_on(r, h->id, h->client[0] != '\0' ? h->client : r->peer,
                         (h->flags & PEER_LOOPBACK) != 0, (h->flags & PEER_TLS) != 0);
    p->o.handle(r, h, p->o.arg);
}

static bool
peer_may_answer(struct http_request *r, void *arg)
{
    const struct peers *p = arg;

    return p->o.handler.may_answer == NULL ||
           p->o.handler.may_answer(r, p->o.handler.arg);
}

static void
peer_on_done(struct http_request *r, const struct http_done *d, void *arg)
{
    const struct peers *p = arg;

    if (p->o.handler.on_done != NULL)
        p->o.handler.on_done(r, d, p->o.handler.arg);
}

static size_t
peer_error_body(int status, const char *why, const char *id, char *out, size_t room,
                const char **content_type, void *arg)
{
    const struct peers *p = arg;

    if (p->o.handler.error_body != NULL)
        return p->o.handler.error_body(status, why, id, out, room, content_type,
                                       p->o.handler.arg);
    *content_type = "text/plain";
    return (size_t)snprintf(out, room, "%.100s\n", why);
}

/* ---- start and stop ---- */

static void
node_tls_name(uint32_t number, char out[32])
{
    snprintf(out, 32, "node-%u.forebay", number);
}

/* Another cluster id gives another authority. */
static enum err
peer_make_tls(struct peers *p, const unsigned char *key, struct errbuf *eb)
{
    unsigned char authority[32];
    char name[32];
    enum err rc;

    hash_hkdf_sha256(key, PEER_KEY_BYTES, p->cluster_id, sizeof p->cluster_id,
                     AUTHORITY_LABEL, authority);
    node_tls_name(p->o.self, name);
    rc = tls_group_new(&(struct tls_group_options){.authority = authority, .name = name},
                       &p->server_tls, &p->client_tls, eb);
    hash_wipe(authority, sizeof authority);
    return rc;
}

enum err
peer_start(const struct peer_options *o, struct peers **out, struct errbuf *eb)
{
    struct peers *p = xcalloc(1, sizeof *p);
    struct http_server_options server = {0};
    struct http_client_options client = {0};
    struct http_handler handler = {
        .handle = peer_handle,
        .may_answer = peer_may_answer,
        .on_done = peer_on_done,
        .error_body = peer_error_body,
        .arg = p,
    };
    enum err rc;

    assert(o->self > 0);
    assert(o->handle != NULL);
    assert(o->epoch != NULL);
    assert(o->catch_up != NULL);
    *out = NULL;
    p->o = *o;
    p->o.key = NULL;
    p->o.name = xstrdup(o->name);
    memcpy(p->cluster_id, o->cluster_id, sizeof p->cluster_id);
    rc = peer_make_tls(p, o->key, eb);
    if (o->server != NULL)
        server = *o->server;
    if (o->client != NULL)
        client = *o->client;
    server.tls = p->server_tls;
    server.frames = client.frames = true;
    client.tls = p->client_tls;
    if (client.continue_ms == 0)
        client.continue_ms = CONTINUE_MS;
    if (client.per_host_max == 0)
        client.per_host_max = PER_HOST_MAX;
    if (rc == ERR_OK)
        rc = http_server_new(&server, &handler, &p->server, eb);
    if (rc == ERR_OK)
        rc = http_client_new(&client, &p->client, eb);
    if (rc != ERR_OK) {
        peer_stop(&p);
        return rc;
    }
    *out = p;
    return ERR_OK;
}

enum err
peer_listen(struct peers *p, const char *addr, uint16_t port, uint16_t *bound,
            struct errbuf *eb)
{
    enum err rc = http_server_listen(p->server, addr, port, NULL, bound, eb);

    if (rc != ERR_OK)
        err_prefix(eb, "listening for other nodes");
    return rc;
}

bool
peer_drain(struct peers *p, struct deadline by)
{
    return http_server_drain(p->server, by);
}

void
peer_stop(struct peers **pp)
{
    struct peers *p = *pp;

    *pp = NULL;
    if (p == NULL)
        return;
    if (p->server != NULL)
        http_server_stop(&p->server);
    http_client_free(&p->client);
    tls_context_free(&p->server_tls);
    tls_context_free(&p->client_tls);
    free((char *)(uintptr_t)p->o.name);
    free(p);
}

/* ---- client ---- */

/* "HOST:PORT", "[IPv6]:PORT". */
static bool
split_address(const char *address, char host[256], uint16_t *port)
{
    const char *colon = strrchr(address, ':');
    struct span name = {address, colon != NULL ? (size_t)(colon - address) : 0};
    uint64_t n;

    if (name.len > 1 && name.at[0] == '[' && name.at[name.len - 1] == ']')
        name = (struct span){name.at + 1, name.len - 2};
    if (name.len == 0 || name.len > 255 || num_u64(span_of(colon + 1), &n) != ERR_OK ||
        n == 0 || n > UINT16_MAX)
        return false;
    memcpy(host, name.at, name.len);
    host[name.len] = '\0';
    *port = (uint16_t)n;
    return true;
}

static void
fill_head(const struct peers *p, const struct peer_target *to,
          const struct peer_request *req, struct peer_head *h)
{
    *h = (struct peer_head){.protocol = PEER_PROTOCOL,
                            .from = p->o.self,
                            .to = to->number,
                            .epoch = to->epoch,
                            .flags = req->flags};
    memcpy(h->id, req->id != NULL ? req->id : NO_REQUEST_ID, 16);
    if (req->client != NULL)
        snprintf(h->client, sizeof h->client, "%.*s", (int)sizeof h->client - 1,
                 req->client);
}

enum err
peer_call_begin(struct peers *p, const struct peer_target *to,
                const struct peer_request *req, struct http_call **out, struct errbuf *eb)
{
    struct field *all = xcalloc(req->headers.count + 1, sizeof *all);
    bool reads = strcmp(req->method, "GET") == 0 || strcmp(req->method, "HEAD") == 0;
    char host[256], name[32], text[PEER_HEAD_TEXT_MAX];
    struct http_call_request call = {
        .tls = true,
        .direct = true,
        .once = !reads, /* its outcome may be known here only by its answer */
        .host = host,
        .tls_name = name,
        .method = req->method,
        .target = req->target,
        .host_header = req->host,
        .headers = {all, req->headers.count + 1},
        .length = req->length,
        .expect_continue = req->expect_continue,
        .by = req->by,
    };
    struct peer_head head;
    enum err rc;

    assert(to->number > 0);
    assert(to->epoch > 0);
    *out = NULL;
    fill_head(p, to, req, &head);
    all[0] = (struct field){SPAN(PEER_FIELD), {text, peer_head_format(&head, text)}};
    if (req->headers.count > 0)
        memcpy(all + 1, req->headers.at, req->headers.count * sizeof *all);
    node_tls_name(to->number, name);
    if (split_address(to->address, host, &call.port))
        rc = http_call_begin(p->client, &call, out, eb);
    else
        rc = err_set(eb, ERR_UNAVAILABLE, "\"%.100s\" is no HOST:PORT", to->address);
    free(all);
    if (rc == ERR_CLOSED || rc == ERR_TIMEOUT || rc == ERR_DENIED || rc == ERR_BACKEND ||
        rc == ERR_IO)
        rc = ERR_UNAVAILABLE;
    if (rc != ERR_OK)
        err_prefix(eb, "node %u", to->number);
    return rc;
}

uint64_t
peer_stale_epoch(const struct http_head *head)
{
    uint64_t epoch = 0;

    if (head->code != PEER_STALE ||
        num_u64(fields_get(http_fields(head), PEER_EPOCH_FIELD), &epoch) != ERR_OK)
        return 0;
    return epoch;
}
