/* The disks of one node in the simulator: random work in a bucket with one copy and one with two, under power cuts, I/O
 * errors, a full disk, a slow one, one that leaves, and a clock that jumps; several lives a seed, each held against the
 * ledger. Protects D1, D2, D3, D9, F1, F2, V2, V4, V6: what was acknowledged is there, whole, in its last version;
 * what was refused changed nothing; what is unknown is wholly there or wholly absent.
 */
#include "sim/disks_life.h"

static uint64_t
run(uint64_t seed)
{
    return lives(seed, NODE_DISKS, PLANT_NONE);
}

int
main(int argc, char **argv)
{
    log_set_level(getenv("V") ? LOG_DEBUG : LOG_ERROR + 1);
    return sim_main(argc, argv, run);
}
