/* verify: compares the bytes of an object with the server's checksums. By a CRC of the whole object; else by its ETag, where that is
 * an MD5 or an MD5 of the MD5s of parts of known length; else by another checksum; else by nothing but the length. Bytes are added in order. Any
 * thread, one at a time. */
#pragma once
#include "client/s3.h"
#include "wire/checksum.h"
#include "wire/etag.h"

enum verify_by { VERIFY_LENGTH, VERIFY_MD5, VERIFY_PARTS, VERIFY_SUM };
struct verify {
    enum verify_by by;
    uint64_t part_bytes; /* VERIFY_PARTS */
    unsigned parts;
    unsigned char md5[16]; /* of the ETag */
    struct checksum_value sum;
    /* In progress. */
    struct digest digest; /* of the object, or the part */
    uint64_t in_part;
    struct etag_multipart all;
    struct checksum running;
};
/* How `info` can be verified. part_bytes: of an upload in parts, 0 when not known. */
void verify_init(struct verify *v, const struct s3_object_info *info,
                 uint64_t part_bytes);
void verify_add(struct verify *v, const void *at, size_t len);
/* Ends it: true if the bytes match. */
bool verify_end(struct verify *v);
/* ERR_BAD_DIGEST, and what they do not match. Before verify_fini(). */
enum err verify_refuse(const struct verify *v, const struct s3_object_info *info,
                       struct errbuf *eb) MUST_CHECK;
void verify_fini(struct verify *v); /* when abandoned; twice is fine */
