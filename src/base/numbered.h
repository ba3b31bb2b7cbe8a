/* numbered: finds an entry by its number, without a lock; what is in stays in.
 *
 * For what there is little of and what never goes, as a bucket's number is never used again. Hash chains: an entry is
 * published once, in front, and never moves. So what was found may be kept as long as the table is.
 *
 * Threads: any, all at once; when two make the same entry, one wins and both get it. What else an entry holds is its
 * owner's affair: atomics, mostly. Memory: the table owns its entries.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* The first field of each entry. */
struct numbered_entry {
    uint64_t number;
    struct numbered_entry *next; /* the table's own; set before it is published */
};

struct numbered;
/* About as many slots as entries will be, a power of two. An entry has so many bytes, this head with them. */
struct numbered *numbered_new(size_t slots, size_t entry_bytes);
void numbered_free(struct numbered **np); /* no call may be in progress; NULL is fine */

void *numbered_find(const struct numbered *n, uint64_t number); /* NULL: not there */
/* The same, but made where it is not there: zeros behind its number. */
void *numbered_make(struct numbered *n, uint64_t number);
/* Each entry in turn, in no order: the one behind `entry`, the first behind NULL; NULL at the end. What is made meanwhile may
 * be passed over. */
void *numbered_next(const struct numbered *n, const void *entry);
