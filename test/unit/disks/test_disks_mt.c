/* Two loops work on their keys while disks come and go: what was acknowledged is there, with one copy and with two. */
#include "rig.h"

#define LOOPS 2
#define KEYS  12

struct worker {
    struct rig rig; /* of this loop: the set is the other one's */
    unsigned loop;
    _Atomic bool *stop;
    _Atomic uint64_t rounds;
};

static const char *
name(const struct worker *w, unsigned i, char out[40])
{
    snprintf(out, 40, "loop%u/key%02u", w->loop, i);
    return out;
}

/* The object of this seed is there, or none (0). */
static void
expect(struct worker *w, const char *key, size_t size, uint64_t seed)
{
    enum err want = seed != 0 ? ERR_OK : ERR_NOT_FOUND;
    enum err rc = rig_get(&w->rig, key, seed != 0 ? size : 1, seed);

    if (rc != want)
        fprintf(stderr, "%s in round %llu: %s, wanted %s: %s\n", key,
                (unsigned long long)atomic_load(&w->rounds), err_name(rc), err_name(want),
                w->rig.eb.text);
    CHECK(rc == want);
}

/* Writes, reads and deletes its own keys, and knows what each must be. */
static void
work(void *arg)
{
    struct worker *w = arg;
    struct rig *g = &w->rig;
    uint64_t seeds[KEYS] = {0};
    bool existed;
    char key[40];

    while (!atomic_load(w->stop)) {
        uint64_t round = atomic_load(&w->rounds);
        unsigned i = (unsigned)(round % KEYS);
        uint64_t seed = 1 + w->loop + 2 * round;
        size_t size = 100 + i * 31;

        name(w, i, key);
        expect(w, key, size, seeds[i]);
        if (round % 5 == 4) {
            CHECK(rig_delete(g, key, &existed) == ERR_OK);
            CHECK(existed == (seeds[i] != 0));
            seeds[i] = 0;
        } else {
            CHECK(rig_put(g, key, size, seed) == ERR_OK);
            seeds[i] = seed;
        }
        atomic_store(&w->rounds, round + 1);
        rt_yield();
    }
    for (unsigned i = 0; i < KEYS; i++)
        expect(w, name(w, i, key), 100 + i * 31, seeds[i]);
}

static void
work_there(void *arg)
{
    struct worker *w = arg;

    CHECK(rt_call(w->loop, work, w) == ERR_OK);
}

static void
changes(struct rig *g)
{
    uint8_t id[16];

    CHECK(disks_add(g->ds, g->path[2], id, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK(disks_drain(g->ds, g->path[0], false, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK(disks_add(g->ds, g->path[3], id, &g->eb) == ERR_OK);
    CHECK(disks_drain(g->ds, g->path[0], true, &g->eb) == ERR_OK);
    CHECK(disks_drain(g->ds, g->path[1], false, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK(disks_remove(g->ds, g->path[1], false, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
}

static void
come_and_go(void *arg)
{
    struct rig *g = arg;
    struct worker workers[LOOPS];
    _Atomic bool stop = false;
    struct rt_group group;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    rt_group_begin(&group);
    for (unsigned i = 0; i < LOOPS; i++) {
        workers[i] = (struct worker){.rig = *g, .loop = i, .stop = &stop};
        CHECK(rt_group_start(&group, work_there, &workers[i]) == ERR_OK);
    }
    changes(g);
    for (unsigned i = 0; i < LOOPS; i++)
        while (atomic_load(&workers[i].rounds) <= 2 * KEYS)
            CHECK(rt_sleep_ms(1) == ERR_OK);
    atomic_store(&stop, true);
    rt_group_join(&group);
    disks_close(&g->ds);
}

/* ---- a bucket ends ---- */

struct filler {
    struct rig rig;
    unsigned loop;
    _Atomic uint64_t taken;
    enum err ended;
};

static void
fill(void *arg)
{
    struct filler *f = arg;
    char key[40];

    do {
        snprintf(key, sizeof key, "loop%u/%06u", f->loop,
                 (unsigned)atomic_load(&f->taken));
        f->ended = rig_put(&f->rig, key, 100, 1);
        if (f->ended == ERR_OK)
            atomic_fetch_add(&f->taken, 1);
    } while (f->ended == ERR_OK);
}

static void
fill_there(void *arg)
{
    struct filler *f = arg;

    CHECK(rt_call(f->loop, fill, f) == ERR_OK);
}

static uint64_t
keys_there(struct rig *g)
{
    struct arena *a = arena_new(KIB(64), MIB(8));
    struct store_entry *entries;
    char last[STORE_KEY_MAX];
    struct span after = {last, 0};
    uint64_t sum = 0;
    uint32_t count;
    bool more = true;

    while (more) {
        arena_reset(a);
        more = false;
        count = 0;
        CHECK(disks_list(g->ds, RIG_BUCKET, g->copies, after, false, 1000, a, &entries,
                         &count, &more, &g->eb) == ERR_OK);
        sum += count;
        if (count > 0) {
            after.len = entries[count - 1].key.len;
            memcpy(last, entries[count - 1].key.at, after.len);
        }
    }
    arena_free(&a);
    return sum;
}

/* Once a bucket is closed what was acknowledged is there, all of it, and nothing comes any more: who finds it empty then may
 * remove it. A bucket that is opened again takes objects again. */
static void
bucket_ends(void *arg)
{
    struct rig *g = arg;
    struct filler fillers[LOOPS];
    struct rt_group group;

    REQUIRE(rig_open(g, g->copies > 1 ? 3 : 1) == ERR_OK);
    for (unsigned round = 0; round < 20; round++) {
        uint64_t before = keys_there(g), there, sum = 0;

        rt_group_begin(&group);
        for (unsigned i = 0; i < LOOPS; i++) {
            fillers[i] = (struct filler){.rig = *g, .loop = i};
            fillers[i].rig.copies = g->copies;
            atomic_store(&fillers[i].taken, before); /* other names */
            CHECK(rt_group_start(&group, fill_there, &fillers[i]) == ERR_OK);
        }
        while (atomic_load(&fillers[round % LOOPS].taken) < before + 1 + round % 3)
            REQUIRE(rt_sleep_ms(1) == ERR_OK);
        CHECK(disks_bucket_close(g->ds, RIG_BUCKET, &g->eb) == ERR_OK);
        for (unsigned i = 0; i < LOOPS; i++)
            sum += atomic_load(&fillers[i].taken) - before;
        /* What was on its way then may not have counted itself yet. */
        there = keys_there(g);
        CHECK(there >= before + sum);
        CHECK(disks_bucket_close(g->ds, RIG_BUCKET, &g->eb) == ERR_BUSY);
        CHECK(rig_put(g, "late", 10, 1) == ERR_BUSY);
        CHECK_SAYS(g->eb.text, "is being deleted");
        rt_group_join(&group);
        sum = 0;
        for (unsigned i = 0; i < LOOPS; i++) {
            CHECK(fillers[i].ended == ERR_BUSY);
            sum += atomic_load(&fillers[i].taken) - before;
        }
        CHECK_U64(there, before + sum);
        CHECK_U64(keys_there(g), there);
        disks_bucket_reopen(g->ds, RIG_BUCKET);
    }
    CHECK(rig_put(g, "late", 10, 1) == ERR_OK);
    disks_close(&g->ds);
}

static void
test_nothing_is_taken_into_a_closed_bucket(void)
{
    rig_run(bucket_ends, &(struct rig){.copies = 1});
    rig_run(bucket_ends, &(struct rig){.copies = 2});
}
static void
test_one_copy(void)
{
    rig_run(come_and_go, &(struct rig){.copies = 1});
}
static void
test_two_copies(void)
{
    rig_run(come_and_go, &(struct rig){.copies = 2});
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR);
    RUN(test_nothing_is_taken_into_a_closed_bucket);
    RUN(test_one_copy);
    RUN(test_two_copies);
    return check_done();
}
