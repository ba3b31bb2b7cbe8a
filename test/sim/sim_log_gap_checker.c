/* The checker of sim_log_gap.c is checked (planted.h): how far the cached log was promised is forgotten, or said to be further
 * than was synced. */
#include "sim/log_gap_life.h"
#include "sim/planted.h"

static void
live_with(uint64_t seed, unsigned plant)
{
    (void)log_gap_life(seed, plant == GAP_PLANT_FORGOTTEN ? GAP_AT_END : GAP_NOWHERE,
                       (enum gap_plant)plant);
}

static uint64_t
run(uint64_t seed)
{
    return planted_tries(live_with, seed, GAP_PLANTS_ - 1, 60);
}

int
main(int argc, char **argv)
{
    log_set_level(LOG_ERROR + 1);
    return sim_main(argc, argv, run);
}
