/* change_moved: the record `moved`: compaction has written a body or a log record again, the same version at another
 * place. Part of change.c.
 *
 * An entry that has this content gets the new place and keeps all else it says. Without one (a rebuilt index, the old
 * log gone) the record makes the entry, as the first one did. With UPLOAD it is the manifest of an object of parts; with
 * UPLOAD and PART one of the parts that an object has in a log: that changes no entry, the manifest follows.
 *
 * Owner loop; calls may switch.
 */
#pragma once
#include "store/record/manifest.h"
#include "store/wal/change.h"

struct entry;
struct log_record;

enum err changes_relocation(struct changes *c, const struct log_record *m,
                            struct entry *entry, struct errbuf *eb) MUST_CHECK;

/* change.c */
/* Makes `entry` the entry of the key, unless it is older than what is there. */
enum err changes_put(struct changes *c, const struct log_record *m, struct entry *entry,
                     struct errbuf *eb) MUST_CHECK;
void changes_count_part(struct changes *c, uint32_t segment, bool in_log, uint64_t size,
                        int sign);
void changes_manifest_died(struct changes *c, const struct manifest *m);
/* The body of a part that lives on elsewhere: its former place only. */
void changes_place_died(struct changes *c, const struct manifest_entry *e);
void changes_manifest_lives(struct changes *c, const struct manifest *m);
