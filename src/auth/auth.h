/* auth: users, their keys, and the one gate in front of every route.
 *
 * Users come from files in the format of AWS's shared credentials file, one profile each. They have full rights until
 * policies exist. On a loopback connection without `auth` the anonymous caller has them too; credentials that are
 * sent are checked always. Secrets are wiped when freed and never leave this room.
 *
 * Read by all loops; changed at start only.
 */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"
#include "rt/file.h"

struct auth;
#define AUTH_USERS_MAX 10000

struct auth_options {
    bool required; /* --auth, or the listener is off loopback: no anonymous caller */
    bool
        clear_text_ok; /* unsigned payload over plain HTTP: loopback, or --insecure-http */
};
enum err auth_new(const struct auth_options *o, struct auth **out,
                  struct errbuf *eb) MUST_CHECK;
void auth_free(struct auth **ap);
/* Adds every profile of the file. Refused when group or others can read it: ERR_DENIED. May switch. */
enum err auth_load(struct auth *a, struct rt_dir *dir, const char *name,
                   struct errbuf *eb) MUST_CHECK;
/* Writes `name` (0600) with one random user when it is not there. May switch. */
enum err auth_make_first(struct auth *a, struct rt_dir *dir, const char *name,
                         struct errbuf *eb) MUST_CHECK;

struct auth_user {
    const char *name; /* profile; "anonymous" */
    const char *access_key;
    bool anonymous;
};
/* The secret of an access key, for sigv4_verify; NULL when unknown. Borrowed. */
const char *auth_secret(const struct auth *a, struct span access_key,
                        const struct auth_user **user);
bool auth_anonymous_ok(const struct auth *a, bool peer_is_loopback);
bool auth_clear_text_ok(const struct auth *a);
/* Is this Host header ours when the caller is anonymous on loopback: a loopback name or address, *.localhost, or a
 * configured domain? (So that web pages cannot reach in.) */
bool auth_host_ok(const struct auth *a, struct span host, const char *const *domains,
                  unsigned count);
