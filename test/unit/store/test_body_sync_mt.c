/* Bodies of one segment that end on two loops share one sync; one that ends while a sync is on its way is not made durable by that one;
 * where the shared one fails no writer learns that its body is there. Protects D1 and D4; runs under TSan. */
#include <errno.h>

#include "world.h"

#include "base/mem.h"
#include "rt/test_hooks.h"
#include "rt/time.h"
#include "store/core/core.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_write.h"
#include "store/wal/wal.h"

#define LOOPS    2u
#define ON_EACH  4u
#define BODIES   (LOOPS * ON_EACH)
#define BYTES    300000u
#define LATE_US  30000u
#define LIMIT_NS UINT64_C(60000000000)

static char *data; /* BYTES */
static struct store *d;
static _Atomic unsigned sealed; /* by those that wait for each other */
static unsigned together;       /* so many do */
static bool fails;              /* their sync does */

struct put {
    unsigned n;
    struct store_writer *writer;
    enum err rc;
};

static void
name_of(unsigned n, char out[16])
{
    snprintf(out, 16, "body-%u", n);
}

static void
write_one(struct put *p)
{
    struct errbuf eb = {0};
    struct store_key k;
    char name[16];

    name_of(p->n, name);
    k = world_key(7, name);
    REQUIRE(store_write_begin(d, &k, STORE_NATIVE, BYTES, &p->writer, &eb) == ERR_OK);
    REQUIRE(store_write(p->writer, data, BYTES, &eb) == ERR_OK);
    REQUIRE(store_write_flush(p->writer, &eb) == ERR_OK);
}

static void
commit_one(void *arg)
{
    struct put *p = arg;
    struct object_meta meta = {.mtime_ms = 1700000000123};
    struct errbuf eb = {0};

    p->rc = store_commit(&p->writer, &meta, NULL, NULL, &eb);
}

static void
put_one(void *arg)
{
    write_one(arg);
    commit_one(arg);
}

/* A segment whose last place, which is sealed alone, is none of ours. */
static void
write_last(struct put *p)
{
    p->n = BODIES + 1;
    write_one(p);
}

static struct segment *
segment_now(void)
{
    return d->segments->bodies[STORE_NATIVE];
}

/* ---- all at once ---- */

/* No sync is requested before all are sealed. */
static void
wait_for_all(enum point p)
{
    uint64_t end = rt_now_ns() + LIMIT_NS;

    if (p != POINT_BODY_SEALED || together == 0)
        return;
    if (atomic_fetch_add(&sealed, 1) + 1 == together && fails) {
        struct rt_test_io *t = rt_test_io();

        atomic_store(&t->error, EIO);
        atomic_store(&t->skip, 0);
        atomic_store(&t->count, UINT64_MAX);
    }
    while (atomic_load(&sealed) < together && rt_now_ns() < end)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    CHECK_U64(atomic_load(&sealed), together);
}

struct side {
    unsigned loop;
    struct put puts[ON_EACH];
};

static void
write_side(void *arg)
{
    struct side *s = arg;

    for (unsigned i = 0; i < ON_EACH; i++) {
        s->puts[i].n = s->loop * ON_EACH + i;
        write_one(&s->puts[i]);
    }
}

static void
commit_side(void *arg)
{
    struct side *s = arg;
    struct rt_group g;

    rt_group_begin(&g);
    for (unsigned i = 0; i < ON_EACH; i++)
        REQUIRE(rt_group_start(&g, commit_one, &s->puts[i]) == ERR_OK);
    rt_group_join(&g);
}

static void
call_commit_side(void *arg)
{
    struct side *s = arg;

    CHECK(rt_call(s->loop, commit_side, s) == ERR_OK);
}

static void
commit_all(struct side sides[LOOPS])
{
    struct rt_group g;

    atomic_store(&sealed, 0);
    together = BODIES;
    rt_group_begin(&g);
    for (unsigned i = 0; i < LOOPS; i++)
        REQUIRE(rt_group_start(&g, call_commit_side, &sides[i]) == ERR_OK);
    rt_group_join(&g);
    together = 0;
}

static void
open_and_write(struct side sides[LOOPS], struct put *last)
{
    d = world_open(NULL);
    for (unsigned i = 0; i < LOOPS; i++) {
        sides[i] = (struct side){.loop = i};
        REQUIRE(rt_call(i, write_side, &sides[i]) == ERR_OK);
    }
    write_last(last);
}

static void
slow_syncs(bool yes)
{
    struct rt_test_io *t = rt_test_io();

    atomic_store(&t->delay_us, yes ? LATE_US : 0);
    atomic_store(&t->error, 0);
    atomic_store(&t->count, 0);
    atomic_store(&t->kinds, yes ? 1u << RT_IO_SYNC : 0);
}

static void
shared(void *arg)
{
    struct side sides[LOOPS];
    struct put last;
    struct segment *s;
    uint64_t syncs;
    char name[16];

    (void)arg;
    fails = false;
    open_and_write(sides, &last);
    s = segment_now();
    syncs = s->owner.syncs_begun;
    slow_syncs(true);
    commit_all(sides);
    slow_syncs(false);
    CHECK_U64(s->owner.syncs_begun, syncs + 1);
    CHECK_U64(s->owner.syncs_done, syncs + 1);
    commit_one(&last);
    for (unsigned i = 0; i < BODIES; i++) {
        CHECK(sides[i / ON_EACH].puts[i % ON_EACH].rc == ERR_OK);
        name_of(i, name);
        CHECK(world_get(d, name, data, BYTES, 0, BYTES) == ERR_OK);
    }
    store_close(&d);
    world_check_sound();
}

static void
test_bodies_of_two_loops_share_a_sync(void)
{
    world_run_loops(RT_EPOLL, LOOPS, shared, NULL);
    world_run_loops(RT_AUTO, LOOPS, shared, NULL);
}

/* ---- it fails ---- */

static void
failed(void *arg)
{
    struct side sides[LOOPS];
    struct put last;
    struct segment *s;
    uint64_t batches, syncs;
    struct entry entry;
    char name[16];

    (void)arg;
    fails = true;
    open_and_write(sides, &last);
    s = segment_now();
    batches = d->wals->of[STORE_NATIVE].next_batch;
    syncs = s->owner.syncs_begun;
    slow_syncs(true);
    commit_all(sides);
    CHECK_U64(s->owner.syncs_begun, syncs + 1); /* no retry */
    CHECK_U64(s->owner.syncs_done, syncs);
    CHECK_U64(d->wals->of[STORE_NATIVE].next_batch,
              batches); /* no record was asked for */
    slow_syncs(false);
    commit_one(&last);
    CHECK(last.rc == ERR_IO);
    store_close(&d);
    d = world_open(NULL);
    for (unsigned i = 0; i < BODIES; i++) {
        struct store_key k;

        CHECK(sides[i / ON_EACH].puts[i % ON_EACH].rc == ERR_IO);
        name_of(i, name);
        k = world_key(7, name);
        CHECK(store_lookup(d, &k, &entry, NULL) == ERR_NOT_FOUND);
    }
    store_close(&d);
    world_check_sound();
}

static void
test_a_shared_sync_that_fails_fails_for_all(void)
{
    world_run_loops(RT_EPOLL, LOOPS, failed, NULL);
    world_run_loops(RT_AUTO, LOOPS, failed, NULL);
}

/* ---- too late for it ---- */

static void
commit_first(void *arg)
{
    commit_one(arg);
}

static void
too_late(void *arg)
{
    struct put first = {.n = 0}, second = {.n = 1}, last;
    uint64_t end = rt_now_ns() + LIMIT_NS, syncs;
    struct rt_group g;
    struct segment *s;

    (void)arg;
    fails = false;
    d = world_open(NULL);
    write_one(&first);
    REQUIRE(rt_call(1, put_one, &(struct put){.n = 2}) == ERR_OK);
    write_last(&last);
    s = segment_now();
    syncs = s->owner.syncs_begun;
    slow_syncs(true);
    rt_group_begin(&g);
    REQUIRE(rt_group_start(&g, commit_first, &first) == ERR_OK);
    while (s->owner.syncs_begun == syncs && rt_now_ns() < end)
        rt_yield();
    CHECK_U64(s->owner.syncs_begun, syncs + 1); /* and it is on its way */
    REQUIRE(rt_call(1, put_one, &second) == ERR_OK);
    CHECK(second.rc == ERR_OK);
    CHECK_U64(s->owner.syncs_done, syncs + 2);
    rt_group_join(&g);
    slow_syncs(false);
    CHECK(first.rc == ERR_OK);
    commit_one(&last);
    store_close(&d);
    world_check_sound();
}

static void
test_who_ends_during_a_sync_waits_for_the_next(void)
{
    world_run_loops(RT_EPOLL, LOOPS, too_late, NULL);
    world_run_loops(RT_AUTO, LOOPS, too_late, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    data = xmalloc(BYTES);
    world_fill(data, BYTES, 5);
    rt_test_on_point = wait_for_all;
    RUN(test_bodies_of_two_loops_share_a_sync);
    RUN(test_a_shared_sync_that_fails_fails_for_all);
    RUN(test_who_ends_during_a_sync_waits_for_the_next);
    rt_test_on_point = NULL;
    free(data);
    return check_done();
}
