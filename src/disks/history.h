/* history: all versions of a key, delete markers included, on the disks of the key's order. The
 * caller holds the key's lock. Any loop; may switch. */
#pragma once
#include "disks/rebalance.h"

/* Reconciles the versions of a key: each disk that should have the key gets every version that
 * any disk has; the others lose theirs. Copies on slots of `damaged` (bits) are written again.
 * ERR_BUSY with *early: those copies must be made durable before the others are dropped. A
 * version that was deleted while a disk was away is deleted there, too. */
enum err history_reconcile(struct disks *ds, const struct disks_key *k,
                           const struct places *p, uint64_t damaged,
                           struct reconciled *done, bool *early,
                           struct errbuf *eb) MUST_CHECK;
/* Copies every version to slot `to`, which then can check preconditions and order the next
 * change. Also to each disk of `also` (bits), and to each writable disk that has any version: a
 * change must apply to all of them alike. */
enum err history_copy_to_owner(struct disks *ds, const struct disks_key *k, unsigned to,
                               uint64_t also, struct errbuf *eb) MUST_CHECK;
/* Finds the newest version on any disk that was not deleted, delete markers included. Returns
 * its entry with the newest metadata; `disk` is the slot. ERR_NOT_FOUND: all versions were
 * deleted. ERR_UNAVAILABLE: a replica that could have a newer one did not answer. Takes no lock. */
enum err history_current(struct disks *ds, const struct disks_key *k, struct entry *out,
                         struct errbuf *eb) MUST_CHECK;
/* Finds the birth of the version with this content on one disk, current or older. ERR_NOT_FOUND. */
enum err history_find(struct replica *d, const struct store_key *k,
                      const struct content_id *content, struct version *born,
                      struct errbuf *eb) MUST_CHECK;
/* copy.c: true if this version on slot i survives a power cut. */
bool is_durable(struct disks *ds, unsigned i, const struct version *v);
