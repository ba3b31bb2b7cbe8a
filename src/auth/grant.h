/* grant: the rights of a user, and their scope. Pure; any thread.
 *
 * A grant gives rights on a bucket, or on all of them ("*"), to keys that begin with a prefix. Rights add up over grants;
 * no grant removes a right. A set of rights is a mask of 32 bits, one for each operation that a front-end
 * checks. The rights that S3 users know, read, write, list and admin, are unions of these. A user with all of `admin` has every right, because that user could grant the others.
 */
#pragma once
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

/* X(name, bit, text): the single rights; the bits are those of AIS. */
#define AUTH_RIGHT_TABLE(X)                                                              \
    X(GET_OBJECT, 0, "get-object")                                                       \
    X(HEAD_OBJECT, 1, "head-object")                                                     \
    X(PUT_OBJECT, 2, "put-object")                                                       \
    X(APPEND_OBJECT, 3, "append-object")                                                 \
    X(DELETE_OBJECT, 4, "delete-object")                                                 \
    X(MOVE_OBJECT, 5, "move-object")                                                     \
    X(PROMOTE, 6, "promote")                                                             \
    X(UPDATE_OBJECT, 7, "update-object")                                                 \
    X(HEAD_BUCKET, 8, "head-bucket")                                                     \
    X(LIST_OBJECTS, 9, "list-objects")                                                   \
    X(PATCH_BUCKET, 10, "patch-bucket")                                                  \
    X(SET_BUCKET_ACL, 11, "set-bucket-acl")                                              \
    X(LIST_BUCKETS, 12, "list-buckets")                                                  \
    X(SHOW_CLUSTER, 13, "show-cluster")                                                  \
    X(CREATE_BUCKET, 14, "create-bucket")                                                \
    X(DESTROY_BUCKET, 15, "destroy-bucket")                                              \
    X(MOVE_BUCKET, 16, "move-bucket")                                                    \
    X(ADMINISTER, 17, "administer")

typedef uint32_t auth_rights; /* a set of them */
enum {
#define X(name, bit, text) AUTH_##name = 1 << (bit),
    AUTH_RIGHT_TABLE(X)
#undef X
    /* Objects, their tags and attributes. */
    AUTH_READ = AUTH_GET_OBJECT | AUTH_HEAD_OBJECT,
    /* Put, delete, uploads. */
    AUTH_WRITE = AUTH_PUT_OBJECT | AUTH_APPEND_OBJECT | AUTH_DELETE_OBJECT |
                 AUTH_MOVE_OBJECT | AUTH_UPDATE_OBJECT,
    /* Keys, versions, uploads under way. */
    AUTH_LIST = AUTH_HEAD_BUCKET | AUTH_LIST_OBJECTS,
    /* Settings of the bucket, make and delete it; on all buckets: the pages under /_/. */
    AUTH_ADMIN = AUTH_PROMOTE | AUTH_PATCH_BUCKET | AUTH_SET_BUCKET_ACL |
                 AUTH_LIST_BUCKETS | AUTH_SHOW_CLUSTER | AUTH_CREATE_BUCKET |
                 AUTH_DESTROY_BUCKET | AUTH_MOVE_BUCKET | AUTH_ADMINISTER,
    /* What a user without other rights needs to own buckets. */
    AUTH_MAKE_BUCKETS = AUTH_CREATE_BUCKET | AUTH_LIST_BUCKETS,
    AUTH_ALL = AUTH_READ | AUTH_WRITE | AUTH_LIST | AUTH_ADMIN,
};
static_assert((AUTH_READ & AUTH_WRITE) == 0, "a right belongs to one union");
static_assert(((AUTH_READ | AUTH_WRITE) & AUTH_LIST) == 0,
              "a right belongs to one union");
static_assert(((AUTH_READ | AUTH_WRITE | AUTH_LIST) & AUTH_ADMIN) == 0,
              "a right belongs to one union");
static_assert(AUTH_ALL == (1 << 18) - 1, "every right belongs to a union");
#define AUTH_EVERY_BUCKET     "*"
#define AUTH_GRANT_BUCKET_MAX 63
#define AUTH_GRANT_PREFIX_MAX 1024

struct auth_grant {
    auth_rights rights;
    char *bucket; /* owned by the holder of the grant; "*": all */
    char *prefix; /* "": all keys */
};

/* The rights that it gives on this key, or on all keys that begin with `key` when a listing asks. `bucket` "*" asks for
 * every bucket. */
auth_rights auth_grant_rights(const struct auth_grant *g, struct span bucket,
                              struct span key);
/* True if `have` includes all of `wanted`. All of `admin` includes every right. */
static inline bool
auth_rights_include(auth_rights have, auth_rights wanted)
{
    return (have & AUTH_ADMIN) == AUTH_ADMIN || (wanted & ~have) == 0;
}

/* "read,list", "get-object" or "all". ERR_BAD_REQUEST names what is no right. */
enum err auth_rights_parse(struct span text, auth_rights *out,
                           struct errbuf *eb) MUST_CHECK;
/* "read,list"; "all"; "none". Unions first, then the single rights that are left. */
#define AUTH_RIGHTS_TEXT 256
const char *auth_rights_text(auth_rights rights, char out[AUTH_RIGHTS_TEXT]);
/* Validates a grant: at least one right, a bucket name or "*", a prefix within the limit, and no prefix with "*". */
enum err auth_grant_check(auth_rights rights, struct span bucket, struct span prefix,
                          struct errbuf *eb) MUST_CHECK;
