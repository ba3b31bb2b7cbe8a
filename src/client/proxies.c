/* proxies: finds the proxies given by options and environment. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "client/s3.h"
#include "rt/file.h"

#define PAIR_MAX 1024

/* The option; else the environment, lower case first. */
static const char *
choose_proxy(const char *option, const char *lower, const char *upper)
{
    const char *v = option;

    if (v != NULL && strcmp(v, "none") == 0)
        return NULL;
    if (v == NULL || v[0] == '\0')
        v = getenv(lower);
    if ((v == NULL || v[0] == '\0') && upper != NULL)
        v = getenv(upper);
    return v;
}

/* May switch. */
static enum err
read_pair(const char *path, struct proxies *out, struct errbuf *eb)
{
    char *pair = NULL;
    size_t len = 0;
    enum err rc = rt_private_load(path, PAIR_MAX, &pair, &len, eb);

    if (rc == ERR_OK && strchr(pair, ':') == NULL)
        rc = err_set(eb, ERR_BAD_REQUEST, "%s: a line USER:PASSWORD is expected", path);
    if (rc == ERR_OK)
        proxies_authorize(out, (struct span){pair, strcspn(pair, "\r\n")});
    else
        err_prefix(eb, "backend.proxy_credentials");
    if (pair != NULL)
        hash_wipe(pair, len);
    free(pair);
    return rc;
}

/* Options are visible to other users: they must not contain a password. */
static enum err
refuse_user(const char *option, const char *name, struct errbuf *eb)
{
    return option != NULL && strchr(option, '@') != NULL
               ? err_set(eb, ERR_BAD_REQUEST,
                         "%s: credentials do not stand in the configuration; put "
                         "USER:PASSWORD into a file of mode 0600 and name it by "
                         "backend.proxy_credentials",
                         name)
               : ERR_OK;
}

enum err
s3_proxies_find(const struct s3_proxy_options *o, struct proxies *out, struct errbuf *eb)
{
    bool cgi = getenv("REQUEST_METHOD") != NULL;
    enum err rc = refuse_user(o->http, "backend.http_proxy", eb);

    *out = (struct proxies){0};
    if (rc == ERR_OK)
        rc = refuse_user(o->https, "backend.https_proxy", eb);
    if (rc == ERR_OK)
        rc = proxies_init(out,
                          choose_proxy(o->http, "http_proxy", cgi ? NULL : "HTTP_PROXY"),
                          choose_proxy(o->https, "https_proxy", "HTTPS_PROXY"),
                          choose_proxy(o->except, "no_proxy", "NO_PROXY"), eb);
    if (rc == ERR_OK && o->credentials != NULL && o->credentials[0] != '\0')
        rc = read_pair(o->credentials, out, eb);
    if (rc != ERR_OK)
        proxies_fini(out);
    return rc;
}
