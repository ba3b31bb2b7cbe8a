/* hole_rig: a cached log with objects, doubts and deletes, in which something is damaged. */
#pragma once
#include <errno.h>

#include "rt/test_hooks.h"
#include "world_damage.h"
#include "world_logs.h"

#include "base/mem.h"
#include "base/metrics.h"
#include "disk/compactor.h"
#include "disk/hole.h"
#include "disk/promised.h"
#include "disk/segment.h"

#define SIZE   3000u
#define FILLER (200u << 10) /* five of these fill a log */
static char *data;

/* Nothing is synced but what has to be: no flusher comes in between. */
static inline struct disk *
open_slow(uint64_t segment_bytes)
{
    struct disk_options o = world_options();

    o.segment_bytes = segment_bytes;
    o.index_interval_ms = 3600 * 1000;
    return world_open(&o);
}

static inline void
put(struct disk *d, const char *key, unsigned shift)
{
    struct row row;

    CHECK(world_put_class(d, DISK_CACHED, key, data + shift, SIZE, true, NULL, &row) ==
          ERR_OK);
}

static inline void delete (struct disk *d, const char *key)
{
    struct disk_key k = world_key(7, key);
    struct errbuf eb = {0};
    bool existed;

    CHECK(disk_delete(d, &k, DISK_CACHED, NULL, &existed, &eb) == ERR_OK && existed);
}

static inline void
doubt(struct disk *d, const char *key)
{
    struct disk_key k = world_key(7, key);
    struct errbuf eb = {0};

    CHECK(disk_doubt(d, &k, &eb) == ERR_OK);
}

static inline bool
is_served(struct disk *d, const char *key, unsigned shift)
{
    struct disk_key k = world_key(7, key);
    struct errbuf eb = {0};
    struct row row;
    enum err rc = disk_lookup(d, &k, &row, &eb);

    CHECK(rc == ERR_OK || rc == ERR_NOT_FOUND);
    if (rc != ERR_OK || (row.flags & ROW_DOUBT) != 0)
        return false;
    return world_get(d, key, data + shift, SIZE, 0, SIZE) == ERR_OK;
}

/* Where the next group goes. */
struct spot {
    uint32_t segment;
    uint64_t offset;
};

static inline struct spot
here(const struct disk *d)
{
    const struct segment *s = d->home.log[DISK_CACHED].now;

    return (struct spot){s->id, s->home.used};
}

static inline void
damage(struct spot at, uint64_t skip)
{
    world_flip_at(world_file("cached/log-%06u.tar", (unsigned)at.segment),
                  at.offset + skip);
}
#define IN_HEAD 700u  /* of the first member of a group */
#define IN_BODY 6000u /* of a put: its header is filled up to 5 KiB */

struct checked {
    unsigned faults, of_index;
};

static inline void
hear(void *arg, bool fault, const char *sentence)
{
    struct checked *c = arg;

    c->faults += fault;
    c->of_index += fault && strstr(sentence, "index") == sentence + 4;
}

static inline struct checked
check_disk(void)
{
    struct disk_checked found;
    struct checked c = {0};
    struct errbuf eb = {0};
    char scratch[300];

    snprintf(scratch, sizeof scratch, "%s/..", world_path);
    CHECK(disk_check(world_path, scratch, hear, &c, &found, &eb) == ERR_OK);
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
