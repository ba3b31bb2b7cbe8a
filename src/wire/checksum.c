#include "wire/checksum.h"

#include <assert.h>
#include <stdio.h>

#include "base/mem.h"

static const struct {
    const char *name, *header, *element;
    size_t len;
    bool is_crc;
    enum digest_kind digest;
} kinds[CHECKSUM_KIND_COUNT_] = {
    [CHECKSUM_NONE] = {"", "", "", 0, false, 0},
    [CHECKSUM_CRC32] = {"CRC32", "x-amz-checksum-crc32", "ChecksumCRC32", 4, true, 0},
    [CHECKSUM_CRC32C] = {"CRC32C", "x-amz-checksum-crc32c", "ChecksumCRC32C", 4, true, 0},
    [CHECKSUM_CRC64NVME] = {"CRC64NVME", "x-amz-checksum-crc64nvme", "ChecksumCRC64NVME",
                            8, true, 0},
    [CHECKSUM_SHA1] = {"SHA1", "x-amz-checksum-sha1", "ChecksumSHA1", 20, false,
                       DIGEST_SHA1},
    [CHECKSUM_SHA256] = {"SHA256", "x-amz-checksum-sha256", "ChecksumSHA256", 32, false,
                         DIGEST_SHA256},
    [CHECKSUM_XXH64] = {"XXHASH64", "x-amz-checksum-xxhash64", "ChecksumXXHASH64", 8,
                        false, 0},
    [CHECKSUM_SHA512] = {"SHA512", "x-amz-checksum-sha512", "ChecksumSHA512", 64, false,
                         DIGEST_SHA512},
};

static bool
has_digest(enum checksum_kind kind)
{
    return kind != CHECKSUM_NONE && kind != CHECKSUM_XXH64 && !kinds[kind].is_crc;
}

/* Known since 2026 and not computed here. */
static const char *const not_implemented[] = {"sha512", "md5", "xxhash64", "xxhash3",
                                              "xxhash128"};

#define HEADER_PREFIX "x-amz-checksum-"

const char *
checksum_name(enum checksum_kind kind)
{
    return kinds[kind].name;
}

const char *
checksum_header(enum checksum_kind kind)
{
    return kinds[kind].header;
}

const char *
checksum_element(enum checksum_kind kind)
{
    return kinds[kind].element;
}

size_t
checksum_len(enum checksum_kind kind)
{
    return kinds[kind].len;
}

const char *
checksum_type_name(enum checksum_type type)
{
    static const char *const names[] = {[CHECKSUM_TYPE_NONE] = "",
                                        [CHECKSUM_COMPOSITE] = "COMPOSITE",
                                        [CHECKSUM_FULL_OBJECT] = "FULL_OBJECT"};

    return names[type];
}

enum checksum_kind
checksum_of_header(struct span name)
{
    for (enum checksum_kind k = CHECKSUM_NONE + 1; k < CHECKSUM_S3_KINDS_; k++) {
        if (span_case_is(name, kinds[k].header))
            return k;
    }
    return CHECKSUM_NONE;
}

enum checksum_kind
checksum_of_element(struct span name)
{
    for (enum checksum_kind k = CHECKSUM_NONE + 1; k < CHECKSUM_S3_KINDS_; k++) {
        if (span_is(name, kinds[k].element))
            return k;
    }
    return CHECKSUM_NONE;
}

static bool
is_not_implemented(struct span lower_name)
{
    for (size_t i = 0; i < ARRAY_LEN(not_implemented); i++) {
        if (span_case_is(lower_name, not_implemented[i]))
            return true;
    }
    return false;
}

static enum err
refuse_not_implemented(struct span name, struct fault *f)
{
    fault_set(f, S3_NotImplemented, "The checksum algorithm %.*s is not implemented",
              (int)MIN(name.len, 40), name.at);
    fault_add(f, "Header", SPAN("x-amz-checksum-algorithm"));
    return ERR_NOT_IMPLEMENTED;
}

enum err
checksum_of_name(struct span name, enum checksum_kind *out, struct fault *f)
{
    for (enum checksum_kind k = CHECKSUM_NONE + 1; k < CHECKSUM_S3_KINDS_; k++) {
        if (span_case_is(name, kinds[k].name)) {
            *out = k;
            return ERR_OK;
        }
    }
    *out = CHECKSUM_NONE;
    if (is_not_implemented(name))
        return refuse_not_implemented(name, f);
    return fault_set(f, S3_InvalidRequest,
                     "Checksum algorithm provided is unsupported. Please try again with "
                     "any of the valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]");
}

/* ---- values ---- */

size_t
checksum_text(const struct checksum_value *v, char out[CHECKSUM_TEXT_MAX])
{
    return base64_encode(v->bytes, kinds[v->kind].len, out);
}

enum err
checksum_parse(enum checksum_kind kind, struct span text, struct checksum_value *out,
               struct fault *f)
{
    size_t want = kinds[kind].len;
    int len;

    *out = (struct checksum_value){.kind = kind};
    len = text.len == BASE64_LEN(want)
              ? base64_decode(text.at, text.len, out->bytes, sizeof out->bytes)
              : -1;
    if (kind == CHECKSUM_NONE || len < 0 || (size_t)len != want)
        return fault_set(f, S3_InvalidRequest, "Value for %s header is invalid.",
                         kinds[kind].header);
    return ERR_OK;
}

bool
checksum_eq(const struct checksum_value *a, const struct checksum_value *b)
{
    return a->kind == b->kind && memcmp(a->bytes, b->bytes, kinds[a->kind].len) == 0;
}

enum err
checksum_check(const struct checksum_value *want, const struct checksum_value *got,
               struct fault *f)
{
    if (checksum_eq(want, got))
        return ERR_OK;
    return fault_set(f, S3_BadDigest,
                     "The %s you specified did not match the calculated checksum.",
                     kinds[want->kind].name);
}

/* ---- running ---- */

void
checksum_init(struct checksum *c, enum checksum_kind kind)
{
    *c = (struct checksum){.kind = kind};
    if (kind == CHECKSUM_XXH64)
        hash_xxh64_init(&c->xxh64);
    else if (has_digest(kind))
        digest_init(&c->digest, kinds[kind].digest);
}

void
checksum_add(struct checksum *c, const void *data, size_t len)
{
    switch (c->kind) {
    case CHECKSUM_CRC32:
        c->crc = hash_crc32((uint32_t)c->crc, data, len);
        break;
    case CHECKSUM_CRC32C:
        c->crc = hash_crc32c((uint32_t)c->crc, data, len);
        break;
    case CHECKSUM_CRC64NVME:
        c->crc = hash_crc64nvme(c->crc, data, len);
        break;
    case CHECKSUM_SHA1:
    case CHECKSUM_SHA256:
    case CHECKSUM_SHA512:
        digest_add(&c->digest, data, len);
        break;
    case CHECKSUM_XXH64:
        hash_xxh64_add(&c->xxh64, data, len);
        break;
    case CHECKSUM_NONE:
    case CHECKSUM_KIND_COUNT_:
        break;
    }
}

static void
put_crc(struct checksum_value *v, uint64_t crc)
{
    size_t len = kinds[v->kind].len;

    for (size_t i = 0; i < len; i++)
        v->bytes[i] = (unsigned char)(crc >> (8 * (len - 1 - i)));
}

void
checksum_end(struct checksum *c, struct checksum_value *out)
{
    *out = (struct checksum_value){.kind = c->kind};
    if (kinds[c->kind].is_crc)
        put_crc(out, c->crc);
    else if (c->kind == CHECKSUM_XXH64)
        put_crc(out, hash_xxh64_end(&c->xxh64));
    else if (c->kind != CHECKSUM_NONE)
        digest_end(&c->digest, out->bytes);
    c->kind = CHECKSUM_NONE;
}

void
checksum_fini(struct checksum *c)
{
    if (has_digest(c->kind))
        digest_fini(&c->digest);
    c->kind = CHECKSUM_NONE;
}

/* ---- what the headers of an upload say ---- */

static enum err
one_checksum_only(struct fault *f)
{
    return fault_set(f, S3_InvalidRequest,
                     "Expecting a single x-amz-checksum- header. Multiple checksum Types "
                     "are not allowed.");
}

/* x-amz-checksum-mode, -type and -algorithm are no values. */
static bool
is_value_header(struct span name, enum checksum_kind *kind, struct span *algorithm)
{
    *kind = CHECKSUM_NONE;
    if (name.len <= sizeof HEADER_PREFIX - 1 ||
        strncasecmp(name.at, HEADER_PREFIX, sizeof HEADER_PREFIX - 1) != 0)
        return false;
    *algorithm = span_from(name, sizeof HEADER_PREFIX - 1);
    *kind = checksum_of_header(name);
    return *kind != CHECKSUM_NONE || is_not_implemented(*algorithm);
}

static enum err
take_value_headers(struct fields headers, struct checksum_request *out, struct fault *f)
{
    for (size_t i = 0; i < headers.count; i++) {
        const struct field *h = &headers.at[i];
        enum checksum_kind kind;
        struct span algorithm;
        enum err rc;

        if (!is_value_header(h->name, &kind, &algorithm))
            continue;
        if (kind == CHECKSUM_NONE)
            return refuse_not_implemented(algorithm, f);
        if (out->given)
            return one_checksum_only(f);
        rc = checksum_parse(kind, h->value, &out->want, f);
        if (rc != ERR_OK)
            return rc;
        out->kind = kind;
        out->given = true;
    }
    return ERR_OK;
}

static enum err
take_trailer_header(struct fields headers, struct checksum_request *out, struct fault *f)
{
    struct span value = span_trim(fields_get(headers, "x-amz-trailer"));
    enum checksum_kind kind;
    struct span algorithm;

    if (value.at == NULL || value.len == 0)
        return ERR_OK;
    if (!is_value_header(value, &kind, &algorithm))
        return fault_set(f, S3_InvalidRequest,
                         "The value specified in the x-amz-trailer header is not "
                         "supported");
    if (kind == CHECKSUM_NONE)
        return refuse_not_implemented(algorithm, f);
    if (out->given)
        return one_checksum_only(f);
    out->kind = kind;
    out->in_trailer = true;
    return ERR_OK;
}

/* The announcement alone contains nothing to check. Where both are there and differ, the value wins. */
static enum err
check_announced(struct fields headers, const struct checksum_request *r, struct fault *f)
{
    struct span name = fields_get(headers, "x-amz-sdk-checksum-algorithm");
    enum checksum_kind kind;
    enum err rc;

    if (name.at == NULL || r->kind != CHECKSUM_NONE)
        return ERR_OK;
    rc = checksum_of_name(name, &kind, f);
    if (rc != ERR_OK)
        return rc;
    return fault_set(f, S3_InvalidRequest,
                     "x-amz-sdk-checksum-algorithm specified, but no corresponding "
                     "x-amz-checksum-* or x-amz-trailer headers were found.");
}

static enum err
take_md5(struct fields headers, struct checksum_request *out, struct fault *f)
{
    struct span text = fields_get(headers, "content-md5");

    if (text.at == NULL)
        return ERR_OK;
    if (text.len != BASE64_LEN(16) ||
        base64_decode(text.at, text.len, out->md5, sizeof out->md5) != 16) {
        fault_set(f, S3_InvalidDigest, NULL);
        fault_add(f, "Content-MD5", text);
        return ERR_BAD_REQUEST;
    }
    out->has_md5 = true;
    return ERR_OK;
}

enum err
checksum_request_parse(struct fields headers, struct checksum_request *out,
                       struct fault *f)
{
    enum err rc;

    *out = (struct checksum_request){0};
    rc = take_value_headers(headers, out, f);
    if (rc == ERR_OK)
        rc = take_trailer_header(headers, out, f);
    if (rc == ERR_OK)
        rc = check_announced(headers, out, f);
    return rc == ERR_OK ? take_md5(headers, out, f) : rc;
}

enum err
checksum_request_demand(const struct checksum_request *r, struct fault *f)
{
    if (r->has_md5 || r->kind != CHECKSUM_NONE)
        return ERR_OK;
    return fault_set(f, S3_InvalidRequest,
                     "Missing required header for this request: Content-MD5 OR "
                     "x-amz-checksum-*");
}

enum err
checksum_request_trailer(struct checksum_request *r, struct fields trailers,
                         struct fault *f)
{
    struct span value;
    enum err rc;

    if (!r->in_trailer)
        return ERR_OK;
    value = fields_get(trailers, kinds[r->kind].header);
    if (value.at == NULL)
        return fault_set(f, S3_MalformedTrailerError, NULL);
    rc = checksum_parse(r->kind, value, &r->want, f);
    r->given = rc == ERR_OK;
    return rc;
}

enum err
content_md5_check(const unsigned char want[16], const unsigned char got[16],
                  struct arena *a, struct fault *f)
{
    char *text;

    if (memcmp(want, got, 16) == 0)
        return ERR_OK;
    fault_set(f, S3_BadDigest,
              "The Content-MD5 you specified did not match what we received.");
    text = arena_try(a, 66);
    if (text != NULL) {
        base64_encode(want, 16, text);
        base64_encode(got, 16, text + 33);
        fault_add(f, "ExpectedDigest", span_of(text));
        fault_add(f, "CalculatedDigest", span_of(text + 33));
    }
    return ERR_BAD_DIGEST;
}
