#include "store/index/lookup_cache.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rt/bigmem.h"
#include "rt/loop.h"
#include "store/index/run.h"
#include "store/record/keys.h"
#include "store/store_entry.h"

#define COUNTERS      4096u
#define CACHE_ENTRIES 4096u /* a loop: 0.9 MiB once they are all used */
#define KEY_MAX       96u   /* longer keys are looked up each time */

/* Of all loops together 8 MiB a disk, touched as they fill. */
#define SMALL_ALL   131072u
#define SMALL_LEAST 2048u /* a loop */
#define SMALL_WAYS  2u
#define SMALL_UNIT  512u /* records begin at multiples of it */

struct lookup_cache_entry {
    uint64_t bucket;
    uint32_t hash, stamp;
    uint16_t key_len; /* 0: no entry */
    char key[KEY_MAX];
    struct entry entry;
};
/* A cache line. */
struct lookup_cache_small {
    uint32_t hash, stamp;
    uint32_t segment; /* 0: nothing */
    uint32_t at;      /* in units */
    uint32_t size;
    uint32_t flags;
    int64_t mtime_ms;
    uint8_t md5[16];
    struct content_id content;
};
static_assert(sizeof(struct lookup_cache_small) == 64, "one line of memory");

/* A loop's own; made when it first keeps something. */
struct lookup_cache_loop {
    struct lookup_cache_entry *entries;
    struct lookup_cache_small *small;
};
struct lookup_cache {
    _Atomic uint32_t changed[COUNTERS]; /* the owner loop writes, any loop reads */
    unsigned loops;
    uint32_t small_sets; /* of each loop */
    struct lookup_cache_loop of[];
};

static size_t
small_table_bytes(const struct lookup_cache *r)
{
    return (size_t)r->small_sets * SMALL_WAYS * sizeof(struct lookup_cache_small);
}

struct lookup_cache *
lookup_cache_new(void)
{
    unsigned loops = rt_loop_count();
    struct lookup_cache *r = xcalloc(1, sizeof *r + loops * sizeof r->of[0]);

    r->loops = loops;
    r->small_sets = MAX(SMALL_ALL / loops, SMALL_LEAST) / SMALL_WAYS;
    assert(loops > 0);
    assert(r->small_sets > 0);
    return r;
}

void
lookup_cache_free(struct lookup_cache **rp)
{
    struct lookup_cache *r = *rp;

    *rp = NULL;
    if (r == NULL)
        return;
    for (unsigned i = 0; i < r->loops; i++) {
        free(r->of[i].entries);
        bigmem_free(r->of[i].small, small_table_bytes(r));
    }
    free(r);
}

/* One writer, so a load and a store will do. Keys that share a counter share one change of it. */
static void
set_parity(struct lookup_cache *r, const struct run *run, uint32_t parity)
{
    uint32_t hash;

    for (uint32_t i = 0; run_object_hash(run, &i, &hash); i++) {
        _Atomic uint32_t *counter = &r->changed[hash % COUNTERS];
        uint32_t now = atomic_load_explicit(counter, memory_order_relaxed);

        assert(parity <= 1);
        if (now % 2 != parity)
            atomic_store_explicit(counter, now + 1, memory_order_release);
    }
}

void
lookup_cache_change_begin(struct lookup_cache *r, const struct run *run)
{
    set_parity(r, run, 1);
}

void
lookup_cache_change_end(struct lookup_cache *r, const struct run *run)
{
    set_parity(r, run, 0);
}

static struct lookup_cache_entry *
entry_slot_of(struct lookup_cache *r, uint32_t hash, bool make)
{
    struct lookup_cache_loop *mine = &r->of[rt_loop_index()];

    assert(rt_loop_index() < r->loops);
    if (mine->entries == NULL && make)
        mine->entries = xcalloc(CACHE_ENTRIES, sizeof(struct lookup_cache_entry));
    return mine->entries != NULL ? &mine->entries[hash % CACHE_ENTRIES] : NULL;
}

/* What is asked for, and where its counter stands. */
static bool
ticket_begin(const struct lookup_cache *r, uint64_t bucket, struct span key,
             size_t key_max, struct lookup_cache_ticket *ticket)
{
    *ticket = (struct lookup_cache_ticket){.usable = rt_on_loop() && key.len <= key_max};
    if (!ticket->usable)
        return false;
    ticket->hash = run_hash(TABLE_OBJECTS, bucket, key);
    ticket->stamp =
        atomic_load_explicit(&r->changed[ticket->hash % COUNTERS], memory_order_acquire);
    ticket->usable = ticket->stamp % 2 == 0;
    return ticket->usable;
}

bool
lookup_cache_find(struct lookup_cache *r, uint64_t bucket, struct span key,
                  struct lookup_cache_ticket *ticket, struct entry *out)
{
    const struct lookup_cache_entry *slot;

    if (!ticket_begin(r, bucket, key, KEY_MAX, ticket))
        return false;
    slot = entry_slot_of(r, ticket->hash, false);
    if (slot == NULL || slot->hash != ticket->hash || slot->stamp != ticket->stamp ||
        slot->bucket != bucket || slot->key_len == 0 ||
        !span_eq((struct span){slot->key, slot->key_len}, key))
        return false;
    *out = slot->entry;
    return true;
}

void
lookup_cache_keep(struct lookup_cache *r, uint64_t bucket, struct span key,
                  const struct lookup_cache_ticket *ticket, const struct entry *entry)
{
    struct lookup_cache_entry *slot;

    if (!ticket->usable || key.len > KEY_MAX)
        return;
    assert(rt_on_loop());
    assert(ticket->stamp % 2 == 0);
    assert((entry->flags & ENTRY_TOMBSTONE) == 0);
    slot = entry_slot_of(r, ticket->hash, true);
    *slot = (struct lookup_cache_entry){.bucket = bucket,
                                        .hash = ticket->hash,
                                        .stamp = ticket->stamp,
                                        .key_len = (uint16_t)key.len,
                                        .entry = *entry};
    memcpy(slot->key, key.at, key.len);
}

/* ---- small objects ---- */

static struct lookup_cache_small *
small_set_of(struct lookup_cache *r, uint32_t hash, bool make)
{
    struct lookup_cache_loop *mine = &r->of[rt_loop_index()];

    if (mine->small == NULL && make)
        mine->small = bigmem_new(small_table_bytes(r));
    /* Not by the bits that choose the counter: those of one set would all end with one change. */
    return mine->small != NULL
               ? &mine->small[((uint64_t)hash * r->small_sets >> 32) * SMALL_WAYS]
               : NULL;
}

bool
lookup_cache_small_find(struct lookup_cache *r, uint64_t bucket, struct span key,
                        struct lookup_cache_ticket *ticket, struct entry *out)
{
    const struct lookup_cache_small *set;

    if (!ticket_begin(r, bucket, key, SIZE_MAX, ticket))
        return false;
    set = small_set_of(r, ticket->hash, false);
    for (unsigned i = 0; set != NULL && i < SMALL_WAYS; i++) {
        const struct lookup_cache_small *s = &set[i];

        if (s->hash != ticket->hash || s->stamp != ticket->stamp || s->segment == 0)
            continue;
        *out = (struct entry){.flags = s->flags,
                              .content = s->content,
                              .size = s->size,
                              .mtime_ms = s->mtime_ms,
                              .place.segment = s->segment,
                              .place.offset = (uint64_t)s->at * SMALL_UNIT};
        memcpy(out->md5, s->md5, sizeof out->md5);
        return true;
    }
    return false;
}

static bool
entry_is_small(const struct entry *entry)
{
    unsigned flags = ENTRY_PLAIN | ENTRY_INLINE;

    return (entry->flags & ~(unsigned)ENTRY_CACHED) == flags &&
           entry->size <= UINT32_MAX && entry->parts == 0 && entry->place.segment != 0 &&
           entry->place.offset % SMALL_UNIT == 0 &&
           entry->place.offset / SMALL_UNIT <= UINT32_MAX;
}

bool
lookup_cache_small_keep(struct lookup_cache *r, const struct lookup_cache_ticket *ticket,
                        const struct entry *entry)
{
    struct lookup_cache_small *set, *s;

    if (!ticket->usable || !entry_is_small(entry))
        return false;
    assert(rt_on_loop());
    assert(ticket->stamp % 2 == 0);
    set = small_set_of(r, ticket->hash, true);
    s = &set[0];
    if (s->segment != 0 && s->hash != ticket->hash) /* the newest stands first */
        set[1] = *s;
    *s = (struct lookup_cache_small){.hash = ticket->hash,
                                     .stamp = ticket->stamp,
                                     .segment = entry->place.segment,
                                     .at = (uint32_t)(entry->place.offset / SMALL_UNIT),
                                     .size = (uint32_t)entry->size,
                                     .flags = entry->flags,
                                     .mtime_ms = entry->mtime_ms,
                                     .content = entry->content};
    memcpy(s->md5, entry->md5, sizeof s->md5);
    return true;
}

bool
lookup_cache_stamp_of(struct lookup_cache *r, uint64_t bucket, struct span key,
                      const struct entry *entry, uint32_t *hash, uint32_t *stamp)
{
    struct lookup_cache_ticket ticket;
    struct entry kept;

    if (!lookup_cache_find(r, bucket, key, &ticket, &kept) ||
        kept.version.epoch != entry->version.epoch ||
        kept.version.counter != entry->version.counter ||
        memcmp(&kept.content, &entry->content, sizeof kept.content) != 0)
        return false;
    *hash = ticket.hash;
    *stamp = ticket.stamp;
    return true;
}

void
lookup_cache_prefetch(const struct lookup_cache *r, uint32_t hash)
{
    __builtin_prefetch(&r->changed[hash % COUNTERS]);
}

bool
lookup_cache_is_unchanged(const struct lookup_cache *r, uint32_t hash, uint32_t stamp)
{
    return atomic_load_explicit(&r->changed[hash % COUNTERS], memory_order_acquire) ==
           stamp;
}
