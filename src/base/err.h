/* err: what can go wrong, in one table, and the sentence that travels with it.
 *
 * A code says what the outside may do about it; the sentence says what came and what was wanted. What S3
 * calls a code stands in api/s3/errors.c. Any thread.
 */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define MUST_CHECK   __attribute__((warn_unused_result))
#define PRINTF(f, a) __attribute__((format(printf, f, a)))

/* X(code, HTTP status, may the client retry unchanged) */
#define ERR_TABLE(X)                                                                     \
    X(OK, 200, false)                                                                    \
    X(BAD_REQUEST, 400, false)                                                           \
    X(DENIED, 403, false)                                                                \
    X(QUOTA, 403, false)                                                                 \
    X(NOT_FOUND, 404, false)                                                             \
    X(NO_BUCKET, 404, false)                                                             \
    X(NO_UPLOAD, 404, false)                                                             \
    X(NOT_ALLOWED, 405, false)                                                           \
    X(TIMEOUT, 408, true)                                                                \
    X(EXISTS, 409, false)                                                                \
    X(NOT_EMPTY, 409, false)                                                             \
    X(PRECONDITION, 412, false)                                                          \
    X(NOT_MODIFIED, 304, false)                                                          \
    X(TOO_LARGE, 413, false)                                                             \
    X(RANGE, 416, false)                                                                 \
    X(BAD_DIGEST, 400, false)                                                            \
    X(INCOMPLETE, 400, false)                                                            \
    X(IO, 500, true)                                                                     \
    X(CORRUPT, 500, false)                                                               \
    X(INTERNAL, 500, true)                                                               \
    X(NOT_IMPLEMENTED, 501, false)                                                       \
    X(BACKEND, 502, true)                                                                \
    X(BUSY, 503, true)                                                                   \
    X(CANCELLED, 503, true)                                                              \
    X(CLOSED, 503, true)                                                                 \
    X(UNAVAILABLE, 503, true)                                                            \
    X(NO_SPACE, 507, true)

enum err {
#define X(code, status, retry) ERR_##code,
    ERR_TABLE(X)
#undef X
        ERR_COUNT_
};

/* The sentence: lower case, quotes the value, names the limit. Zero it before use. */
struct errbuf {
    char text[384];
};

/* Writes the sentence and returns `code`. eb may be NULL. */
enum err err_set(struct errbuf *eb, enum err code, const char *fmt, ...) PRINTF(3, 4);
/* The same with ": " and what `error` (an errno, positive) means behind it. */
enum err err_errno(struct errbuf *eb, enum err code, int error, const char *fmt, ...)
    PRINTF(4, 5);
/* Puts context in front: "context: what stood there". */
void err_prefix(struct errbuf *eb, const char *fmt, ...) PRINTF(2, 3);
/* Nothing is said: of a try that is made again or no longer matters. Also in place of zeroing, where the cache lines
 * of the whole would be missed. eb may be NULL. */
static inline void
err_forget(struct errbuf *eb)
{
    if (eb != NULL)
        eb->text[0] = '\0';
}

const char *err_name(enum err code); /* "BAD_REQUEST" */
int err_http_status(enum err code);
bool err_may_retry(enum err code);
