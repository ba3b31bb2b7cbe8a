#include "disk/hole.h"

#include "disk/change_moved.h"
#include "disk/find.h"
#include "disk/segment.h"

#define PAGE 256u
/* Buckets from here on hold chunks: each names the version it is of. */
#define CHUNK_BUCKETS (UINT64_C(1) << 63)

/* ---- which kind ---- */

/* A scan that began at the index's position does not know of which start the group before it is. What stands behind the
 * log's end from earlier lives is older than that. */
static bool
is_of_this_life(struct log_scan *scan, const struct log_behind *behind)
{
    if (scan->epoch == 0 && scan->offset > DISK_ALIGN)
        scan->epoch = log_scan_epoch_before(scan);
    return behind->epoch >= scan->epoch;
}

/* Where the last member stands that was seen. */
static enum err
note_end(void *arg, struct member *m)
{
    *(uint64_t *)arg = member_end(m);
    return ERR_OK;
}

/* Nothing tells of these groups but what was promised. */
static enum hole
look_at_end(const struct disk *d, struct log_scan *scan, struct log_behind *behind)
{
    uint64_t there = retired_there(&d->home.retired);
    bool whole;

    *behind = (struct log_behind){.group = there + 1, .epoch = scan->epoch};
    if (there < scan->group ||
        log_scan_salvage(scan, scan->source.size, there + 1, note_end, &behind->offset,
                         &whole, NULL) != ERR_OK ||
        !whole)
        return HOLE_END;
    return HOLE_DAMAGE;
}

uint64_t
hole_lost_end(const struct disk *d, uint64_t wanted)
{
    uint64_t there = retired_there(&d->home.retired);

    return there >= wanted ? there : 0;
}

uint64_t
hole_number_behind(const struct disk *d)
{
    uint64_t most = retired_there(&d->home.retired);

    LIST_EACH(&d->home.segments_of[DISK_CACHED], n)
    {
        const struct segment *s = LIST_ENTRY(n, struct segment, home.of_class);

        if (s->kind == SEGMENT_LOG)
            most = MAX(most, s->first_group + s->home.size / DISK_ALIGN);
    }
    return most + LOG_BYTES_MOST / DISK_ALIGN + 1; /* one whose header is damaged, too */
}

enum hole
hole_look(const struct disk *d, struct log_scan *scan, uint64_t far,
          struct log_behind *behind)
{
    bool found = log_scan_behind(scan, far, behind);

    if (found && !is_of_this_life(scan, behind))
        found = log_scan_behind(scan, far, behind);
    if (!found)
        return look_at_end(d, scan, behind);
    if (retired_covers_cut(&d->home.retired, scan->group, behind->group - 1))
        return HOLE_CUT;
    if (behind->unsynced > scan->group || d->home.retired.relied >= scan->group)
        return HOLE_DAMAGE;
    /* Further away no start has looked, so it may be from a life before the last. */
    return behind->offset - scan->offset <= GROUP_MAX ? HOLE_CUT
                                                      : look_at_end(d, scan, behind);
}

bool
hole_log_proves(const struct disk *d, const struct scan_source *source,
                uint64_t first_group, uint64_t epoch, uint64_t wanted)
{
    struct log_scan scan;
    struct log_behind behind;
    enum scanned got;
    bool proves;

    if (retired_there(&d->home.retired) >= wanted)
        return true;
    log_scan_begin(&scan, source, DISK_ALIGN, first_group, epoch);
    got = log_scan_next(&scan, NULL);
    if (got == SCAN_GROUP)
        proves = scan.members[0].unsynced > wanted;
    else
        proves = got == SCAN_END && log_scan_behind(&scan, GROUP_MAX, &behind) &&
                 behind.unsynced > wanted;
    log_scan_end(&scan);
    return proves;
}

/* ---- what is not believed ---- */

void
hole_begin_behind(struct disk *d, uint64_t group)
{
    const struct retired *r = &d->home.retired;

    d->home.behind_hole = retired_hole_before(r, group);
    d->home.behind_damage = r->damaged != 0 && r->damaged <= group;
}

bool
hole_hides(const struct disk *d, const struct member *m)
{
    return d->home.behind_hole && m->kind == MEMBER_DOUBT_CLEAR;
}

static enum err
distrust(struct changes *c, uint64_t bucket, struct span key, const struct row *row,
         struct errbuf *eb)
{
    struct member m = {
        .kind = MEMBER_DOUBT, .bucket = bucket, .key = key, .version = row->version};
    struct row gone = {.flags = ROW_TOMBSTONE | ROW_CACHED, .version = row->version};

    if (bucket >= CHUNK_BUCKETS || (row->flags & ROW_CACHED) == 0 || !row_is_object(row))
        return ERR_OK;
    if ((row->flags & ROW_CHUNKS) != 0)
        return changes_apply(c, &m, NULL, eb);
    if (c->run == NULL)
        c->run = run_new();
    return changes_put(c, &m, &gone, eb);
}

enum err
hole_moved(struct changes *c, const struct member *m, const struct row *row,
           struct errbuf *eb)
{
    if (!c->disk->home.behind_damage || m->kind != MEMBER_MOVED || m->part > 0)
        return ERR_OK;
    return distrust(c, m->bucket, m->key, row, eb);
}

static enum err
distrust_bucket(struct disk *d, struct changes *c, uint64_t bucket, hole_flush_fn *flush,
                void *arg, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    char after[DISK_KEY_MAX];
    size_t len = 0;
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct disk_entry *entries;
        uint32_t count = 0;

        arena_reset(a);
        rc = list_objects(d->tail, d->index, bucket, (struct span){after, len}, len == 0,
                          PAGE, a, &entries, &count, &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++)
            rc = distrust(c, bucket, entries[i].key, &entries[i].row, eb);
        if (rc != ERR_OK || count == 0)
            break;
        len = entries[count - 1].key.len;
        memcpy(after, entries[count - 1].key.at, len);
        changes_publish(c);
        if (tail_bytes(d->tail) > d->o.tail_bytes)
            rc = flush(arg, eb);
    }
    arena_free(&a);
    return rc;
}

enum err
hole_distrust(struct disk *d, struct changes *c, hole_flush_fn *flush, void *arg,
              struct errbuf *eb)
{
    uint64_t bucket = 0;
    enum err rc = flush(arg, eb);

    while (rc == ERR_OK) {
        rc = index_bucket(d->index, bucket, &bucket, eb);
        if (rc != ERR_OK || bucket >= CHUNK_BUCKETS)
            break;
        rc = distrust_bucket(d, c, bucket, flush, arg, eb);
        bucket++;
    }
    if (rc == ERR_NOT_FOUND)
        rc = ERR_OK;
    return rc == ERR_OK ? flush(arg, eb) : rc;
}
