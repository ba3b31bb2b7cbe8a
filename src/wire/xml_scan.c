#include "wire/xml_scan.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

#define ENTITY_MAX 12 /* bytes of "&#x0010FFFF;" and the like */

static bool
xml_scan_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

enum xml_scan
xml_scan_open(struct xml_at *c, struct span *name, bool *empty)
{
    const char *from = c->at + 1;

    if (xml_at_len(c) < 3)
        return XML_MORE;
    if (*c->at != '<' || !xml_scan_is_letter(*from))
        return XML_ODD;
    for (c->at = from; c->at < c->end; c->at++)
        if (!xml_scan_is_letter(*c->at) && (*c->at < '0' || *c->at > '9'))
            break;
    if (xml_at_len(c) < 2)
        return XML_MORE;
    *name = (struct span){from, (size_t)(c->at - from)};
    *empty = *c->at == '/';
    if (*empty)
        c->at++;
    return *c->at++ == '>' ? XML_DONE : XML_ODD;
}

enum xml_scan
xml_scan_close(struct xml_at *c, struct span name)
{
    if (xml_at_len(c) < name.len + 3)
        return XML_MORE;
    if (c->at[0] != '<' || c->at[1] != '/' || c->at[2 + name.len] != '>' ||
        memcmp(c->at + 2, name.at, name.len) != 0)
        return XML_ODD;
    c->at += name.len + 3;
    return XML_DONE;
}

/* Is it a character of XML 1.0 that expat hands on as it is? */
static bool
is_character(uint32_t code)
{
    return code == '\t' || code == '\n' || (code >= 0x20 && code <= 0xd7ff) ||
           (code >= 0xe000 && code <= 0xfffd) || (code >= 0x10000 && code <= 0x10ffff);
}

static bool
xml_scan_number_of(struct span digits, uint32_t *code)
{
    uint64_t value = 0;
    bool hex = digits.len > 0 && digits.at[0] == 'x';

    if (hex ? num_hex64(span_from(digits, 1), &value) != ERR_OK
            : num_u64(digits, &value) != ERR_OK)
        return false;
    *code = (uint32_t)MIN(value, UINT32_MAX);
    return is_character(*code) || *code == '\r';
}

/* The length of the entity that `s` begins with, 0 when it is none of ours. */
static size_t
entity_at(struct span s, uint32_t *code)
{
    static const struct {
        const char *name;
        char is;
    } named[] = {{"quot", '"'}, {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"apos", '\''}};
    const char *end = span_find((struct span){s.at, MIN(s.len, ENTITY_MAX)}, ';');
    struct span body;

    if (end == NULL)
        return 0;
    body = (struct span){s.at + 1, (size_t)(end - s.at) - 1};
    for (size_t i = 0; i < ARRAY_LEN(named); i++)
        if (span_is(body, named[i].name)) {
            *code = (uint32_t)(unsigned char)named[i].is;
            return body.len + 2;
        }
    return body.len > 1 && body.at[0] == '#' &&
                   xml_scan_number_of(span_from(body, 1), code)
               ? body.len + 2
               : 0;
}

/* Bytes that stand for themselves in a text: printable ASCII without '&', '<' and '>', tab and line feed. */
static bool
xml_scan_is_plain(char c)
{
    unsigned char u = (unsigned char)c;

    return (u >= 0x20 && u < 0x80 && c != '<' && c != '&' && c != '>') || c == '\n' ||
           c == '\t';
}

enum xml_scan
xml_scan_text(struct xml_at *c, struct xml_piece *out)
{
    const char *from = c->at;

    *out = (struct xml_piece){.at = (uint32_t)(from - c->doc)};
    for (;;) {
        struct span rest;
        uint32_t code;
        size_t len;

        while (c->at < c->end && xml_scan_is_plain(*c->at))
            c->at++;
        if (c->at == c->end)
            return XML_MORE;
        rest = (struct span){c->at, xml_at_len(c)};
        if (*c->at == '<')
            break;
        if (*c->at == '&') {
            len = entity_at(rest, &code);
            out->escaped = true;
            if (len == 0 && rest.len < ENTITY_MAX)
                return XML_MORE;
        } else {
            len = utf8_next(rest, &code);
            if (len == 0 && rest.len < 4)
                return XML_MORE;
            if (len == 1 || (len > 0 && !is_character(code)))
                len = 0;
        }
        if (len == 0)
            return XML_ODD;
        c->at += len;
    }
    out->len = (uint32_t)(c->at - from);
    return XML_DONE;
}

size_t
xml_scan_unescape(struct span from, char *to)
{
    char *at = to;

    while (from.len > 0) {
        uint32_t code;
        size_t len = *from.at == '&' ? entity_at(from, &code) : 0;

        if (len > 0)
            at += utf8_put(code, at);
        else
            *at++ = *from.at;
        from = span_from(from, len > 0 ? len : 1);
    }
    return (size_t)(at - to);
}

/* A text and its end; the element has begun. */
static enum xml_scan
xml_scan_leaf(struct xml_at *c, struct span name, bool empty, struct xml_piece *text)
{
    enum xml_scan s;

    *text = (struct xml_piece){.at = (uint32_t)(c->at - c->doc)};
    if (empty)
        return XML_DONE;
    s = xml_scan_text(c, text);
    return s == XML_DONE ? xml_scan_close(c, name) : s;
}

enum xml_scan
xml_scan_children(struct xml_at *c, struct span name)
{
    enum xml_scan s = XML_DONE;

    while (s == XML_DONE) {
        struct span child;
        struct xml_piece text;
        bool empty;

        xml_scan_space(c);
        if (xml_at_len(c) < 2)
            return XML_MORE;
        if (c->at[0] == '<' && c->at[1] == '/')
            return xml_scan_close(c, name);
        s = xml_scan_open(c, &child, &empty);
        if (s == XML_DONE)
            s = xml_scan_leaf(c, child, empty, &text);
    }
    return s;
}

/* 1: `what` stands there and is skipped; 0: it does not; -1: it may. */
static int
xml_scan_skip(struct xml_at *c, struct span what)
{
    size_t here = MIN(xml_at_len(c), what.len);

    if (here > 0 && memcmp(c->at, what.at, here) != 0)
        return 0;
    if (here < what.len)
        return -1;
    c->at += what.len;
    return 1;
}

enum xml_scan
xml_scan_root(struct xml_at *c, struct span root)
{
    static const char *const declarations[] = {
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>",
        "<?xml version='1.0' encoding='UTF-8'?>",
        "<?xml version=\"1.0\"?>",
    };
    bool more = false;
    int n = 0;

    for (size_t i = 0; n <= 0 && i < ARRAY_LEN(declarations); i++) {
        n = xml_scan_skip(c, span_of(declarations[i]));
        more = more || n < 0;
    }
    if (n <= 0 && more)
        return XML_MORE;
    xml_scan_space(c);
    n = xml_scan_skip(c, SPAN("<"));
    if (n > 0)
        n = xml_scan_skip(c, root);
    if (n <= 0)
        return n < 0 ? XML_MORE : XML_ODD;
    n = xml_scan_skip(c, SPAN(" xmlns=\""));
    if (n < 0)
        return XML_MORE;
    while (n > 0 && c->at < c->end && *c->at != '"')
        if (!xml_scan_is_plain(*c->at++))
            return XML_ODD;
    if (n > 0 && c->at < c->end)
        c->at++;
    if (c->at == c->end)
        return XML_MORE;
    return *c->at++ == '>' ? XML_DONE : XML_ODD;
}
