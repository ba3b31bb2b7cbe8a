/* awschunked: bodies framed by `STREAMING-...` values of x-amz-content-sha256: chunks
 * inside the HTTP body, with or without signatures, with or without a trailer.
 *
 *     *( hex [ext] CRLF data CRLF ) "0" [ext] CRLF
 *     *( name ":" value CRLF ) [ "x-amz-trailer-signature:" sig CRLF ] CRLF
 *     ext = ";chunk-signature=" 64 hex digits
 *
 * The decoder is pulled: it is given bytes at any split and hands back spans of the
 * decoded body that lie in the bytes given, so nothing is copied; a chunk may be
 * gigabytes long. What it handed back is not to be believed until AWSCHUNKED_END: chunk
 * signatures come before their data but can only be checked after it.
 *
 * Memory: the decoder is 3 KiB, in the caller's arena; it stays where it is (its trailers
 * point into it), borrows only `key` and `scope` and owns a running hash: awschunked_fini().
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/span.h"
#include "wire/checksum.h"
#include "wire/fault.h"
#include "wire/field.h"
#include "wire/sigv4.h"

#define AWSCHUNKED_LINE_MAX     1024
#define AWSCHUNKED_TRAILERS_MAX 1 /* S3 has one checksum a request */

enum awschunked_got {
    AWSCHUNKED_MORE, /* all of `in` is taken: feed more, or awschunked_finish() */
    AWSCHUNKED_DATA, /* *data is the next piece of the body */
    AWSCHUNKED_END,  /* complete and verified; further bytes are still to be fed: BAD */
    AWSCHUNKED_BAD,  /* awschunked_finish() says why; it stays so */
};

struct awschunked {
    /* Set at the start. */
    enum payload_kind kind;
    const struct hmac_key *key; /* borrowed; signed kinds only */
    struct span scope;          /* borrowed; "20261121/us-east-1/s3/aws4_request" */
    char date[17];
    uint64_t length;              /* x-amz-decoded-content-length */
    enum checksum_kind announced; /* x-amz-trailer */

    /* Moves. */
    unsigned char state;
    bool bare_lf; /* the last trailer line ended in LF alone: see end_of_trailers() */
    bool trailers_signed; /* x-amz-trailer-signature came and was right */
    unsigned char slack;  /* bytes of an empty line that may still come after the end */
    char previous[SHA256_HEX + 1]; /* the signature before this chunk's */
    char claimed[SHA256_HEX + 1];  /* this chunk's */
    struct digest sum;             /* of this chunk's data */
    uint64_t chunk_left;
    uint64_t decoded;
    size_t line_len;
    size_t text_len;
    size_t trailer_count;
    struct fault fault;
    char line[AWSCHUNKED_LINE_MAX];
    char text[AWSCHUNKED_LINE_MAX]; /* trailers as they are signed: "name:value\n" */
    struct field trailers[AWSCHUNKED_TRAILERS_MAX]; /* lie in `text` */
};

/* `auth` and `key` are needed for signed kinds only. Checks x-amz-decoded-content-length
 * (411 MissingContentLength) and x-amz-trailer (400 InvalidRequest unless it names a
 * checksum header). */
enum err awschunked_init(struct awschunked *d, enum payload_kind kind,
                         const struct sigv4_auth *auth, const struct hmac_key *key,
                         struct fields headers, struct fault *f) MUST_CHECK;

void awschunked_fini(struct awschunked *d); /* after a failed init too; twice is fine */

/* Takes from the front of *in. Ask again until it says MORE. */
enum awschunked_got awschunked_next(struct awschunked *d, struct span *in,
                                    struct span *data);

/* The HTTP body has ended: ERR_OK if the framed one has too, else 400 IncompleteBody. */
enum err awschunked_finish(const struct awschunked *d, struct fault *f) MUST_CHECK;

/* The trailers, complete after AWSCHUNKED_END; names are in lower case. */
static inline struct fields
awschunked_trailers(const struct awschunked *d)
{
    return (struct fields){d->trailers, d->trailer_count};
}
