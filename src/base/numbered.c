#include "base/numbered.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"

struct numbered {
    size_t mask; /* slots, less one */
    size_t entry_bytes;
    _Atomic(struct numbered_entry *) slots[];
};

struct numbered *
numbered_new(size_t slots, size_t entry_bytes)
{
    struct numbered *n;

    assert(slots > 0);
    assert((slots & (slots - 1)) == 0);
    assert(entry_bytes >= sizeof(struct numbered_entry));
    n = xcalloc(1, sizeof *n + slots * sizeof n->slots[0]);
    n->mask = slots - 1;
    n->entry_bytes = entry_bytes;
    return n;
}

void
numbered_free(struct numbered **np)
{
    struct numbered *n = *np;

    *np = NULL;
    for (size_t i = 0; n != NULL && i <= n->mask; i++) {
        struct numbered_entry *e = atomic_load(&n->slots[i]);

        while (e != NULL) {
            struct numbered_entry *next = e->next;

            free(e);
            e = next;
        }
    }
    free(n);
}

static struct numbered_entry *
in_chain(struct numbered_entry *e, uint64_t number)
{
    while (e != NULL && e->number != number)
        e = e->next;
    return e;
}

void *
numbered_find(const struct numbered *n, uint64_t number)
{
    return in_chain(
        atomic_load_explicit(&n->slots[number & n->mask], memory_order_acquire), number);
}

void *
numbered_make(struct numbered *n, uint64_t number)
{
    _Atomic(struct numbered_entry *) *slot = &n->slots[number & n->mask];
    struct numbered_entry *first = atomic_load_explicit(slot, memory_order_acquire),
                          *found = in_chain(first, number), *made;

    if (found != NULL)
        return found;
    made = xcalloc(1, n->entry_bytes);
    made->number = number;
    do {
        made->next = first;
        if (atomic_compare_exchange_strong_explicit(
                slot, &first, made, memory_order_acq_rel, memory_order_acquire))
            return made;
        found = in_chain(first, number); /* `first` is now the other thread's entry */
    } while (found == NULL);
    free(made);
    return found;
}

void *
numbered_next(const struct numbered *n, const void *entry)
{
    const struct numbered_entry *e = entry;
    size_t i = 0;

    if (e != NULL) {
        if (e->next != NULL)
            return e->next;
        i = (e->number & n->mask) + 1;
    }
    for (; i <= n->mask; i++) {
        struct numbered_entry *first =
            atomic_load_explicit(&n->slots[i], memory_order_acquire);

        if (first != NULL)
            return first;
    }
    return NULL;
}
