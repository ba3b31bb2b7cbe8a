/* download_url: see download_url.h. */
#include "job/download_url.h"

#include "base/ip.h"
#include "base/mem.h"

enum err
download_url_split(const char *line, struct download_url *u, struct errbuf *eb)
{
    struct span text = span_of(line);
    const char *space = span_find(text, ' '), *at, *slash;

    *u = (struct download_url){.all = text, .name = SPAN("")};
    if (space != NULL) {
        u->all.len = (size_t)(space - line);
        u->name = span_of(space + 1);
    }
    at = span_starts(u->all, SPAN("http://"))    ? line + 7
         : span_starts(u->all, SPAN("https://")) ? line + 8
                                                 : NULL;
    if (at == NULL)
        return err_set(eb, ERR_BAD_REQUEST, "a URL begins with http:// or https://");
    text = span_from(u->all, (size_t)(at - line));
    slash = span_find(text, '/');
    u->host = (struct span){at, slash != NULL ? (size_t)(slash - at) : text.len};
    u->origin = (struct span){line, (size_t)(at - line) + u->host.len};
    u->path = slash != NULL ? span_from(text, u->host.len + 1) : SPAN("");
    if (u->host.len == 0 || span_find(u->host, '@') != NULL || u->path.len == 0)
        return err_set(eb, ERR_BAD_REQUEST,
                       "a URL has a host, a path and no user: http://HOST/PATH");
    if (span_find(u->path, '?') != NULL || span_find(u->path, '#') != NULL)
        return err_set(eb, ERR_BAD_REQUEST,
                       "a URL with a query or a fragment is not "
                       "downloaded");
    return ERR_OK;
}

enum err
download_url_check(const struct download_url *u, bool private_ok, struct errbuf *eb)
{
    struct span host = u->host;
    const char *colon = span_find(host, ':');
    unsigned char bytes[16];
    enum ip_class class = IP_PUBLIC;
    size_t len;

    if (host.at[0] == '[') {
        const char *end = span_find(host, ']');

        host.len = end != NULL ? (size_t)(end - host.at) + 1 : host.len;
    } else if (colon != NULL) {
        host.len = (size_t)(colon - host.at);
    }
    len = ip_parse(host, bytes);
    if (len > 0)
        class = ip_class_of(bytes, len);
    else if (span_case_is(host, "localhost") || span_case_is(host, "localhost."))
        class = IP_LOOPBACK;
    if (class == IP_PUBLIC ||
        (private_ok && class != IP_LINK_LOCAL && class != IP_SPECIAL))
        return ERR_OK;
    return err_set(eb, ERR_DENIED,
                   "\"%.*s\" is a %s address; ais.download_private allows private ones",
                   (int)MIN(host.len, 64u), host.at, ip_class_name(class));
}
