#include "rt/internal.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

enum { ARITY = 4, FIRST_ROOM = 64 };
static_assert(ARITY >= 2, "a heap");

void
timer_init(struct timer *t, void (*fire)(struct timer *t))
{
    *t = (struct timer){.place = TIMER_IDLE, .fire = fire};
}

static void
timer_put(struct timer_heap *h, uint32_t place, struct timer_entry e)
{
    h->at[place] = e;
    e.timer->place = place;
}

static void
timer_sift_up(struct timer_heap *h, uint32_t place, struct timer_entry e)
{
    while (place > 0) {
        uint32_t parent = (place - 1) / ARITY;

        if (h->at[parent].at_ns <= e.at_ns)
            break;
        timer_put(h, place, h->at[parent]);
        place = parent;
    }
    timer_put(h, place, e);
}

static void
timer_sift_down(struct timer_heap *h, uint32_t place, struct timer_entry e)
{
    for (;;) {
        uint32_t first = place * ARITY + 1;
        uint32_t end = MIN(first + ARITY, h->count), least = first;

        if (first >= h->count)
            break;
        for (uint32_t i = first + 1; i < end; i++)
            if (h->at[i].at_ns < h->at[least].at_ns)
                least = i;
        if (e.at_ns <= h->at[least].at_ns)
            break;
        timer_put(h, place, h->at[least]);
        place = least;
    }
    timer_put(h, place, e);
}

void
timer_add(struct timer_heap *h, struct timer *t, uint64_t at_ns)
{
    assert(t->fire != NULL);
    assert(at_ns != UINT64_MAX); /* "never" needs no timer */
    timer_remove(h, t);
    if (h->count == h->room) {
        h->room = h->room > 0 ? h->room * 2 : FIRST_ROOM;
        h->at = xrealloc(h->at, h->room * sizeof *h->at);
    }
    h->count++;
    timer_sift_up(h, h->count - 1, (struct timer_entry){at_ns, t});
    assert(t->place < h->count);
    assert(h->at[t->place].timer == t);
}

void
timer_remove(struct timer_heap *h, struct timer *t)
{
    uint32_t place = t->place;
    struct timer_entry last;

    if (place == TIMER_IDLE)
        return;
    assert(place < h->count);
    assert(h->at[place].timer == t);
    t->place = TIMER_IDLE;
    last = h->at[--h->count];
    if (last.timer == t)
        return;
    if (place > 0 && last.at_ns < h->at[(place - 1) / ARITY].at_ns)
        timer_sift_up(h, place, last);
    else
        timer_sift_down(h, place, last);
}

uint64_t
timer_next(const struct timer_heap *h)
{
    return h->count > 0 ? h->at[0].at_ns : UINT64_MAX;
}

void
timer_run(struct timer_heap *h, uint64_t now_ns)
{
    while (h->count > 0 && h->at[0].at_ns <= now_ns) {
        struct timer *t = h->at[0].timer;

        timer_remove(h, t);
        assert(t->place == TIMER_IDLE);
        t->fire(t);
    }
}

void
timer_fini(struct timer_heap *h)
{
    assert(h->count == 0);
    free(h->at);
    *h = (struct timer_heap){0};
}
