#include "auth/meter.h"

#include <assert.h>
#include <stddef.h>

#include "base/mem.h"

#define SECOND_NS 1000000000u

static _Atomic uint64_t refused[AUTH_OVER_PARTS + 1];

static uint64_t
cost_ns(uint64_t amount, uint64_t a_second)
{
    double ns = (double)amount / (double)a_second * SECOND_NS;

    return ns < 1e18 ? (uint64_t)ns : (uint64_t)1e18; /* thirty years */
}

/* Charges `cost` behind earlier charges; false when these reach more than a second into the future. */
static bool
pay(_Atomic uint64_t *until, uint64_t cost, uint64_t now_ns)
{
    uint64_t old = atomic_load(until), begin;

    do {
        begin = MAX(old, now_ns);
        if (begin - now_ns > SECOND_NS)
            return false;
    } while (!atomic_compare_exchange_weak(until, &old, begin + cost));
    return true;
}

/* Corrects a charge to the actual usage; refunds the difference if that is less. */
static void
meter_pay_off(_Atomic uint64_t *until, uint64_t paid, uint64_t used, uint64_t now_ns)
{
    uint64_t old = atomic_load(until), fresh;

    do
        fresh =
            used >= paid ? MAX(old, now_ns) + (used - paid) : old - MIN(old, paid - used);
    while (!atomic_compare_exchange_weak(until, &old, fresh));
}

static enum auth_over
meter_refuse(enum auth_over why)
{
    atomic_fetch_add_explicit(&refused[why], 1, memory_order_relaxed);
    return why;
}

enum auth_over
auth_meter_begin(struct auth_meter *m, const struct auth_limits *l, bool part,
                 uint64_t bytes, uint64_t now_ns, struct auth_charge *out)
{
    bool counts = part && l->parts > 0;

    assert(m != NULL);
    *out = (struct auth_charge){0};
    if (counts && atomic_fetch_add(&m->parts, 1) >= l->parts) {
        atomic_fetch_sub(&m->parts, 1);
        return meter_refuse(AUTH_OVER_PARTS);
    }
    if (l->bytes > 0 && !pay(&m->bytes_ns, cost_ns(bytes, l->bytes), now_ns)) {
        if (counts)
            atomic_fetch_sub(&m->parts, 1);
        return meter_refuse(AUTH_OVER_BYTES);
    }
    *out = (struct auth_charge){.meter = m, .limits = *l, .bytes = bytes, .part = counts};
    if (l->requests > 0 && !pay(&m->requests_ns, cost_ns(1, l->requests), now_ns)) {
        auth_meter_end(out, 0, now_ns);
        return meter_refuse(AUTH_OVER_REQUESTS);
    }
    return AUTH_WITHIN;
}

void
auth_meter_end(struct auth_charge *c, uint64_t bytes, uint64_t now_ns)
{
    struct auth_meter *m = c->meter;

    c->meter = NULL;
    if (m == NULL)
        return;
    if (c->part) {
        uint32_t before = atomic_fetch_sub(&m->parts, 1);

        assert(before > 0);
        (void)before;
    }
    if (c->limits.bytes > 0)
        meter_pay_off(&m->bytes_ns, cost_ns(c->bytes, c->limits.bytes),
                      cost_ns(bytes, c->limits.bytes), now_ns);
}

uint64_t
auth_meter_refused(enum auth_over why)
{
    assert(why > AUTH_WITHIN);
    assert(why <= AUTH_OVER_PARTS);
    return atomic_load_explicit(&refused[why], memory_order_relaxed);
}
