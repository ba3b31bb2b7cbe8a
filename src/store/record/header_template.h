/* header_template: the headers of puts that are like one another, written by filling in what differs.
 *
 * A header is encoded, and read back, field by field. That of the next put in the same bucket with a key as long, a body as
 * large and the same metadata has the same fields at the same places: only where it stands, what it is called, its version
 * and its sums are others. So the bytes of one that was read back are kept and filled in again: an eighth of the work. What
 * is not alike in every other way, or has a number that takes another count of bytes, is refused: it is encoded.
 *
 * Test builds encode and parse each one beside it, and stop where a byte or the entry differs.
 *
 * One fiber at a time. On disk: docs/formats.md, sections 3 and 4; nothing of it says how it was written.
 */
#pragma once
#include "store/record/log_record.h"
#include "store/store_entry.h"

struct header_templates;

struct header_templates *header_templates_new(void);
void header_templates_free(struct header_templates **sp); /* NULL is fine */

/* Writes the header of *m to `out`, which has room for HEAD_MAX bytes, sets m->head_len, and gives the entry that the record
 * makes. False: there is none like it; nothing was done. */
bool header_templates_fill(struct header_templates *s, enum store_class class,
                           struct log_record *m, char *out, struct entry *entry);
/* Offers the header of *m, which was encoded and read back as `entry`. Most are not taken. */
void header_templates_keep(struct header_templates *s, const struct log_record *m,
                           struct span head, const struct entry *entry);
