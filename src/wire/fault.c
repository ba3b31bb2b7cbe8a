#include "wire/fault.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"

static const struct {
    const char *name;
    int status;
    const char *message;
} codes[S3_CODE_COUNT_] = {[S3_OK] = {"", 200, ""},
#define X(code, status, message) [S3_##code] = {#code, status, message},
                           S3_CODE_TABLE(X)
#undef X
};

const char *
s3_code_name(enum s3_code code)
{
    assert(code < S3_CODE_COUNT_);
    return codes[code].name;
}

int
s3_code_status(enum s3_code code)
{
    assert(code < S3_CODE_COUNT_);
    return codes[code].status;
}

const char *
s3_code_message(enum s3_code code)
{
    assert(code < S3_CODE_COUNT_);
    return codes[code].message;
}

/* Codes with a name of their own in base; the rest are mapped by status. */
static const struct {
    enum s3_code code;
    enum err err;
} named[] = {
    {S3_BadDigest, ERR_BAD_DIGEST},      {S3_XAmzContentSHA256Mismatch, ERR_BAD_DIGEST},
    {S3_IncompleteBody, ERR_INCOMPLETE}, {S3_NoSuchBucket, ERR_NO_BUCKET},
    {S3_NoSuchUpload, ERR_NO_UPLOAD},    {S3_BucketNotEmpty, ERR_NOT_EMPTY},
};

static const struct {
    int status;
    enum err err;
} by_status[] = {
    {200, ERR_OK},           {304, ERR_NOT_MODIFIED},
    {403, ERR_DENIED},       {404, ERR_NOT_FOUND},
    {405, ERR_NOT_ALLOWED},  {409, ERR_EXISTS},
    {412, ERR_PRECONDITION}, {416, ERR_RANGE},
    {500, ERR_INTERNAL},     {501, ERR_NOT_IMPLEMENTED},
    {503, ERR_BUSY},         {507, ERR_NO_SPACE},
};

enum err
s3_code_err(enum s3_code code)
{
    assert(code < S3_CODE_COUNT_);
    for (size_t i = 0; i < ARRAY_LEN(named); i++) {
        if (named[i].code == code)
            return named[i].err;
    }
    for (size_t i = 0; i < ARRAY_LEN(by_status); i++) {
        if (by_status[i].status == codes[code].status)
            return by_status[i].err;
    }
    return ERR_BAD_REQUEST;
}

static void
fault_set_text(struct fault *f, enum s3_code code, const char *fmt, va_list ap)
{
    f->code = code;
    f->extra_count = 0;
    if (fmt == NULL)
        snprintf(f->message, sizeof f->message, "%s", s3_code_message(code));
    else
        vsnprintf(f->message, sizeof f->message, fmt, ap);
}

enum err
fault_set(struct fault *f, enum s3_code code, const char *fmt, ...)
{
    va_list ap;

    if (f != NULL) {
        va_start(ap, fmt);
        fault_set_text(f, code, fmt, ap);
        va_end(ap);
    }
    return s3_code_err(code);
}

void
fault_add(struct fault *f, const char *name, struct span value)
{
    if (f == NULL)
        return;
    assert(f->extra_count < FAULT_EXTRA_MAX);
    f->extra[f->extra_count].name = name;
    f->extra[f->extra_count].value = value;
    f->extra_count++;
}

enum err
fault_argument(struct fault *f, const char *name, struct span value, const char *fmt, ...)
{
    va_list ap;

    if (f != NULL) {
        va_start(ap, fmt);
        fault_set_text(f, S3_InvalidArgument, fmt, ap);
        va_end(ap);
        fault_add(f, "ArgumentName", span_of(name));
        fault_add(f, "ArgumentValue", value);
    }
    return ERR_BAD_REQUEST;
}
