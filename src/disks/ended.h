/* ended: versions that were ended by their id, and uploads that were aborted, while a disk was not there to hear of it. Whoever heard
 * keeps a mark, so that the disk which comes back with such a version does not bring it back to the others, and gives back the parts of
 * such an upload; when all have heard, the marks go.
 *
 * A mark is a kept tombstone (disk_copies.h) in a bucket of its own, ENDED_BUCKETS + the bucket's id, under the version's birth and the
 * key: docs/formats.md, section 8.1. Any loop; all may switch.
 */
#pragma once
#include "disks/internal.h"

#define ENDED_BUCKETS ((uint64_t)1 << 63)

/* The version `born` of the key was ended as version `as`: every disk in `p` that is there keeps that. `as` NULL: it ends next,
 * and the first of them to keep it says as which version; what ends it then is newer than all that is there, and newer than
 * the mark. Durable on one of them at least when this returns ERR_OK. */
enum err ended_mark(struct disks *ds, const struct disks_key *k, const struct places *p,
                    const struct version *born, const struct version *as,
                    struct errbuf *eb) MUST_CHECK;
/* Does any disk that is there know that the version of this row was ended? *as is the version of that. Of null versions one
 * mark says that all up to some birth were. */
bool ended_ask(struct disks *ds, const struct disks_key *k, const struct row *row,
               struct version *as);
/* The same of a row from before versioning, in which nothing says that there are versions of its key. */
bool ended_ask_plain(struct disks *ds, const struct disks_key *k, const struct row *row);
/* The row of ended_mark() for a null version: what was replaced by it ended too, wherever it was not heard. */
enum err ended_mark_nulls(struct disks *ds, const struct disks_key *k,
                          const struct places *p, const struct version *as,
                          struct errbuf *eb) MUST_CHECK;
/* Takes back the mark that ended_mark_nulls() left on one disk: all have heard. Not synced; what fails a later pass does. */
void ended_unmark_nulls(struct disks *ds, const struct disks_key *k, unsigned slot,
                        const struct version *as);
/* The upload is about to be aborted: every disk in `p` that is there keeps that. Durable on one of them at least when this returns
 * ERR_OK. */
enum err ended_mark_upload(struct disks *ds, const struct disks_key *k,
                           const struct places *p, const struct upload_id *u,
                           struct errbuf *eb) MUST_CHECK;
/* Does any disk that is there know that it was? Not while the set is settled: then nobody has come back. */
bool ended_ask_upload(struct disks *ds, const struct disks_key *k,
                      const struct upload_id *u);
/* All marks of the bucket that slot i has: on_mark() puts the key right, or ends the upload on all disks (NULL: it is of a version), and
 * says whether it is. What all have heard of goes. */
typedef bool ended_fn(void *arg, const struct disks_key *k, const struct upload_id *u);
enum err ended_walk(struct disks *ds, const struct disks_bucket *b, unsigned slot,
                    ended_fn *on_mark, void *arg, struct errbuf *eb) MUST_CHECK;
