/* stencil: the headers of puts that are like one another, written by filling in what differs.
 *
 * A header is encoded, and read back, field by field. That of the next put in the same bucket with a key as long, a body as
 * large and the same metadata has the same fields at the same places: only where it stands, what it is called, its version
 * and its sums are others. So the bytes of one that was read back are kept, and filled in anew: an eighth of the work. What
 * is not alike in every other way, or has a number that takes another count of bytes, is refused: it is encoded.
 *
 * Test builds encode and parse each one beside it, and stop where a byte or the row differs.
 *
 * One fiber at a time. On disk: docs/formats.md, sections 3 and 4; nothing of it tells how it was written.
 */
#pragma once
#include "disk/member.h"

struct stencils;

struct stencils *stencils_new(void);
void stencils_free(struct stencils **sp); /* NULL is fine */

/* Writes the header of *m to `out`, which has room for HEAD_MAX bytes, sets m->head_len, and gives the row that the member
 * makes. False: there is none like it; nothing was done. */
bool stencils_fill(struct stencils *s, enum disk_class class, struct member *m, char *out,
                   struct row *row);
/* Offers the header of *m, which was encoded and read back as `row`. Most are not taken. */
void stencils_keep(struct stencils *s, const struct member *m, struct span head,
                   const struct row *row);
