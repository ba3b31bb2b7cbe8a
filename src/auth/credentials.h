/* credentials: the text of an AWS shared credentials file, read profile by profile. Pure; any thread. */
#pragma once
#include "base/err.h"
#include "base/span.h"

#define CREDENTIALS_BYTES_MAX (1u << 20)

struct credentials_profile {
    struct span name, access_key, secret_key, session_token; /* borrowed from the text */
};
struct credentials_cursor {
    struct span left;
    unsigned line;
};
struct credentials_cursor credentials_cursor(struct span text);
/* The next profile; false at the end or with *rc set when a line is malformed (the sentence names file and line).
 * Keys that are not credentials (region, role_arn) are passed over. */
bool credentials_next(struct credentials_cursor *c, struct credentials_profile *out,
                      const char *file, enum err *rc, struct errbuf *eb);
