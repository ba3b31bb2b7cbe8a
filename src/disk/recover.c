#include "disk/recover.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/metrics.h"
#include "disk/body.h"
#include "disk/change.h"
#include "disk/flush.h"
#include "disk/known.h"
#include "disk/manifest.h"
#include "disk/punch.h"
#include "disk/read.h"
#include "disk/scan.h"
#include "disk/segment.h"
#include "disk/usage.h"
#include "rt/point.h"

#define REPLAY_TELL_NS 10000000000u /* a long replay is said in the log */

/* ---- what files there are ---- */

struct found {
    enum segment_kind kind;
    uint32_t id;
};
struct found_list {
    struct found *at; /* owned */
    uint32_t count, room;
};

static void
on_name(const char *name, void *arg)
{
    struct found_list *l = arg;
    struct found f;

    if (!segment_name_parse(name, &f.kind, &f.id))
        return; /* not ours: left alone */
    if (l->count == l->room) {
        l->room = l->room == 0 ? 64 : 2 * l->room;
        l->at = xrealloc(l->at, l->room * sizeof *l->at);
    }
    l->at[l->count++] = f;
}

static bool
refused(enum err rc)
{
    return rc == ERR_NOT_BUILT || rc == ERR_DENIED || rc == ERR_CANCELLED ||
           rc == ERR_BUSY;
}

static enum err
open_segments(struct disk *d, enum disk_class class, const struct found_list *l,
              struct errbuf *eb)
{
    for (uint32_t i = 0; i < l->count; i++) {
        struct segment *s;
        enum err rc;

        if (l->at[i].id >= d->home.next_segment)
            d->home.next_segment = l->at[i].id + 1;
        if (l->at[i].kind == SEGMENT_ONE)
            continue;
        rc = segment_open(d, class, l->at[i].kind, l->at[i].id, &s, eb);
        if (refused(rc))
            return rc;
        if (rc !=
            ERR_OK) { /* made and never used, or damaged: nothing in it is believed, nothing is deleted */
            LOG(LOG_ERROR, "disk.segment_unusable", "left as it is",
                L_TEXT("error", eb->text));
            continue;
        }
        if (segment_is_spare(s) && !d->read_only) { /* room, and nothing else */
            segment_drop(&s);
            rc = segment_remove(d, class, SEGMENT_LOG, l->at[i].id, eb);
            if (rc != ERR_OK)
                return rc;
        }
        segment_drop(&s);
    }
    return ERR_OK;
}

/* ---- the index ---- */

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

static struct segment *
oldest_log(struct disk *d, enum disk_class class)
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

/* Does the index's position lie in a log that is there? One that never covered anything fits while the log
 * begins at its first group. */
static bool
position_fits(struct disk *d, enum disk_class class, const struct log_position *p)
{
    struct segment *s;
    bool fits;

    if (p->segment == 0)
        return true;
    s = segment_pin(d, p->segment);
    fits = s != NULL && s->class == class && s->kind == SEGMENT_LOG &&
           s->generation == p->generation && p->offset % DISK_ALIGN == 0 &&
           p->offset <= s->home.size && p->group + 1 >= s->first_group;
    segment_drop(&s);
    return fits;
}

/* Does the index know of changes that the native log does not have, behind all that it has? Then a file of it is
 * gone, or cut: believing the rest would bring old versions back. An index that is only too old is another thing. */
static bool
log_is_lost(struct disk *d, const struct log_position *p)
{
    if (p->group == 0)
        return false;
    LIST_EACH(&d->home.segments_of[DISK_NATIVE], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, home.of_class);

        if (s->kind == SEGMENT_LOG && s->first_group > p->group)
            return false;
    }
    return !position_fits(d, DISK_NATIVE, p);
}

static enum err
judge_index(struct disk *d, struct index_covered *covered, struct errbuf *eb)
{
    const struct log_position *native = &covered->log[DISK_NATIVE];

    if (log_is_lost(d, native)) {
        d->home.log_damaged = true;
        if (!d->o.rebuild)
            return err_set(eb, ERR_CORRUPT,
                           "the index knows changes up to group %" PRIu64
                           " of the native log, in native/log-%06" PRIu32
                           ".tar, which is not there or shorter: put the file back, or "
                           "run forebay disk rebuild to go on with what is left",
                           native->group, native->segment);
    } else if (!d->o.rebuild && covered->generation <= d->generation &&
               position_fits(d, DISK_NATIVE, native) &&
               position_fits(d, DISK_CACHED, &covered->log[DISK_CACHED])) {
        return ERR_OK;
    }
    LOG(LOG_WARN, "disk.index_foreign", "the index is rebuilt from the logs",
        L_TEXT("disk", rt_dir_path(d->root)),
        L_TEXT("why", d->o.rebuild ? "asked for" : "it does not fit the logs"));
    *covered = (struct index_covered){0};
    return index_reset(d->index, eb);
}

static enum err
open_index(struct disk *d, struct index_covered *covered, struct errbuf *eb)
{
    struct index_options o = {
        .dir = d->root, .map_bytes = d->o.index_map_bytes, .health = d->health};
    enum index_state state;
    enum err rc;

    memcpy(o.disk_id, d->disk_id, sizeof o.disk_id);
    rc = index_open(&o, &d->index, &state, covered, eb);
    if (rc != ERR_OK)
        return rc;
    if (state == INDEX_GOOD)
        return judge_index(d, covered, eb);
    *covered = (struct index_covered){0};
    return ERR_OK;
}

/* ---- replay ---- */

static void
take_counters(struct disk *d, const struct member *m)
{
    if (m->version.epoch == d->epoch &&
        m->version.counter > atomic_load(&d->ids->counter))
        atomic_store(&d->ids->counter, m->version.counter);
}

/* What replay has read may be in the page cache only (the process died, the machine did not): it is synced before
 * the index names it. Cached bodies were, one by one; here the log, and the folders. */
static enum err
sync_replayed(struct disk *d, struct segment *log, uint64_t group, struct errbuf *eb)
{
    struct log *native = &d->home.log[DISK_NATIVE];
    enum err rc = rt_sync(log->file, eb);

    if (rc == ERR_OK)
        native->synced_group = MAX(native->synced_group, group);
    for (unsigned c = 0; rc == ERR_OK && c < DISK_CLASSES_; c++)
        rc = rt_dir_sync(d->dir[c], eb);
    return rc;
}

/* Bringing the tail into the index beside the replay: LMDB works on a thread of the pool, the loop reads on. */
struct beside {
    struct disk *disk;
    struct rt_group group;
    struct flush flush;
    struct segment *log; /* owned: the one that was read last */
    bool busy;           /* begun, not joined */
    enum err rc;
    struct errbuf eb;
};

static void
flush_beside(void *arg)
{
    struct beside *b = arg;
    uint64_t group = b->flush.covered.log[DISK_NATIVE].group;

    b->rc = sync_replayed(b->disk, b->log, group, &b->eb);
    if (b->rc == ERR_OK)
        b->rc = flush_frozen(b->disk, &b->flush, &b->eb);
    else
        flush_thaw(b->disk, &b->flush);
}

static enum err
end_beside(struct beside *b, struct errbuf *eb)
{
    if (!b->busy)
        return ERR_OK;
    rt_group_join(&b->group);
    b->busy = false;
    segment_drop(&b->log);
    if (b->rc != ERR_OK && eb != NULL)
        *eb = b->eb;
    return b->rc;
}

/* Begins a round when the former one is over. */
static enum err
begin_beside(struct beside *b, struct segment *log, struct errbuf *eb)
{
    enum err rc = end_beside(b, eb);

    if (rc != ERR_OK || !flush_freeze(b->disk, &b->flush))
        return rc;
    b->log = segment_ref(log);
    b->eb = (struct errbuf){0};
    b->busy = true;
    rt_group_begin(&b->group);
    if (rt_group_start(&b->group, flush_beside, b) != ERR_OK)
        flush_beside(b); /* no fiber for it: the replay waits */
    return ERR_OK;
}

static enum err
flush_replayed(struct disk *d, struct segment *log, struct errbuf *eb)
{
    enum err rc = sync_replayed(d, log, d->home.log[DISK_NATIVE].next_group - 1, eb);

    return rc == ERR_OK ? flush_round(d, eb) : rc;
}

/* And a sync of it may have failed before that: then the kernel takes the bytes for clean though the disk has not got them,
 * and no later sync brings them there (D9). So those that are to be believed are written once more. What can't be read is
 * damage, and was said. */
static enum err
write_again(struct segment *s, uint64_t from, uint64_t to, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && from < to) {
        uint32_t len = (uint32_t)MIN(to - from, MIB(1)), n;
        struct iobuf *b;

        if (iobuf_get(len, &b) != ERR_OK)
            return err_set(eb, ERR_BUSY, "no buffer for the log that is replayed");
        if (rt_read(s->file, from, b, 0, len, RT_WRITE, DEADLINE_NEVER, &n, eb) ==
                ERR_OK &&
            n == len)
            rc = rt_write(s->file, from, b, 0, len, RT_WRITE, eb);
        iobuf_drop(&b);
        from += len;
    }
    return rc;
}

/* The same for the segment's own header, and for its size. */
static enum err
renew_segment(struct segment *s, struct errbuf *eb)
{
    uint64_t size;
    enum err rc = rt_file_size(s->file, &size, eb);

    if (rc == ERR_OK)
        rc = rt_truncate(s->file, size, eb);
    return rc == ERR_OK ? write_again(s, 0, DISK_ALIGN, eb) : rc;
}

/* Cached bodies are not synced before their reply: what the index does not cover yet is read once. */
static enum err
cached_body_is_there(struct disk *d, const struct member *m, bool *out, struct errbuf *eb)
{
    struct row row = {.flags = ROW_CACHED,
                      .content = m->content,
                      .size = m->size,
                      .segment = m->place.segment,
                      .offset = m->place.offset};
    struct read_file f = {0};
    uint64_t bad;
    enum err rc = read_file_open(d, &row, &f, eb);

    if (rc == ERR_OK)
        rc = rt_sync(read_file_of(&f), eb);
    if (rc == ERR_OK)
        rc = body_is_whole(read_file_of(&f), d->cluster_sum, &row, &bad, eb);
    read_file_close(&f);
    *out = rc == ERR_OK;
    return rc == ERR_CORRUPT || rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
cached_entry_is_there(struct disk *d, const struct manifest_entry *e, bool *out,
                      struct errbuf *eb)
{
    struct member body = {.content = e->content,
                          .size = e->size,
                          .place = {.segment = e->segment, .offset = e->offset}};
    struct row row = {.flags = ROW_CACHED | ROW_INLINE,
                      .content = e->content,
                      .size = e->size,
                      .segment = e->segment,
                      .offset = e->offset};
    struct loaded l;
    enum err rc;

    if (!e->in_log)
        return cached_body_is_there(d, &body, out, eb);
    rc = read_log_member_quiet(d, &row, true, &l, eb); /* moved on, perhaps: no damage */
    loaded_fini(&l);
    *out = rc == ERR_OK;
    return rc == ERR_CORRUPT || rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
cached_parts_are_there(struct disk *d, const struct member *m, bool *out,
                       struct errbuf *eb)
{
    struct manifest manifest;
    enum err rc = manifest_decode(m->body, &manifest, eb);

    *out = rc == ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && *out && i < manifest.count; i++) {
        const struct manifest_entry *e = &manifest.entries[i];
        struct part_row part;

        rc = find_part(d->tail, d->index, &m->upload, e->number, &part, eb);
        *out = rc == ERR_OK && content_eq(&part.row.content, &e->content);
        if (rc ==
            ERR_NO_UPLOAD) /* its record was of no use any more when its log was compacted */
            rc = cached_entry_is_there(d, e, out, eb);
    }
    manifest_fini(&manifest);
    return rc;
}

/* A cached record whose bytes are lost still says that what was there before is obsolete: it becomes a delete. A
 * part is just not there. */
static enum err
soften(struct disk *d, struct member *m, bool *skip, struct errbuf *eb)
{
    bool there = true;
    enum err rc = ERR_OK;

    *skip = false;
    if (m->place.segment != 0 && m->kind != MEMBER_META)
        rc = cached_body_is_there(d, m, &there, eb);
    else if (m->kind == MEMBER_UPLOAD_COMPLETE)
        rc = cached_parts_are_there(d, m, &there, eb);
    if (rc != ERR_OK || there)
        return rc;
    if (m->kind == MEMBER_PART)
        *skip = true;
    else
        m->kind = MEMBER_DELETE;
    return ERR_OK;
}

static enum err
replay_group(struct disk *d, struct changes *c, const struct log_scan *scan,
             struct errbuf *eb)
{
    for (uint32_t i = 0; i < scan->count; i++) {
        bool skip = false;
        enum err rc =
            c->class == DISK_CACHED ? soften(d, &scan->members[i], &skip, eb) : ERR_OK;

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

/* The next group, behind damage if there is some. */
static enum scanned
next_group(struct disk *d, struct changes *c, struct segment *s, struct log_scan *scan,
           struct errbuf *eb)
{
    enum scanned got = log_scan_next(scan, eb);
    struct log_behind behind;

    if (got != SCAN_END || c->class != DISK_NATIVE ||
        !log_scan_behind(scan, d->o.rebuild ? UINT64_MAX : GROUP_MAX, &behind))
        return got;
    if (salvage(d, c, s, scan, behind.offset, behind.group, eb) != ERR_OK)
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

/* One segment, from `offset` on. *next is where the log goes on, borrowed from the table, or NULL. */
static enum err
replay_segment(struct disk *d, struct changes *c, struct segment *s, uint64_t offset,
               uint64_t *epoch, struct beside *beside, struct segment **next,
               struct errbuf *eb)
{
    struct log *log = &d->home.log[c->class];
    struct scan_source source = {.file = s->file,
                                 .segment = s->id,
                                 .generation = s->generation,
                                 .size = s->home.size,
                                 .cluster_sum = d->cluster_sum};
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
                rc = write_again(s, again, scan.offset, eb);
            again = scan.offset;
            if (rc == ERR_OK)
                rc = begin_beside(beside, s, eb);
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
        rc = renew_segment(s, eb);
    if (rc == ERR_OK && last)
        rc = write_again(s, again, scan.offset, eb);
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

static enum err
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
        s = oldest_log(d, class);
        if (s != NULL) {
            segment_ref(s);
            log->next_group = s->first_group;
        }
    }
    while (s != NULL) {
        rc = replay_segment(d, c, s, offset, &epoch, &beside, &next, eb);
        if (rc != ERR_OK || next == NULL)
            break;
        segment_drop(&s);
        s = segment_ref(next);
        offset = DISK_ALIGN;
    }
    ended = end_beside(&beside, rc == ERR_OK ? eb : NULL);
    if (rc == ERR_OK)
        rc = ended;
    if (rc == ERR_OK && s != NULL)
        rc = flush_replayed(d, s, eb);
    log->now = s; /* the reference goes along; NULL: the first group makes one */
    changes_free(&c);
    return rc;
}

/* ---- bodies ---- */

/* Has the body of this header a record? Unknown counts as yes: space is lost, never data. */
static enum err
has_record(struct disk *d, const struct member *m, bool *out, struct errbuf *eb)
{
    struct row row;
    struct part_row part;
    enum err rc;

    *out = true;
    if (m->kind != MEMBER_BODY) {
        *out = false; /* open or dead */
        return ERR_OK;
    }
    if (m->part > 0) {
        struct upload_row u;

        rc = find_part(d->tail, d->index, &m->upload, m->part, &part, eb);
        if (rc == ERR_OK)
            *out = content_eq(&part.row.content, &m->content);
        else if (rc == ERR_NO_UPLOAD) /* of a completed one it may be in a manifest */
            *out = find_upload(d->tail, d->index, m->bucket, m->key, &m->upload, &u,
                               eb) != ERR_OK;
        return rc == ERR_NO_UPLOAD ? ERR_OK : rc;
    }
    if (prepared_has(d->prepared, &m->content))
        return ERR_OK;
    rc = find_content(d->tail, d->index, m->bucket, m->key, &m->content, &row, eb);
    if (rc == ERR_NOT_FOUND)
        *out = false;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* What logs that are damaged or gone said of a finished body nobody knows: it stays, for rebuild --from-bodies. */
static bool
keeps_orphans(const struct disk *d, const struct member *m)
{
    return (d->home.log_damaged || d->o.rebuild) && m->kind == MEMBER_BODY;
}

/* Walks the newest shared segment: where the next body goes, and which places have no record. Those at the end are
 * given out again, the others get the header of the dead. Behind a header that cannot be read (torn by a cut when it
 * was rewritten, or rotten) nothing is: how long its place is nobody knows, and what comes next may live. */
static enum err
walk_places(struct disk *d, struct segment *s, struct errbuf *eb)
{
    struct scan_source source = {.file = s->file,
                                 .segment = s->id,
                                 .generation = s->generation,
                                 .size = s->home.size};
    uint64_t at = DISK_ALIGN, used = DISK_ALIGN, next;
    enum scanned got = SCAN_GROUP;
    struct errbuf why = {0};
    enum err rc = ERR_OK;

    while (rc == ERR_OK) {
        struct iobuf *buf;
        struct member m;
        bool lives = true;

        got = place_scan(&source, at, &m, &buf, &next, &why);
        if (got != SCAN_GROUP)
            break;
        rc = has_record(d, &m, &lives, eb);
        if (rc == ERR_OK && (lives || keeps_orphans(d, &m))) {
            used = next;
            /* As with the log: were it lost, what comes behind it would seem to be free. */
            rc = rt_write(s->file, at, buf, 0, BODY_HEAD, RT_WRITE, eb);
        } else if (rc == ERR_OK && m.kind != MEMBER_DEAD) {
            d->home.given_back++;
            rc = body_bury(s, m.offset, &m.content, m.span, RT_WRITE, eb);
            POINT(START_BURIED);
        }
        iobuf_drop(&buf);
        at = next;
    }
    if (got == SCAN_NEWER)
        return err_set(eb, ERR_NOT_BUILT, "%s", why.text);
    if (got == SCAN_ERROR)
        return err_set(eb, ERR_IO, "%s", why.text);
    if (got == SCAN_END && at + BODY_HEAD <= s->home.size && why.text[0] != '\0')
        used = s->home.size;
    s->home.used = used;
    puncher_given_out(d->puncher, s->id, used); /* all that died is with him by now */
    if (rc == ERR_OK)
        rc = renew_segment(s, eb);
    return rc == ERR_OK ? rt_sync(s->file, eb) : rc;
}

static enum err
recover_bodies(struct disk *d, enum disk_class class, struct errbuf *eb)
{
    struct segment *newest = NULL;
    enum err rc;

    LIST_EACH(&d->home.segments_of[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, home.of_class);

        if (s->kind == SEGMENT_BODIES && (newest == NULL || s->id > newest->id))
            newest = s;
    }
    if (newest == NULL)
        return ERR_OK;
    rc = walk_places(d, newest, eb);
    if (rc == ERR_OK)
        d->home.bodies[class] = segment_ref(newest);
    return rc;
}

/* Segments of one body: those in which nothing lives are unlinked. The index has all of the replay by now. */
static enum err
recover_single(struct disk *d, enum disk_class class, const struct found_list *l,
               struct errbuf *eb)
{
    for (uint32_t i = 0; i < l->count; i++) {
        struct index_segment seg = {0};
        enum err rc;

        if (l->at[i].kind != SEGMENT_ONE)
            continue;
        rc = index_segment(d->index, class, l->at[i].id, &seg, eb);
        if (rc == ERR_OK && seg.living > 0) {
            uint64_t size;

            rc = segment_size(d, class, l->at[i].id, &size, eb);
            if (rc != ERR_OK && rc != ERR_NOT_FOUND)
                return rc;
            atomic_fetch_add(&d->used_bytes[class], size - MIN(size, 2 * DISK_ALIGN));
            continue;
        }
        if ((d->home.log_damaged || d->o.rebuild) && class == DISK_NATIVE &&
            (rc == ERR_OK || rc == ERR_NOT_FOUND))
            continue;
        if (rc == ERR_OK || rc == ERR_NOT_FOUND)
            rc = segment_remove(d, class, SEGMENT_ONE, l->at[i].id, eb);
        if (rc == ERR_OK)
            d->home.given_back++;
        else if (rc !=
                 ERR_NOT_FOUND) /* the replay's own flush may have been there first */
            return rc;
    }
    return ERR_OK;
}

/* Logs and shared segments: to where the next group or body goes; older ones are full. */
static void
count_shared(struct disk *d, enum disk_class class)
{
    LIST_EACH(&d->home.segments_of[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, home.of_class);
        bool open = s == d->home.log[class].now || s == d->home.bodies[class];

        s->home.counted = (open ? s->home.used : s->home.size) - DISK_ALIGN;
        atomic_fetch_add(&d->used_bytes[class], s->home.counted);
    }
}

/* ---- logs that are damaged or gone ---- */

/* Is the first thing in the file a finished body of an earlier start? */
static enum err
has_old_body(struct disk *d, enum disk_class class, const char *name, bool *out,
             struct errbuf *eb)
{
    struct rt_file *f = NULL;
    struct iobuf *b = NULL;
    struct member m;
    uint32_t n = 0;
    size_t need;
    enum err rc = rt_open(d->dir[class], name, RT_O_DIRECT, 0, &f, eb);

    *out = false;
    if (rc == ERR_OK)
        rc = iobuf_get(BODY_HEAD, &b);
    if (rc == ERR_OK)
        rc = rt_read(f, DISK_ALIGN, b, 0, BODY_HEAD, RT_READ, DEADLINE_NEVER, &n, eb);
    if (rc == ERR_OK)
        *out = member_parse((struct span){b->at, n}, &m, &need, NULL) == MEMBER_GOOD &&
               m.kind == MEMBER_BODY && m.epoch < d->former_epoch;
    iobuf_drop(&b);
    rt_file_close(&f);
    return rc;
}

static uint64_t
log_bytes(struct disk *d, enum disk_class class, const struct log_position *from)
{
    uint64_t sum = 0;

    LIST_EACH(&d->home.segments_of[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, home.of_class);

        if (s->kind == SEGMENT_LOG && s->first_group > from->group)
            sum += s->home.size;
        else if (s->kind == SEGMENT_LOG && s->id == from->segment)
            sum += s->home.size - MIN(s->home.size, from->offset);
    }
    return sum;
}

/* Bodies without any log: at most those of one start that did not come to its first record. */
static enum err
check_for_logs(struct disk *d, const struct found_list *l, struct errbuf *eb)
{
    if (oldest_log(d, DISK_NATIVE) != NULL)
        return ERR_OK;
    for (uint32_t i = 0; i < l->count; i++) {
        char name[SEGMENT_NAME_ROOM];
        bool old = false;
        enum err rc = ERR_OK;

        segment_name(l->at[i].kind, l->at[i].id, name);
        if (l->at[i].kind != SEGMENT_LOG)
            rc = has_old_body(d, DISK_NATIVE, name, &old, eb);
        if (rc != ERR_OK)
            return rc;
        if (old && d->o.rebuild)
            d->home.log_damaged = true;
        else if (old)
            return err_set(eb, ERR_CORRUPT,
                           "there are bodies (native/%s), but no native log that says "
                           "which of them live: put the logs back, or run forebay disk "
                           "rebuild --from-bodies",
                           name);
    }
    return ERR_OK;
}

/* Remembered in a file, because the index will cover what was lost, and the next start sees nothing of it. */
static enum err
remember_damage(struct disk *d, bool before, struct errbuf *eb)
{
    static const char text[] =
        "Changes of the native log were lost. Bodies that no record names are kept.\n"
        "forebay disk rebuild --from-bodies brings them back; forebay disk check "
        "--repair --drop-damaged gives them up.\n";

    if (before || !d->home.log_damaged)
        return ERR_OK;
    return rt_file_store(d->state, RECOVER_ORPHANS, text, sizeof text - 1, 0600, eb);
}

/* Is the index empty, so that all it will have comes from this replay? */
static bool
covers_nothing(struct disk *d, const struct index_covered *covered)
{
    struct index_stat stat;

    index_stat(d->index, &stat);
    return stat.objects == 0 && covered->log[DISK_NATIVE].segment == 0 &&
           covered->log[DISK_CACHED].segment == 0;
}

enum err
recover_disk(struct disk *d, struct errbuf *eb)
{
    struct found_list found[DISK_CLASSES_] = {0};
    struct index_covered covered = {0};
    unsigned mode;
    bool damaged = rt_dir_mode(d->state, RECOVER_ORPHANS, &mode, NULL) == ERR_OK;
    enum err rc = ERR_OK;

    d->home.log_damaged = damaged;
    d->home.next_segment = 1;
    rc = retired_load(d->state, &d->home.retired, eb);
    for (unsigned c = 0; rc == ERR_OK && c < DISK_CLASSES_; c++) {
        rc = rt_dir_list(d->dir[c], on_name, &found[c], eb);
        if (rc == ERR_OK)
            rc = open_segments(d, (enum disk_class)c, &found[c], eb);
    }
    if (rc == ERR_OK)
        rc = open_index(d, &covered, eb);
    if (rc == ERR_OK)
        rc = check_for_logs(d, &found[DISK_NATIVE], eb);
    if (rc == ERR_OK)
        rc = prepared_load(d, eb);
    if (rc == ERR_OK)
        rc = usage_load(d->usage, d->index, eb);
    tail_replaying(d->tail, true);
    if (rc == ERR_OK)
        index_replaying(d->index, true);
    for (unsigned c = 0; c < DISK_CLASSES_; c++) {
        d->home.log[c].end = covered.log[c]; /* a flush in the middle covers no less */
        d->home.log[c].covered = covered.log[c];
        if (rc == ERR_OK)
            d->home.to_replay += log_bytes(d, (enum disk_class)c, &covered.log[c]);
    }
    if (rc == ERR_OK && covers_nothing(d, &covered))
        d->home.known = known_new(d->home.to_replay);
    for (unsigned c = 0; rc == ERR_OK && c < DISK_CLASSES_; c++)
        rc = replay_class(d, (enum disk_class)c, &covered.log[c], eb);
    known_free(&d->home.known);
    tail_replaying(d->tail, false);
    if (d->index != NULL)
        index_replaying(d->index, false);
    POINT(START_REPLAYED);
    if (rc == ERR_OK)
        rc = remember_damage(d, damaged, eb);
    d->home.log_lost = d->home.log_damaged;
    d->home.log_damaged |=
        d->o.rebuild; /* nothing is given back before somebody has looked */
    for (unsigned c = 0; rc == ERR_OK && c < DISK_CLASSES_; c++) {
        rc = recover_bodies(d, (enum disk_class)c, eb);
        count_shared(d, (enum disk_class)c);
        if (rc == ERR_OK)
            rc = recover_single(d, (enum disk_class)c, &found[c], eb);
    }
    for (unsigned c = 0; c < DISK_CLASSES_; c++)
        free(found[c].at);
    if (rc == ERR_OK && d->home.given_back > 0)
        LOG(LOG_INFO, "disk.given_back", "places of bodies that were never committed",
            L_TEXT("disk", rt_dir_path(d->root)), L_U64("count", d->home.given_back));
    POINT(START_READY);
    return rc;
}
