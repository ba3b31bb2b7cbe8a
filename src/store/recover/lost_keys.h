/* lost_keys: which keys the damaged commit batches of the native log concern.
 *
 * Each batch ends with a list of the keys that it changes, and the next one repeats that list (record `keys`). While a
 * replay reads what is left of damaged batches, lost_keys_saw() gets every intact record. lost_keys_end() then compares:
 * what a list names and no record says is lost, and its key suspect (index/suspect.h). Where a list is lost as well, the whole
 * disk is in doubt.
 *
 * Owner loop. */
#pragma once
#include "store/record/log_record.h"

struct store;
struct lost_keys;

struct lost_keys *lost_keys_new(void);
void lost_keys_free(struct lost_keys **lp); /* NULL is fine */

/* Batches from `first` to below `below` are damaged. Continues the damage at hand, if there is some. */
void lost_keys_begin(struct lost_keys *l, uint64_t first, uint64_t below);
bool lost_keys_is_open(const struct lost_keys *l);
void lost_keys_cancel(struct lost_keys *l); /* no record is lost */
/* An intact header of a record of one of these batches, or the `keys` of a later one. */
void lost_keys_saw(struct lost_keys *l, const struct log_record *m);
/* The list of that batch, from elsewhere: SUSPECT_ENTRY_BYTES for each change. */
void lost_keys_list(struct lost_keys *l, uint64_t batch, struct span keys);
/* All was read. No version of the damaged batches is above `bound`. What is found is durable when this returns. May
 * switch. */
enum err lost_keys_end(struct lost_keys *l, struct store *d, const struct version *bound,
                       struct errbuf *eb) MUST_CHECK;
