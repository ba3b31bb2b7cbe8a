/* Damage in the middle of the cached log; a start rebuilds the index, and the disk works on: the logs behind the hole are compacted.
 * Then the index is lost once more, in starts that are cut: what was put in doubt, replaced or deleted is not served as it was
 * before, though the records that stood behind the hole have moved. Protects rule 4 of the format, I5. */
#include "sim/log_gap_life.h"

static uint64_t
run(uint64_t seed)
{
    return log_gap_life(seed, GAP_COMPACTED, GAP_PLANT_NONE);
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
