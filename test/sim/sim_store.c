/* One disk in the simulator: a random workload, the power cut at a random event, the disk opened again and held
 * against the ledger; several lives a seed. Protects D1, D2, D3 and V2: what was acknowledged is there, whole, in
 * its last version; what was refused changed nothing; what is unknown is wholly there or wholly absent; the
 * listing says the same. A third of the seeds works in the class cached: there a crash may lose what was stored,
 * but never brings back what was replaced or deleted (rule 4 of the format).
 */
#include "sim/store_life.h"

static uint64_t
run(uint64_t seed)
{
    struct sim_options o = {.seed = seed, .lossy = true, .max_delay_us = 300};
    struct sim *s = sim_new(&o);
    struct ledger ledger;
    struct life f = {.ledger = &ledger};
    uint64_t state = seed, hash = 0;
    unsigned lives = 2 + (unsigned)(sim_draw(&state) % 3);
    struct errbuf eb = {0};

    ledger_init(&ledger);
    f.class = seed % 3 == 0 ? STORE_CACHED : STORE_NATIVE;
    f.in_doubt = seed % 6 == 0;
    f.condemns = seed % 7 == 0;
    index_probe_all_of = seed % 5 == 0 ? 0 : MIB(32); /* else read behind the start */
    f.body = malloc((size_t)WORKERS * BODY_TOP);
    for (unsigned i = 0; i <= lives; i++) {
        f.epoch = i + 1;
        f.ops = 2 + (unsigned)(sim_draw(&state) % 12);
        f.check_only = i == lives;
        sim_cut_at(s, f.check_only ? 0 : 1 + sim_draw(&state) % 160);
        eb.text[0] = '\0';
        f.may_lose = f.class == STORE_CACHED && i > 0;
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
