/* keys: who is at work on a key of a cached bucket. Each key has a owner loop; its slot lives there, while anybody holds
 * it: at most one fetch that others may join (who reads an older one finishes beside it), at most one write-through. All calls of this header run on the owner loop.
 */
#pragma once
#include "base/list.h"
#include "base/table.h"
#include "object/internal.h"

#define KEYS_BUSY_MAX 65536 /* keys under way on a loop; beyond: ERR_BUSY */

struct key_slot {
    char *name; /* bucket id, 8 bytes, and the key; owned */
    size_t name_len;
    unsigned refs;
    bool writing;
    bool asking;      /* the remote, whether what is kept is still its own */
    unsigned answers; /* how many came, and the last: about which version, and what */
    struct version asked;
    enum err answer;
    struct fetch *fetch;    /* borrowed: it leaves by itself */
    struct rt_cond changed; /* `writing` or `asking` went, or a fetch began or ended */
    struct key_table *table;
};
struct key_table {
    struct table slots;
    struct list fetches; /* all of this loop: a slot may have a newer one by now */
    struct rt_cond emptied;
    bool stopping; /* no fetch begins any more */
};

unsigned key_owner_loop(const struct map_bucket *b,
                        struct span key); /* index of the loop; any loop may ask */
/* One reference. ERR_BUSY. */
enum err key_slot_get(struct object_service *s, uint64_t bucket, struct span key,
                      struct key_slot **out, struct errbuf *eb) MUST_CHECK;
void key_slot_drop(struct key_slot **sp);
/* Runs fn(arg) on loop `owner`: at once when this is it. Arguments stay with the caller. May switch. */
enum err key_run_on_owner(unsigned owner, fiber_fn *fn, void *arg) MUST_CHECK;
/* The same; a cancel of this fiber is one of fn(arg), there too. */
enum err key_run_on_owner_cancellable(unsigned owner, fiber_fn *fn, void *arg) MUST_CHECK;
