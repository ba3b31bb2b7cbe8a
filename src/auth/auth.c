#include "auth/auth.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/credentials.h"
#include "auth/internal.h"
#include "base/mem.h"
#include "rt/loop.h"

#define LIST_BYTES MIB(256)

/* ---- snapshots ---- */

static void
users_free(void *arg)
{
    struct auth_users *s = arg;

    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->count; i++)
        user_free(&s->at[i]);
    free(s->at);
    free(s->shown);
    free(s->keys);
    free(s);
}

struct user *
user_copy(const struct user *u)
{
    struct user *copy = user_new(span_of(u->name), u->created_ms);
    enum err rc = ERR_OK;

    copy->from_file = u->from_file;
    copy->revision = u->revision;
    copy->limits = u->limits;
    for (uint32_t i = 0; i < u->key_count && rc == ERR_OK; i++)
        rc = user_add_key(copy, span_of(u->keys[i].id), span_of(u->keys[i].secret),
                          span_of(u->keys[i].token), u->keys[i].created_ms,
                          u->keys[i].expires_ms, NULL);
    for (uint32_t i = 0; i < u->grant_count && rc == ERR_OK; i++)
        rc = user_grant(copy, u->grants[i].rights, span_of(u->grants[i].bucket),
                        span_of(u->grants[i].prefix), NULL);
    assert(rc == ERR_OK); /* the same limits held for what is copied */
    return copy;
}

static int
by_id(const void *a, const void *b)
{
    return strcmp(((const struct auth_key *)a)->id, ((const struct auth_key *)b)->id);
}

static int
auth_by_name(const void *a, const void *b)
{
    return strcmp((*(struct user *const *)a)->name, (*(struct user *const *)b)->name);
}

/* The one of that name, made when it is not there: requests under way hold it, so it outlives users. */
static struct auth_meter *
meter_of(struct auth *a, const struct user *u)
{
    uint32_t low = 0, high = a->meter_count;

    if (u->limits.requests == 0 && u->limits.bytes == 0 && u->limits.parts == 0)
        return NULL;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int c = strcmp(a->meters[mid]->name, u->name);

        if (c == 0)
            return a->meters[mid];
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    a->meters = xrealloc(a->meters, (a->meter_count + 1) * sizeof(struct auth_meter *));
    memmove(&a->meters[low + 1], &a->meters[low],
            (a->meter_count - low) * sizeof(struct auth_meter *));
    a->meters[low] = xcalloc(1, sizeof(struct auth_meter));
    a->meters[low]->name = xstrdup(u->name);
    a->meter_count++;
    return a->meters[low];
}

/* Fills `shown` and `keys` from `at`. ERR_EXISTS when a key would open two users. */
static enum err
index_users(struct auth *a, struct auth_users *s, struct errbuf *eb)
{
    s->shown = xcalloc(MAX(s->count, 1), sizeof *s->shown);
    for (uint32_t i = 0; i < s->count; i++) {
        s->shown[i] = (struct auth_user){.name = s->at[i]->name,
                                         .grant_count = s->at[i]->grant_count,
                                         .grants = s->at[i]->grants,
                                         .limits = s->at[i]->limits,
                                         .meter = meter_of(a, s->at[i])};
        s->key_count += s->at[i]->key_count;
    }
    s->keys = xcalloc(MAX(s->key_count, 1), sizeof *s->keys);
    s->key_count = 0;
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t k = 0; k < s->at[i]->key_count; k++) {
            const struct user_key *key = &s->at[i]->keys[k];

            s->keys[s->key_count++] = (struct auth_key){key->id, key->secret, key->token,
                                                        key->expires_ms, &s->shown[i]};
        }
    qsort(s->keys, s->key_count, sizeof *s->keys, by_id);
    for (uint32_t i = 1; i < s->key_count; i++)
        if (by_id(&s->keys[i - 1], &s->keys[i]) == 0)
            return err_set(
                eb, ERR_EXISTS, "access key \"%s\" of [%s] is already that of [%s]",
                s->keys[i].id, s->keys[i].user->name, s->keys[i - 1].user->name);
    return ERR_OK;
}

/* A record of meta. */
static enum err
decode_stored(const struct auth *a, const struct meta_pair *p, struct user **out,
              struct errbuf *eb)
{
    struct buf plain;
    unsigned which;
    enum err rc;

    if (a->options.sealing == NULL)
        return user_decode(p->value, out, eb);
    buf_init(&plain, META_VALUE_MAX);
    rc = unseal_under(a->options.sealing, 1, p->key, p->value, &plain, &which, eb);
    if (rc == ERR_OK)
        rc = user_decode(buf_span(&plain), out, eb);
    else
        err_prefix(eb, "\"%.*s\" in etcd does not open with the key of the cluster",
                   SPAN_ARG(p->key));
    if (plain.len > 0)
        OPENSSL_cleanse(plain.at, plain.len);
    buf_fini(&plain);
    return rc;
}

/* Those of meta behind those of files. May switch. */
static enum err
add_from_meta(struct auth *a, struct auth_users *s, uint64_t *revision, struct errbuf *eb)
{
    struct arena *arena = arena_new(KIB(64), LIST_BYTES);
    struct meta_pair *pairs = NULL;
    uint32_t count = 0, files = s->count;
    enum err rc =
        meta_list(a->meta, SPAN(AUTH_USER_PREFIX), arena, &pairs, &count, revision, eb);

    if (rc == ERR_OK)
        s->at = xrealloc(s->at, MAX(s->count + count, 1) * sizeof(struct user *));
    for (uint32_t i = 0; i < count && rc == ERR_OK; i++) {
        struct user *u = NULL;

        rc = decode_stored(a, &pairs[i], &u, eb);
        if (rc == ERR_OK)
            u->revision = pairs[i].revision;
        for (uint32_t f = 0; f < files && rc == ERR_OK; f++)
            if (strcmp(s->at[f]->name, u->name) == 0)
                rc = err_set(eb, ERR_EXISTS,
                             "there is a user \"%s\"; give the profile of the file "
                             "another name",
                             u->name);
        if (u != NULL)
            s->at[s->count++] = u;
    }
    for (uint32_t i = 0; i < count; i++) /* the list was read from wherever: wiped here */
        OPENSSL_cleanse((void *)(uintptr_t)pairs[i].value.at, pairs[i].value.len);
    arena_free(&arena);
    return rc;
}

/* In `publish`: what was read first does not replace what was read later. */
static enum err
publish_now(struct auth *a, uint64_t *revision, struct errbuf *eb)
{
    struct auth_users *s = xcalloc(1, sizeof *s), *old;
    enum err rc = ERR_OK;

    s->at = xcalloc(MAX(a->file_count, 1), sizeof(struct user *));
    for (; s->count < a->file_count; s->count++)
        s->at[s->count] = user_copy(a->files[s->count]);
    qsort(s->at, s->count, sizeof(struct user *), auth_by_name);
    if (a->meta != NULL)
        rc = add_from_meta(a, s, revision, eb);
    if (rc == ERR_OK && s->count > AUTH_USERS_MAX)
        rc = err_set(eb, ERR_TOO_LARGE, "%u users, at most %u are possible", s->count,
                     AUTH_USERS_MAX);
    if (rc == ERR_OK)
        rc = index_users(a, s, eb);
    if (rc != ERR_OK) {
        users_free(s);
        return rc;
    }
    s->serial = atomic_fetch_add(&a->serials, 1) + 1;
    old = atomic_exchange_explicit(&a->now, s, memory_order_acq_rel);
    if (old != NULL && rt_on_loop())
        rt_retire(users_free, old);
    else
        users_free(old);
    return ERR_OK;
}

enum err
auth_publish(struct auth *a, uint64_t *revision, struct errbuf *eb)
{
    uint64_t ignored;
    enum err rc;

    if (revision == NULL)
        revision = &ignored;
    if (a->meta == NULL) /* does not switch, and may be outside a loop */
        return publish_now(a, revision, eb);
    rc = rt_sem_acquire(&a->publish, DEADLINE_NEVER);
    if (rc != ERR_OK)
        return err_set(eb, rc, "publishing the users was interrupted");
    rc = publish_now(a, revision, eb);
    rt_sem_release(&a->publish);
    return rc;
}

static enum err
auth_refresh(void *arg, uint64_t *revision, struct errbuf *eb)
{
    return auth_publish(arg, revision, eb);
}

/* ---- life ---- */

enum err
auth_new(const struct auth_options *o, struct auth **out, struct errbuf *eb)
{
    struct auth *a = xcalloc(1, sizeof *a);

    a->options = *o;
    rt_sem_init(&a->change, 1);
    rt_sem_init(&a->publish, 1);
    *out = a;
    return auth_publish(a, NULL, eb); /* without users it cannot fail */
}

static void
drop_files(struct auth *a)
{
    for (uint32_t i = 0; i < a->file_count; i++)
        user_free(&a->files[i]);
    free(a->files);
    a->files = NULL;
    a->file_count = 0;
}

void
auth_free(struct auth **ap)
{
    struct auth *a = *ap;

    *ap = NULL;
    if (a == NULL)
        return;
    meta_follow_stop(&a->follower);
    users_free(atomic_load(&a->now));
    drop_files(a);
    for (uint32_t i = 0; i < a->meter_count; i++) {
        free(a->meters[i]->name);
        free(a->meters[i]);
    }
    free(a->meters);
    free(a);
}

enum err
auth_load_meta(struct auth *a, struct meta *meta, struct errbuf *eb)
{
    enum err rc;

    assert(a->meta == NULL);
    a->meta = meta;
    rc = meta_follow_start(meta, SPAN(AUTH_USER_PREFIX), auth_refresh, a, &a->follower,
                           eb);
    if (rc != ERR_OK)
        a->meta = NULL;
    return rc;
}

enum err
auth_replace_files(struct auth *a, struct auth *fresh, struct errbuf *eb)
{
    struct user **files;
    uint32_t count;
    enum err rc = rt_sem_acquire(&a->change, DEADLINE_NEVER);

    if (rc != ERR_OK)
        return err_set(eb, rc, "reading the users again was interrupted");
    files = a->files;
    count = a->file_count;
    a->files = fresh->files;
    a->file_count = fresh->file_count;
    rc = auth_publish(a, NULL, eb);
    if (rc == ERR_OK) {
        fresh->files = files; /* freed with it */
        fresh->file_count = count;
    } else {
        a->files = files;
        a->file_count = count;
    }
    rt_sem_release(&a->change);
    return rc;
}

/* ---- files ---- */

static enum err
auth_add_user(struct auth *a, const struct credentials_profile *p, bool is_first,
              const char *file, struct errbuf *eb)
{
    struct user *u;
    enum err rc;

    for (uint32_t i = 0; i < a->file_count; i++)
        for (uint32_t k = 0; k < a->files[i]->key_count; k++)
            if (span_is(p->access_key, a->files[i]->keys[k].id))
                return err_set(
                    eb, ERR_EXISTS,
                    "%s: access key \"%.*s\" of [%.*s] is already that of [%s]", file,
                    SPAN_ARG(p->access_key), SPAN_ARG(p->name), a->files[i]->name);
    if (a->file_count >= AUTH_USERS_MAX)
        return err_set(eb, ERR_TOO_LARGE, "%s: more than %u users", file, AUTH_USERS_MAX);
    u = user_new(p->name, 0);
    u->from_file = true;
    rc = user_add_key(u, p->access_key, p->secret_key, (struct span){"", 0}, 0, 0, eb);
    if (rc == ERR_OK)
        rc = user_grant(u, is_first ? AUTH_ALL : AUTH_MAKE_BUCKETS,
                        SPAN(AUTH_EVERY_BUCKET), (struct span){"", 0}, eb);
    if (rc != ERR_OK) {
        user_free(&u);
        return rc;
    }
    a->files = xrealloc(a->files, (a->file_count + 1) * sizeof(struct user *));
    a->files[a->file_count++] = u;
    return ERR_OK;
}

static enum err
add_profiles(struct auth *a, struct span text, const char *file, struct errbuf *eb)
{
    struct credentials_cursor c = credentials_cursor(text);
    struct credentials_profile p;
    enum err rc = ERR_OK;
    uint32_t before = a->file_count;

    while (rc == ERR_OK && credentials_next(&c, &p, file, &rc, eb)) {
        if (p.access_key.len == 0 || p.secret_key.len == 0)
            rc = err_set(
                eb, ERR_BAD_REQUEST,
                "%s: [%.*s] needs both aws_access_key_id and aws_secret_access_key", file,
                SPAN_ARG(p.name));
        else
            rc = auth_add_user(a, &p, a->file_count == before, file, eb);
    }
    if (rc == ERR_OK && a->file_count == before)
        rc = err_set(eb, ERR_BAD_REQUEST,
                     "%s: no profile with aws_access_key_id and aws_secret_access_key",
                     file);
    return rc == ERR_OK ? auth_publish(a, NULL, eb) : rc;
}

enum err
auth_load(struct auth *a, struct rt_dir *dir, const char *name, struct errbuf *eb)
{
    char *text = NULL;
    size_t len = 0;
    unsigned mode = 0;
    enum err rc = rt_dir_mode(dir, name, &mode, eb);

    if (rc != ERR_OK)
        return rc;
    if ((mode & 077) != 0)
        return err_set(eb, ERR_DENIED,
                       "%s has mode %04o: others can read the keys; run chmod 600 on it",
                       name, mode & 07777);
    rc = rt_file_load(dir, name, CREDENTIALS_BYTES_MAX, &text, &len, eb);
    if (rc != ERR_OK)
        return rc;
    rc = add_profiles(a, (struct span){text, len}, name, eb);
    OPENSSL_cleanse(text, len);
    free(text);
    return rc;
}

enum err
auth_make_first(struct auth *a, struct rt_dir *dir, const char *name, struct errbuf *eb)
{
    struct auth_new_key key;
    char text[160];
    unsigned mode;
    enum err rc = rt_dir_mode(dir, name, &mode, eb);

    if (rc != ERR_NOT_FOUND)
        return rc != ERR_OK ? rc : auth_load(a, dir, name, eb);
    auth_make_key(&key, false);
    snprintf(text, sizeof text,
             "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", key.id,
             key.secret);
    rc = rt_file_store(dir, name, text, strlen(text), 0600, eb);
    if (rc == ERR_OK)
        rc = add_profiles(a, span_of(text), name, eb);
    auth_new_key_wipe(&key);
    OPENSSL_cleanse(text, sizeof text);
    return rc;
}

/* ---- asking ---- */

static const struct auth_users *
now(const struct auth *a)
{
    return atomic_load_explicit(&a->now, memory_order_acquire);
}

static const struct auth_key *
auth_find_in(const struct auth_users *s, struct span access_key)
{
    uint32_t low = 0, high = s->key_count;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int c = span_cmp(span_of(s->keys[mid].id), access_key);

        if (c == 0)
            return &s->keys[mid];
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

const struct auth_key *
auth_find(const struct auth *a, struct span access_key)
{
    return auth_find_in(now(a), access_key);
}

uint64_t
auth_serial(const struct auth *a)
{
    return now(a)->serial;
}

auth_rights
auth_user_rights(const struct auth_user *u, struct span bucket, struct span key)
{
    auth_rights sum = 0;

    for (uint32_t i = 0; i < u->grant_count; i++)
        sum |= auth_grant_rights(&u->grants[i], bucket, key);
    return sum;
}

bool
auth_may(const struct auth_user *u, auth_rights wanted, struct span bucket,
         struct span key)
{
    assert(wanted != 0);
    return auth_rights_include(auth_user_rights(u, bucket, key), wanted);
}

bool
auth_has_any_right(const struct auth_user *u, struct span bucket)
{
    for (uint32_t i = 0; i < u->grant_count; i++)
        if ((u->grants[i].rights & ~(auth_rights)AUTH_MAKE_BUCKETS) != 0 &&
            (strcmp(u->grants[i].bucket, AUTH_EVERY_BUCKET) == 0 ||
             span_is(bucket, u->grants[i].bucket)))
            return true;
    return false;
}

bool
auth_user_exists(const struct auth *a, struct span name)
{
    const struct auth_users *s = now(a);

    for (uint32_t i = 0; i < s->count; i++)
        if (span_is(name, s->at[i]->name))
            return true;
    return false;
}

bool
auth_user_limits(const struct auth *a, struct span name, struct auth_limits *out)
{
    const struct auth_users *s = now(a);

    for (uint32_t i = 0; i < s->count; i++)
        if (span_is(name, s->at[i]->name)) {
            *out = s->at[i]->limits;
            return true;
        }
    return false;
}

const struct auth_users *
auth_users_now(const struct auth *a)
{
    return now(a);
}

uint32_t
auth_users_count(const struct auth_users *s)
{
    return s->count;
}

void
auth_users_at(const struct auth_users *s, uint32_t index, struct auth_shown *out)
{
    const struct user *u = s->at[index];

    *out = (struct auth_shown){
        .name = u->name,
        .from_file = u->from_file,
        .created_ms = u->created_ms,
        .grant_count = u->grant_count,
        .key_count = u->key_count,
        .grants = u->grants,
        .limits = u->limits,
    };
}

const struct auth_key *
auth_users_key(const struct auth_users *s, uint32_t user, uint32_t index)
{
    return auth_find_in(s, span_of(s->at[user]->keys[index].id));
}

bool
auth_anonymous_ok(const struct auth *a, bool peer_is_loopback)
{
    return peer_is_loopback && !a->options.required;
}

bool
auth_clear_text_ok(const struct auth *a)
{
    return a->options.clear_text_ok;
}

bool
auth_is_secret(struct span meta_key)
{
    return span_starts(meta_key, SPAN(AUTH_USER_PREFIX));
}
