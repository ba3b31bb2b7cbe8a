/* change_version: what records do to the older versions of a key. Part of change.c; formats.md, "versions".
 *
 * The current row stands in `objects`, a delete marker too; older ones in `versions`, newest first. What was there
 * becomes older where the new row is ROW_VERSIONED, and also where it is ROW_SUSPENDED unless it was the null version,
 * of which there is one at most. So a current row with neither flag has nothing older.
 *
 * Home loop; calls may switch. Look-ups see what the group at hand has done so far.
 */
#pragma once
#include "disk/change.h"

/* Is this row a version: an object, or a delete marker? */
/* Nothing is here, and nothing else need know: a tombstone that is neither kept nor a delete marker. */
static inline bool
row_is_blank(const struct row *row)
{
    return (row->flags & (ROW_TOMBSTONE | ROW_KEPT | ROW_MARKER)) == ROW_TOMBSTONE;
}
bool row_is_version(const struct row *row);
/* A version, current or older; `born` NULL: the null version. ERR_NOT_FOUND. */
enum err changes_version(struct changes *c, uint64_t bucket, struct span key,
                         const struct version *born, struct row *out, bool *current,
                         struct errbuf *eb) MUST_CHECK;
/* `row` takes the place of `old` as the current one: what becomes of `old`, and of the null version before it. Adds to
 * row->flags where the bucket's versioning was not known to whoever wrote it. */
enum err changes_succeed(struct changes *c, const struct member *m, const struct row *old,
                         struct row *row, struct errbuf *eb) MUST_CHECK;
/* The records `version-delete` and `meta`. */
enum err changes_version_delete(struct changes *c, const struct member *m,
                                struct row *row, struct errbuf *eb) MUST_CHECK;
enum err changes_meta(struct changes *c, const struct member *m, struct row *row,
                      struct errbuf *eb) MUST_CHECK;
/* A row of a bucket with versioning takes its place among the others, by the version it was born with: as the current
 * one, or among the older ones where it comes late (decided by another disk, moved by a compaction). */
enum err changes_insert(struct changes *c, const struct member *m, struct row *row,
                        struct errbuf *eb) MUST_CHECK;

/* An older version stands there as `row` says, under the version it was born with. */
void changes_set_older(struct changes *c, const struct member *m, const struct row *row);

/* change.c */
void changes_set_object(struct changes *c, uint64_t bucket, struct span key,
                        const struct row *row);
void changes_row_died(struct changes *c, const struct row *old);
