/* Two disks that keep each object twice, in the simulator: a random workload, the power cut at a random event, both
 * opened again and resolved; several lives a seed. Protects D1, D2, D4, D8 and V1: what was acknowledged is on both
 * disks, whole, in its last version; what is unknown is on both or on none; deletes do not come back.
 */
#include "sim/replica_life.h"

static uint64_t
run(uint64_t seed)
{
    struct sim_options o = {.seed = seed, .lossy = true, .max_delay_us = 300};
    struct sim *s = sim_new(&o);
    struct ledger ledger;
    struct replica_life f = {.ledger = &ledger};
    uint64_t state = seed, hash = 0;
    unsigned lives = 2 + (unsigned)(sim_draw(&state) % 3);
    struct errbuf eb = {0};

    ledger_init(&ledger);
    f.body = malloc((size_t)WORKERS * BODY_TOP);
    for (unsigned i = 0; i <= lives; i++) {
        f.epoch++;
        f.ops = 2 + (unsigned)(sim_draw(&state) % 10);
        f.check_only = i == lives;
        sim_cut_at(s, f.check_only ? 0 : 1 + sim_draw(&state) % 250);
        eb.text[0] = '\0';
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
    log_set_level(getenv("V") ? LOG_DEBUG : LOG_ERROR + 1);
    return sim_main(argc, argv, run);
}
