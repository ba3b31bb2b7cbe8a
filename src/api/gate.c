/* gate: the access check in front of every route (promise S4): authentication and authorization.
 *
 * The front-end identifies the user that signed. The gate checks that this user has the rights that the route requires.
 * Users and buckets are immutable snapshots: no lock, and no allocation but the request's own arena. The gate returns enum err; the front-end maps it to its protocol.
 */
#include <assert.h>
#include <string.h>

#include "api/access.h"
#include "api/signature_cache.h"
#include "base/log.h"
#include "base/mem.h"
#include "rt/time.h"
#include "wire/s3acl.h"

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

/* The sending node has checked the caller, and names it for the audit log. */
void
gate_admit_node(struct request *q)
{
    struct span user = fields_get(http_fields(q->http->head), PEER_USER_FIELD);

    q->caller.kind = CALLER_LOCAL;
    q->caller.name = user.len > 0 ? user : SPAN("cluster");
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

/* On the bucket and key of the request, under the name that the route has in the policy language. */
static bool
may_here(const struct request *q, const struct auth_user *u, auth_rights wanted,
         struct span key)
{
    return access_allows(q, &(struct access_ask){.user = u,
                                                 .wanted = wanted,
                                                 .action = q->action,
                                                 .bucket = q->name.bucket,
                                                 .key = key});
}

/* On a bucket and key that a body or a header names. */
static bool
may(const struct request *q, const struct auth_user *u, auth_rights wanted,
    struct span bucket, struct span key)
{
    bool writes = (wanted & AUTH_WRITE) != 0;

    return access_allows(q, &(struct access_ask){.user = u,
                                                 .wanted = wanted,
                                                 .action = writes ? q->action : NULL,
                                                 .bucket = bucket,
                                                 .key = key});
}

static bool
may_list_rights(const struct request *q, const struct auth_user *u, auth_rights wanted,
                uint8_t permission)
{
    return access_allows_list(q,
                              &(struct access_ask){.user = u,
                                                   .wanted = wanted,
                                                   .action = q->action,
                                                   .bucket = q->name.bucket,
                                                   .key = q->name.key},
                              permission);
}

/* Any right, or an Allow of the policy for what the route does. */
static bool
has_any_right(const struct request *q, const struct auth_user *u)
{
    struct span none = {"", 0};

    if (!map_has_policies(map_now(q->api->options.map)))
        return access_allows_any(q, u, q->name.bucket);
    return may_here(q, u, AUTH_PATCH_BUCKET, none) ||
           (access_allows_any(q, u, q->name.bucket) && !access_denies(q, u));
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
    return access_owns_rights(q, user_of(q), bucket);
}

/* True if the caller has the rights that the route needs. */
static bool
has_needed(const struct request *q, const struct auth_user *u, enum need need)
{
    struct span none = {"", 0};

    switch (need) {
    case NEED_READ:
        return may_here(q, u, AUTH_READ, q->name.key);
    case NEED_WRITE:
        return may_here(q, u, AUTH_WRITE, q->name.key);
    case NEED_WRITE_TAGS:
        return access_asks_request_tags(q) || may_here(q, u, AUTH_WRITE, q->name.key);
    case NEED_LIST:
        return may_here(q, u, AUTH_LIST, query_get(&q->query, "prefix"));
    case NEED_ADMIN:
        return may_here(q, u, AUTH_ADMIN, none);
    case NEED_MAKE_BUCKET:
        return may_here(q, u, AUTH_CREATE_BUCKET, none);
    case NEED_ADMIN_ALL:
        return may(q, u, AUTH_ADMIN, SPAN(AUTH_EVERY_BUCKET), none);
    case NEED_READ_ACL:
        return may_list_rights(q, u, AUTH_READ, S3ACL_READ_ACP);
    case NEED_WRITE_ACL:
        return may_list_rights(q, u, AUTH_SET_BUCKET_ACL, S3ACL_WRITE_ACP);
    case NEED_ANY_RIGHT:
        return has_any_right(q, u);
    case NEED_EACH_KEY: /* a policy may allow some of the keys */
        return access_has_policy(q) || (q->caller.kind == CALLER_ANONYMOUS
                                            ? may_here(q, u, AUTH_WRITE, none)
                                            : access_allows_any(q, u, q->name.bucket));
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

    if ((is_signed && k == NULL) || access_has_policy(q))
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

/* What the caller may not by rights, policy and bucket, the list of the object may allow. May switch. */
static enum err
authorize_by_object(struct request *q, enum need need)
{
    uint8_t permission = need == NEED_READ        ? S3ACL_READ
                         : need == NEED_READ_ACL  ? S3ACL_READ_ACP
                         : need == NEED_WRITE_ACL ? S3ACL_WRITE_ACP
                                                  : 0;

    if (permission == 0 || q->name.key.len == 0 || access_denies(q, user_of(q)))
        return ERR_DENIED;
    return access_by_object(q, permission);
}

/* The answer to a caller without rights: AWS says to everybody that there is no such bucket, if its name could be one. */
static enum err
refuse_caller(const struct request *q, enum need need, enum err rc)
{
    struct fault unused = {0};
    bool missing =
        q->front->tells_missing && need != NEED_MAKE_BUCKET && q->name.bucket.len > 0 &&
        map_bucket_find(map_now(q->api->options.map), q->name.bucket) == NULL &&
        s3_bucket_check(q->name.bucket, &unused) == ERR_OK;

    return missing && rc == ERR_DENIED ? ERR_NO_BUCKET : rc;
}

/* `user` NULL: the request has no credentials. */
static enum err
authorize(struct request *q, const struct auth_user *user, enum need need,
          struct errbuf *eb)
{
    const char *why = NULL;
    enum err rc;

    if (user == NULL && q->caller.kind != CALLER_TOKEN)
        admit_anonymous(q, &why);
    if (access_load_tags(q))
        user = user_of(q); /* it switched */
    if (!has_needed(q, user, need)) {
        rc = authorize_by_object(q, need);
        if (rc != ERR_OK)
            return why != NULL ? err_set(eb, ERR_DENIED, "%s", why)
                               : refuse_caller(q, need, rc);
        user = user_of(q);
    }
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
    if (q->from != NULL && (q->from->flags & PEER_TRUSTED) != 0) {
        gate_admit_node(q);
        return ERR_OK;
    }
    rc = q->front->identify(q, &user);
    if (rc == ERR_OK) {
        rc = authorize(q, user, need, &eb);
        if (rc != ERR_OK && q->fault.code == S3_OK)
            fault_from(q, rc, &eb);
    }
    if (rc != ERR_OK && rc != ERR_BUSY)
        AUDIT(q, "auth.refused", fault_name(q), L_SPAN("bucket", q->name.bucket));
    return rc;
}
