/* disks_life: one life of a node's disks in the simulator: opened, held against the ledger, worked on by fibers while
 * fate plays with the disks, closed or cut. Half of the keys belong to a bucket with one copy, half to one with two.
 *
 * What the checker knows: each acknowledged operation. Undisturbed, every answer is foreseen. Disturbed (a disk fails,
 * is full, slow or gone), a request may fail, and is unknown then; but what is answered must be right: never an older
 * or a half write, never "not found" for what is there, and with two copies one bad disk is no excuse for a read.
 */
#pragma once
#include "sim/ledger.h"
#include "sim/sim_main.h"

#include "base/log.h"
#include "base/metrics.h"
#include "disks/disks.h"
#include "disks/internal.h"
#include "rt/sim.h"
#include "rt/sim_trouble.h"
#include "store/ops/writer.h"
#include "store/store_entry.h"
#include "store/store_upload.h"
#include "store/store_write.h"

#define WORKERS    3
#define BUCKET     7
#define BODY_TOP   (700u << 10)
#define LIFE_DISKS 3
#define NODE_DISKS LIFE_DISKS

static const char *const life_mounts[LIFE_DISKS] = {"/a", "/b", "/c"};
static const char *const life_paths[LIFE_DISKS] = {"/a/disk", "/b/disk", "/c/disk"};

/* Bugs on purpose: the checker has to find each (sim_checker.c). */
enum plant {
    PLANT_NONE,
    PLANT_LOST_SYNC,   /* the disks only say that they synced */
    PLANT_LOST_PUT,    /* now and then one is acknowledged that was aborted */
    PLANT_LOST_DELETE, /* one that was never asked for */
    PLANT_WRONG_BYTE,  /* a body is stored with another byte */
    PLANT_LOST_EARLY,  /* what goes to the disk while the rest comes never arrives */
    PLANTS_
};

struct life {
    struct sim *sim;
    struct ledger *ledger;
    enum plant plant;
    unsigned disks; /* 1 to LIFE_DISKS */
    unsigned ops;   /* of each worker */
    bool check_only;
    bool disturbed; /* a disk is, or was in this life, in trouble: requests may fail */
    bool
        lossless; /* and at most one, and all were clean before: what has two copies can be read */
    uint64_t epoch;
    struct disks *set;
    /* Fault injection: what it may do in this life, and to which disk. */
    struct sim_trouble worst;
    unsigned victim;
    bool jumps;   /* of the clock */
    bool moves;   /* disks are drained, and taken back */
    bool drained; /* since the first life: there may be too few disks for two copies */
    bool grows;   /* a third disk comes */
    bool bodies;  /* body segments are compacted for every percent that is dead */
    unsigned working; /* workers that still do */
    char *body;       /* BODY_TOP bytes, one for each worker */
    /* What is worked on and looked at instead of the ledger's keys; NULL: those. */
    const struct life_kind *kind;
    void *kept; /* what it knows, over all lives */
};
/* ERR_OK to go on; false: the power went while looking, or a disk did not answer. */
struct life_kind {
    enum err (*deed)(struct life *f, unsigned worker, char *body);
    bool (*look)(struct life *f);
};

static inline unsigned
copies_of(const struct life *f, const struct ledger_key *k)
{
    return (k - f->ledger->keys) % 2 == 1 && f->disks > 1 ? 2 : 1;
}

static inline uint64_t
ledger_bucket(const struct ledger *l, const struct ledger_key *k)
{
    return BUCKET + (uint64_t)((k - l->keys) % 2);
}

static inline struct disks_key
key_of(const struct life *f, const struct ledger_key *k)
{
    return (struct disks_key){.at = {.bucket = ledger_bucket(f->ledger, k),
                                     .immutable_name = SPAN("bucket"),
                                     .key = span_of(k->name)},
                              .copies = copies_of(f, k)};
}

static inline uint64_t
random_size(void)
{
    uint64_t r = sim_random() % 20;

    if (r == 0)
        return 0;
    if (r < 12)
        return sim_random() % 9000;
    if (r < 16)
        return sim_random() % 120000;
    if (r < 18)
        return (256u << 10) - 2 + sim_random() % 4;
    return sim_random() % BODY_TOP;
}

static inline bool
planted(const struct life *f, enum plant p)
{
    return f->plant == p && sim_random() % 4 == 0;
}

/* Straight into the writer's buffer, as a PUT is received, where there is one copy. */
static inline enum err
write_in_place(struct disks_writer *w, const char *data, uint64_t len, struct errbuf *eb)
{
    while (len > 0) {
        void *to;
        size_t n = disks_write_room(w, &to);
        enum err rc = ERR_OK;

        if (to == NULL)
            return disks_write(w, data, len, eb);
        n = n < len ? n : (size_t)len;
        memcpy(to, data, n);
        if (n > 0)
            disks_write_filled(w, n);
        else
            rc = disks_write_flush(w, eb);
        if (rc != ERR_OK)
            return rc;
        rt_yield();
        data += n;
        len -= n;
    }
    return ERR_OK;
}

static inline enum err
write_body(struct life *f, struct disks_writer *w, char *body, const struct ledger_key *k,
           uint64_t write, uint64_t offset, uint64_t size, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    ledger_body(body, size, k, write, offset);
    if (size > 0 && planted(f, PLANT_WRONG_BYTE))
        body[sim_random() % size] ^= 1;
    for (uint64_t at = 0; rc == ERR_OK && at < size;) {
        uint64_t n = 1 + sim_random() % 200000;

        n = n < size - at ? n : size - at;
        rc = write % 2 == 0 ? write_in_place(w, body + at, n, eb)
                            : disks_write(w, body + at, n, eb);
        at += n;
    }
    return rc;
}

/* No other knowledge and no disturbance: the answer is determined. */
static inline bool
is_sure(const struct life *f, const struct ledger_key *k)
{
    return k->maybe_count == 1 && !f->disturbed; /* the one that is being asked for */
}

/* An answer after the power cut reaches no client: a refusal may turn out to be none. */
static inline enum err
outcome_of(enum err rc)
{
    return rc != ERR_OK && rt_cancelled() ? ERR_CANCELLED : rc;
}

static inline bool
is_an_answer(enum err rc)
{
    return rc == ERR_OK || rc == ERR_PRECONDITION || rc == ERR_NOT_FOUND;
}

/* ---- operations: ERR_OK to go on ---- */

/* A condition that holds, or one that does not, as the draw says; false: none. */
static inline bool
choose_condition(struct life *f, const struct ledger_key *k, struct store_condition *c,
                 bool *holds)
{
    struct disks_key key = key_of(f, k);
    struct errbuf eb = {0};
    struct entry entry;

    *c = (struct store_condition){0};
    switch (sim_random() % 6) {
    case 0:
        c->if_absent = true;
        *holds = k->known.write == 0;
        return true;
    case 1: /* no other fiber uses this key: it stays as looked up until this one changes it */
        if (disks_lookup(f->set, &key, &entry, &eb) != ERR_OK)
            return false;
        c->if_content = true;
        c->content = entry.content;
        *holds = sim_random() % 2 == 0;
        if (!*holds)
            c->content.bytes[15] ^= 1;
        return true;
    default:
        return false;
    }
}

static inline enum err
do_put(struct life *f, struct ledger_key *k, char *body)
{
    struct ledger_state s = {.write = ++f->ledger->writes, .size = random_size()};
    struct disks_key key = key_of(f, k);
    struct object_meta meta = {.mtime_ms = (int64_t)s.write, .content_type = {NULL, 0}};
    struct store_condition c;
    bool holds = true, sure_before = k->maybe_count == 0;
    bool conditional = choose_condition(f, k, &c, &holds);
    bool known_length = sim_random() % 3 != 0;
    struct disks_writer *w;
    struct errbuf eb = {0};
    struct entry entry;
    enum err rc;

    if (sim_random() % 3 == 0)
        meta.content_type = SPAN("text/x-simulated");
    ledger_sent(k, s);
    rc = disks_write_begin(f->set, &key, STORE_NATIVE,
                           known_length ? s.size : STORE_SIZE_UNKNOWN, &w, &eb);
    if (rc == ERR_OK) {
        rc = write_body(f, w, body, k, s.write, 0, s.size, &eb);
        if (rc != ERR_OK || sim_random() % 10 == 0) {
            disks_write_abort(&w); /* the client went away */
            k->maybe_count--;
            return rc;
        }
        if (planted(f, PLANT_LOST_PUT)) {
            disks_write_abort(&w);
            ledger_answered(f->ledger, k, ERR_OK, true);
            return ERR_OK;
        }
        rc = disks_commit(&w, &meta, conditional ? &c : NULL, &entry, &eb);
        if (conditional && sure_before && is_sure(f, k) && is_an_answer(rc))
            CHECK((rc == ERR_OK) == holds);
    } else {
        k->maybe_count--;
        return rc;
    }
    ledger_answered(f->ledger, k, outcome_of(rc), true);
    return is_an_answer(rc) ? ERR_OK : rc;
}

static inline enum err
do_delete(struct life *f, struct ledger_key *k)
{
    struct disks_key key = key_of(f, k);
    struct store_condition c;
    struct errbuf eb = {0};
    bool existed, holds = true, conditional = choose_condition(f, k, &c, &holds);
    enum err rc;

    if (conditional && c.if_absent)
        conditional = false;
    ledger_sent(k, (struct ledger_state){0});
    if (planted(f, PLANT_LOST_DELETE)) {
        ledger_answered(f->ledger, k, ERR_OK, true);
        return ERR_OK;
    }
    rc = disks_delete(f->set, &key, STORE_NATIVE, conditional ? &c : NULL, &existed, &eb);
    if (rc == ERR_OK && is_sure(f, k))
        CHECK(existed == (k->known.write != 0));
    if (conditional && is_sure(f, k) && is_an_answer(rc))
        CHECK((rc == ERR_OK) == holds);
    ledger_answered(f->ledger, k, outcome_of(rc), true);
    return is_an_answer(rc) ? ERR_OK : rc;
}

static inline enum err
put_part(struct life *f, const struct disks_key *key, const struct upload_id *u,
         const struct ledger_key *k, uint32_t number, uint64_t write, uint64_t offset,
         uint64_t size, char *body)
{
    struct object_meta meta = {.mtime_ms = (int64_t)write};
    struct disks_writer *w;
    struct errbuf eb = {0};
    enum err rc = disks_part_begin(f->set, key, u, number, size, &w, &eb);

    if (rc == ERR_OK)
        rc = write_body(f, w, body, k, write, offset, size, &eb);
    if (rc != ERR_OK) {
        disks_write_abort(&w);
        return rc;
    }
    return disks_part_commit(&w, &meta, &eb);
}

/* An abort of the upload at the same time as its Complete, or a Complete of another client. */
struct upload_racer {
    struct life *f;
    const struct disks_key *key;
    const struct upload_id *u;
    uint64_t wait_ms;
    enum err rc;
};

static inline void
race_abort(void *arg)
{
    struct upload_racer *r = arg;
    struct errbuf eb = {0};

    if (r->wait_ms > 0 && rt_sleep_ms(r->wait_ms) != ERR_OK)
        return;
    r->rc = disks_upload_abort(r->f->set, r->key, r->u, &eb);
}

/* Both had an answer: one of them ended the upload, and it is open on no disk. */
static inline void
check_race(struct life *f, const struct upload_racer *r, enum err completed)
{
    struct errbuf eb = {0};
    enum err rc;

    if (f->disturbed || rt_cancelled() || !atomic_load(&f->set->converged))
        return;
    CHECK(completed != ERR_BUSY); /* the other call has ended, or waits for this one */
    CHECK(r->rc != ERR_BUSY);
    if ((completed != ERR_OK && completed != ERR_NO_UPLOAD) ||
        (r->rc != ERR_OK && r->rc != ERR_NO_UPLOAD))
        return;
    CHECK((completed == ERR_OK) != (r->rc == ERR_OK));
    rc = disks_upload_abort(f->set, r->key, r->u, &eb);
    CHECK(rc == ERR_NO_UPLOAD || rt_cancelled() || rc == ERR_CANCELLED ||
          !atomic_load(&f->set->converged));
}

static inline enum err
complete_raced(struct life *f, const struct disks_key *key, const struct upload_id *u,
               const struct store_part *listed, uint32_t count,
               const struct object_meta *meta, struct entry *entry, struct errbuf *eb)
{
    struct upload_racer r = {
        .f = f, .key = key, .u = u, .wait_ms = sim_random() % 4, .rc = ERR_CANCELLED};
    struct rt_group g;
    enum err rc;

    rt_group_begin(&g);
    CHECK(rt_group_start(&g, race_abort, &r) == ERR_OK || rt_cancelled());
    rc = disks_upload_complete(f->set, key, u, listed, count, meta, NULL, entry, eb);
    rt_group_join(&g);
    check_race(f, &r, rc);
    return rc;
}

static inline enum err
complete(struct life *f, const struct disks_key *key, const struct upload_id *u,
         struct ledger_key *k, uint32_t parts)
{
    struct arena *a = arena_new(4096, 1 << 20);
    struct store_part *listed = NULL;
    struct object_meta meta = {.mtime_ms = (int64_t)k->maybe[k->maybe_count - 1].write,
                               .parts = parts};
    struct errbuf eb = {0};
    struct entry entry, again;
    uint32_t count;
    bool more;
    enum err rc =
        disks_part_list(f->set, key, u, 0, 1000, a, &listed, &count, &more, &eb);

    if (rc != ERR_OK) {
        k->maybe_count--; /* was never asked for */
        arena_free(&a);
        return rc;
    }
    CHECK_U64(count, parts);
    if (sim_random() % 3 == 0) {
        rc = complete_raced(f, key, u, listed, count, &meta, &entry, &eb);
        ledger_answered(f->ledger, k, outcome_of(rc), true);
        arena_free(&a);
        return rc == ERR_NO_UPLOAD ? ERR_OK : rc; /* aborted */
    }
    rc = disks_upload_complete(f->set, key, u, listed, count, &meta, NULL, &entry, &eb);
    ledger_answered(f->ledger, k, outcome_of(rc), true);
    if (rc == ERR_OK) { /* a repeat answers the same */
        rc = disks_upload_complete(f->set, key, u, listed, count, &meta, NULL, &again,
                                   &eb);
        if (rc == ERR_OK)
            CHECK(memcmp(&entry.content, &again.content, sizeof entry.content) == 0);
        else if (rc ==
                 ERR_NO_UPLOAD) /* times here are numbers of writes: over since 1970 */
            rc = ERR_OK;
    }
    arena_free(&a);
    return rc;
}

static inline enum err
do_upload(struct life *f, struct ledger_key *k, char *body)
{
    struct ledger_state s = {.write = ++f->ledger->writes};
    struct disks_key key = key_of(f, k);
    struct object_meta meta = {.mtime_ms = (int64_t)s.write};
    struct upload_id u;
    struct errbuf eb = {0};
    uint32_t parts = 1 + (uint32_t)(sim_random() % 3);
    enum err rc = disks_upload_begin(f->set, &key, &meta, &u, &eb);

    for (uint32_t i = 1; rc == ERR_OK && i <= parts; i++) {
        uint64_t size = random_size();

        rc = put_part(f, &key, &u, k, i, s.write, s.size, size, body);
        s.size += size;
    }
    if (rc != ERR_OK)
        return rc;
    if (sim_random() % 4 == 0)
        return disks_upload_abort(f->set, &key, &u, &eb);
    ledger_sent(k, s);
    return complete(f, &key, &u, k, parts);
}

/* ---- checking ---- */

static inline bool
is_excused_of(const struct life *f, unsigned copies, enum err rc)
{
    if (rt_cancelled() || rc == ERR_CANCELLED)
        return true;
    return f->disturbed && !(f->lossless && copies > 1) && rc != ERR_CORRUPT;
}

static inline bool
is_excused(const struct life *f, const struct ledger_key *k, enum err rc)
{
    return is_excused_of(f, copies_of(f, k), rc);
}

static inline void
complain(const struct ledger_key *k, struct ledger_state s, enum err rc,
         const struct errbuf *eb)
{
    fprintf(stderr,
            "key %s: %s, write %" PRIu64 " of %" PRIu64 " bytes; known %" PRIu64
            " of %" PRIu64 ", %u maybe; %s\n",
            k->name, err_name(rc), s.write, s.size, k->known.write, k->known.size,
            k->maybe_count, eb->text);
}

static inline void
check_body(struct life *f, struct ledger_key *k, const struct disks_key *key,
           const struct entry *entry)
{
    struct disks_reader r = {0};
    struct errbuf eb = {0};
    struct span piece;
    uint64_t at = 0;
    enum err rc = disks_read_begin(f->set, key, entry, 0, entry->size, &r, &eb);

    while (rc == ERR_OK) {
        rc = disks_read_next(&r, DEADLINE_NEVER, &piece, &eb);
        if (rc != ERR_OK || piece.len == 0)
            break;
        CHECK(ledger_body_is(piece.at, piece.len, k, (uint64_t)entry->mtime_ms, at));
        at += piece.len;
    }
    disks_read_end(&r);
    if (rc == ERR_OK) {
        CHECK_U64(at, entry->size);
    } else if (!is_excused_of(f, key->copies, rc)) {
        complain(k, (struct ledger_state){(uint64_t)entry->mtime_ms, entry->size}, rc,
                 &eb);
        CHECK(rc == ERR_OK);
    }
}

/* What was seen: after a start it is what there is. While disks fail, what was asked for later and came to no answer
 * can still come. */
static inline void
ledger_seen(struct life *f, struct ledger_key *k, struct ledger_state s)
{
    unsigned i = 0;

    if (!f->disturbed) {
        k->known = s;
        k->maybe_count = 0;
        return;
    }
    if (k->known.write == s.write && k->known.size == s.size)
        return;
    while (k->maybe[i].write != s.write || k->maybe[i].size != s.size)
        i++; /* ledger_allows() found it */
    k->known = s;
    k->maybe_count -= i + 1;
    memmove(k->maybe, k->maybe + i + 1, k->maybe_count * sizeof k->maybe[0]);
}

/* False: the power went while looking, or a disk did not answer. */
static inline bool
check_key(struct life *f, struct ledger_key *k)
{
    struct disks_key key = key_of(f, k);
    struct entry entry = {0};
    struct errbuf eb = {0};
    struct ledger_state s = {0};
    enum err rc = disks_lookup(f->set, &key, &entry, &eb);

    if (rc != ERR_OK && rc != ERR_NOT_FOUND && is_excused(f, k, rc))
        return !rt_cancelled() && rc != ERR_CANCELLED;
    if (rc == ERR_OK) {
        s = (struct ledger_state){.write = (uint64_t)entry.mtime_ms, .size = entry.size};
        check_body(f, k, &key, &entry);
    }
    if (rt_cancelled())
        return false;
    if ((rc != ERR_OK && rc != ERR_NOT_FOUND) || !ledger_allows(k, s)) {
        complain(k, s, rc, &eb);
        CHECK(rc == ERR_OK || rc == ERR_NOT_FOUND);
        CHECK(ledger_allows(k, s));
        return true;
    }
    ledger_seen(f, k, s);
    return true;
}

static inline void
check_listing(struct life *f, uint64_t bucket)
{
    struct arena *a = arena_new(4096, 1 << 20);
    struct store_entry *entries;
    struct errbuf eb = {0};
    uint32_t count, living = 0;
    bool more;
    enum err rc = disks_list(f->set, bucket, bucket == BUCKET ? 1 : 2, SPAN(""), false,
                             1000, a, &entries, &count, &more, &eb);

    if (rc == ERR_OK) {
        for (unsigned i = 0; i < LEDGER_KEYS; i++)
            living += f->ledger->keys[i].known.write != 0 &&
                      ledger_bucket(f->ledger, &f->ledger->keys[i]) == bucket;
        CHECK_U64(count, living);
        for (uint32_t i = 0; i < count; i++) {
            bool found = false;

            for (unsigned j = 0; j < LEDGER_KEYS; j++) {
                struct ledger_key *k = &f->ledger->keys[j];

                found |= span_is(entries[i].key, k->name) &&
                         k->known.write == (uint64_t)entries[i].entry.mtime_ms;
            }
            CHECK(found);
        }
    } else if (!rt_cancelled() && rc != ERR_CANCELLED) {
        CHECK_STR(eb.text, "a listing");
    }
    arena_free(&a);
}

static inline bool
check_all(struct life *f)
{
    if (f->kind != NULL)
        return f->kind->look(f);
    for (unsigned i = 0; i < LEDGER_KEYS; i++) {
        if (!check_key(f, &f->ledger->keys[i]))
            return false;
    }
    if (!f->disturbed) {
        check_listing(f, BUCKET);
        check_listing(f, BUCKET + 1);
    }
    return true;
}

/* ---- fate ---- */

static inline unsigned
up_to(unsigned most)
{
    return most > 0 ? (unsigned)(sim_random() % (most + 1u)) : 0;
}

/* Changes the set of disks. What is refused (the last one can't be drained) changes nothing. */
static inline void
move_disks(struct life *f)
{
    struct errbuf eb = {0};
    uint8_t id[16];
    enum err rc = ERR_OK;

    if (f->grows && sim_random() % 2 == 0) {
        rc = disks_add(f->set, life_paths[LIFE_DISKS - 1], id, &eb);
        f->grows = rc != ERR_OK;
    } else if (f->moves) {
        f->drained = true;
        rc = disks_drain(f->set, life_paths[sim_random() % f->disks],
                         sim_random() % 2 == 0, &eb);
    }
    if (rc == ERR_CORRUPT || rc == ERR_INTERNAL)
        CHECK_STR(eb.text, "a change of the set");
}

/* Now and then the victim gets worse or better, the clock is set, disks come and go. */
static inline void
fate(void *arg)
{
    struct life *f = arg;

    while (f->working > 0 && rt_sleep_ms(1 + sim_random() % 8) == ERR_OK) {
        struct sim_trouble t = {.read_errors = up_to(f->worst.read_errors),
                                .write_errors = up_to(f->worst.write_errors),
                                .sync_errors = up_to(f->worst.sync_errors),
                                .slow_us = up_to(f->worst.slow_us),
                                .full = f->worst.full && sim_random() % 2 == 0,
                                .gone = f->worst.gone && sim_random() % 4 == 0,
                                .lies = f->plant == PLANT_LOST_SYNC};

        if (sim_random() % 3 == 0)
            t = (struct sim_trouble){.lies = t.lies};
        if (f->disturbed)
            sim_trouble(f->sim, life_mounts[f->victim], &t);
        move_disks(f);
        if (f->jumps)
            sim_jump_clock(f->sim, (int64_t)(sim_random() % 7200000) - 3600000);
    }
}

static inline void
heal(struct life *f)
{
    for (unsigned i = 0; i < LIFE_DISKS; i++)
        sim_trouble(f->sim, life_mounts[i],
                    &(struct sim_trouble){.lies = f->plant == PLANT_LOST_SYNC});
}

/* ---- one life ---- */

/* Which buckets there are, for those who move objects. */
static inline bool
next_bucket(void *arg, uint64_t after, struct disks_bucket *out)
{
    (void)arg;
    if (after > BUCKET)
        return false;
    *out = (struct disks_bucket){.id = after < BUCKET ? BUCKET : BUCKET + 1,
                                 .immutable_name = SPAN("bucket"),
                                 .copies = after < BUCKET ? 1 : 2};
    return true;
}

struct worker {
    struct life *life;
    unsigned index;
};

static inline enum err
one_deed(struct life *f, unsigned worker, char *body)
{
    struct ledger_key *k =
        &f->ledger->keys[worker + WORKERS * (sim_random() % (LEDGER_KEYS / WORKERS))];
    uint64_t what;

    if (k->maybe_count == LEDGER_MAYBE)
        return ERR_OK;
    what = sim_random() % 12;
    if (what < 6)
        return do_put(f, k, body);
    if (what < 8)
        return do_delete(f, k);
    if (what < 9)
        return do_upload(f, k, body);
    return check_key(f, k) ? ERR_OK : ERR_CANCELLED;
}

static inline void
work(void *arg)
{
    struct worker *w = arg;
    struct life *f = w->life;
    char *body = f->body + (size_t)w->index * BODY_TOP;
    enum err rc = ERR_OK;

    for (unsigned i = 0; i < f->ops && (rc == ERR_OK || f->disturbed); i++) {
        if (rt_cancelled())
            break;
        rc = f->kind != NULL ? f->kind->deed(f, w->index, body)
                             : one_deed(f, w->index, body);
        if (rc == ERR_UNAVAILABLE && f->drained)
            rc = ERR_OK; /* a write refused; reads know no such excuse */
    }
    if (!f->disturbed && !rt_cancelled() && rc != ERR_CANCELLED)
        CHECK_STR(err_name(rc), err_name(ERR_OK));
    f->working--;
}

static inline void
work_all(struct life *f)
{
    struct worker workers[WORKERS];
    struct rt_group g;

    rt_group_begin(&g);
    f->working = WORKERS;
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){f, i};
        CHECK(rt_group_start(&g, work, &workers[i]) == ERR_OK || rt_cancelled());
    }
    if (f->disturbed || f->jumps || f->moves || f->grows)
        CHECK(rt_group_start(&g, fate, f) == ERR_OK || rt_cancelled());
    rt_group_join(&g);
}

static inline struct disks_options
life_options(struct life *f)
{
    struct disks_options o = {
        .paths = life_paths,
        .count = f->disks,
        .state = "/n", /* on a disk that is in no trouble */
        .disk = {.node = 1,
                 .epoch = f->epoch,
                 .segment_bytes = 2u << 20,
                 .memtable_bytes = 1u << 20,
                 .index_map_bytes = 16u << 20,
                 .compact_bodies_percent = f->bodies ? 1 : 0,
                 .index_interval_ms = 1 + sim_random() % 40,
                 .block_cache_bytes = sim_random() % 2 * (1u << 20)},
    };

    memset(o.disk.cluster_id, 0x5a, sizeof o.disk.cluster_id);
    return o;
}

/* Clean: every object has all the copies that it should have. Waited for, but not for ever. */
static inline bool
gets_clean(struct life *f)
{
    struct disks_status *s = calloc(1, sizeof *s);
    bool clean = false;

    for (unsigned i = 0; !clean && i < 50 && !rt_cancelled(); i++) {
        disks_status(f->set, s);
        clean = s->converged && s->repairs == 0 && s->failed == 0;
        if (!clean && rt_sleep_ms(20) != ERR_OK)
            break;
    }
    free(s);
    return clean;
}

static inline void
live(void *arg)
{
    struct life *f = arg;
    struct disks_options o = life_options(f);
    struct errbuf eb = {0};
    bool disturbed = f->disturbed, good;
    enum err rc;

    heal(f);
    rc = disks_open(&o, &f->set, &eb);
    if (rc != ERR_OK) {
        if (!rt_cancelled())
            CHECK_STR(eb.text, "open disks");
        return;
    }
    disks_buckets(f->set, next_bucket, NULL);
    f->disturbed = false; /* it begins healthy */
    good = check_all(f);
    f->disturbed = disturbed;
    f->lossless = disturbed && f->disks > 1 && !f->drained && gets_clean(f);
    if (good && !f->check_only)
        work_all(f);
    heal(f);
    if (good && !f->check_only && !f->disturbed && !rt_cancelled())
        (void)check_all(f);
    disks_close(&f->set);
    if (!f->disturbed) /* what a cut leaves behind is no damage */
        CHECK_U64(metric_read(M_CHECKSUM_FAILURES, 0), 0);
}

/* ---- several lives ---- */

/* What may happen in one life. */
static inline void
draw_fate(struct life *f, uint64_t *state)
{
    uint64_t what = sim_draw(state) % 8;

    f->worst = (struct sim_trouble){0};
    f->jumps = sim_draw(state) % 4 == 0;
    f->moves = f->disks > 1 && sim_draw(state) % 3 == 0;
    f->victim = (unsigned)(sim_draw(state) % f->disks);
    if (what == 0)
        f->worst = (struct sim_trouble){.read_errors = 500, .slow_us = 200};
    else if (what == 1)
        f->worst = (struct sim_trouble){.write_errors = 300, .sync_errors = 300};
    else if (what == 2)
        f->worst = (struct sim_trouble){.full = true};
    else if (what == 3)
        f->worst = (struct sim_trouble){.gone = true, .slow_us = 5000};
    f->disturbed = what < 4;
}

/* Several lives of one seed, the last one only to look. Returns the hash of all that happened. */
static inline uint64_t
lives_of(uint64_t seed, unsigned disks, enum plant plant, const struct life_kind *kind,
         void *kept)
{
    struct sim_options o = {.seed = seed, .lossy = true, .max_delay_us = 300};
    struct sim *s = sim_new(&o);
    struct ledger ledger;
    struct life f = {.sim = s,
                     .ledger = &ledger,
                     .disks = disks,
                     .plant = plant,
                     .kind = kind,
                     .kept = kept};
    uint64_t state = seed, hash = 0;
    unsigned count = 2 + (unsigned)(sim_draw(&state) % 3);
    bool late = disks > 2 && sim_draw(&state) % 3 == 0;
    struct errbuf eb = {0};

    ledger_init(&ledger);
    writer_loses_early_writes = plant == PLANT_LOST_EARLY;
    f.body = malloc((size_t)WORKERS * BODY_TOP);
    for (unsigned i = 0; i <= count; i++) {
        bool last = i == count;

        f.epoch = i + 1;
        f.ops = 2 + (unsigned)(sim_draw(&state) % 12);
        f.check_only = last;
        f.disks = late && i == 0 ? disks - 1 : disks; /* whether the third came or not */
        f.grows = late && i == 0;
        draw_fate(&f, &state);
        f.disturbed &= !last;
        sim_cut_at(s, last || sim_draw(&state) % 5 == 0 ? 0 : 1 + sim_draw(&state) % 400);
        eb.text[0] = '\0';
        if (sim_run_world(s, live, &f, &eb) != ERR_OK)
            CHECK(sim_was_cut(s));
        hash = hash_xxh3(&(uint64_t){sim_trace_hash(s)}, 8, hash);
    }
    free(f.body);
    sim_free(&s);
    return hash;
}

static inline uint64_t
lives(uint64_t seed, unsigned disks, enum plant plant)
{
    return lives_of(seed, disks, plant, NULL, NULL);
}
