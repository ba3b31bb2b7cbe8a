/* identify: which user signed a request, by AWS Signature Version 4. Every front-end that takes these signatures shares it.
 * What is wrong with one is said in S3's words; what the user may do is the gate's to decide. */
#include <string.h>

#include "api/s3/s3.h"
#include "api/signature_cache.h"
#include "rt/loop.h"
#include "rt/time.h"

/* A hash or signatures of the body may be left out only where the body can't be changed on the way. */
static enum err
check_payload(struct request *q)
{
    bool unsigned_body = q->caller.auth.payload.kind == PAYLOAD_UNSIGNED ||
                         q->caller.auth.payload.kind == PAYLOAD_CHUNKED_UNSIGNED_TRAILER;

    if (unsigned_body && http_body_length(q->http) != 0 && !q->http->is_tls &&
        !q->http->is_loopback && !auth_clear_text_ok(q->api->options.auth))
        return fault_set(&q->fault, S3_AccessDenied,
                         "An unsigned payload is accepted over TLS only");
    return ERR_OK;
}

/* The key's life and its token. Only callers who can sign learn whether the token or the key is wrong. */
static enum err
check_token(struct request *q, const struct auth_key *k, int64_t now_ms)
{
    bool expired = k->expires_ms != 0 && now_ms >= k->expires_ms;
    struct span token = q->caller.auth.token;

    if (k->token == NULL)
        return token.len > 0 ? fault_set(&q->fault, S3_InvalidToken, NULL)
               : expired     ? sigv4_unknown_key(&q->caller.auth, &q->fault)
                             : ERR_OK;
    if (token.len == 0)
        return sigv4_unknown_key(&q->caller.auth, &q->fault);
    if (token.len != strlen(k->token) || !hash_same_secret(token.at, k->token, token.len))
        return fault_set(&q->fault, S3_InvalidToken, NULL);
    return expired ? fault_set(&q->fault, S3_ExpiredToken, NULL) : ERR_OK;
}

enum err
s3_find_key(struct request *q, const struct auth_key **out, int64_t *now_s)
{
    const struct auth_key *k = auth_find(q->api->options.auth, q->caller.auth.access_key);
    int64_t now_ms = (int64_t)(rt_wall_ns() / 1000000u);

    *now_s = now_ms / 1000;
    *out = k;
    return k == NULL ? sigv4_unknown_key(&q->caller.auth, &q->fault)
                     : check_token(q, k, now_ms);
}

static enum err
verify(struct request *q, const struct sigv4_request *req, const struct auth_user **user)
{
    const struct auth_key *k;
    int64_t now_s;
    enum err rc = s3_find_key(q, &k, &now_s);

    if (rc == ERR_OK)
        rc = sigv4_verify(req, &q->query, &q->caller.auth, span_of(k->secret),
                          q->api->keys[rt_loop_index()], now_s, q->arena, &q->caller.key,
                          &q->fault);
    if (rc != ERR_OK)
        return rc;
    gate_admit_key(q, k);
    *user = k->user;
    q->caller.signed_request = true;
    q->caller.signed_by = k;
    q->caller.users = auth_serial(q->api->options.auth);
    signature_cache_keep(q, req, k);
    http_body_trust(q->http);
    return check_payload(q);
}

enum err
s3_identify(struct request *q, const struct auth_user **user)
{
    const struct http_head *head = q->http->head;
    struct sigv4_request req = {.method = head->method_text,
                                .path = head->path,
                                .headers = http_fields(head),
                                .tls = q->http->is_tls};
    struct sigv4_opts opts = {.region = {NULL, 0}, .skew_s = q->api->options.skew_s};
    enum err rc = sigv4_parse(&req, &q->query, &opts, &q->caller.auth, &q->fault);

    *user = NULL;
    if (rc != ERR_OK || q->caller.auth.kind == SIGV4_ANONYMOUS)
        return rc;
    return verify(q, &req, user);
}
