/* uri: percent encoding as S3 has it. Unreserved are A-Z a-z 0-9 - . _ ~; what encodes is
 * upper-case hex, and '+' is a plus. Any thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/span.h"

/* Decodes once into out, which has room for s.len bytes (it may be s.at itself). Returns
 * the length, or -1 when a '%' is not followed by two hex digits. */
int uri_decode(struct span s, char *out);
/* Encodes all but unreserved bytes; '/' too unless keep_slash. */
void uri_encode(struct buf *out, struct span s, bool keep_slash);
