#include "auth/grant.h"

#include <string.h>

#include "base/mem.h"

/* Unions first: a text names as few as possible. */
static const struct {
    const char *name;
    auth_rights rights;
} names[] = {{"all", AUTH_ALL},   {"read", AUTH_READ},   {"write", AUTH_WRITE},
             {"list", AUTH_LIST}, {"admin", AUTH_ADMIN},
#define X(name_, bit, text) {text, AUTH_##name_},
             AUTH_RIGHT_TABLE(X)
#undef X
};

auth_rights
auth_grant_rights(const struct auth_grant *g, struct span bucket, struct span key)
{
    if (strcmp(g->bucket, AUTH_EVERY_BUCKET) != 0 && !span_is(bucket, g->bucket))
        return 0;
    return g->prefix[0] == '\0' || span_starts(key, span_of(g->prefix)) ? g->rights : 0;
}

enum err
auth_rights_parse(struct span text, auth_rights *out, struct errbuf *eb)
{
    *out = 0;
    while (text.len > 0) {
        const char *comma = memchr(text.at, ',', text.len);
        struct span one = {text.at, comma != NULL ? (size_t)(comma - text.at) : text.len};
        size_t i = 0;

        text = span_from(text, MIN(one.len + 1, text.len));
        one = span_trim(one);
        while (i < ARRAY_LEN(names) && !span_is(one, names[i].name))
            i++;
        if (i == ARRAY_LEN(names))
            return err_set(
                eb, ERR_BAD_REQUEST,
                "\"%.*s\" is no right; there are read, write, list, admin and all",
                (int)MIN(one.len, 40), one.at);
        *out |= names[i].rights;
    }
    return *out != 0 ? ERR_OK
                     : err_set(eb, ERR_BAD_REQUEST,
                               "no right is named; there are read, write, list, admin "
                               "and all");
}

const char *
auth_rights_text(auth_rights rights, char out[AUTH_RIGHTS_TEXT])
{
    char *at = out;

    assert((rights & ~(auth_rights)AUTH_ALL) == 0);
    if (rights == 0)
        return strcpy(out, "none");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if ((rights & names[i].rights) != names[i].rights)
            continue;
        assert((size_t)(at - out) + strlen(names[i].name) + 2 <= AUTH_RIGHTS_TEXT);
        if (at != out)
            *at++ = ',';
        at = stpcpy(at, names[i].name);
        rights &= ~names[i].rights;
        if (rights == 0)
            break;
    }
    return out;
}

enum err
auth_grant_check(auth_rights rights, struct span bucket, struct span prefix,
                 struct errbuf *eb)
{
    if (rights == 0 || (rights & ~(auth_rights)AUTH_ALL) != 0)
        return err_set(eb, ERR_BAD_REQUEST, "a grant needs read, write, list or admin");
    if (bucket.len == 0 || bucket.len > AUTH_GRANT_BUCKET_MAX ||
        memchr(bucket.at, '\0', bucket.len) != NULL)
        return err_set(
            eb, ERR_BAD_REQUEST,
            "a grant is on a bucket of 1 to %u bytes, or on \"*\"; got %zu bytes",
            AUTH_GRANT_BUCKET_MAX, bucket.len);
    if (prefix.len > AUTH_GRANT_PREFIX_MAX ||
        (prefix.len > 0 && memchr(prefix.at, '\0', prefix.len) != NULL))
        return err_set(eb, ERR_BAD_REQUEST,
                       "the prefix of a grant has %zu bytes, at most %u are taken and no "
                       "NUL among them",
                       prefix.len, AUTH_GRANT_PREFIX_MAX);
    if (prefix.len > 0 && span_is(bucket, AUTH_EVERY_BUCKET))
        return err_set(eb, ERR_BAD_REQUEST,
                       "a prefix belongs to a named bucket, not to \"*\"");
    return ERR_OK;
}
