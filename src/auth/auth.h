/* auth: users, their keys and their rights.
 *
 * Users come from two places. Profiles of files in the format of AWS's shared credentials file: the keys of the first start, and `--credentials`.
 * The first profile of a file may do everything, the others may make buckets, which they own (api/access.h). Users created by `forebay user` are stored in meta, each with keys and grants
 * (auth/grant.h). On a loopback connection without `auth` the anonymous caller may do everything too; credentials that
 * are sent are checked always.
 *
 * Readers: any loop, without a lock: auth_find() lends a part of an immutable snapshot, valid until the fiber switches; then look it
 * up again. Changes replace the whole snapshot; they run on loop 0, one at a time. Secrets are wiped when freed. They
 * leave this room only for signature checks and in the reply that creates them.
 */
#pragma once
#include "auth/grant.h"
#include "auth/meter.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"
#include "meta/meta.h"
#include "rt/file.h"
#include "wire/seal.h"

struct auth;
#define AUTH_USERS_MAX    10000
#define AUTH_TEMPORARY_MS (7 * 86400 * 1000ull) /* the longest life of a temporary key */

struct auth_options {
    bool required; /* --auth, or the listener is off loopback: no anonymous caller */
    bool
        clear_text_ok; /* unsigned payload over plain HTTP: loopback, or --insecure-http */
    /* The records in meta are sealed under this key: meta is etcd. NULL: they are not. Borrowed. */
    const struct seal_key *sealing;
};
enum err auth_new(const struct auth_options *o, struct auth **out,
                  struct errbuf *eb) MUST_CHECK;
void auth_free(struct auth **ap);
/* Adds every profile of the file. ERR_DENIED when group or others can read it. Set-up only. May switch. */
enum err auth_load(struct auth *a, struct rt_dir *dir, const char *name,
                   struct errbuf *eb) MUST_CHECK;
/* Creates `name` (0600) with one random user if it does not exist; loads it. Set-up only. May switch. */
enum err auth_make_first(struct auth *a, struct rt_dir *dir, const char *name,
                         struct errbuf *eb) MUST_CHECK;
/* Loads the users stored in `meta`, which must outlive `a`. Without meta, users cannot be changed. On loop 0, once,
 * after the files. May switch. */
enum err auth_load_meta(struct auth *a, struct meta *meta, struct errbuf *eb) MUST_CHECK;
/* The files again, as another struct auth has read them (auth_new, auth_load ...): its users replace those that came
 * from files, or nothing changes. On loop 0. May switch. */
enum err auth_replace_files(struct auth *a, struct auth *fresh,
                            struct errbuf *eb) MUST_CHECK;

/* True if the value of this meta key is secret: a backup omits or seals it. */
bool auth_is_secret(struct span meta_key);

/* ---- asking: any loop, no lock, no allocation ---- */

struct auth_user {
    const char *name; /* profile, or user */
    uint32_t grant_count;
    const struct auth_grant *grants;
    struct auth_limits limits;
    struct auth_meter *meter; /* lives as long as `auth`; NULL: no limits */
};
struct auth_key {
    const char *id, *secret;
    const char *token;  /* NULL: a lasting key; else requests must carry it */
    int64_t expires_ms; /* 0: never */
    const struct auth_user *user;
};
/* NULL when unknown. Lent until the fiber switches. */
const struct auth_key *auth_find(const struct auth *a, struct span access_key);
/* Changes with every change of users, keys or grants. Results obtained under an older serial are stale; what auth_find()
 * lent under the same serial is still valid. */
uint64_t auth_serial(const struct auth *a);
/* The union of the user's grants on a key, or on all keys that begin with `key` for a listing; bucket "*": all buckets. */
auth_rights auth_user_rights(const struct auth_user *u, struct span bucket,
                             struct span key);
/* True if the user's rights include `wanted`. */
bool auth_may(const struct auth_user *u, auth_rights wanted, struct span bucket,
              struct span key);
/* True if there is a user of that name, in a file or in meta. */
bool auth_user_exists(const struct auth *a, struct span name);
/* True if the user has any right in this bucket but that to make it, so may learn that it exists. */
bool auth_has_any_right(const struct auth_user *u, struct span bucket);

bool auth_anonymous_ok(const struct auth *a, bool peer_is_loopback);
bool auth_clear_text_ok(const struct auth *a);
/* Checks the Host header of an anonymous caller on loopback: it must be a loopback name or address, *.localhost, or a
 * configured domain. Prevents DNS rebinding by web pages. */
bool auth_host_ok(const struct auth *a, struct span host, const char *const *domains,
                  unsigned count);

/* ---- users in meta. Every change is durable and in force when it returns. May switch. ---- */

/* A key just made; the only time its secret is shown. auth_new_key_wipe() when done. */
struct auth_new_key {
    char id[24], secret[48], token[72]; /* token "" for a lasting key */
    int64_t expires_ms;
};
void auth_new_key_wipe(struct auth_new_key *m);

/* Creates a user with one key and no grant. ERR_EXISTS. */
enum err auth_user_add(struct auth *a, struct span name, struct auth_new_key *out,
                       struct errbuf *eb) MUST_CHECK;
/* ERR_NOT_FOUND. The user's keys are invalid from then on. */
enum err auth_user_remove(struct auth *a, struct span name, struct errbuf *eb) MUST_CHECK;
/* A new lasting key; existing lasting keys expire after `keep_ms` (0: now), so that both work while clients switch keys. */
enum err auth_user_rotate(struct auth *a, struct span name, uint64_t keep_ms,
                          struct auth_new_key *out, struct errbuf *eb) MUST_CHECK;
/* A temporary key with a token, and with the user's rights. */
enum err auth_user_temporary(struct auth *a, struct span name, uint64_t for_ms,
                             struct auth_new_key *out, struct errbuf *eb) MUST_CHECK;
enum err auth_user_grant(struct auth *a, struct span name, auth_rights rights,
                         struct span bucket, struct span prefix,
                         struct errbuf *eb) MUST_CHECK;
/* Removes rights from the grant on exactly that bucket and prefix. */
enum err auth_user_revoke(struct auth *a, struct span name, auth_rights rights,
                          struct span bucket, struct span prefix,
                          struct errbuf *eb) MUST_CHECK;

/* 0 of a limit: none. ERR_BAD_REQUEST over AUTH_REQUESTS_MAX and the others. */
enum err auth_user_limit(struct auth *a, struct span name, const struct auth_limits *l,
                         struct errbuf *eb) MUST_CHECK;
/* The limits of a user in meta. False: no such user. */
bool auth_user_limits(const struct auth *a, struct span name, struct auth_limits *out);

/* The public part of users, without secrets: one consistent snapshot. Count and indexes refer to that snapshot. Lent until
 * the fiber switches. */
struct auth_users;
struct auth_shown {
    const char *name;
    bool from_file;
    int64_t created_ms; /* 0 from a file */
    uint32_t grant_count, key_count;
    const struct auth_grant *grants;
    struct auth_limits limits;
};
const struct auth_users *auth_users_now(const struct auth *a);
uint32_t auth_users_count(const struct auth_users *s);
void auth_users_at(const struct auth_users *s, uint32_t index, struct auth_shown *out);
/* The index-th key of that user; do not show its secret and token. */
const struct auth_key *auth_users_key(const struct auth_users *s, uint32_t user,
                                      uint32_t index);
