/* xml_scan: reads the XML that nearly all documents are: tags without attributes, text with the entities that XML has by
 * itself, and a root that may have a namespace.
 *
 * A cursor goes over bytes of which more may come. Each call reads one thing: DONE, the cursor stands behind it; MORE, it is
 * not whole yet, and is read again from where it began; ODD, it is of the rest of XML (a comment, CDATA, a prefix, an
 * attribute), or none: then expat is to read the document (xml.h). So this accepts less than XML and never more, and has no
 * sentences of its own.
 *
 * Pure functions: any thread.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

enum xml_scan { XML_DONE, XML_MORE, XML_ODD };

struct xml_at {
    const char *at, *end;
    const char *doc; /* what pieces are counted from */
};
/* Some text of a document, which may move while it grows. */
struct xml_piece {
    uint32_t at, len;
    bool escaped; /* there are entities in it: xml_scan_unescape() */
};

static inline size_t
xml_at_len(const struct xml_at *c)
{
    return (size_t)(c->end - c->at);
}
static inline void
xml_scan_space(struct xml_at *c)
{
    while (c->at < c->end &&
           (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r'))
        c->at++;
}

/* The declaration, if there is one, and "<root>", with or without a namespace. */
enum xml_scan xml_scan_root(struct xml_at *c, struct span root);
/* "<Name>" or "<Name/>". */
enum xml_scan xml_scan_open(struct xml_at *c, struct span *name, bool *empty);
/* "</Name>". */
enum xml_scan xml_scan_close(struct xml_at *c, struct span name);
/* Up to the next '<'. */
enum xml_scan xml_scan_text(struct xml_at *c, struct xml_piece *out);
/* The children of an element that nobody wants, all leaves, and its end. */
enum xml_scan xml_scan_children(struct xml_at *c, struct span name);
/* A text with its entities undone, into `to`, which has room for `from.len`; how long it is. */
size_t xml_scan_unescape(struct span from, char *to);
