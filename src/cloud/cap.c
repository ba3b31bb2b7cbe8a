#include "cloud/cap.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static struct cap *
find(struct cap *c, const char *remote)
{
    while (c != NULL && strcmp(c->remote, remote) != 0)
        c = c->next;
    return c;
}

/* Loops may want the same at once: who comes second finds it. */
struct cap *
cap_of(struct cap *_Atomic *list, const char *remote, uint64_t rate)
{
    struct cap *first = atomic_load(list), *found = find(first, remote), *made;

    if (found != NULL)
        return found;
    made = xcalloc(1, sizeof *made);
    made->remote = xstrdup(remote);
    made->pace = pace_new(rate);
    do {
        found = find(first, remote);
        made->next = first;
    } while (found == NULL && !atomic_compare_exchange_weak(list, &first, made));
    if (found == NULL)
        return made;
    made->next = NULL;
    cap_free_all(&(struct cap * _Atomic){made});
    return found;
}

void
cap_free_all(struct cap *_Atomic *list)
{
    struct cap *c = atomic_exchange(list, NULL), *next;

    for (; c != NULL; c = next) {
        next = c->next;
        pace_drop(&c->pace);
        free(c->remote);
        free(c);
    }
}

static bool
must_wait(struct cap *c, bool behind, uint64_t since_ns)
{
    uint64_t now = rt_now_ns();

    return pace_due(c->pace) > now || (behind && atomic_load(&c->readers) > 0 &&
                                       now < since_ns + CAP_LAST_MS * 1000000ull);
}

enum err
cap_wait(struct cap *c, const bool *hurried)
{
    uint64_t since_ns = rt_now_ns();
    enum err rc = ERR_OK;

    while (rc == ERR_OK && must_wait(c, hurried != NULL && !*hurried, since_ns)) {
        bool behind = hurried != NULL && !*hurried;
        uint64_t look = rt_now_ns() + CAP_LOOK_MS * 1000000ull, due = pace_due(c->pace);

        if (!behind) {
            atomic_fetch_add(&c->readers, 1);
            look = due;
        }
        rc = rt_sleep_until((struct deadline){due > rt_now_ns() ? MIN(due, look) : look});
        if (!behind)
            atomic_fetch_sub(&c->readers, 1);
    }
    return rc;
}

void
cap_took(struct cap *c, uint64_t bytes)
{
    (void)pace_took(c->pace, rt_now_ns(), bytes);
}
