/* sigv4: AWS Signature Version 4 for S3: verify and sign, in headers and in the query.
 * Pure: the time is passed in.
 *
 * The server's side is three steps, because the secret has to be looked up between them:
 *
 *     sigv4_parse(&req, &q, &opts, &auth, &fault)    is the claim well formed
 *     secret = look up auth.access_key               unknown: sigv4_unknown_key()
 *     sigv4_verify(&req, &q, &auth, secret, cache, now_s, arena, &key, &fault)
 *
 * A request without any claim parses as SIGV4_ANONYMOUS; whether that may pass is not
 * decided here. `payload` is known after the parse: it says how the body is framed and
 * what its hash must be. The canonical request is made from decoded bytes, never from raw
 * text, so that clients may write %c3 or %C3, "b" or "b=".
 *
 * Memory: results borrow from the request and the arena. Any thread; a cache belongs to
 * one loop.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/num.h"
#include "base/span.h"
#include "wire/fault.h"
#include "wire/field.h"
#include "wire/query.h"

#define SHA256_LEN               32
#define SHA256_HEX               64
#define SIGV4_SKEW_MAX_S         900
#define SIGV4_EXPIRES_MAX_S      604800
#define SIGV4_SIGNED_HEADERS_MAX 100
#define SIGV4_REGION_MAX         64

/* The request as it is on the wire. */
struct sigv4_request {
    struct span method;
    struct span path; /* raw: percent-encoded, without the query */
    struct fields headers;
    struct span forwarded_host; /* tried too, when a trusted proxy sent one; else empty */
    bool tls;                   /* the scheme's default port is 443, else 80 */
};

/* What x-amz-content-sha256 says about the body. */
enum payload_kind {
    PAYLOAD_UNSIGNED,                 /* plain, nothing promised */
    PAYLOAD_SHA256,                   /* plain, its hash is known */
    PAYLOAD_CHUNKED_UNSIGNED_TRAILER, /* aws-chunked */
    PAYLOAD_CHUNKED_SIGNED,           /* aws-chunked, each chunk signed */
    PAYLOAD_CHUNKED_SIGNED_TRAILER,   /* the same and a signed trailer */
};
struct payload {
    enum payload_kind kind;
    unsigned char sha256[SHA256_LEN]; /* with PAYLOAD_SHA256 */
};
static inline bool
payload_is_chunked(enum payload_kind kind)
{
    return kind >= PAYLOAD_CHUNKED_UNSIGNED_TRAILER;
}
/* Anything but the known values is 400 InvalidArgument; the ECDSA ones are 501. */
enum err payload_parse(struct span value, struct payload *out,
                       struct fault *f) MUST_CHECK;
/* XAmzContentSHA256Mismatch, with both sums, unless `got` is what was announced. */
enum err payload_check(const struct payload *p, const unsigned char got[SHA256_LEN],
                       struct arena *a, struct fault *f) MUST_CHECK;

enum sigv4_kind { SIGV4_ANONYMOUS, SIGV4_HEADER, SIGV4_QUERY };

struct sigv4_auth {
    enum sigv4_kind kind;
    struct span access_key, day, region; /* day: "20261121" */
    struct span scope;                   /* "20261121/us-east-1/s3/aws4_request" */
    struct span signed_headers;          /* "host;x-amz-date", as claimed */
    struct span signature;               /* as claimed */
    struct span token;                   /* x-amz-security-token; empty when none */
    char date[17];                       /* "20261121T151600Z" */
    int64_t date_s;
    uint64_t expires_s;       /* SIGV4_QUERY */
    uint64_t skew_s;          /* as the options say */
    struct span payload_text; /* the last line of the canonical request */
    bool payload_absent;      /* no x-amz-content-sha256 at all: curl 7.88 */
    struct payload payload;
};

struct sigv4_opts {
    struct span region; /* empty: any region in the scope will do */
    uint64_t skew_s;    /* how far a client's clock may be off; 0: SIGV4_SKEW_MAX_S */
};

/* All malformed claims: codes and sentences as AWS has them. */
enum err sigv4_parse(const struct sigv4_request *req, const struct query *q,
                     const struct sigv4_opts *opts, struct sigv4_auth *out,
                     struct fault *f) MUST_CHECK;

/* "AKID/20261121/us-east-1/s3/aws4_request" and the date it belongs to, as a form's fields have them: fills access_key,
 * day, region, scope, date. Any region. */
enum err sigv4_parse_credential(struct span credential, struct span date,
                                struct sigv4_auth *out, struct fault *f) MUST_CHECK;

/* InvalidAccessKeyId with <AWSAccessKeyId>. */
enum err sigv4_unknown_key(const struct sigv4_auth *auth, struct fault *f);

/* Signing keys by (secret, day, region); a small set that forgets. */
struct sigv4_cache;
struct sigv4_cache *sigv4_cache_new(void);
void sigv4_cache_free(struct sigv4_cache **cp); /* wipes; NULL is fine */

/* The signing key of a day and region. `cache` may be NULL. */
void sigv4_key(struct sigv4_cache *cache, struct span secret, struct span day,
               struct span region, struct hmac_key *out);

/* ERR_OK: the request was signed by the holder of `secret`, at a time that counts, with
 * every x-amz-* header. On SignatureDoesNotMatch the fault carries string to sign and
 * canonical request. `*key_out` (may be NULL) is the signing key: chunk signatures need
 * it. */
enum err sigv4_verify(const struct sigv4_request *req, const struct query *q,
                      const struct sigv4_auth *auth, struct span secret,
                      struct sigv4_cache *cache, int64_t now_s, struct arena *a,
                      struct hmac_key *key_out, struct fault *f) MUST_CHECK;

/* ---- A template of a verified request ---- Consecutive requests of one client differ in path and signature only,
 * within one second. So what sigv4_verify() computed for a valid request serves for the next one. A template accepts
 * only what the plain reading would accept; it refuses nothing by itself. */
#define SIGV4_TEMPLATE_TEXT 1024u
#define SIGV4_TEMPLATE_PATH 512u /* longer canonical paths are verified in full */
struct sigv4_template {
    int64_t date_s;
    uint64_t skew_s;
    struct hmac_begun to_sign; /* its beginning, with the day's key: secret, wipe it */
    uint16_t method_len, text_len, rest_len;
    char method[8];
    char rest[64];                  /* of the string to sign, before the hash */
    char text[SIGV4_TEMPLATE_TEXT]; /* of the canonical request, behind its path */
};
/* The request has passed sigv4_verify() with this key, signed in its headers and without a query. False: it cannot
 * be kept; *out is empty. */
bool sigv4_template_make(const struct sigv4_request *req, const struct sigv4_auth *auth,
                         const struct hmac_key *key, struct arena *a,
                         struct sigv4_template *out);
/* True: a request with the same method and header lines, except for its signature, and without a query, would pass
 * sigv4_verify() with the same key now. False: call sigv4_verify(). */
bool sigv4_template_verify(const struct sigv4_template *k, struct span path,
                           struct span signature, int64_t now_s);

/* ---- The client's side ---- */

struct sigv4_creds {
    struct span access_key, secret;
    struct span token;  /* empty when none */
    struct span region; /* empty: us-east-1 */
};

#define SIGV4_ADDED_MAX 4
struct sigv4_signed {
    struct field add[SIGV4_ADDED_MAX]; /* x-amz-date, x-amz-content-sha256,
                                          x-amz-security-token, authorization */
    size_t add_count;
    struct span signature; /* the seed of chunk signatures */
    struct span scope;
    char date[17];
};

/* Signs host, range, content-type, content-md5 and x-amz-*; other headers of `req` are
 * left alone. `req` must hold host and must not hold what this adds. `payload` is 64 hex
 * digits, "UNSIGNED-PAYLOAD" or a STREAMING value. ERR_TOO_LARGE: the arena is full. */
enum err sigv4_sign(const struct sigv4_request *req, const struct query *q,
                    const struct sigv4_creds *creds, struct span payload,
                    struct sigv4_cache *cache, int64_t now_s, struct arena *a,
                    struct sigv4_signed *out) MUST_CHECK;

/* The whole query of a presigned URL: q's parameters and the six of SigV4. All headers in
 * `req` are signed and must be sent with it; usually that is only host. */
enum err sigv4_presign(const struct sigv4_request *req, const struct query *q,
                       const struct sigv4_creds *creds, uint64_t expires_s,
                       struct sigv4_cache *cache, int64_t now_s, struct arena *a,
                       struct span *query_out) MUST_CHECK;

/* The lower-case hex HMAC over a string to sign: chunks, trailers, POST policies. */
void sigv4_hex(const struct hmac_key *key, struct span string_to_sign,
               char out[SHA256_HEX + 1]);
