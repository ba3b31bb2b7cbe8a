#include "cloud/throttle.h"

#include <assert.h>

#include "base/mem.h"

#define LEAST 1

void
throttle_init(struct throttle *t, unsigned most)
{
    assert(most >= LEAST);
    *t = (struct throttle){.limit = most, .most = most};
    rt_cond_init(&t->freed);
}

enum err
throttle_enter(struct throttle *t)
{
    struct deadline by = DEADLINE_NEVER;
    enum err rc = ERR_OK;

    while (t->busy >= (unsigned)t->limit && rc != ERR_TIMEOUT) {
        if (by.at_ns == UINT64_MAX)
            by = deadline_in_ms(THROTTLE_WAIT_MS);
        rc = rt_cond_wait(&t->freed, by);
        if (rc != ERR_OK && rc != ERR_TIMEOUT)
            return rc;
        if (rc == ERR_TIMEOUT && rt_cancelled())
            return ERR_CANCELLED;
    }
    t->busy++;
    return ERR_OK;
}

void
throttle_leave(struct throttle *t)
{
    assert(t->busy > 0);
    t->busy--;
    rt_cond_signal(&t->freed);
}

void
throttle_success(struct throttle *t)
{
    assert(t->limit >= LEAST);
    t->limit = MIN(t->limit + 1 / t->limit, (double)t->most);
    if (t->busy < (unsigned)t->limit)
        rt_cond_signal(&t->freed);
    assert(t->limit <= (double)t->most);
}

bool
throttle_slow_down(struct throttle *t, uint64_t now_ns)
{
    if (t->cut_ns != 0 && now_ns - t->cut_ns < THROTTLE_CUT_MS * 1000000ull)
        return false;
    t->cut_ns = now_ns;
    t->limit = MAX(MIN(t->limit, (double)MAX(t->busy, 2u)) / 2, (double)LEAST);
    assert(t->limit >= LEAST);
    return true;
}
