/* The power cut at each named fault point (rt/point.h), the first time it is passed, the second, and so on: seeds count
 * through points and times. After it the disks are opened, held against the ledger, worked on, cut at the same point of that
 * start, and looked at once more; in every second round body segments are compacted too. Protects D1, D2, D3, D6, T2.
 */
#include "sim/disks_life.h"

static uint64_t
run(uint64_t seed)
{
    enum point p = (enum point)(seed % POINTS_OF_DISKS);
    uint64_t nth = 1 + seed / POINTS_OF_DISKS % 7;
    struct sim_options o = {.seed = seed, .lossy = true, .max_delay_us = 100};
    struct sim *s = sim_new(&o);
    struct ledger ledger;
    struct life f = {.sim = s, .ledger = &ledger, .disks = NODE_DISKS};
    struct errbuf eb = {0};
    uint64_t hash = 0;

    ledger_init(&ledger);
    f.bodies = seed / POINTS_OF_DISKS % 2 == 1;
    f.body = malloc((size_t)WORKERS * BODY_TOP);
    for (unsigned life = 0; life < 4; life++) {
        f.epoch = life + 1;
        f.ops = 12;
        f.check_only = life == 3;
        sim_cut_at_point(s, p, life == 1 ? nth : life == 2 ? 1 : 0);
        if (sim_run_world(s, live, &f, &eb) != ERR_OK)
            CHECK(sim_was_cut(s));
        hash = hash_xxh3(&(uint64_t){sim_trace_hash(s)}, 8, hash);
    }
    free(f.body);
    sim_free(&s);
    return hash;
}

int
main(int argc, char **argv)
{
    log_set_level(LOG_ERROR + 1);
    return sim_main(argc, argv, run);
}
