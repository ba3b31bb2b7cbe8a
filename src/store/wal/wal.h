/* wal: the write-ahead log of a class, a sequence of commit batches in files. docs/formats.md,
 * section 6.
 *
 * Owner loop; only the class's committer appends. A failed write or sync is final: the log
 * accepts nothing more until the disk is reopened. A failed native log fails the whole disk.
 */
#pragma once
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/wal/log_set.h"
#include "store/wal/sync_mode.h"
#include "store/wal/truncated.h"

/* One log. Owner loop. */
struct wal {
    struct segment *now; /* the segment being appended to; in disk->segments */
    uint64_t next_batch;
    struct wal_position end; /* end of the last batch */
    /* Checkpoint position: the index covers the log up to here. */
    struct wal_position checkpoint;
    uint64_t uncovered;         /* bytes of batches after the checkpoint position */
    uint64_t synced_batch;      /* this batch and all before it are durable */
    uint64_t durable_mark;      /* the last batch that was synced before a reply */
    bool failed;                /* a write or sync failed: accepts nothing more */
    struct sync_mode sync_mode; /* how synced batches are written */
    bool dirty;                 /* cached: written since the last sync */
    bool full; /* accepts no more batches: the next one starts a new segment */
};

/* A body that lost its entry. */
struct garbage {
    enum store_class class;
    uint32_t segment;
    uint64_t offset;
    struct content_id content;
};
#define IN_DOUBT_SLOTS 4096u
/* The logs of a store and their shared state. */
struct wals {
    _Atomic uint32_t in_doubt
        [IN_DOUBT_SLOTS]; /* any loop: in_doubt_of(); only the owner loop changes them */

    /* Owner loop. */
    struct wal of[STORE_CLASSES_];
    struct garbage *garbage; /* bodies that became garbage since the last flush; owned */
    uint32_t garbage_count, garbage_room;
    /* Called once the index records that these bodies are garbage, so their places can be
     * released. NULL: no call. */
    void (*on_garbage)(struct store *d, const struct garbage *garbage, uint32_t count);
    uint64_t deaths[STORE_CLASSES_]; /* bodies that became garbage, since the start */
    struct truncated truncated;
    struct log_set set;     /* which logs there must be */
    struct watermark *mark; /* owned; of the native log (watermark.h) */
    /* Changes (suspect_put()) of the native batch that is appended next, and of the one before. */
    struct buf digest, digest_before;
    struct rt_sem truncated_turn; /* serializes writes of the file (truncated.h) */
    uint64_t durable_mark_due_ns; /* earliest next write of the durable mark */
    uint32_t
        missing; /* native logs that must exist and do not: no writes, nothing is freed */
    bool damaged; /* changes of the native log are lost: keep bodies without a record */
};
struct wals *wals_new(void);
/* Asserts the invariants that hold between switches. */
void wals_check(const struct store *d);
void wals_free(struct wals **wp); /* NULL is fine */

/* Returns the counter of in-doubt writes for a key hash (run_key_hash()). Keys that collide
 * share a counter. */
static inline _Atomic uint32_t *
in_doubt_of(struct store *d, uint64_t key_hash)
{
    return &d->wals->in_doubt[key_hash % IN_DOUBT_SLOTS];
}

/* Makes room for a batch of `bytes` after the last one, in a new segment if it does not fit.
 * Afterwards log->now, its `used` and log->next_batch give the place of the batch. May switch. */
enum err wal_reserve(struct store *d, enum store_class class, uint64_t bytes,
                     struct errbuf *eb) MUST_CHECK;
/* Writes the batch in b->at[0, len) and the zero block after it (b has room for both). May
 * switch. */
enum err wal_append(struct store *d, enum store_class class, struct iobuf *b,
                    uint32_t len, bool sync, struct errbuf *eb) MUST_CHECK;
/* What the last native batch changed: the next one repeats it. */
void wal_set_digest_before(struct store *d, struct span keys);
/* Makes all batches appended so far durable. May switch. */
enum err wal_sync(struct store *d, enum store_class class, struct errbuf *eb) MUST_CHECK;
