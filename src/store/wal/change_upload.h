/* change_upload: what the records of uploads in parts do: upload-begin, part, upload-complete, upload-abort. Part of
 * change.c.
 *
 * Owner loop; calls may switch.
 */
#pragma once
#include "store/record/manifest.h"
#include "store/wal/change.h"

struct entry;
struct log_record;
struct upload_id;

/* One of those records. */
enum err changes_upload(struct changes *c, const struct log_record *m,
                        struct entry *entry, struct errbuf *eb) MUST_CHECK;

/* The parts of an upload that ends leave it. They are dead, but for those in `kept` (ascending; may be NULL): these the
 * object takes. Of one that had ended nothing leaves a second time: what is counted twice makes a segment look empty. */
enum err changes_drop_parts(struct changes *c, const struct log_record *m,
                            const struct upload_id *id, const struct manifest *kept,
                            struct errbuf *eb) MUST_CHECK;
void changes_end_upload(struct changes *c, const struct log_record *m);
/* The object takes the parts, if `entry` stands as it was put; else they are dead. */
enum err changes_adopt_parts(struct changes *c, const struct log_record *m,
                             const struct entry *entry, const struct manifest *parts,
                             struct errbuf *eb) MUST_CHECK;

/* change.c */
void changes_part_entry_died(struct changes *c, const struct entry *entry);
