/* identify: who sends a request of the AIS API: a bearer token, one of our own keys as Basic credentials, or a signature
 * as S3 has it. Without any of them the caller is anonymous. */
#include <string.h>

#include "api/ais/ais.h"
#include "api/ais/token.h"
#include "api/s3/s3.h"
#include "base/hash.h"
#include "base/mem.h"
#include "rt/time.h"

#define BASIC_MAX 1024

static enum err
refuse_key(struct request *q)
{
    return ais_fault(q, 401, NULL,
                     "invalid credentials: the access key or its secret is wrong");
}

/* base64("ACCESS_KEY:SECRET_KEY") */
static enum err
identify_basic(struct request *q, struct span text, const struct auth_user **user)
{
    char *room = arena_alloc(q->arena, BASIC_MAX);
    int len =
        text.len <= BASIC_MAX ? base64_decode(text.at, text.len, room, BASIC_MAX) : -1;
    const char *colon = len > 0 ? memchr(room, ':', (size_t)len) : NULL;
    const struct auth_key *k;
    struct span id, secret;
    bool same;

    if (colon == NULL)
        return refuse_key(q);
    id = (struct span){room, (size_t)(colon - room)};
    secret = span_from((struct span){room, (size_t)len}, id.len + 1);
    k = auth_find(q->api->options.auth, id);
    same = k != NULL && k->token == NULL && secret.len == strlen(k->secret) &&
           hash_same_secret(secret.at, k->secret, secret.len);
    hash_wipe(room + id.len, BASIC_MAX - id.len);
    if (!same ||
        (k->expires_ms != 0 && (int64_t)(rt_wall_ns() / 1000000u) >= k->expires_ms))
        return refuse_key(q);
    q->caller.auth.access_key = id;
    gate_admit_key(q, k);
    *user = k->user;
    return ERR_OK;
}

static enum err
identify_token(struct request *q, struct span text)
{
    struct token_options o = {.key = q->api->options.token_key,
                              .now_s = (int64_t)(rt_wall_ns() / 1000000000u)};
    struct ais_ids ids;
    struct token t;
    const char *why;

    ais_ids(q->api, &ids);
    o.cluster = ids.cluster;
    why = token_verify(text, &o, q->arena, &t);
    if (why != NULL)
        return ais_fault(q, 401, NULL, "%s", why);
    q->caller.kind = CALLER_TOKEN;
    q->caller.name = t.user;
    q->caller.token = t.rights;
    http_body_trust(q->http);
    return ERR_OK;
}

/* "Bearer x": what stands behind the scheme; `at` NULL: another scheme. */
static struct span
behind_scheme(struct span header, const char *scheme)
{
    size_t len = strlen(scheme);

    if (header.len <= len || strncasecmp(header.at, scheme, len) != 0 ||
        header.at[len] != ' ')
        return (struct span){NULL, 0};
    return span_trim(span_from(header, len));
}

enum err
ais_identify(struct request *q, const struct auth_user **user)
{
    struct span header = http_get(q->http->head, HTTP_AUTHORIZATION);
    struct span token = behind_scheme(header, "Bearer");
    struct span basic = behind_scheme(header, "Basic");

    *user = NULL;
    if (token.at != NULL)
        return identify_token(q, token);
    if (basic.at != NULL)
        return identify_basic(q, basic, user);
    if (header.at != NULL || query_has(&q->query, "X-Amz-Signature"))
        return s3_identify(q, user);
    return ERR_OK;
}
