/* The check reads the logs: into the scratch index, as a replay would, and past what stops a replay. */
#include "store/index/index.h"
#include "store/index/memtable.h"
#include "store/offline/check.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/recover/log_gap.h"
#include "store/recover/recovery.h"
#include "store/recover/replay.h"
#include "store/segment/scan.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/wal/change.h"
#include "store/wal/truncated.h"
#include "store/wal/wal.h"
#include <inttypes.h>
#include <stdlib.h>

static const char *const class_names[STORE_CLASSES_] = {
    [STORE_NATIVE] = "native", [STORE_CACHED] = "cached"};

/* ---- into the scratch index ---- */

static enum err
flush(struct check *k, struct errbuf *eb)
{
    struct index_checkpoint nothing = {0};
    struct frozen_runs b;
    enum err rc;

    if (!memtable_freeze(k->disk->memtable, &b))
        return ERR_OK;
    rc = index_apply(k->disk->index, &b, &nothing, eb);
    if (rc == ERR_OK)
        memtable_drop(k->disk->memtable, &b);
    else
        memtable_thaw(k->disk->memtable, &b);
    return rc;
}

static void
tell_progress(struct check *k, enum store_class class)
{
    const struct check_class *c = &k->class[class];
    uint64_t before = k->logs_read / MIB(16), total = 0;

    k->logs_read += c->scan.offset - MIN(c->scan.offset, c->logs[c->at].end);
    if (k->progress == NULL || k->logs_read / MIB(16) == before)
        return;
    for (unsigned i = 0; i < STORE_CLASSES_; i++)
        for (uint32_t n = 0; n < k->class[i].count; n++)
            total += k->class[i].logs[n].segment->owner.size;
    k->progress(k->arg, "logs", k->logs_read, total);
}

/* What the next start drops: bodies of the class cached are not synced before a reply. */
static void
report_dropped(struct check *k, const struct log_record *m)
{
    char text[CHECK_KEY_TEXT];

    check_note(k,
               "%s, segment %06" PRIu32 " at %" PRIu64
               ": what was cached is not all there, as a power cut leaves it; the next "
               "start drops it, and it is fetched anew",
               check_key(m->bucket, m->key, text),
               m->place.segment != 0 ? m->place.segment : m->segment,
               m->place.segment != 0 ? m->place.offset : m->offset);
}

/* As a replay: of the cached log not everything is believed, least of all what the index does not cover yet. */
static enum err
take_record(struct check *k, struct changes *c, struct log_record *m, struct errbuf *eb)
{
    bool there = !m->body_damaged;
    enum err rc = ERR_OK;

    if (c->class != STORE_CACHED)
        return changes_apply(c, m, NULL, eb);
    if (k->as_start && there)
        rc = replay_record_is_intact(c->disk, m, &there, eb);
    if (rc != ERR_OK)
        return rc;
    if (!there && !m->body_damaged)
        report_dropped(k, m);
    return replay_cached_apply(c, m, there, eb);
}

static enum err
take_batch(struct check *k, struct changes *c, const struct wal_scan *scan,
           struct errbuf *eb)
{
    for (uint32_t i = 0; i < scan->count; i++) {
        struct errbuf why = {0};
        enum err rc = take_record(k, c, &scan->records[i], &why);

        if (rc == ERR_BUSY || rc == ERR_CANCELLED) {
            *eb = why;
            return rc;
        }
        if (rc != ERR_OK)
            check_fault(k, "segment %06" PRIu32 " at %" PRIu64 ": %s",
                        scan->records[i].segment, scan->records[i].offset, why.text);
        k->result->records++;
    }
    changes_publish(c);
    k->disk->wals->garbage_count = 0; /* nothing is given back here */
    tell_progress(k, c->class);
    return memtable_bytes(k->disk->memtable) > k->disk->o.memtable_bytes ? flush(k, eb)
                                                                         : ERR_OK;
}

/* What is left of a damaged batch: as the replay takes it. */
struct salvaging {
    struct check *check;
    struct changes *changes;
};

static enum err
take_salvaged(void *arg, struct log_record *m)
{
    struct salvaging *s = arg;
    struct errbuf why = {0};
    enum err rc = take_record(s->check, s->changes, m, &why);

    if (rc == ERR_OK) {
        changes_publish(s->changes);
        s->check->result->records++;
        s->check->disk->wals->garbage_count = 0;
        return ERR_OK;
    }
    changes_forget(s->changes);
    check_fault(s->check, "segment %06" PRIu32 " at %" PRIu64 ": %s", m->segment,
                m->offset, why.text);
    return rc == ERR_CORRUPT ? ERR_OK : rc;
}

static enum err
salvage(struct check *k, struct changes *changes, uint64_t to, uint64_t below,
        bool *whole, struct errbuf *eb)
{
    struct salvaging s = {k, changes};

    return wal_scan_salvage(&k->class[changes->class].scan, to, below, take_salvaged, &s,
                            whole, eb);
}

static enum err
flush_now(void *arg, struct errbuf *eb)
{
    struct check *k = arg;

    k->disk->wals->garbage_count = 0;
    return flush(k, eb);
}

/* As the replay: a record of the cached log is lost. */
static enum err
invalidate_cached(struct check *k, struct changes *changes, struct errbuf *eb)
{
    k->disk->recovery->after_gap = k->disk->recovery->after_damage = true;
    return log_gap_invalidate(k->disk, changes, flush_now, k, eb);
}

/* Where every header stands only bytes are damaged: of objects that live, which are named, or of others. */
static enum err
salvage_batches(struct check *k, struct changes *changes,
                const struct wal_scan_next_batch *behind, const struct errbuf *why,
                struct errbuf *eb)
{
    struct check_class *c = &k->class[changes->class];
    bool cached = changes->class == STORE_CACHED, whole;
    enum err rc = salvage(k, changes, behind->offset, cached ? behind->batch : UINT64_MAX,
                          &whole, eb);

    check_report(
        k, !whole,
        "%s/log-%06" PRIu32 ".tar at %" PRIu64 ": group %" PRIu64
        " is damaged (%s); the next good one is at %" PRIu64 "%s",
        class_names[changes->class], c->scan.source.segment, c->scan.offset,
        c->next_batch, why->text[0] != '\0' ? why->text : "zeros", behind->offset,
        whole    ? "; no record is lost"
        : cached ? "; an index made anew believes nothing that was cached before it"
                 : "");
    return rc == ERR_OK && cached && !whole ? invalidate_cached(k, changes, eb) : rc;
}

/* ---- where batches end ---- */

/* Looks for a batch behind a place where none stands: there something was acknowledged and is gone. 0: none. */
static enum err
find_behind(struct check_class *c, struct errbuf *eb, struct wal_scan_next_batch *found)
{
    const struct scan_source *source = &c->scan.source;
    struct iobuf *window;
    enum err rc = iobuf_get(IOBUF_MAX, &window);

    *found = (struct wal_scan_next_batch){0};
    if (rc != ERR_OK)
        return err_set(eb, rc, "no buffer to read a log");
    for (uint64_t at = c->scan.offset + STORE_ALIGN;
         rc == ERR_OK && found->offset == 0 && at < source->size;) {
        uint32_t n = 0, look;

        rc = rt_read(source->file, at, window, 0, IOBUF_MAX, RT_BACKGROUND,
                     DEADLINE_NEVER, &n, eb);
        for (look = 0; rc == ERR_OK && look + STORE_ALIGN <= n; look += STORE_ALIGN) {
            struct log_record m;
            size_t need;

            if (log_record_parse((struct span){window->at + look, n - look}, &m, &need,
                                 NULL) == LOG_RECORD_OK &&
                log_record_is_at(&m, source->segment, source->generation, at + look) &&
                m.batch > c->next_batch && !m.after_unsynced) {
                *found =
                    (struct wal_scan_next_batch){.offset = at + look, .batch = m.batch};
                break;
            }
        }
        if (look == 0 && found->offset == 0)
            break;
        at += look;
    }
    iobuf_drop(&window);
    return rc;
}

static struct scan_source
source_of(const struct check *k, const struct segment *s)
{
    return (struct scan_source){.file = s->file,
                                .segment = s->id,
                                .generation = s->generation,
                                .size = s->owner.size,
                                .cluster_sum = k->disk->cluster_sum,
                                .cached = s->class == STORE_CACHED};
}

static void
begin_segment(struct check *k, struct check_class *c, uint64_t offset, uint64_t batch)
{
    struct scan_source source = source_of(k, c->logs[c->at].segment);

    wal_scan_end(&c->scan);
    wal_scan_begin(&c->scan, &source, offset, batch, c->epoch);
    c->scanning = true;
}

static enum err
look_behind(struct check *k, enum store_class class, enum log_gap *gap,
            struct wal_scan_next_batch *behind, struct errbuf *eb)
{
    struct check_class *c = &k->class[class];
    enum err rc;

    if (class == STORE_NATIVE) {
        rc = find_behind(c, eb, behind);
        *gap = behind->offset != 0 ? LOG_GAP_DAMAGE : LOG_GAP_NONE;
        return rc;
    }
    *gap = log_gap_find(k->disk, &c->scan, UINT64_MAX, behind);
    if (*gap == LOG_GAP_LOST)
        k->disk->recovery->after_gap = true;
    return ERR_OK;
}

/* The next log begins later than it should. */
static enum err
bridge_gap(struct check *k, struct changes *changes, struct segment *next,
           struct errbuf *eb)
{
    enum store_class class = changes->class;
    struct check_class *c = &k->class[class];
    struct scan_source source = source_of(k, next);
    bool whole, lost = class == STORE_CACHED &&
                       log_gap_log_proves(k->disk, &source, next->first_batch, c->epoch,
                                          c->next_batch);
    enum err rc;

    check_fault(k,
                "%s/log-%06" PRIu32 ".tar begins with group %" PRIu64 ", wanted %" PRIu64,
                class_names[class], next->id, next->first_batch, c->next_batch);
    rc = salvage(k, changes, c->scan.source.size, next->first_batch, &whole, eb);
    if (rc == ERR_OK && lost)
        rc = invalidate_cached(k, changes, eb);
    c->next_batch = next->first_batch;
    return rc;
}

static enum err
next_segment(struct check *k, struct changes *changes, struct errbuf *eb)
{
    enum store_class class = changes->class;
    struct check_class *c = &k->class[class];
    struct segment *next = c->logs[++c->at].segment;
    enum err rc = ERR_OK;

    if (truncated_covers(&k->disk->wals->truncated, class, c->next_batch,
                         next->first_batch - 1))
        c->next_batch = next->first_batch; /* compaction took them out */
    if (next->first_batch > c->next_batch)
        rc = bridge_gap(k, changes, next, eb);
    begin_segment(k, c, STORE_ALIGN, c->next_batch);
    return rc;
}

/* As the replay: the last batches of the cached log are missing, and had been promised. */
static enum err
lost_end(struct check *k, struct changes *changes, uint64_t there, struct errbuf *eb)
{
    struct check_class *c = &k->class[STORE_CACHED];
    bool whole;
    enum err rc;

    check_fault(k,
                "cached/log-%06" PRIu32 ".tar ends at %" PRIu64 " before group %" PRIu64
                ", but groups up to %" PRIu64
                " had been synced: an index made anew believes nothing that was cached "
                "before",
                c->scan.source.segment, c->scan.offset, c->next_batch, there);
    rc = salvage(k, changes, c->scan.source.size, there + 1, &whole, eb);
    c->next_batch = MAX(there, k->checkpoint.log[STORE_CACHED].batch) + 1;
    return rc == ERR_OK ? invalidate_cached(k, changes, eb) : rc;
}

/* What a write that was cut off leaves, or damage. */
static void
report_end(struct check *k, enum store_class class, const struct errbuf *why)
{
    const struct check_class *c = &k->class[class];

    if (c->next_batch <= k->checkpoint.log[class].batch)
        check_fault(k,
                    "the %s log ends before group %" PRIu64
                    "; the index knows groups up to %" PRIu64,
                    class_names[class], c->next_batch, k->checkpoint.log[class].batch);
    else if (why->text[0] != '\0')
        check_note(k,
                   "the %s log ends at %" PRIu64 " of segment %06" PRIu32
                   " with something that is no group (%s): "
                   "a write that was cut off, if the last group was not damaged",
                   class_names[class], c->scan.offset, c->scan.source.segment, why->text);
}

/* Nothing more stands in this segment, or nothing good. *over: the log ends here. */
static enum err
end_of_segment(struct check *k, struct changes *changes, const struct errbuf *why,
               bool *over, struct errbuf *eb)
{
    enum store_class class = changes->class;
    struct check_class *c = &k->class[class];
    struct wal_scan_next_batch behind;
    uint64_t there;
    enum log_gap gap;
    enum err rc = look_behind(k, class, &gap, &behind, eb);

    *over = false;
    if (rc != ERR_OK)
        return rc;
    if (gap != LOG_GAP_NONE) {
        if (gap == LOG_GAP_DAMAGE)
            rc = salvage_batches(k, changes, &behind, why, eb);
        if (class == STORE_CACHED)
            c->next_batch = behind.batch;
        begin_segment(k, c, behind.offset, class == STORE_CACHED ? behind.batch : 0);
        return rc;
    }
    if (c->at + 1 < c->count)
        return next_segment(k, changes, eb);
    *over = true;
    there = class == STORE_CACHED ? log_gap_lost_end(k->disk, c->next_batch) : 0;
    if (there > 0)
        return lost_end(k, changes, there, eb);
    report_end(k, class, why);
    return ERR_OK;
}

static enum err
check_log(struct check *k, enum store_class class, uint64_t up_to, struct errbuf *eb)
{
    struct check_class *c = &k->class[class];
    struct changes *changes = changes_new(k->disk, class);
    bool over = c->count == 0;
    enum err rc = ERR_OK;

    if (!over && !c->scanning) {
        c->next_batch = c->logs[0].segment->first_batch;
        begin_segment(k, c, STORE_ALIGN, c->next_batch);
    }
    while (rc == ERR_OK && !over && c->next_batch <= up_to) {
        struct errbuf why = {0};

        switch (wal_scan_next(&c->scan, &why)) {
        case SCAN_BATCH:
            c->next_batch = c->scan.batch;
            c->epoch = c->scan.epoch;
            rc = take_batch(k, changes, &c->scan, eb);
            c->logs[c->at].end = c->scan.offset;
            break;
        case SCAN_END:
            rc = end_of_segment(k, changes, &why, &over, eb);
            break;
        case SCAN_NEWER:
            rc = err_set(eb, ERR_NOT_IMPLEMENTED, "%s", why.text);
            break;
        case SCAN_MORE: /* never of wal_scan_next() */
        case SCAN_ERROR:
            rc = err_set(eb, ERR_IO, "%s", why.text);
            break;
        }
    }
    changes_free(&changes);
    return rc;
}

enum err
check_logs(struct check *k, bool up_to_index, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    for (unsigned c = 0; rc == ERR_OK && c < STORE_CLASSES_; c++)
        rc = check_log(k, (enum store_class)c,
                       up_to_index ? k->checkpoint.log[c].batch : UINT64_MAX, eb);
    return rc == ERR_OK ? flush(k, eb) : rc;
}

void
check_logs_end(struct check *k)
{
    for (unsigned i = 0; i < STORE_CLASSES_; i++) {
        struct check_class *c = &k->class[i];

        wal_scan_end(&c->scan);
        for (uint32_t s = 0; s < c->count; s++)
            segment_drop(&c->logs[s].segment);
        free(c->logs);
        *c = (struct check_class){0};
    }
}
