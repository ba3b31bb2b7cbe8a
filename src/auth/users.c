/* users: those that stand in meta: made, changed, removed. Each change runs on loop 0, one at a time: the record goes to
 * meta, then a new snapshot is published. */
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "auth/internal.h"
#include "base/mem.h"
#include "rt/loop.h"
#include "rt/time.h"

/* ---- keys ---- */

static void
random_text(char *out, size_t len, const char *letters, unsigned count)
{
    unsigned char random[64];

    rt_random(random, len);
    /* 256 % 57 leaves the first letters a little likelier: 40 of them are over 5.7 bits each all the same. */
    for (size_t i = 0; i < len; i++)
        out[i] = letters[random[i] % count];
    out[len] = '\0';
    OPENSSL_cleanse(random, sizeof random);
}

void
auth_make_key(struct auth_new_key *out, bool temporary)
{
    static const char any[] = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";

    *out = (struct auth_new_key){.id = "FB"};
    random_text(out->id + 2, 16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 32);
    random_text(out->secret, 40, any, sizeof any - 1);
    if (temporary)
        random_text(out->token, 64, any, sizeof any - 1);
}

void
auth_new_key_wipe(struct auth_new_key *m)
{
    OPENSSL_cleanse(m, sizeof *m);
}

#define CHANGE_TRIES 8u /* of a change that another node overtakes */

/* ---- changes ---- */

enum change_kind { ADD, REMOVE, ROTATE, TEMPORARY, GRANT, REVOKE, LIMIT };

struct change {
    struct auth *a;
    enum change_kind kind;
    struct span name;
    int64_t now_ms;
    uint64_t ms; /* ROTATE: the old keys stay so long; TEMPORARY: its life */
    struct auth_new_key *made;
    auth_rights rights;
    struct span bucket, prefix;
    struct auth_limits limits;
    enum err rc;
    struct errbuf eb;
};

static enum err
add_made_key(struct change *c, struct user *u, bool temporary)
{
    auth_make_key(c->made, temporary);
    c->made->expires_ms = temporary ? c->now_ms + (int64_t)c->ms : 0;
    return user_add_key(u, span_of(c->made->id), span_of(c->made->secret),
                        span_of(c->made->token), c->now_ms, c->made->expires_ms, &c->eb);
}

/* Keys that ended are of no use to anybody. */
static void
drop_ended(struct user *u, int64_t now_ms)
{
    for (uint32_t i = u->key_count; i-- > 0;)
        if (u->keys[i].expires_ms != 0 && u->keys[i].expires_ms <= now_ms)
            user_drop_key(u, i);
}

static enum err
edit(struct change *c, struct user *u)
{
    drop_ended(u, c->now_ms);
    switch (c->kind) {
    case ADD:
        return add_made_key(c, u, false);
    case TEMPORARY:
        return add_made_key(c, u, true);
    case ROTATE:
        for (uint32_t i = 0; i < u->key_count; i++) {
            int64_t end = c->now_ms + (int64_t)c->ms;

            if (u->keys[i].token == NULL &&
                (u->keys[i].expires_ms == 0 || u->keys[i].expires_ms > end))
                u->keys[i].expires_ms = end;
        }
        drop_ended(u, c->now_ms);
        return add_made_key(c, u, false);
    case GRANT:
        return user_grant(u, c->rights, c->bucket, c->prefix, &c->eb);
    case REVOKE:
        return user_revoke(u, c->rights, c->bucket, c->prefix, &c->eb);
    case LIMIT:
        u->limits = c->limits;
        break;
    case REMOVE:
        break;
    }
    return ERR_OK;
}

/* The user as he is kept, a copy; for ADD a new one. */
static enum err
find_or_make(struct change *c, struct user **out)
{
    const struct auth_users *s = atomic_load(&c->a->now);
    const struct user *found = NULL;

    *out = NULL;
    for (uint32_t i = 0; i < s->count && found == NULL; i++)
        if (span_is(c->name, s->at[i]->name))
            found = s->at[i];
    if (c->kind == ADD) {
        if (found != NULL)
            return err_set(&c->eb, ERR_EXISTS, "user \"%s\" exists", found->name);
        if (s->count >= AUTH_USERS_MAX)
            return err_set(&c->eb, ERR_TOO_LARGE, "there are %u users, the limit",
                           AUTH_USERS_MAX);
        *out = user_new(c->name, c->now_ms);
        return ERR_OK;
    }
    if (found == NULL)
        return err_set(&c->eb, ERR_NOT_FOUND, "no user \"%.*s\"",
                       (int)MIN(c->name.len, USER_NAME_MAX), c->name.at);
    if (found->from_file)
        return err_set(&c->eb, ERR_DENIED,
                       "user \"%s\" stands in a file of credentials: change the file",
                       found->name);
    *out = user_copy(found);
    return ERR_OK;
}

/* May switch. */
static enum err
users_store(struct change *c, const struct user *u)
{
    struct arena *a = arena_new(KIB(4), KIB(64));
    struct meta_change change = {
        .key = span_of(arena_printf(a, AUTH_USER_PREFIX "%s", u->name)),
        .remove = c->kind == REMOVE,
        .if_revision = u->revision, /* 0 for a new one: the key must not exist */
    };
    struct buf record, sealed;
    uint64_t revision = 0;
    enum err rc = ERR_OK;

    buf_init(&record, META_VALUE_MAX);
    buf_init(&sealed, META_VALUE_MAX);
    user_encode(u, &record);
    if (record.full && !change.remove)
        rc = err_set(&c->eb, ERR_TOO_LARGE, "keys and grants of \"%s\" are over %u bytes",
                     u->name, META_VALUE_MAX);
    if (!change.remove)
        change.value = buf_span(&record);
    if (!change.remove && rc == ERR_OK && c->a->options.sealing != NULL) {
        rc = seal_under(c->a->options.sealing, change.key, change.value, &sealed, &c->eb);
        change.value = buf_span(&sealed);
    }
    if (rc == ERR_OK)
        rc = meta_apply(c->a->meta, &change, 1, &revision, &c->eb);
    if (record.at != NULL)
        OPENSSL_cleanse(record.at, record.len);
    buf_fini(&record);
    buf_fini(&sealed);
    arena_free(&a);
    return rc == ERR_OK ? meta_follow_wait(c->a->follower, revision, &c->eb) : rc;
}

/* ERR_PRECONDITION: its record is no longer the one that was read. May switch. */
static enum err
change_once(struct change *c)
{
    struct user *u = NULL;
    enum err rc = find_or_make(c, &u);

    if (rc == ERR_OK)
        rc = edit(c, u);
    if (rc == ERR_OK)
        rc = users_store(c, u);
    user_free(&u);
    return rc;
}

static void
users_on_loop0(void *arg)
{
    struct change *c = arg;

    if (c->a->meta == NULL) {
        c->rc = err_set(&c->eb, ERR_NOT_IMPLEMENTED, "users cannot be changed here");
        return;
    }
    c->rc = rt_sem_acquire(&c->a->change, DEADLINE_NEVER);
    if (c->rc != ERR_OK) {
        err_set(&c->eb, c->rc, "changing the users was interrupted");
        return;
    }
    c->rc = change_once(c);
    /* Another node has changed the user meanwhile: the change is made on what it has written. */
    for (unsigned i = 0; c->rc == ERR_PRECONDITION && i < CHANGE_TRIES; i++) {
        c->rc = meta_follow_refresh(c->a->follower, &c->eb);
        if (c->rc == ERR_OK)
            c->rc = change_once(c);
    }
    if (c->rc == ERR_PRECONDITION)
        c->rc = err_set(&c->eb, ERR_BUSY, "user \"%.*s\" is changed elsewhere; try again",
                        (int)MIN(c->name.len, USER_NAME_MAX), c->name.at);
    rt_sem_release(&c->a->change);
}

static enum err
users_run(struct change *c, struct errbuf *eb)
{
    enum err rc = user_name_check(c->name, eb);

    if (rc != ERR_OK)
        return rc;
    c->now_ms = (int64_t)(rt_wall_ns() / 1000000u);
    rc = rt_call(0, users_on_loop0, c);
    if (rc != ERR_OK)
        return err_set(eb, rc, "the server is busy: no stack for the change of a user");
    if (c->rc != ERR_OK) {
        if (eb != NULL)
            *eb = c->eb;
        if (c->made != NULL)
            auth_new_key_wipe(c->made);
    }
    return c->rc;
}

enum err
auth_user_add(struct auth *a, struct span name, struct auth_new_key *out,
              struct errbuf *eb)
{
    struct change c = {.a = a, .kind = ADD, .name = name, .made = out};

    return users_run(&c, eb);
}

enum err
auth_user_remove(struct auth *a, struct span name, struct errbuf *eb)
{
    struct change c = {.a = a, .kind = REMOVE, .name = name};

    return users_run(&c, eb);
}

enum err
auth_user_rotate(struct auth *a, struct span name, uint64_t keep_ms,
                 struct auth_new_key *out, struct errbuf *eb)
{
    struct change c = {.a = a, .kind = ROTATE, .name = name, .ms = keep_ms, .made = out};

    return users_run(&c, eb);
}

enum err
auth_user_temporary(struct auth *a, struct span name, uint64_t for_ms,
                    struct auth_new_key *out, struct errbuf *eb)
{
    struct change c = {
        .a = a, .kind = TEMPORARY, .name = name, .ms = for_ms, .made = out};

    if (for_ms == 0 || for_ms > AUTH_TEMPORARY_MS)
        return err_set(eb, ERR_BAD_REQUEST,
                       "a temporary key lives 1 second to 7 days, not %llu s",
                       (unsigned long long)(for_ms / 1000));
    return users_run(&c, eb);
}

enum err
auth_user_grant(struct auth *a, struct span name, auth_rights rights, struct span bucket,
                struct span prefix, struct errbuf *eb)
{
    struct change c = {.a = a,
                       .kind = GRANT,
                       .name = name,
                       .rights = rights,
                       .bucket = bucket,
                       .prefix = prefix};

    return users_run(&c, eb);
}

enum err
auth_user_revoke(struct auth *a, struct span name, auth_rights rights, struct span bucket,
                 struct span prefix, struct errbuf *eb)
{
    struct change c = {.a = a,
                       .kind = REVOKE,
                       .name = name,
                       .rights = rights,
                       .bucket = bucket,
                       .prefix = prefix};

    return users_run(&c, eb);
}

enum err
auth_user_limit(struct auth *a, struct span name, const struct auth_limits *l,
                struct errbuf *eb)
{
    struct change c = {.a = a, .kind = LIMIT, .name = name, .limits = *l};

    if (l->requests > AUTH_REQUESTS_MAX || l->bytes > AUTH_BYTES_MAX ||
        l->parts > AUTH_PARTS_MAX)
        return err_set(eb, ERR_BAD_REQUEST,
                       "at most %llu requests a second, %llu bytes a second, %u parts",
                       AUTH_REQUESTS_MAX, AUTH_BYTES_MAX, AUTH_PARTS_MAX);
    return users_run(&c, eb);
}
