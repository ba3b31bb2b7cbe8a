#include "disk/recent.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rt/bigmem.h"
#include "rt/loop.h"

#define COUNTERS 4096u
#define ROWS     4096u /* a loop: 0.9 MiB once they are all used */
#define KEY_MAX  96u   /* longer keys are looked up each time */

/* Of all loops together 8 MiB a disk, touched as they fill. */
#define SMALL_ALL   131072u
#define SMALL_LEAST 2048u /* a loop */
#define SMALL_WAYS  2u
#define SMALL_UNIT  512u /* members begin at multiples of it */

struct recent_row {
    uint64_t bucket;
    uint32_t hash, stamp;
    uint16_t key_len; /* 0: no row */
    char key[KEY_MAX];
    struct row row;
};
/* A cache line. */
struct recent_small {
    uint32_t hash, stamp;
    uint32_t segment; /* 0: nothing */
    uint32_t at;      /* in units */
    uint32_t size;
    uint32_t flags;
    int64_t mtime_ms;
    uint8_t md5[16];
    struct content_id content;
};
static_assert(sizeof(struct recent_small) == 64, "one line of memory");

/* A loop's own; made when it first keeps something. */
struct recent_loop {
    struct recent_row *rows;
    struct recent_small *small;
};
struct recent {
    _Atomic uint32_t changed[COUNTERS]; /* the home loop writes, any loop reads */
    unsigned loops;
    uint32_t small_sets; /* of each loop */
    struct recent_loop of[];
};

static size_t
small_bytes(const struct recent *r)
{
    return (size_t)r->small_sets * SMALL_WAYS * sizeof(struct recent_small);
}

struct recent *
recent_new(void)
{
    unsigned loops = rt_loop_count();
    struct recent *r = xcalloc(1, sizeof *r + loops * sizeof r->of[0]);

    r->loops = loops;
    r->small_sets = MAX(SMALL_ALL / loops, SMALL_LEAST) / SMALL_WAYS;
    return r;
}

void
recent_free(struct recent **rp)
{
    struct recent *r = *rp;

    *rp = NULL;
    if (r == NULL)
        return;
    for (unsigned i = 0; i < r->loops; i++) {
        free(r->of[i].rows);
        bigmem_free(r->of[i].small, small_bytes(r));
    }
    free(r);
}

/* One writer, so a load and a store will do. Keys that share a counter share one change of it. */
static void
set_parity(struct recent *r, const struct run *run, uint32_t parity)
{
    uint32_t hash;

    for (uint32_t i = 0; run_object_hash(run, &i, &hash); i++) {
        _Atomic uint32_t *counter = &r->changed[hash % COUNTERS];
        uint32_t now = atomic_load_explicit(counter, memory_order_relaxed);

        if (now % 2 != parity)
            atomic_store_explicit(counter, now + 1, memory_order_release);
    }
}

void
recent_change_begin(struct recent *r, const struct run *run)
{
    set_parity(r, run, 1);
}

void
recent_change_end(struct recent *r, const struct run *run)
{
    set_parity(r, run, 0);
}

static struct recent_row *
slot_of(struct recent *r, uint32_t hash, bool make)
{
    struct recent_loop *mine = &r->of[rt_loop_index()];

    if (mine->rows == NULL && make)
        mine->rows = xcalloc(ROWS, sizeof(struct recent_row));
    return mine->rows != NULL ? &mine->rows[hash % ROWS] : NULL;
}

/* What is asked for, and where its counter stands. */
static bool
look_at(const struct recent *r, uint64_t bucket, struct span key, size_t key_max,
        struct recent_look *look)
{
    *look = (struct recent_look){.usable = rt_on_loop() && key.len <= key_max};
    if (!look->usable)
        return false;
    look->hash = run_hash(TABLE_OBJECTS, bucket, key);
    look->stamp =
        atomic_load_explicit(&r->changed[look->hash % COUNTERS], memory_order_acquire);
    look->usable = look->stamp % 2 == 0;
    return look->usable;
}

bool
recent_find(struct recent *r, uint64_t bucket, struct span key, struct recent_look *look,
            struct row *out)
{
    const struct recent_row *slot;

    if (!look_at(r, bucket, key, KEY_MAX, look))
        return false;
    slot = slot_of(r, look->hash, false);
    if (slot == NULL || slot->hash != look->hash || slot->stamp != look->stamp ||
        slot->bucket != bucket || slot->key_len == 0 ||
        !span_eq((struct span){slot->key, slot->key_len}, key))
        return false;
    *out = slot->row;
    return true;
}

void
recent_keep(struct recent *r, uint64_t bucket, struct span key,
            const struct recent_look *look, const struct row *row)
{
    struct recent_row *slot;

    if (!look->usable || key.len > KEY_MAX)
        return;
    slot = slot_of(r, look->hash, true);
    *slot = (struct recent_row){.bucket = bucket,
                                .hash = look->hash,
                                .stamp = look->stamp,
                                .key_len = (uint16_t)key.len,
                                .row = *row};
    memcpy(slot->key, key.at, key.len);
}

/* ---- small objects ---- */

static struct recent_small *
set_of(struct recent *r, uint32_t hash, bool make)
{
    struct recent_loop *mine = &r->of[rt_loop_index()];

    if (mine->small == NULL && make)
        mine->small = bigmem_new(small_bytes(r));
    /* Not by the bits that choose the counter: those of one set would all end with one change. */
    return mine->small != NULL
               ? &mine->small[((uint64_t)hash * r->small_sets >> 32) * SMALL_WAYS]
               : NULL;
}

bool
recent_small_find(struct recent *r, uint64_t bucket, struct span key,
                  struct recent_look *look, struct row *out)
{
    const struct recent_small *set;

    if (!look_at(r, bucket, key, SIZE_MAX, look))
        return false;
    set = set_of(r, look->hash, false);
    for (unsigned i = 0; set != NULL && i < SMALL_WAYS; i++) {
        const struct recent_small *s = &set[i];

        if (s->hash != look->hash || s->stamp != look->stamp || s->segment == 0)
            continue;
        *out = (struct row){.flags = s->flags,
                            .content = s->content,
                            .size = s->size,
                            .mtime_ms = s->mtime_ms,
                            .segment = s->segment,
                            .offset = (uint64_t)s->at * SMALL_UNIT};
        memcpy(out->md5, s->md5, sizeof out->md5);
        return true;
    }
    return false;
}

static bool
may_be_small(const struct row *row)
{
    unsigned flags = ROW_PLAIN | ROW_INLINE;

    return (row->flags & ~(unsigned)ROW_CACHED) == flags && row->size <= UINT32_MAX &&
           row->parts == 0 && row->segment != 0 && row->offset % SMALL_UNIT == 0 &&
           row->offset / SMALL_UNIT <= UINT32_MAX;
}

bool
recent_small_keep(struct recent *r, const struct recent_look *look, const struct row *row)
{
    struct recent_small *set, *s;

    if (!look->usable || !may_be_small(row))
        return false;
    set = set_of(r, look->hash, true);
    s = &set[0];
    if (s->segment != 0 && s->hash != look->hash) /* the newest stands first */
        set[1] = *s;
    *s = (struct recent_small){.hash = look->hash,
                               .stamp = look->stamp,
                               .segment = row->segment,
                               .at = (uint32_t)(row->offset / SMALL_UNIT),
                               .size = (uint32_t)row->size,
                               .flags = row->flags,
                               .mtime_ms = row->mtime_ms,
                               .content = row->content};
    memcpy(s->md5, row->md5, sizeof s->md5);
    return true;
}

bool
recent_stand(struct recent *r, uint64_t bucket, struct span key, const struct row *row,
             uint32_t *hash, uint32_t *stamp)
{
    struct recent_look look;
    struct row kept;

    if (!recent_find(r, bucket, key, &look, &kept) ||
        kept.version.epoch != row->version.epoch ||
        kept.version.counter != row->version.counter ||
        memcmp(&kept.content, &row->content, sizeof kept.content) != 0)
        return false;
    *hash = look.hash;
    *stamp = look.stamp;
    return true;
}

void
recent_ahead(const struct recent *r, uint32_t hash)
{
    __builtin_prefetch(&r->changed[hash % COUNTERS]);
}

bool
recent_stands(const struct recent *r, uint32_t hash, uint32_t stamp)
{
    return atomic_load_explicit(&r->changed[hash % COUNTERS], memory_order_acquire) ==
           stamp;
}
