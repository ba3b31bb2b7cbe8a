/* Every wait of a workload that uses each kind of wait is cancelled, then failed, one at
 * a time: nothing leaks, nothing hangs, what was acknowledged holds. Real engines; the
 * simulator has suites of its own. Protects decision D1. */
#include <stdlib.h>
#include <unistd.h>

#include "engines.h"
#include "rt/file.h"
#include "rt/net.h"
#include "rt/sync.h"
#include "rt/test_hooks.h"

#ifdef FB_TEST_HOOKS

#define SOON deadline_in_ms(PATIENCE_MS)

static void
do_nothing(void *arg)
{
    (void)arg;
}

/* One after the other; the first failure ends it, and everything is given back. */
struct work {
    struct rt_dir *dir;
    struct rt_file *file;
    struct iobuf *buf;
    struct listener *listener;
    struct stream *client, *server;
    enum err rc;
    unsigned stored; /* what was said to be done */
    uint64_t waits;
};

static void
on_ready(void *arg, enum err why)
{
    (void)why;
    rt_cond_broadcast(arg);
}

/* The parked stream's own fiber signals; the wait for it is one more that may be
 * disturbed. */
static enum err
park_once(struct work *w)
{
    static struct rt_cond ready;

    rt_cond_init(&ready);
    rt_park(w->server, SOON, on_ready, &ready);
    return rt_cond_wait(&ready, SOON);
}

static enum err
use_net(struct work *w)
{
    char got[8];
    size_t n;
    enum err rc = rt_listen("127.0.0.1", 0, NULL, &w->listener, NULL);

    if (rc == ERR_OK)
        rc = rt_connect("localhost", rt_listener_port(w->listener), SOON, &w->client,
                        NULL);
    if (rc == ERR_OK)
        rc = rt_accept(w->listener, SOON, &w->server, NULL);
    if (rc == ERR_OK)
        rc = rt_send(w->client, "x", 1, SOON, NULL);
    if (rc == ERR_OK)
        rc = park_once(w);
    if (rc == ERR_OK)
        rc = rt_recv(w->server, got, sizeof got, SOON, &n, NULL);
    if (rc == ERR_OK)
        rc = rt_send_end(w->server, SOON);
    if (rc == ERR_OK)
        rc = rt_recv(w->client, got, sizeof got, SOON, &n, NULL);
    return rc;
}

static enum err
use_disk(struct work *w)
{
    enum err rc = rt_dir_open("/tmp", &w->dir, NULL);
    uint32_t n;
    char name[64];

    snprintf(name, sizeof name, "fb-test-disturb-%d", getpid());
    if (rc == ERR_OK)
        rc = iobuf_get(4096, &w->buf);
    if (rc == ERR_OK)
        rc = rt_open(w->dir, name, RT_O_WRITE | RT_O_CREATE, 0600, &w->file, NULL);
    if (rc == ERR_OK)
        rc = rt_write(w->file, 0, w->buf, 0, 4096, RT_WRITE, NULL);
    if (rc == ERR_OK)
        rc = rt_sync(w->file, NULL);
    if (rc == ERR_OK)
        rc = rt_read(w->file, 0, w->buf, 0, 4096, RT_READ, SOON, &n, NULL);
    if (rc == ERR_OK)
        rc = rt_file_store(w->dir, name, "stored", 6, 0600, NULL);
    if (rc == ERR_OK)
        w->stored++;
    return rc;
}

static enum err
use_fibers(void)
{
    struct rt_sem sem;
    struct rt_group g;
    enum err rc = rt_sleep_ms(1), started;

    rt_sem_init(&sem, 0);
    if (rc == ERR_OK && rt_sem_acquire(&sem, deadline_in_ms(1)) == ERR_CANCELLED)
        rc = ERR_CANCELLED;
    if (rc == ERR_OK)
        rc = rt_blocking(do_nothing, NULL, SOON);
    if (rc == ERR_OK)
        rc = rt_call(0, do_nothing, NULL);
    rt_group_begin(&g);
    started = rt_group_start(&g, do_nothing, NULL);
    rt_group_join(&g);
    return rc != ERR_OK ? rc : started;
}

static void
clean_up(struct work *w)
{
    struct rt_shield shield;
    char name[64], *text;
    size_t len;

    rt_shield_begin(&shield);
    rt_stream_close(&w->client);
    rt_stream_close(&w->server);
    rt_listener_close(&w->listener);
    rt_file_close(&w->file);
    iobuf_drop(&w->buf);
    snprintf(name, sizeof name, "fb-test-disturb-%d", getpid());
    if (w->stored > 0) {
        CHECK(rt_file_load(w->dir, name, 100, &text, &len, NULL) == ERR_OK);
        CHECK_STR(text, "stored");
        free(text);
    }
    if (w->dir != NULL) {
        enum err rc = rt_dir_unlink(w->dir, name, NULL);

        CHECK(rc == ERR_OK || rc == ERR_NOT_FOUND);
    }
    rt_dir_close(&w->dir);
    rt_shield_end(&shield);
}

static void
work_fiber(void *arg)
{
    struct work *w = arg;

    w->rc = use_fibers();
    if (w->rc == ERR_OK)
        w->rc = use_net(w);
    if (w->rc == ERR_OK)
        w->rc = use_disk(w);
    w->waits = rt_test_waits();
    rt_test_disturb_wait(0, ERR_OK);
    clean_up(w);
}

struct disturbance {
    uint64_t nth;
    enum err err;
    struct work work;
};

/* The disturbed fiber is a child, so that its cancellation is its own affair. */
static void
work_and_count(void *arg)
{
    struct disturbance *d = arg;
    struct rt_group g;

    rt_test_disturb_wait(d->nth, d->err);
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, work_fiber, &d->work) == ERR_OK);
    rt_group_join(&g);
}

/* Until a run meets no disturbance. Not every wait can fail: writes, and jobs that a
 * worker has begun, are waited for. A cancellation then shows at the next wait. */
static void
disturb_each(enum rt_engine engine, enum err err, unsigned least)
{
    unsigned failed = 0, nth;
    bool all = false;

    for (nth = 1; !all && nth < 200; nth++) {
        struct disturbance d = {.nth = nth, .err = err, .work.rc = ERR_INTERNAL};

        run_fiber(engine, 1, work_and_count, &d);
        CHECK(d.work.rc == ERR_OK || d.work.rc == err);
        failed += d.work.rc == err;
        all = d.work.waits < nth; /* it met no disturbance at all */
        CHECK(!all || d.work.rc == ERR_OK);
    }
    fprintf(stderr, "%s: %u waits, %u of them ended by %s\n", rt_engine_name(engine),
            nth - 2, failed, err_name(err));
    CHECK(all && nth - 2 >= 18);
    CHECK(failed >= least);
}

static void
test_each_wait_cancelled(void)
{
    disturb_each(RT_EPOLL, ERR_CANCELLED, 17);
    disturb_each(RT_URING, ERR_CANCELLED, 17);
}

static void
test_each_wait_failed(void)
{
    disturb_each(RT_EPOLL, ERR_TIMEOUT, 6);
    disturb_each(RT_URING, ERR_TIMEOUT, 6);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_each_wait_cancelled);
    RUN(test_each_wait_failed);
    return check_done();
}

#else

int
main(void)
{
    printf("skipped: built without FB_TEST_HOOKS\n");
    return 0;
}

#endif
