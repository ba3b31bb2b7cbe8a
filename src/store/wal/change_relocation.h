/* change_moved: applies a `moved` record. Compaction wrote a body or a log record again: the
 * same version at another place. Part of change.c.
 *
 * If an entry has this content, it gets the new place and keeps its other fields. Otherwise (a
 * rebuilt index, an old log that was removed) the record creates the entry, as the first record
 * did. With UPLOAD the record is the manifest of a multipart object. With UPLOAD and PART it is
 * a part that lies in a log: that changes no entry, and the manifest follows.
 *
 * Owner loop. Calls may switch.
 */
#pragma once
#include "store/record/manifest.h"
#include "store/wal/change.h"

struct entry;
struct log_record;

enum err changes_relocation(struct changes *c, const struct log_record *m,
                            struct entry *entry, struct errbuf *eb) MUST_CHECK;

/* change.c */
/* Sets the entry of the key, unless the present one is newer. */
enum err changes_put(struct changes *c, const struct log_record *m, struct entry *entry,
                     struct errbuf *eb) MUST_CHECK;
void changes_count_part(struct changes *c, uint32_t segment, bool in_log, uint64_t size,
                        int sign);
void changes_manifest_died(struct changes *c, const struct manifest *m);
/* Counts the former place of a part as garbage; the part's body lives on elsewhere. */
void changes_place_died(struct changes *c, const struct manifest_entry *e);
void changes_manifest_lives(struct changes *c, const struct manifest *m);
