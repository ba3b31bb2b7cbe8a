/* Two disks that keep each object twice; the power cut at every single write, sync, creation and truncation of one small
 * workload: hundred seeds cover all of its events. What is left is opened and resolved, the power is cut once more at a
 * random event of that, and then both disks must agree. Protects D1, D2, D4, D8.
 */
#include "sim/replica_life.h"

#define STRIDE 100

static enum err
one_life(struct sim *s, struct replica_life *f, uint64_t cut, unsigned ops)
{
    struct errbuf eb = {0};
    enum err rc;

    f->epoch++;
    f->ops = ops;
    f->check_only = ops == 0;
    sim_cut_at(s, cut);
    rc = sim_run_world(s, live, f, &eb);
    CHECK(rc == ERR_OK || sim_was_cut(s));
    return rc;
}

/* All lives of one cut; returns how many events the first had when nothing cut it. */
static uint64_t
cut_at(uint64_t seed, uint64_t round, uint64_t cut, uint64_t *hash)
{
    struct sim_options o = {.seed = 5000 + round, .lossy = true, .max_delay_us = 50};
    struct sim *s = sim_new(&o);
    struct ledger ledger;
    struct replica_life f = {.ledger = &ledger};
    uint64_t events;

    ledger_init(&ledger);
    f.body = malloc((size_t)WORKERS * BODY_TOP);
    (void)one_life(s, &f, cut, 5);
    events = sim_events(s);
    (void)one_life(s, &f, 1 + (seed * 7 + cut) % 90, 1);
    (void)one_life(s, &f, 0, 0);
    *hash = hash_xxh3(&(uint64_t){sim_trace_hash(s)}, 8, *hash);
    free(f.body);
    sim_free(&s);
    return events;
}

static uint64_t
run(uint64_t seed)
{
    uint64_t round = (seed - 1) / STRIDE, hash = 0;
    uint64_t events = cut_at(seed, round, 0, &hash);

    CHECK(events > 40);
    for (uint64_t cut = 1 + (seed - 1) % STRIDE; cut <= events; cut += STRIDE)
        (void)cut_at(seed, round, cut, &hash);
    return hash;
}

int
main(int argc, char **argv)
{
    log_set_level(LOG_ERROR + 1);
    return sim_main(argc, argv, run);
}
