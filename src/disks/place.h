/* place: on which disks of a node a key lies (decision D7): weighted rendezvous. Pure, any thread.
 *
 * Every disk draws a number in (0, 1) from the hash of the key and its own id; the order of a key is by
 * weight / -ln(number), the largest first. So a disk gets keys in proportion to its weight, and one that comes or goes
 * moves only its own share. The result is the same on every machine: nothing but +, -, *, / on doubles, which IEEE 754
 * makes exact; never change it, data lies where it says.
 */
#pragma once
#include <stdint.h>

#include "base/span.h"

struct place_disk {
    uint64_t seed;   /* place_seed() of its id */
    uint64_t weight; /* capacity; 0: takes nothing */
};

uint64_t place_seed(const uint8_t disk_id[16]);
/* Of the bucket's name at birth, so that a rename moves nothing, and the key. */
uint64_t place_hash(struct span immutable_name, struct span key);
/* The first `want` of the key's order into out, as indices of `disks`; returns how many there are: fewer when not so many
 * have a weight. */
unsigned place_order(uint64_t key_hash, const struct place_disk *disks, unsigned count,
                     uint8_t *out, unsigned want);
