/* report: what status pages show of the disks: names of states, and scrubs. */
#pragma once
#include "disks/disks.h"
#include "store/store_health.h"

const char *disks_health_name(const struct disks_one *d);
bool disks_is_healthy(const struct disks_one *d);
const char *disks_index_name(const struct disks_one *d);

/* Space and counts of all disks of the node together. */
struct disks_sum {
    struct store_stat of;
};
void disks_sum(struct disks *ds, struct disks_sum *out);

/* Calls fn for each open disk; `path` and `s` are valid until it returns. Stops at the first
 * error. May switch. */
enum err disks_scrub_each(struct disks *ds,
                          void (*fn)(void *arg, const char *path,
                                     const struct scrub_status *s),
                          void *arg, struct errbuf *eb) MUST_CHECK;
/* Starts a pass on every open disk; returns the last error, if any. */
enum err disks_scrub_start(struct disks *ds, struct errbuf *eb) MUST_CHECK;
