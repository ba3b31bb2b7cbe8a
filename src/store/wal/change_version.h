/* change_version: what records do to the older versions of a key. Part of change.c; formats.md, "versions".
 *
 * The current entry stands in `objects`, a delete marker too; older ones in `versions`, newest first. What was there
 * becomes older where the new entry is ENTRY_VERSIONED, and also where it is ENTRY_SUSPENDED unless it was the null version,
 * of which there is one at most. So a current entry with neither flag has nothing older.
 *
 * Owner loop; calls may switch. Look-ups see what the batch at hand has done so far.
 */
#pragma once
#include "store/store_entry.h"
#include "store/wal/change.h"

struct log_record;

/* Is this entry a version: an object, or a delete marker? */
/* Nothing is here, and nothing else need know: a tombstone that is neither kept nor a delete marker. */
static inline bool
entry_is_blank(const struct entry *entry)
{
    return (entry->flags & (ENTRY_TOMBSTONE | ENTRY_KEPT | ENTRY_MARKER)) ==
           ENTRY_TOMBSTONE;
}
bool entry_is_version(const struct entry *entry);
/* A version, current or older; `born` NULL: the null version. ERR_NOT_FOUND. */
enum err changes_version(struct changes *c, uint64_t bucket, struct span key,
                         const struct version *born, struct entry *out, bool *current,
                         struct errbuf *eb) MUST_CHECK;
/* `entry` takes the place of `old` as the current one: what becomes of `old`, and of the null version before it. Adds to
 * entry->flags where the bucket's versioning was not known when it was written. */
enum err changes_succeed(struct changes *c, const struct log_record *m,
                         const struct entry *old, struct entry *entry,
                         struct errbuf *eb) MUST_CHECK;
/* The records `version-delete` and `meta`. */
enum err changes_version_delete(struct changes *c, const struct log_record *m,
                                struct entry *entry, struct errbuf *eb) MUST_CHECK;
enum err changes_meta(struct changes *c, const struct log_record *m, struct entry *entry,
                      struct errbuf *eb) MUST_CHECK;
/* An entry of a bucket with versioning takes its place among the others, by the version it was born with: as the current
 * one, or among the older ones where it comes late (committed by another disk, moved by a compaction). */
enum err changes_insert(struct changes *c, const struct log_record *m,
                        struct entry *entry, struct errbuf *eb) MUST_CHECK;

/* An older version stands there as `entry` says, under the version it was born with. */
void changes_set_older(struct changes *c, const struct log_record *m,
                       const struct entry *entry);

/* change.c */
void changes_set_object(struct changes *c, uint64_t bucket, struct span key,
                        const struct entry *entry);
void changes_entry_died(struct changes *c, const struct entry *old);
