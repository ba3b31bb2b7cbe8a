/* punch: releases the space of garbage bodies. A segment of one body is unlinked. A place in a
 * shared segment gets a dead header, durably; then the rest of it is punched out of the file. A
 * shared segment without live bodies is unlinked.
 *
 * Bodies arrive here once the index has durably removed them (flush.c). A body with a reader is
 * retried a second later. Garbage left by a crash is found once after the start, by a walk over
 * each shared segment that holds more than its live bytes.
 *
 * Owner loop; calls may switch. Only the compactor's fiber punches; any fiber adds.
 */
#pragma once
#include "store/core/core.h"

struct garbage;
struct segment;

struct puncher;
/* Asserts the invariants that hold between switches. */
void puncher_check(const struct puncher *p);
struct puncher *puncher_new(struct store *d);
void puncher_free(struct puncher **pp); /* NULL is fine */

/* Queues bodies without an entry; copies the list. If the queue is full, the walk after the next
 * start finds them. */
/* wals.on_garbage of an open store. */
void puncher_on_garbage(struct store *d, const struct garbage *garbage, uint32_t count);
void puncher_add(struct puncher *p, const struct garbage *garbage, uint32_t count);
/* Places of a segment from `from` on are reused: drops queued garbage there. A returning copy
 * has the same content id as before, so the id would not distinguish the new body from the old
 * one. */
void puncher_given_out(struct puncher *p, uint32_t segment, uint64_t from);
/* Tries all queued garbage once, and walks one segment. *more: there may be another to walk. An
 * error is an error of the disk, and is logged. */
enum err puncher_round(struct puncher *p, bool *more, struct errbuf *eb) MUST_CHECK;
/* Unlinks a shared segment that accepts no more bodies, has no writer and no live body; not
 * while a reader has it. Waits for the index first. The compactor's fiber. */
enum err punch_if_empty(struct store *d, struct segment *s, bool *gone,
                        struct errbuf *eb) MUST_CHECK;
