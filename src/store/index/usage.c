#include "store/index/usage.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/numbered.h"
#include "store/core/core.h"
#include "store/index/entry.h"
#include "store/index/index.h"
#include "store/index/list.h"
#include "store/store_entry.h"
#include "store/store_space.h"

#define PARTS_A_TIME   1000u
#define UPLOADS_A_TIME 100u

struct usage_of_bucket {
    struct numbered_entry head;
    _Atomic int64_t objects, bytes;
};

struct usage {
    struct numbered *buckets;
    _Atomic int64_t total, older, parts, part_bytes; /* of all buckets */
};

struct usage *
usage_new(void)
{
    struct usage *u = xcalloc(1, sizeof *u);

    u->buckets = numbered_new(4096, sizeof(struct usage_of_bucket));
    return u;
}

void
usage_free(struct usage **up)
{
    struct usage *u = *up;

    *up = NULL;
    if (u != NULL)
        numbered_free(&u->buckets);
    free(u);
}

void
usage_add(struct usage *u, uint64_t bucket, int64_t objects, int64_t bytes)
{
    struct usage_of_bucket *e = numbered_make(u->buckets, bucket);

    atomic_fetch_add_explicit(&e->objects, objects, memory_order_release);
    atomic_fetch_add_explicit(&e->bytes, bytes, memory_order_release);
    if (usage_is_of_open(bucket)) {
        atomic_fetch_add_explicit(&u->parts, objects, memory_order_relaxed);
        atomic_fetch_add_explicit(&u->part_bytes, bytes, memory_order_relaxed);
        return;
    }
    atomic_fetch_add_explicit(usage_is_of_older(bucket) ? &u->older : &u->total, objects,
                              memory_order_relaxed);
}

static uint64_t
usage_counter_of(const _Atomic int64_t *at)
{
    return (uint64_t)MAX(atomic_load_explicit(at, memory_order_relaxed), 0);
}

void
usage_total(const struct usage *u, struct usage_totals *out)
{
    *out = (struct usage_totals){.objects = usage_counter_of(&u->total),
                                 .older = usage_counter_of(&u->older),
                                 .parts = usage_counter_of(&u->parts),
                                 .part_bytes = usage_counter_of(&u->part_bytes)};
}

void
usage_get(const struct usage *u, uint64_t bucket, uint64_t *objects, uint64_t *bytes)
{
    const struct usage_of_bucket *e = numbered_find(u->buckets, bucket);
    int64_t n = 0, b = 0;

    if (e != NULL) {
        n = atomic_load_explicit(&e->objects, memory_order_acquire);
        b = atomic_load_explicit(&e->bytes, memory_order_acquire);
    }
    *objects = (uint64_t)MAX(n, 0);
    *bytes = (uint64_t)MAX(b, 0);
}

static void
load_on_usage(void *arg, const struct index_usage *seen)
{
    usage_add(arg, seen->bucket, seen->objects, seen->bytes);
}

/* ---- parts of uploads in progress, by their entries ---- */

struct loading {
    struct usage *usage;
    struct memtable *memtable;
    struct index *index;
    uint64_t bucket;
};

static enum err
load_on_part(void *arg, const struct list_part *p, struct errbuf *eb)
{
    const struct loading *l = arg;

    (void)eb;
    usage_add(l->usage, usage_of_open(l->bucket), 1, (int64_t)p->part.entry.size);
    return ERR_OK;
}

static enum err
load_on_upload(void *arg, const struct store_upload *u, struct errbuf *eb)
{
    const struct loading *l = arg;

    return list_each_part(l->memtable, l->index, &u->id, PARTS_A_TIME, load_on_part, arg,
                          eb);
}

enum err
usage_load(struct usage *u, struct memtable *t, struct index *x, struct errbuf *eb)
{
    struct loading l = {.usage = u, .memtable = t, .index = x};
    enum err rc = index_usage(x, load_on_usage, u, eb);

    while (rc == ERR_OK && (rc = index_bucket(x, l.bucket, &l.bucket, eb)) == ERR_OK) {
        rc = list_each_upload(t, x, l.bucket, LIST_UPLOADS, UPLOADS_A_TIME,
                              load_on_upload, &l, eb);
        if (l.bucket == UINT64_MAX)
            break;
        l.bucket++;
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* ---- the changes of a batch ---- */

void
usage_note_bytes(struct usage_changes *c, uint64_t bucket, int64_t objects, int64_t bytes)
{
    struct usage_change *u = NULL;

    if (objects == 0 && bytes == 0)
        return;
    for (uint32_t i = 0; u == NULL && i < c->count; i++) {
        if (c->at[i].bucket == bucket)
            u = &c->at[i];
    }
    if (u == NULL) {
        if (c->count == c->room) {
            c->room = MAX(8u, 2 * c->room);
            c->at = xrealloc(c->at, c->room * sizeof *c->at);
        }
        u = &c->at[c->count++];
        *u = (struct usage_change){.bucket = bucket};
    }
    assert(c->count <= c->room);
    assert(u->bucket == bucket);
    u->objects += objects;
    u->bytes += bytes;
}

void
usage_note(struct usage_changes *c, uint64_t bucket, const struct entry *before,
           const struct entry *after)
{
    int64_t objects = 0, bytes = 0;

    if (before != NULL && entry_has_object(before)) {
        objects--;
        bytes -= (int64_t)before->size;
    }
    if (after != NULL && entry_has_object(after)) {
        objects++;
        bytes += (int64_t)after->size;
    }
    usage_note_bytes(c, bucket, objects, bytes);
}

void
usage_apply(struct usage *u, struct usage_changes *c)
{
    /* What comes before what goes: who reads meanwhile the kind that something leaves, and then the one that it comes to, has
     * it at least once. */
    for (uint32_t i = 0; i < c->count; i++) {
        const struct usage_change *a = &c->at[i];

        if (a->objects > 0 || a->bytes > 0)
            usage_add(u, a->bucket, MAX(a->objects, 0), MAX(a->bytes, 0));
    }
    for (uint32_t i = 0; i < c->count; i++) {
        const struct usage_change *a = &c->at[i];

        if (a->objects < 0 || a->bytes < 0)
            usage_add(u, a->bucket, MIN(a->objects, 0), MIN(a->bytes, 0));
    }
    assert(c->count <= c->room);
    c->count = 0;
}

void
store_bucket_usage(const struct store *d, uint64_t bucket, enum usage_kind which,
                   uint64_t *objects, uint64_t *bytes)
{
    usage_get(d->usage,
              which == USAGE_OLDER  ? usage_of_older(bucket)
              : which == USAGE_OPEN ? usage_of_open(bucket)
                                    : bucket,
              objects, bytes);
}
