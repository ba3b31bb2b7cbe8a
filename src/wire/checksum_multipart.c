/* Checksums of multipart uploads: which type goes with which algorithm, and how the object's value
 * follows from its parts'. Declared in checksum.h. */
#include <assert.h>
#include <stdio.h>

#include "base/mem.h"
#include "wire/checksum.h"

static const struct {
    enum checksum_type usual;
    bool composite, full_object;
    const char *lower;
} rules[CHECKSUM_KIND_COUNT_] = {
    [CHECKSUM_NONE] = {CHECKSUM_FULL_OBJECT, false, false, "null"},
    [CHECKSUM_CRC32] = {CHECKSUM_COMPOSITE, true, true, "crc32"},
    [CHECKSUM_CRC32C] = {CHECKSUM_COMPOSITE, true, true, "crc32c"},
    [CHECKSUM_CRC64NVME] = {CHECKSUM_FULL_OBJECT, false, true, "crc64nvme"},
    [CHECKSUM_SHA1] = {CHECKSUM_COMPOSITE, true, false, "sha1"},
    [CHECKSUM_SHA256] = {CHECKSUM_COMPOSITE, true, false, "sha256"},
};

static enum err
type_of_name(struct span type, enum checksum_type *out, struct fault *f)
{
    if (span_case_is(type, "COMPOSITE"))
        *out = CHECKSUM_COMPOSITE;
    else if (span_case_is(type, "FULL_OBJECT"))
        *out = CHECKSUM_FULL_OBJECT;
    else
        return fault_set(f, S3_InvalidRequest,
                         "Value for x-amz-checksum-type header is invalid.");
    return ERR_OK;
}

enum err
checksum_multipart(struct span algorithm, struct span type, enum checksum_kind *kind,
                   enum checksum_type *out_type, struct fault *f)
{
    bool allowed;
    enum err rc;

    *kind = CHECKSUM_CRC64NVME;
    *out_type = CHECKSUM_FULL_OBJECT;
    if (algorithm.len == 0 && type.len == 0)
        return ERR_OK;
    if (algorithm.len == 0)
        return fault_set(f, S3_InvalidRequest,
                         "The x-amz-checksum-type header can only be used with the "
                         "x-amz-checksum-algorithm header.");
    rc = checksum_of_name(algorithm, kind, f);
    if (rc != ERR_OK)
        return rc;
    *out_type = rules[*kind].usual;
    if (type.len == 0)
        return ERR_OK;
    rc = type_of_name(type, out_type, f);
    if (rc != ERR_OK)
        return rc;
    allowed = *out_type == CHECKSUM_COMPOSITE ? rules[*kind].composite
                                              : rules[*kind].full_object;
    if (allowed)
        return ERR_OK;
    return fault_set(
        f, S3_InvalidRequest,
        "The %s checksum type cannot be used with the %s checksum algorithm.",
        checksum_type_name(*out_type), rules[*kind].lower);
}

enum err
checksum_part_check(enum checksum_kind upload, enum checksum_type type,
                    enum checksum_kind part, struct fault *f)
{
    /* What is missing of a full object is computed; a composite needs each part's. */
    if (part == upload || (part == CHECKSUM_NONE && type == CHECKSUM_FULL_OBJECT))
        return ERR_OK;
    return fault_set(
        f, S3_InvalidRequest,
        "Checksum Type mismatch occurred, expected checksum Type: %s, actual "
        "checksum Type: %s",
        rules[upload].lower, rules[part].lower);
}

void
checksum_composite_init(struct checksum_composite *c, enum checksum_kind kind)
{
    c->parts = 0;
    checksum_init(&c->running, kind);
}

void
checksum_composite_add(struct checksum_composite *c, const struct checksum_value *part)
{
    assert(part->kind == c->running.kind);
    checksum_add(&c->running, part->bytes, checksum_len(part->kind));
    c->parts++;
}

void
checksum_composite_end(struct checksum_composite *c, struct checksum_value *out)
{
    checksum_end(&c->running, out);
}

size_t
checksum_composite_text(const struct checksum_value *v, unsigned parts,
                        char out[CHECKSUM_TEXT_MAX])
{
    size_t len = checksum_text(v, out);
    int more = snprintf(out + len, CHECKSUM_TEXT_MAX - len, "-%u", parts);

    return len + (size_t)more;
}

static uint64_t
checksum_number(const struct checksum_value *v)
{
    uint64_t crc = 0;

    for (size_t i = 0; i < checksum_len(v->kind); i++)
        crc = crc << 8 | v->bytes[i];
    return crc;
}

bool
checksum_combines(enum checksum_kind kind)
{
    return rules[kind].full_object;
}

bool
checksum_combine(struct checksum_value *a, const struct checksum_value *b, uint64_t len_b)
{
    size_t len = checksum_len(a->kind);
    uint64_t crc;

    assert(a->kind == b->kind);
    if (a->kind == CHECKSUM_CRC32)
        crc = hash_crc32_combine((uint32_t)checksum_number(a),
                                 (uint32_t)checksum_number(b), len_b);
    else if (a->kind == CHECKSUM_CRC32C)
        crc = hash_crc32c_combine((uint32_t)checksum_number(a),
                                  (uint32_t)checksum_number(b), len_b);
    else if (a->kind == CHECKSUM_CRC64NVME)
        crc = hash_crc64nvme_combine(checksum_number(a), checksum_number(b), len_b);
    else
        return false;
    for (size_t i = 0; i < len; i++)
        a->bytes[i] = (unsigned char)(crc >> (8 * (len - 1 - i)));
    return true;
}
