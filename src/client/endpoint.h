/* endpoint: the URL of a server, taken apart: "http://host:port", "https://[::1]"; nothing may follow. Any thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct s3_endpoint {
    char *host;        /* owned; without port and brackets */
    char *host_header; /* owned; with the port, unless it is the scheme's default */
    uint16_t port;
    bool tls;
};
/* s3_endpoint_fini() it, whatever the result. */
enum err s3_endpoint_parse(const char *endpoint, struct s3_endpoint *out,
                           struct errbuf *eb) MUST_CHECK;
void s3_endpoint_fini(struct s3_endpoint *e);
