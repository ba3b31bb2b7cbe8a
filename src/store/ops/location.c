/* location: where an object is stored, for display. */
#include <string.h>

#include "base/mem.h"
#include "store/core/core.h"
#include "store/health/health.h"
#include "store/index/entry.h"
#include "store/index/index.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/access_freq.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/store_space.h"

/* Fills in a pinned segment, or a segment of one body, which it opens by name. */
static enum err
location_read_header(struct store *d, const struct entry *entry,
                     struct store_location *out, struct errbuf *eb)
{
    enum store_class class =
        (entry->flags & ENTRY_CACHED) != 0 ? STORE_CACHED : STORE_NATIVE;
    struct segment *s = segment_pin(d, entry->place.segment);
    char name[SEGMENT_NAME_ROOM];
    struct rt_file *f = NULL;
    struct log_record head;
    enum err rc = ERR_OK;

    if (s == NULL) {
        segment_name(SEGMENT_ONE, entry->place.segment, name);
        rc = rt_open(d->dir[class], name, 0, 0, &f, eb);
    }
    if (rc == ERR_OK)
        rc = segment_header_read(s != NULL ? s->file : f, &head, eb);
    out->kind = segment_kind_name(s != NULL ? s->kind : SEGMENT_ONE);
    if (rc == ERR_OK)
        out->segment_made_ms = head.mtime_ms;
    rt_file_close(&f);
    segment_drop(&s);
    return rc;
}

enum err
store_location(struct store *d, const struct entry *entry, struct store_location *out,
               struct errbuf *eb)
{
    struct index_segment seen = {0};
    enum store_class class =
        (entry->flags & ENTRY_CACHED) != 0 ? STORE_CACHED : STORE_NATIVE;
    enum err rc = health_may_read(d->health, eb);

    *out = (struct store_location){.segment = entry->place.segment,
                                   .offset = entry->place.offset};
    if (rc == ERR_OK)
        rc = location_read_header(d, entry, out, eb);
    if (rc == ERR_OK)
        rc = index_segment(d->index, class, entry->place.segment, &seen, eb);
    if (rc == ERR_NOT_FOUND) /* new: the index does not have it yet */
        rc = ERR_OK;
    out->living = seen.living > 0 ? (uint64_t)seen.living : 0;
    if (class == STORE_CACHED)
        out->access_freq =
            access_freq_of(d->access_freq, entry->place.segment,
                           MAX(out->living, (uint64_t)entry_weight(entry)));
    return rc;
}
