/* etag: entity tags, conditions and ranges of reads, as S3 evaluates them. Pure functions
 * over header values.
 *
 * An etag here has no quotes: "9e10..." or "b2ad...-3". On the wire it always has them;
 * what comes in may not.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/span.h"
#include "wire/fault.h"

#define ETAG_TEXT_MAX  40 /* 32 hex, "-10000", NUL */
#define ETAG_PARTS_MAX 100000

struct span etag_unquote(struct span text); /* drops outer white space, W/ and quotes */
/* The plain form: hex of an MD5, "-parts" behind it when parts is not 0. Returns the
 * length. */
size_t etag_text(const unsigned char md5[16], unsigned parts, char out[ETAG_TEXT_MAX]);
/* The other way: false when it is not of that form. */
bool etag_parse(struct span text, unsigned char md5[16], unsigned *parts);
/* Is `etag` in the list `"a", "b"`, or is the list `*`? */
bool etag_in_list(struct span list, struct span etag);

/* hex(md5 of the parts' binary md5s) + "-N". */
struct etag_multipart {
    struct digest digest;
    unsigned parts;
};
void etag_multipart_init(struct etag_multipart *m);
void etag_multipart_add(struct etag_multipart *m, const unsigned char md5[16]);
size_t etag_multipart_end(struct etag_multipart *m, unsigned char md5[16],
                          char out[ETAG_TEXT_MAX]);

/* ---- Range ---- */

enum range_got {
    RANGE_WHOLE,         /* no range, or one that is ignored: 200 */
    RANGE_PART,          /* 206 */
    RANGE_UNSATISFIABLE, /* 416 */
};
struct range {
    uint64_t first, len;
};
/* `header` as received; at NULL when absent. For RANGE_WHOLE *out is 0, size. */
enum range_got range_resolve(struct span header, uint64_t size, struct range *out);
/* InvalidRange with <RangeRequested> and <ActualObjectSize>. `size_text` must outlive the
 * fault. */
enum err range_fault(struct span header, uint64_t size, char size_text[24],
                     struct fault *f);

/* A client reads "bytes 0-3/10"; the size may be "*" (then UINT64_MAX). */
enum err content_range_parse(struct span text, struct range *out,
                             uint64_t *size) MUST_CHECK;
/* x-amz-copy-source-range: both ends, nothing else: InvalidArgument. */
enum err copy_range_parse(struct span text, struct range *out,
                          struct fault *f) MUST_CHECK;

/* ---- Conditional reads ---- */

struct conditions { /* header values; at NULL when absent */
    struct span if_match, if_none_match, if_modified_since, if_unmodified_since;
};
/* ERR_OK, ERR_PRECONDITION (the fault names the condition) or ERR_NOT_MODIFIED. Times in
 * whole seconds. */
enum err preconditions_check(const struct conditions *c, struct span etag,
                             int64_t mtime_s, int64_t now_s, struct fault *f) MUST_CHECK;
/* If-Range: does the range count? When absent, or when the etag or date still holds. */
bool if_range_holds(struct span value, struct span etag, int64_t mtime_s);
