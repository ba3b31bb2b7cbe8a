#include "store/recover/replay.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/index/key_filter.h"
#include "store/index/memtable.h"
#include "store/index/run.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/recover/lost_keys.h"
#include "store/recover/recovery.h"
#include "store/segment/scan.h"
#include "store/segment/scan_readahead.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/wal/change.h"
#include "store/wal/log_gap.h"
#include "store/wal/truncated.h"
#include "store/wal/wal.h"

#define KEYS_AHEAD     8u
#define REPLAY_TELL_NS 10000000000u /* a long replay is said in the log */

static struct segment *
log_of(struct store *d, enum store_class class, uint64_t batch)
{
    struct segment *found = NULL;

    LIST_EACH(&d->segments->of_class[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, owner.of_class);

        if (s->kind == SEGMENT_LOG && s->first_batch == batch &&
            (found == NULL || !s->owner.headless))
            found = s; /* one that was made again after a crash has the higher id */
    }
    return found;
}

struct segment *
replay_oldest_log(struct store *d, enum store_class class)
{
    struct segment *found = NULL;

    LIST_EACH(&d->segments->of_class[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, owner.of_class);

        if (s->kind == SEGMENT_LOG && s->first_batch > 0 && /* no spare */
            (found == NULL || s->first_batch < found->first_batch))
            found = s;
    }
    return found;
}

void
replay_advance_counters(struct store *d, const struct log_record *m)
{
    version_saw(d, &m->version);
}

/* Each key's word of `key_filter` is somewhere else in memory, and its place among what is gathered: asked for while the records
 * before it are applied. */
static void
expect_keys(const struct store *d, const struct wal_scan *scan, uint32_t from,
            uint32_t to)
{
    const struct run *gathered = memtable_gathered(d->memtable);

    for (uint32_t i = from; d->key_filter != NULL && i < MIN(to, scan->count); i++) {
        if (scan->records[i].entry == NULL)
            continue;
        key_filter_prefetch(d->key_filter, scan->records[i].key_hash);
        if (gathered != NULL)
            run_gather_expect(gathered, scan->records[i].key_hash);
    }
}

/* What holds in front of each commit batch. */
static void
replaying_check(const struct replaying *r)
{
    const struct wal *log = &r->disk->wals->of[r->changes->class];

    assert(r->segment->kind == SEGMENT_LOG);
    assert(r->segment->class == r->changes->class);
    assert(r->scan.offset >= STORE_ALIGN);
    assert(r->scan.offset % STORE_ALIGN == 0);
    assert(r->scan.batch == log->next_batch);
    assert(r->again <= r->scan.offset);
    assert(log->synced_batch <= log->next_batch);
    assert(!r->disk->recovery->drop_cached || r->disk->read_only);
}

bool
replay_report(const struct replaying *r, struct replay_seen seen)
{
    const struct replay_visitor *v = r->disk->recovery->visitor;

    if (v == NULL)
        return false;
    assert(r->disk->read_only);
    seen.class = r->changes->class;
    seen.scan = &r->scan;
    v->visit(v->arg, &seen);
    return true;
}

static enum err
replay_record(struct replaying *r, struct log_record *m, struct errbuf *eb)
{
    struct errbuf why = {0};
    enum err rc;

    assert(m->kind != LOG_RECORD_SEGMENT_HEADER);
    if (m->kind == LOG_RECORD_KEYS) {
        replay_advance_counters(r->disk, m);
        return ERR_OK;
    }
    if (r->changes->class == STORE_CACHED)
        rc = replay_cached(r->changes, m, &why);
    else if (changes_insert_new(r->changes, m))
        rc = ERR_OK;
    else
        rc = changes_apply(r->changes, m, NULL, &why);
    if (rc == ERR_OK) {
        replay_advance_counters(r->disk, m);
        return ERR_OK;
    }
    if (rc != ERR_BUSY && rc != ERR_CANCELLED &&
        replay_report(r, (struct replay_seen){
                             .event = REPLAY_BAD_RECORD, .record = m, .why = why.text}))
        return ERR_OK;
    *eb = why;
    err_prefix(eb, "replay of segment %06" PRIu32 " at %" PRIu64, m->segment, m->offset);
    return rc;
}

static enum err
replay_batch(struct replaying *r, struct errbuf *eb)
{
    const struct wal_scan *scan = &r->scan;
    enum err rc = ERR_OK;

    if (r->changes->class == STORE_NATIVE)
        rc = replay_keys_of_batch(r, eb);
    expect_keys(r->disk, scan, 0, KEYS_AHEAD);
    for (uint32_t i = 0; rc == ERR_OK && i < scan->count; i++) {
        expect_keys(r->disk, scan, i + KEYS_AHEAD, i + KEYS_AHEAD + 1);
        rc = replay_record(r, &scan->records[i], eb);
    }
    if (rc != ERR_OK)
        return rc;
    changes_publish(r->changes);
    (void)replay_report(r, (struct replay_seen){.event = REPLAY_BATCH});
    return ERR_OK;
}

void
replay_set_end(struct replaying *r, uint64_t before)
{
    struct wal *log = &r->disk->wals->of[r->changes->class];
    const struct wal_scan *scan = &r->scan;

    assert(scan->batch > 0);
    assert(scan->offset >= before);
    assert(log->next_batch <= scan->batch);
    log->end = (struct wal_position){.generation = scan->source.generation,
                                     .segment = scan->source.segment,
                                     .offset = scan->offset,
                                     .batch = scan->batch - 1};
    log->next_batch = scan->batch;
    log->durable_mark = scan->batch - 1; /* perhaps */
    log->uncovered += scan->offset - before;
}

uint64_t
replay_search_bytes(const struct store *d)
{
    return d->o.rebuild || d->recovery->visitor != NULL ? UINT64_MAX : BATCH_MAX;
}

/* The next batch, behind damage if there is some. */
static enum scanned
next_batch(struct replaying *r, struct errbuf *eb)
{
    struct store *d = r->disk;
    struct wal_scan *scan = &r->scan;
    enum scanned got = scan_readahead_take(d->recovery->scan_readahead, scan, eb);

    if (got != SCAN_MORE)
        return got;
    got = wal_scan_next(scan, eb);
    if (got == SCAN_BATCH)
        return got;
    if (d->recovery->scan_readahead !=
        NULL) { /* nothing may be missed for want of its buffers */
        scan_readahead_end(&d->recovery->scan_readahead);
        got = wal_scan_next(scan, eb);
    }
    return got == SCAN_END ? replay_after_gap(r, eb) : got;
}

static void
tell_progress(struct store *d, uint64_t bytes)
{
    uint64_t step = MIB(8), before = d->recovery->replayed / step;

    d->recovery->replayed += bytes;
    if (rt_now_ns() - d->recovery->replay_told_ns > REPLAY_TELL_NS) {
        if (d->recovery->replay_told_ns != 0)
            LOG(LOG_INFO, "store.replaying", "the log is read; it takes a while",
                L_TEXT("disk", rt_dir_path(d->root)),
                L_U64("bytes", d->recovery->replayed),
                L_U64("of", d->recovery->to_replay));
        d->recovery->replay_told_ns = rt_now_ns();
    }
    if (d->o.on_replay != NULL && d->recovery->replayed / step != before)
        d->o.on_replay(d->o.on_replay_arg, d->recovery->replayed, d->recovery->to_replay);
}

static struct segment *next_log(struct replaying *r);

/* Gaps that compaction has left are none. */
static bool
gap_is_known(const struct store *d, enum store_class class, const struct segment *next)
{
    return truncated_covers(&d->wals->truncated, class, d->wals->of[class].next_batch,
                            next->first_batch - 1);
}

/* The log goes on in `next`. Groups that are missing in between were acknowledged, for `next` was made when all before
 * it was there. */
static enum err
bridge_gap(struct replaying *r, const struct segment *next, struct errbuf *eb)
{
    struct wal *log = &r->disk->wals->of[r->changes->class];
    enum err rc = ERR_OK;

    assert(next != r->segment);
    assert(next->class == r->changes->class);
    if (next->first_batch <= log->next_batch)
        return ERR_OK;
    if (!gap_is_known(r->disk, r->changes->class, next))
        rc = replay_missing_wals(r, next, eb);
    log->next_batch = next->first_batch;
    if (r->disk->recovery->visitor !=
        NULL) /* a second replay reports the gap no second time */
        log->end = (struct wal_position){.generation = next->generation,
                                         .segment = next->id,
                                         .offset = STORE_ALIGN,
                                         .batch = next->first_batch - 1};
    return rc;
}

static enum err
end_of_segment(const struct replaying *r, enum scanned got, const struct errbuf *eb)
{
    assert(got != SCAN_MORE);
    if (got == SCAN_NEWER)
        return ERR_NOT_IMPLEMENTED;
    if (got == SCAN_ERROR)
        return ERR_IO;
    if (eb->text[0] != '\0' && r->disk->recovery->visitor == NULL)
        LOG(LOG_INFO, "store.wal_end",
            "the log ends at something that was never acknowledged",
            L_U64("segment", r->segment->id), L_U64("offset", r->scan.offset),
            L_TEXT("found", eb->text));
    return ERR_OK;
}

/* The log that was written last; one that has a successor was synced before that was made. */
static bool
is_last_log(struct store *d, enum store_class class, const struct segment *s)
{
    LIST_EACH(&d->segments->of_class[class], n)
    {
        const struct segment *other = LIST_ENTRY(n, struct segment, owner.of_class);

        if (other->kind == SEGMENT_LOG && other->first_batch > s->first_batch)
            return false;
    }
    return true;
}

static struct scan_source
replay_source_of(const struct store *d, const struct segment *s)
{
    return (struct scan_source){.file = s->file,
                                .segment = s->id,
                                .generation = s->generation,
                                .size = s->owner.size,
                                .cluster_sum = d->cluster_sum,
                                .cached = s->class == STORE_CACHED};
}

/* Has the visitor seen the batches that it wants of this class? */
static bool
is_enough(const struct replaying *r)
{
    const struct replay_visitor *v = r->disk->recovery->visitor;
    enum store_class class = r->changes->class;

    return v != NULL && r->disk->wals->of[class].next_batch > v->up_to[class];
}

/* Batches of a segment, up to where it does not go on. */
static enum err
replay_batches(struct replaying *r, enum scanned *got, struct errbuf *eb)
{
    struct store *d = r->disk;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && *got == SCAN_BATCH && !is_enough(r)) {
        uint64_t before = r->scan.offset;

        replaying_check(r);
        *got = next_batch(r, eb);
        if (*got != SCAN_BATCH)
            break;
        rc = replay_batch(r, eb);
        replay_set_end(r, before);
        tell_progress(d, r->scan.offset - before);
        /* Half of the memtable is on its way to the index while the other half fills. */
        if (rc == ERR_OK && memtable_bytes_new(d->memtable) > d->o.memtable_bytes / 2) {
            rc = replay_rewrite(r, r->scan.offset, eb);
            if (rc == ERR_OK)
                rc = background_flush_begin(r->beside, r->segment, eb);
        }
    }
    return rc;
}

/* One segment, from `offset` on. *next is where the log goes on, borrowed from the table, or NULL. */
static enum err
replay_segment(struct replaying *r, uint64_t offset, uint64_t *epoch,
               struct segment **next, struct errbuf *eb)
{
    struct store *d = r->disk;
    struct segment *s = r->segment;
    enum store_class class = r->changes->class;
    struct scan_source source = replay_source_of(d, s);
    enum scanned got = SCAN_BATCH;
    enum err rc;

    assert(offset >= STORE_ALIGN);
    assert(s->kind == SEGMENT_LOG);
    r->again = offset;
    r->last = is_last_log(d, class, s);
    wal_scan_begin(&r->scan, &source, offset, d->wals->of[class].next_batch, *epoch);
    rc = replay_batches(r, &got, eb);
    s->owner.used = r->scan.offset;
    *epoch = r->scan.epoch;
    *next = NULL;
    if (rc == ERR_OK && got != SCAN_BATCH)
        rc = end_of_segment(r, got, eb);
    if (d->recovery->drop_cached)
        got = SCAN_BATCH; /* where the log ends does not matter */
    if (rc == ERR_OK && got != SCAN_BATCH)
        *next = next_log(r);
    if (rc == ERR_OK && got != SCAN_BATCH)
        rc = *next == NULL ? replay_lost_end(r, eb) : bridge_gap(r, *next, eb);
    if (d->recovery->drop_cached)
        *next = NULL;
    if (rc == ERR_OK && r->last && !d->read_only)
        rc = replay_renew_segment(s, eb);
    if (rc == ERR_OK)
        rc = replay_rewrite(r, r->scan.offset, eb);
    wal_scan_end(&r->scan);
    return rc;
}

static bool
starts_after_gap(const struct segment *s, uint64_t batch)
{
    return s->first_batch > batch || (s->owner.headless && s->first_batch + 1 == batch);
}

/* The first log behind that batch. */
static struct segment *
wal_scan_next_batch(struct replaying *r, uint64_t batch)
{
    struct segment *next = NULL;

    LIST_EACH(&r->disk->segments->of_class[r->changes->class], n)
    {
        struct segment *later = LIST_ENTRY(n, struct segment, owner.of_class);

        if (later->kind == SEGMENT_LOG && later != r->segment &&
            starts_after_gap(later, batch) &&
            (next == NULL || later->first_batch < next->first_batch))
            next = later;
    }
    return next;
}

/* Where the log goes on behind its last segment so far; NULL: nowhere. A cached one that does not say that what is missing had
 * been synced may be of a log that was cut off. */
static struct segment *
next_log(struct replaying *r)
{
    struct store *d = r->disk;
    enum store_class class = r->changes->class;
    uint64_t wanted = d->wals->of[class].next_batch;
    struct segment *next = log_of(d, class, wanted);

    if (next != NULL && next != r->segment)
        return next;
    next = wal_scan_next_batch(r, wanted);
    while (next != NULL && class == STORE_CACHED && !gap_is_known(d, class, next)) {
        struct scan_source source = replay_source_of(d, next);

        if (log_gap_log_proves(d, &source, next->first_batch, r->scan.epoch, wanted))
            break;
        next = wal_scan_next_batch(r, next->first_batch);
    }
    return next;
}

static int
compare_logs(const void *a, const void *b)
{
    const struct scan_readahead_wal *x = a, *y = b;

    return (x->batch > y->batch) - (x->batch < y->batch);
}

/* The logs behind `first`, in the order in which they are most likely replayed, are read while it is. A single one is read
 * ahead by its own scan. Segments stay while the disk opens: nothing removes one before replay is over. */
static void
begin_readahead(struct store *d, enum store_class class, const struct segment *first,
                uint64_t offset)
{
    struct scan_readahead_wal *logs = NULL;
    uint32_t count = 0, room = 0;

    assert(d->recovery->scan_readahead == NULL);
    assert(first->kind == SEGMENT_LOG);
    LIST_EACH(&d->segments->of_class[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, owner.of_class);

        if (s->kind != SEGMENT_LOG ||
            (s != first && s->first_batch <= first->first_batch))
            continue;
        if (count == room) {
            room = room == 0 ? 64 : 2 * room;
            logs = xrealloc(logs, room * sizeof *logs);
        }
        logs[count++] = (struct scan_readahead_wal){
            .source = replay_source_of(d, s),
            .offset = s == first ? offset : STORE_ALIGN,
            .batch = s == first ? d->wals->of[class].next_batch : s->first_batch};
    }
    if (count < 2) {
        free(logs);
        return;
    }
    qsort(logs, count, sizeof *logs, compare_logs);
    d->recovery->scan_readahead =
        scan_readahead_begin(logs, count, class, replay_search_bytes(d));
}

enum err
replay_class(struct store *d, enum store_class class, const struct wal_position *from,
             struct errbuf *eb)
{
    struct wal *log = &d->wals->of[class];
    struct changes *c = changes_new(d, class);
    uint64_t offset = STORE_ALIGN, epoch = 0;
    struct background_flush beside = {.disk = d};
    struct replaying r = {.disk = d, .changes = c, .beside = &beside};
    struct segment *s, *next = NULL;
    enum err rc = ERR_OK, ended;

    assert(on_owner(d));
    assert(class < STORE_CLASSES_);
    assert(log->now == NULL);
    log->next_batch = 1;
    if (from->segment != 0) {
        log->next_batch = from->batch + 1;
        offset = from->offset;
        if (class == STORE_CACHED)
            d->recovery->after_gap =
                truncated_gap_before(&d->wals->truncated, from->batch);
        s = segment_pin(d, from->segment);
    } else {
        s = replay_oldest_log(d, class);
        if (s != NULL) {
            segment_ref(s);
            log->next_batch = s->first_batch;
        }
    }
    if (s != NULL)
        begin_readahead(d, class, s, offset);
    else if (class == STORE_CACHED && d->wals->truncated.durable_mark > 0)
        rc = replay_drop_cached(d, 1, eb); /* all logs of it are gone */
    while (s != NULL) {
        r.segment = s;
        rc = replay_segment(&r, offset, &epoch, &next, eb);
        if (rc != ERR_OK || next == NULL)
            break;
        segment_drop(&s);
        s = segment_ref(next);
        offset = STORE_ALIGN;
    }
    scan_readahead_end(&d->recovery->scan_readahead);
    ended = background_flush_end(&beside, rc == ERR_OK ? eb : NULL);
    if (rc == ERR_OK)
        rc = ended;
    if (rc == ERR_OK && s != NULL)
        rc = replay_flush(d, s, eb);
    if (rc == ERR_OK)
        log->synced_batch = MAX(log->synced_batch, log->next_batch - 1);
    log->full = s != NULL &&
                (s->owner.headless || (class == STORE_NATIVE && d->recovery->lost_end));
    if (s != NULL)
        s->owner.current = true;
    log->now = s; /* the reference goes along; NULL: the first batch makes one */
    changes_free(&c);
    return rc;
}
