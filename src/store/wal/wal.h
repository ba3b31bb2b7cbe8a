/* log: the file that a class's records go to, one batch after the other. docs/formats.md, section 6.
 *
 * Owner loop; only the class's committer appends. A write or a sync that failed is final: the log takes
 * nothing more until the disk is opened again, and the native one takes the disk with it.
 */
#pragma once
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/wal/sync_mode.h"
#include "store/wal/truncated.h"

/* One log: owner. */
struct wal {
    struct segment *now; /* the one appended to; in disk->segments */
    uint64_t next_batch;
    struct wal_position end;        /* behind the last batch */
    struct wal_position checkpoint; /* up to here the index has it, durably */
    uint64_t uncovered;             /* bytes of batches that the index does not cover */
    uint64_t synced_batch;          /* this one and all before it are durable */
    uint64_t durable_mark;          /* the last batch that was synced before a reply */
    bool failed;                    /* a write or sync failed: takes nothing more */
    struct sync_mode sync_mode;     /* how batches that are synced are written */
    bool dirty;                     /* cached: written since the last sync */
    bool
        full; /* takes no more batches, whatever room is left in it: the next begins another */
};

/* A body that lost its entry. */
struct garbage {
    enum store_class class;
    uint32_t segment;
    uint64_t offset;
    struct content_id content;
};
#define IN_DOUBT_SLOTS 4096u
/* The logs of a store and what hangs on them. */
struct wals {
    _Atomic uint32_t in_doubt
        [IN_DOUBT_SLOTS]; /* any loop: in_doubt_of(); only the owner loop changes them */

    /* Owner. */
    struct wal of[STORE_CLASSES_];
    struct garbage *garbage; /* bodies that died since the last flush; owned */
    uint32_t garbage_count, garbage_room;
    /* The index knows that these are dead: their places can be given back. NULL: nothing is. */
    void (*on_garbage)(struct store *d, const struct garbage *garbage, uint32_t count);
    uint64_t deaths[STORE_CLASSES_]; /* of bodies, since the start */
    struct truncated truncated;
    struct rt_sem truncated_turn; /* one write of it at a time (truncated.h) */
    uint64_t durable_mark_due_ns; /* not before */
    bool
        damaged; /* changes of the native log are lost: bodies without a record are kept */
};
struct wals *wals_new(void);
void wals_check(const struct store *d); /* asserts what holds between switches */
void wals_free(struct wals **wp);       /* NULL is fine */

/* How many writes in doubt have keys with this hash (run_key_hash()); other keys that fall there count too. */
static inline _Atomic uint32_t *
in_doubt_of(struct store *d, uint64_t key_hash)
{
    return &d->wals->in_doubt[key_hash % IN_DOUBT_SLOTS];
}

/* Makes sure that a batch of `bytes` fits behind the last one: in a new segment where it does not. Afterwards
 * log->now, its `used` and log->next_batch say where the batch will stand. May switch. */
enum err wal_reserve(struct store *d, enum store_class class, uint64_t bytes,
                     struct errbuf *eb) MUST_CHECK;
/* Writes the batch in b->at[0, len) and the zero block behind it (b has room for both). May switch. */
enum err wal_append(struct store *d, enum store_class class, struct iobuf *b,
                    uint32_t len, bool sync, struct errbuf *eb) MUST_CHECK;
/* Makes durable what was appended so far without a sync. May switch. */
enum err wal_sync(struct store *d, enum store_class class, struct errbuf *eb) MUST_CHECK;
