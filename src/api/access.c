#include "api/access.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "wire/s3acl.h"
#include "wire/s3policy.h"
#include "wire/s3tags.h"

/* ---- conditions of a policy: what the request has ---- */

struct evaluation {
    const struct request *q;
    const struct access_ask *ask;
};

/* "127.0.0.1" of "127.0.0.1:51234", "::1" of "[::1]:51234". */
static struct span
peer_address(const struct request *q)
{
    struct span peer = span_of(q->http->peer);

    while (peer.len > 0 && peer.at[peer.len - 1] != ':')
        peer.len--;
    if (peer.len > 0)
        peer.len--;
    if (peer.len >= 2 && peer.at[0] == '[')
        peer = (struct span){peer.at + 1, peer.len - 2};
    return peer;
}

static bool
header_value(const struct evaluation *j, struct span name, struct span *value)
{
    struct fields h = http_fields(j->q->http->head);

    for (size_t i = 0; i < h.count; i++)
        if (h.at[i].name.len == name.len &&
            strncasecmp(h.at[i].name.at, name.at, name.len) == 0) {
            *value = h.at[i].value;
            return true;
        }
    return false;
}

static bool
query_value(const struct evaluation *j, const char *name, struct span *value)
{
    *value = query_get(&j->q->query, name);
    return value->at != NULL;
}

static bool
condition_value(void *arg, struct span key, struct span *value)
{
    const struct evaluation *j = arg;
    const struct auth_user *user = j->ask->user;

    if (span_starts(key, SPAN("s3:existingobjecttag/")))
        return s3tags_find(j->q->object_tags, span_from(key, 21), j->q->arena, value);
    if (span_starts(key, SPAN("s3:requestobjecttag/"))) {
        struct span given = j->q->request_tags;

        return (given.at != NULL || header_value(j, SPAN("x-amz-tagging"), &given)) &&
               s3tags_find(given, span_from(key, 20), j->q->arena, value);
    }
    if (span_starts(key, SPAN("s3:x-amz-")) || span_starts(key, SPAN("s3:if-")))
        return header_value(j, span_from(key, 3), value);
    if (span_is(key, "aws:sourceip")) {
        *value = peer_address(j->q);
        return true;
    }
    if (span_is(key, "aws:securetransport")) {
        *value = j->q->http->is_tls ? SPAN("true") : SPAN("false");
        return true;
    }
    if (span_is(key, "aws:username") || span_is(key, "aws:userid")) {
        *value = user != NULL ? span_of(user->name) : (struct span){NULL, 0};
        return user != NULL;
    }
    if (span_is(key, "aws:referer"))
        return header_value(j, SPAN("referer"), value);
    if (span_is(key, "aws:useragent"))
        return header_value(j, SPAN("user-agent"), value);
    if (span_is(key, "s3:prefix") && j->ask->prefix.at != NULL) {
        *value = j->ask->prefix;
        return true;
    }
    return span_is(key, "s3:prefix")      ? query_value(j, "prefix", value)
           : span_is(key, "s3:delimiter") ? query_value(j, "delimiter", value)
           : span_is(key, "s3:max-keys")  ? query_value(j, "max-keys", value)
                                          : query_value(j, "versionId", value);
}

/* ---- the policy ---- */

/* What a right is called in the policy language, for front-ends whose routes do not say it. */
static const char *
action_of(auth_rights wanted)
{
    if ((wanted & AUTH_READ) != 0)
        return "s3:GetObject";
    if (wanted == AUTH_DELETE_OBJECT)
        return "s3:DeleteObject";
    if ((wanted & AUTH_WRITE) != 0)
        return "s3:PutObject";
    if ((wanted & AUTH_LIST) != 0)
        return "s3:ListBucket";
    return "forebay:Administer";
}

static bool
is_about_policy(const char *action)
{
    return strcmp(action, "s3:GetBucketPolicy") == 0 ||
           strcmp(action, "s3:PutBucketPolicy") == 0 ||
           strcmp(action, "s3:DeleteBucketPolicy") == 0;
}

/* What a token says of a bucket, or of all. */
static auth_rights
rights_of_token(const struct token_rights *t, struct span bucket)
{
    for (unsigned i = 0; i < t->count; i++)
        if (span_eq(t->at[i].bucket, bucket))
            return t->at[i].rights;
    return t->everywhere;
}

/* The grants of the user or of the token, and everything in the user's own bucket. */
static auth_rights
rights_of_caller(const struct request *q, const struct auth_user *u,
                 const struct map_bucket *b, struct span bucket, struct span key)
{
    if (q->caller.kind == CALLER_TOKEN)
        return rights_of_token(q->caller.token, bucket);
    if (u == NULL)
        return 0;
    if (b != NULL && b->owner != NULL && strcmp(b->owner, u->name) == 0)
        return AUTH_ALL;
    return auth_user_rights(u, bucket, key);
}

static enum s3policy_verdict
policy_verdict(const struct request *q, const struct map_bucket *b,
               const struct access_ask *ask)
{
    struct evaluation j = {q, ask};
    const char *action = ask->action != NULL ? ask->action : action_of(ask->wanted);
    struct s3policy_request r = {.action = action,
                                 .bucket = ask->bucket,
                                 .key = ask->key,
                                 .value = condition_value,
                                 .arg = &j};
    enum s3policy_verdict verdict;

    if (b == NULL || b->parsed_policy == NULL)
        return S3POLICY_SILENT;
    if (ask->user != NULL) {
        r.user = span_of(ask->user->name);
        r.access_key = q->caller.auth.access_key;
    }
    /* Who lists or makes something in a bucket asks about the bucket, not about a key. */
    if (strcmp(action, "s3:ListBucket") == 0 ||
        strcmp(action, "s3:ListBucketVersions") == 0 ||
        strcmp(action, "s3:ListBucketMultipartUploads") == 0)
        r.key = (struct span){"", 0};
    verdict = s3policy_evaluate(b->parsed_policy, &r,
                                (b->public_block & MAP_RESTRICT_PUBLIC_BUCKETS) != 0);
    /* A policy must not lock out those who could repair it. */
    if (verdict == S3POLICY_DENY && is_about_policy(action) &&
        (rights_of_caller(q, ask->user, b, ask->bucket, (struct span){"", 0}) &
         AUTH_ADMIN) == AUTH_ADMIN)
        verdict = S3POLICY_ALLOW;
    return verdict;
}

/* ---- lists ---- */

static bool
has_lists(const struct map_bucket *b)
{
    return b != NULL && b->ownership != MAP_BUCKET_OWNER_ENFORCED;
}

/* What a kept list gives the caller. */
static uint8_t
list_gives(const struct map_bucket *b, struct span kept, const struct auth_user *u)
{
    struct span user = u != NULL ? span_of(u->name) : (struct span){NULL, 0};
    struct s3acl acl;

    if (kept.len == 0 || !s3acl_decode(kept, &acl))
        return 0;
    return s3acl_permissions(&acl, user, (b->public_block & MAP_IGNORE_PUBLIC_ACLS) != 0);
}

static uint8_t
bucket_list_gives(const struct map_bucket *b, const struct auth_user *u)
{
    return has_lists(b) && b->acl != NULL ? list_gives(b, span_of(b->acl), u) : 0;
}

/* Rights without a grant: those that everybody has, and those of the list. */
static auth_rights
rights_of_bucket(const struct map_bucket *b, const struct auth_user *u)
{
    uint8_t given = bucket_list_gives(b, u);
    auth_rights rights = b->anonymous_read ? AUTH_READ | AUTH_LIST : 0;

    if ((given & S3ACL_READ) != 0)
        rights |= AUTH_LIST;
    if ((given & S3ACL_WRITE) != 0)
        rights |= AUTH_WRITE;
    return rights;
}

/* ---- asking ---- */

static const struct map_bucket *
access_bucket(const struct request *q, struct span bucket)
{
    return map_bucket_find(map_now(q->api->options.map), bucket);
}

bool
access_allows(const struct request *q, const struct access_ask *ask)
{
    const struct map *m = map_now(q->api->options.map);
    const struct map_bucket *b;
    enum s3policy_verdict verdict;

    assert(ask->wanted != 0);
    if (q->caller.kind == CALLER_LOCAL)
        return true;
    if (!map_has_policies(m) && ask->user != NULL &&
        auth_rights_include(auth_user_rights(ask->user, ask->bucket, ask->key),
                            ask->wanted))
        return true;
    b = map_bucket_find(m, ask->bucket);
    verdict = policy_verdict(q, b, ask);
    if (verdict != S3POLICY_SILENT)
        return verdict == S3POLICY_ALLOW;
    return auth_rights_include(rights_of_caller(q, ask->user, b, ask->bucket, ask->key) |
                                   (b != NULL ? rights_of_bucket(b, ask->user) : 0),
                               ask->wanted);
}

bool
access_allows_list(const struct request *q, const struct access_ask *ask,
                   uint8_t permission)
{
    const struct map_bucket *b = access_bucket(q, ask->bucket);
    enum s3policy_verdict verdict;
    auth_rights have;

    if (q->caller.kind == CALLER_LOCAL)
        return true;
    verdict = policy_verdict(q, b, ask);
    if (verdict != S3POLICY_SILENT)
        return verdict == S3POLICY_ALLOW;
    have = rights_of_caller(q, ask->user, b, ask->bucket, ask->key);
    if (auth_rights_include(have, ask->wanted))
        return true;
    return ask->key.len == 0 && (bucket_list_gives(b, ask->user) & permission) != 0;
}

bool
access_denies(const struct request *q, const struct auth_user *user)
{
    struct access_ask ask = {.user = user,
                             .wanted = AUTH_READ,
                             .action = q->action,
                             .bucket = q->name.bucket,
                             .key = q->name.key};

    return q->caller.kind != CALLER_LOCAL &&
           policy_verdict(q, access_bucket(q, q->name.bucket), &ask) == S3POLICY_DENY;
}

bool
access_has_policy(const struct request *q)
{
    const struct map *m = map_now(q->api->options.map);
    const struct map_bucket *b;

    if (!map_has_policies(m))
        return false;
    b = map_bucket_find(m, q->name.bucket);
    return b != NULL && b->parsed_policy != NULL;
}

bool
access_asks_request_tags(const struct request *q)
{
    const struct map_bucket *b =
        access_has_policy(q) ? access_bucket(q, q->name.bucket) : NULL;

    return b != NULL && s3policy_asks_request_tags(b->parsed_policy);
}

bool
access_owns_rights(const struct request *q, const struct auth_user *user,
                   struct span bucket)
{
    const struct map_bucket *b;

    if (q->caller.kind == CALLER_LOCAL ||
        (q->caller.kind == CALLER_TOKEN &&
         rights_of_token(q->caller.token, bucket) != 0) ||
        (user != NULL && auth_has_any_right(user, bucket)))
        return true;
    b = user != NULL ? access_bucket(q, bucket) : NULL;
    return b != NULL && b->owner != NULL && strcmp(b->owner, user->name) == 0;
}

bool
access_allows_any(const struct request *q, const struct auth_user *user,
                  struct span bucket)
{
    const struct map_bucket *b;

    if (access_owns_rights(q, user, bucket))
        return true;
    b = access_bucket(q, bucket);
    return b != NULL && rights_of_bucket(b, user) != 0;
}

/* ---- one object ---- */

static const struct auth_user *
user_now(const struct request *q)
{
    const struct auth_key *k =
        q->caller.kind == CALLER_KEY
            ? auth_find(q->api->options.auth, q->caller.auth.access_key)
            : NULL;

    return k != NULL ? k->user : NULL;
}

/* The object that the request names; ERR_NOT_FOUND, or what else stands against reading it. May switch. */
static enum err
find_object_of(struct request *q, const struct map_bucket *b, struct object_info *info)
{
    struct span id = query_get(&q->query, "versionId");
    struct object_version version;
    struct errbuf eb = {{0}};

    *info = (struct object_info){0};
    if (id.at != NULL && !object_version_parse(id, &version))
        return ERR_NOT_FOUND;
    return object_head_version(q->api->options.object, b, q->name.key,
                               id.at != NULL ? &version : NULL, q->arena, info, &eb);
}

enum err
access_by_object(struct request *q, uint8_t permission)
{
    const struct map_bucket *b = access_bucket(q, q->name.bucket);
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct access_ask listing = {.wanted = AUTH_LIST,
                                 .action = "s3:ListBucket",
                                 .bucket = q->name.bucket,
                                 .prefix = q->name.key};
    enum err rc;

    assert(q->name.key.len > 0);
    if (b == NULL || b->cached)
        return ERR_DENIED;
    b = map_bucket_ref(b);
    rc = find_object_of(q, b, info);
    listing.user = user_now(q);
    q->caller.by_object = permission;
    if (rc == ERR_OK)
        rc = has_lists(b) &&
                     (list_gives(b, info->meta.acl, listing.user) & permission) != 0
                 ? ERR_OK
                 : ERR_DENIED;
    else if (rc == ERR_NOT_FOUND && access_allows(q, &listing))
        fault_set(&q->fault, S3_NoSuchKey, NULL);
    else
        rc = ERR_DENIED;
    map_bucket_drop(&b);
    return rc;
}

bool
access_object_gives(const struct request *q, const struct map_bucket *b, struct span key,
                    const struct object_meta *meta)
{
    struct access_ask ask = {.user = user_now(q),
                             .wanted = AUTH_READ,
                             .bucket = span_of(b->uname),
                             .key = key};

    return !b->cached && has_lists(b) && policy_verdict(q, b, &ask) != S3POLICY_DENY &&
           (list_gives(b, meta->acl, ask.user) & S3ACL_READ) != 0;
}

enum err
access_recheck(struct request *q, const struct object_meta *meta)
{
    if (q->caller.by_object == 0 ||
        (list_gives(q->bucket, meta->acl, user_now(q)) & q->caller.by_object) != 0)
        return ERR_OK;
    return fault_set(&q->fault, S3_AccessDenied, NULL);
}

bool
access_load_tags(struct request *q)
{
    const struct map_bucket *b;
    struct object_info *info;

    if (q->name.key.len == 0 || !map_has_policies(map_now(q->api->options.map)))
        return false;
    b = access_bucket(q, q->name.bucket);
    if (b == NULL || b->cached || b->parsed_policy == NULL ||
        !s3policy_asks_tags(b->parsed_policy))
        return false;
    b = map_bucket_ref(b);
    info = arena_alloc(q->arena, sizeof *info);
    if (find_object_of(q, b, info) == ERR_OK)
        q->object_tags = info->meta.tags;
    map_bucket_drop(&b);
    return true;
}

/* ---- owners ---- */

struct span
access_caller_name(const struct request *q)
{
    return q->caller.kind == CALLER_KEY ? q->caller.name : (struct span){"", 0};
}

struct span
access_owner_name(const struct map_bucket *b)
{
    return b != NULL && b->owner != NULL ? span_of(b->owner) : (struct span){"", 0};
}
