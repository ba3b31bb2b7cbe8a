/* disk_read: an object's bytes, verified, for who has its row; again without looking for it; without a fiber. Part of
 * disk.h. */
#pragma once
#include "base/buf.h"
#include "disk/disk_row.h"
#include "rt/file.h"
#include "rt/time.h"

struct disk;
struct hot;

/* Metadata of a row, from the member's header, verified; not needed when ROW_PLAIN, but for the checksum. May switch. */
enum err disk_meta(struct disk *d, const struct disk_key *k, const struct row *row,
                   struct arena *a, struct object_meta *out,
                   struct errbuf *eb) MUST_CHECK;

/* The parts of an object that came in parts (ROW_PARTS), in its order. ERR_NOT_FOUND: the row is no longer current. May
 * switch. */
struct disk_object_part {
    uint32_t number;
    uint64_t offset, size;
    struct content_id content;
    uint8_t md5[16];
    uint8_t checksum_algorithm; /* 0: none is known */
    struct span checksum;       /* binary, in the arena */
};
enum err disk_object_parts(struct disk *d, const struct row *row, struct arena *a,
                           struct disk_object_part **out, uint32_t *count,
                           struct errbuf *eb) MUST_CHECK;

/* ---- reading ---- */
struct disk_reader;
/* Pins what the row names, so that it is not reused while read. One fiber begins, reads and ends: what follows is read
 * ahead by a child of it. ERR_NOT_FOUND: the row is no longer current, look up again. May switch. */
enum err disk_read_begin(struct disk *d, const struct disk_key *k, const struct row *row,
                         uint64_t offset, uint64_t len, struct disk_reader **out,
                         struct errbuf *eb) MUST_CHECK;
/* The next verified piece, at most 1 MiB (256 KiB typical), valid until the next call; len 0 at the end.
 * A block whose sum is wrong: ERR_CORRUPT, nothing of that piece is given. May switch unless hot. */
enum err disk_read_next(struct disk_reader *r, struct deadline by, struct span *piece,
                        struct errbuf *eb) MUST_CHECK;
/* What follows the piece that was given last and is in memory like it: up to `max` further pieces, valid as long. None where
 * any of that has to be read. Once after each disk_read_next(). Never switches. */
#define DISK_MORE 3u
unsigned disk_read_more(struct disk_reader *r, struct span *pieces, unsigned max);
/* Was the piece that was given last in memory? */
bool disk_read_was_hot(const struct disk_reader *r);
void disk_read_end(struct disk_reader **rp); /* NULL is fine */

/* ---- once more ----
 * An object of up to 1 MiB that was just served whole from the hot set can be served again without looking for it. What is
 * remembered is plain data, for the same loop and while the disk is open. Nothing switches. */
struct disk_again {
    struct content_id content;
    uint32_t hash, stamp; /* of the row */
    uint32_t entry, len;  /* of its first piece, in the hot set; of all of it */
    const char *at; /* where that was: only to be asked for, it may be another's now */
};
/* While the reader's first piece is at hand, of all of the object. False: it is not such an object. */
bool disk_again_keep(struct disk *d, const struct disk_key *k,
                     const struct disk_reader *r, struct disk_again *out);
/* Asks for the memory that disk_again_begin() looks at. */
void disk_again_ahead(struct disk *d, const struct disk_again *a);
/* False: the row has changed since, or the bytes are no longer in memory: look it up. True: the pieces stay until
 * disk_again_end(), over switches too. */
struct disk_held {
    struct span pieces[1 + DISK_MORE];
    uint32_t entries[1 + DISK_MORE];
    unsigned count;
    uint32_t front;  /* so many bytes before the first piece may be written over */
    struct hot *hot; /* which outlives the disk where it was lent to it */
};
bool disk_again_begin(struct disk *d, const struct disk_again *a, struct disk_held *out);
void disk_again_end(struct disk_held *held); /* twice is fine */

/* ---- without a fiber ----
 * A small object of a log, looked up and read while nobody waits. Nothing switches. */
struct disk_once {
    /* Given. Called once, outside any fiber. `good`: row and bytes are there, verified, until disk_once_end(). Otherwise
     * something was not as expected: only the long way tells what, and does what is to be done. */
    void (*on_done)(struct disk_once *o, bool good);
    uint16_t slot; /* what row.disk is to say */
    struct row row;
    struct span bytes;
    /* The disk's own. */
    struct disk *disk;
    struct segment *log;
    struct iobuf *buf;
    struct rt_reading reading;
    uint64_t bucket, from, len;
    struct span key;
    uint32_t looks; /* pages of the index that were waited for */
    uint64_t page;  /* the last one of them */
    bool hot;       /* this read makes it so */
};
/* True: begun. The struct and what `k` borrows stay until on_done and disk_once_end(). False: nothing has happened, and this
 * is for the long way: another kind of object, one that is in memory. */
bool disk_once_begin(struct disk *d, const struct disk_key *k, struct disk_once *o);
void disk_once_end(struct disk_once *o);
/* Instead of waiting for on_done any longer: nobody wants the answer. disk_once_end() follows. */
void disk_once_abandon(struct disk_once *o);
