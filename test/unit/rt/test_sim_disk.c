/* Protects: what the simulated disk keeps and forgets; a model that is too kind finds nothing. */
#include <errno.h>

#include "base/mem.h"
#include "check.h"
#include "rt/sim_disk.h"

struct rng {
    uint64_t state;
};

static uint64_t
draw(void *arg)
{
    struct rng *r = arg;

    r->state = r->state * 6364136223846793005u + 1442695040888963407u;
    return r->state >> 16;
}

static void
cut(struct sim_disk *d, uint64_t seed, bool lossy)
{
    struct rng r = {seed};

    sim_disk_cut(d, &(struct sim_lottery){.draw = draw, .arg = &r, .lossy = lossy});
}

static struct sim_node *
make_file(struct sim_disk *d, const char *name)
{
    struct sim_node *root = sim_disk_root(d), *f = NULL;

    CHECK(sim_dir_add(root, name, false, &f) == 0);
    sim_sync_end(root, sim_sync_begin(root));
    return f;
}

static void
fill(struct sim_node *f, uint64_t offset, char c, uint64_t len)
{
    char *data = xmalloc(len);
    struct sim_change *w;

    memset(data, c, len);
    w = sim_write_begin(f, offset, data, len);
    CHECK(sim_write_end(w, data) == 0);
    free(data);
}

static void
sync_node(struct sim_node *n)
{
    sim_sync_end(n, sim_sync_begin(n));
}

static char
byte_at(const struct sim_node *f, uint64_t offset)
{
    char c = '?';

    CHECK_U64(sim_file_read(f, offset, &c, 1), 1);
    return c;
}

static void
test_synced_bytes_and_names_survive_every_cut(void)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct sim_disk *d = sim_disk_new(MIB(64));
        struct sim_node *root = sim_disk_root(d), *f = NULL;

        CHECK(sim_dir_add(root, "tmp", false, &f) == 0);
        fill(f, 0, 'a', 10000);
        sync_node(f);
        CHECK(sim_dir_rename(root, "tmp", "name") == 0);
        sync_node(root);
        fill(f, 3000, 'b', 20000);
        cut(d, seed, true);
        f = sim_dir_find(root, "name");
        REQUIRE(f != NULL);
        CHECK(sim_dir_find(root, "tmp") == NULL);
        CHECK(sim_file_size(f) == 10000 || sim_file_size(f) == 23000);
        CHECK(byte_at(f, 0) == 'a' && byte_at(f, 2559) == 'a');
        for (uint64_t i = 3000; i < 10000; i += 512)
            CHECK(byte_at(f, i) == 'a' || byte_at(f, i) == 'b');
        sim_disk_free(&d);
    }
}

static void
test_unsynced_changes_are_kept_lost_and_torn(void)
{
    unsigned kept = 0, lost = 0, torn = 0, grown_with_zeros = 0, name_lost = 0;

    for (uint64_t seed = 0; seed < 400; seed++) {
        struct sim_disk *d = sim_disk_new(MIB(64));
        struct sim_node *root = sim_disk_root(d), *f = make_file(d, "f"), *g = NULL;
        unsigned b = 0;

        fill(f, 0, 'a', 65536);
        sync_node(f);
        fill(f, 0, 'b', 65536);
        fill(f, 65536, 'c', 4096);
        CHECK(sim_dir_add(root, "g", false, &g) == 0);
        cut(d, seed, true);
        for (unsigned i = 0; i < 128; i++)
            b += byte_at(f, i * 512) == 'b';
        kept += b == 128;
        lost += b == 0;
        torn += b > 0 && b < 128;
        if (sim_file_size(f) == 69632 && byte_at(f, 65536) == 0)
            grown_with_zeros++;
        name_lost += sim_dir_find(root, "g") == NULL;
        sim_disk_free(&d);
    }
    CHECK(kept > 20);
    CHECK(lost > 20);
    CHECK(torn > 20);
    CHECK(grown_with_zeros > 5);
    CHECK(name_lost > 50 && name_lost < 350);
}

/* Two writes into one sector: the second can't be there without the first. */
static void
test_a_sector_is_written_as_a_whole(void)
{
    unsigned both = 0, first = 0, none = 0;

    for (uint64_t seed = 0; seed < 400; seed++) {
        struct sim_disk *d = sim_disk_new(MIB(64));
        struct sim_node *f = make_file(d, "f");
        bool a, b;

        fill(f, 0, '.', 512);
        sync_node(f);
        fill(f, 0, 'a', 100);
        fill(f, 100, 'b', 100);
        cut(d, seed, true);
        a = byte_at(f, 0) == 'a';
        b = byte_at(f, 100) == 'b';
        CHECK(!b || a);
        both += a && b;
        first += a && !b;
        none += !a && !b;
        sim_disk_free(&d);
    }
    CHECK(both > 20 && first > 5 && none > 20);
}

static void
test_a_sync_covers_what_was_over_when_it_began(void)
{
    unsigned late_lost = 0;

    for (uint64_t seed = 0; seed < 100; seed++) {
        struct sim_disk *d = sim_disk_new(MIB(64));
        struct sim_node *f = make_file(d, "f");
        uint64_t mark;

        fill(f, 0, 'a', 4096);
        mark = sim_sync_begin(f);
        fill(f, 4096, 'b', 4096);
        sim_sync_end(f, mark);
        cut(d, seed, true);
        CHECK(sim_file_size(f) >= 4096);
        CHECK(byte_at(f, 0) == 'a');
        late_lost += sim_file_size(f) == 4096 || byte_at(f, 4096) != 'b';
        sim_disk_free(&d);
    }
    CHECK(late_lost > 10 && late_lost < 100);
}

/* A failed sync must not be forgiven by a second one. */
static void
test_after_a_failed_sync_a_second_one_proves_nothing(void)
{
    unsigned lost = 0;

    for (uint64_t seed = 0; seed < 100; seed++) {
        struct sim_disk *d = sim_disk_new(MIB(64));
        struct sim_node *f = make_file(d, "f");
        struct rng r = {seed + 1000};

        fill(f, 0, 'a', 4096);
        sync_node(f);
        fill(f, 0, 'b', 4096);
        sim_sync_fail(f, sim_sync_begin(f),
                      &(struct sim_lottery){.draw = draw, .arg = &r});
        sync_node(f);
        CHECK(byte_at(f, 0) == 'b'); /* as long as the machine runs */
        cut(d, seed, true);
        CHECK(byte_at(f, 0) == 'a' || byte_at(f, 0) == 'b');
        lost += byte_at(f, 0) == 'a';
        sim_disk_free(&d);
    }
    CHECK(lost > 20 && lost < 80);
}

static void
test_without_loss_everything_stays(void)
{
    struct sim_disk *d = sim_disk_new(MIB(64));
    struct sim_node *f = make_file(d, "f"), *g = NULL;

    fill(f, 100, 'a', 5000);
    sim_file_punch(f, 200, 300);
    CHECK(sim_dir_add(sim_disk_root(d), "g", true, &g) == 0);
    cut(d, 1, false);
    CHECK_U64(sim_file_size(f), 5100);
    CHECK(byte_at(f, 99) == 0 && byte_at(f, 100) == 'a' && byte_at(f, 200) == 0);
    CHECK(byte_at(f, 499) == 0 && byte_at(f, 500) == 'a');
    CHECK(sim_dir_find(sim_disk_root(d), "g") == g);
    CHECK(sim_node_is_synced(f));
    sim_disk_free(&d);
}

static void
test_writes_in_flight_may_have_happened(void)
{
    unsigned there = 0;

    for (uint64_t seed = 0; seed < 100; seed++) {
        struct sim_disk *d = sim_disk_new(MIB(64));
        struct sim_node *f = make_file(d, "f");

        (void)sim_write_begin(f, 0, "hello", 5);
        CHECK_U64(sim_file_size(f), 0); /* not visible yet */
        cut(d, seed, false);
        CHECK(sim_file_size(f) == 0 || sim_file_size(f) == 5);
        there += sim_file_size(f) == 5;
        sim_disk_free(&d);
    }
    CHECK(there > 20 && there < 80);
}

/* What was cut off must not come back when the file grows again, whatever was kept. */
static void
test_truncated_bytes_read_as_zeros(void)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct sim_disk *d = sim_disk_new(MIB(64));
        struct sim_node *f = make_file(d, "f");

        fill(f, 0, 'a', 100000);
        sync_node(f);
        sim_file_truncate(f, 10);
        sync_node(f);
        fill(f, 50000, 'b', 10);
        cut(d, seed, true);
        for (uint64_t i = 10; i < sim_file_size(f); i += 512)
            CHECK(byte_at(f, i) != 'a');
        sim_disk_free(&d);
    }
}

static void
test_space_is_counted(void)
{
    struct sim_disk *d = sim_disk_new(MIB(1));
    struct sim_node *f = make_file(d, "f"), *g = make_file(d, "g");
    char byte = 'x';

    CHECK(sim_file_allocate(f, 0, MIB(1) - 4096) == 0);
    CHECK_U64(sim_file_size(f), MIB(1) - 4096);
    CHECK(sim_file_allocate(g, 0, 8192) == -ENOSPC);
    CHECK_U64(sim_file_size(g), 0);
    CHECK(sim_write_end(sim_write_begin(g, 5000, &byte, 1), &byte) == -ENOSPC);
    CHECK_U64(sim_file_size(g), 0);
    sim_file_truncate(f, 0);
    CHECK_U64(sim_node_used(sim_disk_root(d)), 0);
    CHECK(sim_write_end(sim_write_begin(g, 5000, &byte, 1), &byte) == 0);
    sim_disk_free(&d);
}

/* Protects: what fills one disk does not fill another. */
static void
test_mount_points_have_their_own_room(void)
{
    struct sim_disk *d = sim_disk_new(MIB(1));
    struct sim_node *a = sim_disk_mount(d, "a"), *b = sim_disk_mount(d, "b"), *f, *g;

    CHECK(sim_dir_find(sim_disk_root(d), "a") == a);
    CHECK(sim_dir_add(a, "f", false, &f) == 0);
    CHECK(sim_dir_add(b, "g", false, &g) == 0);
    CHECK(sim_file_allocate(f, 0, MIB(1)) == 0);
    CHECK_U64(sim_node_used(a), MIB(1));
    CHECK_U64(sim_node_used(b), 0);
    CHECK(sim_file_allocate(g, 0, 4096) == 0);
    sim_node_fill(b, true);
    CHECK(sim_file_allocate(g, 4096, 4096) == -ENOSPC);
    CHECK_U64(sim_node_used(b), sim_node_room(b));
    sim_node_fill(b, false);
    CHECK(sim_file_allocate(g, 4096, 4096) == 0);
    sim_disk_free(&d);
}

static void
test_names(void)
{
    struct sim_disk *d = sim_disk_new(MIB(1));
    struct sim_node *root = sim_disk_root(d), *n = NULL, *a;

    CHECK(sim_dir_add(root, "b", false, &n) == 0);
    CHECK(sim_dir_add(root, "a", false, &a) == 0);
    CHECK(sim_dir_add(root, "a", false, &n) == -EEXIST);
    CHECK(sim_dir_add(root, "dir", true, &n) == 0);
    CHECK_U64(sim_dir_count(root), 3);
    CHECK_STR(sim_dir_name(root, 0), "a");
    CHECK_STR(sim_dir_name(root, 2), "dir");
    CHECK(sim_dir_add(n, "in it", false, &a) == 0);
    CHECK(sim_dir_unlink(root, "dir") == -ENOTEMPTY);
    a = sim_dir_find(root, "a");
    CHECK(sim_dir_unlink(root, "none") == -ENOENT);
    CHECK(sim_dir_rename(root, "a", "dir") == -EISDIR);
    CHECK(sim_dir_rename(root, "a", "b") == 0);
    CHECK(sim_dir_find(root, "b") == a);
    CHECK_U64(sim_dir_count(root), 2);
    sim_node_ref(a); /* an open handle outlives the name, and the cut */
    CHECK(sim_dir_unlink(root, "b") == 0);
    sync_node(root);
    fill(a, 0, 'z', 10);
    cut(d, 3, true);
    CHECK(sim_dir_find(root, "b") == NULL);
    sim_node_drop(&a);
    sim_disk_free(&d);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_synced_bytes_and_names_survive_every_cut);
    RUN(test_unsynced_changes_are_kept_lost_and_torn);
    RUN(test_a_sector_is_written_as_a_whole);
    RUN(test_a_sync_covers_what_was_over_when_it_began);
    RUN(test_after_a_failed_sync_a_second_one_proves_nothing);
    RUN(test_without_loss_everything_stays);
    RUN(test_writes_in_flight_may_have_happened);
    RUN(test_truncated_bytes_read_as_zeros);
    RUN(test_space_is_counted);
    RUN(test_mount_points_have_their_own_room);
    RUN(test_names);
    return check_done();
}
