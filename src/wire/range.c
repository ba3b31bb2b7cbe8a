/* Ranges: declared in etag.h. S3 ignores what it does not understand: 200 and the whole object. */
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"
#include "wire/etag.h"

/* "first-last", "first-", "-suffix": which of the two are there. Numbers beyond 64 bits are as good as
 * the largest. */
struct spec {
    bool has_first, has_last;
    uint64_t first, last;
};

static bool
range_take_number(struct span text, bool *has, uint64_t *out)
{
    *has = text.len > 0;
    *out = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
    }
    if (text.len > 0 && num_u64(text, out) != ERR_OK)
        *out = UINT64_MAX;
    return true;
}

static bool
parse_spec(struct span header, struct spec *s)
{
    struct span text = span_trim(header);
    const char *dash;

    if (text.len < 6 || strncasecmp(text.at, "bytes=", 6) != 0)
        return false;
    text = span_from(text, 6);
    dash = span_find(text, '-');
    if (dash == NULL)
        return false;
    return range_take_number((struct span){text.at, (size_t)(dash - text.at)},
                             &s->has_first, &s->first) &&
           range_take_number(span_from(text, (size_t)(dash - text.at) + 1), &s->has_last,
                             &s->last) &&
           (s->has_first || s->has_last) &&
           !(s->has_first && s->has_last && s->first > s->last);
}

enum range_got
range_resolve(struct span header, uint64_t size, struct range *out)
{
    struct spec s;

    *out = (struct range){0, size};
    if (header.at == NULL || !parse_spec(header, &s))
        return RANGE_WHOLE;
    if (!s.has_first) {
        if (s.last == 0)
            return RANGE_UNSATISFIABLE;
        if (size == 0)
            return RANGE_WHOLE;
        out->len = MIN(s.last, size);
        out->first = size - out->len;
        return RANGE_PART;
    }
    if (s.first >= size)
        return RANGE_UNSATISFIABLE;
    out->first = s.first;
    out->len = size - s.first;
    if (s.has_last && s.last - s.first < out->len)
        out->len = s.last - s.first + 1;
    return RANGE_PART;
}

enum err
range_fault(struct span header, uint64_t size, char size_text[24], struct fault *f)
{
    snprintf(size_text, 24, "%" PRIu64, size);
    fault_set(f, S3_InvalidRange, NULL);
    fault_add(f, "RangeRequested", header);
    fault_add(f, "ActualObjectSize", span_of(size_text));
    return ERR_RANGE;
}

enum err
content_range_parse(struct span text, struct range *out, uint64_t *size)
{
    struct span rest = span_from(text, 6), numbers;
    const char *slash, *dash;
    uint64_t last;

    if (!span_starts(text, SPAN("bytes ")))
        return ERR_BAD_REQUEST;
    slash = span_find(rest, '/');
    if (slash == NULL)
        return ERR_BAD_REQUEST;
    numbers = (struct span){rest.at, (size_t)(slash - rest.at)};
    rest = span_from(rest, numbers.len + 1);
    dash = span_find(numbers, '-');
    if (dash == NULL ||
        num_u64((struct span){numbers.at, (size_t)(dash - numbers.at)}, &out->first) !=
            ERR_OK ||
        num_u64(span_from(numbers, (size_t)(dash - numbers.at) + 1), &last) != ERR_OK ||
        last < out->first || last == UINT64_MAX)
        return ERR_BAD_REQUEST;
    out->len = last - out->first + 1;
    *size = UINT64_MAX;
    if (!span_is(rest, "*") && (num_u64(rest, size) != ERR_OK || *size <= last))
        return ERR_BAD_REQUEST;
    return ERR_OK;
}

enum err
copy_range_parse(struct span text, struct range *out, struct fault *f)
{
    struct spec s;

    if (!parse_spec(text, &s) || !s.has_first || !s.has_last || s.last == UINT64_MAX)
        return fault_argument(f, "x-amz-copy-source-range", text,
                              "The x-amz-copy-source-range value must be of the form "
                              "bytes=first-last where first and last are the zero-based "
                              "offsets of the first and last bytes to copy");
    *out = (struct range){s.first, s.last - s.first + 1};
    return ERR_OK;
}
