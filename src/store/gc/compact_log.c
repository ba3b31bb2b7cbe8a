/* Compaction of logs: choice of the log, and treatment of each record. See compact.h and
 * relocate.h. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "rt/point.h"
#include "store/core/core.h"
#include "store/gc/compactor.h"
#include "store/gc/relocate.h"
#include "store/index/entry.h"
#include "store/index/index.h"
#include "store/record/block.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/record/manifest.h"
#include "store/segment/read.h"
#include "store/segment/scan.h"
#include "store/segment/segment.h"
#include "store/segment/space.h"
#include "store/store_entry.h"
#include "store/wal/commit.h"
#include "store/wal/flush.h"
#include "store/wal/log_gap.h"
#include "store/wal/log_set.h"
#include "store/wal/truncated.h"
#include "store/wal/wal.h"

#define BATCH       64u
#define BATCH_BYTES KIB(256)
#define PASSES      4 /* over one log: looks again at what changed meanwhile */
/* Shares of garbage, in hundredths. */
#define DEAD_BUSY  25u
#define DEAD_QUIET 5u
#define DEAD_FULL  1u
/* Shares of records that only older logs keep, in hundredths. */

#define WAITING_BUSY  10u
#define WAITING_QUIET 3u
#define LOOKING       2u /* reading costs so much less than moving */
#define SURVEYS       4u /* per round */

static_assert(BATCH <= BATCH_RECORDS,
              "a batch of the compactor fits into a commit batch");
static_assert(DEAD_FULL < DEAD_QUIET && DEAD_QUIET < DEAD_BUSY,
              "the fuller, the eagerer");

struct compact_batch {
    struct relocation relocation[BATCH];
    struct commit commits[BATCH];
    struct store_key keys[BATCH];
    uint32_t count;
    uint64_t bytes;
};

/* Result of a pass over a log. */
struct pass {
    bool moves; /* false: only counts */
    bool oldest;
    bool stuck; /* something can't be moved, or the log is damaged */
    uint64_t living, waiting;
    uint32_t changed; /* between survey and commit */
};

struct compact_batch *
compact_batch_new(void)
{
    return xcalloc(1, sizeof(struct compact_batch));
}

/* ---- logs ---- */

/* Returns the last batch that can be in the log: the one before the next log, or before the next
 * batches known to be truncated. */
static uint64_t
last_batch(struct store *d, const struct segment *s)
{
    uint64_t next = truncated_next_after(&d->wals->truncated, s->class, s->first_batch);

    assert(s->kind == SEGMENT_LOG);
    assert(s->first_batch > 0);
    LIST_EACH(&d->segments->of_class[s->class], n)
    {
        const struct segment *o = LIST_ENTRY(n, struct segment, owner.of_class);

        if (o->kind != SEGMENT_LOG || o == s)
            continue;
        if (o->first_batch == s->first_batch && o->id > s->id)
            return s->first_batch - 1; /* recreated after a crash: the log is empty */
        if (o->first_batch > s->first_batch && (next == 0 || o->first_batch < next))
            next = o->first_batch;
    }
    return next - 1;
}

static bool
is_oldest(struct store *d, const struct segment *s)
{
    assert(s->kind == SEGMENT_LOG);
    LIST_EACH(&d->segments->of_class[s->class], n)
    {
        const struct segment *o = LIST_ENTRY(n, struct segment, owner.of_class);

        if (o->kind == SEGMENT_LOG && o != s && o->first_batch <= s->first_batch)
            return false;
    }
    return true;
}

/* True if the log may be compacted: it is full, and the index covers all of it. */
static bool
is_closed(struct store *d, const struct segment *s)
{
    const struct wal *log = &d->wals->of[s->class];

    return s->kind == SEGMENT_LOG && s != log->now && !s->owner.held && !s->doomed &&
           s->first_batch != 0 && log->now != NULL && s->id != log->checkpoint.segment &&
           log->checkpoint.segment != 0 && last_batch(d, s) <= log->checkpoint.batch;
}

/* Upper bound of its garbage in bytes. */
static enum err
guess_dead(struct store *d, const struct segment *s, uint64_t *out, struct errbuf *eb)
{
    const struct survey *v = &s->owner.survey;
    struct index_segment seen = {0};
    uint64_t living, gone = 0;
    enum err rc = index_segment(d->index, s->class, s->id, &seen, eb);

    assert(s->kind == SEGMENT_LOG);
    *out = 0;
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    living = (uint64_t)MAX(seen.living, 0);
    if (v->done) {
        living = v->living;
        if (v->indexed > seen.living)
            gone += (uint64_t)(v->indexed - seen.living);
        gone += MIN((d->wals->deaths[s->class] - v->deaths) * (uint64_t)RECORD_WEIGHT,
                    living - MIN(living, (uint64_t)MAX(v->indexed, 0)));
        living -= MIN(living, gone);
    }
    *out = s->owner.counted - MIN(s->owner.counted, living);
    return ERR_OK;
}

/* ---- one batch ---- */

static enum err
compact_log_end_batch(struct compactor *k, enum store_class class, struct pass *p,
                      struct errbuf *eb)
{
    struct compact_batch *b = k->batch;
    enum err rc = ERR_OK;

    assert(k->batch->count <= BATCH);
    assert(class < STORE_CLASSES_);
    for (uint32_t i = 0; i < b->count; i++)
        commit_start(k->disk, class, &b->commits[i]);
    for (uint32_t i = 0; i < b->count; i++) {
        enum err one = commit_wait(&b->commits[i], rc == ERR_OK ? eb : NULL);

        if (one == ERR_PRECONDITION)
            p->changed++;
        else if (one != ERR_OK && rc == ERR_OK)
            rc = one;
    }
    b->count = 0;
    b->bytes = 0;
    arena_reset(k->arena);
    return rc;
}

static enum err
submit_one(struct compactor *k, enum store_class class, struct commit *c,
           uint32_t *changed, struct errbuf *eb)
{
    enum err rc;

    assert(changed != NULL);
    commit_start(k->disk, class, c);
    rc = commit_wait(c, eb);
    if (rc != ERR_PRECONDITION)
        return rc;
    ++*changed;
    return ERR_OK;
}

/* ---- parts of objects in a log ---- */

static bool
place_part(struct manifest *m, const struct log_record *part, const struct entry *now)
{
    for (uint32_t i = 0; i < m->count; i++) {
        struct manifest_entry *e = &m->entries[i];

        if (e->segment != part->segment || e->offset != part->offset)
            continue;
        e->segment = now->place.segment;
        e->offset = now->place.offset;
        return true;
    }
    return false;
}

/* Writes the manifest again, with the new place of the part. */
enum err
compact_manifest(struct compactor *k, enum store_class class,
                 const struct relocation *part, const struct entry *now,
                 uint32_t *changed, struct errbuf *eb)
{
    struct store *d = k->disk;
    struct relocation whole = {
        .what = RELOCATE_MANIFEST, .by = RELOCATE_BY_VERSION, .entry = part->entry};
    struct loaded l;
    struct manifest m = {0};
    struct store_key key;
    struct commit c;
    char *payload = NULL, *sums = NULL;
    size_t len = 0;
    enum err rc = read_log_record(d, &part->entry, true, &l, eb);

    assert(part->what == RELOCATE_PART);
    if (rc != ERR_OK)
        return rc;
    whole.m = &l.m;
    rc = manifest_decode(l.m.body, &m, eb);
    if (rc == ERR_OK && place_part(&m, part->m, now)) {
        len = manifest_len(m.count, m.sum_len);
        payload = xmalloc(len + 1);
        sums = xmalloc(4 * block_count(len) + 1);
        manifest_encode(&m, payload);
        block_sums_put(block_seed(d->cluster_sum, &l.m.content, 0), 0, payload, len,
                       sums);
        rc = relocate_commit(&whole, k->arena, &key, &c, eb);
        c.payload = (struct span){payload, len};
        c.block_sums = (struct span){sums, 4 * block_count(len)};
        if (rc == ERR_OK)
            rc = submit_one(k, class, &c, changed, eb);
    }
    free(payload);
    free(sums);
    manifest_fini(&m);
    loaded_fini(&l);
    return rc;
}

static enum err
move_part(struct compactor *k, enum store_class class, const struct relocation *part,
          struct pass *p, struct errbuf *eb)
{
    struct store_key key;
    struct commit c;
    enum err rc = compact_log_end_batch(k, class, p, eb);

    assert(p->moves);
    if (rc == ERR_OK)
        rc = relocate_commit(part, k->arena, &key, &c, eb);
    if (rc == ERR_OK)
        rc = submit_one(k, class, &c, &p->changed, eb);
    return rc == ERR_OK ? compact_manifest(k, class, part, &c.entry, &p->changed, eb)
                        : rc;
}

/* ---- one record ---- */

static enum err
compact_move_record(struct compactor *k, enum store_class class,
                    const struct relocation *seen, struct pass *p, struct errbuf *eb)
{
    struct compact_batch *b = k->batch;
    uint64_t bytes = relocate_bytes(seen->m);
    enum err rc;

    assert(p->moves);
    assert(k->batch->count <= BATCH);
    if (seen->what == RELOCATE_PART)
        return move_part(k, class, seen, p, eb);
    if (b->count == BATCH || (b->count > 0 && b->bytes + bytes > BATCH_BYTES)) {
        uint64_t done = b->bytes;

        rc = compact_log_end_batch(k, class, p, eb);
        if (rc == ERR_OK)
            rc = compact_pace(k, done);
        if (rc != ERR_OK)
            return rc;
    }
    b->relocation[b->count] = *seen;
    rc = relocate_commit(&b->relocation[b->count], k->arena, &b->keys[b->count],
                         &b->commits[b->count], eb);
    if (rc == ERR_OK) {
        b->count++;
        b->bytes += bytes;
    }
    return rc;
}

static enum err
compact_take_record(struct compactor *k, const struct segment *s,
                    const struct log_record *m, struct pass *p, struct errbuf *eb)
{
    struct relocation seen;
    enum err rc = relocate_classify(k->disk, s->class, m, p->oldest, &seen, eb);

    assert(s->kind == SEGMENT_LOG);
    if (rc != ERR_OK || seen.what == RELOCATE_DROP)
        return rc;
    if (seen.what == RELOCATE_STUCK) {
        p->stuck = true;
        return ERR_OK;
    }
    p->living += relocate_bytes(m);
    if (seen.what == RELOCATE_WAIT || seen.what == RELOCATE_END ||
        seen.what == RELOCATE_ENDED)
        p->waiting += relocate_bytes(m);
    return p->moves ? compact_move_record(k, s->class, &seen, p, eb) : ERR_OK;
}

/* The list of keys at the end of a batch goes with its records: what is moved gets one of the same length. */
static enum err
compact_take_batch(struct compactor *k, const struct segment *s,
                   const struct wal_scan *scan, struct pass *p, struct errbuf *eb)
{
    const struct log_record *last = &scan->records[scan->count - 1];
    uint64_t living = p->living, waiting = p->waiting;
    enum err rc = ERR_OK;

    assert(scan->count > 0);
    for (uint32_t i = 0; rc == ERR_OK && !p->stuck && i < scan->count; i++)
        rc = compact_take_record(k, s, &scan->records[i], p, eb);
    if (last->kind != LOG_RECORD_KEYS)
        return rc;
    p->living += p->living > living ? relocate_bytes(last) : 0;
    p->waiting += p->waiting > waiting ? relocate_bytes(last) : 0;
    return rc;
}

/* ---- one log ---- */

/* Continues after batches of a cached log that a power cut lost. A damaged log stays, since
 * removing it would remove the evidence. */
static bool
passes_cut(const struct store *d, const struct segment *s, struct wal_scan *scan)
{
    struct wal_scan_next_batch behind;

    assert(s->kind == SEGMENT_LOG);
    if (s->class != STORE_CACHED ||
        log_gap_find(d, scan, UINT64_MAX, &behind) != LOG_GAP_LOST)
        return false;
    wal_scan_resume(scan, &behind);
    return true;
}

/* Visits all records of a log, in order. */
static enum err
walk(struct compactor *k, struct segment *s, struct pass *p, struct errbuf *eb)
{
    struct compact_batch *b = k->batch;
    struct store *d = k->disk;
    struct scan_source source = {.file = s->file,
                                 .segment = s->id,
                                 .generation = s->generation,
                                 .size = s->owner.size,
                                 .cluster_sum = d->cluster_sum,
                                 .cached = s->class == STORE_CACHED};
    uint64_t last = last_batch(d, s);
    struct wal_scan scan;
    enum err rc = ERR_OK;

    assert(s->kind == SEGMENT_LOG);
    assert(k->batch->count == 0);
    assert(s != k->disk->wals->of[s->class].now);
    wal_scan_begin(&scan, &source, STORE_ALIGN, s->first_batch, 0);
    while (rc == ERR_OK && !p->stuck && scan.batch <= last) {
        uint64_t from = scan.offset;
        enum scanned got = wal_scan_next(&scan, eb);

        if (got == SCAN_ERROR)
            rc = ERR_IO;
        else if (got == SCAN_END && passes_cut(d, s, &scan))
            continue;
        else if (got != SCAN_BATCH) {
            p->stuck = true;
            compact_hold(d, s, "a group of it is damaged: run forebay disk check");
            break;
        }
        if (rc == ERR_OK)
            rc = compact_take_batch(k, s, &scan, p, eb);
        if (rc == ERR_OK && b->count > 0) /* they borrow from the scan's window */
            rc = compact_log_end_batch(k, s->class, p, eb);
        if (rc == ERR_OK)
            rc = compact_pace(k, (scan.offset - from) / (p->moves ? 1 : LOOKING));
    }
    if (b->count > 0 && rc == ERR_OK)
        rc = compact_log_end_batch(k, s->class, p, eb);
    b->count = 0;
    b->bytes = 0;
    arena_reset(k->arena);
    wal_scan_end(&scan);
    return rc;
}

static enum err
survey(struct compactor *k, struct segment *s, bool oldest, struct errbuf *eb)
{
    struct pass p = {.oldest = oldest};
    struct index_segment seen = {0};
    struct survey *v = &s->owner.survey;
    uint64_t deaths = k->disk->wals->deaths[s->class];
    enum err rc = index_segment(k->disk->index, s->class, s->id, &seen, eb);

    assert(s->kind == SEGMENT_LOG);
    if (rc == ERR_OK || rc == ERR_NOT_FOUND)
        rc = walk(k, s, &p, eb);
    if (rc != ERR_OK)
        return rc;
    LOG(LOG_DEBUG, "store.wal_surveyed", "what a log holds was counted",
        L_U64("segment", s->id), L_U64("bytes", s->owner.counted),
        L_U64("living", p.living), L_U64("waiting", p.waiting));
    *v = (struct survey){.done = true,
                         .living = p.stuck ? s->owner.counted : p.living,
                         .waiting = p.waiting,
                         .indexed = seen.living,
                         .deaths = deaths};
    return ERR_OK;
}

/* Removes a log that nothing names: makes the list of gaps durable, then removes the file. Takes
 * the reference. */
static enum err
retire(struct compactor *k, struct segment **sp, bool oldest, struct errbuf *eb)
{
    struct store *d = k->disk;
    struct segment *s = *sp;
    enum store_class class = s->class;
    uint32_t id = s->id;
    uint64_t first = s->first_batch, last = last_batch(d, s), bytes = s->owner.counted;
    struct truncated *r = &d->wals->truncated;
    uint64_t mark = r->durable_mark; /* as in the file */
    enum err rc = ERR_OK;

    assert(first <= last + 1);
    assert(s != d->wals->of[class].now);
    if (!oldest)
        truncated_add(r, class, first, last);
    if (class == STORE_CACHED) /* data moved out of it depends on these batches now */
        r->durable_mark = MAX(mark, d->wals->of[class].synced_batch);
    if (!oldest || r->durable_mark != mark)
        rc = truncated_persist(d, eb);
    if (rc != ERR_OK)
        r->durable_mark = mark; /* the log stays for now */
    if (rc == ERR_OK)
        rc = log_set_remove(d, class, id, eb);
    if (rc == ERR_OK)
        rc = segment_recycle(d, sp, eb);
    segment_drop(sp);
    if (rc != ERR_OK)
        return rc;
    if (oldest)
        truncated_forget(r, class, last + 1);
    space_reclaimed(d->space, SPACE_COMPACT, bytes);
    LOG(LOG_DEBUG, "store.wal_compacted", "what lived in a log stands elsewhere",
        L_U64("segment", id), L_U64("bytes", bytes));
    return ERR_OK;
}

/* Moves the live records until none is left. Takes the reference if the log is removed: then
 * only readers hold others. */
static enum err
compact_log(struct compactor *k, struct segment **sp, struct errbuf *eb)
{
    struct store *d = k->disk;
    struct segment *s = *sp;
    struct index_segment seen = {0};
    bool oldest = is_oldest(d, s);
    enum store_class class = s->class;
    uint32_t id = s->id, changed = 1;
    enum err rc = ERR_OK;

    assert(on_owner(d));
    assert(s->kind == SEGMENT_LOG);
    assert(s != d->wals->of[class].now);
    for (int i = 0; rc == ERR_OK && changed > 0 && i < PASSES; i++) {
        struct pass p = {.moves = true, .oldest = oldest};

        rc = walk(k, s, &p, eb);
        changed = p.changed;
        POINT(COMPACT_COPIED);
        if (rc == ERR_OK)
            rc = flush_wait(d, eb);
        POINT(COMPACT_INDEXED);
        if (rc == ERR_OK && p.stuck) {
            s->owner.survey = (struct survey){.done = true, .living = s->owner.counted};
            return ERR_OK;
        }
    }
    if (rc == ERR_OK && changed > 0) /* not everything is elsewhere yet: try later */
        return ERR_OK;
    if (rc == ERR_OK)
        rc = index_segment(d->index, class, id, &seen, eb);
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    if (seen.living > 0) {
        compact_hold(d, s,
                     "something still names a place in it after all of it was moved");
        return ERR_OK;
    }
    /* Found during this round: live data may be missing from the index. */
    if (index_is_bad(d->index))
        return ERR_OK;
    rc = retire(k, sp, oldest, eb);
    POINT(COMPACT_FREED);
    return rc;
}

/* ---- which one ---- */

static const unsigned shares[] = {
    [COMPACT_BUSY] = DEAD_BUSY, [COMPACT_QUIET] = DEAD_QUIET, [COMPACT_FULL] = DEAD_FULL};

struct choice {
    struct segment *best, *oldest, *evicted; /* borrowed */
    uint64_t best_dead, dead, held, waiting;
};

static enum err
look_at_logs(struct store *d, enum store_class class, struct choice *out,
             struct errbuf *eb)
{
    enum err rc = ERR_OK;

    *out = (struct choice){0};
    LIST_EACH(&d->segments->of_class[class], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, owner.of_class);
        uint64_t dead;

        if (s->kind != SEGMENT_LOG || s->first_batch == 0)
            continue;
        out->held += s->owner.counted;
        if (!is_closed(d, s))
            continue;
        rc = guess_dead(d, s, &dead, eb);
        if (rc != ERR_OK)
            return rc;
        out->dead += dead;
        if (s->owner.survey.done)
            out->waiting += s->owner.survey.waiting;
        if (out->best == NULL ||
            dead * out->best->owner.counted > out->best_dead * s->owner.counted) {
            out->best = s;
            out->best_dead = dead;
        }
        if (is_oldest(d, s))
            out->oldest = s;
        if (s->owner.evicted)
            out->evicted = s;
    }
    return rc;
}

/* ERR_NOT_FOUND: no log is worth it; ERR_BUSY: there is more to survey. The caller owns a
 * reference. */
static enum err
choose(struct compactor *k, enum store_class class, struct segment **out,
       struct errbuf *eb)
{
    struct store *d = k->disk;
    unsigned share = shares[compact_mood(k)];

    assert(on_owner(d));
    assert(class < STORE_CLASSES_);
    if (class == STORE_CACHED) /* its garbage takes space from cacheable data */
        share = MIN(share, DEAD_QUIET);

    for (unsigned i = 0; i < SURVEYS; i++) {
        struct choice c;
        enum err rc = look_at_logs(d, class, &c, eb);
        bool oldest;
        uint64_t dead;

        if (rc != ERR_OK)
            return rc;
        if (c.evicted != NULL) { /* it is nearly empty, and its space is needed */
            c.evicted->owner.evicted = false;
            *out = segment_ref(c.evicted);
            return ERR_OK;
        }
        if (c.oldest != NULL &&
            c.waiting * 100 >
                c.held * (share == DEAD_BUSY ? WAITING_BUSY : WAITING_QUIET)) {
            *out = segment_ref(c.oldest);
            return ERR_OK;
        }
        if (c.best == NULL || c.dead * 100 < c.held * share ||
            c.best_dead * 100 < c.best->owner.counted * share)
            return ERR_NOT_FOUND;
        *out = segment_ref(c.best);
        oldest = is_oldest(d, c.best);
        rc = survey(k, *out, oldest, eb);
        if (rc == ERR_OK)
            rc = guess_dead(d, *out, &dead, eb);
        if (rc == ERR_OK && !(*out)->owner.held &&
            dead * 100 >= (*out)->owner.counted * share)
            return ERR_OK;
        segment_drop(out);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_BUSY;
}

const struct compact_kind compact_logs = {choose, compact_log};
