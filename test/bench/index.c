/* index: how fast memtable and index are, and how large: N keys of 43 bytes in random order.
 *
 *     index [KEYS (1000000)] [FOLDER (/tmp)]
 *
 * Prints one line a measure. Beside performance.md 2.4 and 4: lookups 1.2-1.7 us in a bare LMDB, 190-230 bytes an
 * object, lists 1 M keys/s. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rt/loop.h"
#include "rt/time.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/index/list.h"
#include "store/index/memtable.h"
#include "store/index/run.h"
#include "store/record/keys.h"
#include "store/store_entry.h"

#define BATCH 20000u

static uint64_t keys = 1000000;
static const char *folder = "/tmp";

static struct span
key_of(uint64_t n, char out[64])
{
    return (struct span){
        out, (size_t)snprintf(out, 64, "train/%016" PRIx64 "/image-%08" PRIu64 ".jpg",
                              n * 0x9e3779b97f4a7c15u, n)};
}

static void
say(const char *what, uint64_t count, uint64_t ns)
{
    printf("%-34s %10.0f/s  %8.2f us\n", what, (double)count * 1e9 / (double)ns,
           (double)ns / 1e3 / (double)count);
}

static int
compare(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void
lookups(struct memtable *t, struct index *x, const char *what)
{
    static uint32_t took[200000];
    uint64_t begun = rt_now_ns(), state = 7;

    for (uint32_t i = 0; i < ARRAY_LEN(took); i++) {
        uint64_t before = rt_now_ns();
        struct entry entry;
        char key[64];

        state = state * 6364136223846793005u + 1442695040888963407u;
        if (find_object(t, x, 1, key_of((state >> 20) % keys, key), false, &entry,
                        NULL) != ERR_OK)
            abort();
        took[i] = (uint32_t)(rt_now_ns() - before);
    }
    say(what, ARRAY_LEN(took), rt_now_ns() - begun);
    qsort(took, ARRAY_LEN(took), sizeof took[0], compare);
    printf("    p50 %.2f us, p99 %.2f, p99.9 %.2f\n", took[ARRAY_LEN(took) / 2] / 1e3,
           took[ARRAY_LEN(took) * 99 / 100] / 1e3,
           took[ARRAY_LEN(took) / 1000 * 999] / 1e3);
}

static void
push(struct memtable *t, uint64_t from, uint64_t count)
{
    for (uint64_t n = from; n < from + count;
         n += 64) { /* groups of 64, as a committer makes them */
        struct run *r = run_new();

        for (uint64_t k = n; k < n + 64 && k < from + count; k++) {
            struct entry entry = {.version = {1, k},
                                  .content = content_id_of(1, 1, k),
                                  .size = 100000,
                                  .mtime_ms = 1763739000000,
                                  .place.segment = (uint32_t)(k / 10000),
                                  .place.offset = k % 10000 * 102400};
            char key[64];

            run_object(r, 1, key_of(k, key), &entry);
        }
        memtable_push(t, &r);
    }
}

static void
fill(struct memtable *t, struct index *x)
{
    uint64_t pushing = 0, applying = 0;

    for (uint64_t n = 0; n < keys; n += BATCH) {
        struct index_checkpoint checkpoint = {0};
        struct errbuf eb = {0};
        struct frozen_runs b;
        uint64_t at = rt_now_ns();

        push(t, n, MIN(BATCH, keys - n));
        pushing += rt_now_ns() - at;
        at = rt_now_ns();
        if (!memtable_freeze(t, &b) || index_apply(x, &b, &checkpoint, &eb) != ERR_OK) {
            fprintf(stderr, "%s\n", eb.text);
            abort();
        }
        memtable_drop(t, &b);
        applying += rt_now_ns() - at;
    }
    say("tail: push", keys, pushing);
    say("index: apply, durable, 20,000 each", keys, applying);
}

static void
list_all(struct memtable *t, struct index *x)
{
    struct arena *a = arena_new(KIB(256), MIB(4));
    uint64_t begun = rt_now_ns(), seen = 0;
    char last[STORE_KEY_MAX];
    struct span after = {last, 0};
    bool more = true;

    while (more) {
        struct store_entry *e;
        uint32_t count;

        arena_reset(a);
        if (list_objects(t, x, 1, after, false, 1000, a, &e, &count, &more, NULL) !=
            ERR_OK)
            abort();
        seen += count;
        if (count > 0) {
            memcpy(last, e[count - 1].key.at, e[count - 1].key.len);
            after.len = e[count - 1].key.len;
        }
    }
    say("list, pages of 1,000", seen, rt_now_ns() - begun);
    arena_free(&a);
}

static void
run(void *arg)
{
    struct index_options o = {.disk_id = "bench"};
    struct index_checkpoint checkpoint;
    struct index_stat stat;
    struct rt_dir *dir;
    struct memtable *t = memtable_new();
    struct index *x = NULL;
    enum index_state state;
    struct errbuf eb = {0};

    (void)arg;
    if (rt_dir_open(folder, &dir, &eb) == ERR_OK) {
        o.dir = dir;
        if (index_open(&o, &x, &state, &checkpoint, &eb) == ERR_OK && state != INDEX_GOOD)
            fill(t, x);
    }
    if (x == NULL) {
        fprintf(stderr, "%s\n", eb.text);
        exit(1);
    }
    index_stat(x, &stat);
    printf("%" PRIu64 " objects, %.1f bytes each in the index\n", stat.objects,
           (double)stat.used_bytes / (double)stat.objects);
    lookups(t, x, "lookup, tail empty");
    push(t, 0, MIN(20000, keys));
    lookups(t, x, "lookup, 20,000 rows in the tail");
    list_all(t, x);
    index_close(&x);
    memtable_free(&t);
    rt_dir_close(&dir);
}

int
main(int argc, char **argv)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1, .workers = 2};
    struct errbuf eb = {0};

    if (argc > 1)
        keys = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        folder = argv[2];
    return rt_run(&o, run, NULL, &eb) == ERR_OK ? 0 : 1;
}
