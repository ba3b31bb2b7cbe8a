/* keys: operations in flight on keys of cached buckets. Each key has an owner loop; its slot lives there while it
 * is referenced. A slot has at most one fetch that others may join (readers of an older fetch finish it) and at
 * most one write-through. All calls of this header run on the owner loop. */
#pragma once
#include "base/list.h"
#include "base/table.h"
#include "object/internal.h"

#define KEYS_BUSY_MAX 65536 /* keys in flight on a loop; beyond: ERR_BUSY */

struct key_slot {
    char *name; /* bucket id, 8 bytes, and the key; owned */
    size_t name_len;
    unsigned refs;
    bool writing;
    bool asking; /* a revalidation is in flight */
    unsigned
        answers; /* completed revalidations, and the last one: its version and result */
    struct version asked;
    enum err answer;
    struct fetch *fetch;    /* borrowed: the fetch removes itself */
    struct rt_cond changed; /* `writing` or `asking` ended, or a fetch began or ended */
    struct key_table *table;
};
struct key_table {
    struct table slots;
    struct list fetches; /* all of this loop: a slot may have a newer one by now */
    struct rt_cond emptied;
    bool stopping; /* no fetch may begin */
};

unsigned key_owner_loop(const struct map_bucket *b,
                        struct span key); /* index of the loop; callable on any loop */
/* One reference. ERR_BUSY. */
enum err key_slot_get(struct object_service *s, uint64_t bucket, struct span key,
                      struct key_slot **out, struct errbuf *eb) MUST_CHECK;
void key_slot_drop(struct key_slot **sp);
/* Runs fn(arg) on loop `owner`; directly when this is that loop. The caller keeps the arguments. May switch. */
enum err key_run_on_owner(unsigned owner, fiber_fn *fn, void *arg) MUST_CHECK;
/* The same; cancelling this fiber also cancels fn(arg) there. */
enum err key_run_on_owner_cancellable(unsigned owner, fiber_fn *fn, void *arg) MUST_CHECK;
