/* Inside of run*.c. */
#pragma once
#include "store/index/run.h"
#include "store/record/keys.h"
#include <endian.h>
#include <stdatomic.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

/* One change; key and value stand behind each other in `bytes`. */
struct item {
    uint64_t bucket;
    uint32_t at;   /* in bytes; rises in the order in which changes came */
    uint32_t hash; /* of table, bucket, key */
    uint16_t key_len, value_len;
    uint8_t table;
};

/* Keys and values. A run that was gathered and what it becomes in order share them. */
struct run_buffer {
    _Atomic uint32_t refs;
    struct buf buf;
    char *big; /* owned: what `buf` writes into; NULL: it has memory of its own */
};

struct run {
    _Atomic uint32_t refs;
    bool finished, gathers;
    struct run_buffer *run_buffer; /* one reference */
    const char *bytes;             /* of the run_buffer */
    struct item *items;            /* owned; sorted once finished */
    uint32_t count, room;
    uint32_t *slots; /* owned; open addressing, item + 1 or 0; of one that gathers, too */
    uint32_t slot_mask;
    struct run_segment *segments; /* owned */
    uint32_t segment_count;
};

void run_build_slots(struct run *r, uint32_t least); /* of so many slots at least */
void run_add_segments(struct run *r, const struct run *from);

static inline struct span
item_key(const struct run *r, const struct item *i)
{
    return (struct span){r->bytes + i->at, i->key_len};
}

static inline struct span
item_value(const struct run *r, const struct item *i)
{
    return (struct span){r->bytes + i->at + i->key_len, i->value_len};
}

static inline int
item_compare_place(enum table ta, uint64_t ba, struct span ka, enum table tb, uint64_t bb,
                   struct span kb)
{
    if (ta != tb)
        return ta < tb ? -1 : 1;
    if (ba != bb)
        return ba < bb ? -1 : 1;
    return span_cmp(ka, kb);
}

/* Keys have long beginnings in common, and comparing them reads memory here and there. So they are compared by the eight
 * bytes behind what all of them begin with, as a number that stands beside; as a whole only where these are the same. */
static inline size_t
common_part(struct span a, struct span b, size_t most)
{
    size_t n = 0;

    most = MIN(most, MIN(a.len, b.len));
    while (n < most && a.at[n] == b.at[n])
        n++;
    return n;
}

static inline uint64_t
bytes_behind(struct span key, size_t skip)
{
    uint64_t first = 0;

    if (key.len - skip >= sizeof first)
        memcpy(&first, key.at + skip, sizeof first);
    else
        memcpy(&first, key.at + skip, key.len - skip);
    return be64toh(first);
}
