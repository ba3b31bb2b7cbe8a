#include "api/share.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

static enum err
share_keys(struct object_service *s, const struct map_bucket *b,
           const struct share_ask *ask, struct arena *a, struct share_page *out,
           struct errbuf *eb)
{
    struct object_list_options o = {.prefix = ask->prefix,
                                    .delimiter = ask->delimiter,
                                    .after = ask->after,
                                    .max = ask->max};
    struct object_page page = {0};
    enum err rc = object_list(s, b, &o, a, &page, eb);

    if (rc != ERR_OK)
        return rc;
    out->entries = arena_alloc(a, (page.count + 1) * sizeof *out->entries);
    for (uint32_t i = 0; i < page.count; i++) {
        const struct object_entry *e = &page.entries[i];

        out->entries[i] = (struct share_entry){.name = e->name,
                                               .is_prefix = e->is_prefix,
                                               .size = e->size,
                                               .time_ms = e->mtime_ms,
                                               .etag = e->etag};
    }
    out->count = page.count;
    out->truncated = page.truncated;
    out->stale = page.stale;
    out->next = page.next_after;
    return ERR_OK;
}

static enum err
share_versions(struct object_service *s, const struct map_bucket *b,
               const struct share_ask *ask, struct arena *a, struct share_page *out,
               struct errbuf *eb)
{
    struct object_version_list o = {.prefix = ask->prefix,
                                    .delimiter = ask->delimiter,
                                    .after = ask->after,
                                    .max = ask->max};
    struct object_version_page page = {0};
    struct object_version version;
    enum err rc;

    if (ask->after_sub.len > 0) {
        if (!object_version_parse(ask->after_sub, &version))
            return err_set(eb, ERR_BAD_REQUEST, "bad version in a request for names");
        o.after_version = &version;
    }
    rc = object_version_list(s, b, &o, a, &page, eb);
    if (rc != ERR_OK)
        return rc;
    out->entries = arena_alloc(a, (page.count + 1) * sizeof *out->entries);
    for (uint32_t i = 0; i < page.count; i++) {
        const struct object_version_entry *e = &page.entries[i];

        out->entries[i] = (struct share_entry){.name = e->name,
                                               .is_prefix = e->is_prefix,
                                               .is_marker = e->is_marker,
                                               .latest = e->latest,
                                               .size = e->size,
                                               .time_ms = e->mtime_ms,
                                               .etag = span_of(e->etag)};
        if (!e->is_prefix)
            object_version_text(&e->version, out->entries[i].version);
    }
    out->count = page.count;
    out->truncated = page.truncated;
    out->stale = page.stale;
    return ERR_OK;
}

static enum err
share_uploads(struct object_service *s, const struct map_bucket *b,
              const struct share_ask *ask, struct arena *a, struct share_page *out,
              struct errbuf *eb)
{
    struct object_upload_list_options o = {.prefix = ask->prefix,
                                           .delimiter = ask->delimiter,
                                           .after_key = ask->after,
                                           .after_id = ask->after_sub,
                                           .max = ask->max};
    struct object_upload_page page = {0};
    enum err rc = object_upload_list(s, b, &o, a, &page, eb);

    if (rc != ERR_OK)
        return rc;
    out->entries = arena_alloc(a, (page.count + 1) * sizeof *out->entries);
    for (uint32_t i = 0; i < page.count; i++) {
        const struct object_upload *e = &page.entries[i];

        out->entries[i] = (struct share_entry){.name = e->key,
                                               .is_prefix = e->upload_id.len == 0,
                                               .etag = e->upload_id,
                                               .algorithm = e->checksum_algorithm,
                                               .type = e->checksum_type,
                                               .time_ms = e->begun_ms};
    }
    out->count = page.count;
    out->truncated = page.truncated;
    return ERR_OK;
}

enum err
share_list(struct object_service *s, const struct map_bucket *b,
           const struct share_ask *ask, struct arena *a, struct share_page *out,
           struct errbuf *eb)
{
    const struct share_entry *last;
    enum err rc;

    assert(ask->max > 0 && ask->max <= SHARE_NAMES_MAX);
    *out = (struct share_page){0};
    rc = ask->kind == SHARE_KEYS       ? share_keys(s, b, ask, a, out, eb)
         : ask->kind == SHARE_VERSIONS ? share_versions(s, b, ask, a, out, eb)
                                       : share_uploads(s, b, ask, a, out, eb);
    if (rc != ERR_OK || out->count == 0)
        return rc;
    last = &out->entries[out->count - 1];
    if (out->next.len == 0)
        out->next = last->name;
    if (!last->is_prefix)
        out->next_sub = ask->kind == SHARE_UPLOADS    ? last->etag
                        : ask->kind == SHARE_VERSIONS ? span_of(last->version)
                                                      : (struct span){"", 0};
    return ERR_OK;
}

enum err
share_list_owned(const struct nodes *n, struct object_service *s,
                 const struct map_bucket *b, const struct share_ask *ask, struct arena *a,
                 struct share_page *out, struct errbuf *eb)
{
    enum err rc = share_list(s, b, ask, a, out, eb);
    uint32_t kept = 0;

    for (uint32_t i = 0; rc == ERR_OK && i < out->count; i++)
        if (out->entries[i].is_prefix || nodes_places_here(n, b, out->entries[i].name))
            out->entries[kept++] = out->entries[i];
    if (rc == ERR_OK)
        out->count = kept;
    return rc;
}
