/* Three disks, every object on two of them, and one disk ten times slower than it was, then one that stands still, in
 * virtual time: GETs hardly notice, at the price of few reads more, and the disk is used again when it is well. A version
 * that is overwritten while a late disk is read stays readable to its end. Protects F3.
 */
#include <stdlib.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "disks/disks.h"
#include "rt/loop.h"
#include "rt/sim.h"
#include "rt/sim_trouble.h"
#include "rt/time.h"
#include "sim/sim_main.h"

#define BUCKET  7
#define OBJECTS 120
#define READERS 6
#define READS   1500 /* of each part, all readers together */
#define USUAL   2000 /* microseconds that a disk takes at most */

struct life {
    struct sim *sim;
    struct disks *set;
    unsigned scenario;
    uint64_t took_ns[READS];
    unsigned asked, failed;
};

static struct disks_key
key_of(unsigned i, char text[24])
{
    snprintf(text, 24, "k/%06u", i);
    return (struct disks_key){
        .at = {.bucket = BUCKET, .immutable_name = SPAN("bucket"), .key = span_of(text)},
        .copies = 2};
}

/* Some in logs, some with a body of their own. */
static size_t
size_of(unsigned i)
{
    return i % 10 == 9 ? 300000 : 3000 + i;
}

static void
put(struct life *f, unsigned i)
{
    static char bytes[300000];
    struct object_meta meta = {.mtime_ms = 1700000000123};
    struct disks_writer *w = NULL;
    struct errbuf eb = {0};
    char text[24];
    struct disks_key k = key_of(i, text);

    memset(bytes, (int)('a' + i % 26), sizeof bytes);
    CHECK(disks_write_begin(f->set, &k, STORE_NATIVE, size_of(i), &w, &eb) == ERR_OK);
    CHECK(disks_write(w, bytes, size_of(i), &eb) == ERR_OK);
    CHECK(disks_commit(&w, &meta, NULL, NULL, &eb) == ERR_OK);
}

static enum err
get(struct life *f, unsigned i)
{
    struct disks_reader r = {0};
    struct errbuf eb = {0};
    struct span piece;
    char text[24];
    struct disks_key k = key_of(i, text);
    size_t at = 0;
    struct entry entry;
    enum err rc = disks_lookup(f->set, &k, &entry, &eb);

    if (rc == ERR_OK)
        rc = disks_read_begin(f->set, &k, &entry, 0, entry.size, &r, &eb);
    while (rc == ERR_OK) {
        rc = disks_read_next(&r, DEADLINE_NEVER, &piece, &eb);
        if (rc != ERR_OK || piece.len == 0)
            break;
        CHECK(piece.at[0] == (char)('a' + i % 26));
        at += piece.len;
    }
    disks_read_end(&r);
    if (rc == ERR_OK)
        CHECK_U64(at, size_of(i));
    return rc;
}

static void
reader(void *arg)
{
    struct life *f = arg;

    while (f->asked < READS && !rt_cancelled()) {
        unsigned nth = f->asked++;
        uint64_t begun = rt_now_ns();

        f->failed += get(f, (unsigned)(sim_random() % OBJECTS)) != ERR_OK;
        f->took_ns[nth] = rt_now_ns() - begun;
    }
}

static int
by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

struct part {
    uint64_t p99_us, all_ms;
    int64_t hedged;
};

static struct part
read_all(struct life *f)
{
    int64_t before = metric_read(M_READS_HEDGED, 0);
    uint64_t begun = rt_now_ns();
    struct part p;
    struct rt_group g;

    f->asked = f->failed = 0;
    rt_group_begin(&g);
    for (unsigned i = 0; i < READERS; i++)
        CHECK(rt_group_start(&g, reader, f) == ERR_OK);
    rt_group_join(&g);
    CHECK_U64(f->failed, 0);
    p.all_ms = (rt_now_ns() - begun) / 1000000;
    p.hedged = metric_read(M_READS_HEDGED, 0) - before;
    qsort(f->took_ns, READS, sizeof f->took_ns[0], by_size);
    p.p99_us = f->took_ns[READS * 99 / 100] / 1000;
    return p;
}

static void
slow(struct life *f, const char *disk, unsigned us)
{
    sim_trouble(f->sim, disk, &(struct sim_trouble){.slow_us = us});
}

/* As long as before, or nearly, and few reads more. */
static void
is_fine(const struct part *now, const struct part *well, const char *when)
{
    CHECK(now->p99_us <= 2 * well->p99_us);
    CHECK(now->all_ms <= 2 * well->all_ms); /* half the rate */
    CHECK(now->hedged <= READS / 20 + 32);
    if (getenv("V") != NULL)
        printf("%s: p99 %" PRIu64 " us, %" PRIu64 " ms, %" PRId64 " asked twice\n", when,
               now->p99_us, now->all_ms, now->hedged);
}

static void
in_trouble(struct life *f, const struct part *well)
{
    struct part p;

    slow(f, "/a", 10 * USUAL);
    p = read_all(f);
    is_fine(&p, well, "one ten times slower");
    p = read_all(f);
    is_fine(&p, well, "still");
    CHECK(p.hedged <= READS / 20);
}

static void
stands_still(struct life *f, const struct part *well)
{
    struct part p;

    slow(f, "/a", 1000000);
    p = read_all(f);
    CHECK(p.p99_us <= 3 * well->p99_us + 100000);
    CHECK(p.hedged <= READS / 20 + 32);
}

/* The first is needed again when the second is slow. */
static void
heals(struct life *f, const struct part *well)
{
    struct part p;

    slow(f, "/a", 10 * USUAL);
    (void)read_all(f);
    slow(f, "/a", 0);
    for (unsigned i = 0; i < 4; i++)
        (void)read_all(f);
    slow(f, "/b", 10 * USUAL);
    p = read_all(f);
    is_fine(&p, well, "another one");
    slow(f, "/b", 0);
}

/* ---- overwritten while it is read ---- */

#define LARGE (3u << 20)

static void
put_large(struct life *f, const struct disks_key *k, char of)
{
    struct object_meta meta = {.mtime_ms = 1700000000123};
    struct disks_writer *w = NULL;
    struct errbuf eb = {0};
    char *bytes = xmalloc(LARGE);

    memset(bytes, of, LARGE);
    CHECK(disks_write_begin(f->set, k, STORE_NATIVE, LARGE, &w, &eb) == ERR_OK);
    CHECK(disks_write(w, bytes, LARGE, &eb) == ERR_OK);
    CHECK(disks_commit(&w, &meta, NULL, NULL, &eb) == ERR_OK);
    free(bytes);
}

/* A read that has begun keeps its version: it is overwritten on both disks, then both are late. */
static void
overwritten_and_late(struct life *f, const struct disks_key *k, bool both)
{
    static const char *const disks[] = {"/a", "/b", "/c"};
    struct disks_reader r = {0};
    struct errbuf eb = {0};
    struct span piece;
    struct entry entry;
    uint64_t at = 0;
    enum err rc;

    put_large(f, k, 'o');
    REQUIRE(disks_lookup(f->set, k, &entry, &eb) == ERR_OK);
    REQUIRE(disks_read_begin(f->set, k, &entry, 0, entry.size, &r, &eb) == ERR_OK);
    do {
        rc = disks_read_next(&r, DEADLINE_NEVER, &piece, &eb);
        if (at == 0) {
            put_large(f, k, 'n');
            for (unsigned i = 0; i < 3; i++)
                if (both || i == entry.place.disk)
                    slow(f, disks[i], 1000000);
        }
        for (size_t i = 0; rc == ERR_OK && i < piece.len; i += 4096)
            CHECK(piece.at[i] == 'o');
        at += piece.len;
    } while (rc == ERR_OK && piece.len > 0);
    disks_read_end(&r);
    for (unsigned i = 0; i < 3; i++)
        slow(f, disks[i], 0);
    if (rc != ERR_OK)
        fprintf(stderr, "after %" PRIu64 " bytes: %s: %s\n", at, err_name(rc), eb.text);
    CHECK(rc == ERR_OK);
    CHECK_U64(at, LARGE);
}

static void
overwritten(struct life *f, const struct part *well)
{
    (void)well;
    for (unsigned i = 0; i < 6; i++) {
        char text[24];
        struct disks_key k = key_of(OBJECTS + i, text);

        overwritten_and_late(f, &k, i % 2 != 0);
    }
}

static void
live(void *arg)
{
    static const char *const paths[] = {"/a/disk", "/b/disk", "/c/disk"};
    static void (*const scenarios[])(struct life * f, const struct part *well) = {
        in_trouble, stands_still, heals, overwritten};
    struct life *f = arg;
    struct disks_options o = {.paths = paths,
                              .count = 3,
                              .state = "/n",
                              .disk = {.node = 1,
                                       .epoch = 1,
                                       .segment_bytes = 8u << 20,
                                       .memtable_bytes = 1u << 20,
                                       .index_map_bytes = 16u << 20,
                                       .index_interval_ms = 20}}; /* no block cache */
    struct errbuf eb = {0};
    struct part well;

    memset(o.disk.cluster_id, 0x5a, sizeof o.disk.cluster_id);
    REQUIRE(disks_open(&o, &f->set, &eb) == ERR_OK);
    for (unsigned i = 0; i < OBJECTS; i++)
        put(f, i);
    (void)read_all(f); /* learns what is usual */
    well = read_all(f);
    is_fine(&well, &well, "well");
    CHECK(well.hedged <= READS / 20);
    scenarios[f->scenario](f, &well);
    slow(f, "/a", 0);
    disks_close(&f->set);
}

static uint64_t
run(uint64_t seed)
{
    struct sim_options o = {.seed = seed, .calm = true, .max_delay_us = USUAL};
    struct sim *s = sim_new(&o);
    static struct life f;
    struct errbuf eb = {0};
    uint64_t hash;

    f = (struct life){.sim = s, .scenario = (unsigned)(seed % 4)};
    CHECK(sim_run_world(s, live, &f, &eb) == ERR_OK);
    hash = sim_trace_hash(s);
    sim_free(&s);
    return hash;
}

int
main(int argc, char **argv)
{
    log_set_level(LOG_ERROR + 1);
    return sim_main(argc, argv, run);
}
