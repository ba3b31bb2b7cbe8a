/* endpoint: the URL of a server, taken apart. */
#include "client/endpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/span.h"

enum err
s3_endpoint_parse(const char *endpoint, struct s3_endpoint *out, struct errbuf *eb)
{
    struct span rest = span_of(endpoint), port = {"", 0};
    const char *colon;
    uint64_t number;

    *out = (struct s3_endpoint){0};
    if (strncasecmp(endpoint, "https://", 8) == 0) {
        out->tls = true;
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
    out->port = out->tls ? 443 : 80;
    if (port.len > 0) {
        if (num_u64(port, &number) != ERR_OK || number == 0 || number > 65535)
            return err_set(eb, ERR_BAD_REQUEST, "endpoint \"%s\": a port is 1 to 65535",
                           endpoint);
        out->port = (uint16_t)number;
    }
    if (rest.len == 0)
        return err_set(eb, ERR_BAD_REQUEST, "endpoint \"%s\" has no host", endpoint);
    out->host_header = out->port == (out->tls ? 443 : 80)
                           ? xasprintf("%.*s", SPAN_ARG(rest))
                           : xasprintf("%.*s:%u", SPAN_ARG(rest), out->port);
    if (rest.at[0] == '[' && rest.at[rest.len - 1] == ']')
        rest = (struct span){rest.at + 1, rest.len - 2};
    out->host = xmemdup0(rest.at, rest.len);
    return ERR_OK;
}

void
s3_endpoint_fini(struct s3_endpoint *e)
{
    free(e->host);
    free(e->host_header);
    *e = (struct s3_endpoint){0};
}
