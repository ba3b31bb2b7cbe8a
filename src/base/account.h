/* account: the memory that peers make us hold (decision D14): arenas, connections with what they need while a request is
 * in flight, TLS, stacks, documents in one sum for the process, and I/O buffers beside it. What has a fixed size of its own (block cache,
 * index, tail) is not in it; whoever starts the process takes these off the limit first.
 *
 * Beyond three quarters of the limit it is *tight*, until it is down to five eighths: requests that come then are
 * refused before their bodies are read. Nothing that has begun fails for it; what a peer sizes by a number it sends
 * (a document) asks account_reserve() first. I/O buffers have a limit of their own, so that those who wait with full ones
 * do not stop what needs none; where these are tight, who holds one without need has to give it back.
 *
 * Any thread. No lock. On the way of a warm request stands account_tight() only: one load of a word that is written
 * when the state changes.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* X(id, label) */
#define ACCOUNT_TABLE(X)                                                                 \
    X(ACCOUNT_BUFFERS, "buffers")                                                        \
    X(ACCOUNT_ARENAS, "arenas")                                                          \
    X(ACCOUNT_CONNECTIONS, "connections")                                                \
    X(ACCOUNT_TLS, "tls")                                                                \
    X(ACCOUNT_STACKS, "stacks")                                                          \
    X(ACCOUNT_DOCUMENTS, "documents")

enum account_kind {
#define X(id, label) id,
    ACCOUNT_TABLE(X)
#undef X
        ACCOUNT_KINDS_
};

/* Of the sum, and of I/O buffers. 0: none, it is never tight. */
void account_set_limit(uint64_t bytes);
void account_set_buffer_limit(uint64_t bytes);
uint64_t account_limit(void);

/* `bytes` may be negative. */
void account_add(enum account_kind kind, int64_t bytes);
/* The same, unless that would be more than the limit: false, nothing was added. */
bool account_reserve(enum account_kind kind, uint64_t bytes);
uint64_t account_of(enum account_kind kind);
uint64_t account_sum(void); /* of all but buffers */
const char *account_name(enum account_kind kind);

enum { TIGHT_MEMORY = 1, TIGHT_BUFFERS = 2 };
extern _Alignas(64) _Atomic unsigned account_tight_bits;
/* Some of TIGHT_..., nearly always 0. */
static inline unsigned
account_tight(void)
{
    return atomic_load_explicit(&account_tight_bits, memory_order_relaxed);
}
