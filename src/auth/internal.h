/* internal: what the files of the auth room share. */
#pragma once
#include <stdatomic.h>

#include "auth/auth.h"
#include "auth/user.h"
#include "meta/follow.h"
#include "rt/sync.h"

/* One snapshot: immutable once published. */
struct auth_users {
    uint64_t serial; /* unique within one struct auth */
    uint32_t count, key_count;
    struct user **at;        /* owned; users from files first, then by name */
    struct auth_user *shown; /* of each user */
    struct auth_key *keys;   /* of all, in order of ids: points into `at` */
};

struct auth {
    struct auth_options options;
    _Atomic(struct auth_users *) now; /* never NULL */
    atomic_ullong serials;
    /* On loop 0, or before others see it. */
    struct user **files; /* owned: the users from files */
    uint32_t file_count;
    struct auth_meter **
        meters; /* owned, by name: of every user that ever had limits; never freed before `auth` */
    uint32_t meter_count;
    struct meta *meta;              /* NULL: none can be changed */
    struct meta_follower *follower; /* owned; publishes changes of meta */
    struct rt_sem change;           /* one change at a time */
    struct rt_sem publish;          /* one new snapshot at a time */
};

/* Publishes a snapshot of files and meta; *revision (may be NULL) is that of meta. ERR_EXISTS, without effect, if two keys
 * or names are equal. May
 * switch when there is meta. */
enum err auth_publish(struct auth *a, uint64_t *revision, struct errbuf *eb) MUST_CHECK;
/* A copy of its own. */
struct user *user_copy(const struct user *u);
#define AUTH_USER_PREFIX "user/"
/* Random: id, secret, and a token where it is temporary. Letters and digits only, so that they survive every shell and
 * every URL. */
void auth_make_key(struct auth_new_key *out, bool temporary);
