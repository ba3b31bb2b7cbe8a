#include "node/cache_policy.h"

#include <assert.h>

#include "base/mem.h"

#define STALLED_MUCH  100u /* thousandths of the time */
#define STALLED       10u
#define GIVE_SHARE    8u
#define GIVE_LEAST    MIB(64)
#define RESERVE_LEAST MIB(64)
#define RESERVE_MOST  GIB(8)

static_assert(STALLED < STALLED_MUCH, "thresholds");

uint64_t
cache_reserve(uint64_t limit)
{
    uint64_t tenth = MIN(MAX(limit / 10, RESERVE_LEAST), RESERVE_MOST);

    return MIN(tenth, limit / 4);
}

void
cache_policy_init(struct cache_policy *p, uint64_t most, bool fixed)
{
    *p = (struct cache_policy){.most = most, .fixed = fixed};
}

/* Thousandths of the time since the last sample. The first one has none to compare with. */
static uint64_t
stalled(uint64_t before_us, uint64_t now_us, uint64_t ms)
{
    return before_us > 0 && now_us > before_us && ms > 0 ? (now_us - before_us) / ms : 0;
}

static uint64_t
stalls_of(struct cache_policy *p, const struct cache_sample *s)
{
    uint64_t ms = s->at_ms - p->at_ms;
    uint64_t group = stalled(p->group_us, s->memory.group_stalled_us, ms),
             machine = stalled(p->machine_us, s->memory.machine_stalled_us, ms);

    assert(s->at_ms >= p->at_ms);
    p->at_ms = s->at_ms;
    p->group_us = s->memory.group_stalled_us;
    p->machine_us = s->memory.machine_stalled_us;
    return s->memory.available < 2 * cache_reserve(s->memory.limit) ? MAX(group, machine)
                                                                    : group;
}

/* By what is available: all but the reserve. Between the reserve and a quarter more it neither grows nor shrinks. */
static uint64_t
by_available(const struct cache_sample *s)
{
    uint64_t reserve = cache_reserve(s->memory.limit), left = s->memory.available;

    if (left < reserve)
        return s->held - MIN(s->held, reserve - left + reserve / 8);
    return left < reserve + reserve / 4 ? s->held : s->held + (left - reserve);
}

static uint64_t
less_by_an_eighth(uint64_t held)
{
    return held - MIN(held, MAX(held / GIVE_SHARE, GIVE_LEAST));
}

unsigned
cache_policy_wait_ms(const struct cache_sample *s)
{
    return s->memory.available > s->memory.limit / 2 ? CACHE_REST_MS : CACHE_LOOK_MS;
}

uint64_t
cache_policy_step(struct cache_policy *p, const struct cache_sample *s)
{
    uint64_t stalls = stalls_of(p, s);
    uint64_t target = p->fixed ? p->most : by_available(s);

    if (stalls >= STALLED_MUCH || s->clients_tight ||
        (!p->fixed && s->memory.available == 0))
        target = MIN(target, less_by_an_eighth(s->held));
    p->tight = target < s->held;
    if (p->tight)
        p->quiet = s->at_ms + CACHE_WAIT_MS;
    else if (!p->fixed && (stalls >= STALLED || s->at_ms < p->quiet))
        target = s->held;
    assert(p->most == 0 || target <= UINT64_MAX / 2);
    return MIN(target, p->most);
}
