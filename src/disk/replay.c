#include "disk/replay.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "disk/change.h"
#include "disk/hole.h"
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

        if (s->kind == SEGMENT_LOG && s->first_group == group &&
            (found == NULL || !s->home.headless))
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

void
replay_take_counters(struct disk *d, const struct member *m)
{
    if (m->version.epoch == d->epoch &&
        m->version.counter > atomic_load(&d->ids->counter))
        atomic_store(&d->ids->counter, m->version.counter);
}

/* Each key's word of `known` is somewhere else in memory, and its place among what is gathered: asked for while the records
 * before it are applied. */
static void
expect_keys(const struct disk *d, const struct log_scan *scan, uint32_t from, uint32_t to)
{
    const struct run *gathered = tail_gathered(d->tail);

    for (uint32_t i = from; d->home.known != NULL && i < MIN(to, scan->count); i++) {
        if (scan->members[i].row == NULL)
            continue;
        known_prefetch(d->home.known, scan->members[i].key_hash);
        if (gathered != NULL)
            run_gather_expect(gathered, scan->members[i].key_hash);
    }
}

static enum err
replay_group(struct disk *d, struct changes *c, const struct log_scan *scan,
             struct errbuf *eb)
{
    expect_keys(d, scan, 0, KEYS_AHEAD);
    for (uint32_t i = 0; i < scan->count; i++) {
        enum err rc;

        expect_keys(d, scan, i + KEYS_AHEAD, i + KEYS_AHEAD + 1);
        if (c->class == DISK_CACHED)
            rc = replay_cached(c, &scan->members[i], eb);
        else if (changes_take_new(c, &scan->members[i]))
            rc = ERR_OK;
        else
            rc = changes_apply(c, &scan->members[i], NULL, eb);
        if (rc != ERR_OK) {
            err_prefix(eb, "replay of segment %06" PRIu32 " at %" PRIu64,
                       scan->members[i].segment, scan->members[i].offset);
            return rc;
        }
        replay_take_counters(d, &scan->members[i]);
    }
    changes_publish(c);
    return ERR_OK;
}

void
replay_set_end(struct replaying *r, uint64_t before)
{
    struct log *log = &r->disk->home.log[r->changes->class];
    const struct log_scan *scan = &r->scan;

    log->end = (struct log_position){.generation = scan->source.generation,
                                     .segment = scan->source.segment,
                                     .offset = scan->offset,
                                     .group = scan->group - 1};
    log->next_group = scan->group;
    log->promised = scan->group - 1; /* perhaps */
    log->uncovered += scan->offset - before;
}

uint64_t
replay_look_behind(const struct disk *d)
{
    return d->o.rebuild ? UINT64_MAX : GROUP_MAX;
}

/* The next group, behind damage if there is some. */
static enum scanned
next_group(struct replaying *r, struct errbuf *eb)
{
    struct disk *d = r->disk;
    struct log_scan *scan = &r->scan;
    enum scanned got = scan_ahead_take(d->home.scan_ahead, scan, eb);

    if (got != SCAN_MORE)
        return got;
    got = log_scan_next(scan, eb);
    if (got == SCAN_GROUP)
        return got;
    if (d->home.scan_ahead != NULL) { /* nothing may be missed for want of its buffers */
        scan_ahead_end(&d->home.scan_ahead);
        got = log_scan_next(scan, eb);
    }
    return got == SCAN_END ? replay_behind(r, eb) : got;
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

static struct segment *next_log(struct replaying *r);

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
bridge_gap(struct replaying *r, const struct segment *next, struct errbuf *eb)
{
    struct log *log = &r->disk->home.log[r->changes->class];
    enum err rc = ERR_OK;

    if (next->first_group <= log->next_group)
        return ERR_OK;
    if (!gap_is_known(r->disk, r->changes->class, next))
        rc = replay_gap(r, next->first_group, eb);
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
                                .cluster_sum = d->cluster_sum,
                                .cached = s->class == DISK_CACHED};
}

/* Groups of a segment, up to where it does not go on. */
static enum err
replay_groups(struct replaying *r, enum scanned *got, struct errbuf *eb)
{
    struct disk *d = r->disk;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && *got == SCAN_GROUP) {
        uint64_t before = r->scan.offset;

        *got = next_group(r, eb);
        if (*got != SCAN_GROUP)
            break;
        rc = replay_group(d, r->changes, &r->scan, eb);
        replay_set_end(r, before);
        tell_progress(d, r->scan.offset - before);
        /* Half of the tail is on its way to the index while the other half fills. */
        if (rc == ERR_OK && tail_bytes_new(d->tail) > d->o.tail_bytes / 2) {
            rc = replay_again(r, r->scan.offset, eb);
            if (rc == ERR_OK)
                rc = beside_begin(r->beside, r->segment, eb);
        }
    }
    return rc;
}

/* One segment, from `offset` on. *next is where the log goes on, borrowed from the table, or NULL. */
static enum err
replay_segment(struct replaying *r, uint64_t offset, uint64_t *epoch,
               struct segment **next, struct errbuf *eb)
{
    struct disk *d = r->disk;
    struct segment *s = r->segment;
    enum disk_class class = r->changes->class;
    struct scan_source source = source_of(d, s);
    enum scanned got = SCAN_GROUP;
    enum err rc;

    r->again = offset;
    r->last = is_last_log(d, class, s);
    log_scan_begin(&r->scan, &source, offset, d->home.log[class].next_group, *epoch);
    rc = replay_groups(r, &got, eb);
    s->home.used = r->scan.offset;
    *epoch = r->scan.epoch;
    *next = NULL;
    if (rc == ERR_OK)
        rc = end_of_segment(s, &r->scan, got, eb);
    if (rc == ERR_OK)
        *next = next_log(r);
    if (rc == ERR_OK)
        rc = *next == NULL ? replay_last(r, eb) : bridge_gap(r, *next, eb);
    if (rc == ERR_OK && r->last)
        rc = replay_renew_segment(s, eb);
    if (rc == ERR_OK)
        rc = replay_again(r, r->scan.offset, eb);
    log_scan_end(&r->scan);
    return rc;
}

static bool
begins_behind(const struct segment *s, uint64_t group)
{
    return s->first_group > group || (s->home.headless && s->first_group + 1 == group);
}

/* The first log behind that group. */
static struct segment *
log_behind(struct replaying *r, uint64_t group)
{
    struct segment *next = NULL;

    LIST_EACH(&r->disk->home.segments_of[r->changes->class], n)
    {
        struct segment *later = LIST_ENTRY(n, struct segment, home.of_class);

        if (later->kind == SEGMENT_LOG && later != r->segment &&
            begins_behind(later, group) &&
            (next == NULL || later->first_group < next->first_group))
            next = later;
    }
    return next;
}

/* Where the log goes on behind its last segment so far; NULL: nowhere. A cached one that does not say that what is missing had
 * been synced may be of a log that was cut off. */
static struct segment *
next_log(struct replaying *r)
{
    struct disk *d = r->disk;
    enum disk_class class = r->changes->class;
    uint64_t wanted = d->home.log[class].next_group;
    struct segment *next = log_of(d, class, wanted);

    if (next != NULL && next != r->segment)
        return next;
    next = log_behind(r, wanted);
    while (next != NULL && class == DISK_CACHED && !gap_is_known(d, class, next)) {
        struct scan_source source = source_of(d, next);

        if (hole_log_proves(d, &source, next->first_group, r->scan.epoch, wanted))
            break;
        next = log_behind(r, next->first_group);
    }
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
    d->home.scan_ahead = scan_ahead_begin(logs, count, class, replay_look_behind(d));
}

enum err
replay_class(struct disk *d, enum disk_class class, const struct log_position *from,
             struct errbuf *eb)
{
    struct log *log = &d->home.log[class];
    struct changes *c = changes_new(d, class);
    uint64_t offset = DISK_ALIGN, epoch = 0;
    struct beside beside = {.disk = d};
    struct replaying r = {.disk = d, .changes = c, .beside = &beside};
    struct segment *s, *next = NULL;
    enum err rc = ERR_OK, ended;

    log->next_group = 1;
    if (from->segment != 0) {
        log->next_group = from->group + 1;
        offset = from->offset;
        if (class == DISK_CACHED)
            hole_begin_behind(d, from->group);
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
    else if (class == DISK_CACHED && hole_lost_end(d, 1) > 0)
        log->next_group = hole_number_behind(d); /* all logs of it are gone */
    while (s != NULL) {
        r.segment = s;
        rc = replay_segment(&r, offset, &epoch, &next, eb);
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
    if (rc == ERR_OK)
        log->synced_group = MAX(log->synced_group, log->next_group - 1);
    log->full = s != NULL && (s->home.headless || r.cut_off);
    log->now = s; /* the reference goes along; NULL: the first group makes one */
    changes_free(&c);
    return rc == ERR_OK && r.cut_off ? replay_begin_anew(d, eb) : rc;
}
