/* A disk that went out of service comes back while the node serves: nothing is lost, nothing that was deleted or
 * overwritten meanwhile comes back, and no look-up says "not found" for what is there. */
#include "disks/rebalancer.h"
#include "rig.h"
#include "store/core/core.h"
#include "store/health/health_internal.h"

#define KEYS 60u

static void
fail_disk(struct rig *g, unsigned slot)
{
    struct replica_slot *s = &g->ds->slots[slot];

    REQUIRE(health_move(s->at.store->health, STORE_FAILED, "planted", 0));
    for (unsigned i = 0; i < PATIENCE_MS / 10 && replica_state(s) != REPLICA_OUT; i++)
        CHECK(rt_sleep_ms(10) == ERR_OK);
    REQUIRE(replica_state(s) == REPLICA_OUT);
}

/* Every third key is deleted, every third gets new bytes, while the disk is out. */
static void
change_some(struct rig *g)
{
    bool existed;

    for (unsigned i = 0; i < KEYS; i++)
        if (i % 3 == 0)
            CHECK(rig_delete(g, rig_name(i), &existed) == ERR_OK && existed);
        else if (i % 3 == 1)
            CHECK(rig_put(g, rig_name(i), rig_size(i), 1000 + i) == ERR_OK);
}

static void
check_all(struct rig *g)
{
    for (unsigned i = 0; i < KEYS; i++) {
        enum err rc = rig_get(g, rig_name(i), rig_size(i), i % 3 == 1 ? 1000 + i : 1 + i);

        CHECK(rc == (i % 3 == 0 ? ERR_NOT_FOUND : ERR_OK));
    }
}

static unsigned
false_not_found(struct rig *g)
{
    unsigned n = 0;

    for (unsigned i = 0; i < KEYS; i++)
        n += rig_get(g, rig_name(i), rig_size(i), 1 + i) == ERR_NOT_FOUND;
    return n;
}

struct look {
    struct rig *g;
    struct rt_daemon daemon;
    bool stop;
    unsigned rounds, wrong;
};

/* Looks all keys up, again and again, while the disk returns. */
static void
look_run(void *arg)
{
    struct look *l = arg;
    struct rig own = *l->g;

    while (!l->stop) {
        l->wrong += false_not_found(&own);
        l->rounds++;
        rt_yield();
    }
    rt_daemon_over(&l->daemon);
}

static void
returns_with_one_copy(void *arg)
{
    struct rig *g = arg;
    struct look look = {.g = g};
    uint8_t id[16];
    unsigned missing = 0;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    rig_put_all(g, KEYS, 1);
    fail_disk(g, 2);
    for (unsigned i = 0; i < KEYS; i++)
        missing += rig_get(g, rig_name(i), rig_size(i), 1 + i) == ERR_UNAVAILABLE;
    CHECK(missing > 0);
    CHECK_U64(false_not_found(g), 0);
    REQUIRE(rt_daemon_start(&look.daemon, look_run, &look) == ERR_OK);
    REQUIRE(disks_add(g->ds, g->path[2], id, &g->eb) == ERR_OK);
    CHECK(memcmp(id, g->ds->slots[2].id, sizeof id) == 0);
    for (unsigned i = 0, rounds = look.rounds; look.rounds < rounds + 2; i++) {
        REQUIRE(i < PATIENCE_MS / 10);
        CHECK(rt_sleep_ms(10) == ERR_OK);
    }
    look.stop = true;
    rt_daemon_join(&look.daemon);
    CHECK_U64(look.wrong, 0);
    rig_get_all(g, KEYS, 1);
    CHECK(rig_converged(g));
    rig_get_all(g, KEYS, 1);
    disks_close(&g->ds);
    REQUIRE(rig_open(g, 7) == ERR_OK);
    rig_get_all(g, KEYS, 1);
    disks_close(&g->ds);
}

/* It fails and returns three times; each time others are written and deleted meanwhile. */
static void
returns_with_copies(void *arg)
{
    struct rig *g = arg;
    uint8_t id[16];

    REQUIRE(rig_open(g, 7) == ERR_OK);
    for (unsigned round = 0; round < 3; round++) {
        unsigned last = atomic_load(&g->ds->slot_count) - 1;

        rig_put_all(g, KEYS, 1);
        CHECK(rig_converged(g));
        fail_disk(g, last);
        change_some(g);
        check_all(g);
        REQUIRE(disks_add(g->ds, g->path[2], id, &g->eb) == ERR_OK);
        CHECK(replica_state(&g->ds->slots[last]) == REPLICA_REMOVED);
        check_all(g);
        CHECK(rig_converged(g));
        check_all(g);
        CHECK(g->ds->slots[last].at.store == NULL);
        CHECK(disks_add(g->ds, g->path[2], id, &g->eb) == ERR_EXISTS);
    }
    /* All copies are there again: any one disk can go. */
    disks_close(&g->ds);
    REQUIRE(rig_open(g, 7) == ERR_OK);
    CHECK(rig_converged(g));
    check_all(g);
    fail_disk(g, 0);
    check_all(g);
    disks_close(&g->ds);
}

/* A disk that was missing at the start comes in under another path. */
static void
was_missing(void *arg)
{
    struct rig *g = arg;
    char other[300];
    uint8_t id[16];

    REQUIRE(rig_open(g, 7) == ERR_OK);
    rig_put_all(g, KEYS, 1);
    CHECK(rig_converged(g));
    disks_close(&g->ds);
    REQUIRE(rig_open_without(g, 3, g->path[2]) == ERR_OK);
    change_some(g);
    snprintf(other, sizeof other, "%s-moved", g->path[2]);
    REQUIRE(rename(g->path[2], other) == 0);
    REQUIRE(disks_add(g->ds, other, id, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
    check_all(g);
    disks_close(&g->ds);
    REQUIRE(rename(other, g->path[2]) == 0);
    REQUIRE(rig_open(g, 7) == ERR_OK);
    check_all(g);
    disks_close(&g->ds);
}

static void
test_a_failed_disk_returns_with_its_only_copies(void)
{
    rig_run(returns_with_one_copy, &(struct rig){.copies = 1});
}
static void
test_a_failed_disk_returns_and_brings_nothing_back(void)
{
    rig_run(returns_with_copies, &(struct rig){.copies = 2});
}
static void
test_a_missing_disk_returns_under_another_path(void)
{
    rig_run(was_missing, &(struct rig){.copies = 2});
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1); /* of disks that fail on purpose */
    RUN(test_a_failed_disk_returns_with_its_only_copies);
    RUN(test_a_failed_disk_returns_and_brings_nothing_back);
    RUN(test_a_missing_disk_returns_under_another_path);
    return check_done();
}
