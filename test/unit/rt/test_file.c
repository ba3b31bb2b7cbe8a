/* Files and their buffers: what is written is read, abandoned reads end by themselves,
 * classes have limits, small files are replaced whole. */
#include <unistd.h>

#include "base/account.h"
#include "base/mem.h"
#include "engines.h"
#include "rt/blocks.h"
#include "rt/file.h"
#include "rt/loop.h"

#define SOON deadline_in_ms(PATIENCE_MS)

static char scratch_name[64];

static struct rt_dir *
scratch(void)
{
    struct rt_dir *tmp, *d = NULL;
    struct errbuf eb = {0};

    snprintf(scratch_name, sizeof scratch_name, "fb-test-file-%d", getpid());
    CHECK(rt_dir_open("/tmp", &tmp, &eb) == ERR_OK);
    CHECK(rt_dir_make(tmp, scratch_name, 0700, &eb) == ERR_OK);
    CHECK(rt_dir_open_at(tmp, scratch_name, &d, &eb) == ERR_OK);
    CHECK_SAYS(rt_dir_path(d), "/tmp/fb-test-file-");
    CHECK_STR(eb.text, "");
    rt_dir_close(&tmp);
    return d;
}

static void
finish(struct rt_dir **d, const char *name)
{
    struct errbuf eb = {0};
    struct rt_dir *tmp;

    CHECK(rt_dir_unlink(*d, name, &eb) == ERR_OK);
    rt_dir_close(d);
    CHECK(rt_dir_open("/tmp", &tmp, &eb) == ERR_OK);
    CHECK(rt_dir_unlink(tmp, scratch_name, &eb) ==
          ERR_OK); /* nothing else is left in it */
    CHECK_STR(eb.text, "");
    rt_dir_close(&tmp);
}

static void
fill(struct iobuf *b, unsigned seed)
{
    for (uint32_t i = 0; i < b->room; i++)
        b->at[i] = (char)(i * 31 + i / 4096 + seed);
}

/* ---- buffers ---- */

static void
iobuf_fiber(void *arg)
{
    struct iobuf *a, *b, *again;

    (void)arg;
    CHECK(iobuf_get(1, &a) == ERR_OK);
    CHECK(a->room == 4096 && (uintptr_t)a->at % 4096 == 0);
    CHECK(iobuf_get(100000, &b) == ERR_OK);
    CHECK_U64(b->room, 131072);
    CHECK_U64(iobuf_in_use(), 4096 + 131072);
    again = iobuf_ref(b);
    iobuf_drop(&b);
    CHECK(b == NULL && iobuf_in_use() == 4096 + 131072);
    iobuf_drop(&again);
    iobuf_drop(&a);
    iobuf_drop(&a); /* NULL is fine */
    CHECK_U64(iobuf_in_use(), 0);

    CHECK(iobuf_get(IOBUF_MAX, &a) == ERR_OK);
    CHECK(iobuf_get(IOBUF_MAX, &b) == ERR_BUSY && b == NULL);
    CHECK(iobuf_wait(IOBUF_MAX, deadline_in_ms(20), &b) == ERR_BUSY && b == NULL);
    CHECK((account_tight() & TIGHT_BUFFERS) == 0);
    CHECK(iobuf_get(IOBUF_MAX / 2, &b) == ERR_OK);
    CHECK(iobuf_get(1u << 20, &again) ==
          ERR_OK); /* seven eighths: all there is for most */
    CHECK((account_tight() & TIGHT_BUFFERS) != 0);
    iobuf_drop(&b);
    iobuf_drop(&again);
    CHECK((account_tight() & TIGHT_BUFFERS) == 0);
    rt_essential(); /* essential fibers get the last eighth */
    CHECK(iobuf_get(IOBUF_MAX, &b) == ERR_OK);
    CHECK(iobuf_get(1, &again) == ERR_BUSY && again == NULL);
    iobuf_drop(&a);
    iobuf_drop(&b);
    CHECK_U64(iobuf_in_use(), 0);
}

static void
test_buffers_are_counted_and_limited(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1, .iobuf_bytes = 2 * IOBUF_MAX};

    CHECK(rt_run(&o, iobuf_fiber, NULL, NULL) == ERR_OK);
    CHECK_U64(iobuf_in_use(), 0);
}

#define LARGE 40

static void
drop_odd_ones(void *arg)
{
    struct iobuf **b = arg;

    for (unsigned i = 1; i < LARGE; i += 2)
        iobuf_drop(&b[i]);
}

static bool
is_all(const struct iobuf *b, unsigned char value)
{
    for (uint32_t i = 0; i < b->room; i++)
        if ((unsigned char)b->at[i] != value)
            return false;
    return true;
}

/* Some of them go back to the system, from another thread; the others stay as they are. */
static void
large_reads_fiber(void *arg)
{
    struct iobuf *b[LARGE + 1] = {NULL};
    unsigned near = 0;

    (void)arg;
    for (unsigned i = 0; i < LARGE; i++) {
        REQUIRE(iobuf_get_pinned(100000, &b[i]) == ERR_OK);
        CHECK_U64((uintptr_t)b[i]->at % 4096, 0);
        memset(b[i]->at, (int)i, b[i]->room);
        near += i > 0 && b[i]->at > b[i - 1]->at &&
                b[i]->at <= b[i - 1]->at + b[i - 1]->room + 8192;
    }
    CHECK_U64(near, LARGE - 3); /* three huge pages */
    REQUIRE(rt_blocking(drop_odd_ones, b, DEADLINE_NEVER) == ERR_OK);
    for (unsigned i = 0; i < LARGE; i += 2)
        CHECK(is_all(b[i], (unsigned char)i));
    CHECK_U64(iobuf_in_use(), LARGE / 2 * 131072);
    for (unsigned round = 0; round < 2; round++) { /* idle ones, then new ones */
        drop_odd_ones(b + 1);
        iobuf_drop(&b[0]);
        for (unsigned i = 0; i < LARGE; i++) {
            REQUIRE(iobuf_get_pinned(100000, &b[i]) == ERR_OK);
            memset(b[i]->at, (int)i, b[i]->room);
        }
        for (unsigned i = 0; i < LARGE; i++)
            CHECK(is_all(b[i], (unsigned char)i));
        drop_odd_ones(b);
    }
    for (unsigned i = 0; i < LARGE; i++)
        iobuf_drop(&b[i]);
    CHECK_U64(iobuf_in_use(), 0);
}

static void
test_buffers_for_large_reads_lie_together(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1};

    CHECK(rt_run(&o, large_reads_fiber, NULL, NULL) == ERR_OK);
    CHECK_U64(iobuf_in_use(), 0);
}

/* ---- blocks ---- */

#define BLOCK_BYTES (2u << 20)
#define BURST       320u /* of 128 KiB: far more than a loop keeps */
#define KEPT_IDLE   (16u << 20)

static struct iobuf *burst[BURST];

/* All that are not there yet. */
static void
fill_burst(void)
{
    for (unsigned i = 0; i < BURST; i++) {
        if (burst[i] != NULL)
            continue;
        REQUIRE(iobuf_get_pinned(100000, &burst[i]) == ERR_OK);
        memset(burst[i]->at, (int)(i % 251), burst[i]->room);
    }
    CHECK_U64(account_of(ACCOUNT_BUFFERS), BURST * 131072u);
}

/* By chance, as it were, but for one in `but`. */
static void
drop_but(unsigned but)
{
    for (unsigned i = 0; i < BURST; i++) {
        unsigned n = i * 67 % BURST;

        if (n % but != 0)
            iobuf_drop(&burst[n]);
    }
}

static void
drop_most(void *arg)
{
    (void)arg;
    drop_but(16);
}

static void
check_burst(unsigned but)
{
    for (unsigned i = 0; i < BURST; i += but)
        CHECK(is_all(burst[i], (unsigned char)(i % 251)));
    CHECK_U64(account_of(ACCOUNT_BUFFERS), BURST / but * 131072u);
}

/* Again and again a burst of which one in sixteen stays: the next one needs no more memory. */
static void
burst_fiber(void *arg)
{
    uint64_t most;

    (void)arg;
    CHECK_U64(blocks_bytes(), 0);
    fill_burst();
    most = blocks_bytes();
    CHECK(most >= (uint64_t)BURST * 131072);
    for (unsigned round = 0; round < 3; round++) {
        if (round == 1)
            REQUIRE(rt_blocking(drop_most, NULL, DEADLINE_NEVER) == ERR_OK);
        else
            drop_but(16);
        check_burst(16);
        fill_burst();
        check_burst(1);
        CHECK_U64(blocks_bytes(), most);
    }
    for (unsigned i = 1; i < BURST; i++)
        iobuf_drop(&burst[i]);
    CHECK(blocks_bytes() <= KEPT_IDLE + BLOCK_BYTES);
    check_burst(BURST);
}

static void
test_places_of_large_reads_are_used_again(void)
{
    struct rt_options o = {.loops = 1};

    for (unsigned i = 0; i < 2; i++) {
        o.engine = engines_[i];
        CHECK(rt_run(&o, burst_fiber, NULL, NULL) == ERR_OK);
        CHECK_U64(blocks_bytes(),
                  BLOCK_BYTES); /* the loop is gone, its last buffer not */
        check_burst(BURST);
        iobuf_drop(&burst[0]);
        CHECK_U64(blocks_bytes(), 0);
        CHECK_U64(account_of(ACCOUNT_BUFFERS), 0);
    }
}

#define SIZES 5u

/* Buffers of different sizes out of one block, in any order, never overlap. */
static void
sizes_fiber(void *arg)
{
    static struct iobuf *b[60];
    static const uint32_t sizes[SIZES] = {64u << 10, 512u << 10, 128u << 10, 60u << 10,
                                          256u << 10};
    uint64_t most = 0;

    (void)arg;
    for (unsigned round = 0; round < 8; round++) {
        for (unsigned i = 0; i < ARRAY_LEN(b); i++) {
            if (b[i] != NULL)
                continue;
            REQUIRE(iobuf_get_pinned(sizes[(i + round) % SIZES], &b[i]) == ERR_OK);
            memset(b[i]->at, (int)i, b[i]->room);
        }
        for (unsigned i = 0; i < ARRAY_LEN(b); i++)
            CHECK(is_all(b[i], (unsigned char)i));
        most = MAX(most, blocks_bytes());
        for (unsigned i = round % 3; i < ARRAY_LEN(b); i += 3)
            iobuf_drop(&b[i]);
    }
    CHECK(most < 2 * ARRAY_LEN(b) * (512u << 10));
    for (unsigned i = 0; i < ARRAY_LEN(b); i++)
        iobuf_drop(&b[i]);
    CHECK(blocks_bytes() <= KEPT_IDLE + BLOCK_BYTES);
}

static void
test_places_of_all_sizes_lie_apart(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1};

    CHECK(rt_run(&o, sizes_fiber, NULL, NULL) == ERR_OK);
    CHECK_U64(blocks_bytes(), 0);
    CHECK_U64(iobuf_in_use(), 0);
}

/* ---- bytes ---- */

static void
write_and_read(unsigned flags)
{
    struct rt_dir *d = scratch();
    struct errbuf eb = {0};
    struct iobuf *out, *in;
    struct rt_file *f;
    uint64_t size;
    uint32_t n;

    CHECK(iobuf_get(65536, &out) == ERR_OK && iobuf_get(131072, &in) == ERR_OK);
    fill(out, 3);
    CHECK(rt_open(d, "data", RT_O_WRITE | RT_O_CREATE | RT_O_EXCL | flags, 0600, &f,
                  &eb) == ERR_OK);
    REQUIRE(f != NULL);
    CHECK(rt_write(f, 8192, out, 0, 65536, RT_WRITE, &eb) == ERR_OK);
    CHECK(rt_write(f, 0, out, 8192, 4096, RT_WRITE, &eb) == ERR_OK);
    CHECK(rt_sync(f, &eb) == ERR_OK);
    if (rt_writes_durable(f))
        CHECK(rt_write_durable(f, 0, out, 8192, 4096, RT_WRITE, &eb) == ERR_OK);
    CHECK(rt_file_size(f, &size, &eb) == ERR_OK);
    CHECK_U64(size, 8192 + 65536);
    CHECK(rt_read(f, 8192, in, 4096, 65536, RT_READ, SOON, &n, &eb) == ERR_OK);
    CHECK(n == 65536 && memcmp(in->at + 4096, out->at, 65536) == 0);
    CHECK(rt_read(f, 65536, in, 0, 131072, RT_READ, SOON, &n, &eb) == ERR_OK);
    CHECK_U64(n, 8192); /* the end of the file */
    CHECK(rt_read(f, 1 << 20, in, 0, 4096, RT_BACKGROUND, SOON, &n, &eb) == ERR_OK &&
          n == 0);
    CHECK(rt_read(f, 0, in, 0, 8192, RT_REPAIR, SOON, &n, &eb) == ERR_OK && n == 8192);
    CHECK(memcmp(in->at, out->at + 8192, 4096) == 0 && in->at[4096] == 0);

    CHECK(rt_fallocate(f, 0, 1 << 20, &eb) == ERR_OK);
    CHECK(rt_file_size(f, &size, &eb) == ERR_OK && size == 1 << 20);
    CHECK(rt_punch(f, 8192, 4096, &eb) == ERR_OK);
    CHECK(rt_read(f, 8192, in, 0, 8192, RT_READ, SOON, &n, &eb) == ERR_OK && n == 8192);
    CHECK(in->at[100] == 0 && memcmp(in->at + 4096, out->at + 4096, 4096) == 0);
    CHECK(rt_truncate(f, 4096, &eb) == ERR_OK);
    CHECK(rt_file_size(f, &size, &eb) == ERR_OK && size == 4096);
    CHECK_STR(eb.text, "");
    CHECK(rt_file_busy(f) == 0);
    rt_file_close(&f);
    CHECK(f == NULL);
    iobuf_drop(&out);
    iobuf_drop(&in);
    finish(&d, "data");
}

static void
bytes_fiber(void *arg)
{
    (void)arg;
    write_and_read(0);
    write_and_read(RT_O_DIRECT);
}
CASE(test_what_is_written_is_read, 1, bytes_fiber)

static void
odd_fiber(void *arg)
{
    struct rt_dir *d = scratch();
    struct iobuf *b;
    struct rt_file *f;
    uint32_t n;

    (void)arg;
    CHECK(iobuf_get(4096, &b) == ERR_OK);
    memcpy(b->at + 7, "odd offsets", 11);
    CHECK(rt_open(d, "data", RT_O_WRITE | RT_O_CREATE, 0640, &f, NULL) == ERR_OK);
    CHECK(rt_write(f, 13, b, 7, 11, RT_WRITE, NULL) == ERR_OK);
    CHECK(rt_read(f, 17, b, 100, 3000, RT_READ, SOON, &n, NULL) == ERR_OK);
    CHECK(n == 7 && memcmp(b->at + 100, "offsets", 7) == 0);
    rt_file_close(&f);
    iobuf_drop(&b);
    finish(&d, "data");
}
CASE(test_buffered_files_take_odd_places, 1, odd_fiber)

/* ---- abandoning ---- */

enum { READERS = 100, PART = 256 << 10 };

struct reading {
    struct rt_file *f;
    unsigned index;
    enum err rc;
    struct fiber *self;
    struct deadline by;
};

static void
read_part(void *arg)
{
    struct reading *r = arg;
    struct iobuf *b;
    uint32_t n;

    r->self = rt_self();
    CHECK(iobuf_get(PART, &b) == ERR_OK);
    r->rc = rt_read(r->f, (uint64_t)(r->index % 8) * PART, b, 0, PART, RT_READ, r->by, &n,
                    NULL);
    if (r->rc == ERR_OK)
        CHECK(n == PART && b->at[5] == (char)(5 * 31 + r->index % 8));
    iobuf_drop(&b); /* the operation has its own reference */
}

static void
abandon_fiber(void *arg)
{
    struct rt_dir *d = scratch();
    struct reading *r = xcalloc(READERS, sizeof *r);
    struct rt_file *f;
    struct iobuf *b;
    struct rt_group g;
    unsigned ok = 0, cancelled = 0;

    (void)arg;
    CHECK(rt_open(d, "data", RT_O_WRITE | RT_O_CREATE | RT_O_DIRECT, 0600, &f, NULL) ==
          ERR_OK);
    CHECK(iobuf_get(PART, &b) == ERR_OK);
    for (unsigned i = 0; i < 8; i++) {
        fill(b, i);
        CHECK(rt_write(f, (uint64_t)i * PART, b, 0, PART, RT_WRITE, NULL) == ERR_OK);
    }
    iobuf_drop(&b);
    rt_group_begin(&g);
    for (unsigned i = 0; i < READERS; i++) {
        r[i] = (struct reading){.f = f, .index = i, .by = DEADLINE_NEVER};
        CHECK(rt_group_start(&g, read_part, &r[i]) == ERR_OK);
    }
    rt_yield(); /* all have begun or wait behind the limit of their class */
    for (unsigned i = 0; i < READERS; i += 2)
        rt_cancel(r[i].self);
    rt_group_join(&g);
    for (unsigned i = 0; i < READERS; i++) {
        ok += r[i].rc == ERR_OK;
        cancelled += r[i].rc == ERR_CANCELLED;
        CHECK(i % 2 == 0 || r[i].rc == ERR_OK);
    }
    CHECK_U64(ok + cancelled, READERS);
    CHECK(cancelled > 0);
    rt_file_close(
        &f); /* abandoned reads may still be on their way: the file waits for them */
    free(r);
    finish(&d, "data");
}
CASE(test_cancelled_reads_are_abandoned, 1, abandon_fiber)

static void
write_cancelled_fiber(void *arg)
{
    struct rt_dir *d = scratch();
    struct rt_file *f;
    struct iobuf *b;
    struct rt_shield shield;

    (void)arg;
    CHECK(rt_open(d, "data", RT_O_WRITE | RT_O_CREATE, 0600, &f, NULL) == ERR_OK);
    CHECK(iobuf_get(4096, &b) == ERR_OK);
    fill(b, 1);
    rt_cancel(rt_self());
    CHECK(rt_write(f, 0, b, 0, 4096, RT_WRITE, NULL) == ERR_CANCELLED); /* none begins */
    CHECK(rt_sync(f, NULL) == ERR_CANCELLED);
    rt_shield_begin(&shield);
    CHECK(rt_write(f, 0, b, 0, 4096, RT_WRITE, NULL) == ERR_OK);
    CHECK(rt_sync(f, NULL) == ERR_OK);
    rt_file_close(&f);
    iobuf_drop(&b);
    finish(&d, "data");
    rt_shield_end(&shield);
}
CASE(test_no_write_begins_in_a_cancelled_fiber, 1, write_cancelled_fiber)

/* ---- names ---- */

static char listed[64];

static void
on_name(const char *name, void *arg)
{
    (void)arg;
    strcat(strcat(listed, name), " ");
}

static void
names_fiber(void *arg)
{
    struct rt_dir *d = scratch(), *sub;
    struct errbuf eb = {0};
    struct rt_file *f, *second;
    struct rt_space space;
    unsigned mode;
    char link_path[96];

    (void)arg;
    CHECK(rt_open(d, "none", 0, 0, &f, &eb) == ERR_NOT_FOUND && f == NULL);
    CHECK_SAYS(eb.text, "'none'");
    CHECK(rt_dir_make(d, "sub", 0700, NULL) == ERR_OK);
    CHECK(rt_dir_make(d, "sub", 0700, NULL) == ERR_EXISTS);
    CHECK(rt_dir_open_at(d, "sub", &sub, NULL) == ERR_OK);
    CHECK_SAYS(rt_dir_path(sub), "/sub");
    CHECK(rt_open(sub, "b", RT_O_WRITE | RT_O_CREATE | RT_O_EXCL, 0600, &f, NULL) ==
          ERR_OK);
    CHECK(rt_open(sub, "b", RT_O_WRITE | RT_O_CREATE | RT_O_EXCL, 0600, &second, NULL) ==
          ERR_EXISTS);
    CHECK(rt_file_lock(f, NULL) == ERR_OK);
    CHECK(rt_open(sub, "b", RT_O_WRITE, 0, &second, NULL) == ERR_OK);
    CHECK(rt_file_lock(second, &eb) == ERR_EXISTS);
    CHECK_SAYS(eb.text, "locked");
    rt_file_close(&second);
    rt_file_close(&f);
    CHECK(rt_dir_rename(sub, "b", "c", NULL) == ERR_OK);
    CHECK(rt_open(sub, "A", RT_O_WRITE | RT_O_CREATE, 0640, &f, NULL) == ERR_OK);
    rt_file_close(&f);
    CHECK(rt_dir_mode(sub, "A", &mode, NULL) == ERR_OK && mode == 0640);
    CHECK(rt_dir_mode(sub, "B", &mode, NULL) == ERR_NOT_FOUND);
    CHECK(rt_dir_sync(sub, NULL) == ERR_OK);
    listed[0] = '\0';
    CHECK(rt_dir_list(sub, on_name, NULL, NULL) == ERR_OK);
    CHECK_STR(listed, "A c ");
    CHECK(rt_dir_space(sub, &space, NULL) == ERR_OK);
    CHECK(space.total_bytes > 0 && space.free_bytes <= space.total_bytes);
    CHECK(space.free_inodes <= space.inodes);

    /* Nothing leads out of a directory. */
    CHECK(rt_open(sub, "../sub/A", 0, 0, &f, NULL) != ERR_OK);
    CHECK(rt_open(sub, "/etc/passwd", 0, 0, &f, NULL) != ERR_OK);
    snprintf(link_path, sizeof link_path, "%s/link", rt_dir_path(sub));
    CHECK(symlink("/etc/passwd", link_path) == 0);
    CHECK(rt_open(sub, "link", 0, 0, &f, NULL) != ERR_OK && f == NULL);
    CHECK(rt_dir_unlink(sub, "../sub", NULL) == ERR_BAD_REQUEST);

    CHECK(rt_dir_unlink(sub, "link", NULL) == ERR_OK);
    CHECK(rt_dir_unlink(sub, "A", NULL) == ERR_OK);
    CHECK(rt_dir_unlink(d, "sub", NULL) == ERR_NOT_EMPTY);
    CHECK(rt_dir_unlink(sub, "c", NULL) == ERR_OK);
    CHECK(rt_dir_unlink(sub, "c", NULL) == ERR_NOT_FOUND);
    rt_dir_close(&sub);
    finish(&d, "sub");
}
REAL_CASE(test_names, 1, names_fiber)

static void
whole_fiber(void *arg)
{
    struct rt_dir *d = scratch();
    struct errbuf eb = {0};
    size_t len;
    char *text, *big = xmalloc(200000);
    unsigned mode;

    (void)arg;
    CHECK(rt_file_load(d, "conf", 1000, &text, &len, &eb) == ERR_NOT_FOUND &&
          text == NULL);
    CHECK(rt_file_store(d, "conf", "first", 5, 0600, &eb) == ERR_OK);
    CHECK(rt_file_load(d, "conf", 1000, &text, &len, &eb) == ERR_OK);
    CHECK(len == 5);
    CHECK_STR(text, "first");
    free(text);
    CHECK(rt_dir_mode(d, "conf", &mode, NULL) == ERR_OK && mode == 0600);
    memset(big, 'x', 200000);
    CHECK(rt_file_store(d, "conf", big, 200000, 0600, &eb) == ERR_OK);
    CHECK(rt_file_load(d, "conf", 199999, &text, &len, &eb) == ERR_TOO_LARGE &&
          text == NULL);
    CHECK_SAYS(eb.text, "at most 199999");
    CHECK(rt_file_load(d, "conf", 200000, &text, &len, &eb) == ERR_OK);
    CHECK(len == 200000 && memcmp(text, big, len) == 0 && text[len] == '\0');
    free(text);
    CHECK(rt_file_store(d, "conf", "", 0, 0600, &eb) == ERR_OK);
    CHECK(rt_file_load(d, "conf", 10, &text, &len, &eb) == ERR_OK && len == 0);
    free(text);
    listed[0] = '\0';
    CHECK(rt_dir_list(d, on_name, NULL, NULL) == ERR_OK);
    CHECK_STR(listed, "conf "); /* no temporary stays */
    free(big);
    finish(&d, "conf");
}
CASE(test_small_files_are_replaced_whole, 1, whole_fiber)

/* ---- buffers that the ring knows ---- */

#define KNOWN_BYTES (128u << 10)
#define KNOWN_COUNT 320u /* blocks' worth of more than a loop keeps idle */

static void
drop_there(void *arg)
{
    iobuf_drop(arg);
}

/* Reads into `count` buffers, those that are there and new ones. */
static void
read_into(struct rt_file *f, struct iobuf **held, unsigned count)
{
    struct errbuf eb = {0};
    uint32_t n;

    for (unsigned i = 0; i < count; i++) {
        if (held[i] == NULL)
            REQUIRE(iobuf_wait(KNOWN_BYTES, SOON, &held[i]) == ERR_OK);
        memset(held[i]->at, 0, KNOWN_BYTES);
        CHECK(rt_read(f, i % 8 * KNOWN_BYTES, held[i], 4096, KNOWN_BYTES - 4096, RT_READ,
                      SOON, &n, &eb) == ERR_OK);
        CHECK_STR(eb.text, "");
        CHECK_U64(n, KNOWN_BYTES - 4096);
    }
    for (unsigned i = 0; i < count; i++)
        CHECK(held[i]->at[0] == 0 && held[i]->at[4096] == (char)('a' + i % 8) &&
              held[i]->at[KNOWN_BYTES - 1] == (char)('a' + i % 8));
}

static void
known_fiber(void *arg)
{
    struct iobuf **held = calloc(KNOWN_COUNT, sizeof *held), *b;
    struct rt_dir *d = scratch();
    struct errbuf eb = {0};
    struct rt_file *f;

    (void)arg;
    CHECK(rt_open(d, "f", RT_O_WRITE | RT_O_CREATE | RT_O_DIRECT, 0600, &f, &eb) ==
          ERR_OK);
    CHECK(iobuf_get(KNOWN_BYTES, &b) == ERR_OK);
    for (unsigned i = 0; i < 8; i++) {
        memset(b->at, 'a' + (int)i, KNOWN_BYTES);
        CHECK(rt_write(f, i * KNOWN_BYTES, b, 0, KNOWN_BYTES, RT_WRITE, &eb) == ERR_OK);
    }
    iobuf_drop(&b);
    for (unsigned round = 0; round < 3; round++) {
        read_into(f, held,
                  KNOWN_COUNT); /* blocks are given back in parts, slots with them */
        for (unsigned i = 0; i < KNOWN_COUNT; i++)
            if (i % 16 != 0 || round == 2)
                iobuf_drop(&held[i]);
    }
    read_into(f, held, 40); /* dropped elsewhere */
    for (unsigned i = 0; i < 40; i++)
        CHECK(rt_call(1, drop_there, &held[i]) == ERR_OK && held[i] == NULL);
    read_into(f, held, 40);
    for (unsigned i = 0; i < 40; i++)
        iobuf_drop(&held[i]);
    CHECK_U64(iobuf_in_use(), 0);
    rt_file_close(&f);
    finish(&d, "f");
    free(held);
}
REAL_CASE(test_buffers_for_reads_belong_to_their_loop, 2, known_fiber)

/* More than there are slabs for: pieces and buffers of their own, each with the bytes of its own place. */
#define SMALL_COUNT 300u
#define SMALL_PLACE (12u << 10)

static void
small_reads_fiber(void *arg)
{
    static struct iobuf *held[SMALL_COUNT];
    struct iobuf *b;
    struct rt_dir *d = scratch();
    struct errbuf eb = {0};
    struct rt_file *f;
    uint32_t n;

    (void)arg;
    CHECK(rt_open(d, "f", RT_O_WRITE | RT_O_CREATE | RT_O_DIRECT, 0600, &f, &eb) ==
          ERR_OK);
    CHECK(iobuf_get(SMALL_PLACE, &b) == ERR_OK);
    for (unsigned i = 0; i < 8; i++) {
        memset(b->at, 'a' + (int)i, SMALL_PLACE);
        CHECK(rt_write(f, i * SMALL_PLACE, b, 0, SMALL_PLACE, RT_WRITE, &eb) == ERR_OK);
    }
    iobuf_drop(&b);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < SMALL_COUNT; i++) {
            CHECK(iobuf_get_pinned(SMALL_PLACE, &held[i]) == ERR_OK);
            CHECK(held[i]->room == 16384 && (uintptr_t)held[i]->at % 4096 == 0);
            CHECK(rt_read(f, i % 8 * SMALL_PLACE, held[i], 0, SMALL_PLACE, RT_READ, SOON,
                          &n, &eb) == ERR_OK);
            CHECK_U64(n, SMALL_PLACE);
        }
        CHECK_U64(iobuf_in_use(), SMALL_COUNT * 16384u);
        for (unsigned i = 0; i < SMALL_COUNT; i++) {
            CHECK(held[i]->at[0] == (char)('a' + i % 8) &&
                  held[i]->at[SMALL_PLACE - 1] == (char)('a' + i % 8));
            iobuf_drop(&held[i]);
        }
        CHECK_U64(iobuf_in_use(), 0);
    }
    CHECK(iobuf_get_pinned(100000, &b) == ERR_OK); /* not small: a buffer like any */
    CHECK_U64(b->room, 131072);
    iobuf_drop(&b);
    rt_file_close(&f);
    finish(&d, "f");
}
REAL_CASE(test_small_reads_share_memory_that_the_ring_knows, 1, small_reads_fiber)

/* ---- what a loop keeps ---- */

/* Buffers of other work, as much as a loop keeps and more: those it reads into stay all the same. */
static void
idle_fiber(void *arg)
{
    struct iobuf *large[5], *b;
    const char *at;

    (void)arg;
    CHECK(iobuf_get_pinned(KNOWN_BYTES, &b) == ERR_OK);
    at = b->at;
    iobuf_drop(&b);
    for (unsigned i = 0; i < ARRAY_LEN(large); i++)
        CHECK(iobuf_get(4u << 20, &large[i]) == ERR_OK);
    CHECK(iobuf_get_pinned(KNOWN_BYTES, &b) == ERR_OK);
    CHECK(b->at == at);
    for (unsigned i = 0; i < ARRAY_LEN(large); i++)
        iobuf_drop(&large[i]);
    iobuf_drop(&b);
    CHECK(iobuf_get_pinned(KNOWN_BYTES, &b) == ERR_OK);
    CHECK(b->at == at);
    iobuf_drop(&b);
}
CASE(test_buffers_in_use_outlive_idle_ones, 1, idle_fiber)

/* ---- reads that no fiber waits for ---- */

enum { READINGS = 40 }; /* more than a disk is given at a time */

static struct one_reading {
    struct rt_async_read reading;
    struct iobuf *buf;
    bool told, abandoned;
} readings[READINGS];
static unsigned told;
static bool first_abandons;

/* The first that is there abandons all others, be they with the disk, waiting for it, or there as well. */
static void
on_reading(struct rt_async_read *r, int64_t result)
{
    struct one_reading *o = CONTAINER_OF(r, struct one_reading, reading);

    CHECK(rt_self() == NULL && !o->told && !o->abandoned && result == KNOWN_BYTES);
    CHECK(o->buf->at[0] == 'r' && o->buf->at[KNOWN_BYTES - 1] == 'r');
    o->told = true;
    told++;
    for (unsigned i = 0; i < READINGS && first_abandons; i++) {
        if (readings[i].told)
            continue;
        readings[i].abandoned = true;
        rt_read_abandon(&readings[i].reading);
    }
}

static void
readings_fiber(void *arg)
{
    struct rt_dir *d = scratch();
    struct rt_file *f;
    struct iobuf *b;

    (void)arg;
    CHECK(rt_open(d, "f", RT_O_WRITE | RT_O_CREATE | RT_O_DIRECT, 0600, &f, NULL) ==
          ERR_OK);
    CHECK(iobuf_get(KNOWN_BYTES, &b) == ERR_OK);
    memset(b->at, 'r', KNOWN_BYTES);
    CHECK(rt_write(f, 0, b, 0, KNOWN_BYTES, RT_WRITE, NULL) == ERR_OK);
    iobuf_drop(&b);
    for (int round = 0; round < 2; round++) {
        told = 0;
        first_abandons = round == 1;
        for (unsigned i = 0; i < READINGS; i++) {
            struct one_reading *o = &readings[i];

            *o = (struct one_reading){.reading.on_read = on_reading};
            CHECK(iobuf_get_pinned(KNOWN_BYTES, &o->buf) == ERR_OK);
            CHECK(rt_read_begin(f, 0, o->buf, 0, KNOWN_BYTES, RT_READ, &o->reading) ==
                  ERR_OK);
        }
        while (rt_file_busy(f) > 0 || told < (first_abandons ? 1 : READINGS))
            CHECK(rt_sleep_ms(1) == ERR_OK);
        CHECK(rt_sleep_ms(1) ==
              ERR_OK); /* each is reported once, and none that was abandoned */
        CHECK_U64(told, first_abandons ? 1 : READINGS);
        for (unsigned i = 0; i < READINGS; i++)
            iobuf_drop(&readings[i].buf);
    }
    rt_file_close(&f);
    finish(&d, "f");
}
CASE(test_readings_are_told_once_or_abandoned, 1, readings_fiber)

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_buffers_are_counted_and_limited);
    RUN(test_buffers_for_large_reads_lie_together);
    RUN(test_places_of_large_reads_are_used_again);
    RUN(test_places_of_all_sizes_lie_apart);
    RUN(test_what_is_written_is_read);
    RUN(test_buffered_files_take_odd_places);
    RUN(test_cancelled_reads_are_abandoned);
    RUN(test_no_write_begins_in_a_cancelled_fiber);
    RUN(test_names);
    RUN(test_small_files_are_replaced_whole);
    RUN(test_buffers_for_reads_belong_to_their_loop);
    RUN(test_small_reads_share_memory_that_the_ring_knows);
    RUN(test_buffers_in_use_outlive_idle_ones);
    RUN(test_readings_are_told_once_or_abandoned);
    return check_done();
}
