/* client: making and freeing an S3 client. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "client/internal.h"
#include "rt/loop.h"

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

    if (c->at.tls)
        rc = tls_client_new(&t, &c->tls, eb);
    h.tls = c->tls;
    return rc == ERR_OK ? http_client_new(&h, &c->http, eb) : rc;
}

static char *
copy_or_null(const char *s)
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
        .access_key = copy_or_null(o->credentials.access_key),
        .secret_key = copy_or_null(o->credentials.secret_key),
        .session_token = copy_or_null(o->credentials.session_token),
    };
    c->keys = xcalloc(rt_loop_count(), sizeof(struct sigv4_cache *));
    for (unsigned i = 0; i < rt_loop_count(); i++)
        c->keys[i] = sigv4_cache_new();
    rc = s3_endpoint_parse(o->endpoint, &c->at, eb);
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
    s3_endpoint_fini(&c->at);
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
