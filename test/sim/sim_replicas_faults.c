/* Two disks that keep each object twice; every wait of a workload cancelled, and failed in two ways: nothing leaks, and
 * the next start brings both disks to one outcome that the ledger allows. Hundred seeds cover all waits. Protects D1,
 * D3, D4, F8.
 */
#include "sim/replica_life.h"

#define STRIDE 100

static const enum err ways[] = {ERR_CANCELLED, ERR_IO, ERR_BUSY};

/* nth 0: nothing fails. */
static uint64_t
disturb(uint64_t round, uint64_t nth, enum err how, uint64_t *waits)
{
    struct sim_options o = {.seed = 7000 + round, .max_delay_us = 50};
    struct sim *s = sim_new(&o);
    struct ledger ledger;
    struct replica_life f = {.ledger = &ledger};
    struct errbuf eb = {0};
    uint64_t hash;

    ledger_init(&ledger);
    f.body = malloc((size_t)WORKERS * BODY_TOP);
    f.epoch = 1;
    f.ops = 2;
    f.disturbed = nth > 0;
    sim_disturb_wait(s, nth, how);
    if (sim_run_world(s, live, &f, &eb) != ERR_OK)
        CHECK(nth > 0);
    *waits = sim_waits(s);
    hash = sim_trace_hash(s);
    sim_disturb_wait(s, 0, how);
    f.epoch = 2;
    f.check_only = true;
    f.disturbed = false;
    CHECK(sim_run_world(s, live, &f, &eb) == ERR_OK);
    free(f.body);
    sim_free(&s);
    return hash;
}

static uint64_t
run(uint64_t seed)
{
    uint64_t round = (seed - 1) / STRIDE, waits, unused;
    uint64_t hash = disturb(round, 0, ERR_IO, &waits);

    CHECK(waits > 100);
    for (uint64_t nth = 1 + (seed - 1) % STRIDE; nth <= waits; nth += STRIDE) {
        for (unsigned i = 0; i < sizeof ways / sizeof ways[0]; i++)
            hash = hash_xxh3(&hash, sizeof hash, disturb(round, nth, ways[i], &unused));
    }
    return hash;
}

int
main(int argc, char **argv)
{
    log_set_level(LOG_ERROR + 1);
    return sim_main(argc, argv, run);
}
