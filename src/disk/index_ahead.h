/* index_ahead: what a batch brings, in the order of the index and taken apart, a slice at a time: by a second thread of the
 * pool while the first one hands the slice before to LMDB, or by that one itself where nobody helps.
 *
 * One thread asks, one may help; both only between new and free.
 */
#pragma once
#include "disk/tail.h"

struct ahead_entry {
    struct entry e; /* borrows from the batch */
    struct row row; /* of an object: what e.value says */
    bool bad;       /* it says nothing */
};

struct index_ahead;
/* The batch, whose runs are finished, outlives it. */
struct index_ahead *index_ahead_new(const struct batch *b);
void index_ahead_free(struct index_ahead **ap);
/* Is there enough to do for two? */
bool index_ahead_is_worth_help(const struct batch *b);

/* The asker has a thread: from now on he who helps may wait for him. */
void index_ahead_begin(struct index_ahead *a);
/* The next one, good until the next call; NULL: that was all. */
const struct ahead_entry *index_ahead_next(struct index_ahead *a);
/* Nothing more is asked for: whoever helps may go. Twice is fine. */
void index_ahead_end(struct index_ahead *a);
/* Until it is ended; never waits for an asker that has not begun. */
void index_ahead_help(struct index_ahead *a);
