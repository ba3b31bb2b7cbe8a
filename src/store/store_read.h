/* store_read: an object's verified bytes, for a caller that has its entry; revalidated reads; reads without a fiber. Part of
 * disk.h. */
#pragma once
#include "base/buf.h"
#include "rt/file.h"
#include "rt/time.h"
#include "store/store_entry.h"

struct store;
struct block_cache;

/* Metadata of an entry, from the record's header, verified; not needed when ENTRY_PLAIN, but for the checksum. May switch. */
enum err store_meta(struct store *d, const struct store_key *k, const struct entry *entry,
                    struct arena *a, struct object_meta *out,
                    struct errbuf *eb) MUST_CHECK;

/* The parts of an object that came in parts (ENTRY_PARTS), in its order. ERR_NOT_FOUND: the entry is no longer current. May
 * switch. */
struct store_object_part {
    uint32_t number;
    uint64_t offset, size;
    struct content_id content;
    uint8_t md5[16];
    uint8_t checksum_algorithm; /* 0: none is known */
    struct span checksum;       /* binary, in the arena */
};
enum err store_object_parts(struct store *d, const struct entry *entry, struct arena *a,
                            struct store_object_part **out, uint32_t *count,
                            struct errbuf *eb) MUST_CHECK;

/* ---- reading ---- */
struct store_reader;
/* Pins what the entry names, so that it is not reused while read. One fiber begins, reads and ends: what follows is read
 * ahead by a child of it. ERR_NOT_FOUND: the entry is no longer current, look up again. May switch. */
enum err store_read_begin(struct store *d, const struct store_key *k,
                          const struct entry *entry, uint64_t offset, uint64_t len,
                          struct store_reader **out, struct errbuf *eb) MUST_CHECK;
/* The next verified piece, at most 1 MiB (256 KiB typical), valid until the next call; len 0 at the end.
 * A block whose sum is wrong: ERR_CORRUPT, nothing of that piece is given. May switch unless the bytes are in memory. */
enum err store_read_next(struct store_reader *r, struct deadline by, struct span *piece,
                         struct errbuf *eb) MUST_CHECK;
/* What follows the piece that was given last and is in memory like it: up to `max` further pieces, valid as long. None where
 * any of that has to be read. Once after each store_read_next(). Never switches. */
#define STORE_READ_MORE 3u
unsigned store_read_more(struct store_reader *r, struct span *pieces, unsigned max);
/* Was the piece that was given last in memory? */
bool store_read_from_memory(const struct store_reader *r);
void store_read_end(struct store_reader **rp); /* NULL is fine */

/* ---- once more ----
 * An object of up to 1 MiB that was just served whole from the block cache can be served again without looking for it. What is
 * remembered is plain data, for the same loop and while the disk is open. Nothing switches. */
struct store_revalidated {
    struct content_id content;
    uint32_t hash, stamp; /* of the entry */
    uint32_t entry, len;  /* of its first piece, in the block cache; of all of it */
    const char *at; /* where that was: only to be asked for, it may be another's now */
};
/* While the reader's first piece is at hand, of all of the object. False: it is not such an object. */
bool store_revalidated_keep(struct store *d, const struct store_key *k,
                            const struct store_reader *r, struct store_revalidated *out);
/* Asks for the memory that store_revalidated_begin() looks at. */
void store_revalidated_prefetch(struct store *d, const struct store_revalidated *a);
/* False: the entry has changed since, or the bytes are no longer in memory: look it up. True: the pieces stay until
 * store_revalidated_end(), over switches too. */
struct store_pinned {
    struct span pieces[1 + STORE_READ_MORE];
    uint32_t entries[1 + STORE_READ_MORE];
    unsigned count;
    uint32_t front; /* so many bytes before the first piece may be written over */
    struct block_cache *block_cache; /* which outlives the disk where it was lent to it */
};
bool store_revalidated_begin(struct store *d, const struct store_revalidated *a,
                             struct store_pinned *out);
void store_revalidated_end(struct store_pinned *held); /* twice is fine */

/* ---- without a fiber ----
 * A small object of a log, looked up and read without a fiber that waits. Nothing switches. */
struct store_async_read {
    /* Given. Called once, outside any fiber. `good`: entry and bytes are there, verified, until store_async_read_end(). Otherwise
     * something was not as expected: only the ordinary path says what, and handles it. */
    void (*on_done)(struct store_async_read *o, bool good);
    uint16_t slot; /* what entry.disk is to say */
    struct entry entry;
    struct span bytes;
    /* The disk's own. */
    struct store *disk;
    struct segment *log;
    struct iobuf *buf;
    struct rt_async_read reading;
    uint64_t bucket, from, len;
    struct span key;
    uint32_t looks;   /* pages of the index that were waited for */
    uint64_t page;    /* the last one of them */
    bool block_cache; /* this read makes it so */
};
/* True: begun. The struct and what `k` borrows stay until on_done and store_async_read_end(). False: nothing has happened, and this
 * is for the long way: another kind of object, one that is in memory. */
bool store_async_read_begin(struct store *d, const struct store_key *k,
                            struct store_async_read *o);
void store_async_read_end(struct store_async_read *o);
/* Instead of waiting for on_done any longer: the answer is not wanted. store_async_read_end() follows. */
void store_async_read_abandon(struct store_async_read *o);
