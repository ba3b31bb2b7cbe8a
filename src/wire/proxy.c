#include "wire/proxy.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/ip.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/uri.h"
#include "wire/http.h"

/* ---- the proxy's URL ---- */

static void
proxy_authorize(struct proxy *p, struct span pair)
{
    static const char scheme[] = "Basic ";

    if (p->authorization != NULL)
        OPENSSL_cleanse(p->authorization, strlen(p->authorization));
    free(p->authorization);
    p->authorization = xmalloc(sizeof scheme + (pair.len + 2) / 3 * 4 + 1);
    memcpy(p->authorization, scheme, sizeof scheme - 1);
    base64_encode(pair.at, pair.len, p->authorization + sizeof scheme - 1);
}

/* "user:password", percent-encoded. */
static enum err
take_user(struct proxy *p, struct span user, const char *what, struct errbuf *eb)
{
    char *pair = xmalloc(user.len + 1);
    int len = uri_decode(user, pair);

    if (len >= 0)
        proxy_authorize(p, (struct span){pair, (size_t)len});
    OPENSSL_cleanse(pair, user.len + 1);
    free(pair);
    return len >= 0
               ? ERR_OK
               : err_set(eb, ERR_BAD_REQUEST,
                         "%s: its user or password is not percent-encoded right", what);
}

static bool
proxy_is_host(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.at[i] <= ' ' || (unsigned char)s.at[i] >= 0x7f ||
            strchr("/?#\\@[]%\"<>", s.at[i]) != NULL)
            return false;
    return s.len > 0 && s.len < 256;
}

static enum err
take_host(struct proxy *p, struct span rest, const char *what, struct errbuf *eb)
{
    struct span host = rest, port = {"", 0};
    const char *colon;
    uint64_t number = 80;
    bool six = rest.len > 0 && rest.at[0] == '[';

    if (six) {
        const char *end = memchr(rest.at, ']', rest.len);
        unsigned char address[16];

        if (end == NULL)
            return err_set(eb, ERR_BAD_REQUEST, "%s: '[' without ']'", what);
        host = (struct span){rest.at + 1, (size_t)(end - rest.at) - 1};
        rest = span_from(rest, host.len + 2);
        if (ip_parse(host, address) != 16 || (rest.len > 0 && rest.at[0] != ':'))
            return err_set(eb, ERR_BAD_REQUEST,
                           "%s: between '[' and ']' stands an address of version 6",
                           what);
        port = rest.len > 0 ? span_from(rest, 1) : port;
    } else if ((colon = memchr(rest.at, ':', rest.len)) != NULL) {
        host.len = (size_t)(colon - rest.at);
        port = span_from(rest, host.len + 1);
    }
    if (port.len > 0 &&
        (num_u64(port, &number) != ERR_OK || number == 0 || number > 65535))
        return err_set(eb, ERR_BAD_REQUEST, "%s: a port is 1 to 65535", what);
    if (!proxy_is_host(host))
        return err_set(eb, ERR_BAD_REQUEST,
                       "%s: expected http://[USER:PASSWORD@]HOST[:PORT]", what);
    p->host = xmemdup0(host.at, host.len);
    p->port = (uint16_t)number;
    p->name = xasprintf(six ? "[%s]:%u" : "%s:%u", p->host, p->port);
    return ERR_OK;
}

static enum err
take_url(struct proxy *p, const char *url, const char *what, struct errbuf *eb)
{
    struct span rest = span_of(url);
    const char *scheme, *at;
    enum err rc = ERR_OK;

    if (rest.len == 0)
        return ERR_OK;
    if (rest.len > PROXY_TEXT_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "%s has %zu bytes, at most %u", what,
                       rest.len, PROXY_TEXT_MAX);
    scheme = strstr(url, "://");
    if (scheme != NULL && strncasecmp(url, "http://", 7) != 0)
        return err_set(eb, ERR_NOT_IMPLEMENTED,
                       "%s: a proxy of kind \"%.*s\" is not spoken to, only http://",
                       what, (int)MIN((size_t)(scheme - url), 16u), url);
    if (scheme != NULL)
        rest = span_from(rest, 7);
    while (rest.len > 0 && rest.at[rest.len - 1] == '/')
        rest.len--;
    at = rest.len > 0 ? memrchr(rest.at, '@', rest.len) : NULL;
    if (at != NULL) {
        rc = take_user(p, (struct span){rest.at, (size_t)(at - rest.at)}, what, eb);
        rest = span_from(rest, (size_t)(at - rest.at) + 1);
    }
    return rc == ERR_OK ? take_host(p, rest, what, eb) : rc;
}

static void
proxy_fini(struct proxy *p)
{
    if (p->authorization != NULL)
        OPENSSL_cleanse(p->authorization, strlen(p->authorization));
    free(p->authorization);
    free(p->host);
    free(p->name);
    *p = (struct proxy){0};
}

void
proxies_fini(struct proxies *p)
{
    proxy_fini(&p->http);
    proxy_fini(&p->https);
    free(p->except);
    p->except = NULL;
}

enum err
proxies_init(struct proxies *p, const char *http, const char *https, const char *except,
             struct errbuf *eb)
{
    enum err rc;

    *p = (struct proxies){0};
    rc = take_url(&p->http, http != NULL ? http : "", "the proxy for http", eb);
    if (rc == ERR_OK)
        rc = take_url(&p->https, https != NULL ? https : "", "the proxy for https", eb);
    if (rc == ERR_OK && except != NULL && strlen(except) > PROXY_EXCEPT_MAX)
        rc = err_set(eb, ERR_BAD_REQUEST, "no_proxy has %zu bytes, at most %u",
                     strlen(except), PROXY_EXCEPT_MAX);
    if (rc == ERR_OK && except != NULL)
        p->except = xstrdup(except);
    if (rc != ERR_OK)
        proxies_fini(p);
    return rc;
}

void
proxies_authorize(struct proxies *p, struct span user_and_password)
{
    if (p->http.host != NULL && p->http.authorization == NULL)
        proxy_authorize(&p->http, user_and_password);
    if (p->https.host != NULL && p->https.authorization == NULL)
        proxy_authorize(&p->https, user_and_password);
}

/* ---- exceptions ---- */

struct target {
    struct span name; /* without a dot at its end */
    unsigned char address[16];
    size_t address_len; /* 0: a name */
    uint16_t port;
};

static struct target
proxy_target_of(const char *host, uint16_t port)
{
    struct target t = {.name = span_of(host), .port = port};

    t.address_len = ip_parse(t.name, t.address);
    if (t.name.len > 0 && t.name.at[t.name.len - 1] == '.')
        t.name.len--;
    return t;
}

static bool
same_text(struct span a, struct span b)
{
    return a.len == b.len && strncasecmp(a.at, b.at, a.len) == 0;
}

/* "10.0.0.0/8" */
static bool
is_in_network(struct span rule, const char *slash, const struct target *t)
{
    unsigned char base[16];
    size_t len = ip_parse((struct span){rule.at, (size_t)(slash - rule.at)}, base);
    uint64_t bits;

    return len != 0 && len == t->address_len &&
           num_u64(span_from(rule, (size_t)(slash - rule.at) + 1), &bits) == ERR_OK &&
           bits <= 8 * len && ip_same_prefix(base, t->address, (unsigned)bits);
}

/* Removes ":PORT"; false: another port, or none. */
static bool
is_port(struct span *rule, const struct target *t)
{
    const char *colon = memrchr(rule->at, ':', rule->len);
    unsigned char address[16];
    uint64_t port;

    if (colon == NULL || ip_parse(*rule, address) != 0)
        return true;
    if (num_u64(span_from(*rule, (size_t)(colon - rule->at) + 1), &port) != ERR_OK ||
        port != t->port)
        return false;
    rule->len = (size_t)(colon - rule->at);
    return true;
}

static bool
is_below(struct span name, struct span domain)
{
    return name.len > domain.len && name.at[name.len - domain.len - 1] == '.' &&
           same_text(span_from(name, name.len - domain.len), domain);
}

static bool
proxy_matches(struct span rule, const struct target *t)
{
    const char *slash = memchr(rule.at, '/', rule.len);
    unsigned char address[16];
    bool only_below;
    size_t len;

    if (span_is(rule, "*"))
        return true;
    if (slash != NULL)
        return is_in_network(rule, slash, t);
    if (!is_port(&rule, t))
        return false;
    len = ip_parse(rule, address);
    if (len != 0 || t->address_len != 0)
        return len == t->address_len && len != 0 && memcmp(address, t->address, len) == 0;
    only_below = span_starts(rule, SPAN("*."));
    rule = span_from(rule, only_below ? 2 : rule.len > 0 && rule.at[0] == '.');
    if (rule.len > 0 && rule.at[rule.len - 1] == '.')
        rule.len--;
    return rule.len > 0 &&
           (is_below(t->name, rule) || (!only_below && same_text(t->name, rule)));
}

bool
proxy_is_excepted(const char *except, const char *host, uint16_t port)
{
    static const char between[] = ", \t\r\n";
    struct target t = proxy_target_of(host, port);

    for (const char *at = except; *at != '\0';) {
        size_t len = strcspn(at, between);

        if (len > 0 && proxy_matches((struct span){at, len}, &t))
            return true;
        at += len;
        at += strspn(at, between);
    }
    return false;
}

static bool
proxy_is_loopback(const char *host)
{
    struct target t = proxy_target_of(host, 0);

    if (t.address_len != 0)
        return ip_class_of(t.address, t.address_len) == IP_LOOPBACK;
    return same_text(t.name, SPAN("localhost")) || is_below(t.name, SPAN("localhost"));
}

const struct proxy *
proxies_for(const struct proxies *p, const char *host, uint16_t port, bool tls)
{
    const struct proxy *one;

    if (p == NULL)
        return NULL;
    one = tls ? &p->https : &p->http;
    if (one->host == NULL || strncmp(host, "unix:", 5) == 0 || proxy_is_loopback(host) ||
        (p->except != NULL && proxy_is_excepted(p->except, host, port)))
        return NULL;
    return one;
}

/* ---- its response ---- */

enum err
proxy_response(const char *bytes, size_t len, struct errbuf *eb)
{
    struct http_head *h = xcalloc(1, sizeof *h);
    enum err rc;

    http_head_init(h);
    switch (http_response_parse(h, bytes, len, HTTP_METHOD_OTHER)) {
    case HTTP_MORE:
        rc = len < PROXY_RESPONSE_ROOM
                 ? ERR_BUSY
                 : err_set(eb, ERR_BACKEND, "its answer to CONNECT has over %u bytes",
                           PROXY_RESPONSE_ROOM);
        break;
    case HTTP_BAD:
        rc = err_set(eb, ERR_BACKEND, "it does not speak HTTP: %s", h->why);
        break;
    case HTTP_DONE:
    default:
        if (h->code < 200)
            rc = err_set(eb, ERR_BACKEND, "it answered CONNECT with %d", h->code);
        else if (h->code == 407)
            rc = err_set(eb, ERR_BACKEND, "it wants other credentials (407)");
        else if (h->code >= 300)
            rc = err_set(eb, ERR_BACKEND, "it refused the tunnel: %d %s", h->code,
                         http_reason(h->code));
        else if (h->len != len) /* no peer sends before our TLS does */
            rc = err_set(eb, ERR_BACKEND, "it sent %zu bytes of its own into the tunnel",
                         len - h->len);
        else
            rc = ERR_OK;
        break;
    }
    free(h);
    return rc;
}
