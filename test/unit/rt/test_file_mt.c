/* One file and its buffers used by all loops at once: counts are atomic, buffers may
 * be dropped elsewhere, and the descriptor closes with the last operation, wherever
 * that ends. Runs under TSan too. */
#include <stdatomic.h>
#include <unistd.h>

#include "base/mem.h"
#include "engines.h"
#include "rt/file.h"

#define SOON deadline_in_ms(PATIENCE_MS)

enum { LOOPS = 3, BLOCK = 8192, BLOCKS = 64, ROUNDS = 60 };

struct shared {
    struct rt_dir *dir;
    struct rt_file *file;
    atomic_uint reads, abandoned;
};

static void
fill(struct iobuf *b, unsigned block, unsigned version)
{
    for (unsigned i = 0; i < BLOCK; i++)
        b->at[i] = (char)(block * 7 + version);
}

static bool
is_whole(const struct iobuf *b)
{
    for (unsigned i = 1; i < BLOCK; i++)
        if (b->at[i] != b->at[0])
            return false;
    return true;
}

/* Writes only its own third of the blocks, reads all of them. */
static void
use_file(void *arg)
{
    struct shared *s = arg;
    unsigned mine = rt_loop_index();

    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned block = (round * 13 + mine * 5) % BLOCKS;
        struct iobuf *b;
        uint32_t n;
        enum err rc;

        CHECK(iobuf_get(BLOCK, &b) == ERR_OK);
        if (block % LOOPS == mine) {
            fill(b, block, round);
            CHECK(rt_write(s->file, (uint64_t)block * BLOCK, b, 0, BLOCK, RT_WRITE,
                           NULL) == ERR_OK);
        }
        rc = rt_read(s->file, (uint64_t)block * BLOCK, b, 0, BLOCK, RT_READ,
                     round % 10 == 9 ? deadline_in_ms(0) : SOON, &n, NULL);
        CHECK(rc == ERR_OK || rc == ERR_TIMEOUT);
        if (rc == ERR_OK && block % LOOPS == mine)
            CHECK(n == BLOCK && is_whole(b));
        atomic_fetch_add(rc == ERR_OK ? &s->reads : &s->abandoned, 1);
        if (round % 20 == 19)
            CHECK(rt_sync(s->file, NULL) == ERR_OK);
        iobuf_drop(&b);
    }
}

struct place {
    struct shared *s;
    unsigned loop;
};

static void
use_there(void *arg)
{
    struct place *p = arg;

    CHECK(rt_call(p->loop, use_file, p->s) == ERR_OK);
}

/* Made on loop 0, dropped on another one. */
static void
drop_here(void *arg)
{
    iobuf_drop(arg);
}

static void
close_here(void *arg)
{
    struct shared *s = arg;

    rt_file_close(&s->file);
}

static void
shared_fiber(void *arg)
{
    struct shared s = {0};
    struct place places[LOOPS * 2];
    struct rt_group g;
    struct iobuf *b;
    char name[64];

    (void)arg;
    snprintf(name, sizeof name, "fb-test-file-mt-%d", getpid());
    CHECK(rt_dir_open("/tmp", &s.dir, NULL) == ERR_OK);
    CHECK(rt_open(s.dir, name, RT_O_WRITE | RT_O_CREATE | RT_O_DIRECT, 0600, &s.file,
                  NULL) == ERR_OK);
    CHECK(rt_fallocate(s.file, 0, (uint64_t)BLOCK * BLOCKS, NULL) == ERR_OK);
    rt_group_begin(&g);
    for (unsigned i = 0; i < LOOPS * 2; i++) {
        places[i] = (struct place){.s = &s, .loop = i % LOOPS};
        CHECK(rt_group_start(&g, use_there, &places[i]) == ERR_OK);
    }
    rt_group_join(&g);
    CHECK_U64(s.reads + s.abandoned, LOOPS * 2 * ROUNDS);
    CHECK(s.reads > 0);
    CHECK(iobuf_get(1 << 20, &b) == ERR_OK);
    CHECK(rt_call(1, drop_here, &b) == ERR_OK);
    CHECK(b == NULL);
    CHECK(rt_call(2, close_here, &s) == ERR_OK);
    CHECK(rt_dir_unlink(s.dir, name, NULL) == ERR_OK);
    rt_dir_close(&s.dir);
}

static void
test_all_loops_use_one_file(void)
{
    for (unsigned i = 0; i < 2; i++) {
        run_fiber(engines_[i], LOOPS, shared_fiber, NULL);
        CHECK_U64(iobuf_in_use(), 0);
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_all_loops_use_one_file);
    return check_done();
}
