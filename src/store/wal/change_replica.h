/* change_replica: applies the records that keep replicas in sync: prepare, commit, abort,
 * tombstone-end, obsolete. Part of change.c.
 *
 * Owner loop. Calls may switch.
 */
#pragma once
#include "store/store_entry.h"
#include "store/wal/change.h"

struct log_record;
struct store;

/* Applies one of these records. */
enum err changes_replica(struct changes *c, const struct log_record *m,
                         struct entry *entry, struct errbuf *eb) MUST_CHECK;

/* change.c: passes a body that lost its entry to hole punching. */
void changes_note_garbage(struct store *d, enum store_class class, uint32_t segment,
                          uint64_t offset, const struct content_id *content);
