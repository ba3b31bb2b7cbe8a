#include "store/record/log_record_peek.h"

#include <endian.h>
#include <string.h>

#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/store_entry.h"
#include "wire/tar.h"
#include "wire/tar_format.h"

#define SIZE_DIGITS 11u /* of a tar header, octal, a NUL behind them */
#define LEN_DIGITS  5u  /* of a pax record, decimal */
#define RECORD_HEAD 8u
#define FIELD_LEN   0xffffffu

static uint32_t
peek_be32(const char *at)
{
    uint32_t v;

    memcpy(&v, at, sizeof v);
    return be32toh(v);
}

static bool
octal_size(const char *at, size_t *out)
{
    size_t v = 0;

    for (unsigned i = 0; i < SIZE_DIGITS; i++) {
        if (at[i] < '0' || at[i] > '7')
            return false;
        v = v << 3 | (size_t)(at[i] - '0');
    }
    *out = v;
    return at[SIZE_DIGITS] == '\0';
}

static bool
is_ustar(const char *block, char type)
{
    return block[USTAR_TYPE] == type && memcmp(block + USTAR_MAGIC, "ustar", 6) == 0;
}

/* "123 keyword=value\n": all of the first one. False: it does not fit. */
static bool
pax_record(struct span left, struct span *whole, size_t *digits)
{
    size_t len = 0, i = 0;

    for (; i < LEN_DIGITS && i < left.len && left.at[i] >= '0' && left.at[i] <= '9'; i++)
        len = 10 * len + (size_t)(left.at[i] - '0');
    if (i == 0 || i >= left.len || left.at[i] != ' ' || len <= i + 2 || len > left.len)
        return false;
    *whole = (struct span){left.at, len};
    *digits = i;
    return left.at[len - 1] == '\n';
}

/* Our record, which pax carries as an attribute, the head sum behind it. */
static bool
find_value(struct span records, struct span *value)
{
    static const char name[] = TAR_XATTR_KEYWORD "=";
    size_t name_len = sizeof name - 1, digits;
    struct span r;

    while (pax_record(records, &r, &digits)) {
        size_t at = digits + 1;

        if (r.len > at + name_len && memcmp(r.at + at, name, name_len) == 0) {
            *value = (struct span){r.at + at + name_len, r.len - at - name_len - 1};
            return value->len >= RECORD_OVERHEAD + LOG_RECORD_HEAD_SUM;
        }
        records = span_from(records, r.len);
    }
    return false;
}

/* The record of a head that is whole. */
static bool
find_record(struct span window, uint32_t *head_len, struct span *record)
{
    size_t size, end, sum_at;
    struct span value;

    if (window.len < (size_t)3 * TAR_BLOCK || !is_ustar(window.at, 'x') ||
        !octal_size(window.at + USTAR_SIZE, &size) || size > HEAD_MAX)
        return false;
    end = TAR_BLOCK + (size_t)align_up(size, TAR_BLOCK);
    if (end + TAR_BLOCK > window.len || end + TAR_BLOCK > HEAD_MAX ||
        !is_ustar(window.at + end, '0') ||
        !find_value((struct span){window.at + TAR_BLOCK, size}, &value))
        return false;
    *head_len = (uint32_t)(end + TAR_BLOCK);
    *record = (struct span){value.at, value.len - LOG_RECORD_HEAD_SUM};
    sum_at = (size_t)(value.at - window.at) + record->len;
    return log_record_head_sum(window.at, *head_len, sum_at) ==
           peek_be32(window.at + sum_at);
}

static bool
peek_number(struct span value, uint64_t *out)
{
    uint64_t v = 0;

    if (value.len > sizeof v)
        return false;
    for (size_t i = 0; i < value.len; i++)
        v = v << 8 | (unsigned char)value.at[i];
    *out = v;
    return true;
}

static bool
peek_number32(struct span value, uint32_t *out)
{
    uint64_t v;
    bool good = peek_number(value, &v) && v <= UINT32_MAX;

    *out = good ? (uint32_t)v : 0;
    return good;
}

static bool
peek_take(struct log_record_peek *m, unsigned field, struct span value)
{
    uint32_t head_len;

    switch (field) {
    case FIELD_SEGMENT:
        return peek_number32(value, &m->segment);
    case FIELD_GENERATION:
        return peek_number32(value, &m->generation);
    case FIELD_OFFSET:
        return peek_number(value, &m->offset);
    case FIELD_HEADER:
        return peek_number32(value, &head_len) && head_len == m->head_len;
    case FIELD_PAYLOAD:
        return peek_number(value, &m->payload);
    case FIELD_BUCKET:
        return peek_number(value, &m->bucket);
    case FIELD_KEY:
        m->key = value;
        return value.len >= 1 && value.len <= STORE_KEY_MAX;
    case FIELD_CONTENT:
        if (value.len == sizeof m->content.bytes)
            memcpy(m->content.bytes, value.at, sizeof m->content.bytes);
        return value.len == sizeof m->content.bytes;
    case FIELD_BLOCK_SUMS:
        m->block_sums = value;
        return true;
    default:
        return true;
    }
}

/* Fields ascend; what is wanted stands before the metadata. */
static bool
peek_take_fields(const char *at, const char *end, struct log_record_peek *out)
{
    unsigned last = 0;

    while (end - at >= RECORD_FIELD_OVERHEAD) {
        uint32_t head = peek_be32(at);
        unsigned field = head >> 24;
        size_t len = head & FIELD_LEN;

        at += RECORD_FIELD_OVERHEAD;
        if (field <= last || len > (size_t)(end - at))
            return false;
        if (field > FIELD_BLOCK_SUMS)
            return true;
        if (!peek_take(out, field, (struct span){at, len}))
            return false;
        at += len;
        last = field;
    }
    return at == end;
}

bool
log_record_peek(struct span window, struct log_record_peek *out)
{
    struct span r;
    unsigned version;

    *out = (struct log_record_peek){0};
    if (!find_record(window, &out->head_len, &r))
        return false;
    version = (unsigned char)r.at[3];
    return r.at[0] == 'F' && r.at[1] == 'R' && version >= LOG_RECORD_VERSION &&
           version <= LOG_RECORD_VERSION_NEWEST && peek_be32(r.at + 4) == r.len &&
           peek_take_fields(r.at + RECORD_HEAD, r.at + r.len - RECORD_SUM, out);
}
