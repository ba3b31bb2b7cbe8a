#include "cloud/secrets.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "rt/loop.h"
#include "rt/point.h"
#include "rt/sync.h"
#include "wire/seal.h"

#define KEY_FILE_MAX KIB(8)
#define SET_MAX      KIB(16)
#define SEAL_ROOM    64 /* what sealing adds, at most */

struct ring {
    unsigned count;
    struct seal_key keys[SECRETS_KEYS_MAX]; /* the first one seals */
};
struct secrets {
    struct rt_dir *dir, *state;
    char *key_file; /* owned; NULL: in `state` */
    struct shared_secrets shared;
    /* A snapshot, replaced whole. */
    _Atomic(struct ring *) now;
    _Atomic unsigned rings; /* the number of rings so far */
    /* Only on loop 0. */
    bool changing;
    struct rt_cond changed;
};

/* ---- the key ---- */

static void
ring_wipe(void *ring)
{
    OPENSSL_cleanse(ring, sizeof(struct ring));
    free(ring);
}

static enum err
parse_ring(char *text, struct ring *out, struct errbuf *eb)
{
    for (char *at = text; *at != '\0';) {
        size_t len = strcspn(at, "\r\n");
        bool comment = len == 0 || at[0] == '#';

        if (!comment && out->count == SECRETS_KEYS_MAX)
            return err_set(eb, ERR_BAD_REQUEST, "over %d keys", SECRETS_KEYS_MAX);
        if (!comment &&
            (len != 2 * SEAL_KEY_LEN || hex_decode(at, len, out->keys[out->count].bytes,
                                                   SEAL_KEY_LEN) != SEAL_KEY_LEN))
            return err_set(
                eb, ERR_BAD_REQUEST,
                "a line of %zu characters: expected %d hex digits in lower case "
                "(openssl rand -hex 32)",
                len, 2 * SEAL_KEY_LEN);
        out->count += !comment;
        at += len;
        at += strspn(at, "\r\n");
    }
    return out->count > 0 ? ERR_OK
                          : err_set(eb, ERR_BAD_REQUEST, "there is no key in it");
}

static enum err
store_ring(struct secrets *s, const struct ring *r, struct errbuf *eb)
{
    char *text = xcalloc(1, SECRETS_KEYS_MAX * (2 * SEAL_KEY_LEN + 2));
    struct rt_dir *dir = NULL;
    const char *name = SECRETS_KEY_FILE;
    size_t len = 0;
    enum err rc =
        s->key_file != NULL ? rt_dir_open_of(s->key_file, &dir, &name, eb) : ERR_OK;

    for (unsigned i = 0; i < r->count; i++) {
        hex_encode(r->keys[i].bytes, SEAL_KEY_LEN, text + len);
        len += 2 * SEAL_KEY_LEN;
        text[len++] = '\n';
    }
    if (rc == ERR_OK)
        rc = rt_file_store(dir != NULL ? dir : s->state, name, text, len, 0600, eb);
    rt_dir_close(&dir);
    OPENSSL_cleanse(text, len);
    free(text);
    return rc;
}

static enum err
make_ring(struct secrets *s, struct ring *r, struct errbuf *eb)
{
    rt_random(r->keys[0].bytes, SEAL_KEY_LEN);
    r->count = 1;
    return store_ring(s, r, eb);
}

static enum err
load_ring(struct secrets *s, struct ring *r, struct errbuf *eb)
{
    char *text = NULL;
    size_t len = 0;
    enum err rc =
        s->key_file != NULL
            ? rt_private_load(s->key_file, KEY_FILE_MAX, &text, &len, eb)
            : rt_file_load(s->state, SECRETS_KEY_FILE, KEY_FILE_MAX, &text, &len, eb);

    if (rc == ERR_OK)
        rc = parse_ring(text, r, eb);
    else if (rc == ERR_NOT_FOUND && s->key_file == NULL)
        return make_ring(s, r, eb);
    if (rc != ERR_OK)
        err_prefix(eb, "the key of secrets, %s",
                   s->key_file != NULL ? s->key_file : SECRETS_KEY_FILE);
    if (text != NULL)
        OPENSSL_cleanse(text, len);
    free(text);
    return rc;
}

static void
publish_ring(struct secrets *s, const struct ring *r)
{
    struct ring *fresh = xmalloc(sizeof *fresh);
    struct ring *old;

    memcpy(fresh, r, sizeof *fresh);
    old = atomic_exchange(&s->now, fresh);
    atomic_fetch_add(&s->rings, 1);
    if (old != NULL)
        rt_retire(ring_wipe, old);
}

/* ---- one set ---- */

static bool
is_leftover(const char *name)
{
    size_t len = strlen(name);

    return len > 4 && strcmp(name + len - 4, ".tmp") == 0;
}

/* *stale: not encrypted, or not sealed with the first key. */
static enum err
load_now(struct secrets *s, const char *name, struct buf *out, bool *stale,
         struct errbuf *eb)
{
    unsigned which = 0;
    char *bytes = NULL;
    size_t len = 0;
    enum err rc = rt_file_load(s->dir, name, SET_MAX, &bytes, &len, eb);

    *stale = false;
    if (rc != ERR_OK)
        return rc;
    POINT(SECRET_READ);
    if (seal_is_under((struct span){bytes, len})) {
        const struct ring *r = atomic_load(&s->now); /* no switch until it is used */

        rc = unseal_under(r->keys, r->count, span_of(name), (struct span){bytes, len},
                          out, &which, eb);
        *stale = which != 0;
    } else {
        buf_put(out, bytes, len);
        *stale = true;
    }
    OPENSSL_cleanse(bytes, len);
    free(bytes);
    return rc;
}

/* Reads again a set that was read before a rotation removed its key: by now it is sealed with the new one. The
 * caller wipes `out`. */
static enum err
load_one(struct secrets *s, const char *name, struct buf *out, bool *stale,
         struct errbuf *eb)
{
    unsigned before;
    enum err rc;

    do {
        before = atomic_load(&s->rings);
        rc = load_now(s, name, out, stale, eb);
    } while (rc == ERR_DENIED && before != atomic_load(&s->rings));
    return rc;
}

/* Overwrites the old unencrypted file, which has no name any more, with zeros. Best effort: a file system may have
 * other copies. */
static void
overwrite(struct rt_file *f, size_t len)
{
    struct iobuf *b = NULL;
    enum err rc = iobuf_get(SET_MAX, &b);

    if (rc == ERR_OK) {
        memset(b->at, 0, SET_MAX);
        rc = rt_write(f, 0, b, 0, (uint32_t)MIN(len, SET_MAX), RT_BACKGROUND, NULL);
    }
    if (rc == ERR_OK)
        rc = rt_sync(f, NULL);
    if (rc != ERR_OK)
        LOG(LOG_WARN, "backend.secret", "keys that lay in the clear are not overwritten",
            L_TEXT("why", err_name(rc)));
    iobuf_drop(&b);
}

static enum err
store_one(struct secrets *s, const char *name, struct span plain, struct errbuf *eb)
{
    struct buf sealed;
    enum err rc;

    buf_init(&sealed, SET_MAX);
    rc = seal_under(&atomic_load(&s->now)->keys[0], span_of(name), plain, &sealed, eb);
    if (rc == ERR_OK)
        rc = rt_file_store(s->dir, name, sealed.at, sealed.len, 0600, eb);
    buf_fini(&sealed);
    return rc;
}

static void
buf_wipe(struct buf *b)
{
    if (b->len > 0)
        OPENSSL_cleanse(b->at, b->len);
    buf_fini(b);
}

/* ---- all of them ---- */

struct names {
    char **at;
    unsigned count, room;
};

static void
on_name(const char *name, void *arg)
{
    struct names *n = arg;

    if (n->count == n->room) {
        n->room = MAX(2 * n->room, 16u);
        n->at = xrealloc(n->at, n->room * sizeof *n->at);
    }
    n->at[n->count++] = xstrdup(name);
}

static void
names_fini(struct names *n)
{
    for (unsigned i = 0; i < n->count; i++)
        free(n->at[i]);
    free(n->at);
}

/* Seals a set with the first key if it is not. *left: some sets could not be opened. */
static enum err
reseal(struct secrets *s, const char *name, bool *left, struct errbuf *eb)
{
    struct errbuf why = {{0}};
    struct rt_file *was = NULL;
    struct buf plain;
    bool stale = false;
    enum err rc;

    if (is_leftover(name))
        return rt_dir_unlink(s->dir, name, eb);
    buf_init(&plain, SET_MAX);
    rc = load_one(s, name, &plain, &stale, &why);
    if (rc != ERR_OK && rc != ERR_CANCELLED) {
        LOG(LOG_ERROR, "backend.secret", "the keys of a remote do not open",
            L_TEXT("name", name), L_TEXT("why", why.text));
        *left = true;
        rc = ERR_OK;
    } else if (rc == ERR_OK && stale) {
        rc = rt_open(s->dir, name, RT_O_WRITE, 0, &was, eb);
        if (rc == ERR_OK)
            rc = store_one(s, name, buf_span(&plain), eb);
        if (rc == ERR_OK)
            overwrite(was, plain.len + SEAL_ROOM);
    }
    rt_file_close(&was);
    buf_wipe(&plain);
    return rc;
}

static enum err
reseal_all(struct secrets *s, unsigned *count, bool *left, struct errbuf *eb)
{
    struct names n = {0};
    enum err rc = rt_dir_list(s->dir, on_name, &n, eb);

    *left = false;
    for (unsigned i = 0; rc == ERR_OK && i < n.count; i++)
        rc = reseal(s, n.at[i], left, eb);
    *count = n.count;
    names_fini(&n);
    return rc;
}

/* Keeps the first key only, when no set needs the others. */
static enum err
drop_old_keys(struct secrets *s, struct errbuf *eb)
{
    struct ring r = *atomic_load(&s->now);
    enum err rc = ERR_OK;

    if (r.count > 1) {
        memset(&r.keys[1], 0, sizeof r - offsetof(struct ring, keys[1]));
        r.count = 1;
        rc = store_ring(s, &r, eb);
        if (rc == ERR_OK)
            publish_ring(s, &r);
    }
    OPENSSL_cleanse(&r, sizeof r);
    return rc;
}

/* ---- changes, on loop 0 ---- */

struct change {
    struct secrets *s;
    enum { STORE, REMOVE, ROTATE } kind;
    const char *name;
    struct span plain;
    unsigned count;
    struct errbuf eb;
    enum err rc;
};

static enum err
rotate_ring(struct change *c)
{
    struct secrets *s = c->s;
    struct ring r = *atomic_load(&s->now);
    bool left = false;
    enum err rc = ERR_OK;

    if (r.count == SECRETS_KEYS_MAX)
        rc = err_set(&c->eb, ERR_BAD_REQUEST, "there are %d keys, which is the limit",
                     SECRETS_KEYS_MAX);
    if (rc == ERR_OK) {
        memmove(&r.keys[1], &r.keys[0], r.count * sizeof r.keys[0]);
        rt_random(r.keys[0].bytes, SEAL_KEY_LEN);
        r.count++;
        rc = store_ring(s, &r, &c->eb);
    }
    if (rc == ERR_OK) {
        publish_ring(s, &r);
        rc = reseal_all(s, &c->count, &left, &c->eb);
    }
    OPENSSL_cleanse(&r, sizeof r);
    return rc == ERR_OK && !left ? drop_old_keys(s, &c->eb) : rc;
}

static void
change_on_loop0(void *arg)
{
    struct change *c = arg;
    struct rt_shield shield;

    rt_shield_begin(&shield); /* completes even when the caller is cancelled */
    while (c->s->changing && rt_cond_wait(&c->s->changed, DEADLINE_NEVER) == ERR_OK)
        ;
    assert(!c->s->changing);
    c->s->changing = true;
    switch (c->kind) {
    case STORE:
        c->rc = c->s->shared.meta != NULL
                    ? shared_secrets_store(&c->s->shared, c->name, c->plain, &c->eb)
                    : ERR_OK;
        if (c->rc == ERR_OK)
            c->rc = store_one(c->s, c->name, c->plain, &c->eb);
        break;
    case REMOVE:
        c->rc = c->s->shared.meta != NULL
                    ? shared_secrets_remove(&c->s->shared, c->name, &c->eb)
                    : ERR_OK;
        if (c->rc == ERR_OK)
            c->rc = rt_dir_unlink(c->s->dir, c->name, &c->eb);
        if (c->rc == ERR_NOT_FOUND && c->s->shared.meta != NULL)
            c->rc = ERR_OK; /* this node has never used it */
        if (c->rc == ERR_OK)
            c->rc = rt_dir_sync(c->s->dir, &c->eb);
        break;
    case ROTATE:
        c->rc = rotate_ring(c);
        break;
    }
    c->s->changing = false;
    rt_cond_broadcast(&c->s->changed);
    rt_shield_end(&shield);
}

static enum err
secrets_change(struct change *c, struct errbuf *eb)
{
    enum err rc = rt_call(0, change_on_loop0, c);

    if (rc != ERR_OK)
        return err_set(eb, rc, "too much is going on to change keys of remotes");
    if (c->rc != ERR_OK && eb != NULL)
        *eb = c->eb;
    return c->rc;
}

enum err
secrets_store(struct secrets *s, const char *name, struct span plain, struct errbuf *eb)
{
    struct change c = {.s = s, .kind = STORE, .name = name, .plain = plain};

    return secrets_change(&c, eb);
}

enum err
secrets_remove(struct secrets *s, const char *name, struct errbuf *eb)
{
    struct change c = {.s = s, .kind = REMOVE, .name = name};

    return secrets_change(&c, eb);
}

enum err
secrets_rotate(struct secrets *s, unsigned *count, struct errbuf *eb)
{
    struct change c = {.s = s, .kind = ROTATE};
    enum err rc = secrets_change(&c, eb);

    *count = c.count;
    return rc;
}

/* ---- reading ---- */

enum err
secrets_load(struct secrets *s, const char *name, struct buf *out, struct errbuf *eb)
{
    bool stale;
    enum err rc = load_one(s, name, out, &stale, eb);

    if (rc != ERR_NOT_FOUND || s->shared.meta == NULL)
        return rc;
    err_forget(eb);
    return shared_secrets_load(&s->shared, name, out, eb);
}

void
secrets_share(struct secrets *s, const struct shared_secrets *with)
{
    assert(s->shared.meta == NULL);
    s->shared = *with;
}

enum err
secrets_each(struct secrets *s, secrets_visit *visit, void *arg, struct errbuf *eb)
{
    struct names n = {0};
    enum err rc = rt_dir_list(s->dir, on_name, &n, eb);

    for (unsigned i = 0; rc == ERR_OK && i < n.count; i++) {
        struct buf plain;

        buf_init(&plain, SET_MAX);
        rc = is_leftover(n.at[i]) ? ERR_NOT_FOUND : secrets_load(s, n.at[i], &plain, eb);
        if (rc == ERR_OK)
            rc = visit(arg, n.at[i], buf_span(&plain), eb);
        else if (rc == ERR_NOT_FOUND || rc == ERR_DENIED)
            rc = ERR_OK; /* removed meanwhile, or reported at the start */
        buf_wipe(&plain);
    }
    names_fini(&n);
    return rc;
}

/* ---- begin, end ---- */

enum err
secrets_open(struct rt_dir *dir, struct rt_dir *state, const char *key_file,
             struct secrets **out, struct errbuf *eb)
{
    struct secrets *s = xcalloc(1, sizeof *s);
    struct ring r = {0};
    unsigned count = 0;
    bool left = false;
    enum err rc;

    assert(state != NULL || key_file != NULL);
    *out = NULL;
    s->dir = dir;
    s->state = state;
    s->key_file = key_file != NULL ? xstrdup(key_file) : NULL;
    rt_cond_init(&s->changed);
    rc = load_ring(s, &r, eb);
    if (rc == ERR_OK) {
        publish_ring(s, &r);
        rc = reseal_all(s, &count, &left, eb);
    }
    if (rc == ERR_OK && !left && s->key_file == NULL)
        rc = drop_old_keys(s,
                           eb); /* the administrator maintains a key file given by name */
    OPENSSL_cleanse(&r, sizeof r);
    if (rc != ERR_OK) {
        secrets_close(&s);
        return rc;
    }
    *out = s;
    return ERR_OK;
}

void
secrets_close(struct secrets **sp)
{
    struct secrets *s = *sp;
    struct ring *r;

    *sp = NULL;
    if (s == NULL)
        return;
    r = atomic_load(&s->now);
    if (r != NULL)
        ring_wipe(r);
    free(s->key_file);
    free(s);
}
