/* Two disks; the power goes in the middle of writes, at the next start one of them can't be asked what became of them, and then it is
 * lost: what was acknowledged with two copies is on the other one. It comes back, and all is as it was seen without it.
 * Protects D1 and D4: what a copy has prepared is aborted only after every replica was asked.
 */
#include "disks/rebalance.h"
#include "sim/disks_life.h"

#define KEPT_DISKS 2

static uint64_t
prepared_count(struct disks *set)
{
    struct store_stat st;

    disks_stat(set, &st);
    return st.prepared;
}

/* Until a pass has reached the prepared versions, or none is left. Virtual time. */
static void
until_asked(struct life *f)
{
    struct disks_status *s = calloc(1, sizeof *s);

    for (unsigned i = 0; i < 2000 && prepared_count(f->set) > 0 && s->failed == 0; i++) {
        disks_status(f->set, s);
        if (rt_sleep_ms(i % 4) != ERR_OK)
            break;
    }
    free(s);
}

/* A start at which the victim is unreachable. It ends at once: what a pass copies would hide what was aborted. */
static void
live_unreachable(void *arg)
{
    struct life *f = arg;
    struct disks_options o = life_options(f);
    struct errbuf eb = {0};

    if (disks_open(&o, &f->set, &eb) != ERR_OK) {
        if (!rt_cancelled())
            CHECK_STR(eb.text, "open disks");
        return;
    }
    prepared_unreachable = (uint64_t)1 << f->victim;
    disks_buckets(f->set, next_bucket, NULL);
    until_asked(f);
    disks_close(&f->set);
    prepared_unreachable = 0;
}

static void
look_without(struct life *f, struct ledger_key *k)
{
    struct disks_key key = key_of(f, k);
    struct errbuf eb = {0};
    struct entry entry;
    enum err rc = disks_lookup(f->set, &key, &entry, &eb);

    if (rc == ERR_OK) {
        (void)check_key(f, k);
    } else if (!ledger_allows(k, (struct ledger_state){0}) || rc == ERR_CORRUPT) {
        complain(k, (struct ledger_state){0}, rc, &eb);
        CHECK(rc == ERR_OK);
    }
}

/* The victim is lost. An unacknowledged write may exist there alone, and is lost with it. */
static void
live_without(void *arg)
{
    struct life *f = arg;
    struct disks_options o = life_options(f);
    const char *lost = life_paths[f->victim];
    struct errbuf eb = {0};
    enum err rc;

    o.paths = &life_paths[KEPT_DISKS - 1 - f->victim];
    o.count = 1;
    o.without = &lost;
    o.without_count = 1;
    rc = disks_open(&o, &f->set, &eb);
    CHECK_STR(rc == ERR_OK ? "" : eb.text, "");
    if (rc != ERR_OK)
        return;
    disks_buckets(f->set, next_bucket, NULL);
    until_asked(f);
    CHECK_U64(prepared_count(f->set), 0); /* its order is kept */
    f->disturbed = f->lossless = true;
    for (unsigned i = 0; i < LEDGER_KEYS; i++)
        if (copies_of(f, &f->ledger->keys[i]) > 1)
            look_without(f, &f->ledger->keys[i]);
    f->disturbed = f->lossless = false;
    disks_close(&f->set);
}

static uint64_t
one_world(struct sim *s, struct life *f, fiber_fn *world, uint64_t hash)
{
    struct errbuf eb = {0};

    f->epoch++;
    if (sim_run_world(s, world, f, &eb) != ERR_OK)
        CHECK(sim_was_cut(s));
    return hash_xxh3(&(uint64_t){sim_trace_hash(s)}, 8, hash);
}

static uint64_t
run(uint64_t seed)
{
    struct sim_options o = {.seed = seed, .lossy = true, .max_delay_us = 300};
    struct sim *s = sim_new(&o);
    struct ledger ledger;
    struct life f = {.sim = s, .ledger = &ledger, .disks = KEPT_DISKS};
    uint64_t state = seed, hash;

    ledger_init(&ledger);
    f.body = malloc((size_t)WORKERS * BODY_TOP);
    f.ops = 3 + (unsigned)(sim_draw(&state) % 12);
    f.victim = (unsigned)(sim_draw(&state) % KEPT_DISKS);
    if (sim_draw(&state) % 2 == 0)
        sim_cut_at_point(s, POINT_COPY_RESOLVED, 1 + sim_draw(&state) % 6);
    else
        sim_cut_at(s, 1 + sim_draw(&state) % 300);
    hash = one_world(s, &f, live, 0);
    sim_cut_at_point(s, POINT_COPY_RESOLVED, 0);
    sim_cut_at(s, sim_draw(&state) % 2 * (sim_draw(&state) % 60));
    hash = one_world(s, &f, live_unreachable, hash);
    prepared_unreachable = 0;
    sim_cut_at(s, 0);
    hash = one_world(s, &f, live_without, hash);
    f.check_only = true;
    hash = one_world(s, &f, live, hash);
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
