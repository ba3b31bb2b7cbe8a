/* s3acl: access control lists of buckets and objects: as a document, as headers, and as they are kept.
 *
 * A list has an owner and grants; a grant gives one user, all signed callers or everybody a set of permissions. It is kept
 * as lines of text: the owner, then "PERMISSIONS GRANTEE" for each grant, where PERMISSIONS is a number (the bits below) and
 * GRANTEE is "user:NAME", "group:all" or "group:authenticated". A user's canonical id is the user's name.
 * Pure functions; memory: the arena given; a decoded list borrows the kept text.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/span.h"
#include "wire/fault.h"
#include "wire/xml.h"

#define S3ACL_GRANTS_MAX 100u  /* as AWS */
#define S3ACL_KEPT_MAX   4096u /* bytes of a kept list */

enum s3acl_permission {
    S3ACL_READ = 1,
    S3ACL_WRITE = 2,
    S3ACL_READ_ACP = 4,
    S3ACL_WRITE_ACP = 8,
    S3ACL_FULL_CONTROL = 15
};
enum s3acl_grantee { S3ACL_USER, S3ACL_ALL_USERS, S3ACL_AUTHENTICATED_USERS };
struct s3acl_grant {
    enum s3acl_grantee kind;
    uint8_t permissions;
    struct span user; /* of S3ACL_USER */
};
struct s3acl {
    struct span owner;
    unsigned count;
    struct s3acl_grant grants[S3ACL_GRANTS_MAX];
};

/* The list that a canned name stands for; `owner` is that of the object or bucket. False: no such name.
 * The names bucket-owner-read and bucket-owner-full-control are "private" for a bucket. */
bool s3acl_canned(struct span name, struct span owner, struct span bucket_owner,
                  struct s3acl *out);
/* Adds the grantees of a header x-amz-grant-*: id="NAME", uri="GROUP". InvalidArgument names what is neither;
 * UnresolvableGrantByEmailAddress: users have no e-mail addresses here. */
enum err s3acl_add_header(struct span value, uint8_t permissions, struct arena *a,
                          struct s3acl *out, struct fault *f) MUST_CHECK;
/* An AccessControlPolicy document. MalformedACLError. */
enum err s3acl_parse_document(struct span doc, struct arena *a, struct s3acl *out,
                              struct fault *f) MUST_CHECK;
/* The elements Owner and AccessControlList. */
void s3acl_write(const struct s3acl *acl, struct xml *x);
/* The name of a permission, as S3 spells it; the element or `NULL` of a set that has no name. */
const char *s3acl_permission_name(uint8_t permissions);

/* InvalidRequest over S3ACL_KEPT_MAX. */
enum err s3acl_encode(const struct s3acl *acl, struct arena *a, struct span *out,
                      struct fault *f) MUST_CHECK;
/* False: it is none of ours. */
bool s3acl_decode(struct span kept, struct s3acl *out);

/* What the list gives this caller: `user` with a NULL `at` is an anonymous one. `ignore_public`: grants to groups give
 * nothing. The owner may always read and write the list. */
uint8_t s3acl_permissions(const struct s3acl *acl, struct span user, bool ignore_public);
/* True if it grants anything to a group. */
bool s3acl_is_public(const struct s3acl *acl);
