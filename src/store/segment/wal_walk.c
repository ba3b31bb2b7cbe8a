#include "store/segment/wal_walk.h"

#include "store/core/core.h"
#include "store/record/format.h"
#include "store/segment/scan.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"

struct walk {
    wal_salvage_fn *fn;
    void *arg;
    void (*on_bytes)(void *arg, uint64_t bytes);
};

/* Handles a position without a whole batch; false: nothing more in this segment. */
static bool
walk_damage(const struct walk *w, struct wal_scan *scan, enum err *rc, struct errbuf *eb)
{
    struct wal_scan_next_batch behind;
    bool more = wal_scan_find_next(scan, UINT64_MAX, &behind), whole;
    uint64_t to = more ? behind.offset : scan->source.size;

    *rc = wal_scan_salvage(scan, to, UINT64_MAX, w->fn, w->arg, &whole, eb);
    if (more)
        wal_scan_resume(scan, &behind);
    return more && *rc == ERR_OK;
}

static enum err
wal_walk_segment(const struct walk *w, struct store *d, struct segment *s,
                 struct errbuf *eb)
{
    struct scan_source source = {.file = s->file,
                                 .segment = s->id,
                                 .generation = s->generation,
                                 .size = s->owner.size,
                                 .cluster_sum = d->cluster_sum};
    struct wal_scan scan;
    enum scanned got = SCAN_BATCH;
    enum err rc = ERR_OK;

    wal_scan_begin(&scan, &source, STORE_ALIGN, 0, 0);
    while (rc == ERR_OK && got == SCAN_BATCH) {
        uint64_t before = scan.offset;

        got = wal_scan_next(&scan, eb);
        for (uint32_t i = 0; rc == ERR_OK && got == SCAN_BATCH && i < scan.count; i++)
            rc = w->fn(w->arg, &scan.records[i]);
        if (got == SCAN_END && walk_damage(w, &scan, &rc, eb))
            got = SCAN_BATCH;
        if (w->on_bytes != NULL)
            w->on_bytes(w->arg, scan.offset - before);
    }
    wal_scan_end(&scan);
    if (rc == ERR_OK && (got == SCAN_ERROR || got == SCAN_NEWER))
        rc = got == SCAN_ERROR ? ERR_IO : ERR_NOT_IMPLEMENTED;
    return rc;
}

enum err
wal_walk(struct store *d, enum store_class class, wal_salvage_fn *fn, void *arg,
         void (*on_bytes)(void *arg, uint64_t bytes), struct errbuf *eb)
{
    struct walk w = {fn, arg, on_bytes};
    enum err rc = ERR_OK;

    LIST_EACH(&d->segments->of_class[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, owner.of_class);

        if (rc == ERR_OK && s->kind == SEGMENT_LOG)
            rc = wal_walk_segment(&w, d, s, eb);
    }
    return rc;
}
