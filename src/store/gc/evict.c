#include "store/gc/evict.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "rt/point.h"
#include "store/core/core.h"
#include "store/health/health.h"
#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/access_freq.h"
#include "store/segment/scan.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_space.h"
#include "store/store_write.h"
#include "store/wal/commit.h"
#include "store/wal/flush.h"
#include "store/wal/wal.h"

#define BATCH 64u
#define OPEN_SHARE                                                                       \
    8u /* the open log of more than that part of all is closed when much of it is waste */
#define WASTE 8u /* garbage of at least an eighth of it */
#define LARGE_SHARE                                                                      \
    16u /* a segment of more than that part of all goes only as far as it has to */

struct candidate {
    uint32_t segment, access_freq;
    bool open; /* still being appended to: evicted last */
    uint64_t living;
};

/* One at a time: a batch is too large for a stack. */
struct evictor {
    struct rt_sem turn;
    struct commit commits[BATCH];
    struct store_key keys[BATCH];
    struct store_condition conditions[BATCH];
    uint64_t weights[BATCH], sizes[BATCH];
    char names[BATCH][STORE_KEY_MAX];
    uint32_t count;

    struct candidate *list; /* owned */
    uint32_t listed, room;
    uint64_t living;

    const struct store_evict_options *o;
    struct store_evicted *out;
    uint32_t segment, access_freq; /* the current segment */
    bool part;                     /* a large segment: evict only as much as needed */
    uint64_t freed, pending;       /* weights: of evicted objects, and of the batch */
};

/* Bytes still to evict. */
static uint64_t
missing(const struct evictor *e)
{
    uint64_t over = e->living - MIN(e->living, e->o->target);
    uint64_t goal = MAX(over, e->o->want);

    assert(e->o != NULL);
    return goal - MIN(goal, e->freed + e->pending);
}

/* Asserts the invariants that hold between two switches. */
void
evictor_check(const struct evictor *e)
{
    assert(e->count <= BATCH);
    assert(e->listed <= e->room);
    assert((e->list != NULL) == (e->room > 0));
    assert(e->count > 0 || e->pending == 0);
}

struct evictor *
evictor_new(void)
{
    struct evictor *e = xcalloc(1, sizeof *e);

    rt_sem_init(&e->turn, 1);
    return e;
}

void
evictor_free(struct evictor **ep)
{
    struct evictor *e = *ep;

    *ep = NULL;
    if (e == NULL)
        return;
    free(e->list);
    free(e);
}

/* ---- candidates ---- */

static void
on_segment(void *arg, enum store_class class, uint32_t segment,
           const struct index_segment *seen)
{
    struct evictor *e = arg;

    assert(seen != NULL);
    assert(e->listed <= e->room);
    if (class != STORE_CACHED || seen->living <= 0)
        return;
    if (e->listed == e->room) {
        e->room = MAX(64u, 2 * e->room);
        e->list = xrealloc(e->list, e->room * sizeof *e->list);
    }
    e->list[e->listed++] =
        (struct candidate){.segment = segment, .living = (uint64_t)seen->living};
    e->living += (uint64_t)seen->living;
}

/* Of two equally cold segments the older one comes first. */
static int
coldest_first(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->open != y->open)
        return x->open ? 1 : -1;
    if (x->access_freq != y->access_freq)
        return x->access_freq < y->access_freq ? -1 : 1;
    return (x->segment > y->segment) - (x->segment < y->segment);
}

static bool
is_open(const struct store *d, uint32_t segment)
{
    const struct segment *log = d->wals->of[STORE_CACHED].now;
    const struct segment *bodies = d->segments->bodies[STORE_CACHED];

    return (log != NULL && log->id == segment) ||
           (bodies != NULL && bodies->id == segment);
}

static enum err
list_segments(struct store *d, struct evictor *e, struct errbuf *eb)
{
    enum err rc;

    assert(on_owner(d));
    assert(e->count == 0);
    e->listed = 0;
    e->living = 0;
    rc = index_segments(d->index, on_segment, e, eb);
    for (uint32_t i = 0; rc == ERR_OK && i < e->listed; i++) {
        struct candidate *c = &e->list[i];

        c->access_freq = access_freq_of(d->access_freq, c->segment, c->living);
        c->open = is_open(d, c->segment);
    }
    if (rc == ERR_OK && e->listed > 0)
        qsort(e->list, e->listed, sizeof *e->list, coldest_first);
    return rc;
}

/* ---- evicting objects ---- */

static enum err
evict_end_batch(struct store *d, struct evictor *e, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(on_owner(d));
    assert(e->count <= BATCH);
    assert(e->out != NULL);
    for (uint32_t i = 0; i < e->count; i++)
        commit_start(d, STORE_CACHED, &e->commits[i]);
    for (uint32_t i = 0; i < e->count; i++) {
        enum err one = commit_wait(&e->commits[i], rc == ERR_OK ? eb : NULL);

        if (one == ERR_OK && e->commits[i].existed) {
            e->out->objects++;
            e->out->bytes += e->sizes[i];
            e->freed += e->weights[i];
            metric_add(M_EVICTED, 0, 1);
            metric_add(M_EVICTED_BYTES, 0, (int64_t)e->sizes[i]);
        } else if (one != ERR_OK && one != ERR_PRECONDITION && one != ERR_NOT_FOUND &&
                   rc == ERR_OK) {
            rc = one;
        }
    }
    if (e->count > 0)
        POINT(EVICT_DROPPED);
    e->count = 0;
    e->pending = 0;
    return rc;
}

/* Checks that the object of this record is still current at this place, and may be evicted. */
static enum err
take_object(struct store *d, struct evictor *e, const struct log_record *m,
            struct errbuf *eb)
{
    struct store_candidate c;
    struct entry entry;
    uint32_t i;
    enum err rc;

    if (e->part && missing(e) == 0)
        return ERR_OK;
    rc = find_object(d->memtable, d->index, m->bucket, m->key, false, &entry, eb);

    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    if (entry.place.segment != m->segment || entry.place.offset != m->offset ||
        (entry.flags & ENTRY_CACHED) == 0 || (entry.flags & ENTRY_IN_DOUBT) != 0)
        return ERR_OK;
    c = (struct store_candidate){.bucket = m->bucket,
                                 .key = m->key,
                                 .entry = &entry,
                                 .access_freq = e->access_freq};
    if (e->o->keep != NULL && e->o->keep(e->o->arg, &c)) {
        e->out->kept++;
        return ERR_OK;
    }
    assert(e->count < BATCH);
    assert(m->key.len <= STORE_KEY_MAX);
    i = e->count++;
    memcpy(e->names[i], m->key.at, m->key.len);
    e->keys[i] =
        (struct store_key){.bucket = m->bucket, .key = {e->names[i], m->key.len}};
    e->conditions[i] =
        (struct store_condition){.if_version = true, .version = entry.version};
    e->commits[i] = (struct commit){
        .kind = LOG_RECORD_DELETE, .key = &e->keys[i], .condition = &e->conditions[i]};
    e->weights[i] = (uint64_t)entry_weight(&entry);
    e->pending += e->weights[i];
    e->sizes[i] = entry.size;
    return e->count == BATCH ? evict_end_batch(d, e, eb) : ERR_OK;
}

/* Evicts bodies by their headers, up to the last place. */
static enum err
walk_places(struct store *d, struct evictor *e, const struct scan_source *source,
            struct errbuf *eb)
{
    uint64_t at = STORE_ALIGN, next;
    enum err rc = ERR_OK;

    while (rc == ERR_OK) {
        struct iobuf *buf;
        struct log_record m;
        enum scanned got = place_scan(source, at, &m, &buf, &next, eb);

        if (got != SCAN_BATCH)
            return got == SCAN_ERROR ? ERR_IO : ERR_OK;
        if (m.kind == LOG_RECORD_BODY && m.part == 0)
            rc = take_object(d, e, &m, eb);
        iobuf_drop(&buf);
        at = next;
        rt_yield();
    }
    return rc;
}

static enum err
walk_log(struct store *d, struct evictor *e, struct segment *s, struct errbuf *eb)
{
    struct scan_source source = {.file = s->file,
                                 .segment = s->id,
                                 .generation = s->generation,
                                 .size = s->owner.size,
                                 .cluster_sum = d->cluster_sum,
                                 .cached = true};
    struct wal_scan scan;
    struct wal_scan_next_batch behind;
    enum scanned got = SCAN_BATCH;
    enum err rc = ERR_OK;

    assert(s->kind == SEGMENT_LOG);
    assert(s->class == STORE_CACHED);
    wal_scan_begin(&scan, &source, STORE_ALIGN, s->first_batch, 0);
    while (rc == ERR_OK && scan.offset < s->owner.used) {
        got = wal_scan_next(&scan, eb);
        if (got == SCAN_END && wal_scan_find_next(&scan, UINT64_MAX, &behind)) {
            wal_scan_resume(&scan, &behind);
            continue;
        }
        if (got != SCAN_BATCH)
            break;
        for (uint32_t i = 0; rc == ERR_OK && i < scan.count; i++)
            if (scan.records[i].kind == LOG_RECORD_PUT ||
                scan.records[i].kind == LOG_RECORD_RELOCATED)
                rc = take_object(d, e, &scan.records[i], eb);
        rt_yield();
    }
    wal_scan_end(&scan);
    return got == SCAN_ERROR ? ERR_IO : rc;
}

/* Evicts a segment of one body, opened by name. */
static enum err
walk_one(struct store *d, struct evictor *e, struct errbuf *eb)
{
    struct scan_source source = {.segment = e->segment};
    char name[SEGMENT_NAME_ROOM];
    struct log_record head;
    enum err rc;

    assert(e->segment > 0);
    segment_name(SEGMENT_ONE, e->segment, name);
    rc = rt_open(d->dir[STORE_CACHED], name, 0, 0, &source.file, eb);
    if (rc == ERR_OK)
        rc = rt_file_size(source.file, &source.size, eb);
    if (rc == ERR_OK)
        rc = segment_header_read(source.file, &head, eb);
    if (rc == ERR_OK) {
        source.generation = head.generation;
        rc = walk_places(d, e, &source, eb);
    }
    rt_file_close(&source.file);
    return rc == ERR_NOT_FOUND || rc == ERR_CORRUPT ? ERR_OK : rc;
}

static enum err
evict_segment(struct store *d, struct evictor *e, const struct candidate *c,
              struct errbuf *eb)
{
    struct segment *s = segment_pin(d, c->segment);
    uint64_t before = e->freed;
    enum err rc;

    assert(on_owner(d));
    assert(c->segment > 0);
    assert(e->count == 0);
    POINT(EVICT_CHOSEN);
    e->segment = c->segment;
    e->access_freq = c->access_freq;
    e->part = c->living > e->living / LARGE_SHARE;
    if (s == NULL)
        rc = walk_one(d, e, eb);
    else if (s->kind == SEGMENT_LOG)
        rc = walk_log(d, e, s, eb);
    else {
        struct scan_source source = {.file = s->file,
                                     .segment = s->id,
                                     .generation = s->generation,
                                     .size = s->owner.size};

        rc = walk_places(d, e, &source, eb);
    }
    if (rc == ERR_OK)
        rc = evict_end_batch(d, e, eb);
    e->count = 0;
    e->pending = 0;
    if (rc == ERR_OK && s != NULL && (e->freed - before) * 2 >= c->living)
        s->owner.evicted = true;
    e->out->segments++;
    segment_drop(&s);
    return rc;
}

/* ---- a round ---- */

/* Closes the open log, because only a full log is compacted. In a small cache the open log may
 * hold most of the bytes. Its garbage, or the space lost between its batches, would otherwise
 * never be reclaimed. */
static void
close_wasteful_log(struct store *d, const struct evictor *e)
{
    const struct segment *log = d->wals->of[STORE_CACHED].now;
    uint64_t used = atomic_load(&d->segments->used_bytes[STORE_CACHED]);

    for (uint32_t i = 0; log != NULL && i < e->listed; i++) {
        const struct candidate *c = &e->list[i];
        uint64_t held = log->owner.counted;

        if (c->segment == log->id && held > used / OPEN_SHARE &&
            held - MIN(held, c->living) > held / WASTE)
            d->wals->of[STORE_CACHED].full = true;
    }
}

static enum err
evict_round(struct store *d, struct evictor *e, struct errbuf *eb)
{
    /* Compaction may not reclaim space while the index is unverified: then evicting would free
     * nothing. */
    bool in_vain = index_trust(d->index) != STORE_INDEX_PROVEN;
    bool tight =
        !in_vain && (atomic_load(&d->segments->used_bytes[STORE_CACHED]) > e->o->target ||
                     e->o->want > 0);
    struct store_space space;
    enum err rc = ERR_OK;
    uint32_t next = 0;

    assert(on_owner(d));
    assert(e->o != NULL);
    assert(e->out != NULL);
    if (tight) /* current values, not those of the last flush */
        rc = flush_wait(d, eb);
    if (rc == ERR_OK)
        rc = list_segments(d, e, eb);
    if (rc == ERR_OK && tight)
        close_wasteful_log(d, e); /* the next round counts what this evicts */
    e->out->living = e->living;
    e->freed = e->pending = 0;
    while (rc == ERR_OK && !in_vain && next < e->listed && d->open && missing(e) > 0)
        rc = evict_segment(d, e, &e->list[next++], eb);
    e->out->living -= MIN(e->freed, e->living);
    store_space(d, &space);
    e->out->reclaimed =
        space.unlinked_bytes + space.punched_bytes + space.compacted_bytes;
    e->out->coldest = next < e->listed ? e->list[next].access_freq : 0;
    if (e->out->objects > 0)
        LOG(LOG_DEBUG, "store.evicted", "the coldest segments gave room",
            L_TEXT("disk", rt_dir_path(d->root)), L_U64("segments", e->out->segments),
            L_U64("objects", e->out->objects), L_U64("bytes", e->out->bytes),
            L_U64("kept", e->out->kept));
    return rc;
}

struct evict_job {
    struct store *disk;
    const struct store_evict_options *o;
    struct store_evicted *out;
    struct errbuf *eb;
    enum err rc;
};

static void
evict_on_owner(void *arg)
{
    struct evict_job *j = arg;
    struct evictor *e = j->disk->evictor;
    struct rt_shield shield;

    rt_shield_begin(&shield); /* a batch borrows from the evictor until its reply */
    j->rc = rt_sem_acquire(&e->turn, DEADLINE_NEVER);
    if (j->rc == ERR_OK) {
        e->o = j->o;
        e->out = j->out;
        j->rc = j->disk->open ? evict_round(j->disk, e, j->eb) : ERR_CLOSED;
        rt_sem_release(&e->turn);
    }
    rt_shield_end(&shield);
}

enum err
store_evict(struct store *d, const struct store_evict_options *o,
            struct store_evicted *out, struct errbuf *eb)
{
    struct evict_job j = {.disk = d, .o = o, .out = out, .eb = eb, .rc = ERR_CANCELLED};
    enum err rc;

    assert(o != NULL);
    assert(out != NULL);
    *out = (struct store_evicted){0};
    rc = on_owner_loop(d, evict_on_owner, &j);
    return rc == ERR_OK ? j.rc : rc;
}

void
store_access_freq_add(struct store *d, const struct entry *entry, uint32_t reads)
{
    access_freq_add(d->access_freq, entry->place.segment,
                    (uint64_t)entry_weight(entry) * reads);
}

void
store_access_freq_rotate(struct store *d)
{
    access_freq_rotate(d->access_freq);
}

enum err
store_next_bucket(struct store *d, uint64_t from, uint64_t *out, struct errbuf *eb)
{
    enum err rc = health_may_read(d->health, eb);

    return rc == ERR_OK ? index_bucket(d->index, from, out, eb) : rc;
}
