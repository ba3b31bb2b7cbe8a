/* xml: a writer that can't produce a broken document, and a reader of small documents
 * from outside.
 *
 * The writer escapes; what XML 1.0 can't hold it writes as a reference (&#x0D;, &#x01;),
 * as AWS does; bytes that are not UTF-8 become U+FFFD. The reader stands on expat: no
 * DTD, no entities but the five, UTF-8 only, limits on size, depth and text. Prefixes and
 * namespaces are ignored: clients write them in every way.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define XML_DEPTH_MAX    16
#define XML_S3_NAMESPACE "http://s3.amazonaws.com/doc/2006-03-01/"

struct xml {
    struct buf *out; /* borrowed */
    unsigned depth;
    const char *open[XML_DEPTH_MAX];
};
/* Names are static text; every open has its close. */
void xml_begin(struct xml *x, struct buf *out);      /* writes the declaration */
void xml_begin_bare(struct xml *x, struct buf *out); /* does not */
void xml_open(struct xml *x, const char *name);
void xml_open_s3(struct xml *x, const char *name); /* with xmlns of S3 */
void xml_close(struct xml *x);                     /* the innermost */
void xml_span(struct xml *x, const char *name, struct span text);
void xml_text(struct xml *x, const char *name, const char *text);
void xml_u64(struct xml *x, const char *name, uint64_t value);
void xml_bool(struct xml *x, const char *name, bool value);
/* Percent-encoded (unreserved and '/' stay) when `url` is set: encoding-type=url. */
void xml_key(struct xml *x, const char *name, struct span key, bool url);
void xml_etag(struct xml *x, const char *name, struct span etag); /* puts the quotes */
void xml_escape(struct buf *out, struct span text);

/* Reader. `name` is without prefix; depth 0 is the root. `text` is the character data of a
 * leaf; of an element with children only what follows the last of them. Returning anything
 * but ERR_OK ends the read with that code. Either callback may be NULL. */
struct xml_handler {
    enum err (*on_open)(void *arg, unsigned depth, struct span name);
    enum err (*on_close)(void *arg, unsigned depth, struct span name, struct span text);
    void *arg;
    size_t size_max; /* of the document; 0: 1 MiB */
    size_t text_max; /* of one element; 0: 64 KiB */
};
struct xml_reader; /* owns expat's state */
struct xml_reader *xml_reader_new(const struct xml_handler *h);
void xml_reader_free(struct xml_reader **rp);
/* Bytes at any split. BAD_REQUEST: not well formed, a document type, too deep, an element
 * too long; TOO_LARGE: the document is; the sentence says which. */
enum err xml_reader_feed(struct xml_reader *r, struct span bytes,
                         struct errbuf *eb) MUST_CHECK;
enum err xml_reader_end(struct xml_reader *r, struct errbuf *eb) MUST_CHECK;
/* A whole document. */
enum err xml_read(struct span doc, const struct xml_handler *h,
                  struct errbuf *eb) MUST_CHECK;
