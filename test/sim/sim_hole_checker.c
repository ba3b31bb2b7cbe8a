/* The checker of sim_hole.c is checked (planted.h): how far the cached log was promised is forgotten, or said to be further
 * than was synced. */
#include "sim/hole_life.h"
#include "sim/planted.h"

static void
live_with(uint64_t seed, unsigned plant)
{
    (void)hole_life(seed, plant == HOLE_PLANT_FORGOTTEN ? HOLE_AT_END : HOLE_NOWHERE,
                    (enum hole_plant)plant);
}

static uint64_t
run(uint64_t seed)
{
    return planted_tries(live_with, seed, HOLE_PLANTS_ - 1, 60);
}

int
main(int argc, char **argv)
{
    log_set_level(LOG_ERROR + 1);
    return sim_main(argc, argv, run);
}
