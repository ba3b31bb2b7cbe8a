#include "object/local.h"

#include <string.h>

#include "base/mem.h"
#include "object/internal.h"
#include "object/revalidate.h"
#include "object/tier.h"
#include "rt/fiber.h"

static enum object_fate
fate_of(const struct object_local *h, const struct entry *entry,
        const struct tier_view *view)
{
    if (!h->cached)
        return FATE_STAYS;
    if ((entry->flags & ENTRY_IN_DOUBT) != 0)
        return FATE_IN_DOUBT;
    if (h->pin != NULL)
        return FATE_PINNED;
    if ((uint64_t)view->reads * ACCESS_FREQ_ONE > h->where.at.access_freq)
        return FATE_READ_MORE;
    return h->where.at.access_freq <= view->coldest ? FATE_COLDEST : FATE_LATER;
}

static enum err
local_look(struct object_service *s, const struct map_bucket *b, struct span key,
           struct arena *a, struct entry *entry, struct object_local *out,
           struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    struct tier_view view;
    enum err rc;

    *entry = (struct entry){0};
    rc = disks_lookup(s->options.disks, &k, entry, eb);
    if (rc == ERR_OK)
        rc = info_from_entry(s, &k, entry, a, &out->info, eb);
    if (rc == ERR_OK) /* the entry does not have the checksum */
        rc = disks_meta(s->options.disks, &k, entry, a, &out->info.meta, eb);
    if (rc == ERR_OK)
        rc = object_present(s, b, key, &out->present, eb);
    if (rc == ERR_OK)
        rc = disks_where(s->options.disks, entry, &out->where, eb);
    if (rc != ERR_OK)
        return rc;
    out->cached = (entry->flags & ENTRY_CACHED) != 0;
    out->copies = out->cached ? 1 : MAX(b->copies, 1u);
    out->pin = tier_pin_of(b, key);
    tier_view(s, b, key, &view);
    out->reads = view.reads;
    out->ttl_left_ms = revalidate_left_ms(s, b, key, entry);
    out->fate = fate_of(out, entry, &view);
    return ERR_OK;
}

enum err
object_local(struct object_service *s, const struct map_bucket *b, struct span key,
             struct arena *a, struct object_local *out, struct errbuf *eb)
{
    struct rt_retries retries;
    struct entry entry;
    bool replaced;
    enum err rc;

    rt_retries_begin(&retries);
    do { /* it may be replaced, or relocated, between two lookups */
        *out = (struct object_local){0};
        rc = local_look(s, b, key, a, &entry, out, eb);
        replaced = rc == ERR_NOT_FOUND && entry.version.epoch != 0;
    } while (replaced && rt_retry());
    rt_retries_end(&retries);
    return rc;
}

static bool
begins_with(struct span key, struct span prefix)
{
    return key.len >= prefix.len && memcmp(key.at, prefix.at, prefix.len) == 0;
}

/* Entries of objects in chunks have no size of their own. An object that was replaced meanwhile is shown as it
 * was. */
static enum err
whole_sizes(struct object_service *s, const struct map_bucket *b,
            struct object_local_entry *to, const struct store_entry *from, uint32_t count,
            struct arena *a, struct errbuf *eb)
{
    for (uint32_t i = 0; i < count; i++) {
        struct disks_key k = object_disk_key(b, from[i].key);
        struct object_present present = {0};
        struct object_meta meta = {0};
        enum err rc;

        if (!to[i].chunks)
            continue;
        rc = disks_meta(s->options.disks, &k, &from[i].entry, a, &meta, eb);
        if (rc == ERR_OK)
            rc = object_present(s, b, from[i].key, &present, eb);
        if (rc != ERR_OK && rc != ERR_NOT_FOUND)
            return rc;
        to[i].size = meta.whole_bytes;
        to[i].chunk_count = present.chunks;
        to[i].chunks_here = present.chunks_here;
        to[i].here_bytes = present.here;
    }
    return ERR_OK;
}

enum err
object_local_page(struct object_service *s, const struct map_bucket *b,
                  struct span prefix, struct span from, uint32_t max, struct arena *a,
                  struct object_local_entry **out, uint32_t *count, bool *more,
                  struct errbuf *eb)
{
    struct span begin = span_cmp(from, prefix) > 0 ? from : prefix;
    struct store_entry *entries = NULL;
    uint32_t n = 0;
    enum err rc =
        disks_list(s->options.disks, b->id, b->cached ? 1 : MAX(b->copies, 1u), begin,
                   true, MIN(max, OBJECT_LOCAL_PAGE), a, &entries, &n, more, eb);

    *count = 0;
    if (rc != ERR_OK)
        return rc;
    *out = arena_try(a, (n + 1) * sizeof **out);
    if (*out == NULL)
        return err_set(eb, ERR_TOO_LARGE, "%u keys are too many for one page", n);
    for (uint32_t i = 0; i < n; i++) {
        if (!begins_with(entries[i].key, prefix)) {
            *more = false;
            break;
        }
        (*out)[(*count)++] = (struct object_local_entry){
            .key = entries[i].key,
            .size = entries[i].entry.size,
            .chunks = (entries[i].entry.flags & ENTRY_CHUNKS) != 0,
            .pinned = tier_is_pinned(b, entries[i].key),
            .in_doubt = (entries[i].entry.flags & ENTRY_IN_DOUBT) != 0};
    }
    return whole_sizes(s, b, *out, entries, *count, a, eb);
}
