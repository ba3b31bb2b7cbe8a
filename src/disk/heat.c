#include "disk/heat.h"

#include <stdlib.h>

#include "base/mem.h"

#define UNIT 512u /* counters stand for so many bytes: 2 TiB a window */

struct counters {
    _Atomic uint32_t now, before;
};
typedef struct counters *_Atomic page_slot;

struct heat {
    page_slot pages[SEGMENT_TABLE_TOP]; /* owned; made by whoever counts first */
};

struct heat *
heat_new(void)
{
    return xcalloc(1, sizeof(struct heat));
}

void
heat_free(struct heat **hp)
{
    struct heat *h = *hp;

    *hp = NULL;
    if (h == NULL)
        return;
    for (unsigned i = 0; i < SEGMENT_TABLE_TOP; i++)
        free(atomic_load(&h->pages[i]));
    free(h);
}

static struct counters *
page_of(struct heat *h, uint32_t segment)
{
    page_slot *slot = &h->pages[segment / SEGMENT_TABLE_PAGE % SEGMENT_TABLE_TOP];
    struct counters *page = atomic_load_explicit(slot, memory_order_acquire);
    struct counters *made;

    if (page != NULL)
        return page;
    made = xcalloc(SEGMENT_TABLE_PAGE, sizeof *made);
    if (atomic_compare_exchange_strong(slot, &page, made))
        return made;
    free(made); /* somebody was faster: `page` is his */
    return page;
}

void
heat_add(struct heat *h, uint32_t segment, uint64_t bytes)
{
    struct counters *c = &page_of(h, segment)[segment % SEGMENT_TABLE_PAGE];

    atomic_fetch_add_explicit(&c->now, (uint32_t)((bytes + UNIT - 1) / UNIT),
                              memory_order_relaxed);
}

void
heat_rotate(struct heat *h)
{
    for (unsigned i = 0; i < SEGMENT_TABLE_TOP; i++) {
        struct counters *page = atomic_load_explicit(&h->pages[i], memory_order_acquire);

        for (unsigned k = 0; page != NULL && k < SEGMENT_TABLE_PAGE; k++)
            atomic_store_explicit(
                &page[k].before,
                atomic_exchange_explicit(&page[k].now, 0, memory_order_relaxed),
                memory_order_relaxed);
    }
}

uint32_t
heat_of(const struct heat *h, uint32_t segment, uint64_t living)
{
    const struct counters *page =
        atomic_load_explicit(&h->pages[segment / SEGMENT_TABLE_PAGE % SEGMENT_TABLE_TOP],
                             memory_order_acquire);
    const struct counters *c;
    uint64_t read;

    if (page == NULL)
        return 0;
    c = &page[segment % SEGMENT_TABLE_PAGE];
    read = ((uint64_t)atomic_load_explicit(&c->now, memory_order_relaxed) +
            atomic_load_explicit(&c->before, memory_order_relaxed)) *
           UNIT;
    return (uint32_t)MIN(read * HEAT_READ / MAX(living, 1u), UINT32_MAX - 1);
}
