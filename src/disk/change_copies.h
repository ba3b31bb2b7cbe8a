/* change_copies: what the records do that keep copies on several disks: prepare, decide, abort, tombstone-end, obsolete.
 * Part of change.c.
 *
 * Home loop; calls may switch.
 */
#pragma once
#include "disk/change.h"

/* One of those records. */
enum err changes_copies(struct changes *c, const struct member *m, struct row *row,
                        struct errbuf *eb) MUST_CHECK;

/* change.c: the puncher hears of a body that lost its row. */
void changes_note_dying(struct disk *d, enum disk_class class, uint32_t segment,
                        uint64_t offset, const struct content_id *content);
