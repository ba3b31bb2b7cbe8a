/* attempts: what may be tried again, and when; and what the caller gets in the end. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "libforebay/internal.h"
#include "wire/s3name.h"

#define WAIT_FIRST_MS 100u
#define WAIT_MOST_MS  30000u

/* Keys of AWS's environment are often a remote's. A server on loopback that does not know them gets unsigned requests, as
 * from the command line. */
static bool
drop_foreign_keys(struct forebay *f, const struct failure *why)
{
    if (!f->foreign_keys || strcmp(why->code, "InvalidAccessKeyId") != 0)
        return false;
    return !atomic_exchange(&f->unsigned_requests, true);
}

static uint64_t
wait_ms(unsigned failed, const struct failure *why)
{
    uint64_t ms = (uint64_t)WAIT_FIRST_MS << MIN(failed - 1, 8u);

    return MIN(MAX(ms, why->retry_after_ms), WAIT_MOST_MS);
}

bool
attempts_go_on(struct forebay *f, struct attempts *t, enum err rc,
               const struct failure *why, struct errbuf *eb)
{
    assert(rc != ERR_OK);
    if (rc == ERR_CANCELLED)
        return false;
    if (drop_foreign_keys(f, why))
        return true;
    if (!why->retry)
        return false;
    t->failed++;
    if (t->failed >= f->attempts) {
        if (t->failed > 1)
            err_prefix(eb, "after %u attempts", t->failed);
        return false;
    }
    return plain_sleep_ms(wait_ms(t->failed, why), f->interruptible) == ERR_OK;
}

static const struct {
    enum err rc;
    enum forebay_code code;
} results[] = {
    {ERR_BAD_REQUEST, FOREBAY_INVALID},
    {ERR_DENIED, FOREBAY_DENIED},
    {ERR_NOT_FOUND, FOREBAY_NOT_FOUND},
    {ERR_NO_BUCKET, FOREBAY_NOT_FOUND},
    {ERR_RANGE, FOREBAY_RANGE},
    {ERR_PRECONDITION, FOREBAY_CHANGED},
    {ERR_TOO_LARGE, FOREBAY_TOO_LARGE},
    {ERR_CORRUPT, FOREBAY_DAMAGED},
    {ERR_INCOMPLETE, FOREBAY_DAMAGED},
    {ERR_BAD_DIGEST, FOREBAY_DAMAGED},
    {ERR_CLOSED, FOREBAY_UNREACHABLE},
    {ERR_TIMEOUT, FOREBAY_UNREACHABLE},
    {ERR_BUSY, FOREBAY_BUSY},
    {ERR_NO_SPACE, FOREBAY_BUSY},
    {ERR_QUOTA, FOREBAY_BUSY},
    {ERR_UNAVAILABLE, FOREBAY_BUSY},
    {ERR_CANCELLED, FOREBAY_INTERRUPTED},
};

void
result_clear(struct forebay_error *e)
{
    *e = (struct forebay_error){.item = FOREBAY_NO_ITEM};
}

int
result_of(enum err rc, const struct failure *why, const struct errbuf *eb,
          struct forebay_error *e)
{
    e->code = FOREBAY_SERVER;
    e->status = why->status;
    for (size_t i = 0; i < ARRAY_LEN(results); i++)
        if (results[i].rc == rc)
            e->code = (int)results[i].code;
    if (rc == ERR_CANCELLED)
        snprintf(e->text, sizeof e->text, "interrupted by a signal");
    else
        snprintf(e->text, sizeof e->text, "%s",
                 eb->text[0] != '\0' ? eb->text : err_name(rc));
    return e->code;
}

int
result_invalid(struct forebay_error *e, const char *fmt, ...)
{
    va_list ap;

    e->code = FOREBAY_INVALID;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    return FOREBAY_INVALID;
}

bool
check_names(const char *bucket, const char *key, struct forebay_error *e, int *rc)
{
    size_t len = key != NULL ? strlen(key) : 1;

    result_clear(e);
    if (bucket == NULL || !s3_bucket_ok(span_of(bucket)))
        *rc = result_invalid(e,
                             "\"%.100s\" cannot be a bucket's name: %d to %d of a-z, "
                             "0-9, \"-\" and \".\", a letter or digit first and last",
                             bucket != NULL ? bucket : "", S3_BUCKET_MIN, S3_BUCKET_MAX);
    else if (len == 0)
        *rc = result_invalid(e, "the key is empty: 1 to %d bytes", S3_KEY_MAX);
    else if (len > S3_KEY_MAX)
        *rc = result_invalid(e, "the key \"%.60s...\" has %zu bytes: at most %d", key,
                             len, S3_KEY_MAX);
    else
        return true;
    return false;
}
