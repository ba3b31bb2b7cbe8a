#include "wire/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

#include "base/utf8.h"

void
json_begin(struct json *j, struct buf *out)
{
    *j = (struct json){.out = out};
}

void
json_escape(struct buf *out, struct span text)
{
    static const char shorts[] = "b\bf\fn\nr\rt\t\"\"\\\\"; /* pairs: letter, byte */

    while (text.len > 0) {
        unsigned char c = (unsigned char)text.at[0];
        uint32_t code;
        size_t len = utf8_next(text, &code);
        const char *pair = NULL;

        for (size_t i = 0; i < sizeof shorts - 1 && pair == NULL; i += 2) {
            if ((unsigned char)shorts[i + 1] == c)
                pair = &shorts[i];
        }
        if (len == 0)
            buf_puts(out, "\\ufffd");
        else if (pair != NULL)
            buf_printf(out, "\\%c", *pair);
        else if (c < 0x20 || c == 0x7f)
            buf_printf(out, "\\u%04x", c);
        else
            buf_put(out, text.at, len);
        text = span_from(text, len > 0 ? len : 1);
    }
}

static void
json_quoted(struct buf *out, struct span text)
{
    buf_putc(out, '"');
    json_escape(out, text);
    buf_putc(out, '"');
}

/* Comma and key in front of a value. */
static void
json_before(struct json *j, const char *key)
{
    assert((key != NULL) == (j->depth > 0 && j->is_object[j->depth]));
    if (j->started[j->depth])
        buf_putc(j->out, ',');
    j->started[j->depth] = true;
    if (key != NULL) {
        json_quoted(j->out, span_of(key));
        buf_putc(j->out, ':');
    }
}

static void
json_descend(struct json *j, const char *key, bool is_object)
{
    json_before(j, key);
    assert(j->depth + 1 < JSON_DEPTH_MAX);
    j->depth++;
    j->started[j->depth] = false;
    j->is_object[j->depth] = is_object;
    buf_putc(j->out, is_object ? '{' : '[');
}

void
json_open_object(struct json *j, const char *key)
{
    json_descend(j, key, true);
}

void
json_open_array(struct json *j, const char *key)
{
    json_descend(j, key, false);
}

void
json_end(struct json *j)
{
    assert(j->depth > 0);
    buf_putc(j->out, j->is_object[j->depth] ? '}' : ']');
    j->depth--;
}

void
json_span(struct json *j, const char *key, struct span value)
{
    json_before(j, key);
    json_quoted(j->out, value);
}

void
json_text(struct json *j, const char *key, const char *value)
{
    if (value == NULL)
        json_put_null(j, key);
    else
        json_span(j, key, span_of(value));
}

void
json_u64(struct json *j, const char *key, uint64_t value)
{
    json_before(j, key);
    buf_printf(j->out, "%" PRIu64, value);
}

void
json_i64(struct json *j, const char *key, int64_t value)
{
    json_before(j, key);
    buf_printf(j->out, "%" PRId64, value);
}

void
json_f64(struct json *j, const char *key, double value)
{
    if (!isfinite(value)) {
        json_put_null(j, key);
        return;
    }
    json_before(j, key);
    buf_printf(j->out, "%.9g", value);
}

void
json_bool(struct json *j, const char *key, bool value)
{
    json_before(j, key);
    buf_puts(j->out, value ? "true" : "false");
}

void
json_put_null(struct json *j, const char *key)
{
    json_before(j, key);
    buf_puts(j->out, "null");
}
