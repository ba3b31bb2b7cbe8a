/* The disk fails under the index: the process lives, the other index too, and what comes back is an error, never a
 * wrong entry. And kill -9 in the middle of commits: what was checkpoint is there. */
#include <signal.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "rt/fiber.h"
#include "scratch.h"
#include "store/core/core.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/index/index_internal.h"
#include "store/index/list.h"
#include "store/index/memtable.h"
#include "store/index/run.h"
#include "store/scrub/scrub.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/store_health.h"

#define ROWS 20000u

static struct rt_dir *dir;

static struct span
key_of(uint32_t n, char out[32])
{
    return (struct span){out, (size_t)snprintf(out, 32, "key/%08x", n * 2654435761u)};
}

static struct index *
open_index(const char *folder, enum index_state *state,
           struct index_checkpoint *checkpoint)
{
    struct index_options o = {.disk_id = "disk", .map_bytes = MIB(256)};
    struct errbuf eb = {0};
    struct index *x = NULL;
    char path[128];

    snprintf(path, sizeof path, "%s/%s", scratch_path, folder);
    if (rt_dir_open(scratch_path, &dir, &eb) != ERR_OK)
        abort();
    if (folder[0] != '\0') {
        struct rt_dir *sub;

        (void)!rt_dir_make(dir, folder, 0700, &eb);
        if (rt_dir_open_at(dir, folder, &sub, &eb) != ERR_OK)
            abort();
        rt_dir_close(&dir);
        dir = sub;
    }
    o.dir = dir;
    if (index_open(&o, &x, state, checkpoint, &eb) != ERR_OK)
        fprintf(stderr, "%s\n", eb.text);
    return x;
}

static enum err
put_entries(struct index *x, uint64_t version, uint32_t entries, struct errbuf *eb)
{
    struct index_checkpoint checkpoint = {.log[0].batch = version};
    struct run *r = run_new();
    struct memtable *t = memtable_new();
    struct frozen_runs b;
    enum err rc;

    for (uint32_t n = 0; n < entries; n++) {
        char key[32];
        struct entry entry = {.version = {1, version}, .size = n};

        run_object(r, 1, key_of(n, key), &entry);
    }
    memtable_push(t, &r);
    if (!memtable_freeze(t, &b))
        abort();
    rc = index_apply(x, &b, &checkpoint, eb);
    memtable_thaw(t, &b);
    memtable_free(&t);
    return rc;
}

static enum err
get_entry(struct index *x, uint32_t n, struct entry *entry)
{
    struct memtable *t = memtable_new();
    struct errbuf eb = {0};
    char key[32];
    enum err rc = find_object(t, x, 1, key_of(n, key), false, entry, &eb);

    CHECK(rc == ERR_OK || eb.text[0] != '\0' || rc == ERR_NOT_FOUND);
    memtable_free(&t);
    return rc;
}

static void
cut_file(const char *folder, off_t size)
{
    char path[160];

    snprintf(path, sizeof path, "%s/%s/index/data.mdb", scratch_path, folder);
    CHECK(truncate(path, size) == 0);
}

static void
truncated_under_a_reader(void *arg)
{
    off_t size = *(off_t *)arg;
    enum index_state state;
    struct index_checkpoint checkpoint;
    struct index *bad = open_index("bad", &state, &checkpoint);
    struct rt_dir *bad_dir = dir;
    struct index *good = open_index("good", &state, &checkpoint);
    struct rt_dir *good_dir = dir;
    struct errbuf eb = {0};
    unsigned failed = 0;

    REQUIRE(bad != NULL && good != NULL);
    CHECK(put_entries(bad, 1, ROWS, &eb) == ERR_OK);
    CHECK(put_entries(good, 1, ROWS, &eb) == ERR_OK);
    cut_file("bad", size);
    for (uint32_t n = 0; n < ROWS; n++) {
        struct entry entry;
        enum err rc = get_entry(bad, n, &entry);

        CHECK(rc == ERR_OK || rc == ERR_IO || rc == ERR_CORRUPT);
        CHECK(rc != ERR_OK || entry.size == n);
        failed += rc != ERR_OK;
        CHECK(get_entry(good, n, &entry) == ERR_OK && entry.size == n);
    }
    CHECK(failed > 0);
    CHECK(index_is_bad(bad) && !index_is_bad(good));
    CHECK(put_entries(bad, 2, 10, &eb) == ERR_IO);
    CHECK(put_entries(good, 2, 10, &eb) == ERR_OK);
    index_close(&bad);
    bad = open_index("bad", &state, &checkpoint);
    REQUIRE(bad != NULL);
    CHECK(state == INDEX_EMPTY || state == INDEX_BAD);
    CHECK_U64(checkpoint.log[0].batch, 0);
    CHECK(put_entries(bad, 3, 10, &eb) == ERR_OK);
    index_close(&bad);
    index_close(&good);
    rt_dir_close(&bad_dir);
    rt_dir_close(&good_dir);
    rt_dir_close(&dir);
}

static void
test_truncated_under_a_reader(void)
{
    static off_t sizes[] = {0, 4096, 8192, 300000};

    for (unsigned i = 0; i < ARRAY_LEN(sizes); i++)
        scratch_run(1, truncated_under_a_reader, &sizes[i]);
}

/* The fault comes in the middle of a write transaction, which is left as it is. */
static void
truncated_under_a_writer(void *arg)
{
    enum index_state state;
    struct index_checkpoint checkpoint;
    struct index *x = open_index("", &state, &checkpoint);
    struct errbuf eb = {0};
    struct entry entry;

    (void)arg;
    CHECK(put_entries(x, 1, ROWS, &eb) == ERR_OK);
    cut_file(".", 4096 * 4);
    CHECK(put_entries(x, 2, ROWS, &eb) == ERR_IO);
    CHECK_SAYS(eb.text, "index: commit");
    CHECK(get_entry(x, 1, &entry) == ERR_IO);
    CHECK(put_entries(x, 3, 1, &eb) == ERR_IO);
    index_close(&x);
    rt_dir_close(&dir);
    x = open_index("", &state, &checkpoint);
    REQUIRE(x != NULL);
    CHECK(state == INDEX_EMPTY); /* thrown away when it was closed */
    CHECK(put_entries(x, 4, ROWS, &eb) == ERR_OK);
    CHECK(get_entry(x, 1, &entry) == ERR_OK && entry.version.counter == 4);
    index_close(&x);
    rt_dir_close(&dir);
}

static void
test_truncated_under_a_writer(void)
{
    scratch_run(1, truncated_under_a_writer, NULL);
}

/* An index of 2,000 entries, closed; its file, to be damaged. */
static void
fill_then_open(FILE **out)
{
    enum index_state state;
    struct index_checkpoint checkpoint;
    struct index *x = open_index("", &state, &checkpoint);
    struct errbuf eb = {0};
    char path[160];

    CHECK(put_entries(x, 1, 2000, &eb) == ERR_OK);
    index_close(&x);
    rt_dir_close(&dir);
    snprintf(path, sizeof path, "%s/index/data.mdb", scratch_path);
    *out = fopen(path, "r+");
}

/* Bits of data.mdb flipped between two runs: an entry is right, missing or refused, never another one. (Missing is what
 * LMDB makes of a damaged page; the log would have told.) */
static void
flipped_bits(void *arg)
{
    enum index_state state;
    struct index_checkpoint checkpoint;
    struct index *x;
    unsigned refused = 0;
    FILE *f = NULL;
    long size;

    (void)arg;
    fill_then_open(&f);
    REQUIRE(f != NULL && fseek(f, 0, SEEK_END) == 0);
    size = ftell(f);
    for (unsigned i = 0; i < 400;
         i++) { /* in the entries: page heads and tails of LMDB are left alone here */
        long at = 4096 * (long)(2 + scratch_random() % (uint64_t)(size / 4096 - 2)) +
                  3000 + (long)(scratch_random() % 900);
        int byte;

        (void)fseek(f, at, SEEK_SET);
        byte = fgetc(f);
        (void)fseek(f, at, SEEK_SET);
        (void)fputc(byte ^ (1 << scratch_random() % 8), f);
    }
    (void)fclose(f);
    x = open_index("", &state, &checkpoint);
    REQUIRE(x != NULL);
    for (uint32_t n = 0; state == INDEX_GOOD && n < 2000; n++) {
        struct entry entry;
        enum err rc = get_entry(x, n, &entry);

        CHECK(rc == ERR_OK || rc == ERR_CORRUPT || rc == ERR_NOT_FOUND || rc == ERR_IO);
        CHECK(rc != ERR_OK || (entry.size == n && entry.version.counter == 1));
        refused += rc == ERR_CORRUPT || rc == ERR_IO;
    }
    CHECK(state != INDEX_GOOD || (refused > 0 && index_is_bad(x)));
    index_close(&x);
    rt_dir_close(&dir);
}

static uint16_t
le16(const unsigned char *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

/* Every node of a leaf is said to have duplicates, of which the table has none: LMDB takes a NULL for where they are. */
static unsigned
lead_astray(unsigned char page[4096])
{
    enum {
        FLAGS_AT = 10,
        LOWER_AT = 12,
        PLACES_AT = 16,
        LEAF = 0x02,
        NODE_FLAGS = 4,
        DUPLICATES = 0x04
    };
    unsigned lower = le16(page + LOWER_AT), count = 0;

    if (le16(page + FLAGS_AT) != LEAF || lower > 4096)
        return 0;
    for (unsigned i = PLACES_AT; i + 2 <= lower; i += 2) {
        unsigned at = le16(page + i) + NODE_FLAGS;

        if (at >= 4096 || page[at] != 0)
            continue;
        page[at] = DUPLICATES;
        count++;
    }
    return count;
}

static void
damaged_nodes(void *arg)
{
    enum index_state state;
    struct index_checkpoint checkpoint;
    struct index *x;
    unsigned char page[4096];
    unsigned damaged = 0, refused = 0;
    FILE *f = NULL;

    (void)arg;
    fill_then_open(&f);
    REQUIRE(f != NULL);
    for (long at = 2 * 4096;
         fseek(f, at, SEEK_SET) == 0 && fread(page, 1, 4096, f) == 4096; at += 4096) {
        damaged += lead_astray(page);
        REQUIRE(fseek(f, at, SEEK_SET) == 0 && fwrite(page, 1, 4096, f) == 4096);
    }
    (void)fclose(f);
    CHECK(damaged >= 2000);
    x = open_index("", &state, &checkpoint);
    REQUIRE(x != NULL);
    for (uint32_t n = 0; state == INDEX_GOOD && n < 2000; n++) {
        struct entry entry;

        refused += get_entry(x, n, &entry) == ERR_IO;
    }
    CHECK(state != INDEX_GOOD || (refused == 2000 && index_is_bad(x)));
    index_close(&x);
    rt_dir_close(&dir);
}

static void
test_damage_that_leads_lmdb_astray(void)
{
    scratch_run(1, damaged_nodes, NULL);
}

static void
test_flipped_bits(void)
{
    scratch_run(1, flipped_bits, NULL);
}

/* ---- kill -9 ---- */

static void
write_for_ever(void *arg)
{
    int told = *(int *)arg;
    enum index_state state;
    struct index_checkpoint checkpoint;
    struct index *x = open_index("", &state, &checkpoint);
    struct errbuf eb = {0};

    for (uint64_t version = checkpoint.log[0].batch + 1;; version++) {
        if (x == NULL || put_entries(x, version, 500, &eb) != ERR_OK)
            _exit(2);
        if (write(told, &version, sizeof version) != sizeof version)
            _exit(3);
    }
}

static void
read_back(void *arg)
{
    uint64_t acknowledged = *(uint64_t *)arg;
    enum index_state state;
    struct index_checkpoint checkpoint;
    struct index *x = open_index("", &state, &checkpoint);
    struct entry entry;

    REQUIRE(x != NULL);
    CHECK(state == INDEX_GOOD || acknowledged == 0);
    CHECK(checkpoint.log[0].batch >= acknowledged);
    for (uint32_t n = 0; checkpoint.log[0].batch > 0 && n < 500; n++) {
        CHECK(get_entry(x, n, &entry) == ERR_OK);
        CHECK_U64(entry.version.counter, checkpoint.log[0].batch);
    }
    index_close(&x);
    rt_dir_close(&dir);
}

static void
test_killed_in_the_middle(void)
{
    char kept[sizeof scratch_path];
    uint64_t acknowledged = 0, version;

    snprintf(scratch_path, sizeof scratch_path, "/tmp/forebay-test-XXXXXX");
    REQUIRE(mkdtemp(scratch_path) != NULL);
    memcpy(kept, scratch_path, sizeof kept);
    for (unsigned round = 0; round < 15; round++) {
        struct rt_options o = {.engine = RT_EPOLL, .loops = 1, .workers = 2};
        struct errbuf eb = {0};
        int pipe_fds[2], status;
        pid_t child;

        REQUIRE(pipe(pipe_fds) == 0);
        child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            (void)!rt_run(&o, write_for_ever, &pipe_fds[1], &eb);
            _exit(1);
        }
        close(pipe_fds[1]);
        for (unsigned n = 0; n < round % 5 + 1;
             n++) /* dies after some commit, within the next */
            if (read(pipe_fds[0], &version, sizeof version) == sizeof version)
                acknowledged = version;
        usleep((useconds_t)(scratch_random() % 3000));
        kill(child, SIGKILL);
        while (read(pipe_fds[0], &version, sizeof version) == sizeof version)
            acknowledged = version;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status));
        close(pipe_fds[0]);
        CHECK(rt_run(&o, read_back, &acknowledged, &eb) == ERR_OK);
    }
    CHECK(acknowledged > 15);
    folder_remove(kept);
}

/* ---- what is no damage ---- */

static MDB_txn *held[1024];
static unsigned held_count;

static int
hold_all_readers(struct index *x)
{
    int rc = 0;

    while (rc == 0 && held_count < ARRAY_LEN(held)) {
        rc = mdb_txn_begin(x->env, NULL, MDB_RDONLY, &held[held_count]);
        held_count += rc == 0;
    }
    return rc;
}

static void
let_readers_go(void *arg)
{
    (void)arg;
    CHECK(rt_sleep_ms(100) == ERR_OK);
    while (held_count > 0)
        mdb_txn_abort(held[--held_count]);
}

static struct index *proved;
static unsigned pieces;
static uint64_t proved_bytes;

/* From the fifth piece on no reader has a place. */
static enum err
on_piece(void *arg, uint64_t bytes)
{
    (void)arg;
    proved_bytes += bytes;
    if (++pieces == 5)
        CHECK(hold_all_readers(proved) == MDB_READERS_FULL);
    return ERR_OK;
}

/* As many read at once as the pool may have threads (option `workers`); one more gets ERR_BUSY, verifying needs no place, and the index
 * is not damaged by it. */
static void
all_readers_taken(void *arg)
{
    enum index_state state;
    struct index_checkpoint checkpoint;
    struct index *x = open_index("", &state, &checkpoint);
    _Atomic bool stop = false;
    struct index_stat st;
    struct errbuf eb = {0};
    struct store d = {.index = x};
    struct entry entry;
    char key[32];

    (void)arg;
    REQUIRE(x != NULL);
    CHECK(put_entries(x, 1, 2000, &eb) == ERR_OK);
    atomic_store(&x->resident, false); /* the pool reads */
    CHECK(hold_all_readers(x) == MDB_READERS_FULL);
    CHECK(held_count >= 256);
    CHECK(get_entry(x, 7, &entry) == ERR_OK); /* by this loop, whose place is its own */
    CHECK(index_near(x, 1, key_of(5000, key), &eb) == ERR_BUSY);
    CHECK(!index_is_bad(x) && !index_is_hiding(x));
    let_readers_go(NULL);
    CHECK(index_near(x, 1, key_of(5000, key), &eb) == ERR_OK);
    proved = x;
    index_prove_piece = 1;
    index_set_proven(x, false);
    CHECK(scrub_read_index(&d, &stop, on_piece, NULL, &eb) == ERR_OK);
    index_prove_piece = 256;
    CHECK(index_trust(x) == STORE_INDEX_PROVEN);
    CHECK(pieces > 5 && held_count > 0);
    let_readers_go(NULL);
    index_stat(x, &st);
    CHECK_U64(st.pages_proven, st.pages_to_prove);
    CHECK(proved_bytes / 4096 <= st.pages_to_prove); /* no page twice */
    index_close(&x);
    rt_dir_close(&dir);
}

static void
test_all_readers_taken(void)
{
    scratch_run(1, all_readers_taken, NULL);
}

/* The word for the next start finds no place: it is tried again. */
static void
marked_in_the_end(void *arg)
{
    enum index_state state;
    struct index_checkpoint checkpoint;
    struct index *x = open_index("", &state, &checkpoint);
    char path[128];
    struct stat st;

    (void)arg;
    REQUIRE(x != NULL);
    snprintf(path, sizeof path, "%s/index/damaged", scratch_path);
    index_mark_bad(x);
    CHECK(access(path, F_OK) != 0);
    index_set_bad(x);
    CHECK(mkdir(path, 0700) == 0); /* in its way */
    index_mark_bad(x);
    index_mark_bad(x);
    CHECK(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
    CHECK(rmdir(path) == 0);
    index_mark_bad(x);
    CHECK(stat(path, &st) == 0 && S_ISREG(st.st_mode));
    index_close(&x);
    rt_dir_close(&dir);
}

static void
test_marked_in_the_end(void)
{
    scratch_run(1, marked_in_the_end, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_truncated_under_a_reader);
    RUN(test_truncated_under_a_writer);
    RUN(test_flipped_bits);
    RUN(test_damage_that_leads_lmdb_astray);
    RUN(test_all_readers_taken);
    RUN(test_marked_in_the_end);
    RUN(test_killed_in_the_middle);
    return check_done();
}
