/* err: what can go wrong, in one table, and the sentence that travels with it.
 *
 * A code names the kind of failure; the sentence says what came and what was wanted. S3's code and HTTP status for it
 * stand in wire/fault.h. Any thread.
 */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define MUST_CHECK   __attribute__((warn_unused_result))
#define PRINTF(f, a) __attribute__((format(printf, f, a)))

/* X(code); clang-format would join the rows. */
/* clang-format off */
#define ERR_TABLE(X) \
    X(OK) \
    X(BAD_REQUEST) \
    X(DENIED) \
    X(QUOTA) \
    X(NOT_FOUND) \
    X(NO_BUCKET) \
    X(NO_UPLOAD) \
    X(NOT_ALLOWED) \
    X(TIMEOUT) \
    X(EXISTS) \
    X(NOT_EMPTY) \
    X(PRECONDITION) \
    X(NOT_MODIFIED) \
    X(TOO_LARGE) \
    X(RANGE) \
    X(BAD_DIGEST) \
    X(INCOMPLETE) \
    X(IO) \
    X(CORRUPT) \
    X(INTERNAL) \
    X(NOT_IMPLEMENTED) \
    X(BACKEND) \
    X(BUSY) \
    X(CANCELLED) \
    X(CLOSED) \
    X(UNAVAILABLE) \
    X(NO_SPACE)
/* clang-format on */

enum err {
#define X(code) ERR_##code,
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
