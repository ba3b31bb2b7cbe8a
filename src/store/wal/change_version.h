/* change_version: applies records to the older versions of a key. Part of change.c; formats.md,
 * "versions".
 *
 * The table `objects` holds the current entry, which may be a delete marker. The table
 * `versions` holds older ones, newest first. A new entry with ENTRY_VERSIONED makes the former
 * current entry an older version. So does one with ENTRY_SUSPENDED, unless the former entry was
 * the null version; a key has at most one null version. A current entry with neither flag
 * therefore has no older versions.
 *
 * Owner loop. Calls may switch. Look-ups include the effects of the current batch so far.
 */
#pragma once
#include "store/store_entry.h"
#include "store/wal/change.h"

struct log_record;

/* True if this entry is a version: an object or a delete marker. */
/* True if the key has no object here and no other replica needs the record: a tombstone that is
 * neither kept nor a delete marker. */
static inline bool
entry_is_blank(const struct entry *entry)
{
    return (entry->flags & (ENTRY_TOMBSTONE | ENTRY_KEPT | ENTRY_MARKER)) ==
           ENTRY_TOMBSTONE;
}
bool entry_is_version(const struct entry *entry);
/* Finds a version, current or older; `born` NULL: the null version. ERR_NOT_FOUND. */
enum err changes_version(struct changes *c, uint64_t bucket, struct span key,
                         const struct version *born, struct entry *out, bool *current,
                         struct errbuf *eb) MUST_CHECK;
/* Replaces the current entry `old` by `entry`: keeps `old` as an older version or counts it as
 * garbage, and ends an earlier null version if needed. Adds to entry->flags if the bucket's
 * versioning was unknown when the entry was written. */
enum err changes_succeed(struct changes *c, const struct log_record *m,
                         const struct entry *old, struct entry *entry,
                         struct errbuf *eb) MUST_CHECK;
/* Apply the records `version-delete` and `meta`. */
enum err changes_version_delete(struct changes *c, const struct log_record *m,
                                struct entry *entry, struct errbuf *eb) MUST_CHECK;
enum err changes_meta(struct changes *c, const struct log_record *m, struct entry *entry,
                      struct errbuf *eb) MUST_CHECK;
/* Inserts an entry of a bucket with versioning in the order of its birth version. It becomes the
 * current one, or an older one if it arrives late (committed by another disk, or relocated). */
enum err changes_insert(struct changes *c, const struct log_record *m,
                        struct entry *entry, struct errbuf *eb) MUST_CHECK;

/* Stores `entry` as an older version, under its birth version. */
void changes_set_older(struct changes *c, const struct log_record *m,
                       const struct entry *entry);

/* change.c */
void changes_set_object(struct changes *c, uint64_t bucket, struct span key,
                        const struct entry *entry);
void changes_entry_died(struct changes *c, const struct entry *old);
