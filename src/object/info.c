/* info: one form for index entries, metadata and the answers of backends. */
#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "object/internal.h"
#include "wire/etag.h"

void
etag_of(const uint8_t md5[16], uint32_t parts, struct span text, char out[160])
{
    size_t n = MIN(text.len, 159);

    static_assert(ETAG_TEXT_MAX <= 160, "an ETag fits");
    if (text.len == 0) {
        etag_text(md5, parts, out);
        return;
    }
    assert(n < 160);
    memcpy(out, text.at, n);
    out[n] = '\0';
}

void
info_from_meta(const struct entry *entry, const struct object_meta *meta,
               struct object_info *out)
{
    assert(meta->chunk_bytes == 0 || meta->whole_bytes > 0);
    out->size = meta->whole_bytes > 0 ? meta->whole_bytes : entry->size;
    out->chunk_bytes = meta->chunk_bytes;
    out->mtime_ms = entry->mtime_ms;
    out->overwrites = entry->overwrites;
    out->meta = *meta;
    out->meta.whole_bytes = 0; /* of this entry only: not to be copied */
    out->meta.chunk_bytes = 0;
    version_of_entry(entry, &out->version);
    etag_of(meta->md5, meta->parts, meta->etag_text, out->etag);
}

enum err
info_from_entry(struct object_service *s, const struct disks_key *k,
                const struct entry *entry, struct arena *a, struct object_info *out,
                struct errbuf *eb)
{
    struct object_meta meta = {.mtime_ms = entry->mtime_ms, .parts = entry->parts};

    memset(out, 0, sizeof *out);
    memcpy(meta.md5, entry->md5, sizeof meta.md5);
    if ((entry->flags & (ENTRY_PLAIN | ENTRY_ETAG_TEXT)) != ENTRY_PLAIN) {
        enum err rc = disks_meta(s->options.disks, k, entry, a, &meta, eb);

        if (rc != ERR_OK)
            return rc;
    }
    info_from_meta(entry, &meta, out);
    return ERR_OK;
}

void
info_copy(struct arena *a, const struct object_info *from, struct object_info *out)
{
    *out = *from;
    meta_copy(a, &from->meta, &out->meta);
}

/* A FULL_OBJECT checksum of the backend is kept and returned; other kinds cannot be verified here. */
static enum err
checksum_from_backend(const struct s3_object_info *from, struct arena *a,
                      struct object_meta *out)
{
    struct checksum_value v;
    enum checksum_kind kind;
    char *bytes;

    if (from->checksum_value.len == 0 ||
        (from->checksum_type.len > 0 &&
         !span_case_is(from->checksum_type, "FULL_OBJECT")) ||
        memchr(from->checksum_value.at, '-', from->checksum_value.len) != NULL)
        return ERR_OK;
    if (checksum_of_name(from->checksum_name, &kind, NULL) != ERR_OK ||
        checksum_parse(kind, from->checksum_value, &v, NULL) != ERR_OK)
        return ERR_OK;
    bytes = arena_alloc(a, checksum_len(kind));
    memcpy(bytes, v.bytes, checksum_len(kind));
    out->checksum_algorithm = (uint8_t)kind;
    out->checksum_type = CHECKSUM_FULL_OBJECT;
    out->checksum = (struct span){bytes, checksum_len(kind)};
    return ERR_OK;
}

/* Rejects metadata that cannot be stored before the first byte goes out. */
static enum err
check_room(const struct object_meta *meta, struct errbuf *eb)
{
    struct object_meta most = *meta;

    most.whole_bytes = UINT64_MAX;
    most.chunk_bytes = UINT32_MAX;
    if (meta_check(&most, eb) == ERR_OK)
        return ERR_OK;
    err_prefix(eb, "the backend's headers of the object");
    return ERR_BACKEND;
}

enum err
meta_from_backend(const struct s3_object_info *from, struct arena *a,
                  struct object_meta *out, struct errbuf *eb)
{
    struct object_pair *user = NULL;
    unsigned parts = 0;
    enum err rc;

    if (from->etag.len >= 160)
        return err_set(eb, ERR_BACKEND,
                       "the backend's ETag has %zu bytes, at most 159 are kept",
                       from->etag.len);
    *out = (struct object_meta){
        .mtime_ms = from->mtime_ms,
        .content_type = from->content_type,
        .cache_control = from->cache_control,
        .content_disposition = from->content_disposition,
        .content_encoding = from->content_encoding,
        .content_language = from->content_language,
        .expires = from->expires,
        .backend_version = from->version_id,
    };
    if (span_is(out->content_type, "binary/octet-stream"))
        out->content_type = (struct span){NULL, 0};
    if (!span_is(from->storage_class, "STANDARD"))
        out->storage_class = from->storage_class;
    if (etag_parse(from->etag, out->md5, &parts))
        out->parts = parts;
    else if (from->etag.len > 0)
        out->etag_text = from->etag;
    else /* none, or a weak one: make one from time and length, as web servers do */
        out->etag_text = span_of(arena_printf(a, "%llx-%llx",
                                              (unsigned long long)from->mtime_ms / 1000,
                                              (unsigned long long)from->size));
    if (from->user_count > 0)
        user = arena_alloc(a, from->user_count * sizeof *user);
    for (uint32_t i = 0; i < from->user_count; i++)
        user[i] = (struct object_pair){from->user[i].name, from->user[i].value};
    out->user = user;
    out->user_count = from->user_count;
    rc = checksum_from_backend(from, a, out);
    return rc == ERR_OK ? check_room(out, eb) : rc;
}
