#include "cloud/endpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static struct endpoint *
endpoint_find(struct endpoint *e, const char *name)
{
    while (e != NULL && strcmp(e->name, name) != 0)
        e = e->next;
    return e;
}

static void
endpoint_free(struct endpoint *e)
{
    pace_drop(&e->pace);
    free(e->name);
    free(e);
}

/* Loops may add the same endpoint concurrently: the second one finds it. */
struct endpoint *
endpoint_of(struct endpoints *all, const char *name, uint64_t rate)
{
    struct endpoint *first = atomic_load(&all->first),
                    *found = endpoint_find(first, name), *made;

    if (found != NULL)
        return found;
    made = xcalloc(1, sizeof *made);
    made->all = all;
    made->name = xstrdup(name);
    made->pace = pace_new(rate);
    do {
        found = endpoint_find(first, name);
        made->next = first;
    } while (found == NULL && !atomic_compare_exchange_weak(&all->first, &first, made));
    if (found == NULL)
        return made;
    endpoint_free(made);
    return found;
}

void
endpoints_fini(struct endpoints *all)
{
    struct endpoint *e = atomic_exchange(&all->first, NULL), *next;

    for (; e != NULL; e = next) {
        next = e->next;
        endpoint_free(e);
    }
}

void
endpoint_mark_down(struct endpoint *e)
{
    if (atomic_exchange(&e->down_ns, rt_now_ns()) == 0)
        atomic_fetch_add(&e->all->down, 1);
}

void
endpoint_mark_up(struct endpoint *e)
{
    if (atomic_load_explicit(&e->down_ns, memory_order_relaxed) != 0 &&
        atomic_exchange(&e->down_ns, 0) != 0)
        atomic_fetch_sub(&e->all->down, 1);
}

bool
endpoint_is_down(struct endpoints *all, const char *name)
{
    struct endpoint *e =
        endpoints_any_down(all) ? endpoint_find(atomic_load(&all->first), name) : NULL;
    uint64_t since_ns = e != NULL ? atomic_load(&e->down_ns) : 0;

    if (since_ns != 0 && rt_now_ns() > since_ns + ENDPOINT_DOWN_MS * 1000000ull)
        endpoint_mark_up(e); /* no call for so long: the state is unknown */
    return since_ns != 0 && atomic_load(&e->down_ns) != 0;
}

static bool
must_wait(struct endpoint *e, bool behind, uint64_t since_ns)
{
    uint64_t now = rt_now_ns();

    return pace_due(e->pace) > now || (behind && atomic_load(&e->readers) > 0 &&
                                       now < since_ns + ENDPOINT_LAST_MS * 1000000ull);
}

enum err
endpoint_wait(struct endpoint *e, const bool *urgent)
{
    uint64_t since_ns = rt_now_ns();
    enum err rc = ERR_OK;

    while (rc == ERR_OK && must_wait(e, urgent != NULL && !*urgent, since_ns)) {
        bool behind = urgent != NULL && !*urgent;
        uint64_t look = rt_now_ns() + ENDPOINT_LOOK_MS * 1000000ull,
                 due = pace_due(e->pace);

        if (!behind) {
            atomic_fetch_add(&e->readers, 1);
            look = due;
        }
        rc = rt_sleep_until((struct deadline){due > rt_now_ns() ? MIN(due, look) : look});
        if (!behind)
            atomic_fetch_sub(&e->readers, 1);
    }
    return rc;
}

void
endpoint_consumed(struct endpoint *e, uint64_t bytes)
{
    (void)pace_spent(e->pace, rt_now_ns(), bytes);
}
