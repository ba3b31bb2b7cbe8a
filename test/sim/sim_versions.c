/* Versions over the disks of one node in the simulator: random puts, delete markers, null versions, tags and ends by id in
 * a bucket with one copy and one with two, under all that sim_disks.c has: power cuts, I/O errors, a full disk, one that
 * leaves and comes back with what was ended meanwhile, drains; several lives a seed, each held against the ledger of births.
 * Protects D1, D2, D4, D8, V2, V7.
 */
#include "sim/versions_life.h"

static uint64_t
run(uint64_t seed)
{
    static struct births ledger;

    births_init(&ledger);
    return lives_of(seed, NODE_DISKS, PLANT_NONE, &births_kind, &ledger);
}

int
main(int argc, char **argv)
{
    log_set_level(getenv("V") ? LOG_DEBUG : LOG_ERROR + 1);
    return sim_main(argc, argv, run);
}
