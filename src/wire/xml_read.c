/* The reader of xml.h: expat, with everything off that makes XML dangerous. */
#include <assert.h>
#include <expat.h>
#include <stdlib.h>

#include "base/mem.h"
#include "wire/xml.h"

/* In newer releases of expat, and in Debian's security updates of 2.5.0. Weak: NULL where the library has none. */
extern XML_Bool XML_SetReparseDeferralEnabled(XML_Parser parser, XML_Bool enabled)
    __attribute__((weak));

#define SIZE_MAX_USUAL ((size_t)1024 * 1024)
#define TEXT_MAX_USUAL ((size_t)64 * 1024)

struct xml_reader {
    XML_Parser expat; /* owned */
    struct xml_handler handler;
    struct buf text;             /* of all open elements, one after another */
    size_t start[XML_DEPTH_MAX]; /* where each one's begins in `text` */
    unsigned depth;
    size_t seen;       /* bytes of the document */
    enum err rc;       /* the first error; reading stops after it */
    struct errbuf why; /* its sentence */
};

static void
xml_reader_stop(struct xml_reader *r, enum err rc, const char *why)
{
    if (r->rc == ERR_OK)
        r->rc = err_set(&r->why, rc, "%s", why);
    XML_StopParser(r->expat, XML_FALSE);
}

/* "s3:Key" -> "Key" */
static struct span
local_name(const char *name)
{
    const char *colon = strrchr(name, ':');

    return span_of(colon != NULL ? colon + 1 : name);
}

static void XMLCALL
on_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    struct xml_reader *r = arg;
    enum err rc = ERR_OK;

    (void)attributes;
    if (r->rc != ERR_OK)
        return;
    if (r->depth == XML_DEPTH_MAX) {
        xml_reader_stop(r, ERR_BAD_REQUEST, "xml: elements deeper than 16");
        return;
    }
    if (r->depth > 0) /* what stood between children is layout */
        r->text.len = r->start[r->depth - 1];
    r->start[r->depth] = r->text.len;
    if (r->handler.on_open != NULL)
        rc = r->handler.on_open(r->handler.arg, r->depth, local_name(name));
    r->depth++;
    if (rc != ERR_OK)
        xml_reader_stop(r, rc, "xml: not the document that was expected");
}

static void XMLCALL
xml_reader_on_end(void *arg, const XML_Char *name)
{
    struct xml_reader *r = arg;
    struct span text;
    enum err rc = ERR_OK;

    if (r->rc != ERR_OK)
        return;
    assert(r->depth > 0);
    r->depth--;
    text = span_from(buf_span(&r->text), r->start[r->depth]);
    if (text.at == NULL)
        text = SPAN("");
    if (r->handler.on_close != NULL)
        rc = r->handler.on_close(r->handler.arg, r->depth, local_name(name), text);
    r->text.len = r->start[r->depth];
    if (rc != ERR_OK)
        xml_reader_stop(r, rc, "xml: not the document that was expected");
}

static void XMLCALL
on_text(void *arg, const XML_Char *text, int len)
{
    struct xml_reader *r = arg;

    if (r->rc != ERR_OK)
        return;
    buf_put(&r->text, text, (size_t)len);
    if (r->text.full)
        xml_reader_stop(r, ERR_BAD_REQUEST, "xml: the text of an element is too long");
}

static void XMLCALL
on_doctype(void *arg, const XML_Char *name, const XML_Char *system_id,
           const XML_Char *public_id, int has_internal_subset)
{
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_internal_subset;
    xml_reader_stop(arg, ERR_BAD_REQUEST, "xml: a document type is not allowed");
}

struct xml_reader *
xml_reader_new(const struct xml_handler *h)
{
    struct xml_reader *r = xcalloc(1, sizeof *r);

    r->handler = *h;
    if (r->handler.size_max == 0)
        r->handler.size_max = SIZE_MAX_USUAL;
    buf_init(&r->text, h->text_max != 0 ? h->text_max : TEXT_MAX_USUAL);
    r->expat = XML_ParserCreate("UTF-8");
    assert(r->expat != NULL); /* memory is out, as in xcalloc() */
    /* Or an element is reported only when much more has arrived, and the token of a page is known late. The work that the
     * deferral saves, parsing a long token once for each piece, is bounded by size_max. */
    if (XML_SetReparseDeferralEnabled != NULL)
        (void)XML_SetReparseDeferralEnabled(r->expat, XML_FALSE);
    XML_SetUserData(r->expat, r);
    XML_SetElementHandler(r->expat, on_start, xml_reader_on_end);
    XML_SetCharacterDataHandler(r->expat, on_text);
    XML_SetStartDoctypeDeclHandler(r->expat, on_doctype);
    return r;
}

void
xml_reader_free(struct xml_reader **rp)
{
    struct xml_reader *r = *rp;

    *rp = NULL;
    if (r == NULL)
        return;
    XML_ParserFree(r->expat);
    buf_fini(&r->text);
    free(r);
}

static enum err
xml_reader_parse(struct xml_reader *r, struct span bytes, bool last, struct errbuf *eb)
{
    if (r->rc == ERR_OK && bytes.len > r->handler.size_max - r->seen)
        r->rc = err_set(&r->why, ERR_TOO_LARGE, "xml: a document of more than %zu bytes",
                        r->handler.size_max);
    if (r->rc == ERR_OK) {
        r->seen += bytes.len;
        if (XML_Parse(r->expat, bytes.at, (int)bytes.len, last) != XML_STATUS_OK &&
            r->rc == ERR_OK)
            r->rc = err_set(&r->why, ERR_BAD_REQUEST, "xml: %s in line %lu",
                            XML_ErrorString(XML_GetErrorCode(r->expat)),
                            XML_GetCurrentLineNumber(r->expat));
    }
    return r->rc == ERR_OK ? ERR_OK : err_set(eb, r->rc, "%s", r->why.text);
}

enum err
xml_reader_feed(struct xml_reader *r, struct span bytes, struct errbuf *eb)
{
    static const size_t piece_max = (size_t)1 << 30; /* expat counts in int */
    enum err rc = ERR_OK;

    while (bytes.len > 0 && rc == ERR_OK) {
        struct span piece = {bytes.at, MIN(bytes.len, piece_max)};

        rc = xml_reader_parse(r, piece, false, eb);
        bytes = span_from(bytes, piece.len);
    }
    return rc;
}

enum err
xml_reader_end(struct xml_reader *r, struct errbuf *eb)
{
    return xml_reader_parse(r, (struct span){"", 0}, true, eb);
}

enum err
xml_read(struct span doc, const struct xml_handler *h, struct errbuf *eb)
{
    struct xml_reader *r = xml_reader_new(h);
    enum err rc = xml_reader_feed(r, doc, eb);

    if (rc == ERR_OK)
        rc = xml_reader_end(r, eb);
    xml_reader_free(&r);
    return rc;
}
