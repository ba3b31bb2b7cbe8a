/* Members of a cluster in the simulator, each with its own clocks: crashes, pauses beyond the lease, ways that are cut in one
 * direction or both, slow ones, connections that break, an etcd that stands still or dies. Protects: one owner of a key at a
 * time; what was acknowledged is there; every history is linearizable; all nodes come in when the trouble is over.
 */
#include "base/log.h"
#include "sim/cluster_keys.h"

static uint64_t
run(uint64_t seed)
{
    return keys_live(seed, 0);
}

int
main(int argc, char **argv)
{
    log_set_level(getenv("V") ? LOG_INFO : LOG_ERROR + 1);
    return sim_main(argc, argv, run);
}
