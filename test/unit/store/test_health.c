/* A disk's trouble is noticed, counted, and takes the disk out when it has to: errors beyond the limit, a sync that
 * fails, a file system that takes no writes, a disk that is gone, slow or silent, a fault under the index. A damaged
 * block takes nothing out. Protects D9, F2, F3. */
#include <errno.h>
#include <sys/mman.h>

#include "rt/test_hooks.h"
#include "store/core/core.h"
#include "store/health/health_internal.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_options.h"
#include "world_damage.h"

#ifdef FB_TEST_HOOKS
#define BIG (1u << 20)

static char body[BIG];

static struct store *
open_disk(struct store_limits limits)
{
    struct store_options o = world_options();

    o.limits = limits;
    o.limits.tick_ms = limits.tick_ms != 0 ? limits.tick_ms : 20;
    o.index_interval_ms = 20;
    return world_open(&o);
}

static void
break_disk(enum rt_io kind, int error, uint64_t count)
{
    struct rt_test_io *t = rt_test_io();

    t->seen = t->skip = 0;
    t->count = count;
    t->error = (uint64_t)error;
    t->kinds = 1u << kind;
}

static void
mend_disk(void)
{
    rt_test_io()->kinds = 0;
    rt_test_io()->error = 0;
    rt_test_io()->delay_us = 0;
}

static enum store_state
state_of(struct store *d)
{
    struct store_health h;

    store_health(d, &h);
    return h.state;
}

/* Ticks pass until it is so; a disk that never gets there fails the test. */
static void
wait_for(struct store *d, enum store_state s)
{
    for (unsigned i = 0; i < PATIENCE_MS / 5 && state_of(d) != s; i++)
        CHECK(rt_sleep_ms(5) == ERR_OK);
    CHECK_STR(store_state_name(state_of(d)), store_state_name(s));
}

static enum err
read_big(struct store *d)
{
    return world_get(d, "big", body, BIG, 0, BIG);
}

static void
has_left(struct store *d, const char *why)
{
    struct store_key k = world_key(7, "big");
    struct store_health h;
    struct errbuf eb = {0};
    struct entry entry;

    store_health(d, &h);
    CHECK_STR(store_state_name(h.state), "failed");
    CHECK_SAYS(h.why, why);
    CHECK(store_has_left(d));
    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_IO);
    CHECK_SAYS(eb.text, "has left");
    CHECK_SAYS(eb.text, why);
    CHECK(world_put(d, "late", body, 100, &entry) == ERR_IO);
}

static void
reads_fiber(void *arg)
{
    struct store *d = open_disk((struct store_limits){.errors = 5, .tick_ms = 3600000});
    struct store_health h;
    struct entry entry;
    char key[16];

    (void)arg;
    CHECK(world_put(d, "big", body, BIG, &entry) == ERR_OK);
    break_disk(RT_IO_READ, EIO, 3);
    CHECK(read_big(d) == ERR_IO);
    CHECK(read_big(d) == ERR_IO);
    CHECK(read_big(d) == ERR_IO);
    CHECK(read_big(d) == ERR_OK); /* it stays: a few sectors are bad */
    store_health(d, &h);
    CHECK(h.state == STORE_OK && h.read_errors == 3 && h.write_errors == 0);
    /* One bad sector that is wanted again and again is one. */
    break_disk(RT_IO_READ, EIO, 20);
    for (unsigned i = 0; i < 20; i++)
        CHECK(read_big(d) == ERR_IO);
    mend_disk();
    CHECK(read_big(d) == ERR_OK && state_of(d) == STORE_OK);
    for (unsigned i = 0; i < 8; i++) {
        snprintf(key, sizeof key, "k%u", i);
        CHECK(world_put(d, key, body, BIG, &entry) == ERR_OK);
    }
    break_disk(RT_IO_READ, EIO, UINT64_MAX);
    for (unsigned i = 0; i < 8; i++) {
        snprintf(key, sizeof key, "k%u", i);
        CHECK(world_get(d, key, body, BIG, 0, BIG) == ERR_IO);
    }
    mend_disk();
    has_left(d, "too many errors");
    store_close(&d);
    d = open_disk((struct store_limits){0}); /* until the next start */
    CHECK(read_big(d) == ERR_OK);
    store_close(&d);
}

/* Without requests, its own check detects it. */
static void
dead_fiber(void *arg)
{
    struct store *d = open_disk((struct store_limits){.errors = UINT64_MAX});
    struct entry entry;

    (void)arg;
    CHECK(world_put(d, "big", body, BIG, &entry) == ERR_OK);
    break_disk(RT_IO_READ, EIO, UINT64_MAX);
    CHECK(read_big(d) == ERR_IO);
    wait_for(d, STORE_FAILED);
    mend_disk();
    has_left(d, "nothing but errors");
    store_close(&d);
}

static void
sync_fiber(void *arg)
{
    struct store *d = open_disk((struct store_limits){0});
    struct store_health h;
    struct entry entry;

    (void)arg;
    CHECK(world_put(d, "big", body, BIG, &entry) == ERR_OK);
    break_disk(RT_IO_SYNC, EIO, 1);
    CHECK(world_put(d, "lost", body, 100, &entry) != ERR_OK);
    mend_disk();
    store_health(d, &h);
    CHECK(h.state == STORE_READ_ONLY && h.sync_errors == 1);
    CHECK_SAYS(h.why, "sync failed: Input/output error");
    CHECK(world_put(d, "lost", body, 100, &entry) == ERR_IO); /* no second chance */
    CHECK(world_put(d, "lost", body, BIG, &entry) == ERR_IO);
    CHECK(read_big(d) == ERR_OK); /* what was acknowledged is there */
    store_close(&d);
    d = open_disk((struct store_limits){0});
    CHECK(read_big(d) == ERR_OK);
    CHECK(world_put(d, "lost", body, 100, &entry) == ERR_OK);
    store_close(&d);
}

static void
read_only_fiber(void *arg)
{
    struct store *d = open_disk((struct store_limits){0});
    struct store_health h;
    struct entry entry;

    (void)arg;
    CHECK(world_put(d, "big", body, BIG, &entry) == ERR_OK);
    break_disk(RT_IO_WRITE, EROFS, 1);
    CHECK(world_put(d, "more", body, BIG, &entry) == ERR_IO);
    mend_disk();
    store_health(d, &h);
    CHECK(h.state == STORE_READ_ONLY);
    CHECK_SAYS(h.why, "file system is read-only");
    CHECK(world_put(d, "more", body, 100, &entry) == ERR_IO);
    CHECK(read_big(d) == ERR_OK);
    store_close(&d);
}

/* A full disk is no broken one. */
static void
full_fiber(void *arg)
{
    struct store *d = open_disk((struct store_limits){.errors = 1});
    enum err rc = ERR_NO_SPACE;
    struct entry entry;

    (void)arg;
    break_disk(RT_IO_SPACE, ENOSPC, UINT64_MAX);
    CHECK(world_put(d, "big", body, BIG, &entry) == ERR_NO_SPACE);
    mend_disk();
    CHECK(state_of(d) == STORE_OK);
    /* When there is room again is looked at now and then. */
    while (rc == ERR_NO_SPACE) {
        CHECK(rt_sleep_ms(20) == ERR_OK);
        rc = world_put(d, "big", body, BIG, &entry);
    }
    CHECK(rc == ERR_OK);
    store_close(&d);
}

static void
gone_fiber(void *arg)
{
    struct store *d = open_disk((struct store_limits){0});
    struct entry entry;

    (void)arg;
    CHECK(world_put(d, "big", body, BIG, &entry) == ERR_OK);
    break_disk(RT_IO_READ, ENODEV, 1);
    CHECK(read_big(d) == ERR_IO);
    mend_disk();
    has_left(d, "it is gone: No such device");
    store_close(&d);
}

/* The folder is taken away under the server: seen by the next look, which an error brings forward. */
static void
vanished_fiber(void *arg)
{
    struct store *d = open_disk((struct store_limits){0});
    char away[300];
    struct entry entry;

    (void)arg;
    CHECK(world_put(d, "big", body, BIG, &entry) == ERR_OK);
    snprintf(away, sizeof away, "%s.away", world_path);
    CHECK(rename(world_path, away) == 0);
    break_disk(RT_IO_READ, EIO, 1);
    CHECK(read_big(d) == ERR_IO);
    mend_disk();
    wait_for(d, STORE_FAILED);
    has_left(d, "folder is gone");
    CHECK(rename(away, world_path) == 0);
    store_close(&d);
}

static void
slow_fiber(void *arg)
{
    struct store *d = open_disk((struct store_limits){.slow_leave_ms = 2000});
    struct store_health h;
    struct entry entry;

    (void)arg;
    CHECK(world_put(d, "big", body, BIG, &entry) == ERR_OK);
    for (unsigned i = 0; i < 60; i++) { /* so it learns what is usual */
        CHECK(read_big(d) == ERR_OK);
        CHECK(rt_sleep_ms(5) == ERR_OK);
    }
    CHECK(state_of(d) == STORE_OK);
    rt_test_io()->delay_us = 400000; /* more than ten times what this machine may take */
    rt_test_io()->kinds = 1u << RT_IO_READ;
    for (unsigned i = 0; i < 20 && state_of(d) == STORE_OK; i++)
        CHECK(read_big(d) == ERR_OK);
    store_health(d, &h);
    CHECK(h.state == STORE_SLOW);
    CHECK_SAYS(h.why, "reads take too long");
    CHECK(h.slow_ops > 0);
    wait_for(d, STORE_FAILED);
    mend_disk();
    has_left(d, "slow for too long");
    store_close(&d);
}

/* The process stands still for longer than a disk may be slow: ticks say how long it was. */
static void
still_and_slow_fiber(void *arg)
{
    struct store *d = open_disk((struct store_limits){.slow_ms = 60});
    unsigned before;
    struct entry entry;

    (void)arg;
    CHECK(world_put(d, "big", body, BIG, &entry) == ERR_OK);
    rt_test_io()->delay_us = 100000;
    rt_test_io()->kinds = 1u << RT_IO_READ;
    for (unsigned i = 0; i < 50 && state_of(d) == STORE_OK; i++)
        CHECK(read_big(d) == ERR_OK);
    CHECK_STR(store_state_name(state_of(d)), "slow");
    mend_disk();
    d->health->limits.slow_leave_ms = 1000;
    before = d->health->owner.slow_for;
    CHECK(usleep(999999) == 0 && usleep(500000) == 0);
    for (unsigned i = 0; i < PATIENCE_MS && state_of(d) == STORE_SLOW &&
                         d->health->owner.slow_for == before;
         i++)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    CHECK(state_of(d) != STORE_FAILED || d->health->owner.slow_for > 1000 / 20);
    store_close(&d);
}

/* As fast as before: well again. */
static void
well_again_fiber(void *arg)
{
    struct store *d = open_disk((struct store_limits){.slow_ms = 60});
    struct entry entry;

    (void)arg;
    CHECK(world_put(d, "big", body, BIG, &entry) == ERR_OK);
    rt_test_io()->delay_us = 100000;
    rt_test_io()->kinds = 1u << RT_IO_READ;
    for (unsigned i = 0; i < 50 && state_of(d) == STORE_OK; i++)
        CHECK(read_big(d) == ERR_OK);
    CHECK_STR(store_state_name(state_of(d)), "slow");
    mend_disk();
    for (unsigned i = 0; i < PATIENCE_MS / 5 && state_of(d) != STORE_OK; i++) {
        CHECK(read_big(d) == ERR_OK);
        CHECK(rt_sleep_ms(5) == ERR_OK);
    }
    CHECK_STR(store_state_name(state_of(d)), "ok");
    store_close(&d);
}

static void
read_one(void *arg)
{
    CHECK(read_big(arg) == ERR_IO); /* what had begun ends; what comes next is refused */
}

static void
silent_fiber(void *arg)
{
    struct store *d = open_disk((struct store_limits){.stall_ms = 300});
    struct rt_group g;
    struct entry entry;

    (void)arg;
    CHECK(world_put(d, "big", body, BIG, &entry) == ERR_OK);
    CHECK(store_flush(d, NULL) == ERR_OK);
    rt_test_io()->delay_us = 4000000;
    rt_test_io()->kinds = 1u << RT_IO_READ;
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, read_one, d) == ERR_OK);
    wait_for(d, STORE_FAILED);
    mend_disk();
    has_left(d, "does not answer");
    rt_group_join(&g);
    store_close(&d);
}

static void
read_well(void *arg)
{
    CHECK(read_big(arg) == ERR_OK);
}

/* We stand still, and not the disk: of seconds in which nothing ran nothing is known. */
static void
paused_fiber(void *arg)
{
    struct store *d = open_disk((struct store_limits){.stall_ms = 3000, .tick_ms = 500});
    struct rt_group g;
    struct entry entry;

    (void)arg;
    CHECK(world_put(d, "big", body, BIG, &entry) == ERR_OK);
    CHECK(store_flush(d, NULL) == ERR_OK);
    rt_test_io()->seen = 0;
    rt_test_io()->delay_us = 4300000;
    rt_test_io()->kinds = 1u << RT_IO_READ;
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, read_well, d) == ERR_OK);
    while (rt_test_io()->seen == 0)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    CHECK(rt_sleep_ms(600) == ERR_OK); /* a tick has seen all that ended before */
    CHECK(usleep(3600000) == 0);       /* the whole loop */
    rt_test_io()->kinds = 0;
    rt_group_join(&g);
    mend_disk();
    CHECK_STR(store_state_name(state_of(d)), "ok");
    store_close(&d);
}

static void
rot_fiber(void *arg)
{
    struct store *d = open_disk((struct store_limits){.errors = 1});
    struct store_health h;
    struct entry entry;
    int fd;

    (void)arg;
    CHECK(world_put(d, "big", body, BIG, &entry) == ERR_OK);
    fd = world_file("native/body-%06u.tar", entry.place.segment);
    CHECK(pwrite(fd, "x", 1, (off_t)(entry.place.offset + 4096 + 100)) == 1);
    close(fd);
    CHECK(read_big(d) == ERR_CORRUPT);
    store_health(d, &h);
    CHECK(h.state == STORE_OK && h.corrupt_blocks == 1 && h.read_errors == 0);
    CHECK(world_put(d, "big", body, BIG, &entry) == ERR_OK);
    CHECK(read_big(d) == ERR_OK);
    store_close(&d);
}

/* data.mdb is cut under its map: the next page is a SIGBUS. */
static void
sigbus_fiber(void *arg)
{
    struct store *d = open_disk((struct store_limits){0});
    struct store_key k = world_key(7, "unknown");
    struct store_health h;
    struct entry entry;
    char path[400], key[16];
    enum err rc = ERR_NOT_FOUND;

    (void)arg;
    for (unsigned i = 0; i < 500; i++) {
        snprintf(key, sizeof key, "k%03u", i);
        CHECK(world_put(d, key, body, 10, &entry) == ERR_OK);
    }
    CHECK(store_flush(d, NULL) == ERR_OK);
    snprintf(path, sizeof path, "%s/index/data.mdb", world_path);
    CHECK(truncate(path, 0) == 0);
    for (unsigned i = 0; i < 200 && rc == ERR_NOT_FOUND; i++)
        rc = store_lookup(d, &k, &entry, NULL);
    CHECK(rc == ERR_IO);
    store_health(d, &h);
    CHECK(h.index_faults == 1);
    CHECK_STR(store_state_name(h.state), "failed");
    CHECK_SAYS(h.why, "SIGBUS");
    store_close(&d);
    d = open_disk((struct store_limits){0}); /* rebuilt from the logs */
    CHECK(world_get(d, "k499", body, 10, 0, 10) == ERR_OK);
    store_close(&d);
}

#define CASES(X)                                                                         \
    X(reads)                                                                             \
    X(dead)                                                                              \
    X(sync)                                                                              \
    X(read_only)                                                                         \
    X(full)                                                                              \
    X(gone)                                                                              \
    X(vanished)                                                                          \
    X(slow) X(still_and_slow) X(well_again) X(silent) X(paused) X(rot) X(sigbus)
#define X(name)                                                                          \
    static void test_##name(void)                                                        \
    {                                                                                    \
        world_run(name##_fiber, NULL);                                                   \
    }
CASES(X)
#undef X
#endif

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
#ifdef FB_TEST_HOOKS
    world_fill(body, BIG, 1);
#define X(name) RUN(test_##name);
    CASES(X)
#endif
    return check_done();
}
