/* map: finds a pointer by a string or by a number; open addressing, with a limit set at birth. Hashing is
 * seeded by the kernel's random bytes of this process, so that a peer cannot choose keys that collide. One
 * loop or thread at a time.
 *
 * Memory: the map owns its slots; it borrows string keys, which must live as long as they are in the map
 * (usually in the value itself), and values, which are never NULL. One map takes strings or numbers, not both.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct map {
    struct map_slot {
        uint64_t hash;
        const char *key; /* NULL: the key is the number in `len` */
        uint64_t len;
        void *value; /* NULL: free */
    } * slots;
    size_t count, room, limit;
};

void map_init(struct map *m, size_t limit);
void map_fini(struct map *m);

void *map_get(const struct map *m, struct span key); /* NULL when not there */
/* Puts, or replaces key and value. false: the map holds `limit` keys and this is another. */
bool map_put(struct map *m, struct span key, void *value)
    __attribute__((warn_unused_result));
void *map_take(struct map *m, struct span key); /* removes and returns, or NULL */

void *map_get_u64(const struct map *m, uint64_t key);
bool map_put_u64(struct map *m, uint64_t key, void *value)
    __attribute__((warn_unused_result));
void *map_take_u64(struct map *m, uint64_t key);

/* Every value, in no order; the map must not change meanwhile. */
#define MAP_EACH(m, slot)                                                                \
    for (struct map_slot *slot = (m)->slots;                                             \
         slot != NULL && slot < (m)->slots + (m)->room; slot++)                          \
        if (slot->value != NULL)
