/* client: making and freeing an S3 client. */
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "client/internal.h"
#include "rt/loop.h"

/* "http://host:port", "https://[::1]"; nothing may follow. */
static enum err
set_endpoint(struct s3_client *c, const char *endpoint, struct errbuf *eb)
{
    struct span rest = span_of(endpoint), port = {"", 0};
    const char *colon;
    uint64_t number;

    if (strncasecmp(endpoint, "https://", 8) == 0) {
        c->is_tls = true;
        rest = span_from(rest, 8);
    } else if (strncasecmp(endpoint, "http://", 7) == 0) {
        rest = span_from(rest, 7);
    } else {
        return err_set(eb, ERR_BAD_REQUEST,
                       "endpoint \"%s\" must begin with http:// or https://", endpoint);
    }
    while (rest.len > 0 && rest.at[rest.len - 1] == '/')
        rest.len--;
    for (size_t i = 0; i < rest.len; i++)
        if ((unsigned char)rest.at[i] <= ' ' || (unsigned char)rest.at[i] >= 0x7f ||
            strchr("/@?#\\", rest.at[i]) != NULL)
            return err_set(eb, ERR_BAD_REQUEST,
                           "endpoint \"%s\" has more than a host and a port", endpoint);
    colon = memrchr(rest.at, ':', rest.len);
    if (colon != NULL &&
        memchr(colon, ']', (size_t)(rest.at + rest.len - colon)) == NULL) {
        port = span_from(rest, (size_t)(colon - rest.at) + 1);
        rest.len = (size_t)(colon - rest.at);
    }
    c->port = c->is_tls ? 443 : 80;
    if (port.len > 0) {
        if (num_u64(port, &number) != ERR_OK || number == 0 || number > 65535)
            return err_set(eb, ERR_BAD_REQUEST, "endpoint \"%s\": a port is 1 to 65535",
                           endpoint);
        c->port = (uint16_t)number;
    }
    if (rest.len == 0)
        return err_set(eb, ERR_BAD_REQUEST, "endpoint \"%s\" has no host", endpoint);
    c->host_header = c->port == (c->is_tls ? 443 : 80)
                         ? xasprintf("%.*s", SPAN_ARG(rest))
                         : xasprintf("%.*s:%u", SPAN_ARG(rest), c->port);
    if (rest.at[0] == '[' && rest.at[rest.len - 1] == ']')
        rest = (struct span){rest.at + 1, rest.len - 2};
    c->host = xmemdup0(rest.at, rest.len);
    return ERR_OK;
}

static enum err
make_http(struct s3_client *c, const struct s3_options *o, struct errbuf *eb)
{
    struct tls_client_options t = {.ca_file = o->ca_file,
                                   .insecure_no_verify = o->insecure_no_verify};
    struct http_client_options h = {
        .per_host_max = o->connections,
        .proxies = o->proxies,
        .refuse = o->refuse,
        .connect_ms = o->connect_ms > 0 ? o->connect_ms : 5000,
        .first_byte_ms = o->first_byte_ms > 0 ? o->first_byte_ms : 30000,
        .between_ms = o->idle_ms > 0 ? o->idle_ms : 30000};
    enum err rc = ERR_OK;

    if (c->is_tls)
        rc = tls_client_new(&t, &c->tls, eb);
    h.tls = c->tls;
    return rc == ERR_OK ? http_client_new(&h, &c->http, eb) : rc;
}

static char *
dup_or_null(const char *s)
{
    return s != NULL ? xstrdup(s) : NULL;
}

enum err
s3_client_new(const struct s3_options *o, struct s3_client **out, struct errbuf *eb)
{
    struct s3_client *c = xcalloc(1, sizeof *c);
    enum err rc;

    *out = NULL;
    c->virtual_host = o->virtual_host;
    c->plain = o->plain;
    c->requester_pays = o->requester_pays;
    c->region = xstrdup(o->region != NULL ? o->region : "us-east-1");
    c->anonymous = o->credentials.access_key == NULL;
    c->credentials = (struct s3_credentials){
        .access_key = dup_or_null(o->credentials.access_key),
        .secret_key = dup_or_null(o->credentials.secret_key),
        .session_token = dup_or_null(o->credentials.session_token),
    };
    c->keys = xcalloc(rt_loop_count(), sizeof(struct sigv4_cache *));
    for (unsigned i = 0; i < rt_loop_count(); i++)
        c->keys[i] = sigv4_cache_new();
    rc = set_endpoint(c, o->endpoint, eb);
    if (rc == ERR_OK && !c->anonymous && c->credentials.secret_key == NULL)
        rc = err_set(eb, ERR_BAD_REQUEST, "access key \"%s\" comes without its secret",
                     c->credentials.access_key);
    if (rc == ERR_OK)
        rc = make_http(c, o, eb);
    if (rc != ERR_OK) {
        s3_client_free(&c);
        return rc;
    }
    *out = c;
    return ERR_OK;
}

void
s3_client_free(struct s3_client **cp)
{
    struct s3_client *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    if (c->http != NULL)
        http_client_free(&c->http);
    tls_context_free(&c->tls);
    for (unsigned i = 0; i < rt_loop_count(); i++)
        sigv4_cache_free(&c->keys[i]);
    free(c->keys);
    free(c->host);
    free(c->host_header);
    free(c->region);
    s3_credentials_fini(&c->credentials);
    free(c);
}

void
s3_client_want_latest(struct s3_client *c, bool yes)
{
    c->latest = yes;
}

void
s3_client_set_credentials(struct s3_client *c, struct s3_credentials *keys)
{
    s3_credentials_fini(&c->credentials);
    c->credentials = *keys;
    c->anonymous = keys->access_key == NULL;
    *keys = (struct s3_credentials){0};
}

static void
wipe(char **s)
{
    if (*s != NULL) {
        OPENSSL_cleanse(*s, strlen(*s));
        free(*s);
        *s = NULL;
    }
}

void
s3_credentials_fini(struct s3_credentials *c)
{
    wipe(&c->access_key);
    wipe(&c->secret_key);
    wipe(&c->session_token);
}
