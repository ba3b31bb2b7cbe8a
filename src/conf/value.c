/* One value: from text, within limits, back to text. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/utf8.h"
#include "conf/internal.h"

#define SHOW_MAX 64 /* of a bad value, in a sentence */

void
value_fini(struct conf_value *v)
{
    for (size_t i = 0; i < v->count; i++)
        free(v->items[i]);
    free(v->items);
    free(v->text);
    free(v->where);
    *v = (struct conf_value){0};
}

struct span
value_choice(const char *choices, unsigned n)
{
    struct span rest = span_of(choices);

    for (;;) {
        const char *bar = rest.len > 0 ? memchr(rest.at, '|', rest.len) : NULL;
        size_t len = bar != NULL ? (size_t)(bar - rest.at) : rest.len;

        if (n-- == 0)
            return (struct span){rest.at, len};
        if (bar == NULL)
            return (struct span){"", 0};
        rest = span_from(rest, len + 1);
    }
}

/* ---- parsing ---- */

static enum err
parse_bool(struct span text, struct conf_value *v, struct errbuf *eb)
{
    if (!span_is(text, "true") && !span_is(text, "false"))
        return err_set(eb, ERR_BAD_REQUEST, "\"%.*s\" is neither true nor false",
                       (int)MIN(text.len, SHOW_MAX), text.at);
    v->number = span_is(text, "true");
    return ERR_OK;
}

static enum err
parse_enum(const struct conf_row *row, struct span text, struct conf_value *v,
           struct errbuf *eb)
{
    for (unsigned i = 0;; i++) {
        struct span choice = value_choice(row->choices, i);

        if (choice.len == 0)
            break;
        if (span_eq(choice, text)) {
            v->number = i;
            return ERR_OK;
        }
    }
    return err_set(eb, ERR_BAD_REQUEST, "\"%.*s\" is none of %s",
                   (int)MIN(text.len, SHOW_MAX), text.at, row->choices);
}

static enum err
parse_text(struct span text, struct conf_value *v, struct errbuf *eb)
{
    if (memchr(text.at, '\0', text.len) != NULL || !utf8_valid(text))
        return err_set(eb, ERR_BAD_REQUEST,
                       "a NUL or a byte that is not UTF-8 in a text");
    v->text = xmemdup0(text.at, text.len);
    return ERR_OK;
}

/* "a,b,c"; an empty text is an empty list. */
static enum err
parse_list(struct span text, struct conf_value *v, struct errbuf *eb)
{
    size_t commas = 0;

    if (text.len == 0)
        return ERR_OK;
    for (size_t i = 0; i < text.len; i++)
        commas += text.at[i] == ',';
    v->items = xcalloc(commas + 1, sizeof *v->items);
    for (;;) {
        const char *comma = memchr(text.at, ',', text.len);
        struct span item = {text.at,
                            comma != NULL ? (size_t)(comma - text.at) : text.len};

        item = span_trim(item);
        if (item.len == 0)
            return err_set(eb, ERR_BAD_REQUEST, "an empty item in a list");
        v->items[v->count++] = xmemdup0(item.at, item.len);
        if (comma == NULL)
            return ERR_OK;
        text = span_from(text, (size_t)(comma - text.at) + 1);
    }
}

enum err
value_parse(enum conf_option id, struct span text, struct conf_value *v,
            struct errbuf *eb)
{
    const struct conf_row *row = &conf_rows[id];

    switch (row->type) {
    case CONF_BOOL:
        return parse_bool(text, v, eb);
    case CONF_U64:
        if (num_u64(text, &v->number) != ERR_OK)
            return err_set(eb, ERR_BAD_REQUEST, "\"%.*s\" is not a whole number",
                           (int)MIN(text.len, SHOW_MAX), text.at);
        return ERR_OK;
    case CONF_SIZE:
        if (row->choices[0] == '\0' || !span_eq(span_of(row->choices), text))
            return num_size(text, &v->number, eb);
        v->number = CONF_AUTO;
        return ERR_OK;
    case CONF_DURATION:
        return num_duration_ms(text, &v->number, eb);
    case CONF_ENUM:
        return parse_enum(row, text, v, eb);
    case CONF_TEXT:
        return parse_text(text, v, eb);
    case CONF_LIST:
        return parse_list(text, v, eb);
    }
    return err_set(eb, ERR_INTERNAL, "\"%s\" has no type",
                   row->name); /* not reached: all are above */
}

bool
value_is_auto(enum conf_option id, const struct conf_value *v)
{
    return conf_rows[id].type == CONF_SIZE && conf_rows[id].choices[0] != '\0' &&
           v->number == CONF_AUTO;
}

enum err
value_check(enum conf_option id, const struct conf_value *v, struct errbuf *eb)
{
    const struct conf_row *row = &conf_rows[id];
    uint64_t n = row->type == CONF_TEXT   ? strlen(v->text)
                 : row->type == CONF_LIST ? v->count
                                          : v->number;
    const char *what = row->type == CONF_TEXT   ? " bytes"
                       : row->type == CONF_LIST ? " items"
                                                : "";
    struct buf b;

    if (row->type == CONF_BOOL || row->type == CONF_ENUM || value_is_auto(id, v) ||
        (n >= row->least && n <= row->most))
        return ERR_OK;
    buf_init(&b, 256);
    value_put_number(&b, row->type, n);
    buf_printf(&b, "%s is not within ", what);
    value_put_number(&b, row->type, row->least);
    buf_puts(&b, " and ");
    value_put_number(&b, row->type, row->most);
    err_set(eb, ERR_BAD_REQUEST, "%.*s", SPAN_ARG(buf_span(&b)));
    buf_fini(&b);
    return ERR_BAD_REQUEST;
}

/* ---- writing ---- */

/* With the largest unit that divides it. */
static void
put_scaled(struct buf *out, uint64_t n, const char *const *units, const uint64_t *steps,
           size_t count)
{
    size_t unit = 0;

    while (n != 0 && unit + 1 < count && n % steps[unit] == 0)
        n /= steps[unit++];
    buf_printf(out, "%" PRIu64 "%s", n, units[unit]);
}

void
value_put_number(struct buf *out, enum conf_type type, uint64_t number)
{
    static const char *const sizes[] = {"", "KiB", "MiB", "GiB", "TiB"};
    static const uint64_t size_steps[] = {1024, 1024, 1024, 1024};
    static const char *const times[] = {"ms", "s", "m", "h", "d"};
    static const uint64_t time_steps[] = {1000, 60, 60, 24};

    if (type == CONF_SIZE)
        put_scaled(out, number, sizes, size_steps, ARRAY_LEN(sizes));
    else if (type == CONF_DURATION)
        put_scaled(out, number, times, time_steps, ARRAY_LEN(times));
    else
        buf_printf(out, "%" PRIu64, number);
}

static void
put_quoted(struct buf *out, const char *text)
{
    buf_putc(out, '"');
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < ' ' || c == 0x7F)
            buf_printf(out, "\\u%04x", c);
        else
            buf_putc(out, (char)c);
    }
    buf_putc(out, '"');
}

void
value_put(struct buf *out, enum conf_option id, const struct conf_value *v)
{
    const struct conf_row *row = &conf_rows[id];

    switch (row->type) {
    case CONF_BOOL:
        buf_puts(out, v->number ? "true" : "false");
        break;
    case CONF_U64:
        value_put_number(out, row->type, v->number);
        break;
    case CONF_SIZE:
    case CONF_DURATION:
        buf_putc(out, '"');
        if (value_is_auto(id, v))
            buf_puts(out, row->choices);
        else
            value_put_number(out, row->type, v->number);
        buf_putc(out, '"');
        break;
    case CONF_ENUM:
        buf_printf(out, "\"%.*s\"",
                   SPAN_ARG(value_choice(row->choices, (unsigned)v->number)));
        break;
    case CONF_TEXT:
        put_quoted(out, v->text);
        break;
    case CONF_LIST:
        buf_putc(out, '[');
        for (size_t i = 0; i < v->count; i++) {
            buf_puts(out, i > 0 ? ", " : "");
            put_quoted(out, v->items[i]);
        }
        buf_putc(out, ']');
        break;
    }
}
