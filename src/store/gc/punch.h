/* punch: gives back what bodies that died took. A segment of one body is unlinked; a place in a shared segment gets the
 * header of the dead, durable, then the rest of it is punched out of the file; a shared segment in which nothing lives is
 * unlinked.
 *
 * Bodies come here when the index has durably forgotten them (flush.c). None is touched while a reader has it: it is
 * tried again a second later. What a crash forgot is found by a walk over each shared segment that holds more than
 * lives in it, once after the start.
 *
 * Owner loop; calls may switch. Only the compactor's fiber works; anybody adds.
 */
#pragma once
#include "store/core/core.h"

struct garbage;
struct segment;

struct puncher;
void puncher_check(const struct puncher *p); /* asserts what holds between switches */
struct puncher *puncher_new(struct store *d);
void puncher_free(struct puncher **pp); /* NULL is fine */

/* Bodies without an entry, copied. What does not fit is found after the next start. */
/* wals.on_garbage of an open store. */
void puncher_on_garbage(struct store *d, const struct garbage *garbage, uint32_t count);
void puncher_add(struct puncher *p, const struct garbage *garbage, uint32_t count);
/* Places of a segment from `from` on are given out again: garbage that stood there is forgotten. A copy that comes back has
 * the content id it had, so that would not tell the new body from the old one. */
void puncher_given_out(struct puncher *p, uint32_t segment, uint64_t from);
/* Tries all that wait, once, and walks one segment. *more: there may be another to walk. An error is one of the disk,
 * and said. */
enum err puncher_round(struct puncher *p, bool *more, struct errbuf *eb) MUST_CHECK;
/* Unlinks a shared segment that takes no more bodies, in which none is on its way, and nothing lives: not under a reader.
 * Waits for the index first. The compactor's fiber. */
enum err punch_if_empty(struct store *d, struct segment *s, bool *gone,
                        struct errbuf *eb) MUST_CHECK;
