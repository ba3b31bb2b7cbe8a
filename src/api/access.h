/* access: may this caller do that? Every front-end asks through the gate, and the gate asks here.
 *
 * In this order: (1) a caller that is trusted as local may do everything; (2) a Deny of the bucket's policy that applies
 * wins, but over the policy itself for those who may replace it; (3) an Allow of the policy; (4) the grants of the user, and
 * everything in a bucket that the user owns; (5) the public rights and the access control list of the bucket; (6) for
 * reading one object and its list, the object's own list. What none of them allows is denied.
 * Without a policy and without a list nothing is looked up that was not before: steps 2, 3, 5 and 6 cost nothing.
 */
#pragma once
#include "api/internal.h"

struct access_ask {
    const struct auth_user *user; /* NULL: no credentials */
    auth_rights wanted;
    const char *action; /* of the policy language; NULL: what stands for `wanted` */
    struct span bucket, key;
    struct span prefix; /* of a listing; NULL `at`: the query's */
};
/* Steps 1 to 5. Never switches. */
bool access_allows(const struct request *q, const struct access_ask *ask);
/* The same for the access control list itself, of the bucket or of an object: `permission` is S3ACL_READ_ACP or
 * S3ACL_WRITE_ACP. Never switches. */
bool access_allows_list(const struct request *q, const struct access_ask *ask,
                        uint8_t permission);
/* A Deny of the policy applies to what the route does. */
bool access_denies(const struct request *q, const struct auth_user *user);
/* The bucket of the request has a policy: what it says depends on more than caller, bucket and key. */
bool access_has_policy(const struct request *q);
/* That policy asks for the tags which the request gives: they may stand in its body. */
bool access_asks_request_tags(const struct request *q);
/* Any right of the caller's own in the bucket: a grant, or it is the caller's. What everybody may does not count. */
bool access_owns_rights(const struct request *q, const struct auth_user *user,
                        struct span bucket);
/* Any right in the bucket at all. */
bool access_allows_any(const struct request *q, const struct auth_user *user,
                       struct span bucket);
/* Step 6: looks the object of the request up. ERR_OK: its list gives `permission`; ERR_NOT_FOUND: there is no such object, and
 * the caller may know it, the fault is set; ERR_DENIED. May switch. */
enum err access_by_object(struct request *q, uint8_t permission) MUST_CHECK;
/* Was the caller let in by an object's list? Then the object that was opened must be checked again: it may be another one by
 * now. The fault is set. */
enum err access_recheck(struct request *q, const struct object_meta *meta) MUST_CHECK;
/* For the source of a copy, where caller_may() says no: its list lets the caller read it, and no Deny stands against that. */
bool access_object_gives(const struct request *q, const struct map_bucket *b,
                         struct span key, const struct object_meta *meta);
/* Before the first question, where the policy of the bucket asks for the tags of the object. May switch. */
/* True: it did. */
bool access_load_tags(struct request *q);

/* The name of the caller as an owner; empty: no user in particular. */
struct span access_caller_name(const struct request *q);
/* The owner of a bucket; empty: no user in particular. */
struct span access_owner_name(const struct map_bucket *b);
