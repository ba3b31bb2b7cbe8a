/* world_logs: where a disk of the world stands in its cached logs, for tests that know its insides. */
#pragma once
#include "disk/internal.h"
#include "world.h"

static inline struct segment *
world_log_now(const struct disk *d)
{
    return d->home.log[DISK_CACHED].now;
}

/* Writes objects of `len` bytes, which live on, until the next log is begun. */
static inline void
world_fill_log(struct disk *d, const char *data, uint32_t len)
{
    static unsigned number;
    const struct segment *was = world_log_now(d);

    while (world_log_now(d) == was) {
        char key[32];
        struct row row;

        snprintf(key, sizeof key, "filler-%u", number++);
        REQUIRE(world_put_class(d, DISK_CACHED, key, data, len, true, NULL, &row) ==
                ERR_OK);
    }
}
