#include "cloud/breaker.h"

#include <assert.h>

#include "base/mem.h"

bool
breaker_allows(struct breaker *b, uint64_t now_ns, uint64_t *left_ms)
{
    assert(b->wait_ms <= BREAKER_WAIT_MAX_MS);
    assert(!b->trial || b->wait_ms > 0);
    *left_ms = 0;
    if (b->wait_ms == 0)
        return true;
    if (now_ns >= b->until_ns && !b->trial) {
        b->trial = true;
        return true;
    }
    *left_ms = b->until_ns > now_ns ? (b->until_ns - now_ns) / 1000000 : b->wait_ms;
    return false;
}

static bool
breaker_open(struct breaker *b, uint64_t now_ns)
{
    bool first = b->wait_ms == 0;

    b->wait_ms = first ? BREAKER_WAIT_MS : MIN(2 * b->wait_ms, BREAKER_WAIT_MAX_MS);
    assert(b->wait_ms > 0);
    b->until_ns = now_ns + b->wait_ms * 1000000;
    b->trial = false;
    return first;
}

bool
breaker_report(struct breaker *b, enum breaker_outcome what, uint64_t now_ns)
{
    bool was_open = b->wait_ms > 0;

    if (what == BREAKER_UNKNOWN) {
        b->trial = false;
        return false;
    }
    if (what == BREAKER_ANSWERED) {
        *b = (struct breaker){0};
        return was_open;
    }
    if (was_open) /* calls that began before it opened add no information */
        return b->trial && breaker_open(b, now_ns);
    if (b->failures++ == 0)
        b->first_ns = now_ns;
    if (b->failures < BREAKER_FAILURES ||
        now_ns - b->first_ns < BREAKER_SPAN_MS * 1000000ull)
        return false;
    return breaker_open(b, now_ns);
}
