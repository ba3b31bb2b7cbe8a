/* gate: who is asking? One function in front of every route (promise S4). */
#include <string.h>

#include "api/internal.h"
#include "base/log.h"
#include "rt/loop.h"
#include "rt/time.h"

static const struct auth_user anonymous = {.name = "anonymous", .anonymous = true};

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

static enum err
admit_anonymous(struct request *q)
{
    const struct api *a = q->api;

    if (!auth_anonymous_ok(a->options.auth, q->http->is_loopback))
        return fault_set(&q->fault, S3_AccessDenied, "Access Denied");
    if (!auth_host_ok(a->options.auth, q->http->head->host, a->options.domains,
                      a->options.domain_count))
        return fault_set(
            &q->fault, S3_AccessDenied,
            "Without credentials this server answers to names of this host only; "
            "add the name to s3.domains or sign the request");
    if (is_foreign_page(q))
        return fault_set(&q->fault, S3_AccessDenied,
                         "Without credentials a page of another site may not write here");
    q->caller.user = &anonymous;
    return ERR_OK;
}

/* Signed: a hash or signatures of the body may be left out only where nobody can change it on the way. */
static enum err
check_payload(struct request *q)
{
    bool unsigned_body = q->caller.auth.payload.kind == PAYLOAD_UNSIGNED ||
                         q->caller.auth.payload.kind == PAYLOAD_CHUNKED_UNSIGNED_TRAILER;

    if (unsigned_body && http_body_length(q->http) != 0 && !q->http->is_tls &&
        !q->http->is_loopback && !auth_clear_text_ok(q->api->options.auth))
        return fault_set(&q->fault, S3_AccessDenied,
                         "An unsigned payload is taken over TLS only");
    return ERR_OK;
}

enum err
gate(struct request *q)
{
    const struct http_head *head = q->http->head;
    struct sigv4_request req = {.method = head->method_text,
                                .path = head->path,
                                .headers = http_fields(head),
                                .tls = q->http->is_tls};
    struct sigv4_opts opts = {.region = {NULL, 0}};
    const char *secret;
    enum err rc = sigv4_parse(&req, &q->query, &opts, &q->caller.auth, &q->fault);

    if (rc != ERR_OK)
        return rc;
    if (q->caller.auth.kind == SIGV4_ANONYMOUS)
        return admit_anonymous(q);
    secret =
        auth_secret(q->api->options.auth, q->caller.auth.access_key, &q->caller.user);
    if (secret == NULL)
        return sigv4_unknown_key(&q->caller.auth, &q->fault);
    if (q->caller.auth.token.len > 0)
        return fault_set(&q->fault, S3_InvalidToken, NULL);
    rc = sigv4_verify(
        &req, &q->query, &q->caller.auth, span_of(secret), q->api->keys[rt_loop_index()],
        (int64_t)(rt_wall_ns() / 1000000000u), q->arena, &q->caller.key, &q->fault);
    if (rc != ERR_OK)
        return rc;
    q->caller.signed_request = true;
    http_body_trust(q->http);
    return check_payload(q);
}
