/* peers: how many connections each client address has, over all loops.
 *
 * A count-min sketch: two rows of counters, each indexed by another hash of the address. The smaller one is the count. It never
 * counts too few, and too many only where an address collides in both rows, by what the other addresses there have. So memory is
 * fixed whatever addresses come, and no loop waits for another. An IPv6 client is its /64.
 *
 * Threads: any. No lock.
 */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#define PEERS_CELLS 16384u

struct peers {
    uint64_t seed; /* random: clients cannot choose addresses that collide */
    atomic_uint rows[2][PEERS_CELLS];
};

/* The address of a peer, "192.0.2.1:80" or "[2001:db8::1]:80", as the other calls take it. */
uint64_t peers_address(const struct peers *p, const char *peer);
/* Counts one connection more; returns how many there are with it. */
unsigned peers_enter(struct peers *p, uint64_t address);
void peers_leave(struct peers *p, uint64_t address);
