#include "rt/small.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rt/internal.h"
#include "rt/sanitize.h"

/* What an idle piece holds. */
struct idle {
    struct idle *next;
};

/* Those of this size; NULL: the heap's. */
static struct small_list *
small_list_of(size_t size)
{
    struct loop *l = loop_self;

    if (FB_ASAN || l == NULL || size == 0 || size > SMALL_MOST)
        return NULL;
    return &l->smalls[(size - 1) / SMALL_STEP];
}

void *
small_get(size_t size)
{
    struct small_list *list = small_list_of(size);
    struct idle *p;

    if (list == NULL)
        return xcalloc(1, size);
    p = list->first;
    if (p != NULL) {
        list->first = p->next;
        list->count--;
    } else {
        p = xmalloc(align_up(size, SMALL_STEP));
    }
    return memset(p, 0, size);
}

void
small_put(void *p, size_t size)
{
    struct small_list *list = small_list_of(size);
    struct idle *idle = p;

    if (p == NULL)
        return;
    if (list == NULL || list->count == SMALL_KEPT) {
        free(p);
        return;
    }
    idle->next = list->first;
    list->first = idle;
    list->count++;
}

void
small_free_idle(struct loop *l)
{
    for (size_t i = 0; i < ARRAY_LEN(l->smalls); i++) {
        struct idle *p;

        while ((p = l->smalls[i].first) != NULL) {
            l->smalls[i].first = p->next;
            free(p);
        }
        l->smalls[i].count = 0;
    }
}
