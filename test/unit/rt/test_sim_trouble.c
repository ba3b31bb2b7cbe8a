/* Simulated disks in trouble: what fails, where, and that the same seed fails the same. */
#include "check.h"

#include <string.h>

#include "rt/file.h"
#include "rt/loop.h"
#include "rt/sim.h"
#include "rt/sim_trouble.h"
#include "rt/time.h"

struct seen {
    struct sim *sim;
    unsigned failed[2]; /* of 200 operations, on each disk */
    struct sim_trouble trouble;
    enum err first; /* of the disk in trouble */
    bool may_make;
    uint64_t took_ns;
};

static enum err
one_write(struct rt_file *f, struct iobuf *b, uint64_t offset)
{
    struct errbuf eb = {0};
    uint32_t n;
    enum err rc = rt_write(f, offset, b, 0, 4096, RT_WRITE, &eb);

    if (rc == ERR_OK)
        rc = rt_sync(f, &eb);
    if (rc == ERR_OK)
        rc = rt_read(f, offset, b, 0, 4096, RT_READ, DEADLINE_NEVER, &n, &eb);
    return rc;
}

static void
work(void *arg)
{
    struct seen *s = arg;
    const char *mounts[2] = {"/a", "/b"};
    struct rt_file *files[2];
    struct rt_dir *dirs[2];
    struct errbuf eb = {0};
    struct iobuf *b;
    uint64_t begun;

    CHECK(iobuf_get(4096, &b) == ERR_OK);
    memset(b->at, 'x', 4096);
    for (unsigned i = 0; i < 2; i++) {
        CHECK(rt_dir_open(mounts[i], &dirs[i], &eb) == ERR_OK);
        CHECK(rt_open(dirs[i], "f", RT_O_WRITE | RT_O_CREATE, 0600, &files[i], &eb) ==
              ERR_OK);
    }
    sim_trouble(s->sim, "/a", &s->trouble);
    begun = rt_now_ns();
    for (unsigned i = 0; i < 200; i++) {
        for (unsigned j = 0; j < 2; j++) {
            enum err rc = one_write(files[j], b, i * 4096);

            s->failed[j] += rc != ERR_OK;
            if (i == 0 && j == 0)
                s->first = rc;
        }
    }
    s->took_ns = rt_now_ns() - begun;
    s->may_make = rt_dir_make(dirs[0], "sub", 0700, &eb) == ERR_OK;
    for (unsigned i = 0; i < 2; i++) {
        rt_file_close(&files[i]);
        rt_dir_close(&dirs[i]);
    }
    iobuf_drop(&b);
}

static struct seen
under(const struct sim_trouble *t, uint64_t *hash)
{
    struct sim *sim = sim_new(&(struct sim_options){.seed = 5, .max_delay_us = 20});
    struct seen s = {.sim = sim, .trouble = *t};
    struct errbuf eb = {0};

    CHECK(sim_run_world(sim, work, &s, &eb) == ERR_OK);
    *hash = sim_trace_hash(sim);
    sim_free(&sim);
    return s;
}

static void
test_a_disk_fails_as_often_as_said(void)
{
    static const struct {
        struct sim_trouble t;
        unsigned least, most;
        enum err first;
        bool may_make;
    } rows[] = {
        {{0}, 0, 0, ERR_OK, true},
        {{.gone = true}, 200, 200, ERR_IO, false},
        {{.full = true}, 200, 200, ERR_NO_SPACE, true},
        {{.slow_us = 1000}, 0, 0, ERR_OK, true},
        {{.read_errors = 10000}, 200, 200, ERR_IO, true},
        {{.write_errors = 1000}, 5, 50, ERR_OK, true},
        {{.sync_errors = 1000}, 5, 50, ERR_OK, true},
    };

    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t hash, again;
        struct seen s = under(&rows[i].t, &hash);

        CHECK(s.failed[0] >= rows[i].least && s.failed[0] <= rows[i].most);
        CHECK_U64(s.failed[1], 0); /* the other disk knows nothing of it */
        CHECK_U64(s.first, rows[i].first);
        CHECK(s.may_make == rows[i].may_make);
        CHECK(s.took_ns >= 600 * rows[i].t.slow_us * UINT64_C(1000));
        (void)under(&rows[i].t, &again);
        CHECK_U64(hash, again);
    }
}

static void
jump(void *arg)
{
    uint64_t wall = rt_wall_ns(), now = rt_now_ns();

    sim_jump_clock(arg, -3600 * 1000);
    CHECK(rt_wall_ns() < wall && wall - rt_wall_ns() > UINT64_C(3599000000000));
    sim_jump_clock(arg, 2 * 3600 * 1000);
    CHECK(rt_wall_ns() > wall);
    CHECK(rt_now_ns() - now < 1000000); /* the one that orders things goes on as ever */
}

static void
test_the_wall_clock_jumps(void)
{
    struct sim *sim = sim_new(&(struct sim_options){.seed = 1});
    struct errbuf eb = {0};

    CHECK(sim_run_world(sim, jump, sim, &eb) == ERR_OK);
    sim_free(&sim);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_a_disk_fails_as_often_as_said);
    RUN(test_the_wall_clock_jumps);
    return check_done();
}
