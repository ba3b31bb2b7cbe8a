/* The checker of sim_disks.c is checked (planted.h): a disk that lies about syncs, a write or a delete that is acknowledged
 * and never happened, a byte that is not the one that was sent, pieces of a body that never arrive. */
#include "sim/disks_life.h"
#include "sim/planted.h"

static void
live_with(uint64_t seed, unsigned plant)
{
    (void)lives(seed, 1, (enum plant)plant);
}

static uint64_t
run(uint64_t seed)
{
    return planted_tries(live_with, seed, PLANTS_ - 1, 40);
}

int
main(int argc, char **argv)
{
    log_set_level(LOG_ERROR + 1);
    return sim_main(argc, argv, run);
}
