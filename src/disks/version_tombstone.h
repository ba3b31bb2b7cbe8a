/* version_tombstone: what is kept of versions that were deleted by their id, and of uploads that were aborted, while a disk
 * was not there to receive that. A disk that comes back with such a version does not spread it to the others, and aborts
 * such an upload; when every disk has the end, the tombstones are dropped.
 *
 * It is a tombstone (store_replica.h) in a bucket of its own, TOMBSTONE_BUCKETS + the bucket's id, under the version's
 * birth and the key: docs/formats.md, section 8.1. Any loop; all may switch.
 */
#pragma once
#include "disks/internal.h"

#define TOMBSTONE_BUCKETS ((uint64_t)1 << 63)

/* The version `born` of the key was ended as version `as`: every disk in `p` that is there keeps that. `as` NULL: it ends next,
 * and the first of them to keep it says as which version; what ends it then is newer than all that is there, and newer than
 * the mark. Durable on one of them at least when this returns ERR_OK. */
enum err version_tombstone_put(struct disks *ds, const struct disks_key *k,
                               const struct places *p, const struct version *born,
                               const struct version *as, struct errbuf *eb) MUST_CHECK;
/* Does any disk that is there know that the version of this entry was ended? *as is the version of that. Of null versions one
 * mark says that all up to some birth were. */
bool version_tombstone_find(struct disks *ds, const struct disks_key *k,
                            const struct entry *entry, struct version *as);
/* The same of an entry from before versioning, in which nothing says that there are versions of its key. */
bool version_tombstone_find_plain(struct disks *ds, const struct disks_key *k,
                                  const struct entry *entry);
/* The entry of version_tombstone_put() for a null version: what was replaced by it ended too, also where that was not received. */
enum err version_tombstone_put_nulls(struct disks *ds, const struct disks_key *k,
                                     const struct places *p, const struct version *as,
                                     struct errbuf *eb) MUST_CHECK;
/* Takes back the mark that version_tombstone_put_nulls() left on one disk: every replica has it. Not synced; a later pass repeats what fails. */
void version_tombstone_drop_nulls(struct disks *ds, const struct disks_key *k,
                                  unsigned slot, const struct version *as);
/* The upload is about to be aborted: every disk in `p` that is there keeps that. Durable on one of them at least when this returns
 * ERR_OK. */
enum err upload_tombstone_put(struct disks *ds, const struct disks_key *k,
                              const struct places *p, const struct upload_id *u,
                              struct errbuf *eb) MUST_CHECK;
/* Does any disk that is there know that it was? Not while the set is converged: then no disk has come back. */
bool upload_tombstone_find(struct disks *ds, const struct disks_key *k,
                           const struct upload_id *u);
/* All marks of the bucket that slot i has: on_mark() reconciles the key, or aborts the upload on all disks (NULL: it is of a version), and
 * says whether it could. Tombstones that every replica has are dropped. */
typedef bool version_tombstone_fn(void *arg, const struct disks_key *k,
                                  const struct upload_id *u);
enum err version_tombstones_walk(struct disks *ds, const struct disks_bucket *b,
                                 unsigned slot, version_tombstone_fn *on_mark, void *arg,
                                 struct errbuf *eb) MUST_CHECK;
