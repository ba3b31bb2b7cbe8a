/* Every wait of a disk's life with a scrub in it, and with its health looked at, is cancelled, and failed in two ways: the
 * code unwinds without a leak, nothing hangs, no finding is invented, and the next start goes on and finds nothing wrong.
 * Hundred seeds cover all waits. Protects I3, F8.
 */
#include "base/hash.h"
#include "base/log.h"
#include "check.h"
#include "rt/sim.h"
#include "sim/sim_main.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_options.h"
#include "store/store_write.h"

#define STRIDE  100
#define OBJECTS 12u
#define LARGE   (400u << 10)

static const enum err ways[] = {ERR_CANCELLED, ERR_IO, ERR_BUSY};
static char body[LARGE];

struct life {
    uint64_t epoch;
    bool fill, must_end;
    bool ended; /* a pass came to its end */
    uint64_t findings;
};

static struct store *
open_disk(const struct life *l)
{
    struct store_options o = {.node = 1,
                              .epoch = l->epoch,
                              .segment_bytes = 16u << 20,
                              .index_map_bytes = 64u << 20,
                              .scrub_rate = 4u << 20};
    struct store *d = NULL;

    memset(o.cluster_id, 0x5c, sizeof o.cluster_id);
    return store_open("/disk/data", &o, &d, NULL) == ERR_OK ? d : NULL;
}

static enum err
put(struct store *d, unsigned n)
{
    char name[16];
    struct store_key k = {.bucket = 3, .immutable_name = SPAN("bucket")};
    struct object_meta meta = {.mtime_ms = 1};
    uint64_t size = n % 3 == 0 ? LARGE : 100u * n;
    struct store_writer *w;
    struct entry entry;
    enum err rc;

    snprintf(name, sizeof name, "k%02u", n);
    k.key = span_of(name);
    rc = store_write_begin(d, &k, n % 4 == 1 ? STORE_CACHED : STORE_NATIVE, size, &w,
                           NULL);
    if (rc == ERR_OK)
        rc = store_write(w, body, size, NULL);
    if (rc == ERR_OK)
        return store_commit(&w, &meta, NULL, &entry, NULL);
    store_write_abort(&w);
    return rc;
}

/* Whatever is disturbed, this ends: in virtual time a minute is nothing. */
static void
wait_for_pass(struct store *d, struct life *l)
{
    struct arena *a = arena_new(4096, 4u << 20);
    struct scrub_status s;

    for (unsigned i = 0; i < 600 && !l->ended; i++) {
        arena_reset(a);
        if (rt_sleep_ms(100) != ERR_OK)
            break;
        if (store_scrub_status(d, a, &s, NULL) != ERR_OK)
            continue;
        l->findings = s.pass.findings;
        l->ended = s.pass.number > 0 && !s.running;
    }
    arena_free(&a);
}

static void
live(void *arg)
{
    struct life *l = arg;
    struct store *d = open_disk(l);

    if (d == NULL) {
        CHECK(!l->must_end);
        return;
    }
    for (unsigned n = 0; l->fill && n < OBJECTS; n++)
        (void)!put(d, n);
    if (store_scrub_start(d, NULL) == ERR_OK)
        wait_for_pass(d, l);
    CHECK(l->ended || !l->must_end);
    store_close(&d);
}

static uint64_t
disturb(uint64_t round, uint64_t nth, enum err how, uint64_t *waits)
{
    struct sim_options o = {.seed = 777 + round, .max_delay_us = 50};
    struct sim *s = sim_new(&o);
    struct life first = {.epoch = 1, .fill = true, .must_end = nth == 0};
    struct life second = {.epoch = 2, .must_end = true};
    struct errbuf eb = {0};
    uint64_t hash;

    sim_disturb_wait(s, nth, how);
    if (sim_run_world(s, live, &first, &eb) != ERR_OK)
        CHECK(nth > 0);
    *waits = sim_waits(s);
    hash = sim_trace_hash(s);
    if (nth == 0)
        CHECK_U64(first.findings, 0);
    sim_disturb_wait(s, 0, how);
    CHECK(sim_run_world(s, live, &second, &eb) == ERR_OK);
    CHECK_U64(second.findings, 0);
    sim_free(&s);
    return hash;
}

static uint64_t
run(uint64_t seed)
{
    uint64_t round = (seed - 1) / STRIDE, waits, unused;
    uint64_t hash = disturb(round, 0, ERR_IO, &waits);

    if (seed == 1)
        fprintf(stderr, "%" PRIu64 " waits\n", waits);
    CHECK(waits > 100);
    for (uint64_t nth = 1 + (seed - 1) % STRIDE; nth <= waits; nth += STRIDE)
        for (unsigned i = 0; i < sizeof ways / sizeof ways[0]; i++)
            hash = hash_xxh3(&hash, sizeof hash, disturb(round, nth, ways[i], &unused));
    return hash;
}

int
main(int argc, char **argv)
{
    log_set_level(LOG_ERROR + 1);
    return sim_main(argc, argv, run);
}
