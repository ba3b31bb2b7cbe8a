/* checksum: the additional checksums of S3: x-amz-checksum-*, trailers, multipart rules; and two that AIS has.
 *
 * Five algorithms are computed; those of 2026 that are not (SHA512, MD5, XXHASH*) are
 * known by name and answered 501.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/span.h"
#include "wire/fault.h"
#include "wire/field.h"

enum checksum_kind {
    CHECKSUM_NONE,
    CHECKSUM_CRC32,
    CHECKSUM_CRC32C,
    CHECKSUM_CRC64NVME,
    CHECKSUM_SHA1,
    CHECKSUM_SHA256,
    /* Of AIS; the S3 API knows these names and does not take them. */
    CHECKSUM_XXH64,
    CHECKSUM_SHA512,
    CHECKSUM_KIND_COUNT_,
    CHECKSUM_S3_KINDS_ = CHECKSUM_XXH64
};
enum checksum_type { CHECKSUM_TYPE_NONE, CHECKSUM_COMPOSITE, CHECKSUM_FULL_OBJECT };

struct checksum_value {
    enum checksum_kind kind;
    unsigned char bytes[DIGEST_MAX]; /* big-endian; checksum_len(kind) of them count */
};

const char *checksum_name(enum checksum_kind kind);      /* "CRC32" */
const char *checksum_header(enum checksum_kind kind);    /* "x-amz-checksum-crc32" */
const char *checksum_element(enum checksum_kind kind);   /* "ChecksumCRC32" */
size_t checksum_len(enum checksum_kind kind);            /* 4, 8, 20, 32; 0 for none */
const char *checksum_type_name(enum checksum_type type); /* "COMPOSITE", "FULL_OBJECT" */
/* By header name (any case) or element name; CHECKSUM_NONE when it is no such header. */
enum checksum_kind checksum_of_header(struct span name);
enum checksum_kind checksum_of_element(struct span name);
/* "crc32" in any case. NotImplemented for those we know and don't compute, InvalidRequest
 * for others. */
enum err checksum_of_name(struct span name, enum checksum_kind *out,
                          struct fault *f) MUST_CHECK;

#define CHECKSUM_TEXT_MAX 96
/* Base64, NUL-terminated; returns its length. */
size_t checksum_text(const struct checksum_value *v, char out[CHECKSUM_TEXT_MAX]);
/* InvalidRequest "Value for x-amz-checksum-crc32 header is invalid." */
enum err checksum_parse(enum checksum_kind kind, struct span text,
                        struct checksum_value *out, struct fault *f) MUST_CHECK;
bool checksum_eq(const struct checksum_value *a, const struct checksum_value *b);
/* BadDigest unless equal. */
enum err checksum_check(const struct checksum_value *want,
                        const struct checksum_value *got, struct fault *f) MUST_CHECK;

/* Running. CHECKSUM_NONE counts nothing. Ends by checksum_end() or checksum_fini(). */
struct checksum {
    enum checksum_kind kind;
    uint64_t crc;
    struct hash_xxh64 xxh64;
    struct digest digest;
};
void checksum_init(struct checksum *c, enum checksum_kind kind);
void checksum_add(struct checksum *c, const void *data, size_t len);
void checksum_end(struct checksum *c, struct checksum_value *out);
void checksum_fini(struct checksum *c); /* when abandoned; twice is fine */

/* What the headers of one upload say. */
struct checksum_request {
    enum checksum_kind kind; /* to compute; CHECKSUM_NONE: nothing was asked */
    bool given;              /* `want` came as a header */
    bool in_trailer;         /* it will come in the trailer of an aws-chunked body */
    struct checksum_value want;
    bool has_md5; /* Content-MD5 */
    unsigned char md5[16];
};
/* One x-amz-checksum-* at most, x-amz-trailer, x-amz-sdk-checksum-algorithm, Content-MD5:
 * all rules and sentences of S3. */
enum err checksum_request_parse(struct fields headers, struct checksum_request *out,
                                struct fault *f) MUST_CHECK;
/* Operations that demand one of Content-MD5 or a checksum. */
enum err checksum_request_demand(const struct checksum_request *r,
                                 struct fault *f) MUST_CHECK;
/* The announced trailer has come: its value becomes `want`. */
enum err checksum_request_trailer(struct checksum_request *r, struct fields trailers,
                                  struct fault *f) MUST_CHECK;
/* BadDigest with <ExpectedDigest> and <CalculatedDigest>. */
enum err content_md5_check(const unsigned char want[16], const unsigned char got[16],
                           struct arena *a, struct fault *f) MUST_CHECK;

/* CreateMultipartUpload: algorithm and type as given (empty when absent) -> what the
 * upload uses. */
enum err checksum_multipart(struct span algorithm, struct span type,
                            enum checksum_kind *kind, enum checksum_type *out_type,
                            struct fault *f) MUST_CHECK;
/* "Checksum Type mismatch occurred, expected checksum Type: crc32, actual checksum Type:
 * sha1" */
enum err checksum_part_check(enum checksum_kind upload, enum checksum_type type,
                             enum checksum_kind part, struct fault *f) MUST_CHECK;

/* COMPOSITE: the digest of the parts' digests. Its text has "-N" behind it. */
struct checksum_composite {
    struct checksum running;
    unsigned parts;
};
void checksum_composite_init(struct checksum_composite *c, enum checksum_kind kind);
void checksum_composite_add(struct checksum_composite *c,
                            const struct checksum_value *part);
void checksum_composite_end(struct checksum_composite *c, struct checksum_value *out);
size_t checksum_composite_text(const struct checksum_value *v, unsigned parts,
                               char out[CHECKSUM_TEXT_MAX]);
/* Does the whole's follow from its parts'? True of CRCs. */
bool checksum_combines(enum checksum_kind kind);
/* FULL_OBJECT: *a becomes the CRC of A|B. Only CRCs: false for others. */
bool checksum_combine(struct checksum_value *a, const struct checksum_value *b,
                      uint64_t len_b);
