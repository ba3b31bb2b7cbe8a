#include "auth/auth.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/credentials.h"
#include "base/mem.h"

struct user {
    struct auth_user shown;
    char *secret;
};

struct auth {
    struct auth_options options;
    struct user *users; /* in order of access keys */
    uint32_t count, room;
};

enum err
auth_new(const struct auth_options *o, struct auth **out, struct errbuf *eb)
{
    struct auth *a = xcalloc(1, sizeof *a);

    (void)eb;
    a->options = *o;
    *out = a;
    return ERR_OK;
}

static void
wipe(char *secret)
{
    if (secret != NULL) {
        OPENSSL_cleanse(secret, strlen(secret));
        free(secret);
    }
}

void
auth_free(struct auth **ap)
{
    struct auth *a = *ap;

    *ap = NULL;
    if (a == NULL)
        return;
    for (uint32_t i = 0; i < a->count; i++) {
        free((char *)(uintptr_t)a->users[i].shown.name);
        free((char *)(uintptr_t)a->users[i].shown.access_key);
        wipe(a->users[i].secret);
    }
    free(a->users);
    free(a);
}

/* The place of an access key, or where it would stand. */
static uint32_t
place_of(const struct auth *a, struct span key, bool *found)
{
    uint32_t low = 0, high = a->count;

    *found = false;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int c = span_cmp(span_of(a->users[mid].shown.access_key), key);

        if (c == 0) {
            *found = true;
            return mid;
        }
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static enum err
add_user(struct auth *a, const struct credentials_profile *p, const char *file,
         struct errbuf *eb)
{
    bool found;
    uint32_t at = place_of(a, p->access_key, &found);

    if (found)
        return err_set(
            eb, ERR_EXISTS, "%s: access key \"%.*s\" of [%.*s] is already that of [%s]",
            file, SPAN_ARG(p->access_key), SPAN_ARG(p->name), a->users[at].shown.name);
    if (a->count >= AUTH_USERS_MAX)
        return err_set(eb, ERR_TOO_LARGE, "%s: more than %u users", file, AUTH_USERS_MAX);
    if (a->count == a->room) {
        a->room = a->room > 0 ? a->room * 2 : 8;
        a->users = xrealloc(a->users, a->room * sizeof *a->users);
    }
    memmove(a->users + at + 1, a->users + at, (a->count - at) * sizeof *a->users);
    a->users[at] = (struct user){
        .shown = {.name = xmemdup0(p->name.at, p->name.len),
                  .access_key = xmemdup0(p->access_key.at, p->access_key.len)},
        .secret = xmemdup0(p->secret_key.at, p->secret_key.len),
    };
    a->count++;
    return ERR_OK;
}

static enum err
add_profiles(struct auth *a, struct span text, const char *file, struct errbuf *eb)
{
    struct credentials_cursor c = credentials_cursor(text);
    struct credentials_profile p;
    enum err rc = ERR_OK;
    uint32_t before = a->count;

    while (rc == ERR_OK && credentials_next(&c, &p, file, &rc, eb)) {
        if (p.access_key.len == 0 || p.secret_key.len == 0)
            rc = err_set(
                eb, ERR_BAD_REQUEST,
                "%s: [%.*s] needs both aws_access_key_id and aws_secret_access_key", file,
                SPAN_ARG(p.name));
        else
            rc = add_user(a, &p, file, eb);
    }
    if (rc == ERR_OK && a->count == before)
        rc = err_set(eb, ERR_BAD_REQUEST,
                     "%s: no profile with aws_access_key_id and aws_secret_access_key",
                     file);
    return rc;
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
    unsigned char random[56];
    char id[17], secret[41], text[160];
    unsigned mode;
    enum err rc = rt_dir_mode(dir, name, &mode, eb);

    if (rc != ERR_NOT_FOUND)
        return rc != ERR_OK ? rc : auth_load(a, dir, name, eb);
    rt_random(random, sizeof random);
    /* Letters and digits only, so that the keys survive every shell and every URL. */
    for (unsigned i = 0; i < 16; i++)
        id[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[random[i] & 31];
    id[16] = '\0';
    for (unsigned i = 0; i < 40; i++) /* over 5 bits each */
        secret[i] =
            "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"[random[16 + i] %
                                                                        57];
    secret[40] = '\0';
    snprintf(text, sizeof text,
             "[default]\naws_access_key_id = FB%s\naws_secret_access_key = %s\n", id,
             secret);
    rc = rt_file_store(dir, name, text, strlen(text), 0600, eb);
    if (rc == ERR_OK)
        rc = add_profiles(a, span_of(text), name, eb);
    OPENSSL_cleanse(random, sizeof random);
    OPENSSL_cleanse(secret, sizeof secret);
    OPENSSL_cleanse(text, sizeof text);
    return rc;
}

const char *
auth_secret(const struct auth *a, struct span access_key, const struct auth_user **user)
{
    bool found;
    uint32_t at = place_of(a, access_key, &found);

    if (!found)
        return NULL;
    if (user != NULL)
        *user = &a->users[at].shown;
    return a->users[at].secret;
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

/* "[::1]:9000" -> "::1", "host:80" -> "host". */
static struct span
without_port(struct span host)
{
    if (host.len > 0 && host.at[0] == '[') {
        const char *end = memchr(host.at, ']', host.len);

        return end != NULL ? (struct span){host.at + 1, (size_t)(end - host.at) - 1}
                           : (struct span){host.at, 0};
    }
    for (size_t i = 0; i < host.len; i++)
        if (host.at[i] == ':')
            return (struct span){host.at, i};
    return host;
}

static bool
ends_with_domain(struct span host, struct span domain)
{
    struct span tail;

    if (host.len < domain.len)
        return false;
    tail = span_from(host, host.len - domain.len);
    if (strncasecmp(tail.at, domain.at, domain.len) != 0)
        return false;
    return host.len == domain.len || host.at[host.len - domain.len - 1] == '.';
}

/* 127.0.0.0/8 in the plain four-part form. */
static bool
is_loopback_v4(struct span host)
{
    unsigned parts = 0;
    size_t i = 0;

    if (!span_starts(host, SPAN("127.")))
        return false;
    while (i < host.len) {
        unsigned value = 0, digits = 0;

        for (; i < host.len && host.at[i] >= '0' && host.at[i] <= '9' && digits < 4;
             i++, digits++)
            value = value * 10 + (unsigned)(host.at[i] - '0');
        if (digits == 0 || digits > 3 || value > 255)
            return false;
        parts++;
        if (i < host.len && (host.at[i] != '.' || ++i == host.len))
            return false;
    }
    return parts == 4;
}

bool
auth_host_ok(const struct auth *a, struct span host, const char *const *domains,
             unsigned count)
{
    struct span name = without_port(host);

    (void)a;
    if (ends_with_domain(name, SPAN("localhost")) || span_is(name, "::1") ||
        is_loopback_v4(name))
        return true;
    for (unsigned i = 0; i < count; i++)
        if (ends_with_domain(name, span_of(domains[i])))
            return true;
    return false;
}
