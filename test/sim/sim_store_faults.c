/* Every wait of a workload cancelled, and failed in two ways, and every buffer that it asks for refused: the code unwinds without a leak (ASan, and the
 * simulator's count of open files, tell), nothing half-done is seen, and the next start finds what was acknowledged.
 * Hundred seeds cover all waits and buffers. Protects D1, D3, D9, F8.
 */
#include "rt/test_hooks.h"
#include "sim/store_life.h"

#define STRIDE 100

static const enum err ways[] = {ERR_CANCELLED, ERR_IO, ERR_BUSY};

struct counts {
    uint64_t waits, buffers;
};

/* nth 0: nothing fails. `how` ERR_OK: the nth buffer is refused, else the nth wait fails so. */
static uint64_t
disturb(uint64_t round, uint64_t nth, enum err how, struct counts *out)
{
    struct sim_options o = {.seed = 4243 + round, .max_delay_us = 50};
    struct sim *s = sim_new(&o);
    struct ledger ledger;
    struct life f = {.ledger = &ledger};
    struct errbuf eb = {0};
    uint64_t hash;

    ledger_init(&ledger);
    f.body = malloc((size_t)WORKERS * BODY_TOP);
    f.epoch = 1;
    f.ops = 6;
    f.disturbed = nth > 0;
    sim_disturb_wait(s, how != ERR_OK ? nth : 0, how != ERR_OK ? how : ERR_IO);
    rt_test_refuse_buffer(how == ERR_OK ? nth : 0);
    if (sim_run_world(s, live, &f, &eb) != ERR_OK)
        CHECK(nth > 0);
    *out = (struct counts){sim_waits(s), rt_test_buffers()};
    rt_test_refuse_buffer(0);
    hash = sim_trace_hash(s);
    sim_disturb_wait(s, 0, ERR_IO);
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
    struct counts all, unused;
    uint64_t round = (seed - 1) / STRIDE, first = 1 + (seed - 1) % STRIDE;
    uint64_t hash = disturb(round, 0, ERR_IO, &all);

    if (seed == 1)
        fprintf(stderr, "%" PRIu64 " waits, %" PRIu64 " buffers\n", all.waits,
                all.buffers);
    /* The first round is worth its name; what others draw may be less. */
    CHECK(all.waits > (round == 0 ? 100 : 0) && all.buffers > (round == 0 ? 30 : 0));
    for (uint64_t nth = first; nth <= all.buffers; nth += STRIDE)
        hash = hash_xxh3(&hash, sizeof hash, disturb(round, nth, ERR_OK, &unused));
    for (uint64_t nth = first; nth <= all.waits; nth += STRIDE) {
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
