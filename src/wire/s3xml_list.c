/* ListBucketResult, read by expat while it arrives.
 *
 * Texts are kept as offsets into one buffer until the end: the buffer moves while it grows, and only what the caller
 * gets is decoded, once.
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

#define DOC_MAX     MIB(16) /* 1,000 keys of 1 KiB, percent-encoded: 3 MiB */
#define ENTRIES_MAX MIB(16) /* of `struct list_entry` */
#define CHUNK_BYTES KIB(64) /* one receive */
#define ROOT        "ListBucketResult"

struct text_range {
    uint32_t at, len; /* in `texts` */
};

struct list_entry {
    struct text_range key, etag;
    uint64_t size;
    int64_t mtime_ms;
    bool is_prefix;
};

struct s3xml_list_reader {
    struct xml_reader *xml;  /* owned */
    char *chunk;             /* owned: what s3xml_list_room() lends */
    struct buf texts;        /* every text that counts, one after another */
    struct buf entries;      /* of `struct list_entry` */
    struct list_entry entry; /* the one being read */
    bool in_entry, truncated, url_encoded;
    struct text_range token, marker;
};

static struct span
text_at(const struct s3xml_list_reader *r, struct text_range t)
{
    assert((size_t)t.at + t.len <= r->texts.len);
    return t.len > 0 ? (struct span){r->texts.at + t.at, t.len} : SPAN("");
}

static enum err
keep_text(struct s3xml_list_reader *r, struct span text, struct text_range *out)
{
    *out = (struct text_range){(uint32_t)r->texts.len, (uint32_t)text.len};
    buf_put_span(&r->texts, text);
    return r->texts.full ? ERR_TOO_LARGE : ERR_OK;
}

/* A child of <Contents> or <CommonPrefixes>. */
static enum err
entry_field(struct s3xml_list_reader *r, struct span name, struct span text)
{
    if (span_is(name, "Key") || span_is(name, "Prefix"))
        return keep_text(r, text, &r->entry.key);
    if (span_is(name, "ETag"))
        return keep_text(r, text, &r->entry.etag);
    if (span_is(name, "Size"))
        return num_u64(span_trim(text), &r->entry.size);
    if (span_is(name, "LastModified"))
        return date_iso_parse(span_trim(text), &r->entry.mtime_ms);
    return ERR_OK;
}

/* A child of the root. */
static enum err
list_field(struct s3xml_list_reader *r, struct span name, struct span text)
{
    if (span_is(name, "NextContinuationToken"))
        return keep_text(r, text, &r->token);
    if (span_is(name, "NextMarker"))
        return keep_text(r, text, &r->marker);
    if (span_is(name, "IsTruncated"))
        r->truncated = span_case_is(span_trim(text), "true");
    else if (span_is(name, "EncodingType"))
        r->url_encoded = span_case_is(span_trim(text), "url");
    return ERR_OK;
}

static enum err
end_entry(struct s3xml_list_reader *r)
{
    r->in_entry = false;
    if (r->entry.key.len == 0)
        return ERR_BAD_REQUEST;
    buf_put(&r->entries, &r->entry, sizeof r->entry);
    return r->entries.full ? ERR_TOO_LARGE : ERR_OK;
}

static enum err
list_on_open(void *arg, unsigned depth, struct span name)
{
    struct s3xml_list_reader *r = arg;

    if (depth == 0)
        return span_is(name, ROOT) ? ERR_OK : ERR_BAD_REQUEST;
    if (depth == 1 && (span_is(name, "Contents") || span_is(name, "CommonPrefixes"))) {
        assert(!r->in_entry);
        r->entry = (struct list_entry){.is_prefix = span_is(name, "CommonPrefixes")};
        r->in_entry = true;
    }
    return ERR_OK;
}

static enum err
list_on_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct s3xml_list_reader *r = arg;

    if (r->in_entry)
        return depth == 1   ? end_entry(r)
               : depth == 2 ? entry_field(r, name, text)
                            : ERR_OK;
    return depth == 1 ? list_field(r, name, text) : ERR_OK;
}

struct s3xml_list_reader *
s3xml_list_begin(void)
{
    struct s3xml_list_reader *r = xcalloc(1, sizeof *r);
    struct xml_handler h = {.on_open = list_on_open,
                            .on_close = list_on_close,
                            .arg = r,
                            .size_max = DOC_MAX};

    r->xml = xml_reader_new(&h);
    r->chunk = xmalloc(CHUNK_BYTES);
    buf_init(&r->texts, DOC_MAX);
    buf_init(&r->entries, ENTRIES_MAX);
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
    buf_fini(&r->texts);
    buf_fini(&r->entries);
    free(r->chunk);
    free(r);
}

char *
s3xml_list_room(struct s3xml_list_reader *r, size_t *room)
{
    *room = CHUNK_BYTES;
    return r->chunk;
}

enum err
s3xml_list_feed(struct s3xml_list_reader *r, size_t len, struct errbuf *eb)
{
    enum err rc;

    assert(len <= CHUNK_BYTES);
    rc = xml_reader_feed(r->xml, (struct span){r->chunk, len}, eb);
    if (rc != ERR_OK)
        err_prefix(eb, ROOT);
    return rc;
}

bool
s3xml_list_token(const struct s3xml_list_reader *r, struct arena *a, struct span *token)
{
    if (!r->truncated || r->token.len == 0 || r->entries.len == 0)
        return false;
    return s3xml_keep(a, text_at(r, r->token), token);
}

/* Copies a text to *at, which has room for it, and moves *at behind it. */
static struct span
copy_text(const struct s3xml_list_reader *r, struct text_range t, char **at)
{
    struct span s = {*at, t.len};

    if (t.len > 0)
        memcpy(*at, text_at(r, t).at, t.len);
    *at += t.len;
    return s;
}

static bool
copy_key(const struct s3xml_list_reader *r, struct text_range t, char **at,
         struct span *out)
{
    *out = copy_text(r, t, at);
    return !r->url_encoded || s3xml_decode_key(out);
}

/* Into the arena: one piece of memory for the entries, one for all texts. */
static enum err
list_to_arena(const struct s3xml_list_reader *r, struct arena *a, struct s3xml_list *out,
              struct errbuf *eb)
{
    const struct list_entry *from =
        (const struct list_entry *)(const void *)r->entries.at;
    size_t count = r->entries.len / sizeof *from;
    char *at = arena_try(a, MAX(r->texts.len, 1u));

    out->entries = arena_try(a, MAX(count, 1u) * sizeof *out->entries);
    if (out->entries == NULL || at == NULL)
        return err_set(eb, ERR_TOO_LARGE, ROOT ": a page of %zu names is too large",
                       count);
    for (size_t i = 0; i < count; i++) {
        struct s3xml_list_entry *e = &out->entries[i];

        *e = (struct s3xml_list_entry){.size = from[i].size,
                                       .mtime_ms = from[i].mtime_ms,
                                       .is_prefix = from[i].is_prefix};
        if (!copy_key(r, from[i].key, &at, &e->key))
            return err_set(eb, ERR_BAD_REQUEST, ROOT ": a key with a bad escape");
        e->etag = etag_unquote(copy_text(r, from[i].etag, &at));
    }
    out->next_token = copy_text(r, r->token, &at);
    if (!copy_key(r, r->marker, &at, &out->next_marker))
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
    enum err rc = xml_reader_end(r->xml, eb);

    *out = (struct s3xml_list){0};
    if (rc != ERR_OK) {
        err_prefix(eb, ROOT);
        return rc;
    }
    return list_to_arena(r, a, out, eb);
}
