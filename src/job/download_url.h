/* download_url: a line of a download: "URL NAME" or "URL". Pure; any thread. */
#pragma once
#include "base/err.h"
#include "base/span.h"

struct download_url {
    struct span all, origin, host, path; /* of the line; origin: "https://host:port" */
    struct span name; /* of the object, in the line; empty: by the path */
};
/* Splits the line, which *u refers to. ERR_BAD_REQUEST says what is wrong with the URL. */
enum err download_url_split(const char *line, struct download_url *u,
                            struct errbuf *eb) MUST_CHECK;
/* Is the host an address, or "localhost", that a download must not lead to? Names are checked when they are resolved.
 * ERR_DENIED; `private_ok`: only link-local and special addresses are. */
enum err download_url_check(const struct download_url *u, bool private_ok,
                            struct errbuf *eb) MUST_CHECK;
