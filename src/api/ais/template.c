/* template: the forms of templates of AIS, as patterns with braces (wire/brace.h). */
#include "api/ais/template.h"

#include "base/mem.h"

#define TEMPLATE_DIGITS 7u /* of the largest number: 10 million names are possible */

/* "pre-@100-post" is "pre-{0..100}-post". */
static bool
put_at_template(struct span text, struct buf *out)
{
    const char *at = span_find(text, '@');
    size_t from, end;

    if (at == NULL)
        return false;
    from = end = (size_t)(at - text.at) + 1;
    while (end < text.len && text.at[end] >= '0' && text.at[end] <= '9')
        end++;
    if (end == from || end - from > 9)
        return false;
    buf_printf(out, "%.*s{0..%.*s}%.*s", (int)(from - 1), text.at, (int)(end - from),
               text.at + from, SPAN_ARG(span_from(text, end)));
    return true;
}

/* "pre-%03d-post" is "pre-{000..999}-post"; without a width, or above 7 digits, the numbers of 7 digits. */
static bool
put_format_template(struct span text, struct buf *out)
{
    const char *percent = span_find(text, '%');
    size_t at, from;
    unsigned width = 0, digits;

    if (percent == NULL)
        return false;
    from = at = (size_t)(percent - text.at) + 1;
    while (at < text.len && at - from < 3 && text.at[at] >= '0' && text.at[at] <= '9')
        width = width * 10 + (unsigned)(text.at[at++] - '0');
    if (at >= text.len || text.at[at] != 'd' || width > 18 ||
        (at > from && (text.at[from] != '0' || width == 0)))
        return false;
    digits = MIN(width > 0 ? width : TEMPLATE_DIGITS, TEMPLATE_DIGITS);
    buf_printf(out, "%.*s{%0*d..%0*d}%.*s", (int)(from - 1), text.at, (int)width, 0,
               (int)width,
               (const int[]){9, 99, 999, 9999, 99999, 999999, 9999999}[digits - 1],
               SPAN_ARG(span_from(text, at + 1)));
    return true;
}

void
ais_put_template(struct span text, struct buf *out)
{
    if (!put_at_template(text, out) && !put_format_template(text, out))
        buf_put_span(out, text);
}
