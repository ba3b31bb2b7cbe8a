#include "auth/user.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/mem.h"
#include "wire/record.h"

/* docs/formats.md, section "user record". */
enum { KIND_USER = 34, VERSION = 1 };
enum {
    F_NAME = 1,
    F_CREATED_MS = 2,
    F_KEY = 3,
    F_GRANT_UNIONS = 4,
    F_LIMITS = 5,
    F_GRANT = 6
};

/* Rights as field 4 has them: a bit for each union. */
static const auth_rights unions[] = {AUTH_READ, AUTH_WRITE, AUTH_LIST, AUTH_ADMIN};

struct user *
user_new(struct span name, int64_t created_ms)
{
    struct user *u = xcalloc(1, sizeof *u);

    u->name = xmemdup0(name.at, name.len);
    u->created_ms = created_ms;
    return u;
}

static void
user_wipe(char *secret)
{
    if (secret != NULL)
        OPENSSL_cleanse(secret, strlen(secret));
    free(secret);
}

static void
fini_key(struct user_key *k)
{
    free(k->id);
    user_wipe(k->secret);
    user_wipe(k->token);
}

void
user_drop_key(struct user *u, uint32_t index)
{
    assert(index < u->key_count);
    fini_key(&u->keys[index]);
    u->key_count--;
    memmove(&u->keys[index], &u->keys[index + 1],
            (u->key_count - index) * sizeof u->keys[0]);
}

static void
drop_grant(struct user *u, uint32_t index)
{
    assert(index < u->grant_count);
    free(u->grants[index].bucket);
    free(u->grants[index].prefix);
    u->grant_count--;
    memmove(&u->grants[index], &u->grants[index + 1],
            (u->grant_count - index) * sizeof u->grants[0]);
}

void
user_free(struct user **up)
{
    struct user *u = *up;

    *up = NULL;
    if (u == NULL)
        return;
    while (u->key_count > 0)
        user_drop_key(u, u->key_count - 1);
    while (u->grant_count > 0)
        drop_grant(u, u->grant_count - 1);
    free(u->keys);
    free(u->grants);
    free(u->name);
    free(u);
}

enum err
user_add_key(struct user *u, struct span id, struct span secret, struct span token,
             int64_t created_ms, int64_t expires_ms, struct errbuf *eb)
{
    if (u->key_count == USER_KEYS_MAX)
        return err_set(eb, ERR_TOO_LARGE, "user \"%s\" has %u keys, the limit", u->name,
                       USER_KEYS_MAX);
    u->keys = xrealloc(u->keys, (u->key_count + 1) * sizeof *u->keys);
    u->keys[u->key_count++] = (struct user_key){
        .id = xmemdup0(id.at, id.len),
        .secret = xmemdup0(secret.at, secret.len),
        .token = token.len > 0 ? xmemdup0(token.at, token.len) : NULL,
        .created_ms = created_ms,
        .expires_ms = expires_ms,
    };
    return ERR_OK;
}

static uint32_t
find_grant(const struct user *u, struct span bucket, struct span prefix)
{
    uint32_t i = 0;

    while (i < u->grant_count && !(span_is(bucket, u->grants[i].bucket) &&
                                   span_is(prefix, u->grants[i].prefix)))
        i++;
    return i;
}

enum err
user_grant(struct user *u, auth_rights rights, struct span bucket, struct span prefix,
           struct errbuf *eb)
{
    uint32_t at = find_grant(u, bucket, prefix);
    enum err rc = auth_grant_check(rights, bucket, prefix, eb);

    if (rc != ERR_OK)
        return rc;
    if (at == USER_GRANTS_MAX)
        return err_set(eb, ERR_TOO_LARGE, "user \"%s\" has %u grants, the limit", u->name,
                       USER_GRANTS_MAX);
    if (at == u->grant_count) {
        u->grants = xrealloc(u->grants, (u->grant_count + 1) * sizeof *u->grants);
        u->grants[u->grant_count++] =
            (struct auth_grant){.bucket = xmemdup0(bucket.at, bucket.len),
                                .prefix = xmemdup0(prefix.at, prefix.len)};
    }
    u->grants[at].rights |= rights;
    assert(u->grants[at].rights != 0);
    assert((u->grants[at].rights & ~(auth_rights)AUTH_ALL) == 0);
    return ERR_OK;
}

enum err
user_revoke(struct user *u, auth_rights rights, struct span bucket, struct span prefix,
            struct errbuf *eb)
{
    uint32_t at = find_grant(u, bucket, prefix);

    if (at == u->grant_count || (u->grants[at].rights & rights) == 0)
        return err_set(eb, ERR_NOT_FOUND,
                       "user \"%s\" has no such right on exactly \"%.*s/%.*s\"; forebay "
                       "user ls shows the grants there are",
                       u->name, SPAN_ARG(bucket), (int)MIN(prefix.len, 100), prefix.at);
    u->grants[at].rights &= ~rights;
    if (u->grants[at].rights == 0)
        drop_grant(u, at);
    return ERR_OK;
}

enum err
user_name_check(struct span name, struct errbuf *eb)
{
    static const char more[] = "-_.@+";
    bool ok = name.len >= 1 && name.len <= USER_NAME_MAX;

    for (size_t i = 0; i < name.len && ok; i++) {
        char c = name.at[i];
        bool letter =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        ok = letter || (i > 0 && c != '\0' && strchr(more, c) != NULL);
    }
    return ok ? ERR_OK
              : err_set(eb, ERR_BAD_REQUEST,
                        "\"%.*s\" is no user name: 1 to %u letters, digits and -_.@+, "
                        "the first a letter or digit",
                        (int)MIN(name.len, 80), name.at, USER_NAME_MAX);
}

/* ---- the record ---- */

static void
user_put_text(struct buf *out, const char *text)
{
    size_t len = text != NULL ? strlen(text) : 0;

    buf_be(out, len, 2);
    buf_put(out, text != NULL ? text : "", len);
}

static void
user_put_key(struct record_writer *w, const struct user_key *k)
{
    struct buf field;

    buf_init(&field, 4 * USER_TEXT_MAX);
    user_put_text(&field, k->id);
    user_put_text(&field, k->secret);
    user_put_text(&field, k->token);
    buf_be(&field, (uint64_t)k->created_ms, 8);
    buf_be(&field, (uint64_t)k->expires_ms, 8);
    record_put_span(w, F_KEY, buf_span(&field));
    OPENSSL_cleanse(field.at, field.len);
    buf_fini(&field);
}

/* The bits of field 4; false: there is more to these rights than whole unions. */
static bool
unions_of(auth_rights rights, unsigned *out)
{
    auth_rights covered = 0;

    *out = 0;
    for (unsigned i = 0; i < ARRAY_LEN(unions); i++)
        if ((rights & unions[i]) == unions[i]) {
            *out |= 1u << i;
            covered |= unions[i];
        }
    return covered == rights;
}

/* Of those whose rights are `whole` unions, or of the others: each has one form. */
static void
put_grant(struct record_writer *w, const struct auth_grant *g, bool whole)
{
    struct buf field;
    unsigned bits;

    assert(g->rights != 0);
    if (unions_of(g->rights, &bits) != whole)
        return;
    buf_init(&field, 4096);
    buf_be(&field, whole ? bits : g->rights, whole ? 2 : 4);
    user_put_text(&field, g->bucket);
    user_put_text(&field, g->prefix);
    record_put_span(w, whole ? F_GRANT_UNIONS : F_GRANT, buf_span(&field));
    buf_fini(&field);
}

static bool
has_limits(const struct user *u)
{
    return u->limits.requests > 0 || u->limits.bytes > 0 || u->limits.parts > 0;
}

static void
user_put_limits(struct record_writer *w, const struct auth_limits *l)
{
    struct buf field;

    buf_init(&field, 64);
    buf_be(&field, l->requests, 8);
    buf_be(&field, l->bytes, 8);
    buf_be(&field, l->parts, 4);
    record_put_span(w, F_LIMITS, buf_span(&field));
    buf_fini(&field);
}

void
user_encode(const struct user *u, struct buf *out)
{
    struct record_writer w;

    record_begin(&w, out, KIND_USER, VERSION);
    record_put_span(&w, F_NAME, span_of(u->name));
    record_put_u64(&w, F_CREATED_MS, (uint64_t)u->created_ms);
    for (uint32_t i = 0; i < u->key_count; i++)
        user_put_key(&w, &u->keys[i]);
    for (uint32_t i = 0; i < u->grant_count; i++)
        put_grant(&w, &u->grants[i], true);
    if (has_limits(u))
        user_put_limits(&w, &u->limits);
    for (uint32_t i = 0; i < u->grant_count; i++)
        put_grant(&w, &u->grants[i], false);
    record_end(&w);
}

/* A length of two bytes and so many bytes without a NUL. */
static struct span
parse_text_field(struct cursor *c)
{
    size_t len = (size_t)take_be(c, 2);
    const char *at = take_span(c, len).at;

    if (c->bad || len > USER_TEXT_MAX || (len > 0 && memchr(at, '\0', len) != NULL)) {
        c->bad = true;
        return (struct span){"", 0};
    }
    return (struct span){at, len};
}

static enum err
get_key(struct user *u, struct span field, struct errbuf *eb)
{
    struct cursor c = cursor_of(field.at, field.len);
    struct span id = parse_text_field(&c), secret = parse_text_field(&c),
                token = parse_text_field(&c);
    int64_t created = (int64_t)take_be(&c, 8), expires = (int64_t)take_be(&c, 8);

    if (c.bad || c.at != c.end || id.len == 0 || secret.len == 0)
        return ERR_CORRUPT;
    return user_add_key(u, id, secret, token, created, expires, eb);
}

static bool
rights_of_unions(unsigned bits, auth_rights *out)
{
    if (bits >> ARRAY_LEN(unions) != 0)
        return false;
    *out = 0;
    for (unsigned i = 0; i < ARRAY_LEN(unions); i++)
        if ((bits & 1u << i) != 0)
            *out |= unions[i];
    return true;
}

static enum err
get_grant(struct user *u, uint8_t id, struct span field, struct errbuf *eb)
{
    struct cursor c = cursor_of(field.at, field.len);
    auth_rights rights = (auth_rights)take_be(&c, id == F_GRANT ? 4 : 2);
    unsigned bits;
    struct span bucket = parse_text_field(&c), prefix = parse_text_field(&c);

    if (c.bad || c.at != c.end || find_grant(u, bucket, prefix) != u->grant_count)
        return ERR_CORRUPT;
    if (id == F_GRANT_UNIONS ? !rights_of_unions(rights, &rights)
                             : unions_of(rights, &bits))
        return ERR_CORRUPT;
    return user_grant(u, rights, bucket, prefix, eb);
}

/* Once, and never without a limit. */
static enum err
get_limits(struct user *u, struct span field)
{
    struct cursor c = cursor_of(field.at, field.len);
    bool before = has_limits(u);

    u->limits.requests = take_be(&c, 8);
    u->limits.bytes = take_be(&c, 8);
    u->limits.parts = (uint32_t)take_be(&c, 4);
    return c.bad || c.at != c.end || before || !has_limits(u) ||
                   u->limits.requests > AUTH_REQUESTS_MAX ||
                   u->limits.bytes > AUTH_BYTES_MAX || u->limits.parts > AUTH_PARTS_MAX
               ? ERR_CORRUPT
               : ERR_OK;
}

static enum err
get_fields(struct user *u, struct record *r, struct errbuf *eb)
{
    struct span field;
    uint8_t id;

    while (record_next(r, &id, &field)) {
        if (id == F_KEY && get_key(u, field, eb) != ERR_OK)
            return ERR_CORRUPT;
        if ((id == F_GRANT_UNIONS || id == F_GRANT) &&
            get_grant(u, id, field, eb) != ERR_OK)
            return ERR_CORRUPT;
        if (id == F_LIMITS && get_limits(u, field) != ERR_OK)
            return ERR_CORRUPT;
    }
    return ERR_OK;
}

enum err
user_decode(struct span bytes, struct user **out, struct errbuf *eb)
{
    struct record r;
    struct span name = {"", 0}, field;
    uint64_t created = 0;
    struct user *u;
    enum err rc = record_open(bytes, &r, eb);

    *out = NULL;
    if (rc != ERR_OK)
        return rc;
    if (r.kind != KIND_USER || r.version != VERSION)
        return err_set(eb, ERR_CORRUPT,
                       "a user record of kind %u, version %u; this program reads %u, %u",
                       r.kind, r.version, KIND_USER, VERSION);
    if (!record_find(&r, F_NAME, &name) || user_name_check(name, NULL) != ERR_OK ||
        !record_find(&r, F_CREATED_MS, &field) || record_u64(field, &created) != ERR_OK)
        return err_set(eb, ERR_CORRUPT, "a user record lacks its name or its time");
    u = user_new(name, (int64_t)created);
    if (get_fields(u, &r, NULL) != ERR_OK) {
        user_free(&u);
        return err_set(eb, ERR_CORRUPT, "a key or grant of user \"%.*s\" cannot be read",
                       SPAN_ARG(name));
    }
    *out = u;
    return ERR_OK;
}
