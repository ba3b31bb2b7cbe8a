/* world_logs: where a disk of the world stands in its cached logs, and a log compacted at once, for tests that know its insides. */
#pragma once
#include "store/core/core.h"
#include "store/gc/compactor.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/wal/wal.h"
#include "world.h"

static inline struct segment *
world_log_now(const struct store *d)
{
    return d->wals->of[STORE_CACHED].now;
}

/* Writes objects of `len` bytes, which live on, until the next log is begun. */
static inline void
world_fill_log(struct store *d, const char *data, uint32_t len)
{
    static unsigned number;
    const struct segment *was = world_log_now(d);

    while (world_log_now(d) == was) {
        char key[32];
        struct entry entry;

        snprintf(key, sizeof key, "filler-%u", number++);
        REQUIRE(world_put_class(d, STORE_CACHED, key, data, len, true, NULL, &entry) ==
                ERR_OK);
    }
}

/* Moves what lives out of a log. Takes the reference. */
static inline void
world_compact_log(struct store *d, struct segment *s)
{
    struct compactor *k = d->compactor;
    struct errbuf eb = {0};

    REQUIRE(store_flush(d, &eb) == ERR_OK);
    REQUIRE(rt_sem_acquire(&k->turn, DEADLINE_NEVER) == ERR_OK);
    k->urgent++;
    CHECK(compact_logs.compact(k, &s, &eb) == ERR_OK);
    segment_drop(&s);
    k->urgent--;
    rt_sem_release(&k->turn);
}
