/* index_writer: the state of one batch while a job of the pool writes it to the index. index_write.c applies its entries,
 * index_layers.c finds and keeps their places, index_count.c counts what they change.
 */
#pragma once
#include "store/index/entry.h"
#include "store/index/index_decoder.h"
#include "store/index/index_internal.h"
#include "store/record/keys.h"
#include "store/store_entry.h"

struct coded_entry;
struct frozen_runs;
struct index_usage;
struct run_segment;

/* The way to a key: a cell in each layer. Copied out, since a write moves what LMDB shows: `entry` lies in `copied`, or in the
 * run that it comes from. */
struct index_step {
    unsigned char coded[KEY_CODED_MAX];
    size_t len;
    bool exists;
    uint64_t sum; /* of the pair that stands there; 0: none */
    uint32_t space, layer;
    struct span entry; /* empty: none */
    unsigned char copied[ENTRY_CODED_MAX];
};
struct index_path {
    struct index_step at[KEY_LAYERS_MAX];
    unsigned count;
};

/* A table that was empty when the batch began takes ascending keys without a search: a key behind all others is new, and goes to the end
 * of the last page. */
struct index_append {
    bool on;
    unsigned char last[KEY_CODED_MAX]; /* no key of the table is larger */
    size_t len;
    /* At the end of the table; NULL after a write without it. Ends with the transaction. */
    MDB_cursor *cursor;
};

#define SEGMENT_SLOTS 256u
struct index_writer {
    struct index *x;
    const struct frozen_runs *batch;
    struct index_append append; /* of the objects */
    /* In the objects, at the place of the key before. Keys come in order, so the next one is mostly on the same page and needs no search
     * from the root. NULL: not open. Ends with the transaction. */
    MDB_cursor *at;
    /* Owned, and freed outside the guard. */
    struct index_decoder *decoder;
    struct index_path *path;

    MDB_txn *txn;
    struct index_meta meta; /* takes effect with the commit */
    struct index_tally
        proven; /* so does this: what the batch changes of what a proof has counted */
    uint64_t bucket; /* the last one asked for, and its space; 0: none */
    uint32_t space;
    struct run_segment *segments; /* owned: changes of this batch */
    uint32_t segment_count, segment_room;
    uint32_t segment_at[SEGMENT_SLOTS]; /* where one of these was met last, + 1 */
    struct index_usage *usage;          /* owned: the same by bucket */
    uint32_t usage_count, usage_room;
    unsigned char done_at[16];
    int64_t now_ms;
    int rc;
};

/* A pair goes or comes. If it lies before the place of a verification under way, that has counted it: its count is corrected. */
static inline void
index_tally_goes(struct index_writer *w, unsigned db, const MDB_val *key, uint64_t sum)
{
    w->meta.tally.pairs--;
    w->meta.tally.sum -= sum;
    if (w->x->proof.on && index_place_is_behind(&w->x->proof.place, db, key)) {
        w->proven.pairs--;
        w->proven.sum -= sum;
    }
}

static inline void
index_tally_comes(struct index_writer *w, unsigned db, const MDB_val *key, uint64_t sum)
{
    w->meta.tally.pairs++;
    w->meta.tally.sum += sum;
    if (w->x->proof.on && index_place_is_behind(&w->x->proof.place, db, key)) {
        w->proven.pairs++;
        w->proven.sum += sum;
    }
}

/* Does the entry name a place: a log record, a body, a manifest? */
static inline bool
index_has_place(const struct entry *entry)
{
    return (entry->flags & ENTRY_TOMBSTONE) == 0 && entry->place.segment != 0;
}

static inline enum store_class
index_class_of(const struct entry *entry)
{
    return (entry->flags & ENTRY_CACHED) != 0 ? STORE_CACHED : STORE_NATIVE;
}

/* ---- index_count.c ---- */

/* A pair of a small table, counted in the tally. `before`: the present value, or NULL. Returns a code of LMDB, as all of these do. */
int index_put_pair(struct index_writer *w, unsigned db, MDB_val *key,
                   const MDB_val *before, MDB_val *value);
int index_del_pair(struct index_writer *w, unsigned db, MDB_val *key,
                   const MDB_val *before);
int index_del_at(struct index_writer *w, unsigned db, MDB_cursor *cursor,
                 const MDB_val *key, const MDB_val *value);
/* Changes of segments and buckets; written at the end of the batch. */
void index_count_segment(struct index_writer *w, enum store_class class, uint32_t segment,
                         int64_t living, int64_t dead);
void index_count_older(struct index_writer *w, const struct entry *entry, bool comes);
void index_count_change(struct index_writer *w, const struct entry *before,
                        const struct entry *after);
void index_count_usage(struct index_writer *w, uint64_t bucket,
                       const struct entry *before, const struct entry *after);
int index_write_segments(struct index_writer *w);
int index_write_usage(struct index_writer *w);

/* ---- index_layers.c ---- */

/* A table that fills from empty. */
int index_append_begin(struct index_writer *w);
bool index_append_fits(const struct index_writer *w, enum table table,
                       const struct index_step *s);
int index_append_put(struct index_writer *w, enum table table, MDB_val *key,
                     MDB_val *value);
/* By the cursor that stays, or the table. */
int index_put(struct index_writer *w, enum table table, MDB_val *key, MDB_val *value,
              unsigned flags);
/* MDB_NOTFOUND: the bucket has none, and none is made. */
int index_space_of(struct index_writer *w, uint64_t bucket, bool make, uint32_t *space);
/* Writes the step, or removes it if it has neither entry nor layer. */
int index_store_step(struct index_writer *w, enum table table, struct index_step *s);
/* Goes down to the last layer; makes layers that are missing. MDB_NOTFOUND: not there and not made. */
int index_go_down(struct index_writer *w, enum table table, const struct coded_entry *e,
                  bool make, struct index_path *p);
/* Removes a layer that has become empty, and then those above it. */
int index_go_up(struct index_writer *w, enum table table, struct index_path *p);
