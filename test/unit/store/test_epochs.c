/* The count of starts and the epoch of versions are two things: a version is never below one that the disk has given out,
 * whatever happens to either, and a prepared version names the node that ordered it, past restarts, index and compaction.
 * Protects D1 and D4. */
#include "compact_rig.h"
#include "replicas.h"

#include "store/core/core.h"
#include "store/record/format.h"
#include "store/record/superblock.h"
#include "store/store_rescue.h"

static struct version
last_version(struct store *d)
{
    struct entry entry;

    CHECK(world_put(d, "key", copies_data, 100, &entry) == ERR_OK);
    return entry.version;
}

static struct store *
open_at(uint64_t start, uint64_t map_epoch)
{
    struct store_options o = world_options();

    o.epoch = start;
    o.map_epoch = map_epoch;
    return world_open(&o);
}

static void
forget_superblocks(void)
{
    struct store_rebuild_options o = {.superblock_only = true};
    struct store_rebuilt rebuilt;
    struct errbuf eb = {0};
    char path[300];

    snprintf(path, sizeof path, "%s/.forebay/superblock", world_path);
    CHECK(unlink(path) == 0);
    snprintf(path, sizeof path, "%s/.forebay/superblock.2", world_path);
    CHECK(unlink(path) == 0);
    CHECK(store_rebuild(world_path, &o, &rebuilt, &eb) == ERR_OK);
    CHECK(rebuilt.superblock);
}

/* Every start has a higher version than all before it, and the two counts go their own ways. */
static void
versions_rise(void *arg)
{
    static const struct {
        uint64_t start, map_epoch, wanted; /* wanted: the epoch of versions */
        bool forget;
    } rows[] = {
        {1, 40, 40, false}, /* a node of a cluster with a history */
        {2, 41, 41, false},
        {90, 41, 42, false},  /* the map was restored from an old backup */
        {91, 7, 43, false},   /* and again */
        {92, 900, 900, true}, /* the superblocks are rebuilt from the logs */
        {3, 900, 901, false}, /* the count of starts was lost: it goes on from the disk */
        {4, 0, 902, false},
    };
    struct version last = {0};
    uint64_t starts = 0;

    (void)arg;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct store *d = open_at(rows[i].start, rows[i].map_epoch);
        struct version v = last_version(d);

        CHECK_U64(v.epoch, rows[i].wanted);
        CHECK(version_cmp(&v, &last) > 0);
        CHECK(d->epoch > starts);
        starts = d->epoch;
        last = v;
        store_close(&d);
        if (rows[i].forget)
            forget_superblocks();
    }
    world_check_sound();
}

/* A superblock that knows less than the logs: the replay raises the epoch before anything is written. */
static void
logs_know_more(void *arg)
{
    struct store *d = open_at(1, 5000);
    struct version first = last_version(d), v;
    struct rt_dir *root = NULL, *state = NULL;
    struct rt_file *file = NULL;
    struct superblock s;
    struct errbuf eb = {0};
    char command[300];

    (void)arg;
    CHECK_U64(first.epoch, 5000);
    store_close(&d);
    REQUIRE(rt_dir_open(world_path, &root, &eb) == ERR_OK);
    REQUIRE(rt_dir_open_at(root, ".forebay", &state, &eb) == ERR_OK);
    REQUIRE(superblock_load(state, &s, &eb) == ERR_OK);
    CHECK_U64(s.map_epoch, 5000);
    s.map_epoch = 3;
    REQUIRE(rt_open(state, "superblock", RT_O_WRITE | RT_O_DIRECT, 0600, &file, &eb) ==
            ERR_OK);
    REQUIRE(superblock_save(state, file, &s, &eb) == ERR_OK);
    rt_file_close(&file);
    snprintf(command, sizeof command, "rm -r '%s/index'", world_path);
    CHECK(system(command) == 0);

    d = open_at(2, 0);
    CHECK_U64(d->map_epoch, 5000);
    CHECK(superblock_load(state, &s, &eb) == ERR_OK && s.map_epoch == 5000);
    v = last_version(d);
    CHECK(version_cmp(&v, &first) > 0);
    store_close(&d);
    rt_dir_close(&state);
    rt_dir_close(&root);
}

/* The map gets a new epoch while the disk serves: durable first, then used. */
static void
raised_while_served(void *arg)
{
    struct store *d = open_at(1, 10);
    struct version before = last_version(d), after;
    struct store_identity found;
    struct errbuf eb = {0};

    (void)arg;
    CHECK(store_raise_map_epoch(d, 12, &eb) == ERR_OK);
    after = last_version(d);
    CHECK_U64(after.epoch, 10); /* durable, not in use yet */
    atomic_store(&d->ids->map_epoch, 12);
    before = after;
    after = last_version(d);
    CHECK_U64(after.epoch, 12);
    CHECK(after.counter > before.counter);
    CHECK(store_raise_map_epoch(d, 11, &eb) == ERR_OK); /* never back */
    CHECK(store_identify(world_path, &found, &eb) == ERR_OK);
    CHECK_U64(found.map_epoch, 12);
    /* In use, and not durable: nothing is written under it. */
    atomic_store(&d->ids->map_epoch, 20);
    after = last_version(d);
    CHECK_U64(after.epoch, 12);
    store_close(&d);
    d = open_at(2, 12);
    after = last_version(d);
    CHECK_U64(after.epoch, 13);
    store_close(&d);
}

/* ---- the coordinator of a prepared version ---- */

static void
prepare_by(struct store *d, const char *key, uint8_t n, const struct coordinator *by)
{
    struct store_writer *w = copies_write(d, key, n, 0, 100);
    struct object_meta meta = {.mtime_ms = 1};
    struct errbuf eb = {0};

    CHECK(store_prepare(&w, &meta, by, &eb) == ERR_OK);
}

static void
check_coordinators(struct store *d, uint64_t own_epoch)
{
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct store_prepared *page;
    struct errbuf eb = {0};
    uint32_t count;
    bool more;

    CHECK(store_prepared(d, NULL, 10, a, &page, &count, &more, &eb) == ERR_OK);
    REQUIRE(count == 2); /* by content id */
    CHECK_U64(page[0].coordinator.node, 9);
    CHECK_U64(page[0].coordinator.epoch, UINT64_MAX - 1);
    CHECK_U64(page[1].coordinator.node, 1);
    CHECK_U64(page[1].coordinator.epoch, own_epoch);
    arena_free(&a);
}

static void
coordinator_is_kept(void *arg)
{
    const struct coordinator other = {9, UINT64_MAX - 1};
    struct store *d = copies_open();
    uint64_t own = atomic_load(&d->ids->map_epoch);

    (void)arg;
    prepare_by(d, "theirs", 1, &other);
    prepare_by(d, "ours", 2, NULL);
    check_coordinators(d, own);
    for (int way = 0; way < COPIES_WAYS; way++) {
        copies_reopen(&d, way);
        check_coordinators(d, own);
    }
    copies_close(&d);
}

/* Compaction appends the prepare record again, with what it says. */
static void
coordinator_is_relocated(void *arg)
{
    const struct coordinator other = {9, UINT64_MAX - 1};
    struct store *d;
    uint64_t own;

    (void)arg;
    copies_segment_bytes = 1u << 20;
    d = copies_open();
    own = atomic_load(&d->ids->map_epoch);
    prepare_by(d, "theirs", 1, &other);
    prepare_by(d, "ours", 2, NULL);
    for (unsigned i = 0; i < 60; i++) /* one key: what is behind it is garbage */
        CHECK(world_put(d, "key", copies_data, 100000, NULL) == ERR_OK);
    compact(d);
    check_coordinators(d, own);
    copies_reopen(&d, 2);
    check_coordinators(d, own);
    copies_close(&d);
    copies_segment_bytes = 0;
}

/* ---- a disk of the format before ---- */

static void
test_a_superblock_of_format_1(void)
{
    struct superblock s = {.generation = 5, .epoch = 8, .map_epoch = 30}, r;
    char bytes[SUPERBLOCK_BYTES];
    struct errbuf eb = {0};

    superblock_encode(&s, bytes);
    REQUIRE(superblock_decode((struct span){bytes, sizeof bytes}, &r, &eb) == ERR_OK);
    CHECK_U64(r.epoch, 8);
    CHECK_U64(r.map_epoch, 30);
    /* As it was written: version 1, zeros behind the flags, the sum over that. */
    bytes[11] = 1;
    memset(bytes + 76, 0, 8);
    memset(bytes + 12, 0, 4);
    format_put_be(bytes + 12, hash_crc32c(0, bytes, sizeof bytes), 4);
    REQUIRE(superblock_decode((struct span){bytes, sizeof bytes}, &r, &eb) == ERR_OK);
    CHECK_U64(r.map_epoch, 8); /* the count of starts was the epoch of versions */
    bytes[11] = 3;
    memset(bytes + 12, 0, 4);
    format_put_be(bytes + 12, hash_crc32c(0, bytes, sizeof bytes), 4);
    CHECK(superblock_decode((struct span){bytes, sizeof bytes}, &r, &eb) ==
          ERR_NOT_IMPLEMENTED);
    CHECK_SAYS(eb.text, "format 3, this program reads 1 and 2");
}

#define CASE(fn, body)                                                                   \
    static void test_##fn(void)                                                          \
    {                                                                                    \
        world_run(body, NULL);                                                           \
    }
CASE(versions_rise_whatever_the_counts_do, versions_rise)
CASE(the_logs_know_a_later_epoch_than_the_superblock, logs_know_more)
CASE(an_epoch_is_durable_before_a_version_has_it, raised_while_served)
CASE(a_prepared_version_names_its_coordinator, coordinator_is_kept)
CASE(compaction_keeps_the_coordinator, coordinator_is_relocated)

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    copies_data = malloc(COPIES_DATA);
    world_fill(copies_data, COPIES_DATA, 3);
    RUN(test_versions_rise_whatever_the_counts_do);
    RUN(test_the_logs_know_a_later_epoch_than_the_superblock);
    RUN(test_an_epoch_is_durable_before_a_version_has_it);
    RUN(test_a_prepared_version_names_its_coordinator);
    RUN(test_compaction_keeps_the_coordinator);
    RUN(test_a_superblock_of_format_1);
    free(copies_data);
    return check_done();
}
