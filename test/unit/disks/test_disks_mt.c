/* Two loops work on their keys while disks come and go: what was acknowledged is there, with one copy and with two. */
#include "rig.h"

#define LOOPS 2
#define KEYS  12

struct worker {
    struct rig rig; /* of this loop: the set is the other one's */
    unsigned loop;
    _Atomic bool *stop;
    uint64_t rounds;
};

static const char *
name(const struct worker *w, unsigned i, char out[40])
{
    snprintf(out, 40, "loop%u/key%02u", w->loop, i);
    return out;
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
        unsigned i = (unsigned)(w->rounds % KEYS);
        uint64_t seed = 1 + w->loop + 2 * w->rounds;
        size_t size = 100 + i * 31;

        name(w, i, key);
        if (seeds[i] == 0) {
            CHECK(rig_get(g, key, 1, 1) == ERR_NOT_FOUND);
        } else {
            CHECK(rig_get(g, key, size, seeds[i]) == ERR_OK);
        }
        if (w->rounds % 5 == 4) {
            CHECK(rig_delete(g, key, &existed) == ERR_OK);
            CHECK(existed == (seeds[i] != 0));
            seeds[i] = 0;
        } else {
            CHECK(rig_put(g, key, size, seed) == ERR_OK);
            seeds[i] = seed;
        }
        w->rounds++;
        rt_yield();
    }
    for (unsigned i = 0; i < KEYS; i++)
        CHECK(rig_get(g, name(w, i, key), seeds[i] != 0 ? 100 + i * 31 : 1, seeds[i]) ==
              (seeds[i] != 0 ? ERR_OK : ERR_NOT_FOUND));
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
    CHECK(rig_settled(g));
    CHECK(disks_drain(g->ds, g->path[0], false, &g->eb) == ERR_OK);
    CHECK(rig_settled(g));
    CHECK(disks_add(g->ds, g->path[3], id, &g->eb) == ERR_OK);
    CHECK(disks_drain(g->ds, g->path[0], true, &g->eb) == ERR_OK);
    CHECK(disks_drain(g->ds, g->path[1], false, &g->eb) == ERR_OK);
    CHECK(rig_settled(g));
    CHECK(disks_remove(g->ds, g->path[1], false, &g->eb) == ERR_OK);
    CHECK(rig_settled(g));
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
    atomic_store(&stop, true);
    rt_group_join(&group);
    for (unsigned i = 0; i < LOOPS; i++)
        CHECK(workers[i].rounds > 2 * KEYS);
    disks_close(&g->ds);
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
    RUN(test_one_copy);
    RUN(test_two_copies);
    return check_done();
}
