/* index_decoder: merges the runs of a batch in index order and decodes their entries, a slice at a time. A second thread of the pool (the
 * helper) does this while the writer hands the slice before to LMDB; without a helper the writer does both.
 *
 * One writer, at most one helper; both only between new and free.
 */
#pragma once
#include "store/index/memtable.h"
#include "store/index/run.h"
#include "store/store_entry.h"

struct decoded_entry {
    struct coded_entry e; /* borrows from the batch */
    struct entry entry;   /* of an object: e.value, decoded */
    bool bad;             /* e.value cannot be decoded */
};

struct index_decoder;
/* The batch, whose runs are finished, outlives it. */
struct index_decoder *index_decoder_new(const struct frozen_runs *b);
void index_decoder_free(struct index_decoder **ap);
/* Are there enough entries for two threads? */
bool index_decoder_is_worth_help(const struct frozen_runs *b);

/* The writer has a thread: from now on the helper may wait for it. */
void index_decoder_begin(struct index_decoder *a);
/* The next entry, valid until the next call; NULL: the end. */
const struct decoded_entry *index_decoder_next(struct index_decoder *a);
/* The writer needs no more: the helper may end. Twice is fine. */
void index_decoder_end(struct index_decoder *a);
/* The helper. Returns when all is decoded or the writer has ended; never waits for a writer that has not begun. */
void index_decoder_help(struct index_decoder *a);
