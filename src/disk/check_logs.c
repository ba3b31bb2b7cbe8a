/* The check reads the logs: into the scratch index, as a replay would, and past what stops a replay. */
#include <inttypes.h>
#include <stdlib.h>

#include "disk/change.h"
#include "disk/check.h"
#include "disk/hole.h"
#include "disk/replay.h"
#include "disk/segment.h"

static const char *const class_names[DISK_CLASSES_] = {
    [DISK_NATIVE] = "native", [DISK_CACHED] = "cached"};

/* ---- into the scratch index ---- */

static enum err
flush(struct check *k, struct errbuf *eb)
{
    struct index_covered nothing = {0};
    struct batch b;
    enum err rc;

    if (!tail_freeze(k->disk->tail, &b))
        return ERR_OK;
    rc = index_apply(k->disk->index, &b, &nothing, eb);
    if (rc == ERR_OK)
        tail_drop(k->disk->tail, &b);
    else
        tail_thaw(k->disk->tail, &b);
    return rc;
}

static void
tell_progress(struct check *k, enum disk_class class)
{
    const struct check_class *c = &k->class[class];
    uint64_t before = k->logs_read / MIB(16), total = 0;

    k->logs_read += c->scan.offset - MIN(c->scan.offset, c->logs[c->at].end);
    if (k->progress == NULL || k->logs_read / MIB(16) == before)
        return;
    for (unsigned i = 0; i < DISK_CLASSES_; i++)
        for (uint32_t n = 0; n < k->class[i].count; n++)
            total += k->class[i].logs[n].segment->home.size;
    k->progress(k->arg, "logs", k->logs_read, total);
}

/* What the next start drops: bodies of the class cached are not synced before a reply. */
static void
say_dropped(struct check *k, const struct member *m)
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
take_record(struct check *k, struct changes *c, struct member *m, struct errbuf *eb)
{
    bool there = !m->body_damaged;
    enum err rc = ERR_OK;

    if (c->class != DISK_CACHED)
        return changes_apply(c, m, NULL, eb);
    if (k->as_start && there)
        rc = replay_is_there(c->disk, m, &there, eb);
    if (rc != ERR_OK)
        return rc;
    if (!there && !m->body_damaged)
        say_dropped(k, m);
    return replay_cached_as(c, m, there, eb);
}

static enum err
take_group(struct check *k, struct changes *c, const struct log_scan *scan,
           struct errbuf *eb)
{
    for (uint32_t i = 0; i < scan->count; i++) {
        struct errbuf why = {0};
        enum err rc = take_record(k, c, &scan->members[i], &why);

        if (rc == ERR_BUSY || rc == ERR_CANCELLED) {
            *eb = why;
            return rc;
        }
        if (rc != ERR_OK)
            check_fault(k, "segment %06" PRIu32 " at %" PRIu64 ": %s",
                        scan->members[i].segment, scan->members[i].offset, why.text);
        k->result->records++;
    }
    changes_publish(c);
    k->disk->home.dying_count = 0; /* nothing is given back here */
    tell_progress(k, c->class);
    return tail_bytes(k->disk->tail) > k->disk->o.tail_bytes ? flush(k, eb) : ERR_OK;
}

/* What is left of a damaged group: as the replay takes it. */
struct salvaging {
    struct check *check;
    struct changes *changes;
};

static enum err
take_salvaged(void *arg, struct member *m)
{
    struct salvaging *s = arg;
    struct errbuf why = {0};
    enum err rc = take_record(s->check, s->changes, m, &why);

    if (rc == ERR_OK) {
        changes_publish(s->changes);
        s->check->result->records++;
        s->check->disk->home.dying_count = 0;
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

    return log_scan_salvage(&k->class[changes->class].scan, to, below, take_salvaged, &s,
                            whole, eb);
}

static enum err
flush_now(void *arg, struct errbuf *eb)
{
    struct check *k = arg;

    k->disk->home.dying_count = 0;
    return flush(k, eb);
}

/* As the replay: a record of the cached log is lost. */
static enum err
distrust(struct check *k, struct changes *changes, struct errbuf *eb)
{
    k->disk->home.behind_hole = k->disk->home.behind_damage = true;
    return hole_distrust(k->disk, changes, flush_now, k, eb);
}

/* Where every header stands only bytes are damaged: of objects that live, which are named, or of others. */
static enum err
salvage_groups(struct check *k, struct changes *changes, const struct log_behind *behind,
               const struct errbuf *why, struct errbuf *eb)
{
    struct check_class *c = &k->class[changes->class];
    bool cached = changes->class == DISK_CACHED, whole;
    enum err rc = salvage(k, changes, behind->offset, cached ? behind->group : UINT64_MAX,
                          &whole, eb);

    check_say(k, !whole,
              "%s/log-%06" PRIu32 ".tar at %" PRIu64 ": group %" PRIu64
              " is damaged (%s); the next good one is at %" PRIu64 "%s",
              class_names[changes->class], c->scan.source.segment, c->scan.offset,
              c->next_group, why->text[0] != '\0' ? why->text : "zeros", behind->offset,
              whole    ? "; no record is lost"
              : cached ? "; an index made anew believes nothing that was cached before it"
                       : "");
    return rc == ERR_OK && cached && !whole ? distrust(k, changes, eb) : rc;
}

/* ---- where groups end ---- */

/* Looks for a group behind a place where none stands: there something was acknowledged and is gone. 0: none. */
static enum err
find_behind(struct check_class *c, struct errbuf *eb, struct log_behind *found)
{
    const struct scan_source *source = &c->scan.source;
    struct iobuf *window;
    enum err rc = iobuf_get(IOBUF_MAX, &window);

    *found = (struct log_behind){0};
    if (rc != ERR_OK)
        return err_set(eb, rc, "no buffer to read a log");
    for (uint64_t at = c->scan.offset + DISK_ALIGN;
         rc == ERR_OK && found->offset == 0 && at < source->size;) {
        uint32_t n = 0, look;

        rc = rt_read(source->file, at, window, 0, IOBUF_MAX, RT_BACKGROUND,
                     DEADLINE_NEVER, &n, eb);
        for (look = 0; rc == ERR_OK && look + DISK_ALIGN <= n; look += DISK_ALIGN) {
            struct member m;
            size_t need;

            if (member_parse((struct span){window->at + look, n - look}, &m, &need,
                             NULL) == MEMBER_GOOD &&
                member_stands(&m, source->segment, source->generation, at + look) &&
                m.group > c->next_group && !m.after_unsynced) {
                *found = (struct log_behind){.offset = at + look, .group = m.group};
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
                                .size = s->home.size,
                                .cluster_sum = k->disk->cluster_sum,
                                .cached = s->class == DISK_CACHED};
}

static void
begin_segment(struct check *k, struct check_class *c, uint64_t offset, uint64_t group)
{
    struct scan_source source = source_of(k, c->logs[c->at].segment);

    log_scan_end(&c->scan);
    log_scan_begin(&c->scan, &source, offset, group, c->epoch);
    c->scanning = true;
}

static enum err
look_behind(struct check *k, enum disk_class class, enum hole *hole,
            struct log_behind *behind, struct errbuf *eb)
{
    struct check_class *c = &k->class[class];
    enum err rc;

    if (class == DISK_NATIVE) {
        rc = find_behind(c, eb, behind);
        *hole = behind->offset != 0 ? HOLE_DAMAGE : HOLE_END;
        return rc;
    }
    *hole = hole_look(k->disk, &c->scan, UINT64_MAX, behind);
    if (*hole == HOLE_CUT)
        k->disk->home.behind_hole = true;
    return ERR_OK;
}

/* The next log begins later than it should. */
static enum err
bridge_gap(struct check *k, struct changes *changes, struct segment *next,
           struct errbuf *eb)
{
    enum disk_class class = changes->class;
    struct check_class *c = &k->class[class];
    struct scan_source source = source_of(k, next);
    bool whole, lost = class == DISK_CACHED &&
                       hole_log_proves(k->disk, &source, next->first_group, c->epoch,
                                       c->next_group);
    enum err rc;

    check_fault(k,
                "%s/log-%06" PRIu32 ".tar begins with group %" PRIu64 ", wanted %" PRIu64,
                class_names[class], next->id, next->first_group, c->next_group);
    rc = salvage(k, changes, c->scan.source.size, next->first_group, &whole, eb);
    if (rc == ERR_OK && lost)
        rc = distrust(k, changes, eb);
    c->next_group = next->first_group;
    return rc;
}

static enum err
next_segment(struct check *k, struct changes *changes, struct errbuf *eb)
{
    enum disk_class class = changes->class;
    struct check_class *c = &k->class[class];
    struct segment *next = c->logs[++c->at].segment;
    enum err rc = ERR_OK;

    if (retired_covers(&k->disk->home.retired, class, c->next_group,
                       next->first_group - 1))
        c->next_group = next->first_group; /* compaction took them out */
    if (next->first_group > c->next_group)
        rc = bridge_gap(k, changes, next, eb);
    begin_segment(k, c, DISK_ALIGN, c->next_group);
    return rc;
}

/* As the replay: the last groups of the cached log are missing, and had been promised. */
static enum err
lost_end(struct check *k, struct changes *changes, uint64_t there, struct errbuf *eb)
{
    struct check_class *c = &k->class[DISK_CACHED];
    bool whole;
    enum err rc;

    check_fault(k,
                "cached/log-%06" PRIu32 ".tar ends at %" PRIu64 " before group %" PRIu64
                ", but groups up to %" PRIu64
                " had been synced: an index made anew believes nothing that was cached "
                "before",
                c->scan.source.segment, c->scan.offset, c->next_group, there);
    rc = salvage(k, changes, c->scan.source.size, there + 1, &whole, eb);
    c->next_group = MAX(there, k->covered.log[DISK_CACHED].group) + 1;
    return rc == ERR_OK ? distrust(k, changes, eb) : rc;
}

/* What a write that was cut off leaves, or damage. */
static void
say_end(struct check *k, enum disk_class class, const struct errbuf *why)
{
    const struct check_class *c = &k->class[class];

    if (c->next_group <= k->covered.log[class].group)
        check_fault(k,
                    "the %s log ends before group %" PRIu64
                    "; the index knows groups up to %" PRIu64,
                    class_names[class], c->next_group, k->covered.log[class].group);
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
    enum disk_class class = changes->class;
    struct check_class *c = &k->class[class];
    struct log_behind behind;
    uint64_t there;
    enum hole hole;
    enum err rc = look_behind(k, class, &hole, &behind, eb);

    *over = false;
    if (rc != ERR_OK)
        return rc;
    if (hole != HOLE_END) {
        if (hole == HOLE_DAMAGE)
            rc = salvage_groups(k, changes, &behind, why, eb);
        if (class == DISK_CACHED)
            c->next_group = behind.group;
        begin_segment(k, c, behind.offset, class == DISK_CACHED ? behind.group : 0);
        return rc;
    }
    if (c->at + 1 < c->count)
        return next_segment(k, changes, eb);
    *over = true;
    there = class == DISK_CACHED ? hole_lost_end(k->disk, c->next_group) : 0;
    if (there > 0)
        return lost_end(k, changes, there, eb);
    say_end(k, class, why);
    return ERR_OK;
}

static enum err
check_log(struct check *k, enum disk_class class, uint64_t up_to, struct errbuf *eb)
{
    struct check_class *c = &k->class[class];
    struct changes *changes = changes_new(k->disk, class);
    bool over = c->count == 0;
    enum err rc = ERR_OK;

    if (!over && !c->scanning) {
        c->next_group = c->logs[0].segment->first_group;
        begin_segment(k, c, DISK_ALIGN, c->next_group);
    }
    while (rc == ERR_OK && !over && c->next_group <= up_to) {
        struct errbuf why = {0};

        switch (log_scan_next(&c->scan, &why)) {
        case SCAN_GROUP:
            c->next_group = c->scan.group;
            c->epoch = c->scan.epoch;
            rc = take_group(k, changes, &c->scan, eb);
            c->logs[c->at].end = c->scan.offset;
            break;
        case SCAN_END:
            rc = end_of_segment(k, changes, &why, &over, eb);
            break;
        case SCAN_NEWER:
            rc = err_set(eb, ERR_NOT_BUILT, "%s", why.text);
            break;
        case SCAN_MORE: /* never of log_scan_next() */
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

    for (unsigned c = 0; rc == ERR_OK && c < DISK_CLASSES_; c++)
        rc = check_log(k, (enum disk_class)c,
                       up_to_index ? k->covered.log[c].group : UINT64_MAX, eb);
    return rc == ERR_OK ? flush(k, eb) : rc;
}

void
check_logs_end(struct check *k)
{
    for (unsigned i = 0; i < DISK_CLASSES_; i++) {
        struct check_class *c = &k->class[i];

        log_scan_end(&c->scan);
        for (uint32_t s = 0; s < c->count; s++)
            segment_drop(&c->logs[s].segment);
        free(c->logs);
        *c = (struct check_class){0};
    }
}
