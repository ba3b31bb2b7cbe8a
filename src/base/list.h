/* list: an intrusive, circular, doubly linked list. A node that is in no list points at itself. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

struct list {
    struct list *prev, *next;
};

static inline void
list_init(struct list *l)
{
    l->prev = l->next = l;
}
static inline bool
list_empty(const struct list *l)
{
    return l->next == l;
}
static inline void
list_insert_(struct list *n, struct list *prev, struct list *next)
{
    n->prev = prev;
    n->next = next;
    prev->next = n;
    next->prev = n;
}
static inline void
list_push_back(struct list *l, struct list *n)
{
    list_insert_(n, l->prev, l);
}
static inline void
list_push_front(struct list *l, struct list *n)
{
    list_insert_(n, l, l->next);
}
static inline void
list_remove(struct list *n) /* twice is fine */
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    list_init(n);
}
static inline struct list *
list_pop_front(struct list *l) /* NULL when empty */
{
    struct list *n = l->next;

    if (n == l)
        return NULL;
    list_remove(n);
    return n;
}
#define LIST_ENTRY(n, type, member) CONTAINER_OF(n, type, member)
#define LIST_EACH(l, n)                                                                  \
    for (struct list *n = (l)->next, *n##_next = n->next; n != (l);                      \
         n = n##_next, n##_next = n->next)
