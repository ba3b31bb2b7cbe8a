#include "base/num.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define BAD(text)                                                                        \
    (int)MIN((text).len, 64), (text).at /* for "%.*s": the start of a bad value */

/* ---- numbers ---- */

enum err
num_u64(struct span text, uint64_t *out)
{
    uint64_t v = 0;

    if (text.len == 0)
        return ERR_BAD_REQUEST;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return ERR_BAD_REQUEST;
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(text.at[i] - '0'), &v))
            return ERR_BAD_REQUEST;
    }
    *out = v;
    return ERR_OK;
}

enum err
num_hex64(struct span text, uint64_t *out)
{
    uint64_t v = 0;

    if (text.len == 0 || text.len > 16)
        return ERR_BAD_REQUEST;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        unsigned digit;

        if (c >= '0' && c <= '9')
            digit = (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (unsigned)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            digit = (unsigned)(c - 'A') + 10;
        else
            return ERR_BAD_REQUEST;
        v = v << 4 | digit;
    }
    *out = v;
    return ERR_OK;
}

/* ---- sizes and durations ---- */

struct unit {
    const char *name;
    uint64_t scale;
};

static const struct unit size_units[] = {
    {"", 1},
    {"B", 1},
    {"KiB", KIB(1)},
    {"MiB", MIB(1)},
    {"GiB", GIB(1)},
    {"TiB", GIB(1024)},
    {"KB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
};

static const struct unit duration_units[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000},
};

/* "KiB" or "kib", not "kIb". */
static bool
is_unit(struct span text, const char *name)
{
    bool lower = true;

    if (span_is(text, name))
        return true;
    for (size_t i = 0; i < text.len; i++)
        lower = lower && !(text.at[i] >= 'A' && text.at[i] <= 'Z');
    return lower && span_case_is(text, name);
}

static uint64_t
find_unit(struct span text, const struct unit *units, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (is_unit(text, units[i].name))
            return units[i].scale;
    }
    return 0;
}

static size_t
digits_at(struct span text, size_t from)
{
    size_t n = from;

    while (n < text.len && text.at[n] >= '0' && text.at[n] <= '9')
        n++;
    return n - from;
}

/* scale * 0.digits, rounded down; at most nine digits count. */
static uint64_t
fraction_of(struct span digits, uint64_t scale)
{
    uint64_t sum = 0;

    /* The largest scale is 2^40: times 10^9 it would not fit, so digit by digit from the
     * right. */
    for (size_t i = MIN(digits.len, 9); i > 0; i--)
        sum = (sum + (uint64_t)(digits.at[i - 1] - '0') * (scale << 8)) / 10;
    return sum >> 8;
}

/* Splits "12.5KiB" and multiplies. */
static bool
num_scaled(struct span text, const struct unit *units, size_t count, bool fractions,
           uint64_t *out)
{
    size_t whole_len = digits_at(text, 0);
    struct span fraction = {"", 0};
    size_t at = whole_len;
    uint64_t whole, scale;

    if (fractions && at < text.len && text.at[at] == '.') {
        fraction = (struct span){text.at + at + 1, digits_at(text, at + 1)};
        if (fraction.len == 0)
            return false;
        at += 1 + fraction.len;
    }
    scale = find_unit(span_from(text, at), units, count);
    if (scale == 0 || (scale == 1 && fraction.len > 0))
        return false;
    if (num_u64((struct span){text.at, whole_len}, &whole) != ERR_OK)
        return false;
    return !__builtin_mul_overflow(whole, scale, &whole) &&
           !__builtin_add_overflow(whole, fraction_of(fraction, scale), out);
}

enum err
num_size(struct span text, uint64_t *out, struct errbuf *eb)
{
    if (!num_scaled(text, size_units, ARRAY_LEN(size_units), true, out))
        return err_set(
            eb, ERR_BAD_REQUEST,
            "\"%.*s\" is not a size: write it like 4096, 64KiB, 1.5GiB or 10GB",
            BAD(text));
    return ERR_OK;
}

enum err
num_duration_ms(struct span text, uint64_t *out, struct errbuf *eb)
{
    if (!num_scaled(text, duration_units, ARRAY_LEN(duration_units), false, out))
        return err_set(
            eb, ERR_BAD_REQUEST,
            "\"%.*s\" is not a duration: write it like 250ms, 10s, 5m, 2h or 7d",
            BAD(text));
    return ERR_OK;
}

const char *
num_size_in(uint64_t bytes, enum num_units units, char out[NUM_SIZE_TEXT])
{
    static const char *const names[][7] = {
        [NUM_IEC] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"},
        [NUM_SI] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"}};
    double step = units == NUM_SI ? 1000 : 1024, v = (double)bytes;
    size_t unit = 0;

    if (units == NUM_RAW) {
        snprintf(out, NUM_SIZE_TEXT, "%" PRIu64, bytes);
        return out;
    }
    /* What would print as 1024.0 is one of the next. */
    while (v >= step - 0.05 && unit + 1 < ARRAY_LEN(names[0])) {
        v /= step;
        unit++;
    }
    snprintf(out, NUM_SIZE_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", v,
             names[units][unit]);
    return out;
}

const char *
num_size_text(uint64_t bytes, char out[NUM_SIZE_TEXT])
{
    return num_size_in(bytes, NUM_IEC, out);
}

enum err
num_units_parse(const char *text, enum num_units *out)
{
    static const char *const names[] = {
        [NUM_IEC] = "iec", [NUM_SI] = "si", [NUM_RAW] = "raw"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (enum num_units)i;
            return ERR_OK;
        }
    return ERR_BAD_REQUEST;
}
