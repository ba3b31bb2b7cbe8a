#include "store/recover/log_gap.h"

#include "store/core/core.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/index/list.h"
#include "store/index/memtable.h"
#include "store/index/run.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/recover/recovery.h"
#include "store/segment/scan.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/wal/change.h"
#include "store/wal/change_relocation.h"
#include "store/wal/truncated.h"
#include "store/wal/wal.h"

#define PAGE 256u
/* Buckets from here on hold chunks: each names the version it is of. */
#define CHUNK_BUCKETS (UINT64_C(1) << 63)

/* ---- which kind ---- */

/* A scan that began at the index's position does not know of which start the batch before it is. What stands behind the
 * log's end from earlier lives is older than that. */
static bool
is_of_this_life(struct wal_scan *scan, const struct wal_scan_next_batch *behind)
{
    if (scan->epoch == 0 && scan->offset > STORE_ALIGN)
        scan->epoch = wal_scan_epoch_before(scan);
    return behind->epoch >= scan->epoch;
}

/* Where the last record stands that was seen. */
static enum err
note_end(void *arg, struct log_record *m)
{
    *(uint64_t *)arg = log_record_end(m);
    return ERR_OK;
}

/* Nothing tells of these batches but what was promised. */
static enum log_gap
look_at_end(const struct store *d, struct wal_scan *scan,
            struct wal_scan_next_batch *behind)
{
    uint64_t there = truncated_durable_mark(&d->wals->truncated);
    bool whole;

    *behind = (struct wal_scan_next_batch){.batch = there + 1, .epoch = scan->epoch};
    if (there < scan->batch ||
        wal_scan_salvage(scan, scan->source.size, there + 1, note_end, &behind->offset,
                         &whole, NULL) != ERR_OK ||
        !whole)
        return LOG_GAP_NONE;
    return LOG_GAP_DAMAGE;
}

uint64_t
log_gap_lost_end(const struct store *d, uint64_t wanted)
{
    uint64_t there = truncated_durable_mark(&d->wals->truncated);

    return there >= wanted ? there : 0;
}

uint64_t
log_gap_number_after(const struct store *d)
{
    uint64_t most = truncated_durable_mark(&d->wals->truncated);

    LIST_EACH(&d->segments->of_class[STORE_CACHED], n)
    {
        const struct segment *s = LIST_ENTRY(n, struct segment, owner.of_class);

        if (s->kind == SEGMENT_LOG)
            most = MAX(most, s->first_batch + s->owner.size / STORE_ALIGN);
    }
    return most + LOG_BYTES_MOST / STORE_ALIGN + 1; /* one whose header is damaged, too */
}

enum log_gap
log_gap_find(const struct store *d, struct wal_scan *scan, uint64_t far,
             struct wal_scan_next_batch *behind)
{
    bool found = wal_scan_find_next(scan, far, behind);

    if (found && !is_of_this_life(scan, behind))
        found = wal_scan_find_next(scan, far, behind);
    if (!found)
        return look_at_end(d, scan, behind);
    if (truncated_covers_lost(&d->wals->truncated, scan->batch, behind->batch - 1))
        return LOG_GAP_LOST;
    if (behind->unsynced > scan->batch ||
        d->wals->truncated.mark_at_removal >= scan->batch)
        return LOG_GAP_DAMAGE;
    /* Further away no start has looked, so it may be from a life before the last. */
    return behind->offset - scan->offset <= BATCH_MAX ? LOG_GAP_LOST
                                                      : look_at_end(d, scan, behind);
}

bool
log_gap_log_proves(const struct store *d, const struct scan_source *source,
                   uint64_t first_batch, uint64_t epoch, uint64_t wanted)
{
    struct wal_scan scan;
    struct wal_scan_next_batch behind;
    enum scanned got;
    bool proves;

    if (truncated_durable_mark(&d->wals->truncated) >= wanted)
        return true;
    wal_scan_begin(&scan, source, STORE_ALIGN, first_batch, epoch);
    got = wal_scan_next(&scan, NULL);
    if (got == SCAN_BATCH)
        proves = scan.records[0].unsynced > wanted;
    else
        proves = got == SCAN_END && wal_scan_find_next(&scan, BATCH_MAX, &behind) &&
                 behind.unsynced > wanted;
    wal_scan_end(&scan);
    return proves;
}

/* ---- what is not believed ---- */

void
log_gap_begin_after(struct store *d, uint64_t batch)
{
    const struct truncated *r = &d->wals->truncated;

    d->recovery->after_gap = truncated_gap_before(r, batch);
    d->recovery->after_damage = r->damaged != 0 && r->damaged <= batch;
}

bool
log_gap_hides(const struct store *d, const struct log_record *m)
{
    return d->recovery->after_gap && m->kind == LOG_RECORD_IN_DOUBT_CLEAR;
}

static enum err
invalidate_entry(struct changes *c, uint64_t bucket, struct span key,
                 const struct entry *entry, struct errbuf *eb)
{
    struct log_record m = {.kind = LOG_RECORD_IN_DOUBT,
                           .bucket = bucket,
                           .key = key,
                           .version = entry->version};
    struct entry gone = {.flags = ENTRY_TOMBSTONE | ENTRY_CACHED,
                         .version = entry->version};

    if (bucket >= CHUNK_BUCKETS || (entry->flags & ENTRY_CACHED) == 0 ||
        !entry_is_object(entry))
        return ERR_OK;
    if ((entry->flags & ENTRY_CHUNKS) != 0)
        return changes_apply(c, &m, NULL, eb);
    if (c->run == NULL)
        c->run = run_new();
    return changes_put(c, &m, &gone, eb);
}

enum err
log_gap_relocated(struct changes *c, const struct log_record *m,
                  const struct entry *entry, struct errbuf *eb)
{
    if (!c->disk->recovery->after_damage || m->kind != LOG_RECORD_RELOCATED ||
        m->part > 0)
        return ERR_OK;
    return invalidate_entry(c, m->bucket, m->key, entry, eb);
}

static enum err
invalidate_bucket(struct store *d, struct changes *c, uint64_t bucket,
                  log_gap_flush_fn *flush, void *arg, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    char after[STORE_KEY_MAX];
    size_t len = 0;
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct store_entry *entries;
        uint32_t count = 0;

        arena_reset(a);
        rc = list_objects(d->memtable, d->index, bucket, (struct span){after, len},
                          len == 0, PAGE, a, &entries, &count, &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++)
            rc = invalidate_entry(c, bucket, entries[i].key, &entries[i].entry, eb);
        if (rc != ERR_OK || count == 0)
            break;
        len = entries[count - 1].key.len;
        memcpy(after, entries[count - 1].key.at, len);
        changes_publish(c);
        if (memtable_bytes(d->memtable) > d->o.memtable_bytes)
            rc = flush(arg, eb);
    }
    arena_free(&a);
    return rc;
}

enum err
log_gap_invalidate(struct store *d, struct changes *c, log_gap_flush_fn *flush, void *arg,
                   struct errbuf *eb)
{
    uint64_t bucket = 0;
    enum err rc = flush(arg, eb);

    while (rc == ERR_OK) {
        rc = index_bucket(d->index, bucket, &bucket, eb);
        if (rc != ERR_OK || bucket >= CHUNK_BUCKETS)
            break;
        rc = invalidate_bucket(d, c, bucket, flush, arg, eb);
        bucket++;
    }
    if (rc == ERR_NOT_FOUND)
        rc = ERR_OK;
    return rc == ERR_OK ? flush(arg, eb) : rc;
}
