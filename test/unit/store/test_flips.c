/* Damage on the disk is never sent: each bit of a record of 20 KiB and of its header flipped, 2,000 bits of large
 * bodies, blocks and records swapped, pages gone back to zeros. Whatever is given out before the error is right.
 * Protects I2 (and the way every read is checked: disk.md rule 6). In the simulator, whose files can be changed
 * between two reads. */
#include "world.h"

#include "base/mem.h"
#include "base/metrics.h"
#include "rt/sim.h"

#define SMALL (20u << 10)
#define LARGE (3u << 20)
#define BLOCK (16u << 10)

static struct sim *sim;
static struct store *d;
static char *data, *log_at, *body_at;
static uint64_t log_size, body_size;

static uint64_t
rnd(void)
{
    static uint64_t seed = 99;

    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 24;
}

/* Reads [from, to) of the key. What comes is right, whatever the end. */
static enum err
read_range(const char *key, const char *want, uint64_t from, uint64_t to)
{
    struct store_key k = world_key(7, key);
    struct errbuf eb = {0};
    struct store_reader *r = NULL;
    struct span piece = {"", 1};
    uint64_t at = from;
    struct entry entry;
    enum err rc = store_lookup(d, &k, &entry, &eb);

    if (rc == ERR_OK)
        rc = store_read_begin(d, &k, &entry, from, to - from, &r, &eb);
    while (rc == ERR_OK && piece.len > 0) {
        rc = store_read_next(r, DEADLINE_NEVER, &piece, &eb);
        CHECK(rc == ERR_OK || piece.len == 0);
        CHECK(at + piece.len <= to && memcmp(piece.at, want + at, piece.len) == 0);
        at += piece.len;
    }
    CHECK((rc == ERR_OK) == (at == to));
    store_read_end(&r);
    return rc;
}

static enum err
read_meta(const char *key, const struct entry *entry)
{
    struct store_key k = world_key(7, key);
    struct arena *a = arena_new(4096, 1 << 16);
    struct object_meta meta;
    struct errbuf eb = {0};
    enum err rc = store_meta(d, &k, entry, a, &meta, &eb);

    CHECK(rc != ERR_OK || meta.mtime_ms == 1700000000123);
    arena_free(&a);
    return rc;
}

static void
file_of(const char *name, char **at, uint64_t *size)
{
    char path[64];

    snprintf(path, sizeof path, "/disk/native/%s", name);
    CHECK(sim_file_bytes(sim, path, at, size) == ERR_OK);
}

static void
begin(void)
{
    struct store_options o = world_options();
    struct errbuf eb = {0};
    struct entry entry;

    REQUIRE(store_open("/disk", &o, &d, &eb) == ERR_OK);
    CHECK(world_put(d, "before", data + 1, 5000, &entry) == ERR_OK);
    CHECK(world_put(d, "small", data, SMALL, &entry) == ERR_OK);
    CHECK(world_put(d, "small-2", data + 7, SMALL, &entry) == ERR_OK);
    CHECK(world_put(d, "large", data, LARGE, &entry) == ERR_OK);
    CHECK(world_put(d, "large-2", data + 9, LARGE, &entry) == ERR_OK);
    CHECK(store_flush(d, &eb) == ERR_OK);
    file_of("log-000001.tar", &log_at, &log_size);
    file_of("body-000002.tar", &body_at, &body_size);
    REQUIRE(log_at != NULL && body_at != NULL);
}

static struct entry
entry_of(const char *key)
{
    struct store_key k = world_key(7, key);
    struct errbuf eb = {0};
    struct entry entry = {0};

    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK);
    return entry;
}

/* ---- a record of the log ---- */

static void
every_bit(void *arg)
{
    struct entry entry;
    char *record, *payload;
    int64_t refused;

    (void)arg;
    begin();
    entry = entry_of("small");
    record = log_at + entry.place.offset;
    payload = memmem(record, 65536, data, SMALL);
    REQUIRE(payload != NULL && payload > record + 1024 && payload < record + SMALL);
    refused = metric_read(M_CHECKSUM_FAILURES, 0);
    for (char *at = record; at < payload + SMALL; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            *at = (char)(*at ^ 1 << bit);
            CHECK(read_range("small", data, 0, SMALL) == ERR_CORRUPT);
            if (at < payload && bit == 0)
                CHECK(read_meta("small", &entry) == ERR_CORRUPT);
            *at = (char)(*at ^ 1 << bit);
        }
    }
    CHECK(metric_read(M_CHECKSUM_FAILURES, 0) - refused >=
          8 * (payload + SMALL - record));
    CHECK(read_range("small", data, 0, SMALL) == ERR_OK);
    CHECK(read_meta("small", &entry) == ERR_OK);
    store_close(&d);
}

/* Whole records and pages in the wrong place, or gone back to what they were before. */
static void
misplaced(void *arg)
{
    struct entry a, b;
    uint64_t whole;
    static char kept[2 * SMALL];

    (void)arg;
    begin();
    a = entry_of("small");
    b = entry_of("small-2");
    whole = b.place.offset - a.place.offset; /* they follow each other */
    REQUIRE(whole > SMALL && whole <= sizeof kept);
    memcpy(kept, log_at + a.place.offset, whole);
    memcpy(log_at + a.place.offset, log_at + b.place.offset,
           whole); /* another record, whole and valid */
    CHECK(read_range("small", data, 0, SMALL) == ERR_CORRUPT);
    CHECK(read_meta("small", &a) == ERR_CORRUPT);
    memcpy(log_at + a.place.offset, kept, whole);
    for (unsigned page = 0; page < SMALL / 4096; page++) { /* writes that never came */
        uint64_t at = align_up(a.place.offset, 4096) + 4096 * page;

        memcpy(kept, log_at + at, 4096);
        memset(log_at + at, 0, 4096);
        CHECK(read_range("small", data, 0, SMALL) == ERR_CORRUPT);
        memcpy(log_at + at, kept, 4096);
    }
    CHECK(read_range("small", data, 0, SMALL) == ERR_OK);
    CHECK(read_range("small-2", data + 7, 0, SMALL) == ERR_OK);
    store_close(&d);
}

/* ---- bodies ---- */

static void
swap_blocks(char *a, char *b)
{
    static char kept[BLOCK];

    memcpy(kept, a, BLOCK);
    memcpy(a, b, BLOCK);
    memcpy(b, kept, BLOCK);
}

static void
bits_of_bodies(void *arg)
{
    struct entry entry;
    char *payload, *other;

    (void)arg;
    begin();
    entry = entry_of("large");
    payload = body_at + entry.place.offset + 4096;
    other = body_at + entry_of("large-2").place.offset + 4096;
    CHECK(memcmp(payload, data, LARGE) == 0 && memcmp(other, data + 9, LARGE) == 0);
    for (unsigned i = 0; i < 2000; i++) {
        uint64_t at = rnd() % LARGE, block = at / BLOCK * BLOCK;
        unsigned bit = (unsigned)(rnd() % 8);

        payload[at] = (char)(payload[at] ^ 1 << bit);
        CHECK(read_range("large", data, block, MIN(block + BLOCK, LARGE)) == ERR_CORRUPT);
        CHECK(read_range("large", data, at, at + 1) == ERR_CORRUPT);
        if (i % 50 == 0)
            CHECK(read_range("large", data, 0, LARGE) == ERR_CORRUPT);
        if (block >= BLOCK) /* what lies beside is good */
            CHECK(read_range("large", data, block - BLOCK, block) == ERR_OK);
        payload[at] = (char)(payload[at] ^ 1 << bit);
    }
    swap_blocks(payload + 5 * BLOCK, payload + 6 * BLOCK);
    CHECK(read_range("large", data, 5 * BLOCK, 6 * BLOCK) == ERR_CORRUPT);
    CHECK(read_range("large", data, 6 * BLOCK, 7 * BLOCK) == ERR_CORRUPT);
    swap_blocks(payload + 5 * BLOCK, payload + 6 * BLOCK);
    swap_blocks(payload, other); /* the same block of another body */
    CHECK(read_range("large", data, 0, 1) == ERR_CORRUPT);
    CHECK(read_range("large-2", data + 9, 0, 1) == ERR_CORRUPT);
    swap_blocks(payload, other);
    CHECK(read_range("large", data, 0, LARGE) == ERR_OK);
    CHECK(read_range("large-2", data + 9, 0, LARGE) == ERR_OK);
    store_close(&d);
}

/* Header and sums of a body: either refused, or the bytes are right all the same (padding). */
static void
bits_around_bodies(void *arg)
{
    struct entry entry;
    char *head, *sums;
    unsigned refused = 0;

    (void)arg;
    begin();
    entry = entry_of("large");
    head = body_at + entry.place.offset;
    sums = head + 4096 + LARGE;
    for (unsigned i = 0; i < 2000; i++) {
        char *at = i % 2 == 0 ? head + rnd() % 4096 : sums + rnd() % 4096;
        unsigned bit = (unsigned)(rnd() % 8);
        enum err rc;

        *at = (char)(*at ^ 1 << bit);
        rc = read_range("large", data, 2 * BLOCK, 3 * BLOCK);
        CHECK(rc == ERR_OK || rc == ERR_CORRUPT);
        refused += rc == ERR_CORRUPT;
        rc = read_meta("large", &entry);
        CHECK(rc == ERR_CORRUPT || i % 2 == 1);
        *at = (char)(*at ^ 1 << bit);
    }
    CHECK(refused > 200);
    CHECK(read_range("large", data, 0, LARGE) == ERR_OK);
    store_close(&d);
}

static void
run_sim(fiber_fn *fn)
{
    struct sim_options o = {.seed = 5};
    struct errbuf eb = {0};

    sim = sim_new(&o);
    CHECK(sim_run_world(sim, fn, NULL, &eb) == ERR_OK);
    sim_free(&sim);
}

static void
test_every_bit_of_a_member(void)
{
    run_sim(every_bit);
}

static void
test_misplaced_members_and_pages(void)
{
    run_sim(misplaced);
}

static void
test_2000_bits_of_bodies(void)
{
    run_sim(bits_of_bodies);
}

static void
test_bits_around_bodies(void)
{
    run_sim(bits_around_bodies);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    data = xmalloc(LARGE + 16);
    world_fill(data, LARGE + 16, 5);
    RUN(test_every_bit_of_a_member);
    RUN(test_misplaced_members_and_pages);
    RUN(test_2000_bits_of_bodies);
    RUN(test_bits_around_bodies);
    free(data);
    return check_done();
}
