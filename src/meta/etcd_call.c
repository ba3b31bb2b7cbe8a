/* etcd_call: one request to etcd: endpoints in turn, log-in, and what an error says about the outcome. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "meta/etcd.h"
#include "rt/time.h"

#define TRY_MS 4000u /* one endpoint may take so long for an answer */
#define BACKOFF_MS                                                                       \
    200u /* after each endpoint has failed; then twice as long, and so on ... */
#define BACKOFF_MOST_MS 1600u
#define LOGINS_MAX      2u /* of one request: a token may have expired */

/* gRPC codes, as the gateway passes them on. */
enum {
    GRPC_INVALID = 3,
    GRPC_DENIED = 7,
    GRPC_EXHAUSTED = 8,
    GRPC_PRECONDITION = 9,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNAUTHENTICATED = 16,
};

/* What one try has shown. */
enum etcd_verdict {
    VERDICT_DONE,
    VERDICT_FINAL,     /* carried out nowhere, and another try ends in the same way */
    VERDICT_ELSEWHERE, /* not carried out; another endpoint may answer */
    VERDICT_LOGIN,     /* not carried out; the token is missing, or not valid any more */
    VERDICT_MAYBE,     /* carried out, or not, or later */
};

void
etcd_elsewhere(struct etcd *e)
{
    assert(e->endpoint_count > 0);
    e->at = (e->at + 1) % e->endpoint_count;
}

/* `token`: a copy, for another fiber may log in while the connection is made. */
static void
request_fill(const struct etcd *e, const struct etcd_request *r, const char *token,
             struct field fields[2], struct http_call_request *out)
{
    const struct etcd_endpoint *at = &e->endpoints[e->at];

    assert(e->at < e->endpoint_count);
    fields[0] = (struct field){SPAN("Content-Type"), SPAN("application/json")};
    fields[1] = (struct field){SPAN("Authorization"), span_of(token)};
    *out = (struct http_call_request){.host = at->host,
                                      .port = at->port,
                                      .tls = at->tls,
                                      .method = "POST",
                                      .target = span_of(r->path),
                                      .headers = {fields, token != NULL ? 2 : 1},
                                      .length = (int64_t)r->body.len,
                                      .direct = true};
}

/* May switch. */
static enum err
call_open(struct etcd *e, const struct etcd_request *r, uint64_t between_ms,
          struct http_call **out, struct errbuf *eb)
{
    char *token = e->token != NULL && !r->no_token ? xstrdup(e->token) : NULL;
    struct http_call_request req;
    struct field fields[2];
    enum err rc;

    request_fill(e, r, token, fields, &req);
    req.first_byte_ms = TRY_MS;
    req.between_ms = between_ms;
    rc = http_call_begin(e->http, &req, out, eb);
    free(token);
    return rc;
}

static bool
says(const struct errbuf *why, const char *words)
{
    return strstr(why->text, words) != NULL;
}

static bool
wants_login(unsigned code, const struct errbuf *why)
{
    if (code == GRPC_UNAUTHENTICATED)
        return true;
    return code == GRPC_INVALID &&
           (says(why, "auth token") || says(why, "user name is empty") ||
            says(why, "auth store is old"));
}

/* An answer that is not 200. */
static enum etcd_verdict
error_verdict(const struct etcd *e, int status, const struct buf *body, enum err *rc,
              struct errbuf *eb)
{
    const struct etcd_endpoint *at = &e->endpoints[e->at];
    struct errbuf why;
    unsigned code = etcd_error_parse(buf_span(body), &why);

    *rc = err_set(eb, ERR_UNAVAILABLE, "etcd at %s:%u: %s", at->host, at->port,
                  code != 0 ? why.text : "not an answer of etcd");
    if (code == 0 && status == 404) {
        *rc =
            err_set(eb, ERR_BACKEND,
                    "etcd at %s:%u answers 404: version 3.4 or later is needed, with its "
                    "JSON gateway enabled",
                    at->host, at->port);
        return VERDICT_FINAL;
    }
    if (wants_login(code, &why))
        return VERDICT_LOGIN;
    if (code == GRPC_OUT_OF_RANGE) {
        *rc = ERR_RANGE;
        return VERDICT_FINAL;
    }
    if (code == GRPC_DENIED) {
        *rc = err_set(
            eb, ERR_DENIED,
            "etcd denies user \"%s\" the keys under \"%s\": grant the user a role "
            "with readwrite on that prefix",
            e->user != NULL ? e->user : "", e->prefix);
        return VERDICT_FINAL;
    }
    if (code == GRPC_EXHAUSTED && says(&why, "space exceeded")) {
        *rc = ERR_NO_SPACE;
        return VERDICT_FINAL;
    }
    if (code == GRPC_EXHAUSTED && says(&why, "larger than max")) {
        *rc = ERR_TOO_LARGE;
        return VERDICT_FINAL;
    }
    if (code == GRPC_EXHAUSTED)
        return VERDICT_ELSEWHERE; /* too many requests wait there */
    if (code == GRPC_INVALID || code == GRPC_PRECONDITION) {
        *rc = ERR_BACKEND;
        return VERDICT_FINAL;
    }
    return VERDICT_MAYBE; /* no leader, a new leader, timed out, ... */
}

enum err
etcd_stream_begin(struct etcd *e, const struct etcd_request *r, struct http_call **call,
                  struct errbuf *eb)
{
    enum err rc = call_open(e, r, ETCD_QUIET_MS, call, eb);

    if (rc != ERR_OK)
        return rc;
    rc = http_call_write(*call, r->body.at, r->body.len, eb);
    if (rc != ERR_OK)
        http_call_end(call);
    return rc;
}

static enum err
read_answer(struct http_call *k, int *status, struct buf *out, struct errbuf *eb)
{
    const struct http_head *head;
    enum err rc = http_call_finish(k, &head, eb);
    size_t n = 1;

    if (rc != ERR_OK)
        return rc;
    *status = head->code;
    while (rc == ERR_OK && n > 0) {
        char *room = buf_reserve(out, 16384);

        if (room == NULL)
            return err_set(eb, ERR_TOO_LARGE, "an answer of etcd over %u bytes",
                           ETCD_REPLY_MAX);
        rc = http_call_read(k, room, 16384, &n, eb);
        if (rc == ERR_OK)
            out->len += n;
    }
    return rc;
}

/* One endpoint, once. */
static enum etcd_verdict
try_endpoint(struct etcd *e, const struct etcd_request *r, struct buf *out, enum err *rc,
             struct errbuf *eb)
{
    struct http_call *k;
    int status = 0;

    buf_clear(out);
    *rc = call_open(e, r, TRY_MS, &k, eb);
    if (*rc != ERR_OK) /* the head leaves with the body: nothing was sent */
        return VERDICT_ELSEWHERE;
    *rc = http_call_write(k, r->body.at, r->body.len, eb);
    if (*rc == ERR_OK)
        *rc = read_answer(k, &status, out, eb);
    http_call_end(&k);
    if (*rc != ERR_OK)
        return VERDICT_MAYBE;
    return status == 200 ? VERDICT_DONE : error_verdict(e, status, out, rc, eb);
}

/* ---- log-in ---- */

/* ERR_OK also where etcd needs none. */
static enum err
login(struct etcd *e, struct buf *out, struct errbuf *eb)
{
    struct etcd_request r = {.path = "/v3/auth/authenticate", .no_token = true};
    struct errbuf why;
    struct buf body;
    char *token = NULL;
    enum err rc;

    if (e->user == NULL)
        return err_set(eb, ERR_DENIED,
                       "etcd at %s:%u wants a user and a password: give them with "
                       "cluster.etcd_user and cluster.etcd_password_file",
                       e->endpoints[e->at].host, e->endpoints[e->at].port);
    buf_init(&body, KIB(8));
    etcd_put_login(&body, e->user, e->password);
    r.body = buf_span(&body);
    switch (try_endpoint(e, &r, out, &rc, eb)) {
    case VERDICT_DONE:
        rc = etcd_token_parse(buf_span(out), &token, eb);
        break;
    case VERDICT_FINAL:
        if (etcd_error_parse(buf_span(out), &why) == GRPC_PRECONDITION)
            rc = ERR_OK; /* it knows no users at all */
        else
            rc = err_set(eb, ERR_DENIED, "etcd refuses user \"%s\": %s", e->user,
                         why.text);
        break;
    case VERDICT_ELSEWHERE:
    case VERDICT_LOGIN:
    case VERDICT_MAYBE:
    default:
        break;
    }
    if (rc ==
        ERR_OK) { /* another fiber may have logged in meanwhile: the later one stays */
        free(e->token);
        e->token = token;
    }
    if (body.len > 0)
        hash_wipe(body.at, body.len);
    buf_fini(&body);
    return rc;
}

/* ---- endpoints in turn ---- */

/* ERR_OK: it is to be tried again; else the error that the call ends with. */
static enum err
before_next_try(struct etcd *e, unsigned tries, struct deadline by, enum err rc,
                struct errbuf *eb)
{
    struct errbuf kept = eb != NULL ? *eb : (struct errbuf){{0}};
    uint64_t pause =
        MIN(BACKOFF_MS << MIN(tries / e->endpoint_count, 8u), BACKOFF_MOST_MS);

    if (rc == ERR_CANCELLED || deadline_passed(by) || deadline_passed(rt_scope_now()))
        return rc;
    etcd_elsewhere(e);
    if (tries % e->endpoint_count == 0 && rt_sleep_ms(pause) != ERR_OK) {
        if (eb != NULL)
            *eb = kept;
        return rc;
    }
    return deadline_passed(by) ? rc : ERR_OK;
}

static enum err
call_within(struct etcd *e, const struct etcd_request *r, struct deadline by,
            struct buf *out, bool *maybe, struct errbuf *eb)
{
    unsigned logins = 0;

    for (unsigned tries = 1;; tries++) {
        enum err rc, go;
        enum etcd_verdict v = try_endpoint(e, r, out, &rc, eb);

        if (v == VERDICT_DONE || v == VERDICT_FINAL)
            return rc;
        if (v == VERDICT_LOGIN) {
            rc = logins++ < LOGINS_MAX ? login(e, out, eb) : ERR_DENIED;
            if (rc == ERR_OK)
                continue;
            if (rc == ERR_DENIED)
                return rc;
        }
        *maybe |= v == VERDICT_MAYBE && r->changes;
        if (*maybe) {
            etcd_elsewhere(e);
            return rc;
        }
        go = before_next_try(e, tries, by, rc, eb);
        if (go != ERR_OK)
            return go;
    }
}

enum err
etcd_call(struct etcd *e, const struct etcd_request *r, struct deadline by,
          struct buf *out, bool *maybe, struct errbuf *eb)
{
    struct rt_scope scope;
    enum err rc;

    assert(rt_loop_index() == 0);
    assert(r->body.len > 0);
    *maybe = false;
    if (e->refused)
        return err_set(
            eb, ERR_UNAVAILABLE,
            "etcd is not the one, or has not the state, that this node has seen; "
            "restart the node when etcd is right (docs/cluster.md)");
    rt_scope_begin(&scope, by);
    rc = call_within(e, r, by, out, maybe, eb);
    rt_scope_end(&scope);
    assert(!*maybe || (rc != ERR_OK && r->changes));
    return rc;
}

enum err
etcd_check_head(struct etcd *e, uint64_t cluster, uint64_t revision, uint64_t seen_before,
                struct errbuf *eb)
{
    assert(seen_before <= e->seen);

    if (e->cluster == 0)
        e->cluster = cluster;
    if (cluster != e->cluster || revision < seen_before) {
        e->refused = true;
        LOG(LOG_ERROR, "meta.etcd.refused",
            "etcd is another cluster, or was restored from an older backup: it is not "
            "used again",
            L_U64("cluster", cluster), L_U64("cluster_before", e->cluster),
            L_U64("revision", revision), L_U64("revision_before", seen_before));
        return cluster != e->cluster
                   ? err_set(eb, ERR_UNAVAILABLE,
                             "this etcd is cluster %llx, and the one so far was %llx: do "
                             "cluster.etcd's addresses belong to one cluster?",
                             (unsigned long long)cluster, (unsigned long long)e->cluster)
                   : err_set(
                         eb, ERR_UNAVAILABLE,
                         "etcd is at revision %llu and was at %llu: was it restored from "
                         "an older backup? (docs/cluster.md)",
                         (unsigned long long)revision, (unsigned long long)seen_before);
    }
    e->seen = MAX(e->seen, revision);
    return ERR_OK;
}
