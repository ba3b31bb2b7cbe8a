#include "store/segment/access_freq.h"

#include <stdlib.h>

#include "base/mem.h"
#include "store/segment/segment.h"

#define UNIT 512u /* a counter unit in bytes: 2 TiB a window */

struct freq_counters {
    _Atomic uint32_t now, before;
};
typedef struct freq_counters *_Atomic freq_page;

struct access_freq {
    freq_page pages[SEGMENT_TABLE_TOP]; /* owned; allocated by the first count */
};

struct access_freq *
access_freq_new(void)
{
    return xcalloc(1, sizeof(struct access_freq));
}

void
access_freq_free(struct access_freq **hp)
{
    struct access_freq *h = *hp;

    *hp = NULL;
    if (h == NULL)
        return;
    for (unsigned i = 0; i < SEGMENT_TABLE_TOP; i++)
        free(atomic_load(&h->pages[i]));
    free(h);
}

static struct freq_counters *
access_freq_page_of(struct access_freq *h, uint32_t segment)
{
    freq_page *slot = &h->pages[segment / SEGMENT_TABLE_PAGE % SEGMENT_TABLE_TOP];
    struct freq_counters *page = atomic_load_explicit(slot, memory_order_acquire);
    struct freq_counters *made;

    if (page != NULL)
        return page;
    made = xcalloc(SEGMENT_TABLE_PAGE, sizeof *made);
    if (atomic_compare_exchange_strong(slot, &page, made))
        return made;
    free(made); /* another thread was faster: `page` is its page */
    return page;
}

void
access_freq_add(struct access_freq *h, uint32_t segment, uint64_t bytes)
{
    struct freq_counters *c =
        &access_freq_page_of(h, segment)[segment % SEGMENT_TABLE_PAGE];

    atomic_fetch_add_explicit(&c->now, (uint32_t)((bytes + UNIT - 1) / UNIT),
                              memory_order_relaxed);
}

void
access_freq_rotate(struct access_freq *h)
{
    for (unsigned i = 0; i < SEGMENT_TABLE_TOP; i++) {
        struct freq_counters *page =
            atomic_load_explicit(&h->pages[i], memory_order_acquire);

        for (unsigned k = 0; page != NULL && k < SEGMENT_TABLE_PAGE; k++)
            atomic_store_explicit(
                &page[k].before,
                atomic_exchange_explicit(&page[k].now, 0, memory_order_relaxed),
                memory_order_relaxed);
    }
}

uint32_t
access_freq_of(const struct access_freq *h, uint32_t segment, uint64_t living)
{
    const struct freq_counters *page =
        atomic_load_explicit(&h->pages[segment / SEGMENT_TABLE_PAGE % SEGMENT_TABLE_TOP],
                             memory_order_acquire);
    const struct freq_counters *c;
    uint64_t read;

    if (page == NULL)
        return 0;
    c = &page[segment % SEGMENT_TABLE_PAGE];
    read = ((uint64_t)atomic_load_explicit(&c->now, memory_order_relaxed) +
            atomic_load_explicit(&c->before, memory_order_relaxed)) *
           UNIT;
    return (uint32_t)MIN(read * ACCESS_FREQ_READ / MAX(living, 1u), UINT32_MAX - 1);
}
