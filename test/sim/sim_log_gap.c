/* Damage in the middle of the cached log or in its last groups, then an index rebuilt from the logs by a start that is cut
 * again and again, or not at all: whatever was deleted, replaced or put in doubt is never served as it was before, and no
 * byte is wrong. The damage is anything from a bit to many pages, of one group or many; at the end nothing behind it tells
 * what had been synced. A power cut instead is never taken for damage. Protects rule 4 of the format, I5. */
#include "sim/log_gap_life.h"

static uint64_t
run(uint64_t seed)
{
    static const enum gap_where wheres[] = {GAP_AT_END, GAP_MIDDLE, GAP_NOWHERE};

    return log_gap_life(seed, wheres[seed % GAP_WHERES_], GAP_PLANT_NONE);
}

int
main(int argc, char **argv)
{
    int failed;

    log_set_level(getenv("V") ? LOG_DEBUG : LOG_ERROR + 1);
    failed = sim_main(argc, argv, run);
    printf("%" PRIu64 " served, %" PRIu64 " starts dropped the cache\n", served, dropped);
    return failed;
}
