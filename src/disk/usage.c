#include "disk/usage.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "disk/internal.h"

#define SLOTS 4096u

/* Entries are never taken out: a bucket's number is never used again, and there are few. */
struct entry_of_bucket {
    uint64_t bucket;
    _Atomic int64_t objects, bytes;
    struct entry_of_bucket *next; /* set before it is published */
};

struct usage {
    _Atomic(struct entry_of_bucket *) slots[SLOTS];
    _Atomic int64_t total, older; /* objects of all */
};

struct usage *
usage_new(void)
{
    return xcalloc(1, sizeof(struct usage));
}

void
usage_free(struct usage **up)
{
    struct usage *u = *up;

    *up = NULL;
    if (u == NULL)
        return;
    for (unsigned i = 0; i < SLOTS; i++) {
        struct entry_of_bucket *e = atomic_load(&u->slots[i]);

        while (e != NULL) {
            struct entry_of_bucket *next = e->next;

            free(e);
            e = next;
        }
    }
    free(u);
}

static struct entry_of_bucket *
find(const struct usage *u, uint64_t bucket)
{
    struct entry_of_bucket *e =
        atomic_load_explicit(&u->slots[bucket % SLOTS], memory_order_acquire);

    while (e != NULL && e->bucket != bucket)
        e = e->next;
    return e;
}

void
usage_add(struct usage *u, uint64_t bucket, int64_t objects, int64_t bytes)
{
    struct entry_of_bucket *e = find(u, bucket);

    if (e == NULL) {
        e = xcalloc(1, sizeof *e);
        e->bucket = bucket;
        e->next = atomic_load(&u->slots[bucket % SLOTS]);
        atomic_store_explicit(&u->slots[bucket % SLOTS], e, memory_order_release);
    }
    atomic_fetch_add_explicit(&e->objects, objects, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(usage_is_of_older(bucket) ? &u->older : &u->total, objects,
                              memory_order_relaxed);
}

void
usage_total(const struct usage *u, uint64_t *objects, uint64_t *older)
{
    *objects = (uint64_t)MAX(atomic_load_explicit(&u->total, memory_order_relaxed), 0);
    *older = (uint64_t)MAX(atomic_load_explicit(&u->older, memory_order_relaxed), 0);
}

void
usage_get(const struct usage *u, uint64_t bucket, uint64_t *objects, uint64_t *bytes)
{
    struct entry_of_bucket *e = find(u, bucket);
    int64_t n = 0, b = 0;

    if (e != NULL) {
        n = atomic_load_explicit(&e->objects, memory_order_relaxed);
        b = atomic_load_explicit(&e->bytes, memory_order_relaxed);
    }
    *objects = (uint64_t)MAX(n, 0);
    *bytes = (uint64_t)MAX(b, 0);
}

static void
on_usage(void *arg, const struct index_usage *seen)
{
    usage_add(arg, seen->bucket, seen->objects, seen->bytes);
}

enum err
usage_load(struct usage *u, struct index *x, struct errbuf *eb)
{
    return index_usage(x, on_usage, u, eb);
}

/* ---- the changes of a group ---- */

void
usage_note(struct usage_changes *c, uint64_t bucket, const struct row *before,
           const struct row *after)
{
    struct usage_change *u = NULL;
    int64_t objects = 0, bytes = 0;

    if (before != NULL && row_has_object(before)) {
        objects--;
        bytes -= (int64_t)before->size;
    }
    if (after != NULL && row_has_object(after)) {
        objects++;
        bytes += (int64_t)after->size;
    }
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
    u->objects += objects;
    u->bytes += bytes;
}

void
usage_apply(struct usage *u, struct usage_changes *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        usage_add(u, c->at[i].bucket, c->at[i].objects, c->at[i].bytes);
    c->count = 0;
}

void
disk_bucket_usage(const struct disk *d, uint64_t bucket, bool older, uint64_t *objects,
                  uint64_t *bytes)
{
    usage_get(d->usage, older ? usage_of_older(bucket) : bucket, objects, bytes);
}
