/* reclaim: what deleting gives back, and what that costs those who work meanwhile.
 *
 *     reclaim [OBJECTS (1000000)] [FOLDER (/tmp)] [BYTES (4096)] [SECONDS (8)]
 *
 * Writes that many objects of that size to a fresh disk, measures readers and writers for SECONDS, deletes half of the objects at
 * random, measures again while compaction runs beside them, waits until it is done, and says how much the segments take, beside
 * what lives in them with its headers. What is allocated ahead for the bodies and groups that come next, a segment of each at
 * most, is reported apart: it is no cost of live data. Wanted: at most 1.15; p99 of the writers at most twice what it was.
 *
 * SECONDS 0: no writers, and the count is the same each time. The last line is JSON. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "rt/loop.h"
#include "rt/sync.h"
#include "rt/time.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_options.h"
#include "store/store_read.h"
#include "store/store_space.h"
#include "store/store_write.h"

#define WRITERS 64u
#define WORKERS 16u
#define SAMPLES 400000u

static uint64_t objects = 1000000;
static const char *folder = "/tmp";
static uint32_t bytes = 4096;
static unsigned measure_s = 8;
static char path[300];
static struct store *d;

struct job {
    struct rt_group group;
    uint64_t next; /* object */
    bool deletes;
};
struct sample {
    uint32_t *us;
    uint32_t count;
};
struct load {
    struct rt_group group;
    struct deadline until;
    bool stop;
    uint64_t begun;
    struct sample gets, puts;
};

static bool
lives(uint64_t n)
{
    return hash_xxh3(&n, sizeof n, 99) % 2 == 0;
}

static struct store_key
key_of(uint64_t n, char out[64])
{
    int len = snprintf(out, 64, "train/%016" PRIx64 "/image-%08" PRIu64 ".jpg",
                       n * 0x9e3779b97f4a7c15u, n);

    return (struct store_key){
        .bucket = 1, .immutable_name = SPAN("train"), .key = {out, (size_t)len}};
}

static void
must(enum err rc, const struct errbuf *eb, const char *what)
{
    if (rc == ERR_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, err_name(rc), eb->text);
    exit(1);
}

static void
put(uint64_t n)
{
    static char body[1u << 20];
    struct object_meta meta = {.mtime_ms = 1};
    struct store_writer *w;
    struct errbuf eb = {0};
    char name[64];
    struct store_key k = key_of(n, name);
    struct entry entry;

    memset(meta.md5, (int)(n % 251) + 1, sizeof meta.md5);
    must(store_write_begin(d, &k, STORE_NATIVE, bytes, &w, &eb), &eb, "put");
    must(store_write(w, body, bytes, &eb), &eb, "put");
    must(store_commit(&w, &meta, NULL, &entry, &eb), &eb, "put");
}

static void
get(uint64_t n)
{
    struct store_reader *r;
    struct errbuf eb = {0};
    struct span piece = {"", 1};
    char name[64];
    struct store_key k = key_of(n, name);
    struct entry entry;

    must(store_lookup(d, &k, &entry, &eb), &eb, "lookup");
    must(store_read_begin(d, &k, &entry, 0, entry.size, &r, &eb), &eb, "get");
    while (piece.len > 0)
        must(store_read_next(r, DEADLINE_NEVER, &piece, &eb), &eb, "get");
    store_read_end(&r);
}

static void
job_work(void *arg)
{
    struct job *j = arg;

    while (j->next < objects) {
        uint64_t n = j->next++;
        struct errbuf eb = {0};
        char name[64];
        struct store_key k = key_of(n, name);
        bool existed;

        if (!j->deletes)
            put(n);
        else if (!lives(n))
            must(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb), &eb, "delete");
    }
}

static void
all(const char *what, bool deletes)
{
    struct job j = {.deletes = deletes};
    uint64_t begun = rt_now_ns();

    rt_group_begin(&j.group);
    for (unsigned i = 0; i < WRITERS; i++)
        if (rt_group_start(&j.group, job_work, &j) != ERR_OK)
            exit(1);
    rt_group_join(&j.group);
    printf("%-28s %10.0f/s\n", what,
           (double)(deletes ? objects / 2 : objects) * 1e9 /
               (double)(rt_now_ns() - begun));
}

/* ---- those who work meanwhile: of four requests one is a PUT ---- */

static void
take_sample(struct sample *s, uint64_t begun)
{
    if (s->count < SAMPLES)
        s->us[s->count++] = (uint32_t)((rt_now_ns() - begun) / 1000);
}

static void
load_work(void *arg)
{
    struct load *l = arg;
    uint64_t state = ++l->begun * 7919;

    while (!l->stop && !deadline_passed(l->until)) {
        uint64_t n, begun = rt_now_ns();

        state = state * 6364136223846793005u + 1442695040888963407u;
        n = (state >> 20) % objects;
        if ((state >> 8) % 4 == 0) {
            put(objects + (state >> 20) % 1000000000);
            take_sample(&l->puts, begun);
            continue;
        }
        while (!lives(n))
            n = (n + 1) % objects;
        get(n);
        take_sample(&l->gets, begun);
    }
}

static int
compare(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static uint32_t
percentile(struct sample *s, double p)
{
    if (s->count == 0)
        return 0;
    qsort(s->us, s->count, sizeof s->us[0], compare);
    return s->us[(uint32_t)((double)(s->count - 1) * p)];
}

/* p99 of GET and PUT over some seconds. */
static void
measure(const char *what, unsigned seconds, uint32_t p99[2])
{
    struct load l = {.until = deadline_in_ms(seconds * 1000)};
    struct store_space before, after;

    if (seconds == 0)
        return;
    l.gets.us = xmalloc(SAMPLES * sizeof *l.gets.us);
    l.puts.us = xmalloc(SAMPLES * sizeof *l.puts.us);
    store_space(d, &before);
    rt_group_begin(&l.group);
    for (unsigned i = 0; i < WORKERS; i++)
        if (rt_group_start(&l.group, load_work, &l) != ERR_OK)
            exit(1);
    rt_group_join(&l.group);
    store_space(d, &after);
    p99[0] = percentile(&l.gets, 0.99);
    p99[1] = percentile(&l.puts, 0.99);
    printf("%-28s %10.0f/s  GET p50 %u us p99 %u us  PUT p50 %u us p99 %u us  "
           "compaction moved %" PRIu64 " MiB\n",
           what, (double)(l.gets.count + l.puts.count) / seconds,
           percentile(&l.gets, 0.5), p99[0], percentile(&l.puts, 0.5), p99[1],
           (after.moved_bytes - before.moved_bytes) >> 20);
    free(l.gets.us);
    free(l.puts.us);
}

/* ---- what is on the file system ---- */

static uint64_t
allocated(void)
{
    char name[700];
    uint64_t sum = 0;
    struct dirent *e;
    struct stat st;
    DIR *dir;

    snprintf(name, sizeof name, "%s/native", path);
    dir = opendir(name);
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        snprintf(name, sizeof name, "%s/native/%s", path, e->d_name);
        if (e->d_name[0] != '.' && stat(name, &st) == 0)
            sum += (uint64_t)st.st_blocks * 512;
    }
    closedir(dir);
    return sum;
}

struct space_told {
    double taken, with_ahead; /* beside what lives */
    double amplification;
};

static struct space_told
say_space(const char *what)
{
    struct store_space now;
    struct store_stat stat;
    struct space_told told;
    /* x header, one block of records, ustar header: what a member of this bench has. */
    uint64_t member = 1536 + align_up(bytes, 512), living, on_disk;

    /* What is allocated ahead is counted once a second. */
    if (rt_sleep_ms(2500) != ERR_OK)
        exit(1);
    on_disk = allocated();
    store_space(d, &now);
    store_stat(d, &stat);
    living = stat.objects * member;
    told = (struct space_told){
        .taken = (double)(on_disk - MIN(on_disk, now.prealloc_bytes)) / (double)living,
        .with_ahead = (double)on_disk / (double)living,
        .amplification =
            (double)(now.user_bytes + now.moved_bytes) / (double)now.user_bytes};
    printf("%-28s %10" PRIu64 " MiB allocated, %" PRIu64 " of them ahead; %" PRIu64
           " objects of %" PRIu64
           " bytes with headers: %.3f, %.3f with what is ahead; write amplification "
           "%.2f\n",
           what, on_disk >> 20, now.prealloc_bytes >> 20, stat.objects, member,
           told.taken, told.with_ahead, told.amplification);
    return told;
}

static void
bench(void *arg)
{
    struct store_options o = {.node = 1, .epoch = 1};
    struct errbuf eb = {0};
    uint32_t quiet[2] = {0}, busy[2] = {0};
    struct space_told full, left;
    uint64_t begun;

    (void)arg;
    memset(o.cluster_id, 1, sizeof o.cluster_id);
    must(store_open(path, &o, &d, &eb), &eb, "open");
    all("write", false);
    must(store_flush(d, &eb), &eb, "flush");
    full = say_space("written");
    measure("work", measure_s, quiet);
    all("delete half", true);
    measure("work while it compacts", 3 * measure_s, busy);
    begun = rt_now_ns();
    must(store_compact(d, &eb), &eb, "compact");
    printf("%-28s %10.1f s\n", "the rest, at full speed",
           (double)(rt_now_ns() - begun) / 1e9);
    must(store_flush(d, &eb), &eb, "flush");
    left = say_space("compacted");
    printf("{\"written\":%.4f,\"compacted\":%.4f,\"with_ahead\":%.4f,\"amplification\":"
           "%.3f,\"get_p99\":%.2f,\"put_p99\":%.2f}\n",
           full.taken, left.taken, left.with_ahead, left.amplification,
           (double)busy[0] / MAX(quiet[0], 1u), (double)busy[1] / MAX(quiet[1], 1u));
    store_close(&d);
}

int
main(int argc, char **argv)
{
    struct rt_options o = {.loops = 1};
    struct errbuf eb = {0};
    char command[400];

    if (argc > 1)
        objects = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        folder = argv[2];
    if (argc > 3)
        bytes = (uint32_t)strtoul(argv[3], NULL, 10);
    if (argc > 4)
        measure_s = (unsigned)strtoul(argv[4], NULL, 10);
    if (objects == 0 || bytes > 1u << 20)
        return 2;
    log_set_level(getenv("V") != NULL ? LOG_DEBUG : LOG_WARN);
    snprintf(path, sizeof path, "%s/forebay-reclaim-XXXXXX", folder);
    if (mkdtemp(path) == NULL)
        return 1;
    must(rt_run(&o, bench, NULL, &eb), &eb, "run");
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    return system(command) == 0 ? 0 : 1;
}
