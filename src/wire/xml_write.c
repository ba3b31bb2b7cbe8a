/* The writer of xml.h. */
#include <assert.h>
#include <inttypes.h>

#include "base/uri.h"
#include "base/utf8.h"
#include "wire/xml.h"

void
xml_begin_bare(struct xml *x, struct buf *out)
{
    *x = (struct xml){.out = out};
}

void
xml_begin(struct xml *x, struct buf *out)
{
    xml_begin_bare(x, out);
    buf_puts(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
}

static char *
xml_put(char *at, const char *from, size_t len)
{
    memcpy(at, from, len);
    return at + len;
}

static void
xml_put_end(struct xml *x, const char *name, size_t len)
{
    char *at = buf_reserve(x->out, len + 3);

    if (at == NULL)
        return;
    *xml_put(xml_put(at, "</", 2), name, len) = '>';
    x->out->len += len + 3;
}

static void
open_tag(struct xml *x, const char *name, size_t len, struct span attribute)
{
    char *at = buf_reserve(x->out, len + attribute.len + 2);

    assert(x->depth < XML_DEPTH_MAX);
    x->open[x->depth++] = name;
    if (at == NULL)
        return;
    *at = '<';
    *xml_put(xml_put(at + 1, name, len), attribute.at, attribute.len) = '>';
    x->out->len += len + attribute.len + 2;
}

void
xml_open(struct xml *x, const char *name)
{
    open_tag(x, name, strlen(name), SPAN(""));
}

void
xml_open_s3(struct xml *x, const char *name)
{
    open_tag(x, name, strlen(name), SPAN(" xmlns=\"" XML_S3_NAMESPACE "\""));
}

void
xml_close(struct xml *x)
{
    const char *name;

    assert(x->depth > 0);
    name = x->open[--x->depth];
    xml_put_end(x, name, strlen(name));
}

/* Writes `text` verbatim, with `quote` on both sides, as one element: most of a listing, so in one step. */
static void
put_leaf(struct xml *x, const char *name, struct span text, struct span quote)
{
    size_t len = strlen(name), all = 2 * (len + quote.len) + text.len + 5;
    char *at = buf_reserve(x->out, all);

    if (at == NULL)
        return;
    *at = '<';
    at = xml_put(at + 1, name, len);
    *at = '>';
    at = xml_put(at + 1, quote.at, quote.len);
    if (text.len > 0)
        memcpy(at, text.at, text.len);
    at = xml_put(at + text.len, quote.at, quote.len);
    *xml_put(xml_put(at, "</", 2), name, len) = '>';
    x->out->len += all;
}

/* Whether one of these sixteen bytes needs escaping. Written byte by byte; the compiler vectorises it. */
static bool
has_special(const char *p)
{
    unsigned char found = 0;

    for (unsigned i = 0; i < 16; i++) {
        unsigned char c = (unsigned char)p[i];

        found |= (unsigned char)((c < 0x20) | (c >= 0x7f) | (c == '&') | (c == '<') |
                                 (c == '>') | (c == '"'));
    }
    return found != 0;
}

/* At least so many bytes from the start need no escape. */
static size_t
plain_length(struct span text)
{
    size_t n = 0;
    char rest[16];

    while (text.len - n >= 16) {
        if (has_special(text.at + n))
            return n;
        n += 16;
    }
    if (n == text.len)
        return n;
    memset(rest, 'a', sizeof rest);
    memcpy(rest, text.at + n, text.len - n);
    return has_special(rest) ? n : text.len;
}

/* The reference for a byte that needs one; NULL: none needed. */
static const char *
xml_entity(unsigned char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    default:
        return NULL;
    }
}

void
xml_escape(struct buf *out, struct span text)
{
    size_t plain = plain_length(text); /* not written yet; they need no escape */

    while (plain < text.len) {
        unsigned char c = (unsigned char)text.at[plain];
        const char *as = xml_entity(c);
        bool control = c < 0x20 && c != '\t' && c != '\n';
        uint32_t code;
        size_t len;

        if (as == NULL && !control && c < 0x7f) {
            plain++;
            continue;
        }
        len = utf8_next(span_from(text, plain), &code);
        if (as == NULL && !control && c != 0x7f && len > 0 && code != 0xfffe &&
            code != 0xffff) {
            plain += len;
            continue;
        }
        buf_put(out, text.at, plain);
        if (as != NULL)
            buf_puts(out, as);
        else if (len == 0)
            buf_puts(out, "\xef\xbf\xbd"); /* U+FFFD */
        else
            buf_printf(out, "&#x%02" PRIX32 ";", code);
        text = span_from(text, plain + (len > 0 ? len : 1));
        plain = 0;
    }
    buf_put(out, text.at, plain);
}

void
xml_span(struct xml *x, const char *name, struct span text)
{
    if (plain_length(text) == text.len) {
        put_leaf(x, name, text, SPAN(""));
        return;
    }
    xml_open(x, name);
    xml_escape(x->out, text);
    xml_close(x);
}

void
xml_text(struct xml *x, const char *name, const char *text)
{
    xml_span(x, name, span_of(text));
}

void
xml_u64(struct xml *x, const char *name, uint64_t value)
{
    char digits[20], *at = digits + sizeof digits;

    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    put_leaf(x, name, (struct span){at, (size_t)(digits + sizeof digits - at)}, SPAN(""));
}

void
xml_bool(struct xml *x, const char *name, bool value)
{
    xml_text(x, name, value ? "true" : "false");
}

void
xml_key(struct xml *x, const char *name, struct span key, bool url)
{
    if (!url) {
        xml_span(x, name, key);
        return;
    }
    xml_open(x, name);
    uri_encode(x->out, key, true);
    xml_close(x);
}

void
xml_etag(struct xml *x, const char *name, struct span etag)
{
    if (plain_length(etag) == etag.len) {
        put_leaf(x, name, etag, SPAN("&quot;"));
        return;
    }
    xml_open(x, name);
    buf_puts(x->out, "&quot;");
    xml_escape(x->out, etag);
    buf_puts(x->out, "&quot;");
    xml_close(x);
}
