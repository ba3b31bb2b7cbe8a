/* batch: many objects, byte ranges and members of shards, in the order of a list.
 *
 *     batch_begin(list) -> batch_next() an item -> batch_read() its bytes -> batch_release() -> ... -> batch_end()
 *
 * Items ahead of the reader are opened by worker fibers, in parallel: cold objects join or start their fetch (single-flight), others
 * have their first piece read. At most BATCH_AHEAD_ITEMS items and about BATCH_AHEAD_BYTES of first pieces are held. The first item
 * is handed out as soon as it is there. batch_end() cancels what is in flight.
 *
 * A batch reads what this node can read. On several nodes a gateway splits the list by owner, holds one batch for each, and takes the
 * next item of the full list from the batch of its owner: each gives its own items in order, with their index in its list.
 *
 * Fibers: one reader, with its workers on the same loop. Everything may switch. The list is borrowed until batch_end().
 */
#pragma once
#include "shard/member.h"

#define BATCH_AHEAD_ITEMS 64u
#define BATCH_AHEAD_BYTES (8u << 20)
#define BATCH_WORKERS     16u
#define BATCH_PIECES_MAX  (1 + OBJECT_READ_MORE)
#define BATCH_RUNNING_MAX 256u       /* batches of this program at a time */
#define BATCH_TO_END      UINT64_MAX /* as length */

struct batch_item {
    const struct map_bucket *bucket; /* borrowed */
    struct span key;
    struct span member;       /* `at` NULL: the object itself */
    enum shard_format format; /* of the archive; SHARD_NONE: by extension */
    uint64_t first, len;      /* of object or member; 0 and BATCH_TO_END: all of it */
};

struct batch;
/* ERR_BUSY: too many batches are running. */
enum err batch_begin(struct object_service *objects, struct shard_service *shards,
                     const struct batch_item *items, uint32_t count, struct batch **out,
                     struct errbuf *eb) MUST_CHECK;

struct batch_got {
    uint32_t index; /* in the list */
    enum err
        status; /* ERR_OK, ERR_NOT_FOUND: object or member; ERR_RANGE; ERR_BAD_REQUEST: no archive, or a damaged one; ... */
    uint64_t size;  /* bytes that batch_read() gives */
    uint64_t whole; /* bytes of the object or member */
    int64_t mtime_ms;
    const char *why; /* the sentence of an error, until the next batch_next() */
};
/* The next item; *end: there was none left. Its predecessor need not have been read to its end. ERR_CANCELLED. */
enum err batch_next(struct batch *b, struct batch_got *got, bool *end,
                    struct errbuf *eb) MUST_CHECK;
/* Is the next item open, so that batch_next() neither waits nor needs what the reader still has? When not, send what was gathered
 * and call batch_release() before batch_next(). */
bool batch_is_ready(const struct batch *b);
/* The next pieces of the item, 0 at its end. They are valid until the next batch_read() of the same item, and after its end until
 * batch_release(): pieces of many small items can be sent together. */
enum err batch_read(struct batch *b, struct span pieces[BATCH_PIECES_MAX],
                    unsigned *count, struct errbuf *eb) MUST_CHECK;
/* Gives back what was read. */
void batch_release(struct batch *b);
void batch_end(struct batch **bp); /* NULL is fine */
