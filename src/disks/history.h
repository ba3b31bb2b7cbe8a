/* history: all versions of a key, delete markers too, placed where its order says. The caller holds the key's
 * lock. Any loop; may switch. */
#pragma once
#include "disks/rebalance.h"

/* Each disk that should have the key has every version that any disk has; the others have none. Copies on slots of
 * `damaged` (bits) are written again. ERR_BUSY with *early: they must be made durable before others lose theirs. A version
 * that was ended while a disk was away ends there as well. */
enum err history_reconcile(struct disks *ds, const struct disks_key *k,
                           const struct places *p, uint64_t damaged,
                           struct reconciled *done, bool *early,
                           struct errbuf *eb) MUST_CHECK;
/* Slot `to` has every version, so that it can check preconditions, and order what comes; and so has each disk of `also` (bits), and each that
 * has any of them and takes writes: what happens to one of them happens alike on all. */
enum err history_copy_to_owner(struct disks *ds, const struct disks_key *k, unsigned to,
                               uint64_t also, struct errbuf *eb) MUST_CHECK;
/* The newest version that any disk has and that was not ended, a delete marker too: its entry, with the newest metadata; the slot
 * in `disk`. ERR_NOT_FOUND: all that there is was ended. ERR_UNAVAILABLE where a replica that could know did not answer. Takes no lock. */
enum err history_current(struct disks *ds, const struct disks_key *k, struct entry *out,
                         struct errbuf *eb) MUST_CHECK;
/* The birth of the version with this content that one disk has, the current one or not. ERR_NOT_FOUND: it has none. */
enum err history_find(struct replica *d, const struct store_key *k,
                      const struct content_id *content, struct version *born,
                      struct errbuf *eb) MUST_CHECK;
/* copy.c: does this version stay on slot i through a power cut? */
bool is_durable(struct disks *ds, unsigned i, const struct version *v);
