/* account: the memory that peers make this process hold (decision D14): arenas, connections with what a request in
 * flight needs, TLS, stacks and documents in one sum, and I/O buffers beside it. What has a fixed size of its own
 * (block cache, index, memtable) is not counted; the start of the process subtracts it from the limit first.
 *
 * Beyond three quarters of the limit memory is *tight*, until it is down to five eighths: new requests are then
 * refused before their bodies are read. Work that has begun never fails for it. Allocations whose size a peer sends
 * (a document) call account_reserve() first. I/O buffers have a limit of their own, so that requests waiting with
 * full buffers do not stop requests that need none; when buffers are tight, idle buffers must be released.
 *
 * Any thread. No lock. A warm request calls account_tight() only: one load of a word that is written when the state
 * changes. */
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

/* Limits of the sum and of I/O buffers. 0: no limit, never tight. */
void account_set_limit(uint64_t bytes);
void account_set_buffer_limit(uint64_t bytes);
uint64_t account_limit(void);

/* `bytes` may be negative. */
void account_add(enum account_kind kind, int64_t bytes);
/* The same, unless that would exceed the limit: then false, and nothing is added. */
bool account_reserve(enum account_kind kind, uint64_t bytes);
uint64_t account_of(enum account_kind kind);
uint64_t account_sum(void); /* of all kinds except buffers */
const char *account_name(enum account_kind kind);

enum { TIGHT_MEMORY = 1, TIGHT_BUFFERS = 2 };
extern _Alignas(64) _Atomic unsigned account_tight_bits;
/* Bits of TIGHT_..., nearly always 0. */
static inline unsigned
account_tight(void)
{
    return atomic_load_explicit(&account_tight_bits, memory_order_relaxed);
}
