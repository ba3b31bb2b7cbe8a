/* place: the placement of a key on the disks of a node (decision D7): weighted rendezvous. Pure,
 * any thread.
 *
 * Every disk draws a number in (0, 1) from the hash of the key and its own id. The order of a
 * key is by weight / -ln(number), the largest first. So a disk gets keys in proportion to its
 * weight, and adding or removing a disk moves only its own share.
 *
 * The result is the same on every machine: only +, -, *, / on doubles, which IEEE 754 makes
 * exact. Never change it, because stored data depends on it.
 */
#pragma once
#include <stdint.h>

#include "base/span.h"

struct place_disk {
    uint64_t seed;   /* place_seed() of its id */
    uint64_t weight; /* capacity; 0: gets no keys */
};

uint64_t place_seed(const uint8_t disk_id[16]);
/* Hash of the bucket's immutable name and the key; a rename moves nothing. */
uint64_t place_hash(struct span immutable_name, struct span key);
/* Writes the first `want` disks of the key's order to out, as indices of `disks`. Returns their
 * number, which is lower if fewer have a weight. */
unsigned place_order(uint64_t key_hash, const struct place_disk *disks, unsigned count,
                     uint8_t *out, unsigned want);
