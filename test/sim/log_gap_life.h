/* log_gap_life: one life of a disk with cached objects, then damage in its log, or a power cut, then starts with an index made
 * again, which are cut as well. Used by sim_log_gap.c, and by sim_log_gap_checker.c, which plants bugs into it. */
#pragma once
#include "sim/sim_main.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "rt/sim.h"
#include "store/core/core.h"
#include "store/record/format.h"
#include "store/recover/recovery.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_options.h"
#include "store/store_read.h"
#include "store/store_space.h"
#include "store/store_write.h"
#include "store/wal/truncated.h"
#include "store/wal/wal.h"

#define PATH     "/disk/a"
#define KEYS     40u
#define OPS_MOST 300u
#define BODY     6000u
#define ATTEMPTS 5u

struct key_state {
    uint64_t write; /* the last one that was acknowledged; 0: none */
    bool in_doubt;
};
/* Where the damage is; none: the power goes while the disk works. `compacted`: in the middle, and the disk is worked on behind it before
 * its index is lost once more. */
enum gap_where { GAP_MIDDLE, GAP_AT_END, GAP_NOWHERE, GAP_WHERES_, GAP_COMPACTED };
enum gap_plant {
    GAP_PLANT_NONE,
    GAP_PLANT_FORGOTTEN, /* what was promised is not known any more */
    GAP_PLANT_TOO_FAR,   /* more is said to be there than was synced */
    GAP_PLANTS_
};
struct log_gap_life {
    enum gap_where where;
    struct key_state keys[KEYS];
    uint64_t seed, epoch, writes;
    unsigned ops;
    bool rebuild;
    struct {
        uint32_t segment;
        uint64_t offset;
    } last, /* group that is whole for certain */
        end;
};
static uint64_t served, dropped; /* by all seeds */

/* A cut may come in between. */
#define DONE(rc) CHECK((rc) == ERR_OK || (f->where == GAP_NOWHERE && rt_cancelled()))

static struct store *
open_disk(struct log_gap_life *f)
{
    struct store_options o = {.node = 1,
                              .epoch = ++f->epoch,
                              .segment_bytes = 256u << 10,
                              .memtable_bytes = 16u << 10,
                              .index_map_bytes = 16u << 20,
                              .index_interval_ms = 1 + sim_random() % 60,
                              .durable_mark_interval_ms = 1 + sim_random() % 60,
                              .rebuild = f->rebuild};
    struct store *d = NULL;
    struct errbuf eb = {0};

    memset(o.cluster_id, 0x5a, sizeof o.cluster_id);
    if (store_open(PATH, &o, &d, &eb) != ERR_OK && !rt_cancelled())
        CHECK_STR(eb.text, "an open disk");
    return d;
}

static struct store_key
key_of(unsigned i, char name[16])
{
    snprintf(name, 16, "key-%02u", i);
    return (struct store_key){
        .bucket = 7, .immutable_name = SPAN("bucket"), .key = span_of(name)};
}

static void
fill(char *out, uint64_t size, unsigned key, uint64_t write)
{
    for (uint64_t i = 0; i < size; i++)
        out[i] = (char)(key * 31 + write * 7 + i);
}

static uint64_t
size_of(uint64_t write)
{
    return write * 977 % BODY;
}

static void
put(struct store *d, struct log_gap_life *f, unsigned i)
{
    static char body[BODY];
    uint64_t write = ++f->writes, size = size_of(write);
    struct object_meta meta = {.mtime_ms = (int64_t)write};
    struct store_writer *w = NULL;
    struct errbuf eb = {0};
    struct entry entry;
    char name[16];
    struct store_key k = key_of(i, name);
    enum err rc;

    fill(body, size, i, write);
    rc = store_write_begin(d, &k, STORE_CACHED, size, &w, &eb);
    if (rc == ERR_OK)
        rc = store_write(w, body, size, &eb);
    if (rc == ERR_OK)
        rc = store_commit(&w, &meta, NULL, &entry, &eb);
    DONE(rc);
    if (rc != ERR_OK) {
        store_write_abort(&w);
        return;
    }
    f->keys[i] = (struct key_state){.write = write};
    f->last.segment = entry.place.segment;
    f->last.offset = entry.place.offset;
}

static void
change(struct store *d, struct log_gap_life *f)
{
    unsigned i = (unsigned)(sim_random() % (KEYS - 1));
    struct key_state *s = &f->keys[i];
    struct errbuf eb = {0};
    char name[16];
    struct store_key k = key_of(i, name);
    bool existed;

    switch (sim_random() % 10) {
    case 0:
    case 1:
        DONE(store_delete(d, &k, STORE_CACHED, NULL, &existed, &eb));
        *s = (struct key_state){0};
        break;
    case 2:
    case 3:
        DONE(store_in_doubt_begin(d, &k, &eb));
        s->in_doubt = true;
        break;
    case 4: /* a write that the remote refused: what is here stands */
        if (s->in_doubt)
            break;
        DONE(store_in_doubt_begin(d, &k, &eb));
        DONE(store_in_doubt_clear(d, &k, &eb));
        break;
    default:
        put(d, f, i);
    }
}

static void
change_many(struct store *d, struct log_gap_life *f)
{
    struct errbuf eb = {0};

    for (unsigned i = 0; i < f->ops && !rt_cancelled(); i++) {
        change(d, f);
        store_invariants(d);
        if (sim_random() % 40 == 0)
            DONE(rt_sleep_ms(sim_random() % 100));
        if (sim_random() % 100 == 0)
            DONE(store_compact(d, &eb));
    }
}

/* Behind the damage: the logs that stood behind it are compacted, some of them away. */
static void
work_on(void *arg)
{
    struct log_gap_life *f = arg;
    struct store *d = open_disk(f);
    struct errbuf eb = {0};

    if (d == NULL)
        return;
    dropped += d->recovery->dropped_cached;
    change_many(d, f);
    for (unsigned i = 0; i < 4; i++) {
        CHECK(store_flush(d, &eb) == ERR_OK);
        CHECK(store_compact(d, &eb) == ERR_OK);
    }
    store_close(&d);
}

static void
work(void *arg)
{
    struct log_gap_life *f = arg;
    struct store *d = open_disk(f);
    struct errbuf eb = {0};

    if (d == NULL)
        return;
    CHECK(!d->recovery->dropped_cached);
    change_many(d, f);
    if (f->where == GAP_MIDDLE ||
        f->where == GAP_COMPACTED) { /* so that the last one says that all was synced */
        CHECK(store_flush(d, &eb) == ERR_OK);
        put(d, f, KEYS - 1);
    }
    if (d->wals->of[STORE_CACHED].now != NULL) {
        f->end.segment = d->wals->of[STORE_CACHED].now->id;
        f->end.offset = d->wals->of[STORE_CACHED].now->owner.used;
    }
    store_close(&d);
}

/* An entry that may be served is that of the last write. */
static void
check_key(struct store *d, struct log_gap_life *f, unsigned i)
{
    const struct key_state *s = &f->keys[i];
    struct store_reader *r = NULL;
    struct errbuf eb = {0};
    struct span piece = {"", 1};
    struct entry entry;
    char name[16], want[BODY];
    struct store_key k = key_of(i, name);
    uint64_t at = 0;
    enum err rc = store_lookup(d, &k, &entry, &eb);

    if (rt_cancelled())
        return;
    CHECK(rc == ERR_OK || rc == ERR_NOT_FOUND);
    if (rc != ERR_OK || (entry.flags & ENTRY_IN_DOUBT) != 0)
        return;
    served++;
    CHECK(!s->in_doubt);
    CHECK_U64((uint64_t)entry.mtime_ms, s->write);
    CHECK_U64(entry.size, size_of(s->write));
    fill(want, entry.size, i, s->write);
    rc = store_read_begin(d, &k, &entry, 0, entry.size, &r, &eb);
    while (rc == ERR_OK && piece.len > 0) {
        rc = store_read_next(r, DEADLINE_NEVER, &piece, &eb);
        if (rc == ERR_OK)
            CHECK(at + piece.len <= entry.size &&
                  memcmp(piece.at, want + at, piece.len) == 0);
        at += rc == ERR_OK ? piece.len : 0;
    }
    store_read_end(&r);
    CHECK(rc == ERR_OK || rc == ERR_CORRUPT || rt_cancelled());
}

static void
look(void *arg)
{
    struct log_gap_life *f = arg;
    struct store *d = open_disk(f);

    if (d == NULL)
        return;
    dropped += d->recovery->dropped_cached;
    CHECK(f->where != GAP_NOWHERE || !d->recovery->dropped_cached);
    for (unsigned i = 0; i < KEYS && f->where != GAP_NOWHERE; i++)
        check_key(d, f, i);
    store_close(&d);
}

/* Somewhere in the groups in front of the last one, or in the last ones. */
static void
damage(struct sim *s, struct log_gap_life *f, uint64_t *state)
{
    uint32_t segment =
        f->where == GAP_AT_END ? f->end.segment : 1 + (uint32_t)(*state % 8);
    uint64_t size, begin = STORE_ALIGN, end, from, len;
    char path[64], *at;

    *state = hash_xxh3(state, sizeof *state, 1);
    for (;; segment = segment % 32 + 1) {
        snprintf(path, sizeof path, PATH "/cached/log-%06u.tar", (unsigned)segment);
        if (sim_file_bytes(s, path, &at, &size) == ERR_OK)
            break;
    }
    if (f->where == GAP_AT_END)
        end = f->end.offset;
    else
        end = segment == f->last.segment ? f->last.offset : size;
    if (end <= STORE_ALIGN)
        return;
    if (f->where == GAP_AT_END) {
        begin = MAX(STORE_ALIGN, end - MIN(end, 48u << 10));
        if (begin >= end)
            return;
    }
    from = begin + *state % (end - begin);
    *state = hash_xxh3(state, sizeof *state, 2);
    if (*state % 3 == 0) {
        at[from] = (char)(at[from] ^ 16);
        return;
    }
    len = MIN(end - from, (*state >> 8) % 40000);
    for (uint64_t i = from; i < from + len; i++)
        at[i] = *state % 3 == 1 ? 0 : (char)(i * 131 >> 3);
}

/* The number that was kept is another one, of as many bytes. */
static void
plant_durable_mark(struct sim *s, enum gap_plant plant)
{
    struct truncated r;
    struct errbuf eb = {0};
    struct buf bytes;
    uint64_t size, most = 255;
    char *at;

    if (plant == GAP_PLANT_NONE ||
        sim_file_bytes(s, PATH "/.forebay/" TRUNCATED_FILE, &at, &size) != ERR_OK)
        return;
    CHECK(truncated_decode((struct span){at, size}, &r, &eb) == ERR_OK);
    while (most < r.durable_mark)
        most = most << 8 | 255;
    if (r.durable_mark != 0)
        r.durable_mark = plant == GAP_PLANT_TOO_FAR ? most : (most >> 8) + 1;
    buf_init(&bytes, 1u << 20);
    truncated_encode(&r, &bytes);
    CHECK_U64(bytes.len, size);
    memcpy(at, bytes.at, size);
    buf_fini(&bytes);
    truncated_fini(&r);
}

static uint64_t
log_gap_life(uint64_t seed, enum gap_where where, enum gap_plant plant)
{
    struct sim_options o = {.seed = seed, .lossy = true, .max_delay_us = 300};
    struct sim *s = sim_new(&o);
    struct log_gap_life f = {.where = where, .seed = seed};
    uint64_t state = seed * 0x9e3779b97f4a7c15u, hash;
    struct errbuf eb = {0};

    state = hash_xxh3(&state, sizeof state, 0);
    f.ops = 20 + (unsigned)(state % OPS_MOST);
    if (where == GAP_NOWHERE)
        sim_cut_at(s, 1 + (state >> 8) % (6 * (uint64_t)f.ops));
    if (sim_run_world(s, work, &f, &eb) != ERR_OK)
        CHECK(sim_was_cut(s));
    hash = sim_trace_hash(s);
    if (where != GAP_NOWHERE)
        damage(s, &f, &state);
    plant_durable_mark(s, plant);
    for (unsigned i = 0; where == GAP_COMPACTED && i < 1 + seed % 2; i++) {
        f.rebuild = i == 0;
        f.ops = 10 + (unsigned)(state >> 16) % 200;
        sim_cut_at(s, 0);
        CHECK(sim_run_world(s, work_on, &f, &eb) == ERR_OK);
    }
    for (unsigned i = 0; i <= ATTEMPTS; i++) {
        bool last = i == ATTEMPTS;

        state = hash_xxh3(&state, sizeof state, i);
        f.rebuild =
            i == 0 || state % 2 == 0; /* else it goes on where the cut has left it */
        sim_cut_at(s, last ? 0 : 1 + (state >> 8) % 60);
        if (sim_run_world(s, where == GAP_NOWHERE && !last ? work : look, &f, &eb) !=
            ERR_OK)
            CHECK(sim_was_cut(s));
        hash = hash_xxh3(&(uint64_t){sim_trace_hash(s)}, 8, hash);
    }
    sim_free(&s);
    return hash;
}
