#include "disk/recent.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rt/loop.h"

#define COUNTERS 4096u
#define ROWS     4096u /* a loop: 0.9 MiB once they are all used */
#define KEY_MAX  96u   /* longer keys are looked up each time */

struct recent_row {
    uint64_t bucket;
    uint32_t hash, stamp;
    uint16_t key_len; /* 0: no row */
    char key[KEY_MAX];
    struct row row;
};
struct recent {
    _Atomic uint32_t changed[COUNTERS]; /* the home loop writes, any loop reads */
    unsigned loops;
    struct recent_row *rows[]; /* each owned by its loop; made when it first keeps one */
};

struct recent *
recent_new(void)
{
    unsigned loops = rt_loop_count();
    struct recent *r = xcalloc(1, sizeof *r + loops * sizeof r->rows[0]);

    r->loops = loops;
    return r;
}

void
recent_free(struct recent **rp)
{
    struct recent *r = *rp;

    *rp = NULL;
    if (r == NULL)
        return;
    for (unsigned i = 0; i < r->loops; i++)
        free(r->rows[i]);
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
    unsigned loop = rt_loop_index();

    if (r->rows[loop] == NULL && make)
        r->rows[loop] = xcalloc(ROWS, sizeof(struct recent_row));
    return r->rows[loop] != NULL ? &r->rows[loop][hash % ROWS] : NULL;
}

bool
recent_find(struct recent *r, uint64_t bucket, struct span key, struct recent_look *look,
            struct row *out)
{
    const struct recent_row *slot;

    *look = (struct recent_look){.usable = rt_on_loop() && key.len <= KEY_MAX};
    if (!look->usable)
        return false;
    look->hash = run_hash(TABLE_OBJECTS, bucket, key);
    look->stamp =
        atomic_load_explicit(&r->changed[look->hash % COUNTERS], memory_order_acquire);
    look->usable = look->stamp % 2 == 0;
    slot = slot_of(r, look->hash, false);
    if (!look->usable || slot == NULL || slot->hash != look->hash ||
        slot->stamp != look->stamp || slot->bucket != bucket || slot->key_len == 0 ||
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

    if (!look->usable)
        return;
    slot = slot_of(r, look->hash, true);
    *slot = (struct recent_row){.bucket = bucket,
                                .hash = look->hash,
                                .stamp = look->stamp,
                                .key_len = (uint16_t)key.len,
                                .row = *row};
    memcpy(slot->key, key.at, key.len);
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

bool
recent_stands(const struct recent *r, uint32_t hash, uint32_t stamp)
{
    return atomic_load_explicit(&r->changed[hash % COUNTERS], memory_order_acquire) ==
           stamp;
}
