/* http_table: the names of the protocol and how they are found. */
#include "wire/http.h"

#include "base/mem.h"

static const struct {
    const char *name;
    uint8_t len;
} fields[HTTP_FIELD_COUNT_] = {
#define X(id, text) {text, sizeof(text) - 1},
    HTTP_FIELD_TABLE(X)
#undef X
};

/* The first field of each length; the table is sorted by it, so its neighbours follow. A
 * test looks up every name of the table, which is what keeps this list true. */
#define LENGTH_MAX 28
static const uint8_t first_of_length[LENGTH_MAX + 1] = {
    [2] = HTTP_TE,
    [3] = HTTP_AGE,
    [4] = HTTP_DATE,
    [5] = HTTP_RANGE,
    [6] = HTTP_ACCEPT,
    [7] = HTTP_EXPIRES,
    [8] = HTTP_IF_MATCH,
    [9] = HTTP_AMZ_ACL,
    [10] = HTTP_CONNECTION,
    [11] = HTTP_CONTENT_MD5,
    [12] = HTTP_CONTENT_TYPE,
    [13] = HTTP_ACCEPT_RANGES,
    [14] = HTTP_CONTENT_LENGTH,
    [15] = HTTP_ACCEPT_ENCODING,
    [16] = HTTP_CONTENT_ENCODING,
    [17] = HTTP_AMZ_COPY_SOURCE,
    [18] = HTTP_FIELD_COUNT_,
    [19] = HTTP_AMZ_STORAGE_CLASS,
    [20] = HTTP_AMZ_SECURITY_TOKEN,
    [21] = HTTP_AMZ_SDK_INVOCATION_ID,
    [22] = HTTP_FIELD_COUNT_,
    [23] = HTTP_FIELD_COUNT_,
    [24] = HTTP_FIELD_COUNT_,
    [25] = HTTP_FIELD_COUNT_,
    [26] = HTTP_FIELD_COUNT_,
    [27] = HTTP_AMZ_EXPECTED_BUCKET_OWNER,
    [28] = HTTP_AMZ_SDK_CHECKSUM_ALGORITHM,
};

enum http_field
http_field_of(struct span name)
{
    if (name.len < 2 || name.len > LENGTH_MAX)
        return HTTP_FIELD_COUNT_;
    for (unsigned f = first_of_length[name.len];
         f < HTTP_FIELD_COUNT_ && fields[f].len == name.len; f++) {
        /* |0x20 makes letters lower and leaves '-' alone: a cheap first look. */
        if ((name.at[0] | 0x20) == fields[f].name[0] &&
            strncasecmp(name.at, fields[f].name, name.len) == 0)
            return (enum http_field)f;
    }
    return HTTP_FIELD_COUNT_;
}

static const char *const methods[] = {
#define X(name) #name,
    HTTP_METHOD_TABLE(X)
#undef X
};

/* Methods are case-sensitive: "get" is another one. */
enum http_method
http_method_of(struct span token)
{
    for (unsigned m = 0; m < ARRAY_LEN(methods); m++) {
        if (span_is(token, methods[m]))
            return (enum http_method)m;
    }
    return HTTP_METHOD_OTHER;
}

const char *
http_reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {
        {200, "OK"},
        {206, "Partial Content"},
        {304, "Not Modified"},
        {404, "Not Found"},
        {100, "Continue"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };

    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        if (reasons[i].status == status)
            return reasons[i].text;
    }
    return "";
}
