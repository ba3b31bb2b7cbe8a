/* Compaction and punching in the simulator: a random workload on small segments, in which objects are put, replaced,
 * deleted, uploaded in parts and read while logs and body segments are compacted and dead bodies punched; the power cut at a random event,
 * or at every one of a short workload (--every); then the disk is opened again and held against the ledger. The index
 * is thrown back or away by a cut, so that what compaction left in the logs is also all that is known. Protects D1, D3,
 * V3 and I4: moving loses nothing, tears nothing and brings nothing back.
 */
#include "sim/store_life.h"

static uint64_t
run(uint64_t seed)
{
    struct sim_options o = {.seed = seed, .lossy = true, .max_delay_us = 300};
    struct sim *s = sim_new(&o);
    struct ledger ledger;
    struct life f = {.ledger = &ledger, .compacts = 4};
    uint64_t state = seed, hash = 0;
    unsigned lives = 3 + (unsigned)(sim_draw(&state) % 3);
    struct errbuf eb = {0};

    ledger_init(&ledger);
    f.class = seed % 4 == 0 ? STORE_CACHED : STORE_NATIVE;
    f.evicts = seed % 8 == 0;
    f.in_doubt = seed % 16 == 12;
    f.segment_bytes = (sim_draw(&state) % 2 == 0 ? 128u : 768u) << 10;
    f.bodies = seed % 3 == 2;
    index_probe_all_of = seed % 5 == 1 ? 0 : MIB(32); /* else read behind the start */
    if (f.bodies)
        f.segment_bytes = 2u << 20;
    f.body = malloc((size_t)WORKERS * BODY_TOP);
    for (unsigned i = 0; i <= lives; i++) {
        f.epoch = i + 1;
        f.ops = 4 + (unsigned)(sim_draw(&state) % 20);
        f.check_only = i == lives;
        sim_cut_at(s, f.check_only || i == 0 ? 0 : 1 + sim_draw(&state) % 500);
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
    int failed;

    log_set_level(getenv("V") ? LOG_DEBUG : LOG_ERROR + 1);
    failed = sim_main(argc, argv, run);
    printf("%" PRId64 " bytes moved, given back: %" PRId64 " unlinked, %" PRId64
           " punched, %" PRId64 " compacted\n",
           metric_read(M_DISK_APPENDED, 1), metric_read(M_DISK_RECLAIMED, 0),
           metric_read(M_DISK_RECLAIMED, 1), metric_read(M_DISK_RECLAIMED, 2));
    return failed;
}
