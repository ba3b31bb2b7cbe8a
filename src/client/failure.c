/* failure: what an error answer of an S3 server means to its caller. */
#include "client/failure.h"

#include <string.h>

#include "base/mem.h"

static const struct {
    const char *code;
    enum err err;
} failures[] = {
    {"NoSuchKey", ERR_NOT_FOUND},
    {"NoSuchBucket", ERR_NO_BUCKET},
    {"NoSuchUpload", ERR_NO_UPLOAD},
    {"AccessDenied", ERR_DENIED},
    {"QuotaExceeded", ERR_QUOTA},
    {"BucketNotEmpty", ERR_NOT_EMPTY},
    {"BucketAlreadyExists", ERR_EXISTS},
    {"BucketAlreadyOwnedByYou", ERR_EXISTS},
    {"PreconditionFailed", ERR_PRECONDITION},
    {"SlowDown", ERR_BUSY},
    {"BadDigest", ERR_BAD_DIGEST},
    {"InvalidRange", ERR_RANGE},
    {"EntityTooLarge", ERR_TOO_LARGE},
    {"NotImplemented", ERR_NOT_IMPLEMENTED},
};

enum err
failure_code(int status, const char *code)
{
    for (size_t i = 0; i < ARRAY_LEN(failures); i++)
        if (strcmp(failures[i].code, code) == 0)
            return failures[i].err;
    switch (status) {
    case 304:
        return ERR_NOT_MODIFIED;
    case 401:
    case 403:
        return ERR_DENIED;
    case 404:
        return ERR_NOT_FOUND;
    case 408:
        return ERR_TIMEOUT;
    case 409:
        return ERR_EXISTS;
    case 412:
        return ERR_PRECONDITION;
    case 413:
        return ERR_TOO_LARGE;
    case 416:
        return ERR_RANGE;
    case 429:
    case 503:
        return ERR_BUSY;
    case 501:
        return ERR_NOT_IMPLEMENTED;
    case 507:
        return ERR_NO_SPACE;
    default:
        /* Redirects are not followed: credentials are for the given host only. */
        return status >= 500 || status < 400 ? ERR_BACKEND : ERR_BAD_REQUEST;
    }
}

bool
failure_may_pass(int status, const char *code)
{
    return status >= 500
               ? status != 501
               : status == 429 || status == 408 || strcmp(code, "RequestTimeout") == 0 ||
                     strcmp(code, "SlowDown") == 0 || strcmp(code, "InternalError") == 0;
}
