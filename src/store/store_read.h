/* store_read: verified bytes of an object whose entry the caller has; revalidated reads; reads
 * without a fiber. Part of store.h. */
#pragma once
#include "base/buf.h"
#include "rt/file.h"
#include "rt/time.h"
#include "store/store_entry.h"

struct store;
struct block_cache;

/* Reads an entry's metadata from the record's header, verified. With ENTRY_PLAIN only the
 * checksum needs it. May switch. */
enum err store_meta(struct store *d, const struct store_key *k, const struct entry *entry,
                    struct arena *a, struct object_meta *out,
                    struct errbuf *eb) MUST_CHECK;

/* The parts of a multipart object (ENTRY_PARTS), in order. ERR_NOT_FOUND: the entry is no longer
 * current. May switch. */
struct store_object_part {
    uint32_t number;
    uint64_t offset, size;
    struct content_id content;
    uint8_t md5[16];
    uint8_t checksum_algorithm; /* 0: none known */
    struct span checksum;       /* binary, in the arena */
};
enum err store_object_parts(struct store *d, const struct entry *entry, struct arena *a,
                            struct store_object_part **out, uint32_t *count,
                            struct errbuf *eb) MUST_CHECK;

/* ---- reading ---- */
struct store_reader;
/* Begins a read and pins the body, so that its place is not reused meanwhile. The same fiber
 * begins, reads and ends; a child fiber reads ahead. ERR_NOT_FOUND: the entry is no longer
 * current, look up again. May switch. */
enum err store_read_begin(struct store *d, const struct store_key *k,
                          const struct entry *entry, uint64_t offset, uint64_t len,
                          struct store_reader **out, struct errbuf *eb) MUST_CHECK;
/* Returns the next verified piece, at most 1 MiB (256 KiB typical), valid until the next call;
 * len 0 at the end. ERR_CORRUPT: the sum of a block is wrong; nothing of that piece is returned.
 * May switch unless the bytes are in memory. */
enum err store_read_next(struct store_reader *r, struct deadline by, struct span *piece,
                         struct errbuf *eb) MUST_CHECK;
/* Returns up to `max` pieces that follow the last one and are in memory too, valid as long as
 * it. None if one would have to be read. Once after each store_read_next(). Never switches. */
#define STORE_READ_MORE 3u
unsigned store_read_more(struct store_reader *r, struct span *pieces, unsigned max);
/* True if the last piece came from memory. */
bool store_read_from_memory(const struct store_reader *r);
void store_read_end(struct store_reader **rp); /* NULL is fine */

/* ---- revalidated reads ---- A cached object of up to 1 MiB that was just served whole can be
 * served again without a look-up. The remembered state is plain data, valid on the same loop
 * while the disk is open. Nothing switches. */
struct store_revalidated {
    struct content_id content;
    uint32_t hash, stamp; /* of the entry */
    /* Of its first piece, in the block cache; of the whole object. */
    uint32_t entry, len;
    const char *at; /* where that was; only for prefetching, the memory may be reused */
};
/* Call while the reader holds the first piece of the whole object. False: such an object cannot
 * be kept. */
bool store_revalidated_keep(struct store *d, const struct store_key *k,
                            const struct store_reader *r, struct store_revalidated *out);
/* Prefetches the memory that store_revalidated_begin() reads. */
void store_revalidated_prefetch(struct store *d, const struct store_revalidated *a);
/* False: the entry has changed, or the bytes are no longer in memory: look it up. True: the
 * pieces stay valid until store_revalidated_end(), also across switches. */
struct store_pinned {
    struct span pieces[1 + STORE_READ_MORE];
    uint32_t entries[1 + STORE_READ_MORE];
    unsigned count;
    uint32_t front; /* this many bytes before the first piece may be overwritten */
    struct block_cache *block_cache; /* a shared one may outlive the disk */
};
bool store_revalidated_begin(struct store *d, const struct store_revalidated *a,
                             struct store_pinned *out);
void store_revalidated_end(struct store_pinned *held); /* idempotent */

/* ---- without a fiber ---- Looks up and reads a small object of a log without a waiting fiber.
 * Nothing switches. */
struct store_async_read {
    /* Set by the caller. Called once, outside any fiber. `good`: entry and bytes are verified,
     * and valid until store_async_read_end(). Otherwise use the ordinary path, which finds and
     * handles the reason. */
    void (*on_done)(struct store_async_read *o, bool good);
    uint16_t slot; /* value for entry.disk */
    struct entry entry;
    struct span bytes;
    /* Internal to the store. */
    struct store *disk;
    struct segment *log;
    struct iobuf *buf;
    struct rt_async_read reading;
    uint64_t bucket, from, len;
    struct span key;
    uint32_t looks;   /* index pages waited for */
    uint64_t page;    /* the last of them */
    bool block_cache; /* this read adds it to the block cache */
};
/* True: begun. The struct and what `k` borrows must stay valid until on_done and
 * store_async_read_end(). False: nothing has happened; use the ordinary path (another kind of
 * object, or one in memory). */
bool store_async_read_begin(struct store *d, const struct store_key *k,
                            struct store_async_read *o);
void store_async_read_end(struct store_async_read *o);
/* Abandons a read before on_done. store_async_read_end() must follow. */
void store_async_read_abandon(struct store_async_read *o);
