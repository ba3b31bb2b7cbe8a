/* Objects on several disks: read around what is lost or rotten, repaired, never resurrected. */
#include "rig.h"

#include "disks/rebalancer.h"
#include "disks/version_tombstone.h"
#include "store/core/core.h"
#include "store/health/health_internal.h"

#define KEYS 40

static uint64_t
objects(struct rig *g)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < RIG_DISKS; i++) {
        uint64_t n = rig_objects_on(g, g->path[i]);

        sum += n != UINT64_MAX ? n : 0;
    }
    return sum;
}

static void
command(const char *fmt, const char *path)
{
    char text[700];

    snprintf(text, sizeof text, fmt, path, path);
    CHECK(system(text) == 0);
}

static void
two_copies(void *arg)
{
    struct rig *g = arg;
    bool existed;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    rig_put_all(g, KEYS, 1);
    rig_put_all(g, KEYS, 100);
    rig_get_all(g, KEYS, 100);
    CHECK_U64(objects(g), 2 * KEYS);
    CHECK(rig_delete(g, rig_name(5), &existed) == ERR_OK && existed);
    CHECK(rig_get(g, rig_name(5), 1, 1) == ERR_NOT_FOUND);
    CHECK_U64(objects(g), 2 * KEYS - 2);
    CHECK(rig_put(g, rig_name(5), rig_size(5), 105) == ERR_OK);
    disks_close(&g->ds);

    /* One disk is lost: everything reads, its copies are made good on the others. */
    command("rm -rf '%s'", g->path[1]);
    CHECK(rig_open(g, 7) == ERR_DENIED);
    CHECK_SAYS(g->eb.text, "--without");
    REQUIRE(rig_open_without(g, 5, g->path[1]) == ERR_OK);
    rig_get_all(g, KEYS, 100);
    CHECK(rig_converged(g));
    CHECK_U64(objects(g), 2 * KEYS);
    rig_get_all(g, KEYS, 100);
    CHECK(rig_get(g, "never", 1, 1) != ERR_OK);
    CHECK(disks_remove(g->ds, g->path[1], false, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK(rig_get(g, "never", 1, 1) == ERR_NOT_FOUND);
    rig_get_all(g, KEYS, 100);
    disks_close(&g->ds);
}

/* Bits of every file of one disk are flipped, under a server that has none of it in memory: what is read is right, and
 * right again on that disk afterwards. */
static void
rot(void *arg)
{
    struct rig *g = arg;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    rig_put_all(g, KEYS, 1);
    CHECK(disks_flush(g->ds, &g->eb) == ERR_OK);
    command("for f in '%s'/native/*; do python3 - \"$f\" <<'E'\n"
            "import sys\n"
            "f = open(sys.argv[1], 'r+b'); b = bytearray(f.read(6 << 20))\n"
            "for at in range(9000, len(b), 5000):\n"
            "    if b[at]: f.seek(at); f.write(bytes([b[at] ^ 4]))\n"
            "E\ndone; true '%s'",
            g->path[0]);
    rig_get_all(g, KEYS, 1);
    CHECK(rig_converged(g));
    for (unsigned i = 0; i < KEYS; i++) { /* also those whose other copy was read */
        struct disks_key k = rig_key(g, rig_name(i));

        disks_repair(g->ds, &k, 0);
    }
    CHECK(rig_converged(g));
    rig_get_all(g, KEYS, 1);
    disks_close(&g->ds);
    command("rm -rf '%s'",
            g->path[1]); /* the good disk goes: the mended one has it all */
    REQUIRE(rig_open_without(g, 1, g->path[1]) == ERR_OK);
    rig_get_all(g, KEYS, 1);
    disks_close(&g->ds);
}

/* A disk that comes back after changes brings nothing back. */
static void
comes_back(void *arg)
{
    struct rig *g = arg;
    bool existed;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    rig_put_all(g, KEYS, 1);
    disks_close(&g->ds);
    command("mv '%s' '%s.away'", g->path[2]);
    REQUIRE(rig_open_without(g, 3, g->path[2]) == ERR_OK);
    for (unsigned i = 0; i < KEYS; i++) {
        if (i % 3 == 0) {
            CHECK(rig_delete(g, rig_name(i), &existed) == ERR_OK && existed);
        } else if (i % 3 == 1) {
            CHECK(rig_put(g, rig_name(i), rig_size(i), 500 + i) == ERR_OK);
        }
    }
    CHECK(rig_converged(g));
    disks_close(&g->ds);
    command("mv '%s.away' '%s'", g->path[2]);
    REQUIRE(rig_open(g, 7) == ERR_OK);
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned i = 0; i < KEYS; i++) {
            enum err rc =
                rig_get(g, rig_name(i), rig_size(i), (i % 3 == 1 ? 500 : 1) + i);

            CHECK(rc == (i % 3 == 0 ? ERR_NOT_FOUND : ERR_OK));
        }
        CHECK(rig_converged(g));
    }
    CHECK_U64(objects(g), 2 * (KEYS - (KEYS + 2) / 3));
    disks_close(&g->ds);
}

static void
set_copies(struct rig *g, unsigned copies)
{
    CHECK(disks_hold(g->ds, &g->eb) == ERR_OK);
    g->copies = copies;
    disks_release(g->ds);
    CHECK(rig_converged(g));
}

/* One, three, one again; and deletes of objects that had more copies once stay deletes. */
static void
copies_change(void *arg)
{
    struct rig *g = arg;
    bool existed;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    rig_put_all(g, KEYS, 1);
    CHECK_U64(objects(g), KEYS);
    set_copies(g, 3);
    CHECK_U64(objects(g), 3 * KEYS);
    rig_get_all(g, KEYS, 1);
    set_copies(g, 1);
    CHECK_U64(objects(g), KEYS);
    rig_get_all(g, KEYS, 1);
    for (unsigned i = 0; i < KEYS; i++)
        CHECK(rig_delete(g, rig_name(i), &existed) == ERR_OK && existed);
    set_copies(g, 2);
    for (unsigned i = 0; i < KEYS; i++)
        CHECK(rig_get(g, rig_name(i), 1, 1) == ERR_NOT_FOUND);
    CHECK_U64(objects(g), 0);
    disks_close(&g->ds);
}

static void
too_few(void *arg)
{
    struct rig *g = arg;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    g->copies = 3;
    CHECK(rig_put(g, "k", 100, 1) == ERR_UNAVAILABLE);
    CHECK_SAYS(g->eb.text, "its bucket wants 3 copies");
    g->min_copies = 2;
    CHECK(rig_put(g, "k", 100, 1) == ERR_OK);
    CHECK(rig_get(g, "k", 100, 1) == ERR_OK);
    CHECK_U64(objects(g), 2);
    disks_close(&g->ds);
}

/* Parts of an upload on two disks; complete, abort, list, and a repeat of Complete. */
static void
uploads(void *arg)
{
    struct rig *g = arg;
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct disks_key k = rig_key(g, "multi");
    struct object_meta meta = {.mtime_ms = 1700000000123};
    struct store_upload *listed;
    struct store_part *parts;
    struct upload_id u, other;
    struct entry entry, again;
    uint32_t count;
    bool more;
    char *whole = xmalloc(700000);

    REQUIRE(rig_open(g, 7) == ERR_OK);
    rig_fill(whole, 700000, 9);
    CHECK(disks_upload_begin(g->ds, &k, &meta, &u, &g->eb) == ERR_OK);
    CHECK(disks_upload_begin(g->ds, &k, &meta, &other, &g->eb) == ERR_OK);
    for (unsigned i = 0; i < 2; i++) {
        struct disks_writer *w;

        REQUIRE(disks_part_begin(g->ds, &k, &u, i + 1, 350000, &w, &g->eb) == ERR_OK);
        CHECK(disks_write(w, whole + i * 350000, 350000, &g->eb) == ERR_OK);
        CHECK(disks_part_commit(&w, &meta, &g->eb) == ERR_OK);
    }
    CHECK(disks_upload_list(g->ds, RIG_BUCKET, 2, SPAN(""), NULL, 10, a, &listed, &count,
                            &more, &g->eb) == ERR_OK);
    CHECK(count == 2 && !more);
    CHECK(disks_upload_abort(g->ds, &k, &other, &g->eb) == ERR_OK);
    CHECK(disks_part_list(g->ds, &k, &u, 0, 10, a, &parts, &count, &more, &g->eb) ==
          ERR_OK);
    REQUIRE(count == 2);
    CHECK(disks_upload_complete(g->ds, &k, &u, parts, 2, &meta, NULL, &entry, &g->eb) ==
          ERR_OK);
    CHECK(disks_upload_complete(g->ds, &k, &u, parts, 2, &meta, NULL, &again, &g->eb) ==
          ERR_OK);
    CHECK(memcmp(&entry.content, &again.content, sizeof entry.content) == 0);
    CHECK(disks_upload_list(g->ds, RIG_BUCKET, 2, SPAN(""), NULL, 10, a, &listed, &count,
                            &more, &g->eb) == ERR_OK);
    CHECK(count == 0);
    CHECK(rig_get(g, "multi", 700000, 9) == ERR_OK);
    CHECK_U64(objects(g), 2);
    set_copies(g, 3);
    CHECK_U64(objects(g), 3);
    CHECK(rig_get(g, "multi", 700000, 9) == ERR_OK);
    disks_close(&g->ds);
    command("rm -rf '%s'", g->path[1]);
    REQUIRE(rig_open_without(g, 5, g->path[1]) == ERR_OK);
    CHECK(rig_get(g, "multi", 700000, 9) == ERR_OK);
    disks_close(&g->ds);
    free(whole);
    arena_free(&a);
}

/* A node that was killed compares its copies. That does not question what a disk held that is lost before it is done. */
static void
killed(void *arg)
{
    struct rig *g = arg;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    rig_put_all(g, KEYS, 1);
    disks_close(&g->ds);
    command("sed -i 's/^open no$/open yes/' '%s/disks'", g->state);
    REQUIRE(rig_open(g, 7) == ERR_OK);
    disks_close(&g->ds);
    command("grep -qx 'settled yes' '%s/disks'", g->state);
    REQUIRE(rig_open_without(g, 3, g->path[2]) == ERR_OK);
    for (unsigned i = 0; i < KEYS; i++)
        CHECK(rig_get(g, rig_name(KEYS + i), 1, 1) == ERR_NOT_FOUND);
    rig_get_all(g, KEYS, 1);
    CHECK(rig_converged(g));
    disks_close(&g->ds);
    command("grep -qx 'open no' '%s/disks'", g->state);
}

/* Keys of which nothing was ever said, and those of a disk that is out: how many are said not to be there? */
static unsigned
not_found(struct rig *g)
{
    unsigned n = 0;

    for (unsigned i = 0; i < 2 * KEYS; i++) {
        enum err rc = rig_get(g, rig_name(i), rig_size(i), 1 + i);

        CHECK(rc == ERR_OK || rc == ERR_NOT_FOUND || rc == ERR_UNAVAILABLE);
        n += rc == ERR_NOT_FOUND;
    }
    return n;
}

/* One copy of each. While a disk is out another one comes, to which keys of the first belong from then on: no answer says that
 * they are not there, after a restart neither, until the disk is aborted. */
static void
missed(void *arg)
{
    struct rig *g = arg;
    uint8_t id[16];

    REQUIRE(rig_open(g, 7) == ERR_OK);
    rig_put_all(g, KEYS, 1);
    disks_close(&g->ds);
    REQUIRE(rig_open_without(g, 3, g->path[2]) == ERR_OK);
    CHECK(not_found(g) > 0);
    CHECK(rig_converged(g));
    CHECK(not_found(g) > 0);
    disks_close(&g->ds);
    REQUIRE(rig_open_without(g, 3, NULL) == ERR_OK);
    CHECK(not_found(g) > 0);
    REQUIRE(disks_add(g->ds, g->path[3], id, &g->eb) == ERR_OK);
    CHECK_U64(not_found(g), 0);
    CHECK(rig_converged(g));
    CHECK_U64(not_found(g), 0);
    disks_close(&g->ds);
    REQUIRE(rig_open_without(g, 1 | 2 | 8, NULL) == ERR_OK);
    CHECK_U64(not_found(g), 0);
    CHECK(disks_remove(g->ds, g->path[2], false, &g->eb) == ERR_DENIED);
    REQUIRE(disks_remove(g->ds, g->path[2], true, &g->eb) == ERR_OK);
    CHECK(not_found(g) > KEYS);
    CHECK(rig_converged(g));
    disks_close(&g->ds);
}

/* ---- a disk that fails while objects are moved ---- */

/* A pass that takes an hour does not keep it in its place: writers continue without it, and the pass starts again. */
static void
fails_in_a_pass(void *arg)
{
    struct rig *g = arg;
    struct places p;
    struct disks_key k;
    struct replica_slot *gone;
    uint64_t pass = 0;
    unsigned key = 0;
    uint8_t id[16];

    REQUIRE(rig_open(g, 7) == ERR_OK);
    rig_put_all(g, KEYS, 1);
    CHECK(rig_converged(g));
    g->ds->control.rebalance_rate = 1;
    CHECK(disks_add(g->ds, g->path[3], id, &g->eb) == ERR_OK);
    for (unsigned i = 0; i < PATIENCE_MS / 10 && g->ds->rebalancer->now.moved == 0; i++)
        CHECK(rt_sleep_ms(10) == ERR_OK);
    pass = g->ds->rebalancer->passes;
    CHECK(pass > 0);
    for (;; key++) { /* not the one with the node's state */
        k = rig_key(g, rig_name(key));
        places_of(g->ds, &k, &p);
        if (p.at[0] != 0)
            break;
    }
    gone = &g->ds->slots[p.at[0]];
    CHECK(health_move(gone->at.store->health, STORE_FAILED, "planted", 0));
    for (unsigned i = 0; i < PATIENCE_MS / 10 && replica_state(gone) != REPLICA_OUT; i++)
        CHECK(rt_sleep_ms(10) == ERR_OK);
    CHECK(replica_state(gone) == REPLICA_OUT);
    CHECK(rig_put(g, rig_name(key), 100, 9) == ERR_OK);
    CHECK(rig_get(g, rig_name(key), 100, 9) == ERR_OK);
    for (unsigned i = 0; i < PATIENCE_MS / 10 && g->ds->rebalancer->passes == pass; i++)
        CHECK(rt_sleep_ms(10) == ERR_OK);
    CHECK(g->ds->rebalancer->passes > pass);
    disks_close(&g->ds);
}

static void
test_two_copies(void)
{
    rig_run(two_copies, &(struct rig){.copies = 2});
}
static void
test_rot_is_read_around_and_repaired(void)
{
    rig_run(rot, &(struct rig){.copies = 2});
}
static void
test_a_disk_that_comes_back_brings_nothing_back(void)
{
    rig_run(comes_back, &(struct rig){.copies = 2});
}
static void
test_copies_change(void)
{
    rig_run(copies_change, &(struct rig){.copies = 1});
}
static void
test_fewer_disks_than_copies(void)
{
    rig_run(too_few, &(struct rig){.copies = 2});
}
#define OPEN 300u /* uploads: more than are listed at a time */

static void
begin_before(struct rig *g)
{
    struct object_meta meta = {.mtime_ms = 1};
    struct upload_id u;

    for (unsigned i = 0; i < OPEN; i++) {
        char key[16];
        struct disks_key k;

        snprintf(key, sizeof key, "a-%03u", i / 2);
        k = rig_key(g, key);
        CHECK(disks_upload_begin(g->ds, &k, &meta, &u, &g->eb) == ERR_OK);
    }
}

/* Completed while one of its disks was away: it ends there when that one is back, its parts are given back, and it cannot be
 * completed again. One that was not completed stays, and so do the many that stand before it. */
static void
upload_ends_without_a_disk(void *arg)
{
    struct rig *g = arg;
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct disks_key k = rig_key(g, "multi");
    struct object_meta meta = {.mtime_ms = (int64_t)(rt_wall_ns() / 1000000u)};
    struct store_upload *listed;
    struct store_part *parts;
    struct disks_writer *w;
    struct upload_id u, other;
    struct entry entry, again;
    uint32_t count;
    uint64_t open_parts, bytes;
    bool more;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    CHECK(disks_upload_begin(g->ds, &k, &meta, &u, &g->eb) == ERR_OK);
    CHECK(disks_upload_begin(g->ds, &k, &meta, &other, &g->eb) == ERR_OK);
    begin_before(g);
    REQUIRE(disks_part_begin(g->ds, &k, &u, 1, 4, &w, &g->eb) == ERR_OK);
    CHECK(disks_write(w, "abcd", 4, &g->eb) == ERR_OK);
    CHECK(disks_part_commit(&w, &meta, &g->eb) == ERR_OK);
    disks_close(&g->ds);
    REQUIRE(rig_open_without(g, 1, g->path[1]) == ERR_OK);
    CHECK(disks_part_list(g->ds, &k, &u, 0, 10, a, &parts, &count, &more, &g->eb) ==
          ERR_OK);
    REQUIRE(count == 1);
    CHECK(disks_upload_complete(g->ds, &k, &u, parts, 1, &meta, NULL, &entry, &g->eb) ==
          ERR_OK);
    disks_close(&g->ds);
    REQUIRE(rig_open(g, 3) == ERR_OK);
    CHECK(disks_upload_complete(g->ds, &k, &u, parts, 1, &meta, NULL, &again, &g->eb) ==
          ERR_OK); /* whether or not a pass has come to it */
    CHECK(memcmp(&entry.content, &again.content, sizeof entry.content) == 0);
    CHECK(rig_converged(g));
    CHECK(disks_upload_list(g->ds, RIG_BUCKET, 2, SPAN("b"), NULL, 10, a, &listed, &count,
                            &more, &g->eb) == ERR_OK);
    CHECK(count == 1 && memcmp(&listed[0].id, &other, sizeof other) == 0);
    CHECK(disks_upload_list(g->ds, RIG_BUCKET, 2, SPAN(""), NULL, 1000, a, &listed,
                            &count, &more, &g->eb) == ERR_OK);
    CHECK_U64(count, OPEN + 1);
    disks_bucket_usage(g->ds, RIG_BUCKET, USAGE_OPEN, 1, &open_parts, &bytes);
    CHECK(open_parts == 0 && bytes == 0);
    CHECK(disks_upload_complete(g->ds, &k, &u, parts, 1, &meta, NULL, &again, &g->eb) ==
          ERR_OK);
    CHECK(memcmp(&entry.content, &again.content, sizeof entry.content) == 0);
    CHECK_U64(objects(g), 2);
    disks_close(&g->ds);
    arena_free(&a);
}

static void
test_an_upload_that_ends_without_a_disk(void)
{
    rig_run(upload_ends_without_a_disk, &(struct rig){.copies = 2, .min_copies = 1});
}

static void
begin_one(struct rig *g, const struct disks_key *k, struct upload_id *u)
{
    struct object_meta meta = {.mtime_ms = 1};
    struct disks_writer *w;

    REQUIRE(disks_upload_begin(g->ds, k, &meta, u, &g->eb) == ERR_OK);
    REQUIRE(disks_part_begin(g->ds, k, u, 1, 4, &w, &g->eb) == ERR_OK);
    CHECK(disks_write(w, "abcd", 4, &g->eb) == ERR_OK);
    CHECK(disks_part_commit(&w, &meta, &g->eb) == ERR_OK);
}

/* Marks of what ended, on all disks. */
static uint32_t
marks(struct rig *g)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    uint32_t sum = 0;

    for (unsigned i = 0; i < 2; i++) {
        struct store_entry *found;
        uint32_t count;
        bool more;

        CHECK(store_list_any(g->ds->slots[i].at.store, TOMBSTONE_BUCKETS | RIG_BUCKET,
                             SPAN(""), true, 100, a, &found, &count, &more,
                             &g->eb) == ERR_OK);
        sum += count;
    }
    arena_free(&a);
    return sum;
}

/* Aborted while one of its disks was away: it ends there when that one is back, and is invisible before. So does one whose key is
 * cut in the mark, which then stays. One that goes on stays. */
static void
upload_aborted_without_a_disk(void *arg)
{
    struct rig *g = arg;
    struct arena *a = arena_new(KIB(16), MIB(1));
    char longest[STORE_KEY_MAX + 1];
    struct disks_key k = rig_key(g, "multi"), l = rig_key(g, longest);
    struct store_upload *listed;
    struct store_part *parts;
    struct upload_id u, of_long, other;
    uint64_t open_parts, bytes;
    uint32_t count;
    bool more;

    memset(longest, 'x', STORE_KEY_MAX);
    longest[STORE_KEY_MAX] = '\0';
    l.at.key = span_of(longest);
    REQUIRE(rig_open(g, 3) == ERR_OK);
    begin_one(g, &k, &u);
    begin_one(g, &k, &other);
    begin_one(g, &l, &of_long);
    disks_close(&g->ds);
    REQUIRE(rig_open_without(g, 1, g->path[1]) == ERR_OK);
    CHECK(disks_upload_abort(g->ds, &k, &u, &g->eb) == ERR_OK);
    CHECK(disks_upload_abort(g->ds, &l, &of_long, &g->eb) == ERR_OK);
    disks_close(&g->ds);
    REQUIRE(rig_open(g, 3) == ERR_OK);
    CHECK(disks_part_list(g->ds, &k, &u, 0, 10, a, &parts, &count, &more, &g->eb) ==
          ERR_NO_UPLOAD); /* whether or not a pass has come to it */
    CHECK(rig_converged(g));
    CHECK(disks_upload_list(g->ds, RIG_BUCKET, 2, SPAN(""), NULL, 10, a, &listed, &count,
                            &more, &g->eb) == ERR_OK);
    CHECK(count == 1 && memcmp(&listed[0].id, &other, sizeof other) == 0);
    disks_bucket_usage(g->ds, RIG_BUCKET, USAGE_OPEN, 1, &open_parts, &bytes);
    CHECK_U64(bytes, 2 * 4); /* on each of the disks */
    CHECK_U64(marks(g), 1);
    CHECK(disks_part_list(g->ds, &k, &other, 0, 10, a, &parts, &count, &more, &g->eb) ==
              ERR_OK &&
          count == 1);
    disks_close(&g->ds);
    arena_free(&a);
}

static void
test_an_upload_that_is_aborted_without_a_disk(void)
{
    rig_run(upload_aborted_without_a_disk, &(struct rig){.copies = 2, .min_copies = 1});
}

/* One of its disks is here, and does not answer when the upload is aborted: it ends there too. */
static void
upload_aborted_unreachable(void *arg)
{
    struct rig *g = arg;
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct disks_key k = rig_key(g, "multi");
    uint64_t open_parts, bytes;
    struct store_upload *listed;
    struct upload_id u;
    uint32_t count;
    bool more;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    CHECK(rig_converged(g));
    begin_one(g, &k, &u);
    upload_replicas_unreachable = 1;
    CHECK(disks_upload_abort(g->ds, &k, &u, &g->eb) == ERR_OK);
    upload_replicas_unreachable = 0;
    CHECK(rig_converged(g));
    CHECK(disks_upload_list(g->ds, RIG_BUCKET, 2, SPAN(""), NULL, 10, a, &listed, &count,
                            &more, &g->eb) == ERR_OK);
    CHECK_U64(count, 0);
    disks_bucket_usage(g->ds, RIG_BUCKET, USAGE_OPEN, 1, &open_parts, &bytes);
    CHECK(open_parts == 0 && bytes == 0);
    CHECK_U64(marks(g), 0);
    disks_close(&g->ds);
    arena_free(&a);
}

static void
test_an_upload_that_is_aborted_while_a_disk_is_unreachable(void)
{
    rig_run(upload_aborted_unreachable, &(struct rig){.copies = 2});
}

static uint64_t
prepared_on(struct rig *g, unsigned slot)
{
    struct store_stat st;

    store_stat(g->ds->slots[slot].at.store, &st);
    return st.prepared;
}

static enum err
prepare_on(struct store *d, const struct store_key *k, const struct content_id *content)
{
    struct object_meta meta = {.mtime_ms = 1};
    struct store_writer *w = NULL;
    struct errbuf eb = {{0}};
    enum err rc = store_write_begin_as(d, k, 4, content, &w, &eb);

    if (rc == ERR_OK)
        rc = store_write(w, "abcd", 4, &eb);
    return rc == ERR_OK ? store_prepare(&w, &meta, NULL, &eb) : rc;
}

/* An upload of one part, listed. */
static void
begin_with_part(struct rig *g, const struct disks_key *k, struct arena *a,
                struct upload_id *u, struct store_part **parts)
{
    struct object_meta meta = {.mtime_ms = 1};
    struct disks_writer *w;
    uint32_t count;
    bool more;

    CHECK(disks_upload_begin(g->ds, k, &meta, u, &g->eb) == ERR_OK);
    REQUIRE(disks_part_begin(g->ds, k, u, 1, 4, &w, &g->eb) == ERR_OK);
    CHECK(disks_write(w, "abcd", 4, &g->eb) == ERR_OK);
    CHECK(disks_part_commit(&w, &meta, &g->eb) == ERR_OK);
    CHECK(disks_part_list(g->ds, k, u, 0, 10, a, parts, &count, &more, &g->eb) == ERR_OK);
    REQUIRE(count == 1);
}

/* What is left where an upload was completed, and a copy refused the decision, ends without a restart, and so does a body that no record
 * decided; what is under way stays, its key locked. */
static void
decision_failed(void *arg)
{
    struct rig *g = arg;
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct disks_key k = rig_key(g, "multi"), never = rig_key(g, "never"),
                     live = rig_key(g, "live");
    uint64_t hash = place_hash(live.at.immutable_name, live.at.key);
    struct object_meta meta = {.mtime_ms = (int64_t)(rt_wall_ns() / 1000000u)};
    struct content_id content, body;
    struct store *owner, *copy;
    struct store_part *parts;
    struct upload_id u;
    struct places p;
    struct entry entry;
    uint64_t open_parts, bytes;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    CHECK(rig_converged(g));
    begin_with_part(g, &k, a, &u, &parts);
    places_of(g->ds, &k, &p);
    owner = g->ds->slots[p.at[0]].at.store;
    copy = g->ds->slots[p.at[1]].at.store;
    content = store_mint_id(owner);
    CHECK(store_upload_prepare(copy, &k.at, &u, parts, 1, &content, &meta, NULL,
                               &g->eb) == ERR_OK);
    CHECK(store_upload_complete_as(owner, &k.at, &u, parts, 1, &content, &meta, NULL,
                                   &entry, &g->eb) == ERR_OK);
    body = store_mint_id(owner);
    CHECK(prepare_on(copy, &never.at, &body) == ERR_OK);
    keylock_take(g->ds->keylocks, hash);
    body = store_mint_id(owner);
    CHECK(prepare_on(copy, &live.at, &body) == ERR_OK);
    CHECK_U64(prepared_on(g, p.at[1]), 3);
    CHECK(set_diverge(g->ds, &g->eb) == ERR_OK);
    for (unsigned i = 0; prepared_on(g, p.at[1]) > 1; i++)
        CHECK(rt_sleep_ms(i < 10 ? 100 : 10) == ERR_OK); /* time for the live one too */
    CHECK(prepared_on(g, p.at[1]) == 1);
    CHECK(store_commit_prepared(copy, &live.at, &body, &entry.version, &g->eb) == ERR_OK);
    CHECK(store_lookup(copy, &live.at, &entry, &g->eb) == ERR_OK);
    keylock_release(g->ds->keylocks, hash);
    CHECK(rig_converged(g));
    CHECK_U64(prepared_on(g, p.at[1]), 0);
    CHECK(disks_lookup(g->ds, &never, &entry, &g->eb) == ERR_NOT_FOUND);
    CHECK(disks_lookup(g->ds, &live, &entry, &g->eb) == ERR_OK);
    CHECK(store_lookup(copy, &k.at, &entry, &g->eb) == ERR_OK);
    CHECK(memcmp(&entry.content, &content, sizeof content) == 0);
    CHECK_U64(objects(g), 4);
    disks_bucket_usage(g->ds, RIG_BUCKET, USAGE_OPEN, 1, &open_parts, &bytes);
    CHECK(open_parts == 0 && bytes == 0);
    disks_close(&g->ds);
    arena_free(&a);
}

/* Copies in parts without a completed upload: all go, not only the first page. */
static void
copies_left_over(void *arg)
{
    struct rig *g = arg;
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct store_upload *listed;
    struct upload_id u;
    struct store *d;
    struct entry entry;
    uint32_t count;
    bool more;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    REQUIRE(rig_put_if(g, "there", 4, 1, NULL, &entry) == ERR_OK);
    CHECK(rig_converged(g));
    d = g->ds->slots[1].at.store;
    for (unsigned i = 0; i < OPEN; i++) {
        char key[16];
        struct disks_key k;

        snprintf(key, sizeof key, "a-%03u", i);
        k = rig_key(g, key);
        CHECK(store_replica_begin(d, &k.at, &entry, &u, &g->eb) == ERR_OK);
    }
    CHECK(store_replica_list(d, RIG_BUCKET, SPAN(""), NULL, 1000, a, &listed, &count,
                             &more, &g->eb) == ERR_OK);
    CHECK_U64(count, OPEN);
    CHECK(set_diverge(g->ds, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK(store_replica_list(d, RIG_BUCKET, SPAN(""), NULL, 1000, a, &listed, &count,
                             &more, &g->eb) == ERR_OK);
    CHECK_U64(count, 0);
    disks_close(&g->ds);
    arena_free(&a);
}

static void
test_copies_that_are_left_over(void)
{
    rig_run(copies_left_over, &(struct rig){.copies = 2});
}

static void
test_a_decision_that_failed(void)
{
    rig_run(decision_failed, &(struct rig){.copies = 2});
}

static void
test_uploads_on_two_disks(void)
{
    rig_run(uploads, &(struct rig){.copies = 2});
}
static void
test_after_a_kill_a_lost_disk_hides_nothing(void)
{
    rig_run(killed, &(struct rig){.copies = 2});
}
static void
test_who_is_missed_is_missed_after_a_restart(void)
{
    rig_run(missed, &(struct rig){.copies = 1});
}

static void
test_a_disk_fails_while_objects_are_moved(void)
{
    log_set_level(LOG_ERROR + 1); /* of disks that fail on purpose */
    rig_run(fails_in_a_pass, &(struct rig){.copies = 2});
    log_set_level(LOG_ERROR);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR);
    RUN(test_two_copies);
    RUN(test_rot_is_read_around_and_repaired);
    RUN(test_a_disk_that_comes_back_brings_nothing_back);
    RUN(test_copies_change);
    RUN(test_fewer_disks_than_copies);
    RUN(test_uploads_on_two_disks);
    RUN(test_an_upload_that_ends_without_a_disk);
    RUN(test_an_upload_that_is_aborted_without_a_disk);
    RUN(test_an_upload_that_is_aborted_while_a_disk_is_unreachable);
    RUN(test_a_decision_that_failed);
    RUN(test_copies_that_are_left_over);
    RUN(test_after_a_kill_a_lost_disk_hides_nothing);
    RUN(test_who_is_missed_is_missed_after_a_restart);
    RUN(test_a_disk_fails_while_objects_are_moved);
    return check_done();
}
