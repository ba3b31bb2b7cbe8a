#include "disk/recover.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/metrics.h"
#include "disk/change.h"
#include "disk/flush.h"
#include "disk/manifest.h"
#include "disk/read.h"
#include "disk/scan.h"
#include "disk/segment.h"

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

static enum err
open_index(struct disk *d, struct index_covered *covered, struct errbuf *eb)
{
    struct index_options o = {.dir = d->root, .map_bytes = d->o.index_map_bytes};
    enum index_state state;
    enum err rc;

    memcpy(o.disk_id, d->disk_id, sizeof o.disk_id);
    rc = index_open(&o, &d->index, &state, covered, eb);
    if (rc != ERR_OK)
        return rc;
    if (state == INDEX_GOOD &&
        (covered->generation > d->generation ||
         !position_fits(d, DISK_NATIVE, &covered->log[DISK_NATIVE]) ||
         !position_fits(d, DISK_CACHED, &covered->log[DISK_CACHED]))) {
        LOG(LOG_WARN, "disk.index_foreign",
            "the index does not fit the logs and is rebuilt",
            L_TEXT("disk", rt_dir_path(d->root)));
        rc = index_reset(d->index, eb);
        *covered = (struct index_covered){0};
    } else if (state != INDEX_GOOD) {
        *covered = (struct index_covered){0};
    }
    return rc;
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
flush_replayed(struct disk *d, struct segment *log, struct errbuf *eb)
{
    enum err rc = rt_sync(log->file, eb);

    for (unsigned c = 0; rc == ERR_OK && c < DISK_CLASSES_; c++)
        rc = rt_dir_sync(d->dir[c], eb);
    return rc == ERR_OK ? flush_round(d, eb) : rc;
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
        if (rc == ERR_NO_UPLOAD)
            rc = ERR_OK;
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
    if (m->place.segment != 0)
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

/* The next group, behind damage if there is some. */
static enum scanned
next_group(struct disk *d, enum disk_class class, struct segment *s,
           struct log_scan *scan, struct errbuf *eb)
{
    enum scanned got = log_scan_next(scan, eb);
    uint64_t at = scan->offset, group = scan->group;

    if (got != SCAN_END || class != DISK_NATIVE || !log_scan_skip(scan))
        return got;
    say_damaged(d, s, at, group);
    return log_scan_next(scan, eb);
}

/* One segment, from `offset` on. */
static enum err
replay_segment(struct disk *d, struct changes *c, struct segment *s, uint64_t offset,
               uint64_t *epoch, struct errbuf *eb)
{
    struct log *log = &d->home.log[c->class];
    struct scan_source source = {.file = s->file,
                                 .segment = s->id,
                                 .generation = s->generation,
                                 .size = s->home.size,
                                 .cluster_sum = d->cluster_sum};
    struct log_scan scan;
    enum scanned got = SCAN_GROUP;
    enum err rc = ERR_OK;

    log_scan_begin(&scan, &source, offset, log->next_group, *epoch);
    while (rc == ERR_OK) {
        uint64_t before = scan.offset;

        got = next_group(d, c->class, s, &scan, eb);
        if (got != SCAN_GROUP)
            break;
        rc = replay_group(d, c, &scan, eb);
        set_end(log, &scan, before);
        if (rc == ERR_OK && flush_is_behind(d))
            rc = flush_replayed(d, s, eb);
    }
    s->home.used = scan.offset;
    *epoch = scan.epoch;
    if (got == SCAN_NEWER)
        rc = ERR_NOT_BUILT;
    else if (got == SCAN_ERROR)
        rc = ERR_IO;
    else if (got == SCAN_END && eb->text[0] != '\0')
        LOG(LOG_INFO, "disk.log_end",
            "the log ends at something that was never acknowledged",
            L_U64("segment", s->id), L_U64("offset", scan.offset),
            L_TEXT("found", eb->text));
    log_scan_end(&scan);
    return rc;
}

/* Where the log goes on behind its last segment so far; NULL: nowhere. */
static struct segment *
next_log(struct disk *d, enum disk_class class, struct segment *s)
{
    struct log *log = &d->home.log[class];
    struct segment *next = log_of(d, class, log->next_group);

    if (next != NULL || class != DISK_NATIVE)
        return next != s ? next : NULL;
    LIST_EACH(&d->home.segments_of[class], n)
    {
        struct segment *later = LIST_ENTRY(n, struct segment, home.of_class);

        if (later->kind == SEGMENT_LOG && later->first_group > log->next_group &&
            (next == NULL || later->first_group < next->first_group))
            next = later;
    }
    if (next != NULL) { /* it was made when all before it was there */
        say_damaged(d, s, s->home.used, log->next_group);
        log->next_group = next->first_group;
    }
    return next;
}

static enum err
replay_class(struct disk *d, enum disk_class class, const struct log_position *from,
             struct errbuf *eb)
{
    struct log *log = &d->home.log[class];
    struct changes *c = changes_new(d, class);
    uint64_t offset = DISK_ALIGN, epoch = 0;
    struct segment *s, *next;
    enum err rc = ERR_OK;

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
        rc = replay_segment(d, c, s, offset, &epoch, eb);
        next = rc == ERR_OK ? next_log(d, class, s) : NULL;
        if (next == NULL)
            break;
        segment_drop(&s);
        s = segment_ref(next);
        offset = DISK_ALIGN;
    }
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
    rc = find_object(d->tail, d->index, m->bucket, m->key, false, &row, eb);
    if (rc == ERR_OK)
        *out = content_eq(&row.content, &m->content);
    else if (rc == ERR_NOT_FOUND)
        *out = false;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
bury(struct segment *s, const struct member *m, struct errbuf *eb)
{
    struct member dead = {.kind = MEMBER_DEAD,
                          .segment = s->id,
                          .generation = s->generation,
                          .offset = m->offset,
                          .epoch = s->disk->epoch,
                          .content = m->content,
                          .span = m->span,
                          .payload = m->span - BODY_HEAD};
    struct iobuf *b;
    struct buf head;
    enum err rc = iobuf_get(BODY_HEAD, &b);

    if (rc != ERR_OK)
        return err_set(eb, rc, "no buffer for the header of a body");
    buf_init(&head, BODY_HEAD);
    member_encode(&dead, BODY_HEAD, &head);
    memcpy(b->at, head.at, BODY_HEAD);
    buf_fini(&head);
    rc = rt_write(s->file, m->offset, b, 0, BODY_HEAD, RT_WRITE, eb);
    iobuf_drop(&b);
    return rc;
}

/* Walks the newest shared segment: where the next body goes, and which places have no record. Those at the end are
 * given out again, the others get the header of the dead. */
static enum err
walk_places(struct disk *d, struct segment *s, struct errbuf *eb)
{
    struct scan_source source = {.file = s->file,
                                 .segment = s->id,
                                 .generation = s->generation,
                                 .size = s->home.size};
    uint64_t at = DISK_ALIGN, used = DISK_ALIGN, next;
    enum scanned got = SCAN_GROUP;
    enum err rc = ERR_OK;

    while (rc == ERR_OK) {
        struct iobuf *buf;
        struct member m;
        bool lives = true;

        got = place_scan(&source, at, &m, &buf, &next, eb);
        if (got != SCAN_GROUP)
            break;
        rc = has_record(d, &m, &lives, eb);
        if (rc == ERR_OK && lives)
            used = next;
        else if (rc == ERR_OK && m.kind != MEMBER_DEAD) {
            d->home.given_back++;
            rc = bury(s, &m, eb);
        }
        iobuf_drop(&buf);
        at = next;
    }
    if (got == SCAN_NEWER)
        return ERR_NOT_BUILT;
    if (got == SCAN_ERROR)
        return ERR_IO;
    s->home.used = used;
    return rc;
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

        atomic_fetch_add(&d->used_bytes[class],
                         (open ? s->home.used : s->home.size) - DISK_ALIGN);
    }
}

enum err
recover_disk(struct disk *d, struct errbuf *eb)
{
    struct found_list found[DISK_CLASSES_] = {0};
    struct index_covered covered = {0};
    enum err rc = ERR_OK;

    d->home.next_segment = 1;
    for (unsigned c = 0; rc == ERR_OK && c < DISK_CLASSES_; c++) {
        rc = rt_dir_list(d->dir[c], on_name, &found[c], eb);
        if (rc == ERR_OK)
            rc = open_segments(d, (enum disk_class)c, &found[c], eb);
    }
    if (rc == ERR_OK)
        rc = open_index(d, &covered, eb);
    for (unsigned c = 0; c < DISK_CLASSES_; c++)
        d->home.log[c].end = covered.log[c]; /* a flush in the middle covers no less */
    for (unsigned c = 0; rc == ERR_OK && c < DISK_CLASSES_; c++)
        rc = replay_class(d, (enum disk_class)c, &covered.log[c], eb);
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
    return rc;
}
