/* Protects: the simulator's own promises: virtual time, cuts that everything sees, faults at every wait, equal
 * traces for equal seeds, and that it finds a forgotten sync. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "check.h"
#include "rt/file.h"
#include "rt/net.h"
#include "rt/sim.h"
#include "rt/sync.h"

static struct sim *
new_sim(uint64_t seed)
{
    return sim_new(
        &(struct sim_options){.seed = seed, .lossy = true, .max_delay_us = 500});
}

/* One world of its own; returns its end. */
static enum err
in_world(uint64_t seed, uint64_t cut_at, fiber_fn *fn, void *arg)
{
    struct sim *s = new_sim(seed);
    enum err rc;

    sim_cut_at(s, cut_at);
    rc = sim_run_world(s, fn, arg, NULL);
    sim_free(&s);
    return rc;
}

/* ---- time ---- */
static void
sleep_a_day(void *arg)
{
    uint64_t begin = rt_now_ns(), wall = rt_wall_ns();

    (void)arg;
    CHECK(rt_sleep_ms(86400000) == ERR_OK);
    CHECK(rt_now_ns() - begin >= 86400u * UINT64_C(1000000000));
    CHECK(rt_wall_ns() - wall == rt_now_ns() - begin);
    CHECK(rt_engine_now() == RT_SIM && rt_loop_count() == 1);
}

static void
test_time_is_virtual(void)
{
    time_t begin = time(NULL);

    CHECK(in_world(1, 0, sleep_a_day, NULL) == ERR_OK);
    CHECK(time(NULL) - begin < 10);
}

static void
spin(void *arg)
{
    struct deadline by = deadline_in_ms(1);

    (void)arg;
    while (!deadline_passed(by))
        rt_yield();
}

static void
test_running_takes_time_too(void)
{
    CHECK(in_world(1, 0, spin, NULL) == ERR_OK);
}

/* ---- files ---- */
static void
put_text(struct rt_file *f, uint64_t offset, const char *text, enum err want)
{
    struct iobuf *b = NULL;
    struct errbuf eb = {0};
    size_t len = strlen(text);
    enum err rc;

    REQUIRE(iobuf_get(4096, &b) == ERR_OK);
    memcpy(b->at, text, len);
    rc = rt_write(f, offset, b, 0, (uint32_t)len, RT_WRITE, &eb);
    if (rc != want)
        fprintf(stderr, "%s: %s\n", err_name(rc), eb.text);
    CHECK(rc == want);
    iobuf_drop(&b);
}

static void
on_name(const char *name, void *arg)
{
    strcat(arg, name);
    strcat(arg, " ");
}

static void
use_files(void *arg)
{
    struct rt_dir *d = NULL, *sub = NULL;
    struct rt_file *f = NULL, *g = NULL;
    struct errbuf eb = {0};
    char names[64] = "", *text;
    struct rt_space space;
    uint64_t size;
    size_t len;
    unsigned mode;

    (void)arg;
    REQUIRE(rt_dir_open("/disk", &d, &eb) == ERR_OK);
    CHECK(rt_dir_open("/disk/none", &sub, &eb) == ERR_NOT_FOUND);
    CHECK_SAYS(eb.text, "/disk/none");
    CHECK(rt_dir_make(d, "sub", 0700, &eb) == ERR_OK);
    CHECK(rt_dir_make(d, "sub", 0700, &eb) == ERR_EXISTS);
    REQUIRE(rt_dir_open_at(d, "sub", &sub, &eb) == ERR_OK);
    CHECK(access(rt_dir_path(sub), W_OK) == 0);
    CHECK(rt_open(sub, "f", RT_O_WRITE, 0600, &f, &eb) == ERR_NOT_FOUND);
    REQUIRE(rt_open(sub, "f", RT_O_WRITE | RT_O_CREATE, 0640, &f, &eb) == ERR_OK);
    CHECK(rt_open(sub, "f", RT_O_WRITE | RT_O_CREATE | RT_O_EXCL, 0600, &g, &eb) ==
          ERR_EXISTS);
    CHECK(rt_dir_mode(sub, "f", &mode, &eb) == ERR_OK && mode == 0640);
    CHECK(rt_file_lock(f, &eb) == ERR_OK);
    REQUIRE(rt_open(sub, "f", 0, 0, &g, &eb) == ERR_OK);
    CHECK(rt_file_lock(g, &eb) == ERR_EXISTS);
    put_text(f, 10, "hello", ERR_OK);
    CHECK(rt_file_size(g, &size, &eb) == ERR_OK && size == 15);
    CHECK(rt_truncate(f, 12, &eb) == ERR_OK);
    CHECK(rt_file_load(sub, "f", 100, &text, &len, &eb) == ERR_OK);
    CHECK(len == 12 && memcmp(text, "\0\0\0\0\0\0\0\0\0\0he", 12) == 0);
    free(text);
    CHECK(rt_file_store(sub, "a", "x", 1, 0600, &eb) == ERR_OK);
    CHECK(rt_dir_unlink(d, "sub", &eb) == ERR_NOT_EMPTY);
    CHECK(rt_dir_make(d, "empty", 0700, &eb) == ERR_OK);
    CHECK(rt_dir_unlink(d, "empty", &eb) == ERR_OK);
    CHECK(rt_dir_make(d, "../x", 0700, &eb) == ERR_BAD_REQUEST);
    CHECK(rt_dir_rename(sub, "f", "b", &eb) == ERR_OK);
    CHECK(rt_dir_list(sub, on_name, names, &eb) == ERR_OK);
    CHECK_STR(names, "a b ");
    CHECK(rt_dir_unlink(sub, "a", &eb) == ERR_OK);
    CHECK(rt_dir_unlink(sub, "a", &eb) == ERR_NOT_FOUND);
    CHECK(rt_fallocate(f, 0, MIB(1), &eb) == ERR_OK);
    CHECK(rt_dir_space(d, &space, &eb) == ERR_OK);
    CHECK(space.total_bytes == MIB(16) && space.inodes == 0);
    CHECK(space.free_bytes <= MIB(15) && space.free_bytes > MIB(14));
    CHECK(rt_fallocate(f, 0, MIB(64), &eb) == ERR_NO_SPACE);
    CHECK(rt_dir_sync(sub, &eb) == ERR_OK && rt_sync(f, &eb) == ERR_OK);
    rt_file_close(&f);
    CHECK(rt_file_lock(g, &eb) == ERR_OK); /* the other one's went with its handle */
    rt_file_close(&g);
    rt_dir_close(&sub);
    rt_dir_close(&d);
}

static void
read_flipped(void *arg)
{
    struct rt_dir *d;
    char *text;
    size_t len;

    (void)arg;
    REQUIRE(rt_dir_open("/disk/sub", &d, NULL) == ERR_OK);
    CHECK(rt_file_load(d, "b", MIB(2), &text, &len, NULL) == ERR_OK);
    CHECK(len == MIB(1) && text[10] == 'H' && text[11] == 'e');
    free(text);
    rt_dir_close(&d);
}

static void
test_files_and_directories(void)
{
    struct sim *s = sim_new(
        &(struct sim_options){.seed = 5, .max_delay_us = 9, .disk_bytes = MIB(16)});
    char *at;
    uint64_t size;

    CHECK(sim_run_world(s, use_files, NULL, NULL) == ERR_OK);
    CHECK(sim_events(s) > 10 && sim_waits(s) > 10);
    CHECK(sim_file_bytes(s, "/disk/sub/a", &at, &size) == ERR_NOT_FOUND);
    REQUIRE(sim_file_bytes(s, "/disk/sub/b", &at, &size) == ERR_OK);
    CHECK_U64(size, MIB(1));
    at[10] ^= 'h' ^ 'H';
    CHECK(sim_run_world(s, read_flipped, NULL, NULL) == ERR_OK);
    sim_free(&s);
}

/* ---- cuts ---- */
struct seen {
    enum err write, in_shield, sleep, blocking, child;
    unsigned worked;
};

static void
count_work(void *arg)
{
    ++*(unsigned *)arg;
}

static void
sleep_for_ever(void *arg)
{
    struct rt_shield shield;

    rt_shield_begin(&shield);
    *(enum err *)arg = rt_sleep_until(DEADLINE_NEVER);
    rt_shield_end(&shield);
}

static void
write_into_a_cut(void *arg)
{
    struct seen *seen = arg;
    struct rt_dir *d = NULL;
    struct rt_file *f = NULL;
    struct rt_shield shield;
    struct rt_group g;

    REQUIRE(rt_dir_open("/disk", &d, NULL) == ERR_OK);
    REQUIRE(rt_open(d, "f", RT_O_WRITE | RT_O_CREATE, 0600, &f, NULL) ==
            ERR_OK); /* event 1 */
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, sleep_for_ever, &seen->child) == ERR_OK);
    put_text(f, 0, "before", ERR_OK);        /* 2 */
    put_text(f, 0, "during", ERR_CANCELLED); /* 3 */
    put_text(f, 0, "after", ERR_CANCELLED);
    seen->sleep = rt_sleep_ms(1);
    rt_shield_begin(&shield);
    seen->in_shield = rt_sync(f, NULL);
    seen->blocking = rt_blocking(count_work, &seen->worked, DEADLINE_NEVER);
    rt_shield_end(&shield);
    if (rt_blocking(count_work, &seen->worked, DEADLINE_NEVER) != ERR_CANCELLED)
        CHECK(false && "refused");
    rt_group_join(&g);
    rt_file_close(&f);
    rt_dir_close(&d);
}

static void
test_after_a_cut_everything_fails(void)
{
    struct seen seen = {.worked = 0};
    struct sim *s = new_sim(3);
    struct errbuf eb = {0};

    sim_cut_at(s, 3);
    CHECK(sim_run_world(s, write_into_a_cut, &seen, &eb) == ERR_CANCELLED);
    CHECK_SAYS(eb.text, "cut at event 3");
    CHECK(sim_was_cut(s));
    CHECK_U64(sim_events(s), 3);
    CHECK(seen.sleep == ERR_CANCELLED);
    CHECK(seen.in_shield == ERR_CANCELLED);
    CHECK(seen.child == ERR_CANCELLED); /* though it sat in a shield */
    CHECK(seen.blocking == ERR_OK &&
          seen.worked == 1); /* memory must be freed all the same */
    sim_free(&s);
}

/* A store as it should be, or with one of its three syncs forgotten. */
struct store {
    bool no_sync, no_dir_sync;
    bool acked, found;
};

static void
store_once(void *arg)
{
    struct store *t = arg;
    struct rt_dir *d = NULL;
    struct rt_file *f = NULL;
    struct iobuf *b = NULL;
    enum err rc = rt_dir_open("/disk", &d, NULL);

    if (rc == ERR_OK)
        rc = rt_open(d, "tmp", RT_O_WRITE | RT_O_CREATE, 0600, &f, NULL);
    if (rc == ERR_OK)
        rc = iobuf_get(4096, &b);
    if (rc == ERR_OK) {
        memset(b->at, 'd', 4096);
        rc = rt_write(f, 0, b, 0, 4096, RT_WRITE, NULL);
    }
    if (rc == ERR_OK && !t->no_sync)
        rc = rt_sync(f, NULL);
    if (rc == ERR_OK)
        rc = rt_dir_rename(d, "tmp", "name", NULL);
    if (rc == ERR_OK && !t->no_dir_sync)
        rc = rt_dir_sync(d, NULL);
    t->acked = rc == ERR_OK;
    if (rc == ERR_OK &&
        rt_dir_make(d, "later", 0700, NULL) == ERR_OK) /* the cut strikes here at last */
        t->acked = true;
    iobuf_drop(&b);
    rt_file_close(&f);
    rt_dir_close(&d);
}

static void
look_for_it(void *arg)
{
    struct store *t = arg;
    struct rt_dir *d;
    char *text = NULL;
    size_t len = 0;

    REQUIRE(rt_dir_open("/disk", &d, NULL) == ERR_OK);
    t->found = rt_file_load(d, "name", 8192, &text, &len, NULL) == ERR_OK && len == 4096;
    for (size_t i = 0; t->found && i < len; i++)
        t->found = text[i] == 'd';
    free(text);
    rt_dir_close(&d);
}

static unsigned
losses(bool no_sync, bool no_dir_sync)
{
    unsigned lost = 0;

    for (uint64_t seed = 0; seed < 300; seed++) {
        struct store t = {.no_sync = no_sync, .no_dir_sync = no_dir_sync};
        struct sim *s = new_sim(seed);

        sim_cut_at(s, 1 + seed % 6);
        CHECK(sim_run_world(s, store_once, &t, NULL) ==
              (sim_was_cut(s) ? ERR_CANCELLED : ERR_OK));
        CHECK(sim_run_world(s, look_for_it, &t, NULL) == ERR_OK);
        lost += t.acked && !t.found;
        sim_free(&s);
    }
    return lost;
}

static void
test_forgotten_syncs_are_found(void)
{
    CHECK_U64(losses(false, false), 0);
    CHECK(losses(true, false) > 5);
    CHECK(losses(false, true) > 5);
}

/* ---- disturbed waits ---- */
static void
three_steps(void *arg)
{
    enum err *rc = arg;
    struct rt_dir *d = NULL;
    struct rt_file *f = NULL;
    struct iobuf *b = NULL;

    rc[0] = rt_sleep_ms(1); /* wait 1 */
    rc[1] = rt_sleep_ms(1); /* wait 2, unless 1 was cancelled */
    REQUIRE(iobuf_get(4096, &b) == ERR_OK);
    memset(b->at, 'x', 4096);
    if (rt_dir_open("/d", &d, NULL) == ERR_OK &&
        rt_open(d, "f", RT_O_WRITE | RT_O_CREATE, 0600, &f, NULL) == ERR_OK)
        rc[2] = rt_write(f, 0, b, 0, 4096, RT_WRITE,
                         NULL); /* 3, 4, 5 are the opens; 6 is owed */
    rc[3] = f != NULL ? rt_sync(f, NULL) : ERR_IO;
    iobuf_drop(&b);
    rt_file_close(&f);
    rt_dir_close(&d);
}

static void
test_the_nth_wait_fails(void)
{
    static const struct {
        uint64_t nth;
        enum err err, want[4];
    } rows[] = {
        {0, ERR_IO, {ERR_OK, ERR_OK, ERR_OK, ERR_OK}},
        {1, ERR_IO, {ERR_IO, ERR_OK, ERR_OK, ERR_OK}},
        {2, ERR_BUSY, {ERR_OK, ERR_BUSY, ERR_OK, ERR_OK}},
        {2, ERR_CANCELLED, {ERR_OK, ERR_CANCELLED, ERR_OK, ERR_IO}},
        {6, ERR_IO, {ERR_OK, ERR_OK, ERR_IO, ERR_OK}},
        {6,
         ERR_CANCELLED,
         {ERR_OK, ERR_OK, ERR_OK,
          ERR_CANCELLED}}, /* what is owed ends; the next call does not begin */
        {7, ERR_IO, {ERR_OK, ERR_OK, ERR_OK, ERR_IO}},
    };

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        enum err got[4] = {ERR_OK, ERR_OK, ERR_OK, ERR_OK};
        struct sim *s = new_sim(i);

        if (rows[i].nth > 0)
            sim_disturb_wait(s, rows[i].nth, rows[i].err);
        CHECK(sim_run_world(s, three_steps, got, NULL) == ERR_OK);
        if (rows[i].nth == 0)
            CHECK_U64(sim_waits(s), 7);
        for (unsigned k = 0; k < 4; k++) {
            enum err want = rows[i].want[k];

            if (got[k] != want)
                fprintf(stderr, "row %u step %u: %s, wanted %s\n", i, k, err_name(got[k]),
                        err_name(want));
            CHECK(got[k] == want);
        }
        sim_free(&s);
    }
}

/* ---- traces ---- */
static void
draw_and_wait(void *arg)
{
    unsigned char bytes[16];

    (void)arg;
    rt_random(bytes, sizeof bytes);
    CHECK(rt_sleep_ms(1 + sim_random() % 100) == ERR_OK);
    use_files(NULL);
}

static uint64_t
trace_of(uint64_t seed)
{
    struct sim *s = sim_new(
        &(struct sim_options){.seed = seed, .max_delay_us = 50, .disk_bytes = MIB(16)});
    uint64_t hash;

    CHECK(sim_run_world(s, draw_and_wait, NULL, NULL) == ERR_OK);
    hash = sim_trace_hash(s);
    sim_free(&s);
    return hash;
}

static void
test_equal_seeds_make_equal_worlds(void)
{
    CHECK_U64(trace_of(11), trace_of(11));
    CHECK(trace_of(11) != trace_of(12));
}

/* ---- between loops, and workers ---- */
struct mixed {
    struct rt_msg msg;
    struct rt_waiter waiter;
    unsigned called, posted, worked, retired;
    enum err inner;
};

static void
on_called(void *arg)
{
    struct mixed *m = arg;

    m->inner = rt_sleep_ms(1);
    m->called++;
}

static void
on_posted(struct rt_msg *msg)
{
    struct mixed *m = CONTAINER_OF(msg, struct mixed, msg);

    m->posted++;
    rt_wake(&m->waiter);
}

static void
use_loops(void *arg)
{
    struct mixed *m = arg;

    CHECK(rt_call(0, on_called, m) == ERR_OK);
    CHECK(m->called == 1 && m->inner == ERR_OK);
    rt_waiter_init(&m->waiter);
    m->msg.fn = on_posted;
    rt_post(0, &m->msg);
    rt_wait(&m->waiter);
    CHECK_U64(m->posted, 1);
    CHECK(rt_blocking(count_work, &m->worked, DEADLINE_NEVER) == ERR_OK);
    CHECK_U64(m->worked, 1);
    rt_retire(count_work, &m->retired);
    CHECK(rt_sleep_ms(1) == ERR_OK);
    CHECK_U64(m->retired, 1);
}

static void
test_calls_messages_and_workers(void)
{
    struct mixed m = {.called = 0};

    CHECK(in_world(1, 0, use_loops, &m) == ERR_OK);
}

/* ---- network ---- */
/* Five bytes, which may come in pieces. */
static void
echo(void *arg, enum err why)
{
    struct stream *s = arg;
    char buf[100];
    size_t n = 0;

    for (size_t got = 0; why == ERR_OK && got < 5; got += n) {
        why = rt_recv(s, buf, sizeof buf, DEADLINE_NEVER, &n, NULL);
        if (why == ERR_OK)
            why = rt_send(s, buf, n, DEADLINE_NEVER, NULL);
    }
    CHECK(why == ERR_OK);
    rt_stream_close(&s);
}

static void
on_stream(struct stream *s, void *arg)
{
    ++*(unsigned *)arg;
    rt_park(s, DEADLINE_NEVER, echo, s);
}

static void
use_network(void *arg)
{
    struct listener *l = NULL, *second = NULL;
    struct stream *s = NULL;
    struct errbuf eb = {0};
    unsigned served = 0;
    char buf[100];
    size_t n;

    (void)arg;
    CHECK(rt_connect("127.0.0.1", 80, DEADLINE_NEVER, &s, &eb) == ERR_CLOSED);
    CHECK_SAYS(eb.text, "connection refused");
    REQUIRE(rt_listen("0.0.0.0", 80, NULL, &l, &eb) == ERR_OK);
    CHECK(rt_listen("0.0.0.0", 80, NULL, &second, &eb) == ERR_EXISTS);
    rt_listener_serve(l, on_stream, &served);
    for (int i = 0; i < 5; i++) {
        REQUIRE(rt_connect(i % 2 == 0 ? "localhost" : "127.0.0.1", 80, DEADLINE_NEVER, &s,
                           &eb) == ERR_OK);
        CHECK(rt_send(s, "hello", 5, DEADLINE_NEVER, &eb) == ERR_OK);
        for (size_t got = 0; got < 5; got += n)
            REQUIRE(rt_recv(s, buf, sizeof buf, DEADLINE_NEVER, &n, &eb) == ERR_OK &&
                    n > 0);
        CHECK(rt_stream_is_loopback(s));
        rt_stream_close(&s);
    }
    CHECK_U64(served, 5);
    rt_listener_close(&l);
    CHECK(rt_connect("127.0.0.1", 80, DEADLINE_NEVER, &s, &eb) == ERR_CLOSED);
}

static void
reset_by_peer(void *arg)
{
    struct stream *a, *b;
    char buf[10];
    size_t n;

    (void)arg;
    CHECK(rt_pipe(&a, &b) == ERR_OK);
    CHECK(rt_send(a, "unread", 6, DEADLINE_NEVER, NULL) == ERR_OK);
    rt_stream_close(&b);
    CHECK(rt_recv(a, buf, sizeof buf, DEADLINE_NEVER, &n, NULL) == ERR_CLOSED);
    CHECK(rt_send(a, "more", 4, DEADLINE_NEVER, NULL) == ERR_CLOSED);
    rt_stream_close(&a);
}

static void
test_connections(void)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        CHECK(in_world(seed, 0, use_network, NULL) == ERR_OK);
        CHECK(in_world(seed, 0, reset_by_peer, NULL) == ERR_OK);
    }
}

/* ---- the index ---- */
static void
commit_thrice(void *arg)
{
    struct rt_dir *d;
    char file[200];

    (void)arg;
    REQUIRE(rt_dir_open("/disk", &d, NULL) == ERR_OK);
    snprintf(file, sizeof file, "%s/data.mdb", rt_dir_path(d));
    for (char c = '1'; c <= '3'; c++) {
        FILE *f = fopen(file, "w");

        REQUIRE(f != NULL);
        fputc(c, f);
        fclose(f);
        sim_index_committed(rt_dir_path(d));
    }
    CHECK(rt_dir_make(d, "x", 0700, NULL) == ERR_CANCELLED); /* the cut */
    rt_dir_close(&d);
}

static void
look_at_index(void *arg)
{
    struct rt_dir *d;
    char file[200];
    FILE *f;

    REQUIRE(rt_dir_open("/disk", &d, NULL) == ERR_OK);
    snprintf(file, sizeof file, "%s/data.mdb", rt_dir_path(d));
    f = fopen(file, "r");
    *(int *)arg = f != NULL ? fgetc(f) : 0;
    if (f != NULL)
        fclose(f);
    if (f != NULL) { /* what is only in the real directory can be opened by name */
        char *text;
        size_t len;

        CHECK(rt_file_load(d, "data.mdb", 10, &text, &len, NULL) == ERR_OK);
        CHECK(len == 1 && text[0] == *(int *)arg);
        free(text);
    }
    if (f != NULL) { /* what is only in the real directory can be removed by name */
        CHECK(rt_dir_unlink(d, "data.mdb", NULL) == ERR_OK);
        CHECK(access(file, F_OK) != 0);
    }
    rt_dir_close(&d);
}

static void
test_a_cut_throws_the_index_back(void)
{
    unsigned seen[4] = {0};

    for (uint64_t seed = 0; seed < 60; seed++) {
        struct sim *s = new_sim(seed);
        int c = -1;

        sim_cut_at(s, 1);
        CHECK(sim_run_world(s, commit_thrice, NULL, NULL) == ERR_CANCELLED);
        CHECK(sim_run_world(s, look_at_index, &c, NULL) == ERR_OK);
        CHECK(c == 0 || (c >= '1' && c <= '3'));
        seen[c > 0 ? c - '0' : 0]++;
        sim_free(&s);
    }
    for (unsigned i = 0; i < 4; i++)
        CHECK(seen[i] > 3);
}

/* ---- what can't go on ---- */
static void
wait_for_nobody(void *arg)
{
    struct rt_cond c;

    (void)arg;
    rt_cond_init(&c);
    if (rt_cond_wait(&c, DEADLINE_NEVER) == ERR_OK)
        CHECK(false && "no signal");
}

static void
ignore_the_cut(void *arg)
{
    struct rt_dir *d = NULL;

    (void)arg;
    if (rt_dir_open("/disk", &d, NULL) != ERR_OK ||
        rt_dir_make(d, "x", 0700, NULL) == ERR_OK)
        return;
    for (;;)
        rt_yield();
}

static void
wait_owed(void *arg)
{
    struct rt_waiter w;

    (void)arg;
    rt_waiter_init(&w);
    rt_wait(&w);
}

static void
expect_report(fiber_fn *fn, uint64_t cut_at, const char *says)
{
    char text[4096] = "";
    size_t len = 0;
    ssize_t n;
    int fds[2], status = 0;
    pid_t child;

    REQUIRE(pipe(fds) == 0);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(fds[1], STDERR_FILENO);
        close(fds[0]);
        close(fds[1]);
        (void)in_world(99, cut_at, fn, NULL);
        _exit(0);
    }
    close(fds[1]);
    while (len < sizeof text - 1 &&
           (n = read(fds[0], text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    close(fds[0]);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_SAYS(text, says);
    CHECK_SAYS(text, "seed 99");
}

static void
test_a_world_that_hangs_is_reported(void)
{
    expect_report(wait_for_nobody, 0, "deadlock: every fiber waits");
    expect_report(wait_for_nobody, 0, "a fiber waits: ");
    expect_report(wait_owed, 0, "a fiber waits, owed a wake");
    expect_report(ignore_the_cut, 1, "fibers keep running long after");
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_time_is_virtual);
    RUN(test_running_takes_time_too);
    RUN(test_files_and_directories);
    RUN(test_after_a_cut_everything_fails);
    RUN(test_forgotten_syncs_are_found);
    RUN(test_the_nth_wait_fails);
    RUN(test_equal_seeds_make_equal_worlds);
    RUN(test_calls_messages_and_workers);
    RUN(test_connections);
    RUN(test_a_cut_throws_the_index_back);
    RUN(test_a_world_that_hangs_is_reported);
    return check_done();
}
