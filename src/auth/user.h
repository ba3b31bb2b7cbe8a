/* user: a stored user: name, keys, grants; and its record (docs/formats.md, section "user record"). Inside `auth`
 * only; pure. Secrets are wiped when freed. */
#pragma once
#include "auth/grant.h"
#include "auth/meter.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define USER_NAME_MAX   64
#define USER_KEYS_MAX   64
#define USER_GRANTS_MAX 64
#define USER_TEXT_MAX   4096 /* of a key's id, secret, token */

struct user_key {
    char *id, *secret;
    char *token; /* NULL: a lasting key */
    int64_t created_ms;
    int64_t expires_ms; /* 0: never */
};
struct user {
    char *name;
    int64_t created_ms;
    struct auth_limits limits;
    bool from_file;    /* never in a record */
    uint64_t revision; /* of its record in meta; 0: there is none. Never in the record */
    uint32_t key_count, grant_count;
    struct user_key *keys;     /* owned */
    struct auth_grant *grants; /* owned */
};

struct user *user_new(struct span name, int64_t created_ms);
void user_free(struct user **up); /* NULL is fine */
/* ERR_TOO_LARGE at the limits. The texts are copied. */
enum err user_add_key(struct user *u, struct span id, struct span secret,
                      struct span token, int64_t created_ms, int64_t expires_ms,
                      struct errbuf *eb) MUST_CHECK;
void user_drop_key(struct user *u, uint32_t index);
/* Adds rights to the grant on that bucket and prefix, or makes one. */
enum err user_grant(struct user *u, auth_rights rights, struct span bucket,
                    struct span prefix, struct errbuf *eb) MUST_CHECK;
/* Takes rights from the grant on exactly that bucket and prefix. ERR_NOT_FOUND when there is none with any of them. */
enum err user_revoke(struct user *u, auth_rights rights, struct span bucket,
                     struct span prefix, struct errbuf *eb) MUST_CHECK;
/* 1 to 64 of letters, digits and -_.@+ , beginning with a letter or digit. */
enum err user_name_check(struct span name, struct errbuf *eb) MUST_CHECK;

void user_encode(const struct user *u, struct buf *out);
/* ERR_CORRUPT. */
enum err user_decode(struct span record, struct user **out, struct errbuf *eb) MUST_CHECK;
