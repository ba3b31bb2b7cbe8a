/* index_decoder: what a batch brings, in the order of the index and taken apart, a slice at a time: by a second thread of the
 * pool while the first one hands the slice before to LMDB, or by that one itself where nobody helps.
 *
 * One thread asks, one may help; both only between new and free.
 */
#pragma once
#include "store/index/memtable.h"
#include "store/index/run.h"
#include "store/store_entry.h"

struct decoded_entry {
    struct coded_entry e; /* borrows from the batch */
    struct entry entry;   /* of an object: what e.value says */
    bool bad;             /* it says nothing */
};

struct index_decoder;
/* The batch, whose runs are finished, outlives it. */
struct index_decoder *index_decoder_new(const struct frozen_runs *b);
void index_decoder_free(struct index_decoder **ap);
/* Is there enough to do for two? */
bool index_decoder_is_worth_help(const struct frozen_runs *b);

/* The asker has a thread: from now on he who helps may wait for him. */
void index_decoder_begin(struct index_decoder *a);
/* The next one, good until the next call; NULL: that was all. */
const struct decoded_entry *index_decoder_next(struct index_decoder *a);
/* Nothing more is asked for: whoever helps may go. Twice is fine. */
void index_decoder_end(struct index_decoder *a);
/* Until it is ended; never waits for an asker that has not begun. */
void index_decoder_help(struct index_decoder *a);
