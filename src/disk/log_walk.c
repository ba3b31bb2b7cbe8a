#include "disk/log_walk.h"

#include "disk/segment.h"

struct walk {
    log_salvage_fn *fn;
    void *arg;
    void (*on_bytes)(void *arg, uint64_t bytes);
};

/* What stands where no whole group does; false: nothing more in this segment. */
static bool
walk_damage(const struct walk *w, struct log_scan *scan, enum err *rc, struct errbuf *eb)
{
    struct log_behind behind;
    bool more = log_scan_behind(scan, UINT64_MAX, &behind), whole;
    uint64_t to = more ? behind.offset : scan->source.size;

    *rc = log_scan_salvage(scan, to, UINT64_MAX, w->fn, w->arg, &whole, eb);
    if (more)
        log_scan_go(scan, &behind);
    return more && *rc == ERR_OK;
}

static enum err
walk_segment(const struct walk *w, struct disk *d, struct segment *s, struct errbuf *eb)
{
    struct scan_source source = {.file = s->file,
                                 .segment = s->id,
                                 .generation = s->generation,
                                 .size = s->home.size,
                                 .cluster_sum = d->cluster_sum};
    struct log_scan scan;
    enum scanned got = SCAN_GROUP;
    enum err rc = ERR_OK;

    log_scan_begin(&scan, &source, DISK_ALIGN, 0, 0);
    while (rc == ERR_OK && got == SCAN_GROUP) {
        uint64_t before = scan.offset;

        got = log_scan_next(&scan, eb);
        for (uint32_t i = 0; rc == ERR_OK && got == SCAN_GROUP && i < scan.count; i++)
            rc = w->fn(w->arg, &scan.members[i]);
        if (got == SCAN_END && walk_damage(w, &scan, &rc, eb))
            got = SCAN_GROUP;
        if (w->on_bytes != NULL)
            w->on_bytes(w->arg, scan.offset - before);
    }
    log_scan_end(&scan);
    if (rc == ERR_OK && (got == SCAN_ERROR || got == SCAN_NEWER))
        rc = got == SCAN_ERROR ? ERR_IO : ERR_NOT_BUILT;
    return rc;
}

enum err
log_walk(struct disk *d, enum disk_class class, log_salvage_fn *fn, void *arg,
         void (*on_bytes)(void *arg, uint64_t bytes), struct errbuf *eb)
{
    struct walk w = {fn, arg, on_bytes};
    enum err rc = ERR_OK;

    LIST_EACH(&d->home.segments_of[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, home.of_class);

        if (rc == ERR_OK && s->kind == SEGMENT_LOG)
            rc = walk_segment(&w, d, s, eb);
    }
    return rc;
}
