/* grant: what a user may do, and where. Pure; any thread.
 *
 * A grant gives rights on a bucket, or on all of them ("*"), to keys that begin with a prefix. Rights add up over grants;
 * nothing takes one away. `admin` includes the other three: whoever has it could give himself those.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

enum auth_right {
    AUTH_READ = 1,  /* objects, their tags and attributes */
    AUTH_WRITE = 2, /* put, delete, uploads */
    AUTH_LIST = 4,  /* keys, versions, uploads under way */
    AUTH_ADMIN =
        8, /* settings of the bucket, make and delete it; on all buckets: the pages under /_/ */
    AUTH_ALL = 15,
};
#define AUTH_EVERY_BUCKET     "*"
#define AUTH_GRANT_BUCKET_MAX 63
#define AUTH_GRANT_PREFIX_MAX 1024

struct auth_grant {
    unsigned rights; /* of enum auth_right */
    char *bucket;    /* owned by whoever holds the grant; "*": all */
    char *prefix;    /* "": all keys */
};

/* Does it give `right` on this key, or on all keys that begin with `key` when a listing asks? `bucket` "*" asks for
 * every bucket. */
bool auth_grant_gives(const struct auth_grant *g, enum auth_right right,
                      struct span bucket, struct span key);

/* "read,list" or "all". ERR_BAD_REQUEST names what is no right. */
enum err auth_rights_parse(struct span text, unsigned *out, struct errbuf *eb) MUST_CHECK;
/* "read,list"; "all" for all four; "none". */
const char *auth_rights_text(unsigned rights, char out[24]);
/* Is it one that can be kept: some rights, a bucket's name or "*", a prefix that is not too long, and none with "*"? */
enum err auth_grant_check(unsigned rights, struct span bucket, struct span prefix,
                          struct errbuf *eb) MUST_CHECK;
