/* hole_rig: a cached log with objects, in_doubt and deletes, in which something is damaged. */
#pragma once
#include <errno.h>

#include "rt/test_hooks.h"
#include "world_damage.h"
#include "world_wal.h"

#include "base/mem.h"
#include "base/metrics.h"
#include "store/core/core.h"
#include "store/gc/compactor.h"
#include "store/recover/recovery.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_options.h"
#include "store/store_write.h"
#include "store/wal/log_gap.h"
#include "store/wal/truncated.h"
#include "store/wal/wal.h"

#define SIZE   3000u
#define FILLER (200u << 10) /* five of these fill a log */
static char *data;

/* Nothing is synced but what has to be: no flusher comes in between. */
static inline struct store *
open_slow(uint64_t segment_bytes)
{
    struct store_options o = world_options();

    o.segment_bytes = segment_bytes;
    o.index_interval_ms = 3600 * 1000;
    return world_open(&o);
}

static inline void
put(struct store *d, const char *key, unsigned shift)
{
    struct entry entry;

    CHECK(world_put_class(d, STORE_CACHED, key, data + shift, SIZE, true, NULL, &entry) ==
          ERR_OK);
}

static inline void delete (struct store *d, const char *key)
{
    struct store_key k = world_key(7, key);
    struct errbuf eb = {0};
    bool existed;

    CHECK(store_delete(d, &k, STORE_CACHED, NULL, &existed, &eb) == ERR_OK && existed);
}

static inline void
in_doubt(struct store *d, const char *key)
{
    struct store_key k = world_key(7, key);
    struct errbuf eb = {0};

    CHECK(store_in_doubt_begin(d, &k, &eb) == ERR_OK);
}

static inline bool
is_served(struct store *d, const char *key, unsigned shift)
{
    struct store_key k = world_key(7, key);
    struct errbuf eb = {0};
    struct entry entry;
    enum err rc = store_lookup(d, &k, &entry, &eb);

    CHECK(rc == ERR_OK || rc == ERR_NOT_FOUND);
    if (rc != ERR_OK || (entry.flags & ENTRY_IN_DOUBT) != 0)
        return false;
    return world_get(d, key, data + shift, SIZE, 0, SIZE) == ERR_OK;
}

/* Where the next batch goes. */
struct spot {
    uint32_t segment;
    uint64_t offset;
};

static inline struct spot
here(const struct store *d)
{
    const struct segment *s = d->wals->of[STORE_CACHED].now;

    return (struct spot){s->id, s->owner.used};
}

static inline void
damage(struct spot at, uint64_t skip)
{
    world_flip_at(world_file("cached/log-%06u.tar", (unsigned)at.segment),
                  at.offset + skip);
}
/* As a power cut leaves it, that took a batch before the durable mark was written. */
static inline void
lose_mark(void)
{
    char path[400];

    snprintf(path, sizeof path, "%s/.forebay/%s", world_path, TRUNCATED_FILE);
    CHECK(unlink(path) == 0);
}
#define IN_HEAD 700u  /* of the first record of a batch */
#define IN_BODY 6000u /* of a put: its header is filled up to 5 KiB */

struct checked {
    unsigned faults, of_index;
};

static inline void
on_finding(void *arg, bool fault, const char *sentence)
{
    struct checked *c = arg;

    c->faults += fault;
    c->of_index += fault && strstr(sentence, "index") == sentence + 4;
}

static inline struct checked
check_disk(void)
{
    struct store_checked found;
    struct checked c = {0};
    struct errbuf eb = {0};
    char scratch[300];

    snprintf(scratch, sizeof scratch, "%s/..", world_path);
    CHECK(store_check(world_path, scratch, on_finding, &c, &found, &eb) == ERR_OK);
    return c;
}

/* Is there such a file in the folder of the list? */
static inline bool
has_state(const char *name, struct stat *out)
{
    char path[400];

    snprintf(path, sizeof path, "%s/.forebay/%s", world_path, name);
    return stat(path, out) == 0;
}

static inline int64_t
damages(void)
{
    return metric_read(M_CHECKSUM_FAILURES, 0);
}
