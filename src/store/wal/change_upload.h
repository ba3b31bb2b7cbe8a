/* change_upload: applies the records of multipart uploads: upload-begin, part, upload-complete,
 * upload-abort. Part of change.c.
 *
 * Owner loop. Calls may switch.
 */
#pragma once
#include "store/record/manifest.h"
#include "store/wal/change.h"

struct entry;
struct log_record;
struct upload_id;

/* Applies one of these records. */
enum err changes_upload(struct changes *c, const struct log_record *m,
                        struct entry *entry, struct errbuf *eb) MUST_CHECK;

/* Removes the parts of an upload that ends. They become garbage, except those in `kept`
 * (ascending; may be NULL), which the object takes. A repeated call for an upload that has ended
 * counts nothing: counting garbage twice would make a segment look empty. */
enum err changes_drop_parts(struct changes *c, const struct log_record *m,
                            const struct upload_id *id, const struct manifest *kept,
                            struct errbuf *eb) MUST_CHECK;
void changes_end_upload(struct changes *c, const struct log_record *m);
/* Moves the parts to the object if `entry` is still current as it was put; otherwise the parts
 * become garbage. */
enum err changes_adopt_parts(struct changes *c, const struct log_record *m,
                             const struct entry *entry, const struct manifest *parts,
                             struct errbuf *eb) MUST_CHECK;

/* change.c */
void changes_part_entry_died(struct changes *c, const struct entry *entry);
