/* xact: jobs of AIS that live in memory; see xact.h. */
#include "api/ais/xact.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/mem.h"
#include "rt/time.h"

#define IDLE_MS 10000

struct xact {
    struct list node; /* in xacts->all, the newest first */
    _Atomic bool aborted;
    _Atomic uint64_t objects, bytes;
    struct xact_view told; /* what never changes, and under the lock: its end */
};
struct xacts {
    struct lock lock;
    struct list all;
    unsigned count;
    uint64_t serial;
};

struct xacts *
xacts_new(void)
{
    struct xacts *xs = xcalloc(1, sizeof *xs);

    lock_init(&xs->lock, LOCK_XACTS);
    list_init(&xs->all);
    xs->serial = rt_wall_ns() / 1000;
    return xs;
}

static void
xact_remove(struct xacts *xs, struct xact *x)
{
    assert(xs->count > 0);
    list_remove(&x->node);
    xs->count--;
    free(x);
}

void
xacts_free(struct xacts **xp)
{
    struct xacts *xs = *xp;

    *xp = NULL;
    if (xs == NULL)
        return;
    while (!list_empty(&xs->all))
        xact_remove(xs, LIST_ENTRY(xs->all.next, struct xact, node));
    lock_fini(&xs->lock);
    free(xs);
}

/* Room for one more: the oldest ended one leaves. */
static bool
xacts_make_room(struct xacts *xs)
{
    if (xs->count < XACTS_MAX)
        return true;
    for (struct list *n = xs->all.prev; n != &xs->all; n = n->prev) {
        struct xact *x = LIST_ENTRY(n, struct xact, node);

        if (x->told.ended_ms != 0) {
            xact_remove(xs, x);
            return true;
        }
    }
    return false;
}

/* 12 of [a-z2-7] behind the prefix. */
static void
xact_make_id(struct xacts *xs, const char *prefix, char out[XACT_ID_TEXT])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint64_t v = ++xs->serial * 0x9e3779b97f4a7c15u;
    int n = snprintf(out, XACT_ID_TEXT, "%s", prefix);

    for (unsigned i = 0; i < 12; i++, v >>= 5)
        out[n++] = letters[v & 31];
    assert(n < XACT_ID_TEXT);
    out[n] = '\0';
}

struct xact *
xact_begin(struct xacts *xs, const char *kind, struct span provider, struct span bucket,
           const char *prefix)
{
    struct xact *x = xcalloc(1, sizeof *x);

    snprintf(x->told.kind, sizeof x->told.kind, "%s", kind);
    snprintf(x->told.provider, sizeof x->told.provider, "%.*s", SPAN_ARG(provider));
    snprintf(x->told.bucket, sizeof x->told.bucket, "%.*s", SPAN_ARG(bucket));
    x->told.begun_ms = (int64_t)(rt_wall_ns() / 1000000u);
    lock_acquire(&xs->lock);
    if (xacts_make_room(xs)) {
        xact_make_id(xs, prefix, x->told.id);
        list_push_front(&xs->all, &x->node);
        xs->count++;
    } else {
        free(x);
        x = NULL;
    }
    lock_release(&xs->lock);
    return x;
}

const char *
xact_id(const struct xact *x)
{
    return x->told.id;
}

bool
xact_is_aborted(const struct xact *x)
{
    return atomic_load_explicit(&x->aborted, memory_order_relaxed);
}

void
xact_count(struct xact *x, uint64_t objects, uint64_t bytes)
{
    atomic_store_explicit(&x->objects, objects, memory_order_relaxed);
    atomic_store_explicit(&x->bytes, bytes, memory_order_relaxed);
}

void
xact_end(struct xacts *xs, struct xact **xp, const char *error)
{
    struct xact *x = *xp;

    *xp = NULL;
    if (x == NULL)
        return;
    lock_acquire(&xs->lock);
    assert(x->told.ended_ms == 0);
    x->told.ended_ms = (int64_t)(rt_wall_ns() / 1000000u);
    if (error != NULL)
        snprintf(x->told.error, sizeof x->told.error, "%s", error);
    lock_release(&xs->lock);
}

unsigned
xacts_abort(struct xacts *xs, struct span id, struct span kind)
{
    int64_t now = (int64_t)(rt_wall_ns() / 1000000u);
    unsigned stopped = 0;

    lock_acquire(&xs->lock);
    LIST_EACH(&xs->all, n)
    {
        struct xact *x = LIST_ENTRY(n, struct xact, node);
        bool named = id.len > 0 ? span_is(id, x->told.id) : span_is(kind, x->told.kind);

        /* One that has just ended may be shown as idle still: it is stopped as such. */
        if (named && (x->told.ended_ms == 0 || now - x->told.ended_ms < IDLE_MS)) {
            atomic_store(&x->aborted, true);
            stopped++;
        }
    }
    lock_release(&xs->lock);
    return stopped;
}

bool
xacts_view(struct xacts *xs, unsigned index, struct xact_view *out)
{
    bool found = false;

    lock_acquire(&xs->lock);
    LIST_EACH(&xs->all, n)
    {
        struct xact *x = LIST_ENTRY(n, struct xact, node);

        if (index-- > 0)
            continue;
        *out = x->told;
        out->aborted = atomic_load(&x->aborted);
        out->objects = atomic_load(&x->objects);
        out->bytes = atomic_load(&x->bytes);
        found = true;
        break;
    }
    lock_release(&xs->lock);
    return found;
}
