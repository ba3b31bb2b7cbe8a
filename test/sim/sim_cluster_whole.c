/* Whole nodes of a cluster in the simulator, HTTP and S3 included: power cuts, kills, pauses beyond the lease, ways that are
 * cut in one direction or both, slow ones, connections that break, an etcd that stands still or dies. Protects: what was
 * acknowledged is there; every history is linearizable; all nodes come in when the trouble is over.
 */
#include "base/log.h"
#include "sim/cluster_whole.h"

static uint64_t
run(uint64_t seed)
{
    return whole_live(seed, 0);
}

int
main(int argc, char **argv)
{
    log_set_level(getenv("V") ? LOG_INFO : LOG_ERROR + 1);
    return sim_main(argc, argv, run);
}
