/* Compaction of shared body segments. It copies the live bodies of a segment that is mostly
 * garbage to the current body segment, under the same content id, and writes a `moved` record
 * for each (relocate.h). With that record the old place becomes garbage, like an overwritten
 * one. Hole punching does the rest: nothing is released before the index has the record durably,
 * or under a reader.
 *
 * The bytes of garbage bodies are already punched. Compaction reclaims their headers of 4 KiB,
 * and the file. So it is worth its writes if headers are a tenth of the live bytes, or if almost
 * nothing is live.
 *
 * Copied bytes are verified against their sums. A damaged body stays in place, and so does its
 * segment.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "rt/point.h"
#include "store/core/core.h"
#include "store/gc/compactor.h"
#include "store/gc/punch.h"
#include "store/gc/relocate.h"
#include "store/index/index.h"
#include "store/record/block.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/body.h"
#include "store/segment/read.h"
#include "store/segment/scan.h"
#include "store/segment/segment.h"
#include "store/segment/space.h"
#include "store/store_entry.h"
#include "store/wal/commit.h"
#include "store/wal/flush.h"
#include "store/wal/wal.h"

#define BATCH           16u /* bodies that share a sync */
#define BATCH_BYTES     MIB(4)
#define PIECE           MIB(1)
#define SURVEYS         4u /* per round */
#define AGAIN_MS        60000u
#define NEXT_TO_NOTHING 10u /* live: a tenth of the file */
static_assert(PIECE % BLOCK_BYTES == 0, "a piece is whole blocks");
static_assert(BATCH_BYTES % STORE_ALIGN == 0, "bodies stand at multiples of STORE_ALIGN");
/* Shares of garbage, in hundredths, of the space that the segment takes after its bodies were
 * punched. */
static const unsigned shares[] = {
    [COMPACT_BUSY] = 25, [COMPACT_QUIET] = 10, [COMPACT_FULL] = 5};

struct moving {
    struct log_record m;         /* its header, in `head` */
    struct iobuf *head, *behind; /* header of its sums, if that holds the metadata */
    struct log_record sums;
    struct relocation seen;
    struct body to;
    struct store_key key;
    struct commit commit;
};
struct body_pass {
    struct compactor *k;
    struct segment *from;
    struct moving at[BATCH];
    uint32_t count;
    uint64_t bytes;
    uint32_t changed; /* between survey and commit */
    bool stuck;       /* something can't be moved now */
};

static uint64_t
now_ms(void)
{
    return rt_now_ns() / 1000000u;
}

/* ---- live bodies, and their metadata ---- */

static void
end_moving(struct moving *x)
{
    iobuf_drop(&x->head);
    iobuf_drop(&x->behind);
}

static struct entry
place_as_entry(const struct log_record *m)
{
    return (struct entry){.place.segment = m->segment,
                          .place.offset = m->offset,
                          .size = m->size,
                          .content = m->content};
}

static enum err
load_behind(const struct segment *s, struct moving *x, struct errbuf *eb)
{
    struct entry at = place_as_entry(&x->m);
    uint64_t from = body_payload(&at) + align_up(at.size, 512), have;
    uint32_t skip;
    size_t need;
    enum err rc =
        read_span(s->file, from, HEAD_MAX, DEADLINE_NEVER, &x->behind, &skip, &have, eb);

    assert(x->m.meta_behind);
    if (rc != ERR_OK)
        return rc;
    if (log_record_parse((struct span){x->behind->at + skip, have}, &x->sums, &need,
                         eb) != LOG_RECORD_OK ||
        x->sums.kind != LOG_RECORD_SUMS || x->sums.segment != s->id ||
        x->sums.offset != from || !content_eq(&x->sums.content, &x->m.content))
        return ERR_CORRUPT;
    x->seen.meta_of = &x->sums;
    return ERR_OK;
}

/* ---- copying one ---- */

/* Reads, verifies and writes piece by piece. Leaves the last piece in *last; the seal writes it
 * from *rest on. */
static enum err
copy_pieces(struct store *d, struct rt_file *from, const struct entry *at,
            struct body *to, struct buf *sums, struct iobuf **last, struct span *tail,
            struct errbuf *eb)
{
    uint32_t seed = block_seed(d->cluster_sum, &at->content, 0);
    uint64_t step = PIECE / BLOCK_BYTES, blocks = block_count(at->size), bad;
    struct sums known = {0};
    enum err rc = ERR_OK;

    for (uint64_t first = 0; rc == ERR_OK && first < blocks; first += step) {
        uint64_t count = MIN(step, blocks - first), begin = first * BLOCK_BYTES, have;
        uint64_t len = MIN(at->size - begin, count * BLOCK_BYTES);
        uint32_t whole = (uint32_t)align_down(len, STORE_ALIGN), skip;
        const char *want;

        iobuf_drop(last);
        rc = sums_get(from, at, first, count, &known, &want, eb);
        if (rc == ERR_OK)
            rc = read_span(from, body_payload(at) + begin, len, DEADLINE_NEVER, last,
                           &skip, &have, eb);
        if (rc != ERR_OK)
            break;
        assert(skip == 0); /* places and pieces begin at multiples of 4 KiB */
        if (have < len ||
            block_check(seed, first, (*last)->at, len, want, &bad) != ERR_OK) {
            rc = ERR_CORRUPT;
            break;
        }
        buf_put(sums, want, 4 * count);
        if (whole > 0)
            rc = body_write(to, begin, *last, 0, whole, eb);
        *tail = (struct span){(*last)->at + whole, len - whole};
    }
    sums_fini(&known);
    return rc;
}

/* Copies the body to the open segment, without a sync. */
static enum err
copy_body(struct body_pass *p, struct moving *x, struct errbuf *eb)
{
    struct store *d = p->k->disk;
    struct entry at = place_as_entry(&x->m);
    struct log_record head = {.bucket = x->m.bucket,
                              .immutable_name = x->m.immutable_name,
                              .key = x->m.key,
                              .content = x->m.content,
                              .upload = x->m.upload,
                              .part = x->m.part};
    struct object_meta meta;
    struct iobuf *last = NULL;
    struct span tail = {NULL, 0};
    struct buf sums;
    enum err rc = log_record_meta(x->seen.meta_of != NULL ? x->seen.meta_of : &x->m,
                                  p->k->arena, false, &meta, eb);

    assert(p->from->kind == SEGMENT_BODIES);
    assert(p->count < BATCH);
    if (rc == ERR_OK)
        rc = body_reserve(d, p->from->class, &head, at.size, &x->to, eb);
    if (rc != ERR_OK)
        return rc;
    x->to.moves = true;
    buf_init(&sums, 4 * block_count(BODY_OWN) + 4);
    rc = copy_pieces(d, p->from->file, &at, &x->to, &sums, &last, &tail, eb);
    if (rc == ERR_OK)
        rc = body_seal(&x->to, at.size, tail, buf_span(&sums), &meta, eb);
    iobuf_drop(&last);
    buf_fini(&sums);
    if (rc != ERR_OK)
        body_release(&x->to);
    return rc;
}

/* ---- one batch ---- */

/* Syncs once for all bodies that went to one segment. */
static enum err
sync_batch(struct body_pass *p, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(p->count > 0);
    assert(p->count <= BATCH);
    for (uint32_t i = 0; rc == ERR_OK && i < p->count; i++) {
        struct body *to = &p->at[i].to;

        if (i + 1 == p->count || p->at[i + 1].to.segment != to->segment)
            rc = body_sync(to, eb);
    }
    return rc;
}

static enum err
begin_record(struct body_pass *p, struct moving *x, struct errbuf *eb)
{
    enum err rc = relocate_commit(&x->seen, p->k->arena, &x->key, &x->commit, eb);

    x->commit.payload = x->commit.block_sums = (struct span){NULL, 0};
    x->commit.place = body_place(&x->to);
    if (x->seen.by == RELOCATE_BY_PART)
        x->commit.kind = LOG_RECORD_PART;
    return rc;
}

/* Ends the copy by the result of its record: keeps the new place, releases it, or leaves it if
 * the outcome is unknown. */
static void
end_body(struct body_pass *p, struct moving *x, enum err rc, bool unknown)
{
    if (rc == ERR_PRECONDITION)
        p->changed++;
    if (rc == ERR_OK)
        body_keep(&x->to);
    else if (unknown)
        body_leave(&x->to);
    else
        body_release(&x->to);
}

/* Moves a part of an object, whose manifest names the place. Another part of it may have moved a
 * moment ago. */
static enum err
move_owned_part(struct body_pass *p, struct moving *x, struct errbuf *eb)
{
    struct store *d = p->k->disk;
    struct entry now = {.place.segment = x->to.segment->id, .place.offset = x->to.offset};
    uint32_t before = p->changed;
    enum err rc = relocate_classify_body(d, &x->m, &x->seen, eb);

    if (rc == ERR_OK && x->seen.what != RELOCATE_PART)
        rc = ERR_PRECONDITION;
    if (rc == ERR_OK)
        rc = compact_manifest(p->k, p->from->class, &x->seen, &now, &p->changed, eb);
    if (rc == ERR_OK && p->changed != before) {
        p->changed = before;
        rc = ERR_PRECONDITION;
    }
    /* After any other error the manifest may be in the log. */
    end_body(p, x, rc, rc != ERR_OK && rc != ERR_PRECONDITION);
    return rc == ERR_PRECONDITION ? ERR_OK : rc;
}

/* Submits the records of a batch, unless `rc` is an error. */
static enum err
write_records(struct body_pass *p, enum err rc, struct errbuf *eb)
{
    bool begun[BATCH] = {false};

    assert(p->count <= BATCH);
    for (uint32_t i = 0; rc == ERR_OK && i < p->count; i++) {
        struct moving *x = &p->at[i];

        if (x->seen.what == RELOCATE_PART)
            continue;
        rc = begin_record(p, x, eb);
        begun[i] = rc == ERR_OK;
        if (begun[i])
            commit_start(p->k->disk, p->from->class, &x->commit);
    }
    for (uint32_t i = 0; i < p->count; i++) {
        struct moving *x = &p->at[i];
        enum err one = ERR_OK;

        if (begun[i]) {
            one = commit_wait(&x->commit, rc == ERR_OK ? eb : NULL);
            end_body(p, x, one, one != ERR_OK && x->commit.unknown);
        } else if (rc == ERR_OK) { /* a part: records behind it need not wait */
            one = move_owned_part(p, x, eb);
        } else {
            body_release(&x->to);
        }
        if (one != ERR_OK && one != ERR_PRECONDITION && rc == ERR_OK)
            rc = one;
    }
    return rc;
}

static enum err
compact_body_end_batch(struct body_pass *p, struct errbuf *eb)
{
    enum err rc = sync_batch(p, eb);

    assert(p->count > 0);
    POINT(COMPACT_COPIED);
    rc = write_records(p, rc, eb);
    for (uint32_t i = 0; i < p->count; i++)
        end_moving(&p->at[i]);
    p->count = 0;
    p->bytes = 0;
    arena_reset(p->k->arena);
    return rc;
}

/* ---- one segment ---- */

/* True if the copy fits beside the reserve. */
static bool
has_room(struct store *d, enum store_class class, uint64_t size)
{
    const struct segment *s = d->segments->bodies[class];
    uint64_t span = body_span(size);

    assert(class < STORE_CLASSES_);
    if (s != NULL && !s->doomed && s->owner.used + span + STORE_ALIGN <= s->owner.size)
        return true;
    return !space_is_tight(d->space) &&
           space_leaves_reserve(d->space, span + MIB(1), NULL) == ERR_OK;
}

/* Classifies the body with the header in `x`. If it is to be moved, the batch takes the header. */
static enum err
take_place(struct body_pass *p, struct moving *x, struct errbuf *eb)
{
    struct store *d = p->k->disk;
    enum err rc = relocate_classify_body(d, &x->m, &x->seen, eb);

    assert(p->count < BATCH);
    assert(x == &p->at[p->count]);
    if (rc == ERR_OK && x->seen.what != RELOCATE_DROP &&
        (x->seen.what == RELOCATE_STUCK || !has_room(d, p->from->class, x->m.size))) {
        p->stuck = true;
        x->seen.what = RELOCATE_DROP;
    }
    if (rc == ERR_OK && x->seen.what != RELOCATE_DROP && x->m.meta_behind)
        rc = load_behind(p->from, x, eb);
    if (rc == ERR_OK && x->seen.what != RELOCATE_DROP)
        rc = copy_body(p, x, eb);
    if (rc == ERR_CORRUPT) {
        p->stuck = true;
        compact_hold(d, p->from, "a body in it is damaged: scrub names it");
        x->seen.what = RELOCATE_DROP;
        rc = ERR_OK;
    }
    if (rc != ERR_OK || x->seen.what == RELOCATE_DROP) {
        end_moving(x);
        return rc;
    }
    p->count++;
    p->bytes += x->m.span;
    return ERR_OK;
}

static struct scan_source
compact_body_source_of(const struct segment *s)
{
    return (struct scan_source){.file = s->file,
                                .segment = s->id,
                                .generation = s->generation,
                                .size = s->owner.size};
}

/* Finishes a pass that ended with `rc`. */
static enum err
write_out(struct body_pass *p, enum err rc, struct errbuf *eb)
{
    assert(p->count <= BATCH);
    if (rc == ERR_OK)
        return p->count > 0 ? compact_body_end_batch(p, eb) : ERR_OK;
    for (uint32_t i = 0; i < p->count; i++) {
        body_release(&p->at[i].to);
        end_moving(&p->at[i]);
    }
    p->count = 0;
    arena_reset(p->k->arena);
    return rc;
}

static enum err
move_all(struct body_pass *p, struct errbuf *eb)
{
    struct scan_source source = compact_body_source_of(p->from);
    uint64_t at = STORE_ALIGN, next = 0;
    enum scanned got = SCAN_BATCH;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && !p->from->owner.held) {
        struct moving *x = &p->at[p->count];

        *x = (struct moving){0};
        got = place_scan(&source, at, &x->m, &x->head, &next, eb);
        if (got != SCAN_BATCH)
            break;
        rc = take_place(p, x, eb);
        if (rc == ERR_OK && (p->count == BATCH || p->bytes >= BATCH_BYTES)) {
            uint64_t done = p->bytes;

            rc = compact_body_end_batch(p, eb);
            if (rc == ERR_OK)
                rc = compact_pace(p->k, done);
        }
        at = next;
    }
    if (got == SCAN_ERROR && rc == ERR_OK)
        rc = ERR_IO;
    return write_out(p, rc, eb);
}

static enum err
compact_segment(struct compactor *k, struct segment **sp, struct errbuf *eb)
{
    struct store *d = k->disk;
    struct segment *s = *sp;
    struct body_pass *p = xcalloc(1, sizeof *p);
    bool gone = false;
    enum err rc;

    assert(on_owner(d));
    assert(s->kind == SEGMENT_BODIES);
    assert(s != d->segments->bodies[s->class]);
    p->k = k;
    p->from = s;
    rc = move_all(p, eb);
    if (rc == ERR_OK)
        rc = flush_wait(d, eb);
    POINT(COMPACT_INDEXED);
    if (rc == ERR_OK)
        rc = punch_if_empty(d, s, &gone, eb);
    if (gone) {
        LOG(LOG_DEBUG, "store.bodies_compacted",
            "what lived in a segment stands elsewhere", L_U64("segment", s->id));
        POINT(COMPACT_FREED);
    } else {
        s->owner.survey.again_ms = now_ms() + AGAIN_MS;
    }
    free(p);
    return rc;
}

/* ---- which one ---- */

/* True if the segment accepts no more bodies, no writer is in it, and its punched places are
 * known. */
static bool
is_closed(const struct store *d, const struct segment *s)
{
    return s->kind == SEGMENT_BODIES && s != d->segments->bodies[s->class] &&
           s->owner.open_places == 0 && s->owner.swept && !s->owner.held && !s->doomed &&
           !d->o.rebuild && !(d->wals->damaged && s->class == STORE_NATIVE) &&
           s->owner.survey.again_ms <= now_ms();
}

static unsigned
share_of(const struct compactor *k)
{
    uint32_t told = k->disk->o.compact_bodies_percent;

    return told != 0 ? told : shares[compact_mood(k)];
}

static bool
is_worth(const struct compactor *k, const struct segment *s, uint64_t living,
         uint64_t dead)
{
    if (dead * 100 >= (dead + living) * share_of(k) && dead > 0)
        return true;
    return compact_mood(k) != COMPACT_BUSY && living * NEXT_TO_NOTHING <= s->owner.size;
}

/* Decides whether to read the segment's headers. The index counts sizes; a body takes a little
 * more. A surveyed segment is surveyed again once an eighth of its live bytes has become
 * garbage. */
static enum err
seems_worth(const struct compactor *k, const struct segment *s, bool *out,
            struct errbuf *eb)
{
    const struct survey *v = &s->owner.survey;
    struct index_segment seen = {0};
    enum err rc = index_segment(k->disk->index, s->class, s->id, &seen, eb);
    uint64_t living = (uint64_t)MAX(seen.living, 0);

    assert(s->kind == SEGMENT_BODIES);
    *out = false;
    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    if (living == 0 || (v->done && (v->indexed - seen.living) * 8 < v->indexed))
        return ERR_OK; /* nothing is live: hole punching removes it */
    *out = is_worth(k, s, living, s->owner.counted - MIN(s->owner.counted, living));
    return ERR_OK;
}

/* Reads all headers: counts the live bytes and the headers of garbage. */
static enum err
survey(struct compactor *k, struct segment *s, bool *worth, struct errbuf *eb)
{
    struct store *d = k->disk;
    struct scan_source source = compact_body_source_of(s);
    struct index_segment seen = {0};
    uint64_t at = STORE_ALIGN, next = 0, living = 0, dead = 0;
    enum scanned got = SCAN_BATCH;
    enum err rc = index_segment(d->index, s->class, s->id, &seen, eb);

    while (rc == ERR_OK) {
        struct iobuf *buf;
        struct log_record m;

        got = place_scan(&source, at, &m, &buf, &next, eb);
        if (got != SCAN_BATCH)
            break;
        iobuf_drop(&buf);
        if (m.kind == LOG_RECORD_DEAD)
            dead += BODY_HEAD;
        else /* garbage must be punched first */
            living += m.span;
        at = next;
        rc = compact_pace(k, BODY_HEAD);
    }
    if (got == SCAN_ERROR && rc == ERR_OK)
        rc = ERR_IO;
    if (rc != ERR_OK)
        return rc;
    s->owner.survey = (struct survey){
        .done = true, .living = living, .waiting = dead, .indexed = seen.living};
    *worth = is_worth(k, s, living, dead);
    return ERR_OK;
}

/* ERR_NOT_FOUND: no segment is worth it; ERR_BUSY: there is more to survey. The caller owns a
 * reference. */
static enum err
choose(struct compactor *k, enum store_class class, struct segment **out,
       struct errbuf *eb)
{
    struct store *d = k->disk;
    unsigned surveys = 0;
    bool worth = false;
    enum err rc = ERR_OK;

    *out = NULL;
    for (;;) { /* ends, because each segment is surveyed only once */
        struct segment *s = NULL;

        LIST_EACH(&d->segments->of_class[class], n)
        {
            struct segment *o = LIST_ENTRY(n, struct segment, owner.of_class);

            if (s != NULL || !is_closed(d, o))
                continue;
            rc = seems_worth(k, o, &worth, eb);
            if (rc != ERR_OK)
                return rc;
            if (worth)
                s = o;
        }
        if (s == NULL)
            return ERR_NOT_FOUND;
        if (surveys++ == SURVEYS)
            return ERR_BUSY;
        *out = segment_ref(s);
        rc = survey(k, s, &worth, eb);
        if (rc == ERR_OK && worth)
            return ERR_OK;
        segment_drop(out);
        if (rc != ERR_OK)
            return rc;
    }
}

const struct compact_kind compact_bodies = {choose, compact_segment};
