/* ListBucketResult, piece by piece.
 *
 * A listing is all the work of a page, and its documents look alike whoever writes them: a declaration, a root, leaves, and
 * hundreds of <Contents>. scan() reads just that (xml_scan.h). At the first byte of anything else, or a number that is
 * none, what it found is forgotten and expat reads the document from its begin. So every error is expat's; the fuzz target
 * holds one against the other.
 *
 * Texts are places in the document until the end: it may move while it grows, and only what goes out is decoded, once.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "wire/etag.h"
#include "wire/s3xml.h"
#include "wire/s3xml_util.h"
#include "wire/xml.h"
#include "wire/xml_scan.h"

#define DOC_MAX   MIB(16) /* 1,000 keys of 1 KiB, percent-encoded: 3 MiB */
#define ITEMS_MAX MIB(16) /* of `struct item` */
#define PIECE     KIB(64) /* room for what comes */
#define CHILD_MAX                                                                        \
    KIB(60) /* of the root, for scan(): less than expat's limit for a text */
#define ROOT "ListBucketResult"

struct item {
    struct xml_piece key, etag;
    uint64_t size;
    int64_t mtime_ms;
    bool is_prefix;
};

struct s3xml_list_reader {
    struct buf doc; /* while scan() reads: all that came; then: what expat has not seen */
    size_t at;      /* scan() has read up to here */
    enum { BEFORE, WITHIN, BEHIND } where; /* of the root */
    struct xml_reader *xml;                /* owned; NULL while scan() reads */
    struct buf text;  /* what expat has read: pieces lie in it, or in `doc` */
    struct buf items; /* of `struct item` */
    struct item item; /* the one under way */
    bool in_item, truncated, url_encoded;
    struct xml_piece token, marker;
};

/* ---- what an element means ---- */

static struct span
raw(const struct s3xml_list_reader *r, struct xml_piece p)
{
    const struct buf *in = r->xml != NULL ? &r->text : &r->doc;

    return p.len > 0 ? (struct span){in->at + p.at, p.len} : SPAN("");
}

/* In <Contents> and <CommonPrefixes>. A number, date or word that is escaped is left to expat. */
static enum err
take_of_item(struct s3xml_list_reader *r, struct span name, struct xml_piece text)
{
    struct span value = span_trim(raw(r, text));

    if (span_is(name, "Key") || span_is(name, "Prefix"))
        r->item.key = text;
    else if (span_is(name, "ETag"))
        r->item.etag = text;
    else if (span_is(name, "Size"))
        return text.escaped ? ERR_BAD_REQUEST : num_u64(value, &r->item.size);
    else if (span_is(name, "LastModified"))
        return text.escaped ? ERR_BAD_REQUEST : date_iso_parse(value, &r->item.mtime_ms);
    return ERR_OK;
}

static enum err
take(struct s3xml_list_reader *r, struct span name, struct xml_piece text)
{
    struct span value = span_trim(raw(r, text));
    bool is_word = false;

    if (r->in_item)
        return take_of_item(r, name, text);
    if (span_is(name, "NextContinuationToken")) {
        r->token = text;
    } else if (span_is(name, "NextMarker")) {
        r->marker = text;
    } else if (span_is(name, "IsTruncated")) {
        is_word = true;
        r->truncated = span_case_is(value, "true");
    } else if (span_is(name, "EncodingType")) {
        is_word = true;
        r->url_encoded = span_case_is(value, "url");
    }
    return is_word && text.escaped ? ERR_BAD_REQUEST : ERR_OK;
}

static bool
is_known(const struct s3xml_list_reader *r, struct span name)
{
    static const char *const item[] = {"Key", "Prefix", "ETag", "Size", "LastModified"};
    static const char *const list[] = {"IsTruncated", "NextContinuationToken",
                                       "NextMarker", "EncodingType"};
    const char *const *table = r->in_item ? item : list;
    size_t count = r->in_item ? ARRAY_LEN(item) : ARRAY_LEN(list);

    for (size_t i = 0; i < count; i++)
        if (span_is(name, table[i]))
            return true;
    return false;
}

static bool
begins_item(struct span name)
{
    return span_is(name, "Contents") || span_is(name, "CommonPrefixes");
}

static void
begin_item(struct s3xml_list_reader *r, struct span name)
{
    r->item = (struct item){.is_prefix = span_is(name, "CommonPrefixes")};
    r->in_item = true;
}

static enum err
end_item(struct s3xml_list_reader *r)
{
    r->in_item = false;
    if (r->item.key.len == 0)
        return ERR_BAD_REQUEST;
    buf_put(&r->items, &r->item, sizeof r->item);
    return r->items.full ? ERR_TOO_LARGE : ERR_OK;
}

/* ---- scan: what nearly all documents are ---- */

/* One element that is no item, with all that is in it; it has begun. */
static enum xml_scan
field(struct s3xml_list_reader *r, struct xml_at *c, struct span name, bool empty)
{
    struct xml_piece text = {.at = (uint32_t)(c->at - c->doc)};
    enum xml_scan s = empty ? XML_DONE : xml_scan_text(c, &text);

    if (s != XML_DONE)
        return s;
    if (!empty && xml_at_len(c) < 2)
        return XML_MORE;
    if (!empty && c->at[1] != '/')
        return is_known(r, name) ? XML_ODD : xml_scan_children(c, name);
    if (!empty)
        s = xml_scan_close(c, name);
    if (s == XML_DONE && take(r, name, text) != ERR_OK)
        return XML_ODD;
    return s;
}

static enum xml_scan
item(struct s3xml_list_reader *r, struct xml_at *c, struct span name)
{
    enum xml_scan s = XML_DONE;

    begin_item(r, name);
    while (s == XML_DONE) {
        struct span child;
        bool empty;

        xml_scan_space(c);
        if (xml_at_len(c) < 2)
            return XML_MORE;
        if (c->at[0] == '<' && c->at[1] == '/') {
            s = xml_scan_close(c, name);
            return s == XML_DONE && end_item(r) != ERR_OK ? XML_ODD : s;
        }
        s = xml_scan_open(c, &child, &empty);
        if (s == XML_DONE)
            s = field(r, c, child, empty);
    }
    return s;
}

/* The next child of the root, or the root's end. */
static enum xml_scan
child(struct s3xml_list_reader *r, struct xml_at *c)
{
    struct span name;
    bool empty;
    enum xml_scan s;

    r->in_item = false;
    if (xml_at_len(c) < 2)
        return XML_MORE;
    if (c->at[0] == '<' && c->at[1] == '/') {
        s = xml_scan_close(c, SPAN(ROOT));
        if (s == XML_DONE)
            r->where = BEHIND;
        return s;
    }
    s = xml_scan_open(c, &name, &empty);
    if (s != XML_DONE)
        return s;
    if (begins_item(name))
        return empty ? XML_ODD : item(r, c, name);
    return field(r, c, name, empty);
}

static enum xml_scan
root(struct s3xml_list_reader *r, struct xml_at *c)
{
    enum xml_scan s = xml_scan_root(c, SPAN(ROOT));

    if (s == XML_DONE)
        r->where = WITHIN;
    return s;
}

static enum xml_scan
scan(struct s3xml_list_reader *r)
{
    enum xml_scan s = XML_DONE;

    while (s == XML_DONE) {
        struct xml_at c = {r->doc.at + r->at, r->doc.at + r->doc.len, r->doc.at};

        if (r->where != BEFORE) {
            xml_scan_space(&c);
            r->at = (size_t)(c.at - c.doc);
        }
        if (r->at == r->doc.len)
            return XML_MORE;
        if (r->where == BEHIND)
            return XML_ODD;
        s = r->where == BEFORE ? root(r, &c) : child(r, &c);
        /* What is not whole is looked at again with more of it, so it must not be long. */
        if ((size_t)(c.at - c.doc) - r->at > CHILD_MAX)
            return XML_ODD;
        if (s == XML_DONE)
            r->at = (size_t)(c.at - c.doc);
    }
    return s;
}

/* ---- expat: everything else ---- */

static enum err
on_open(void *arg, unsigned depth, struct span name)
{
    struct s3xml_list_reader *r = arg;

    if (depth == 0)
        return span_is(name, ROOT) ? ERR_OK : ERR_BAD_REQUEST;
    if (depth == 1 && begins_item(name))
        begin_item(r, name);
    return ERR_OK;
}

static enum err
on_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct s3xml_list_reader *r = arg;
    struct xml_piece p = {(uint32_t)r->text.len, (uint32_t)text.len, false};

    if (depth == 1 && r->in_item)
        return end_item(r);
    if (depth != (r->in_item ? 2u : 1u) || !is_known(r, name))
        return ERR_OK;
    buf_put_span(&r->text, text);
    return r->text.full ? ERR_TOO_LARGE : take(r, name, p);
}

static enum err
feed_expat(struct s3xml_list_reader *r, struct errbuf *eb)
{
    enum err rc = xml_reader_feed(r->xml, buf_span(&r->doc), eb);

    buf_clear(&r->doc);
    if (rc != ERR_OK)
        err_prefix(eb, ROOT);
    return rc;
}

static enum err
read_by_expat(struct s3xml_list_reader *r, struct errbuf *eb)
{
    struct xml_handler h = {
        .on_open = on_open, .on_close = on_close, .arg = r, .size_max = DOC_MAX};

    buf_clear(&r->items);
    r->in_item = r->truncated = r->url_encoded = false;
    r->token = r->marker = (struct xml_piece){0};
    r->xml = xml_reader_new(&h);
    return feed_expat(r, eb);
}

/* ---- what callers do ---- */

struct s3xml_list_reader *
s3xml_list_begin_by_expat(void)
{
    struct s3xml_list_reader *r = s3xml_list_begin();

    if (read_by_expat(r, NULL) != ERR_OK)
        assert(false); /* of no bytes */
    return r;
}

struct s3xml_list_reader *
s3xml_list_begin(void)
{
    struct s3xml_list_reader *r = xcalloc(1, sizeof *r);

    buf_init(&r->doc, DOC_MAX);
    buf_init(&r->text, DOC_MAX);
    buf_init(&r->items, ITEMS_MAX);
    return r;
}

void
s3xml_list_free(struct s3xml_list_reader **rp)
{
    struct s3xml_list_reader *r = *rp;

    *rp = NULL;
    if (r == NULL)
        return;
    xml_reader_free(&r->xml);
    buf_fini(&r->doc);
    buf_fini(&r->text);
    buf_fini(&r->items);
    free(r);
}

char *
s3xml_list_room(struct s3xml_list_reader *r, size_t *room)
{
    *room = MIN(PIECE, r->doc.limit - r->doc.len);
    return *room > 0 ? buf_reserve(&r->doc, *room) : NULL;
}

enum err
s3xml_list_feed(struct s3xml_list_reader *r, size_t len, struct errbuf *eb)
{
    assert(len <= r->doc.room - r->doc.len);
    r->doc.len += len;
    if (r->xml != NULL)
        return feed_expat(r, eb);
    return scan(r) == XML_ODD ? read_by_expat(r, eb) : ERR_OK;
}

/* At `to`, which has room for as many bytes as the piece has. */
static size_t
put_text(const struct s3xml_list_reader *r, struct xml_piece p, char *to)
{
    struct span from = raw(r, p);

    if (p.escaped)
        return xml_scan_unescape(from, to);
    if (from.len > 0)
        memcpy(to, from.at, from.len);
    return from.len;
}

bool
s3xml_list_token(const struct s3xml_list_reader *r, struct arena *a, struct span *token)
{
    char *at;

    if (!r->truncated || r->token.len == 0 || r->items.len == 0)
        return false;
    at = arena_try(a, r->token.len);
    if (at == NULL)
        return false;
    *token = (struct span){at, put_text(r, r->token, at)};
    return true;
}

struct texts {
    const struct s3xml_list_reader *r;
    char *at;
};

static struct span
next_text(struct texts *t, struct xml_piece p)
{
    struct span s = {t->at, put_text(t->r, p, t->at)};

    t->at += p.len;
    return s;
}

static bool
next_key(struct texts *t, struct xml_piece p, struct span *out)
{
    *out = next_text(t, p);
    return !t->r->url_encoded || s3xml_decode_key(out);
}

/* Into the arena: one piece of memory for the entries, one for all texts. */
static enum err
hand_out(const struct s3xml_list_reader *r, struct arena *a, struct s3xml_list *out,
         struct errbuf *eb)
{
    const struct item *items = (const struct item *)(const void *)r->items.at;
    size_t count = r->items.len / sizeof *items, room = r->token.len + r->marker.len;
    struct texts t = {.r = r};

    for (size_t i = 0; i < count; i++)
        room += (size_t)items[i].key.len + items[i].etag.len;
    out->entries = arena_try(a, MAX(count, 1u) * sizeof *out->entries);
    t.at = arena_try(a, MAX(room, 1u));
    if (out->entries == NULL || t.at == NULL)
        return err_set(eb, ERR_TOO_LARGE, ROOT ": a page of %zu names is too large",
                       count);
    for (size_t i = 0; i < count; i++) {
        struct s3xml_list_entry *e = &out->entries[i];

        *e = (struct s3xml_list_entry){.size = items[i].size,
                                       .mtime_ms = items[i].mtime_ms,
                                       .is_prefix = items[i].is_prefix};
        if (!next_key(&t, items[i].key, &e->key))
            return err_set(eb, ERR_BAD_REQUEST, ROOT ": a key with a bad escape");
        e->etag = etag_unquote(next_text(&t, items[i].etag));
    }
    out->next_token = next_text(&t, r->token);
    if (!next_key(&t, r->marker, &out->next_marker))
        return err_set(eb, ERR_BAD_REQUEST, ROOT ": a marker with a bad escape");
    out->count = count;
    out->truncated = r->truncated;
    out->url_encoded = r->url_encoded;
    return ERR_OK;
}

enum err
s3xml_list_end(struct s3xml_list_reader *r, struct arena *a, struct s3xml_list *out,
               struct errbuf *eb)
{
    enum err rc = ERR_OK;

    *out = (struct s3xml_list){0};
    if (r->xml == NULL && r->where != BEHIND)
        rc = read_by_expat(r, eb);
    if (rc == ERR_OK && r->xml != NULL) {
        rc = xml_reader_end(r->xml, eb);
        if (rc != ERR_OK)
            err_prefix(eb, ROOT);
    }
    return rc == ERR_OK ? hand_out(r, a, out, eb) : rc;
}

enum err
s3xml_list_parse(struct span doc, struct arena *a, struct s3xml_list *out,
                 struct errbuf *eb)
{
    struct s3xml_list_reader *r = s3xml_list_begin();
    enum err rc = ERR_OK;

    *out = (struct s3xml_list){0};
    while (rc == ERR_OK && doc.len > 0) {
        size_t room, len;
        char *at = s3xml_list_room(r, &room);

        if (at == NULL) {
            rc =
                err_set(eb, ERR_TOO_LARGE, ROOT ": more than %zu bytes", (size_t)DOC_MAX);
            break;
        }
        len = MIN(doc.len, room);
        memcpy(at, doc.at, len);
        doc = span_from(doc, len);
        rc = s3xml_list_feed(r, len, eb);
    }
    if (rc == ERR_OK)
        rc = s3xml_list_end(r, a, out, eb);
    s3xml_list_free(&r);
    return rc;
}
