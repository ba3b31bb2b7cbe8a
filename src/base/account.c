#include "base/account.h"

#include <assert.h>

_Alignas(64) _Atomic unsigned account_tight_bits;

/* Each on a cache line of its own: they change on different loops. */
static struct {
    _Alignas(64) _Atomic int64_t bytes;
} kinds[ACCOUNT_KINDS_];
static struct {
    _Alignas(64) _Atomic int64_t bytes;
} sum;
static _Atomic int64_t limit, buffer_limit; /* 0: none */

static const char *const names[ACCOUNT_KINDS_] = {
#define X(id, label) [id] = label,
    ACCOUNT_TABLE(X)
#undef X
};

/* Two threads may cross the threshold at once. The last to check wins; a state that is a moment old does no harm. */
static void
account_update_tight(unsigned bit, int64_t now, int64_t most)
{
    bool tight = (account_tight() & bit) != 0;

    if (!tight && most > 0 && now > most / 4 * 3)
        atomic_fetch_or(&account_tight_bits, bit);
    else if (tight && now < most / 8 * 5)
        atomic_fetch_and(&account_tight_bits, ~bit);
}

void
account_set_limit(uint64_t bytes)
{
    int64_t most = bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX;

    atomic_store(&limit, most);
    atomic_fetch_and(&account_tight_bits, ~(unsigned)TIGHT_MEMORY);
    account_update_tight(TIGHT_MEMORY, atomic_load(&sum.bytes), most);
}

void
account_set_buffer_limit(uint64_t bytes)
{
    int64_t most = bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX;

    atomic_store(&buffer_limit, most);
    atomic_fetch_and(&account_tight_bits, ~(unsigned)TIGHT_BUFFERS);
    account_update_tight(TIGHT_BUFFERS, atomic_load(&kinds[ACCOUNT_BUFFERS].bytes), most);
}

uint64_t
account_limit(void)
{
    return (uint64_t)atomic_load(&limit);
}

void
account_add(enum account_kind kind, int64_t bytes)
{
    int64_t now;

    assert(kind < ACCOUNT_KINDS_);
    assert(bytes > INT64_MIN);
    now = atomic_fetch_add_explicit(&kinds[kind].bytes, bytes, memory_order_relaxed) +
          bytes;
    if (kind == ACCOUNT_BUFFERS) {
        account_update_tight(TIGHT_BUFFERS, now,
                             atomic_load_explicit(&buffer_limit, memory_order_relaxed));
        return;
    }
    now = atomic_fetch_add_explicit(&sum.bytes, bytes, memory_order_relaxed) + bytes;
    account_update_tight(TIGHT_MEMORY, now,
                         atomic_load_explicit(&limit, memory_order_relaxed));
}

bool
account_reserve(enum account_kind kind, uint64_t bytes)
{
    int64_t most = atomic_load_explicit(&limit, memory_order_relaxed);

    if (most > 0 &&
        (bytes > (uint64_t)most ||
         atomic_load_explicit(&sum.bytes, memory_order_relaxed) > most - (int64_t)bytes))
        return false;
    account_add(kind, (int64_t)bytes);
    return true;
}

uint64_t
account_of(enum account_kind kind)
{
    int64_t n = atomic_load_explicit(&kinds[kind].bytes, memory_order_relaxed);

    return n > 0 ? (uint64_t)n : 0;
}

uint64_t
account_sum(void)
{
    int64_t n = atomic_load_explicit(&sum.bytes, memory_order_relaxed);

    return n > 0 ? (uint64_t)n : 0;
}

const char *
account_name(enum account_kind kind)
{
    assert(kind < ACCOUNT_KINDS_);
    return names[kind];
}
