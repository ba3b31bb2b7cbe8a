/* http: heads and chunks of HTTP/1.1 (RFC 9112), strictly; bytes <-> structs, no I/O, no
 * clock. Any thread.
 *
 * There is one way to read a message. What two parsers could read in two ways is refused:
 * bare CR or LF, white space before a colon, folded lines, control bytes, Content-Length
 * beside Transfer-Encoding or twice, any transfer coding but "chunked", no Host or two.
 * Raw bytes are kept: the target as it came (signatures are over it), headers in their
 * order, values trimmed of blanks at both ends and otherwise untouched.
 *
 * Memory: a head borrows the buffer it was parsed from; nothing is copied, nothing is
 * changed in it.
 */
#pragma once
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "wire/field.h"

#define HTTP_REQUEST_LINE_MAX 8192u  /* status lines too */
#define HTTP_HEAD_MAX         65536u /* all header lines with their ends */
#define HTTP_HEADERS_MAX      100u
#define HTTP_CHUNK_LINE_MAX   256u
#define HTTP_TRAILERS_MAX     8192u

/* Headers found without a search. X(id, name in lower case), sorted by length of the
 * name. */
#define HTTP_FIELD_TABLE(X)                                                              \
    X(TE, "te")                                                                          \
    X(AGE, "age")                                                                        \
    X(DATE, "date")                                                                      \
    X(ETAG, "etag")                                                                      \
    X(HOST, "host")                                                                      \
    X(RANGE, "range")                                                                    \
    X(ACCEPT, "accept")                                                                  \
    X(COOKIE, "cookie")                                                                  \
    X(EXPECT, "expect")                                                                  \
    X(ORIGIN, "origin")                                                                  \
    X(SERVER, "server")                                                                  \
    X(EXPIRES, "expires")                                                                \
    X(TRAILER, "trailer")                                                                \
    X(UPGRADE, "upgrade")                                                                \
    X(IF_MATCH, "if-match")                                                              \
    X(IF_RANGE, "if-range")                                                              \
    X(LOCATION, "location")                                                              \
    X(AMZ_ACL, "x-amz-acl")                                                              \
    X(CONNECTION, "connection")                                                          \
    X(KEEP_ALIVE, "keep-alive")                                                          \
    X(AMZ_DATE, "x-amz-date")                                                            \
    X(USER_AGENT, "user-agent")                                                          \
    X(AMZ_ID_2, "x-amz-id-2")                                                            \
    X(CONTENT_MD5, "content-md5")                                                        \
    X(RETRY_AFTER, "retry-after")                                                        \
    X(CONTENT_TYPE, "content-type")                                                      \
    X(ACCEPT_RANGES, "accept-ranges")                                                    \
    X(AUTHORIZATION, "authorization")                                                    \
    X(CACHE_CONTROL, "cache-control")                                                    \
    X(CONTENT_RANGE, "content-range")                                                    \
    X(IF_NONE_MATCH, "if-none-match")                                                    \
    X(LAST_MODIFIED, "last-modified")                                                    \
    X(AMZ_TRAILER, "x-amz-trailer")                                                      \
    X(CONTENT_LENGTH, "content-length")                                                  \
    X(ACCEPT_ENCODING, "accept-encoding")                                                \
    X(AMZ_SDK_REQUEST, "amz-sdk-request")                                                \
    X(CONTENT_ENCODING, "content-encoding")                                              \
    X(CONTENT_LANGUAGE, "content-language")                                              \
    X(AMZ_REQUEST_ID, "x-amz-request-id")                                                \
    X(AMZ_COPY_SOURCE, "x-amz-copy-source")                                              \
    X(IF_MODIFIED_SINCE, "if-modified-since")                                            \
    X(TRANSFER_ENCODING, "transfer-encoding")                                            \
    X(AMZ_STORAGE_CLASS, "x-amz-storage-class")                                          \
    X(CONTENT_DISPOSITION, "content-disposition")                                        \
    X(IF_UNMODIFIED_SINCE, "if-unmodified-since")                                        \
    X(AMZ_SECURITY_TOKEN, "x-amz-security-token")                                        \
    X(AMZ_CONTENT_SHA256, "x-amz-content-sha256")                                        \
    X(AMZ_SDK_INVOCATION_ID, "amz-sdk-invocation-id")                                    \
    X(AMZ_EXPECTED_BUCKET_OWNER, "x-amz-expected-bucket-owner")                          \
    X(AMZ_SDK_CHECKSUM_ALGORITHM, "x-amz-sdk-checksum-algorithm")                        \
    X(AMZ_DECODED_CONTENT_LENGTH, "x-amz-decoded-content-length")

enum http_field {
#define X(id, name) HTTP_##id,
    HTTP_FIELD_TABLE(X)
#undef X
        HTTP_FIELD_COUNT_
};

#define HTTP_METHOD_TABLE(X) X(GET) X(HEAD) X(PUT) X(POST) X(DELETE) X(OPTIONS) X(PATCH)
enum http_method {
#define X(name) HTTP_METHOD_##name,
    HTTP_METHOD_TABLE(X)
#undef X
        HTTP_METHOD_OTHER /* a token that is none of these; CONNECT and TRACE are refused
                             with 405 */
};

/* Where a body ends, beside a length of 0 or more. */
#define HTTP_CHUNKED (-1)
#define HTTP_TO_END  (-2) /* responses only: the body ends with the connection */

enum http_parse {
    HTTP_MORE, /* not whole yet: come again with the same bytes and more */
    HTTP_DONE,
    HTTP_BAD /* `status` and `why` say what: answer so and close */
};

/* One head. About 4 KiB: lives in a connection's buffers, not on a fiber's stack. Begins
 * with http_head_init(). */
struct http_head {
    /* Requests. */
    enum http_method method;
    struct span method_text;
    struct span target; /* raw, whole */
    struct span path; /* raw, up to '?'; of an absolute target what follows the authority,
                         at least "/" */
    struct span query; /* raw, behind '?'; at == NULL without one */
    struct span host;  /* value of Host; empty at HTTP/1.0 without one */
    /* Responses. */
    int code;
    /* Both. */
    unsigned minor;      /* HTTP/1.minor: 0 or 1 (what says 1.2 to 1.9 counts as 1) */
    int64_t body_length; /* 0 or more, HTTP_CHUNKED, HTTP_TO_END */
    bool has_length;     /* a Content-Length stood there */
    bool keep_alive;     /* as version and Connection say */
    bool expect; /* Expect: 100-continue, before a body, be it an empty one (1.1 only) */
    unsigned count;
    struct field headers[HTTP_HEADERS_MAX];
    uint8_t first[HTTP_FIELD_COUNT_]; /* place + 1 of the first of this name; 0: none */
    uint64_t seen;                    /* bit f: field f came */
    uint64_t repeated;                /* bit f: field f came more than once */
    unsigned unknown_count;           /* fields that are not in the table */
    uint64_t
        lines_id; /* set by http_head_cache.h: which known lines stand behind the first; 0: none */

    size_t
        len; /* HTTP_DONE: bytes of the head, with its empty line: the body begins here */
    /* HTTP_BAD. */
    int status;      /* 400, 405, 414, 431, 501, 505 */
    const char *why; /* a sentence without outside bytes */

    /* Where the scan stands, so that a head that comes byte by byte costs each byte once.
     */
    size_t scanned_;
    size_t line_at_;  /* of the line in progress */
    size_t block_at_; /* where header lines begin; 0: the first line is not there yet */
    unsigned blank_;  /* empty lines before a request: one is forgiven */
};
static_assert(HTTP_FIELD_COUNT_ <= 64, "`again` holds a bit a field");

void http_head_init(struct http_head *h);
/* `buf` holds `len` bytes of which earlier calls saw a prefix at the same place; when
 * bytes have moved, start again with http_head_init(). HTTP_BAD comes with the line that
 * shows it, limits included: a buffer of HTTP_HEAD_ROOM bytes never fills up before. */
#define HTTP_HEAD_ROOM (HTTP_REQUEST_LINE_MAX + HTTP_HEAD_MAX + 16u)
enum http_parse http_request_parse(struct http_head *h, const char *buf, size_t len);
/* `method`: of the request answered, for the length of the body (HEAD has none). 1xx
 * heads are HTTP_DONE with body_length 0: the caller skips them. */
enum http_parse http_response_parse(struct http_head *h, const char *buf, size_t len,
                                    enum http_method method);

/* The first value; at == NULL: not there. */
static inline struct span
http_get(const struct http_head *h, enum http_field f)
{
    return h->first[f] != 0 ? h->headers[h->first[f] - 1].value : (struct span){NULL, 0};
}
static inline bool
http_has(const struct http_head *h, enum http_field f)
{
    return h->first[f] != 0;
}
static inline bool
http_is_repeated(const struct http_head *h, enum http_field f)
{
    return (h->repeated >> f & 1) != 0;
}
/* All of them in their order; fields_get() finds those that are not in the table. */
static inline struct fields
http_fields(const struct http_head *h)
{
    return (struct fields){h->headers, h->count};
}
/* Is `token` (lower case) an element of the comma-separated lists of all headers of this
 * name? */
bool http_lists(const struct http_head *h, enum http_field f, const char *token);
enum http_field http_field_of(struct span name); /* HTTP_FIELD_COUNT_: not in the table */
enum http_method http_method_of(struct span token);
const char *http_reason(int status); /* "Not Found"; "" when unknown */
bool http_is_token(struct span s);   /* RFC 9110 token, at least one byte */

/* ---- chunked bodies, read ---- */
struct http_chunked {
    uint64_t left; /* of this chunk */
    unsigned state;
    unsigned line; /* bytes of this line so far */
    unsigned digits;
    unsigned trailers; /* bytes of all trailers */
    const char *why;   /* HTTP_CHUNK_BAD */
};
enum http_chunk {
    HTTP_CHUNK_MORE, /* all of `in` used */
    HTTP_CHUNK_DATA, /* *data is a piece of the body, inside `in` */
    HTTP_CHUNK_END,  /* the body and its trailers are over; trailers are checked and
                        dropped */
    HTTP_CHUNK_BAD
};
void http_chunked_init(struct http_chunked *c);
/* One step: *used bytes of `in` are gone (data included). Call again for the rest. */
enum http_chunk http_chunked_next(struct http_chunked *c, const char *in, size_t len,
                                  size_t *used, struct span *data);
/* The most of `in` that surely is body of the current chunk: what may be received
 * straight to its place. */
uint64_t http_chunked_left(const struct http_chunked *c);

/* ---- writing ---- */
/* Lines of a head in a fixed buffer. What does not fit, or may not stand there (CR, LF,
 * NUL in a value, a name that is no token), sets `bad` and is left out; look at it once
 * at the end. */
struct http_lines {
    char *at;
    size_t len, room;
    bool bad;
};
void http_put_request(struct http_lines *l, const char *method, struct span target);
void http_put_status(struct http_lines *l, int status);
void http_put(struct http_lines *l, const char *name,
              struct span value); /* blanks at the ends go */
/* The same with a literal "name: "; the name is not checked. */
void http_put_own(struct http_lines *l, struct span name, struct span value);
void http_put_u64(struct http_lines *l, const char *name, uint64_t value);
void http_put_length(struct http_lines *l, uint64_t value); /* Content-Length */
void http_put_lines(struct http_lines *l,
                    struct span ready);  /* the caller's own, unchecked */
void http_put_end(struct http_lines *l); /* the empty line */
/* "1f4\r\n" for a chunk of `size` bytes; returns its length. The chunk's end is "\r\n",
 * the last "0\r\n\r\n". */
#define HTTP_CHUNK_HEAD_ROOM 20
size_t http_chunk_head(char out[HTTP_CHUNK_HEAD_ROOM], uint64_t size);
