/* Damaged bytes never leave, on real files: every seventh bit of one record of 20 KiB and of its header (test_flips.c
 * has every bit, in the simulator), 2,000 random bits of large bodies, of their headers and sums; blocks and whole
 * records swapped. Protects I1 and I2. What the check says of damage is test_check.c's.
 */
#include "world_damage.h"

#include "base/metrics.h"

/* Reads it all. True: every byte is as written. False: an error came before the end; wrong bytes fail the test. */
static bool
reads_right(struct store *d, const char *key, const struct entry *entry, const char *want)
{
    struct store_key k = world_key(7, key);
    struct store_reader *r;
    struct errbuf eb = {0};
    struct span piece = {"", 0};
    uint64_t at = 0;
    enum err rc = store_read_begin(d, &k, entry, 0, entry->size, &r, &eb);

    while (rc == ERR_OK) {
        rc = store_read_next(r, DEADLINE_NEVER, &piece, &eb);
        if (rc != ERR_OK || piece.len == 0)
            break;
        if (memcmp(piece.at, want + at, piece.len) != 0)
            CHECK(false && "bytes that are not what was written");
        at += piece.len;
    }
    store_read_end(&r);
    if (rc == ERR_OK)
        CHECK_U64(at, entry->size);
    else
        CHECK(rc == ERR_CORRUPT ||
              rc == ERR_NOT_FOUND); /* the latter: no entry of the key says so */
    return rc == ERR_OK;
}

#define SMALL (20u << 10)
static void
flip_small(void *arg)
{
    struct store *d = world_open(NULL);
    char *data = malloc(SMALL);
    struct entry entry, other;
    uint64_t head, end;
    unsigned refused = 0, bits = 0;
    int fd;

    (void)arg;
    world_fill(data, SMALL, 3);
    CHECK(world_put(d, "one", data, SMALL, &entry) == ERR_OK);
    CHECK(world_put(d, "next", data, SMALL, &other) == ERR_OK);
    fd = world_file("native/log-000001.tar");
    head = entry.place.offset;
    end = head + 1536 + SMALL; /* behind it the batch lists its keys */
    CHECK(other.place.offset >= end);
    CHECK(end - head > SMALL && end - head < SMALL + 8192);
    for (uint64_t bit = head * 8; bit < end * 8; bit += 7, bits++) {
        world_flip(fd, bit);
        refused += !reads_right(d, "one", &entry, data);
        world_flip(fd, bit);
    }
    CHECK_U64(refused, bits); /* all of header and payload is under sums */
    CHECK(reads_right(d, "one", &entry, data));
    close(fd);
    free(data);
    store_close(&d);
}

static uint64_t
random_bits(void)
{
    static uint64_t state = 99;

    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 20;
}

#define LARGE ((300u << 10) + 77)
static void
flip_large(void *arg)
{
    struct store *d = world_open(NULL);
    char *data = malloc(LARGE);
    struct entry entry;
    unsigned refused = 0;
    uint64_t payload;
    int fd;

    (void)arg;
    world_fill(data, LARGE, 5);
    CHECK(world_put(d, "large", data, LARGE, &entry) == ERR_OK);
    fd = world_file("native/body-000002.tar");
    payload = entry.place.offset + 4096;
    for (unsigned i = 0; i < 2000; i++) {
        uint64_t bit = payload * 8 + random_bits() % (LARGE * 8);

        world_flip(fd, bit);
        refused += !reads_right(d, "large", &entry, data);
        world_flip(fd, bit);
    }
    CHECK_U64(refused, 2000);
    for (unsigned i = 0; i < 400;
         i++) { /* header and sums: refused, or of no account for the bytes */
        uint64_t from = i % 2 == 0 ? entry.place.offset : payload + LARGE;
        uint64_t bit = from * 8 + random_bits() % (4096 * 8);

        world_flip(fd, bit);
        (void)reads_right(d, "large", &entry, data);
        world_flip(fd, bit);
    }
    CHECK(reads_right(d, "large", &entry, data));
    close(fd);
    free(data);
    store_close(&d);
}

static void
swap_bytes(int fd, uint64_t a, uint64_t b, size_t len)
{
    char *x = malloc(len), *y = malloc(len);

    CHECK(pread(fd, x, len, (off_t)a) == (ssize_t)len &&
          pread(fd, y, len, (off_t)b) == (ssize_t)len);
    CHECK(pwrite(fd, x, len, (off_t)b) == (ssize_t)len &&
          pwrite(fd, y, len, (off_t)a) == (ssize_t)len);
    free(x);
    free(y);
}

static void
swap_all(void *arg)
{
    struct store *d = world_open(NULL);
    char *data = malloc(2 * LARGE);
    struct entry a, b, x, y;
    int log, body;

    (void)arg;
    world_fill(data, 2 * LARGE, 8);
    CHECK(world_put(d, "a", data, SMALL, &a) == ERR_OK);
    CHECK(world_put(d, "b", data, SMALL, &b) == ERR_OK);
    CHECK(world_put(d, "x", data, LARGE, &x) == ERR_OK);
    CHECK(world_put(d, "y", data + LARGE, LARGE, &y) == ERR_OK);
    log = world_file("native/log-000001.tar");
    body = world_file("native/body-000002.tar");

    /* Two records of the same shape: even equal bytes must not come from the wrong place. */
    swap_bytes(log, a.place.offset, b.place.offset, b.place.offset - a.place.offset);
    CHECK(!reads_right(d, "a", &a, data));
    CHECK(!reads_right(d, "b", &b, data));
    swap_bytes(log, a.place.offset, b.place.offset, b.place.offset - a.place.offset);

    swap_bytes(body, x.place.offset + 4096, y.place.offset + 4096,
               16384); /* the same block of two bodies */
    CHECK(!reads_right(d, "x", &x, data));
    CHECK(!reads_right(d, "y", &y, data + LARGE));
    swap_bytes(body, x.place.offset + 4096, y.place.offset + 4096, 16384);

    swap_bytes(body, x.place.offset + 4096, x.place.offset + 4096 + 16384,
               16384); /* two blocks of one body */
    CHECK(!reads_right(d, "x", &x, data));
    swap_bytes(body, x.place.offset + 4096, x.place.offset + 4096 + 16384, 16384);

    a.content = b.content; /* an entry that names another body's place */
    CHECK(!reads_right(d, "a", &a, data));
    CHECK(reads_right(d, "x", &x, data) && reads_right(d, "y", &y, data + LARGE) &&
          reads_right(d, "b", &b, data));
    close(log);
    close(body);
    free(data);
    store_close(&d);
}

/* The index is lost, and one batch in the middle of the log is damaged: what was in it is gone and said to be, all
 * that came after it is there. */
static void
damaged_log(void *arg)
{
    struct store *d = world_open(NULL);
    char key[16], *data = malloc(SMALL);
    struct entry entries[10];
    int64_t before;
    int fd;

    (void)arg;
    world_fill(data, SMALL, 3);
    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "key-%d", i);
        CHECK(world_put(d, key, data + i, 1000, &entries[i]) == ERR_OK);
    }
    store_close(&d);
    world_lose_index();
    fd = world_file("native/log-000001.tar");
    world_flip(fd, (entries[4].place.offset + 2000) * 8);
    close(fd);
    before = metric_read(M_CHECKSUM_FAILURES, 0);
    d = world_open(NULL);
    CHECK_U64(metric_read(M_CHECKSUM_FAILURES, 0), before + 1);
    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "key-%d", i);
        CHECK(world_get(d, key, data + i, 1000, 0, 1000) ==
              (i == 4 ? ERR_CORRUPT : ERR_OK));
    }
    CHECK(world_put(d, "after", data, 1000, &entries[0]) == ERR_OK);
    store_close(&d);
    d = world_open(NULL);
    CHECK(world_get(d, "after", data, 1000, 0, 1000) == ERR_OK);
    free(data);
    store_close(&d);
}

static void
test_damage_in_the_middle_of_the_log(void)
{
    world_run(damaged_log, NULL);
}

/* The same over several logs, which are read ahead of the replay: in two places a header and a payload are
 * damaged. What stands behind in the same log, and in the logs behind it, is there, in its order. */
#define MANY 700
static void
damaged_logs(void *arg)
{
    struct store_options o = world_options();
    struct errbuf eb = {0};
    static struct entry entries[MANY];
    char key[16], *data = malloc(SMALL);
    struct store *d = NULL;
    int at[2] = {20, 160}; /* of two that stand behind each other */

    (void)arg;
    o.segment_bytes = 1u << 20;
    o.index_interval_ms = 3600 * 1000; /* what the index has not is not compacted */
    world_fill(data, SMALL, 3);
    CHECK(store_open(world_path, &o, &d, &eb) == ERR_OK);
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "key-%d", i);
        CHECK(world_put(d, key, data + i, 2000, &entries[i]) == ERR_OK);
        if (i % 100 == 0 ||
            i == MANY - 1) /* few: where much is dead compaction moves the rest */
            CHECK(world_put(d, "again", data + i, 100, &entries[i]) == ERR_OK);
    }
    for (int i = 0; i < MANY; i++) {
        struct store_key k;

        snprintf(key, sizeof key, "key-%d", i);
        k = world_key(7, key);
        CHECK(store_lookup(d, &k, &entries[i], &eb) == ERR_OK);
    }
    store_close(&d);
    CHECK(entries[MANY - 1].place.segment >
          entries[0].place.segment); /* several, whatever was made ahead */
    world_lose_index();
    for (unsigned n = 0; n < ARRAY_LEN(at); n++) {
        char log[32];
        int fd;

        while (entries[at[n]].place.segment != entries[at[n] + 1].place.segment)
            at[n]++; /* where a log ends depends on what was made ahead */
        snprintf(log, sizeof log, "log-%06u.tar", entries[at[n]].place.segment);
        fd = world_file("native/%s", log);
        world_flip(fd, (entries[at[n]].place.offset + 600) * 8);      /* its header */
        world_flip(fd, (entries[at[n] + 1].place.offset + 3000) * 8); /* its payload */
        close(fd);
    }
    CHECK(store_open(world_path, &o, &d, &eb) == ERR_OK);
    for (int i = 0; i < MANY; i++) {
        bool lost = i == at[0] || i == at[1];
        bool rotten = i == at[0] + 1 || i == at[1] + 1;

        snprintf(key, sizeof key, "key-%d", i);
        CHECK(world_get(d, key, data + i, 2000, 0, 2000) ==
              (lost || rotten ? ERR_CORRUPT : ERR_OK));
    }
    CHECK(world_get(d, "again", data + MANY - 1, 100, 0, 100) == ERR_OK);
    free(data);
    store_close(&d);
}

static void
test_damage_in_the_middle_of_several_logs(void)
{
    world_run(damaged_logs, NULL);
}

/* Headers of segments: with one of each kind damaged everything is read and written as before. */
static void
segment_headers(void *arg)
{
    struct store *d = world_open(NULL);
    char *data = malloc(LARGE);
    struct entry entry;

    (void)arg;
    world_fill(data, LARGE, 6);
    CHECK(world_put(d, "small", data, 1000, &entry) == ERR_OK);
    CHECK(world_put(d, "large", data, LARGE, &entry) == ERR_OK);
    for (int i = 0; i < 2; i++) {
        int log = world_file("native/log-000001.tar"),
            body = world_file("native/body-000002.tar");

        store_close(&d);
        world_flip(log, 8 * 700 + 3);
        world_flip(body, 8 * 600);
        d = world_open(NULL);
        CHECK(world_get(d, "small", data, 1000, 0, 1000) == ERR_OK);
        CHECK(world_get(d, "large", data, LARGE, 0, LARGE) == ERR_OK);
        CHECK(world_put(d, "small", data, 1000, &entry) == ERR_OK);
        CHECK(world_put(d, "large", data, LARGE, &entry) == ERR_OK);
        close(log);
        close(body);
    }
    free(data);
    store_close(&d);
}

static void
test_headers_of_segments(void)
{
    world_run(segment_headers, NULL);
}

static void
flip_state(const char *name)
{
    int fd = world_file(".forebay/%s", name);

    world_flip(fd, 777);
    close(fd);
}

/* One copy of the superblock is enough; none is refused, as are another's cluster and a second process. */
static void
superblocks(void *arg)
{
    struct store_options o = world_options();
    struct store *d = world_open(NULL), *second;
    struct store_identity found;
    char data[100];
    struct entry entry;
    struct errbuf eb = {0};

    (void)arg;
    world_fill(data, sizeof data, 2);
    CHECK(world_put(d, "key", data, sizeof data, &entry) == ERR_OK);
    CHECK(store_open(world_path, &o, &second, &eb) == ERR_EXISTS && second == NULL);
    CHECK_SAYS(eb.text, "another process");
    store_close(&d);
    flip_state("superblock");
    d = world_open(NULL); /* mends it */
    CHECK(world_get(d, "key", data, sizeof data, 0, sizeof data) == ERR_OK);
    store_close(&d);
    flip_state("superblock.2");
    d = world_open(NULL);
    store_close(&d);
    o.cluster_id[3] ^= 1;
    CHECK(store_open(world_path, &o, &d, &eb) == ERR_DENIED);
    CHECK_SAYS(eb.text, "another cluster");
    CHECK(store_identify(world_path, &found, &eb) == ERR_OK);
    CHECK(found.cluster_id[0] == 0xc1 && found.node_state && !found.removed);
    flip_state("superblock");
    flip_state("superblock.2");
    o = world_options();
    CHECK(store_open(world_path, &o, &d, &eb) == ERR_CORRUPT);
    CHECK_SAYS(eb.text, "superblock");
    flip_state("superblock");
    d = world_open(NULL);
    CHECK(world_get(d, "key", data, sizeof data, 0, sizeof data) == ERR_OK);
    store_close(&d);
}

static void
removed(void *arg)
{
    struct store *d = world_open(NULL);
    struct store_options o = world_options();
    struct store_identity found;
    struct errbuf eb = {{0}};

    (void)arg;
    CHECK(store_mark_removed(d, &eb) == ERR_OK);
    store_close(&d);
    CHECK(store_identify(world_path, &found, &eb) == ERR_OK && found.removed);
    CHECK(store_open(world_path, &o, &d, &eb) == ERR_DENIED && d == NULL);
    CHECK_SAYS(eb.text, "was removed from its node");
}

static void
test_superblock_has_a_twin(void)
{
    world_run(superblocks, NULL);
}
static void
test_a_removed_disk_is_refused(void)
{
    world_run(removed, NULL);
}

static void
test_bits_of_a_small_object(void)
{
    world_run(flip_small, NULL);
}
static void
test_random_bits_of_a_large_object(void)
{
    world_run(flip_large, NULL);
}
static void
test_swapped_bytes(void)
{
    world_run(swap_all, NULL);
}

/* A file of a number that another one has, as a disk that lied about what it dropped may show it: the first is believed. */
static void
number_twice(void *arg)
{
    struct store *d = world_open(NULL);
    char *data = malloc(LARGE), command[1200];
    struct entry entry;

    (void)arg;
    world_fill(data, LARGE, 8);
    CHECK(world_put(d, "large", data, LARGE, &entry) == ERR_OK);
    store_close(&d);
    snprintf(command, sizeof command,
             "cp '%s/native/body-%06u.tar' '%s/cached/' && "
             "dd if=/dev/zero of='%s/cached/body-%06u.tar' bs=4096 count=1 conv=notrunc "
             "status=none",
             world_path, entry.place.segment, world_path, world_path,
             entry.place.segment);
    REQUIRE(system(command) == 0); /* its first record says what it is */
    d = world_open(NULL);
    CHECK(world_get(d, "large", data, LARGE, 0, LARGE) == ERR_OK);
    store_close(&d);
    free(data);
}

static void
test_a_number_that_two_segments_have(void)
{
    world_run(number_twice, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_bits_of_a_small_object);
    RUN(test_random_bits_of_a_large_object);
    RUN(test_swapped_bytes);
    RUN(test_damage_in_the_middle_of_the_log);
    RUN(test_damage_in_the_middle_of_several_logs);
    RUN(test_superblock_has_a_twin);
    RUN(test_a_removed_disk_is_refused);
    RUN(test_headers_of_segments);
    RUN(test_a_number_that_two_segments_have);
    return check_done();
}
