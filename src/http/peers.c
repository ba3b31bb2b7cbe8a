#include "http/peers.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/ip.h"
#include "base/mem.h"

uint64_t
peers_address(const struct peers *p, const char *peer)
{
    const char *colon = strrchr(peer, ':');
    size_t len = colon != NULL ? (size_t)(colon - peer) : strlen(peer);
    unsigned char bytes[16];
    size_t n = ip_parse((struct span){peer, len}, bytes);

    if (n == 0) /* a socket without an address: one client */
        return hash_xxh3(peer, len, p->seed);
    return hash_xxh3(bytes, n == 16 ? 8 : n, p->seed);
}

static atomic_uint *
peers_cell(struct peers *p, unsigned row, uint64_t address)
{
    return &p->rows[row][(address >> (32 * row)) % PEERS_CELLS];
}

unsigned
peers_enter(struct peers *p, uint64_t address)
{
    unsigned least = UINT32_MAX;

    for (unsigned row = 0; row < ARRAY_LEN(p->rows); row++) {
        unsigned now = atomic_fetch_add_explicit(peers_cell(p, row, address), 1,
                                                 memory_order_relaxed) +
                       1;

        least = MIN(least, now);
    }
    assert(least > 0);
    return least;
}

void
peers_leave(struct peers *p, uint64_t address)
{
    for (unsigned row = 0; row < ARRAY_LEN(p->rows); row++) {
        unsigned before = atomic_fetch_sub_explicit(peers_cell(p, row, address), 1,
                                                    memory_order_relaxed);

        assert(before > 0);
    }
}
