/* Three disks with two copies, killed; then one bit, one block or one end of a file of one disk, or of the node's list of
 * disks, is damaged, with the index and without: no older version, no deleted object that returns, no false 404, no list
 * that lacks a key. What another disk has a copy of is read, and made again where its last change was lost. Protects D1, D4.
 *
 * FOREBAY_ROUNDS=N: rounds of random damage (`make soak PART=flips` has 300). FOREBAY_SEED=S. */
#include "rig.h"

#include "disks/internal.h"
#include "store/core/core.h"
#include "store/index/suspect.h"
#include "store/segment/segment.h"
#include "store/store_health.h"
#include "store/wal/wal.h"

#define KEYS 24u

struct known {
    size_t len; /* 0: there is no object */
    uint64_t seed;
};
static struct known known[KEYS];
static uint64_t state, writes;
static unsigned rounds_refused, rounds_in_error, errors_seen;

static uint64_t
draw(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 20) % below;
}

/* `covers`: the index follows the logs; else it covers nothing of this life. */
static enum err
flips_open(struct rig *g, bool covers)
{
    const char *paths[3] = {g->path[0], g->path[1], g->path[2]};
    struct disks_options o = {.paths = paths,
                              .count = 3,
                              .disk = {.node = 1,
                                       .epoch = ++g->epoch,
                                       .segment_bytes = 1u << 20,
                                       .block_cache_bytes = 4u << 20,
                                       .index_interval_ms = covers ? 0 : 3600 * 1000,
                                       .index_map_bytes = 64u << 20},
                              .state = g->state};
    enum err rc;

    memset(o.disk.cluster_id, 0xc1, sizeof o.disk.cluster_id);
    memset(&g->eb, 0, sizeof g->eb);
    rc = disks_open(&o, &g->ds, &g->eb);
    if (rc == ERR_OK)
        disks_buckets(g->ds, rig_next_bucket, g);
    return rc;
}

static void
flips_work(struct rig *g, unsigned ops)
{
    for (unsigned i = 0; i < ops; i++) {
        unsigned n = (unsigned)draw(KEYS);
        uint64_t kind = draw(10);
        bool existed;

        if (kind < 3) {
            CHECK(rig_delete(g, rig_name(n), &existed) == ERR_OK);
            known[n].len = 0;
        } else {
            known[n].len = kind < 9 ? 1 + draw(5000) : 300000 + draw(1000);
            known[n].seed = ++writes;
            CHECK(rig_put(g, rig_name(n), known[n].len, known[n].seed) == ERR_OK);
        }
    }
}

/* Without the ballast, hundreds of MiB on a large file system, which the next start makes again. */
static void
folder_copied(const char *from, const char *to)
{
    char command[1200];

    snprintf(command, sizeof command,
             "rm -rf '%s' && mkdir '%s' && tar -C '%s' --exclude='ballast*' -cSf - . | "
             "tar -C '%s' -xf -",
             to, to, from, to);
    CHECK(system(command) == 0);
}

/* The folders as a kill leaves them. */
static void
flips_kill(struct rig *g)
{
    char kept[260];

    snprintf(kept, sizeof kept, "%s.kept", g->base);
    folder_copied(g->base, kept);
    disks_close(&g->ds);
    folder_copied(kept, g->base);
    folder_remove(kept);
}

static void
make_killed_disks(struct rig *g, unsigned ops)
{
    REQUIRE(flips_open(g, true) == ERR_OK);
    CHECK(rig_converged(g));
    memset(known, 0, sizeof known);
    flips_work(g, ops);
    disks_close(&g->ds);
    REQUIRE(flips_open(g, false) == ERR_OK);
    flips_work(g, ops);
    flips_kill(g);
}

/* As known, or an error. Returns how many are errors. */
static unsigned
look_at_all(struct rig *g)
{
    unsigned errors = 0;

    for (unsigned n = 0; n < KEYS; n++) {
        enum err rc = rig_get(g, rig_name(n), known[n].len, known[n].seed);

        if (rc == ERR_BAD_DIGEST || (rc == ERR_OK && known[n].len == 0) ||
            (rc == ERR_NOT_FOUND && known[n].len != 0)) {
            fprintf(stderr, "%s: %s, %s\n", rig_name(n), err_name(rc),
                    known[n].len == 0 ? "was deleted" : "is another one");
            CHECK(false);
        }
        errors += rc != ERR_OK && rc != ERR_NOT_FOUND;
    }
    return errors;
}

/* A list has what is there, or is an error. */
static enum err
list_all(struct rig *g)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    struct store_entry *entries;
    uint32_t count, living = 0;
    bool more;
    enum err rc = disks_list(g->ds, RIG_BUCKET, g->copies, SPAN(""), true, 1000, a,
                             &entries, &count, &more, &g->eb);

    for (unsigned n = 0; n < KEYS; n++)
        living += known[n].len != 0;
    if (rc == ERR_OK)
        CHECK_U64(count, living);
    arena_free(&a);
    return rc;
}

/* ---- one lost change ---- */

struct lost {
    bool delete, no_index;
};

static unsigned
suspects_on(struct rig *g, unsigned slot)
{
    return g->ds->slots[slot].at.store != NULL
               ? atomic_load(&g->ds->slots[slot].at.store->suspects->left)
               : 0;
}

static void
lose_index(struct rig *g, unsigned disk)
{
    char path[300];

    snprintf(path, sizeof path, "%s/index", g->path[disk]);
    folder_remove(path);
}

/* The last change of a key is lost on each of its disks in turn: the other has it, and it is made again. */
static void
lose_one(struct rig *g, const struct lost *c, unsigned disk)
{
    char path[300];
    uint32_t log = 0;
    uint64_t at = 0;
    bool existed;
    unsigned char byte;
    int fd;

    REQUIRE(flips_open(g, true) == ERR_OK);
    CHECK(rig_converged(g));
    memset(known, 0, sizeof known);
    for (unsigned n = 0; n < KEYS; n++) {
        known[n] = (struct known){500 + n, ++writes};
        CHECK(rig_put(g, rig_name(n), known[n].len, known[n].seed) == ERR_OK);
    }
    disks_close(&g->ds);
    REQUIRE(flips_open(g, false) == ERR_OK);
    CHECK(rig_converged(g));
    for (unsigned n = 0;; n++) { /* until the disk has the key */
        const struct store *d = g->ds->slots[disk].at.store;

        REQUIRE(n < KEYS);
        log = d->wals->of[STORE_NATIVE].now->id;
        at = d->wals->of[STORE_NATIVE].now->owner.used;
        if (c->delete) {
            CHECK(rig_delete(g, rig_name(n), &existed) == ERR_OK && existed);
            known[n].len = 0;
        } else {
            known[n].seed = ++writes;
            CHECK(rig_put(g, rig_name(n), known[n].len, known[n].seed) == ERR_OK);
        }
        if (d->wals->of[STORE_NATIVE].now->owner.used > at)
            break;
    }
    flips_kill(g);
    snprintf(path, sizeof path, "%s/native/log-%06u.tar", g->path[disk], log);
    fd = open(path, O_RDWR);
    REQUIRE(fd >= 0);
    CHECK(pread(fd, &byte, 1, (off_t)at + 600) == 1);
    byte ^= 4;
    CHECK(pwrite(fd, &byte, 1, (off_t)at + 600) == 1);
    close(fd);
    if (c->no_index)
        lose_index(g, disk);
    REQUIRE(flips_open(g, true) == ERR_OK);
    (void)look_at_all(g);
    CHECK(rig_converged(g));
    if (g->copies ==
        1) { /* nothing to make it from: an error for the key, and for lists, which may lack it */
        CHECK_U64(look_at_all(g), 1);
        CHECK(list_all(g) == ERR_CORRUPT);
        disks_close(&g->ds);
        return;
    }
    CHECK_U64(look_at_all(g), 0);
    CHECK(list_all(g) == ERR_OK);
    if (!c->delete) /* of a deleted key nothing is left to copy: it stays an error on that disk alone */
        CHECK_U64(suspects_on(g, disk), 0);
    disks_close(&g->ds);
    REQUIRE(flips_open(g, true) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK_U64(look_at_all(g), 0);
    CHECK(list_all(g) == ERR_OK);
    disks_close(&g->ds);
}

static struct lost lost_now;
static unsigned lost_disk;

static void
lose_on_disk(void *arg)
{
    lose_one(arg, &lost_now, lost_disk);
}

static void
lose_with_copies(unsigned copies)
{
    for (unsigned i = 0; i < 4; i++) {
        lost_now = (struct lost){.delete = i % 2 != 0, .no_index = i / 2 != 0};
        lost_disk = (i + copies) % 3;
        rig_run(lose_on_disk, &(struct rig){.copies = copies});
    }
}

static void
test_a_lost_change_is_made_again_from_the_other_copy(void)
{
    lose_with_copies(2);
}

static void
test_a_lost_change_of_the_only_copy_is_an_error(void)
{
    lose_with_copies(1);
}

/* A disk that is out lacks nothing in this sense: the others list every key. */
static void
list_with_a_disk_out(void *arg)
{
    struct rig *g = arg;

    REQUIRE(flips_open(g, true) == ERR_OK);
    memset(known, 0, sizeof known);
    flips_work(g, 20);
    CHECK(rig_converged(g));
    disks_close(&g->ds);
    REQUIRE(rig_open_without(g, 3, g->path[2]) == ERR_OK);
    CHECK_U64(look_at_all(g), 0);
    CHECK(list_all(g) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK(list_all(g) == ERR_OK);
    disks_close(&g->ds);
}

static void
test_a_list_with_a_disk_out(void)
{
    state = 5;
    rig_run(list_with_a_disk_out, &(struct rig){.copies = 2});
}

/* ---- random damage ---- */

static unsigned
files_of(const char *folder, char names[][96], unsigned room)
{
    struct dirent *e;
    unsigned count = 0;
    struct stat st;
    DIR *dir = opendir(folder);

    while (dir != NULL && (e = readdir(dir)) != NULL && count < room)
        if (fstatat(dirfd(dir), e->d_name, &st, 0) == 0 && S_ISREG(st.st_mode) &&
            st.st_size > 0)
            snprintf(names[count++], 96, "%.90s", e->d_name);
    if (dir != NULL)
        closedir(dir);
    return count;
}

/* A bit, a block of 512 zeros, or (of a log) 64 KiB off its end. */
static void
damage_some_file(struct rig *g)
{
    unsigned disk = (unsigned)draw(3);
    uint64_t where = draw(10), what = draw(6), used;
    char folder[300], path[400], names[64][96], zeros[512] = {0};
    struct stat st;
    unsigned count;
    int fd;

    if (where == 0)
        snprintf(folder, sizeof folder, "%s", g->state);
    else
        snprintf(folder, sizeof folder, "%s/%s", g->path[disk],
                 where < 3   ? ".forebay"
                 : where < 4 ? "index"
                             : "native");
    count = files_of(folder, names, ARRAY_LEN(names));
    REQUIRE(count > 0);
    snprintf(path, sizeof path, "%s/%s", folder, names[draw(count)]);
    fprintf(stderr, "damages %s (%d)\n", path + strlen(g->base), (int)what);
    fd = open(path, O_RDWR);
    REQUIRE(fd >= 0 && fstat(fd, &st) == 0);
    used = (uint64_t)st.st_size;
    if (used > 100000 && draw(3) != 0)
        used = 100000; /* files are allocated ahead */
    if (used < 1024 || what < 4) {
        uint64_t bit = draw(used * 8);
        unsigned char c = 0;

        CHECK(pread(fd, &c, 1, (off_t)(bit / 8)) == 1);
        c ^= (unsigned char)(1u << (bit % 8));
        CHECK(pwrite(fd, &c, 1, (off_t)(bit / 8)) == 1);
    } else if (what == 4) {
        CHECK(pwrite(fd, zeros, sizeof zeros, (off_t)align_down(draw(used - 512), 512)) ==
              sizeof zeros);
    } else if (strstr(path, "/native/log") != NULL) {
        CHECK(ftruncate(fd, st.st_size > 65536 ? st.st_size - 65536 : 0) == 0);
    }
    close(fd);
    if (draw(3) == 0)
        lose_index(g, where == 0 ? (unsigned)draw(3) : disk);
}

static void
round_of_damage(void *arg)
{
    struct rig *g = arg;
    unsigned errors;

    make_killed_disks(g, 10 + (unsigned)draw(30));
    damage_some_file(g);
    if (flips_open(g, true) != ERR_OK) {
        fprintf(stderr, "refused: %s\n", g->eb.text);
        rounds_refused++; /* an error is right */
        return;
    }
    errors = look_at_all(g);
    (void)list_all(g);
    (void)rig_converged_within(g, 300);
    errors = look_at_all(g);
    rounds_in_error += errors > 0 || list_all(g) != ERR_OK;
    errors_seen += errors;
    if (draw(2) == 0)
        flips_kill(g);
    else
        disks_close(&g->ds);
    REQUIRE(flips_open(g, true) == ERR_OK);
    (void)look_at_all(g);
    (void)list_all(g);
    disks_close(&g->ds);
}

static void
test_rounds_of_damage(void)
{
    const char *rounds = getenv("FOREBAY_ROUNDS"), *seed = getenv("FOREBAY_SEED");
    unsigned count = rounds != NULL ? (unsigned)atoi(rounds) : 4;
    uint64_t first = seed != NULL ? strtoull(seed, NULL, 10) : rt_wall_ns() % 1000000;

    for (unsigned i = 0; i < count; i++) {
        fprintf(stderr, "seed %llu\n", (unsigned long long)(first + i));
        state = first + i;
        rig_run(round_of_damage, &(struct rig){.copies = 2});
    }
    fprintf(stderr,
            "%u rounds, %u refused a start, %u with keys or lists in error, %u keys in "
            "error\n",
            count, rounds_refused, rounds_in_error, errors_seen);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_a_lost_change_is_made_again_from_the_other_copy);
    RUN(test_a_lost_change_of_the_only_copy_is_an_error);
    RUN(test_a_list_with_a_disk_out);
    RUN(test_rounds_of_damage);
    return check_done();
}
