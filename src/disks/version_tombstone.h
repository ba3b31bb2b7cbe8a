/* version_tombstone: tombstones of versions that were deleted by id, and of uploads that were
 * aborted, while a disk could not receive that. A disk that returns with such a version does not
 * spread it, and aborts such an upload. Once every disk has the end, the tombstones are dropped.
 *
 * It is a tombstone (store_replica.h) in a bucket of its own, TOMBSTONE_BUCKETS + the bucket's
 * id, under the version's birth and the key: docs/formats.md, section 8.1. Any loop; all may
 * switch.
 */
#pragma once
#include "disks/internal.h"

#define TOMBSTONE_BUCKETS ((uint64_t)1 << 63)

/* Records on every disk in `p` that is in service that the version `born` of the key was ended
 * by version `as`. `as` NULL: the version ends next. The first disk to record it assigns the
 * version; the record that then ends it is newer than this and than all present versions. On
 * ERR_OK it is durable on at least one disk. */
enum err version_tombstone_put(struct disks *ds, const struct disks_key *k,
                               const struct places *p, const struct version *born,
                               const struct version *as, struct errbuf *eb) MUST_CHECK;
/* True if any disk in service has recorded the end of this entry's version; *as is the version
 * of that. For null versions one tombstone covers all up to some birth. */
bool version_tombstone_find(struct disks *ds, const struct disks_key *k,
                            const struct entry *entry, struct version *as);
/* The same for an entry from before versioning, which does not show whether its key has
 * versions. */
bool version_tombstone_find_plain(struct disks *ds, const struct disks_key *k,
                                  const struct entry *entry);
/* As version_tombstone_put() for a null version: the null versions that it replaced have ended
 * too, even on disks that did not receive that. */
enum err version_tombstone_put_nulls(struct disks *ds, const struct disks_key *k,
                                     const struct places *p, const struct version *as,
                                     struct errbuf *eb) MUST_CHECK;
/* Drops the tombstone that version_tombstone_put_nulls() left on one disk, once every replica
 * has the end. Not synced; a later pass repeats what fails. */
void version_tombstone_drop_nulls(struct disks *ds, const struct disks_key *k,
                                  unsigned slot, const struct version *as);
/* Records the coming abort of an upload on every disk in `p` that is in service. On ERR_OK it is
 * durable on at least one disk. */
enum err upload_tombstone_put(struct disks *ds, const struct disks_key *k,
                              const struct places *p, const struct upload_id *u,
                              struct errbuf *eb) MUST_CHECK;
/* True if any disk in service has recorded the abort. Not called while the set is converged:
 * then no disk has returned. */
bool upload_tombstone_find(struct disks *ds, const struct disks_key *k,
                           const struct upload_id *u);
/* Visits the tombstones of the bucket on slot i. on_mark() reconciles the key, or aborts the
 * upload on all disks (NULL: the tombstone is of a version), and returns whether it succeeded.
 * Tombstones that every replica has are dropped. */
typedef bool version_tombstone_fn(void *arg, const struct disks_key *k,
                                  const struct upload_id *u);
enum err version_tombstones_walk(struct disks *ds, const struct disks_bucket *b,
                                 unsigned slot, version_tombstone_fn *on_mark, void *arg,
                                 struct errbuf *eb) MUST_CHECK;
