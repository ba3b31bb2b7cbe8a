/* gate: who is asking, and may he? One function in front of every route (promise S4).
 *
 * First who: a signature that is right, or nobody. Then whether he has what the route's row asks for. Both look at
 * immutable snapshots of users and buckets: no lock, no allocation but the request's own arena.
 */
#include <string.h>

#include "api/internal.h"
#include "api/signature_cache.h"
#include "base/log.h"
#include "rt/loop.h"
#include "rt/time.h"

/* A browser sends what any page tells it to, and says which page that was. */
static bool
is_foreign_page(const struct request *q)
{
    struct span origin = fields_get(http_fields(q->http->head), "origin");
    enum http_method method = q->http->head->method;
    const char *host;

    if (origin.at == NULL || method == HTTP_METHOD_GET || method == HTTP_METHOD_HEAD)
        return false;
    host = memmem(origin.at, origin.len, "://", 3);
    return host == NULL ||
           !auth_host_ok(q->api->options.auth,
                         span_from(origin, (size_t)(host - origin.at) + 3),
                         q->api->options.domains, q->api->options.domain_count);
}

/* Without credentials: everything on loopback where that is so, else what buckets allow to everybody. *why: what to say
 * when that is not enough. */
static void
admit_anonymous(struct request *q, const char **why)
{
    const struct api *a = q->api;

    q->caller.name = SPAN("anonymous");
    q->caller.kind = CALLER_ANONYMOUS;
    if (!auth_anonymous_ok(a->options.auth, q->http->is_loopback))
        return;
    if (!auth_host_ok(a->options.auth, q->http->head->host, a->options.domains,
                      a->options.domain_count))
        *why = "Without credentials this server answers to names of this host only; "
               "add the name to s3.domains or sign the request";
    else if (is_foreign_page(q))
        *why = "Without credentials a page of another site may not write here";
    else
        q->caller.kind = CALLER_LOCAL;
}

/* Signed: a hash or signatures of the body may be left out only where nobody can change it on the way. */
static enum err
gate_check_payload(struct request *q)
{
    bool unsigned_body = q->caller.auth.payload.kind == PAYLOAD_UNSIGNED ||
                         q->caller.auth.payload.kind == PAYLOAD_CHUNKED_UNSIGNED_TRAILER;

    if (unsigned_body && http_body_length(q->http) != 0 && !q->http->is_tls &&
        !q->http->is_loopback && !auth_clear_text_ok(q->api->options.auth))
        return fault_set(&q->fault, S3_AccessDenied,
                         "An unsigned payload is taken over TLS only");
    return ERR_OK;
}

/* The key's life and its token. A token is told apart from a wrong one only to who can sign. */
static enum err
gate_check_key(struct request *q, const struct auth_key *k, int64_t now_ms)
{
    bool ended = k->expires_ms != 0 && now_ms >= k->expires_ms;
    struct span token = q->caller.auth.token;

    if (k->token == NULL)
        return token.len > 0 ? fault_set(&q->fault, S3_InvalidToken, NULL)
               : ended       ? sigv4_unknown_key(&q->caller.auth, &q->fault)
                             : ERR_OK;
    if (token.len == 0)
        return sigv4_unknown_key(&q->caller.auth, &q->fault);
    if (token.len != strlen(k->token) || !hash_same_secret(token.at, k->token, token.len))
        return fault_set(&q->fault, S3_InvalidToken, NULL);
    return ended ? fault_set(&q->fault, S3_ExpiredToken, NULL) : ERR_OK;
}

enum err
gate_key(struct request *q, const struct auth_key **out, int64_t *now_s)
{
    const struct auth_key *k = auth_find(q->api->options.auth, q->caller.auth.access_key);

    int64_t now_ms = (int64_t)(rt_wall_ns() / 1000000u);

    *now_s = now_ms / 1000;
    *out = k;
    return k == NULL ? sigv4_unknown_key(&q->caller.auth, &q->fault)
                     : gate_check_key(q, k, now_ms);
}

void
gate_admit_key(struct request *q, const struct auth_key *k)
{
    q->caller.kind = CALLER_KEY;
    q->caller.name = arena_span(q->arena, span_of(k->user->name));
}

/* *user: whose signature it is; lent until the fiber switches. */
static enum err
verify(struct request *q, const struct sigv4_request *req, const struct auth_user **user)
{
    const struct auth_key *k;
    int64_t now_s;
    enum err rc = gate_key(q, &k, &now_s);

    if (rc == ERR_OK)
        rc = sigv4_verify(req, &q->query, &q->caller.auth, span_of(k->secret),
                          q->api->keys[rt_loop_index()], now_s, q->arena, &q->caller.key,
                          &q->fault);
    if (rc != ERR_OK)
        return rc;
    gate_admit_key(q, k);
    *user = k->user;
    q->caller.signed_request = true;
    q->caller.signer = k;
    q->caller.users = auth_serial(q->api->options.auth);
    signature_cache_keep(q, req, k);
    http_body_trust(q->http);
    return gate_check_payload(q);
}

/* ---- rights ---- */

/* What everybody may: reading where the bucket's owner allows it. */
static bool
is_public(const struct request *q, auth_rights right, struct span bucket)
{
    const struct map_bucket *b;

    if (right != AUTH_READ && right != AUTH_LIST)
        return false;
    b = map_bucket_find(map_now(q->api->options.map), bucket);
    return b != NULL && b->anonymous_read;
}

static const struct auth_user *
user_of(const struct request *q)
{
    const struct auth_key *k =
        q->caller.kind == CALLER_KEY
            ? auth_find(q->api->options.auth, q->caller.auth.access_key)
            : NULL;

    return k != NULL ? k->user : NULL;
}

static bool
may(const struct request *q, const struct auth_user *u, auth_rights right,
    struct span bucket, struct span key)
{
    return q->caller.kind == CALLER_LOCAL ||
           (u != NULL && auth_may(u, right, bucket, key)) || is_public(q, right, bucket);
}

static bool
knows(const struct request *q, const struct auth_user *u, struct span bucket)
{
    return q->caller.kind == CALLER_LOCAL ||
           (u != NULL && auth_has_any_right(u, bucket)) ||
           is_public(q, AUTH_READ, bucket);
}

bool
caller_may(const struct request *q, auth_rights right, struct span bucket,
           struct span key)
{
    return may(q, user_of(q), right, bucket, key);
}

enum err
caller_require(struct request *q, auth_rights right, struct span bucket,
               struct span key)
{
    return caller_may(q, right, bucket, key)
               ? ERR_OK
               : fault_set(&q->fault, S3_AccessDenied, NULL);
}

bool
caller_has_any_right(const struct request *q, struct span bucket)
{
    return knows(q, user_of(q), bucket);
}

/* The table of rights: what a route needs, and who has it. */
static bool
gate_has(const struct request *q, const struct auth_user *u, enum need need)
{
    struct span bucket = q->name.bucket, key = q->name.key, none = {"", 0};

    switch (need) {
    case NEED_READ:
        return may(q, u, AUTH_READ, bucket, key);
    case NEED_WRITE:
        return may(q, u, AUTH_WRITE, bucket, key);
    case NEED_LIST:
        return may(q, u, AUTH_LIST, bucket, query_get(&q->query, "prefix"));
    case NEED_ADMIN:
        return may(q, u, AUTH_ADMIN, bucket, none);
    case NEED_ADMIN_ALL:
        return may(q, u, AUTH_ADMIN, SPAN(AUTH_EVERY_BUCKET), none);
    case NEED_ANY_RIGHT:
        return knows(q, u, bucket);
    case NEED_EACH_KEY:
        return q->caller.kind != CALLER_ANONYMOUS && knows(q, u, bucket);
    case NEED_USER:
        return q->caller.kind != CALLER_ANONYMOUS;
    case NEED_NOTHING:
    case NEED_FORM:
        return true;
    }
    return false;
}

bool
gate_may_read(struct request *q)
{
    bool is_signed = http_get(q->http->head, HTTP_AUTHORIZATION).at != NULL;
    const struct auth_key *k = is_signed ? signature_cache_find(q->api, q->http) : NULL;
    const char *why = NULL;

    if (is_signed && k == NULL)
        return false;
    if (!is_signed)
        admit_anonymous(q, &why);
    return gate_has(q, k != NULL ? k->user : NULL, NEED_READ);
}

/* The user's own limits, before a byte of the body is asked for (promise S11). */
static enum err
charge_limits(struct request *q, const struct auth_user *u)
{
    static const char *const what[] = {
        [AUTH_OVER_REQUESTS] = "requests a second",
        [AUTH_OVER_BYTES] = "bytes a second",
        [AUTH_OVER_PARTS] = "parts of uploads at the same time",
    };
    int64_t length = http_body_length(q->http);
    bool part = q->http->head->method == HTTP_METHOD_PUT &&
                query_get(&q->query, "partNumber").at != NULL;
    enum auth_over over =
        auth_meter_begin(u->meter, &u->limits, part, length > 0 ? (uint64_t)length : 0,
                         rt_now_ns(), &q->caller.charge);

    return over == AUTH_WITHIN
               ? ERR_OK
               : fault_set(
                     &q->fault, S3_SlowDown,
                     "User %s has reached the limit of %s; an administrator sees it "
                     "by forebay user ls",
                     u->name, what[over]);
}

static enum err
gate_admit(struct request *q, enum need need)
{
    const struct http_head *head = q->http->head;
    struct sigv4_request req = {.method = head->method_text,
                                .path = head->path,
                                .headers = http_fields(head),
                                .tls = q->http->is_tls};
    struct sigv4_opts opts = {.region = {NULL, 0}, .skew_s = q->api->options.skew_s};
    const struct auth_user *user = NULL;
    const char *why = NULL;
    enum err rc;

    if (need == NEED_NOTHING) { /* a browser never signs it */
        q->caller.name = SPAN("anonymous");
        return ERR_OK;
    }
    rc = sigv4_parse(&req, &q->query, &opts, &q->caller.auth, &q->fault);

    if (rc != ERR_OK)
        return rc;
    if (q->caller.auth.kind != SIGV4_ANONYMOUS)
        rc = verify(q, &req, &user);
    else
        admit_anonymous(q, &why);
    if (rc == ERR_OK && !gate_has(q, user, need))
        rc = fault_set(&q->fault, S3_AccessDenied, why != NULL ? "%s" : NULL, why);
    if (rc == ERR_OK && user != NULL && user->meter != NULL)
        rc = charge_limits(q, user);
    return rc;
}

enum err
gate(struct request *q, enum need need)
{
    enum err rc = gate_admit(q, need);

    if (rc != ERR_OK && q->fault.code != S3_SlowDown)
        AUDIT(q, "auth.refused", s3_code_name(q->fault.code),
              L_SPAN("bucket", q->name.bucket));
    return rc;
}
