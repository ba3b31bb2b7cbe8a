/* table: finds a pointer by a string; open addressing, with a limit set at birth. The hash is seeded by the kernel's
 * random bytes of this process, so that a peer cannot choose keys that collide. One loop or thread at a time.
 *
 * Memory: the table owns its slots. It borrows keys, which must live as long as they are in the table (usually in the
 * value itself), and values, which are never NULL.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct table {
    struct table_slot {
        uint64_t hash;
        const char *key;
        size_t len;
        void *value; /* NULL: free */
    } * slots;
    size_t count, room, limit;
};

void table_init(struct table *m, size_t limit);
void table_fini(struct table *m);

void *table_get(const struct table *m, struct span key); /* NULL when not there */
/* Puts, or replaces key and value. false: the table holds `limit` keys and this is
 * another. */
bool table_put(struct table *m, struct span key, void *value)
    __attribute__((warn_unused_result));
void *table_erase(struct table *m, struct span key); /* removes and returns, or NULL */

/* Every value, in no order; the table must not change meanwhile. */
#define TABLE_EACH(m, slot)                                                              \
    for (struct table_slot *slot = (m)->slots;                                           \
         slot != NULL && slot < (m)->slots + (m)->room; slot++)                          \
        if (slot->value != NULL)
