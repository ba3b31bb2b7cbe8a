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

static void
open_tag(struct xml *x, const char *name, const char *attribute)
{
    assert(x->depth < XML_DEPTH_MAX);
    x->open[x->depth++] = name;
    buf_putc(x->out, '<');
    buf_puts(x->out, name);
    buf_puts(x->out, attribute);
    buf_putc(x->out, '>');
}

void
xml_open(struct xml *x, const char *name)
{
    open_tag(x, name, "");
}

void
xml_open_s3(struct xml *x, const char *name)
{
    open_tag(x, name, " xmlns=\"" XML_S3_NAMESPACE "\"");
}

void
xml_close(struct xml *x)
{
    assert(x->depth > 0);
    buf_puts(x->out, "</");
    buf_puts(x->out, x->open[--x->depth]);
    buf_putc(x->out, '>');
}

/* What stands for a byte that can't stand for itself; NULL: it can. */
static const char *
entity(unsigned char c)
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
    size_t plain = 0; /* bytes not yet written that stand for themselves */

    while (plain < text.len) {
        unsigned char c = (unsigned char)text.at[plain];
        const char *as = entity(c);
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
    xml_open(x, name);
    buf_printf(x->out, "%" PRIu64, value);
    xml_close(x);
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
    xml_open(x, name);
    buf_puts(x->out, "&quot;");
    xml_escape(x->out, etag);
    buf_puts(x->out, "&quot;");
    xml_close(x);
}
