/* s3name: which bucket and key a request names, and what names are allowed.
 *
 * A key is bytes: the raw path percent-decoded once; '+' stays, %2F is a slash, "//", "."
 * and ".." are ordinary.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/span.h"
#include "wire/fault.h"

#define S3_KEY_MAX    1024
#define S3_BUCKET_MIN 3
#define S3_BUCKET_MAX 63

struct s3_name {
    struct span bucket; /* empty: the service itself (GET /) */
    struct span key;    /* empty: the bucket */
    bool virtual_host;  /* the bucket came from Host */
};

/* `path` is raw and begins with '/'; `host` as received; `domains` are base domains in
 * lower case ("s3.lan"), none when count is 0. Equal to a domain, an IP address or
 * anything foreign: path style. "*.domain": what stands in front is the bucket, and the
 * whole path is the key. The bucket's name is not checked here (ask s3_bucket_ok(): the
 * AIS API allows others); a key is: KeyTooLongError, and InvalidURI for a bad escape.
 * Memory: the result lies in `a` or in the request. */
enum err s3_name_split(struct span path, struct span host, const struct span *domains,
                       size_t domain_count, struct arena *a, struct s3_name *out,
                       struct fault *f) MUST_CHECK;

/* True in virtual-host style: a bucket is in `host`. */
bool s3_bucket_in_host(struct span host, const struct span *domains, size_t domain_count);

/* 3 to 63 of [a-z0-9.-], first and last a letter or digit, no "..", ".-", "-.", not an
 * IPv4 address. */
bool s3_bucket_ok(struct span name);
/* The same as a fault: InvalidBucketName. */
enum err s3_bucket_check(struct span name, struct fault *f) MUST_CHECK;
/* 1 to 1024 bytes of valid UTF-8, else KeyTooLongError with <Size> and <MaxSizeAllowed>,
 * or InvalidURI. */
enum err s3_key_check(struct span key, struct arena *a, struct fault *f) MUST_CHECK;

/* x-amz-copy-source: "bucket/key" or "/bucket/key", percent-encoded, "?versionId="
 * outside the encoding. */
struct s3_copy_source {
    struct span bucket, key, version; /* version is empty when none was named */
};
enum err s3_copy_source_parse(struct span value, struct arena *a,
                              struct s3_copy_source *out, struct fault *f) MUST_CHECK;
