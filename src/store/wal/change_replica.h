/* change_copies: what the records do that keep copies on several disks: prepare, decide, abort, tombstone-end, obsolete.
 * Part of change.c.
 *
 * Owner loop; calls may switch.
 */
#pragma once
#include "store/store_entry.h"
#include "store/wal/change.h"

struct log_record;
struct store;

/* One of those records. */
enum err changes_replica(struct changes *c, const struct log_record *m,
                         struct entry *entry, struct errbuf *eb) MUST_CHECK;

/* change.c: hands a body that lost its entry to the puncher. */
void changes_note_garbage(struct store *d, enum store_class class, uint32_t segment,
                          uint64_t offset, const struct content_id *content);
