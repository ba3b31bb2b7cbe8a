#include "disk/replay.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/metrics.h"
#include "disk/change.h"
#include "disk/known.h"
#include "disk/scan_ahead.h"
#include "disk/segment.h"

#define KEYS_AHEAD     8u
#define REPLAY_TELL_NS 10000000000u /* a long replay is said in the log */

static struct segment *
log_of(struct disk *d, enum disk_class class, uint64_t group)
{
    struct segment *found = NULL;

    LIST_EACH(&d->home.segments_of[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, home.of_class);

        if (s->kind == SEGMENT_LOG && s->first_group == group)
            found = s; /* one that was made again after a crash has the higher id */
    }
    return found;
}

struct segment *
replay_oldest_log(struct disk *d, enum disk_class class)
{
    struct segment *found = NULL;

    LIST_EACH(&d->home.segments_of[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, home.of_class);

        if (s->kind == SEGMENT_LOG &&
            (found == NULL || s->first_group < found->first_group))
            found = s;
    }
    return found;
}

static void
take_counters(struct disk *d, const struct member *m)
{
    if (m->version.epoch == d->epoch &&
        m->version.counter > atomic_load(&d->ids->counter))
        atomic_store(&d->ids->counter, m->version.counter);
}

/* Each key's word of `known` is somewhere else in memory: asked for while the records before it are applied. */
static void
expect_keys(const struct disk *d, const struct log_scan *scan, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; d->home.known != NULL && i < MIN(to, scan->count); i++) {
        if (scan->members[i].row != NULL)
            known_prefetch(d->home.known, scan->members[i].key_hash);
    }
}

static enum err
replay_group(struct disk *d, struct changes *c, const struct log_scan *scan,
             struct errbuf *eb)
{
    expect_keys(d, scan, 0, KEYS_AHEAD);
    for (uint32_t i = 0; i < scan->count; i++) {
        bool skip = false;
        enum err rc = c->class == DISK_CACHED
                          ? replay_soften(d, &scan->members[i], &skip, eb)
                          : ERR_OK;

        expect_keys(d, scan, i + KEYS_AHEAD, i + KEYS_AHEAD + 1);
        if (rc == ERR_OK && !skip)
            rc = changes_apply(c, &scan->members[i], NULL, eb);
        if (rc != ERR_OK) {
            err_prefix(eb, "replay of segment %06" PRIu32 " at %" PRIu64,
                       scan->members[i].segment, scan->members[i].offset);
            return rc;
        }
        take_counters(d, &scan->members[i]);
    }
    changes_publish(c);
    return ERR_OK;
}

static void
set_end(struct log *log, const struct log_scan *scan, uint64_t before)
{
    log->end = (struct log_position){.generation = scan->source.generation,
                                     .segment = scan->source.segment,
                                     .offset = scan->offset,
                                     .group = scan->group - 1};
    log->next_group = scan->group;
    log->uncovered += scan->offset - before;
}

/* Groups of the native log are synced one by one: where a later one stands, this one was acknowledged. What it said
 * is lost; what follows is not. The check names it. */
static void
say_damaged(struct disk *d, struct segment *s, uint64_t offset, uint64_t group)
{
    metric_add(M_CHECKSUM_FAILURES, 0, 1);
    LOG(LOG_ERROR, "disk.log_damaged",
        "acknowledged changes can't be read; run forebay disk check",
        L_TEXT("disk", rt_dir_path(d->root)), L_U64("segment", s->id),
        L_U64("offset", offset), L_U64("group", group));
}

/* What is left of groups that are damaged. A record that can't be applied is said, and the rest goes on. */
static enum err
take_salvaged(void *arg, struct member *m)
{
    struct changes *c = arg;
    struct errbuf why = {0};
    enum err rc = changes_apply(c, m, NULL, &why);

    if (rc == ERR_OK) {
        take_counters(c->disk, m);
        changes_publish(c);
        return ERR_OK;
    }
    changes_forget(c);
    LOG(LOG_ERROR, "disk.record_lost", "a record of a damaged group is of no use",
        L_U64("segment", m->segment), L_U64("offset", m->offset),
        L_TEXT("error", why.text));
    return rc == ERR_CORRUPT ? ERR_OK : rc;
}

static enum err
salvage(struct disk *d, struct changes *c, struct segment *s, struct log_scan *scan,
        uint64_t to, uint64_t below, struct errbuf *eb)
{
    bool whole;
    enum err rc;

    say_damaged(d, s, scan->offset, scan->group);
    rc = log_scan_salvage(scan, to, below, take_salvaged, c, &whole, eb);
    d->home.log_damaged |= !whole;
    return rc;
}

/* How far behind a missing group another one is looked for: where it stands, the missing one was acknowledged. */
static uint64_t
look_behind(const struct disk *d, enum disk_class class)
{
    if (class != DISK_NATIVE)
        return 0;
    return d->o.rebuild ? UINT64_MAX : GROUP_MAX;
}

/* The next group, behind damage if there is some. */
static enum scanned
next_group(struct disk *d, struct changes *c, struct segment *s, struct log_scan *scan,
           struct errbuf *eb)
{
    enum scanned got = scan_ahead_take(d->home.scan_ahead, scan, eb);
    uint64_t far = look_behind(d, c->class);
    struct log_behind behind;

    if (got != SCAN_MORE)
        return got;
    got = log_scan_next(scan, eb);
    if (got == SCAN_GROUP)
        return got;
    if (d->home.scan_ahead != NULL) { /* nothing may be missed for want of its buffers */
        scan_ahead_end(&d->home.scan_ahead);
        got = log_scan_next(scan, eb);
    }
    if (got != SCAN_END || far == 0 || !log_scan_behind(scan, far, &behind))
        return got;
    /* That one may be what is left of a group which is damaged itself: its members in front count. */
    if (salvage(d, c, s, scan, behind.offset, behind.group + 1, eb) != ERR_OK)
        return SCAN_ERROR;
    log_scan_go(scan, &behind);
    return log_scan_next(scan, eb);
}

static void
tell_progress(struct disk *d, uint64_t bytes)
{
    uint64_t step = MIB(8), before = d->home.replayed / step;

    d->home.replayed += bytes;
    if (rt_now_ns() - d->home.replay_told_ns > REPLAY_TELL_NS) {
        if (d->home.replay_told_ns != 0)
            LOG(LOG_INFO, "disk.replaying", "the log is read; it takes a while",
                L_TEXT("disk", rt_dir_path(d->root)), L_U64("bytes", d->home.replayed),
                L_U64("of", d->home.to_replay));
        d->home.replay_told_ns = rt_now_ns();
    }
    if (d->o.on_replay != NULL && d->home.replayed / step != before)
        d->o.on_replay(d->o.on_replay_arg, d->home.replayed, d->home.to_replay);
}

static struct segment *next_log(struct disk *d, enum disk_class class, struct segment *s);

/* Gaps that compaction has left are none. */
static bool
gap_is_known(const struct disk *d, enum disk_class class, const struct segment *next)
{
    return retired_covers(&d->home.retired, class, d->home.log[class].next_group,
                          next->first_group - 1);
}

/* The log goes on in `next`. Groups that are missing in between were acknowledged, for `next` was made when all before
 * it was there. */
static enum err
bridge_gap(struct disk *d, struct changes *c, struct segment *s, struct log_scan *scan,
           const struct segment *next, struct errbuf *eb)
{
    struct log *log = &d->home.log[c->class];
    enum err rc;

    if (next == NULL || next->first_group <= log->next_group)
        return ERR_OK;
    if (c->class != DISK_NATIVE || gap_is_known(d, c->class, next)) {
        log->next_group = next->first_group;
        return ERR_OK;
    }
    rc = salvage(d, c, s, scan, s->home.size, next->first_group, eb);
    log->next_group = next->first_group;
    return rc;
}

static enum err
end_of_segment(struct segment *s, const struct log_scan *scan, enum scanned got,
               const struct errbuf *eb)
{
    if (got == SCAN_NEWER)
        return ERR_NOT_BUILT;
    if (got == SCAN_ERROR)
        return ERR_IO;
    if (eb->text[0] != '\0')
        LOG(LOG_INFO, "disk.log_end",
            "the log ends at something that was never acknowledged",
            L_U64("segment", s->id), L_U64("offset", scan->offset),
            L_TEXT("found", eb->text));
    return ERR_OK;
}

/* The log that was written last; one that has a successor was synced before that was made. */
static bool
is_last_log(struct disk *d, enum disk_class class, const struct segment *s)
{
    LIST_EACH(&d->home.segments_of[class], n)
    {
        const struct segment *other = LIST_ENTRY(n, struct segment, home.of_class);

        if (other->kind == SEGMENT_LOG && other->first_group > s->first_group)
            return false;
    }
    return true;
}

static struct scan_source
source_of(const struct disk *d, const struct segment *s)
{
    return (struct scan_source){.file = s->file,
                                .segment = s->id,
                                .generation = s->generation,
                                .size = s->home.size,
                                .cluster_sum = d->cluster_sum};
}

/* One segment, from `offset` on. *next is where the log goes on, borrowed from the table, or NULL. */
static enum err
replay_segment(struct disk *d, struct changes *c, struct segment *s, uint64_t offset,
               uint64_t *epoch, struct beside *beside, struct segment **next,
               struct errbuf *eb)
{
    struct log *log = &d->home.log[c->class];
    struct scan_source source = source_of(d, s);
    struct log_scan scan;
    enum scanned got = SCAN_GROUP;
    uint64_t again = offset; /* what stands from here on was not written again */
    bool last = is_last_log(d, c->class, s);
    enum err rc = ERR_OK;

    log_scan_begin(&scan, &source, offset, log->next_group, *epoch);
    while (rc == ERR_OK && got == SCAN_GROUP) {
        uint64_t before = scan.offset;

        got = next_group(d, c, s, &scan, eb);
        if (got != SCAN_GROUP)
            break;
        rc = replay_group(d, c, &scan, eb);
        set_end(log, &scan, before);
        tell_progress(d, scan.offset - before);
        /* Half of the tail is on its way to the index while the other half fills. */
        if (rc == ERR_OK && tail_bytes_new(d->tail) > d->o.tail_bytes / 2) {
            if (last)
                rc = replay_write_again(s, again, scan.offset, eb);
            again = scan.offset;
            if (rc == ERR_OK)
                rc = beside_begin(beside, s, eb);
        }
    }
    s->home.used = scan.offset;
    *epoch = scan.epoch;
    *next = NULL;
    if (rc == ERR_OK)
        rc = end_of_segment(s, &scan, got, eb);
    if (rc == ERR_OK)
        *next = next_log(d, c->class, s);
    if (rc == ERR_OK)
        rc = bridge_gap(d, c, s, &scan, *next, eb);
    if (rc == ERR_OK && last)
        rc = replay_renew_segment(s, eb);
    if (rc == ERR_OK && last)
        rc = replay_write_again(s, again, scan.offset, eb);
    log_scan_end(&scan);
    return rc;
}

/* Where the log goes on behind its last segment so far; NULL: nowhere. */
static struct segment *
next_log(struct disk *d, enum disk_class class, struct segment *s)
{
    struct log *log = &d->home.log[class];
    struct segment *next = log_of(d, class, log->next_group);

    if (next != NULL && next != s)
        return next;
    next = NULL;
    LIST_EACH(&d->home.segments_of[class], n)
    {
        struct segment *later = LIST_ENTRY(n, struct segment, home.of_class);

        if (later->kind == SEGMENT_LOG && later->first_group > log->next_group &&
            (next == NULL || later->first_group < next->first_group))
            next = later;
    }
    /* Cached: unless the gap is known, what follows may be of a log that was cut off. */
    if (next != NULL && class == DISK_CACHED && !gap_is_known(d, class, next))
        return NULL;
    return next;
}

static int
compare_logs(const void *a, const void *b)
{
    const struct scan_ahead_log *x = a, *y = b;

    return (x->group > y->group) - (x->group < y->group);
}

/* The logs behind `first`, in the order in which they are most likely replayed, are read while it is. A single one is read
 * ahead by its own scan. Segments stay while the disk opens: nothing removes one before replay is over. */
static void
begin_ahead(struct disk *d, enum disk_class class, const struct segment *first,
            uint64_t offset)
{
    struct scan_ahead_log *logs = NULL;
    uint32_t count = 0, room = 0;

    LIST_EACH(&d->home.segments_of[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, home.of_class);

        if (s->kind != SEGMENT_LOG ||
            (s != first && s->first_group <= first->first_group))
            continue;
        if (count == room) {
            room = room == 0 ? 64 : 2 * room;
            logs = xrealloc(logs, room * sizeof *logs);
        }
        logs[count++] = (struct scan_ahead_log){
            .source = source_of(d, s),
            .offset = s == first ? offset : DISK_ALIGN,
            .group = s == first ? d->home.log[class].next_group : s->first_group};
    }
    if (count < 2) {
        free(logs);
        return;
    }
    qsort(logs, count, sizeof *logs, compare_logs);
    d->home.scan_ahead = scan_ahead_begin(logs, count, class, look_behind(d, class));
}

enum err
replay_class(struct disk *d, enum disk_class class, const struct log_position *from,
             struct errbuf *eb)
{
    struct log *log = &d->home.log[class];
    struct changes *c = changes_new(d, class);
    uint64_t offset = DISK_ALIGN, epoch = 0;
    struct beside beside = {.disk = d};
    struct segment *s, *next = NULL;
    enum err rc = ERR_OK, ended;

    log->next_group = 1;
    if (from->segment != 0) {
        log->next_group = from->group + 1;
        offset = from->offset;
        s = segment_pin(d, from->segment);
    } else {
        s = replay_oldest_log(d, class);
        if (s != NULL) {
            segment_ref(s);
            log->next_group = s->first_group;
        }
    }
    if (s != NULL)
        begin_ahead(d, class, s, offset);
    while (s != NULL) {
        rc = replay_segment(d, c, s, offset, &epoch, &beside, &next, eb);
        if (rc != ERR_OK || next == NULL)
            break;
        segment_drop(&s);
        s = segment_ref(next);
        offset = DISK_ALIGN;
    }
    scan_ahead_end(&d->home.scan_ahead);
    replay_chains_free(&d->home.chains);
    ended = beside_end(&beside, rc == ERR_OK ? eb : NULL);
    if (rc == ERR_OK)
        rc = ended;
    if (rc == ERR_OK && s != NULL)
        rc = replay_flush(d, s, eb);
    log->now = s; /* the reference goes along; NULL: the first group makes one */
    changes_free(&c);
    return rc;
}
