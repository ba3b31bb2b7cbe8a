/* Power cuts, and a check of the disk after each, before anything has recovered: whatever a crash leaves behind is no
 * fault, neither in a native disk nor in a cached one, whose bodies are not synced. And after the last life the index says what
 * the logs say, byte by byte. Protects D1, O4. */
#include "sim/store_life.h"

struct checked {
    struct store_checked result;
    enum err rc;
};

static void
say(void *arg, bool fault, const char *sentence)
{
    (void)arg;
    if (fault)
        fprintf(stderr, "%s\n", sentence);
}

static void
check(void *arg)
{
    struct checked *c = arg;
    struct errbuf eb = {0};

    c->rc = store_check(PATH, "/disk", say, NULL, &c->result, &eb);
    if (c->rc != ERR_OK && c->rc != ERR_NOT_FOUND)
        fprintf(stderr, "%s: %s\n", err_name(c->rc), eb.text);
}

static uint64_t
living(const struct ledger *l)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < LEDGER_KEYS; i++)
        count += l->keys[i].known.write != 0;
    return count;
}

static uint64_t
run(uint64_t seed)
{
    struct sim_options o = {.seed = seed, .lossy = true, .max_delay_us = 300};
    struct sim *s = sim_new(&o);
    struct ledger ledger;
    bool cached = seed % 2 == 0;
    struct life f = {.ledger = &ledger,
                     .class = cached ? STORE_CACHED : STORE_NATIVE,
                     .no_uploads = cached}; /* those of cached buckets are the remote's */
    uint64_t hash = 0, state = seed;
    struct checked c;
    struct errbuf eb = {0};

    ledger_init(&ledger);
    f.body = malloc((size_t)WORKERS * BODY_TOP);
    for (unsigned i = 0; i < 4; i++) {
        bool last = i == 3;

        f.epoch = i + 1;
        f.check_only = last;
        f.may_lose = cached && i > 0;
        state = hash_xxh3(&state, sizeof state, i);
        f.ops = 2 + (unsigned)(state % 12);
        sim_cut_at(s, last ? 0 : 20 + state % 200);
        if (sim_run_world(s, live, &f, &eb) != ERR_OK)
            CHECK(sim_was_cut(s));
        sim_cut_at(s, 0);
        CHECK(sim_run_world(s, check, &c, &eb) == ERR_OK);
        /* A cut before the disk was made leaves none. */
        CHECK(c.rc == ERR_OK || (ledger.acknowledged == 0 && !last));
        CHECK_U64(c.result.faults, 0);
        hash = hash_xxh3(&(uint64_t){sim_trace_hash(s)}, 8, hash);
    }
    CHECK_U64(c.result.objects, living(&ledger));
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
