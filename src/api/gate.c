/* gate: the access check in front of every route (promise S4): authentication and authorization.
 *
 * The front-end identifies the user that signed. The gate checks that this user has the rights that the route requires.
 * Users and buckets are immutable snapshots: no lock, and no allocation but the request's own arena. The gate returns enum err; the front-end maps it to its protocol.
 */
#include <assert.h>
#include <string.h>

#include "api/internal.h"
#include "api/signature_cache.h"
#include "base/log.h"
#include "base/mem.h"
#include "rt/time.h"

/* Cross-site request check: a browser sends requests for any page, and names that page in its headers. */
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

/* Without credentials: every right on loopback if configured, else the public rights of buckets. *why: the
 * reason when the caller is not trusted as local. */
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

void
gate_admit_key(struct request *q, const struct auth_key *k)
{
    assert(k->user != NULL);
    q->caller.kind = CALLER_KEY;
    q->caller.name = arena_span(q->arena, span_of(k->user->name));
}

/* ---- rights ---- */

static const struct auth_user *
user_of(const struct request *q)
{
    const struct auth_key *k =
        q->caller.kind == CALLER_KEY
            ? auth_find(q->api->options.auth, q->caller.auth.access_key)
            : NULL;

    return k != NULL ? k->user : NULL;
}

/* The public rights of a bucket: reading and listing. */
static auth_rights
public_rights(const struct request *q, struct span bucket)
{
    const struct map_bucket *b = map_bucket_find(map_now(q->api->options.map), bucket);

    return b != NULL && b->anonymous_read ? AUTH_READ | AUTH_LIST : 0;
}

static auth_rights
rights_of_token(const struct token_rights *t, struct span bucket)
{
    for (unsigned i = 0; i < t->count; i++)
        if (span_eq(t->at[i].bucket, bucket))
            return t->at[i].rights;
    return t->everywhere;
}

static bool
may(const struct request *q, const struct auth_user *u, auth_rights wanted,
    struct span bucket, struct span key)
{
    auth_rights have = u != NULL ? auth_user_rights(u, bucket, key) : 0;

    assert(wanted != 0);
    if (q->caller.kind == CALLER_TOKEN)
        have = rights_of_token(q->caller.token, bucket);
    if (q->caller.kind == CALLER_LOCAL || auth_rights_include(have, wanted))
        return true;
    return (wanted & ~(have | AUTH_READ | AUTH_LIST)) == 0 &&
           (wanted & ~(have | public_rights(q, bucket))) == 0;
}

static bool
has_any_right(const struct request *q, const struct auth_user *u, struct span bucket)
{
    if (q->caller.kind == CALLER_TOKEN && rights_of_token(q->caller.token, bucket) != 0)
        return true;
    return q->caller.kind == CALLER_LOCAL ||
           (u != NULL && auth_has_any_right(u, bucket)) || public_rights(q, bucket) != 0;
}

bool
caller_may(const struct request *q, auth_rights wanted, struct span bucket,
           struct span key)
{
    return may(q, user_of(q), wanted, bucket, key);
}

enum err
caller_require(struct request *q, auth_rights wanted, struct span bucket, struct span key)
{
    return caller_may(q, wanted, bucket, key)
               ? ERR_OK
               : fault_from(q, ERR_DENIED, &(struct errbuf){{0}});
}

bool
caller_has_any_right(const struct request *q, struct span bucket)
{
    return has_any_right(q, user_of(q), bucket);
}

/* True if the caller has the rights that the route needs. */
static bool
has_needed(const struct request *q, const struct auth_user *u, enum need need)
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
        return has_any_right(q, u, bucket);
    case NEED_EACH_KEY:
        return q->caller.kind != CALLER_ANONYMOUS && has_any_right(q, u, bucket);
    case NEED_USER:
        return q->caller.kind != CALLER_ANONYMOUS;
    case NEED_NOTHING:
    case NEED_CALLER:
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
    return has_needed(q, k != NULL ? k->user : NULL, NEED_READ);
}

/* Charges the user's limits before the body is read (promise S11). */
static enum err
charge_limits(struct request *q, const struct auth_user *u, struct errbuf *eb)
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
               : err_set(eb, ERR_BUSY,
                         "User %s has reached the limit of %s; an administrator sees it "
                         "by forebay user ls",
                         u->name, what[over]);
}

/* `user` NULL: the request has no credentials. */
static enum err
authorize(struct request *q, const struct auth_user *user, enum need need,
          struct errbuf *eb)
{
    const char *why = NULL;

    if (user == NULL && q->caller.kind != CALLER_TOKEN)
        admit_anonymous(q, &why);
    if (!has_needed(q, user, need))
        return why != NULL ? err_set(eb, ERR_DENIED, "%s", why) : ERR_DENIED;
    return user != NULL && user->meter != NULL ? charge_limits(q, user, eb) : ERR_OK;
}

enum err
gate(struct request *q, enum need need)
{
    const struct auth_user *user;
    struct errbuf eb = {{0}};
    enum err rc;

    if (need == NEED_NOTHING) { /* browsers never sign a preflight */
        q->caller.name = SPAN("anonymous");
        return ERR_OK;
    }
    rc = q->front->identify(q, &user);
    if (rc == ERR_OK) {
        rc = authorize(q, user, need, &eb);
        if (rc != ERR_OK)
            fault_from(q, rc, &eb);
    }
    if (rc != ERR_OK && rc != ERR_BUSY)
        AUDIT(q, "auth.refused", fault_name(q), L_SPAN("bucket", q->name.bucket));
    return rc;
}
