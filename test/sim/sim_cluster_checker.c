/* The checkers of simulated clusters are checked (planted.h): a read without a lease, a write that is acknowledged and not
 * made, two owners at a time, a relay that is carried out under an old epoch, a fault of members that lets two nodes own a key,
 * and disks that lie about syncs. The other faults of members are found by test_members.
 */
#include "base/log.h"
#include "sim/cluster_keys.h"
#include "sim/cluster_whole.h"
#include "sim/planted.h"

static const struct {
    unsigned keys, members, whole;
} plants[] = {
    {KEYS_PLANT_STALE_READ, 0, 0},
    {KEYS_PLANT_LOST_WRITE, 0, 0},
    {KEYS_PLANT_TWO_OWNERS, 0, 0},
    {KEYS_PLANT_OLD_EPOCH, 0, 0},
    {KEYS_PLANT_UNFENCED, MEMBERS_PLANT_EVICT_EARLY, 0},
    {0, 0, WHOLE_PLANT_LYING_DISK},
};

static void
live_with(uint64_t seed, unsigned plant)
{
    members_plant = plants[plant - 1].members;
    if (plants[plant - 1].whole != 0)
        (void)whole_live(seed, plants[plant - 1].whole);
    else
        (void)keys_live(seed, plants[plant - 1].keys);
}

static uint64_t
run(uint64_t seed)
{
    return planted_tries(live_with, seed, ARRAY_LEN(plants), 40);
}

int
main(int argc, char **argv)
{
    log_set_level(LOG_ERROR + 1);
    return sim_main(argc, argv, run);
}
