/* where: where an object lies, for people's eyes. */
#include <string.h>

#include "base/mem.h"
#include "disk/health.h"
#include "disk/heat.h"
#include "disk/index.h"
#include "disk/segment.h"

/* Of a pinned segment, or of a body's own, which is opened by name. */
static enum err
read_header(struct disk *d, const struct row *row, struct disk_where *out,
            struct errbuf *eb)
{
    enum disk_class class = (row->flags & ROW_CACHED) != 0 ? DISK_CACHED : DISK_NATIVE;
    struct segment *s = segment_pin(d, row->segment);
    char name[SEGMENT_NAME_ROOM];
    struct rt_file *f = NULL;
    struct member head;
    enum err rc = ERR_OK;

    if (s == NULL) {
        segment_name(SEGMENT_ONE, row->segment, name);
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
disk_where(struct disk *d, const struct row *row, struct disk_where *out,
           struct errbuf *eb)
{
    struct index_segment seen = {0};
    enum disk_class class = (row->flags & ROW_CACHED) != 0 ? DISK_CACHED : DISK_NATIVE;
    enum err rc = health_may_read(d->health, eb);

    *out = (struct disk_where){.segment = row->segment, .offset = row->offset};
    if (rc == ERR_OK)
        rc = read_header(d, row, out, eb);
    if (rc == ERR_OK)
        rc = index_segment(d->index, class, row->segment, &seen, eb);
    if (rc == ERR_NOT_FOUND) /* it came just now: the index has not heard of it */
        rc = ERR_OK;
    out->living = seen.living > 0 ? (uint64_t)seen.living : 0;
    if (class == DISK_CACHED)
        out->heat =
            heat_of(d->heat, row->segment, MAX(out->living, (uint64_t)row_weight(row)));
    return rc;
}
