/* ListVersionsResult, as a client reads it: versions and delete markers in the order of the document. */
#include "base/mem.h"
#include "base/num.h"
#include "wire/etag.h"
#include "wire/s3xml.h"
#include "wire/s3xml_util.h"
#include "wire/xml.h"

#define DOC_MAX ((size_t)16 * 1024 * 1024)

struct versions_reading {
    struct arena *arena;
    struct s3xml_version_list *out;
    void *items;
    size_t room;
    struct s3xml_version_entry *item; /* the one under way; NULL between items */
    bool url;
};

static enum err
versions_open(void *arg, unsigned depth, struct span name)
{
    struct versions_reading *r = arg;
    bool marker = span_is(name, "DeleteMarker");

    if (depth == 0)
        return span_is(name, "ListVersionsResult") ? ERR_OK : ERR_BAD_REQUEST;
    if (depth != 1 || (!marker && !span_is(name, "Version")))
        return ERR_OK;
    r->item = s3xml_grow(r->arena, &r->items, &r->room, r->out->count, sizeof *r->item);
    if (r->item == NULL)
        return ERR_TOO_LARGE;
    r->item->is_marker = marker;
    return ERR_OK;
}

static enum err
version_field(struct versions_reading *r, struct span name, struct span text)
{
    struct s3xml_version_entry *e = r->item;
    struct span trimmed = span_trim(text);
    bool kept = true;

    if (span_is(name, "Key"))
        kept = s3xml_keep(r->arena, text, &e->key);
    else if (span_is(name, "VersionId"))
        kept = s3xml_keep(r->arena, trimmed, &e->version_id);
    else if (span_is(name, "ETag"))
        kept = s3xml_keep(r->arena, etag_unquote(text), &e->etag);
    else if (span_is(name, "IsLatest"))
        e->is_latest = span_case_is(trimmed, "true");
    else if (span_is(name, "Size"))
        return num_u64(trimmed, &e->size);
    else if (span_is(name, "LastModified"))
        return date_iso_parse(trimmed, &e->mtime_ms);
    return kept ? ERR_OK : ERR_TOO_LARGE;
}

static enum err
versions_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct versions_reading *r = arg;
    bool kept = true;

    if (depth == 2 && r->item != NULL)
        return version_field(r, name, text);
    if (depth != 1)
        return ERR_OK;
    if (r->item != NULL) {
        if (r->item->key.len == 0 || r->item->version_id.len == 0)
            return ERR_BAD_REQUEST;
        r->out->count++;
        r->item = NULL;
    } else if (span_is(name, "IsTruncated")) {
        r->out->truncated = span_case_is(span_trim(text), "true");
    } else if (span_is(name, "EncodingType")) {
        r->url = span_case_is(span_trim(text), "url");
    } else if (span_is(name, "NextKeyMarker")) {
        kept = s3xml_keep(r->arena, text, &r->out->next_key);
    } else if (span_is(name, "NextVersionIdMarker")) {
        kept = s3xml_keep(r->arena, span_trim(text), &r->out->next_id);
    }
    return kept ? ERR_OK : ERR_TOO_LARGE;
}

enum err
s3xml_versions_parse(struct span doc, struct arena *a, struct s3xml_version_list *out,
                     struct errbuf *eb)
{
    struct versions_reading r = {.arena = a, .out = out};
    struct xml_handler h = {.on_open = versions_open,
                            .on_close = versions_close,
                            .arg = &r,
                            .size_max = DOC_MAX};
    enum err rc;

    *out = (struct s3xml_version_list){0};
    rc = xml_read(doc, &h, eb);
    if (rc != ERR_OK) {
        err_prefix(eb, "ListVersionsResult");
        *out = (struct s3xml_version_list){0};
        return rc;
    }
    out->entries = r.items;
    for (size_t i = 0; r.url && i < out->count; i++)
        if (!s3xml_decode_key(&out->entries[i].key))
            rc = ERR_BAD_REQUEST;
    if (r.url && out->next_key.len > 0 && !s3xml_decode_key(&out->next_key))
        rc = ERR_BAD_REQUEST;
    return rc == ERR_OK ? rc
                        : err_set(eb, rc, "ListVersionsResult: a key with a bad escape");
}
