/* hot: verified bytes that were read twice, kept in memory and sent with no second look (decision D5;
 * docs/decisions/0001-hot-set.md).
 *
 * One anonymous arena of a fixed size for the disk, touched only as it fills. Pieces are whole aligned ranges
 * of HOT_PIECE bytes of a body (the last may be shorter), keyed by content id and piece number. Readers of any
 * loop find and pin without a lock; whoever adds takes a lock by trying, and goes without when it is taken: it
 * is only a cache. The place of a pinned piece is not reused. CLOCK over a ring.
 *
 * A NULL hot set is fine everywhere: it holds nothing.
 */
#pragma once
#include "disk/disk_row.h"

#define HOT_PIECE (256u << 10)
/* Room in front of a piece of so many bytes, as long as it is none that is sent by reference: for the head of an answer, which then leaves with
 * the piece as one. Before smaller ones it would take too much memory. */
#define HOT_FRONT      448u
#define HOT_FRONT_FROM (8u << 10)

struct hot;
struct hot *hot_new(uint64_t bytes); /* NULL when 0 or too small for a piece */
void hot_free(struct hot **hp);      /* nothing is pinned */

struct hot_pin {
    const char *at; /* NULL: none */
    uint32_t len;
    uint32_t entry;
    uint32_t
        front; /* so many bytes before `at` are this pin's alone, to be written over */
};
/* True: the piece, pinned until hot_unpin(). May be held over switches, by anybody. Counts M_HOT. */
bool hot_get(struct hot *h, const struct content_id *id, uint64_t piece,
             struct hot_pin *out);
/* The same for a piece that was in `entry` a while ago: looks there only. Who is the first to pin it gets the room in front. */
bool hot_get_at(struct hot *h, uint32_t entry, const struct content_id *id,
                uint64_t piece, struct hot_pin *out);
/* Asks for the memory that this looks at, and for the room in front of a piece of `len` bytes that was at `at`. */
void hot_ahead(const struct hot *h, uint32_t entry, const char *at, uint32_t len);
/* Pieces that stand behind one that the caller has pinned, as many as there are in a row from `first` on: pinned until
 * hot_unpin_more(). All such pins together hold no more than a quarter of the memory, whoever reads slowly. Counts M_HOT. */
unsigned hot_get_more(struct hot *h, const struct content_id *id, uint64_t first,
                      struct hot_pin *out, unsigned max);
void hot_unpin_more(struct hot *h, struct hot_pin *pins, unsigned count);
/* Is it probably there? Counts nothing. NULL: no. */
bool hot_has(struct hot *h, const struct content_id *id, uint64_t piece);
void hot_unpin(
    struct hot *h,
    struct hot_pin *pin); /* any thread; twice is fine: at is NULL afterwards */

/* A read of this piece goes to the disk. True when it is not the first one of late: then read the whole piece,
 * verify it and give it to hot_add(). Once there is no free room "of late" is while a quarter of the pieces in it would be read. */
bool hot_wants(struct hot *h, const struct content_id *id, uint64_t piece);
/* Copies verified bytes in; drops them when there is no place now. `len` at most HOT_PIECE. */
void hot_add(struct hot *h, const struct content_id *id, uint64_t piece,
             const void *bytes, uint32_t len);
/* Takes out what is wanted least until about `bytes` have gone back to the system; less where it is pinned. Any thread;
 * takes its time: on a worker. */
void hot_shrink(struct hot *h, uint64_t bytes);
uint64_t hot_bytes(const struct hot *h); /* of pieces in it */
