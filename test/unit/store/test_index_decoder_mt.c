/* Two threads at one batch: one takes its entries apart, the other hands them to the index. A batch must be large before
 * anybody helps, so these are: as they are when an index is rebuilt. Whichever thread comes first, is slow, or ends early,
 * each key comes once, in order, with its newest entry, and none waits for ever. Runs under TSan. */
#include "scratch.h"

#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/index/index_decoder.h"
#include "store/index/memtable.h"
#include "store/index/run.h"
#include "store/record/keys.h"
#include "store/store_entry.h"
#include <pthread.h>

#define RUNS 3u
#define IN_RUN                                                                           \
    12000u /* each run begins half of that behind the one before: half of its keys are there already */
#define STEP    (IN_RUN / 2)
#define KEYS    (IN_RUN + (RUNS - 1) * STEP)
#define BUCKET  7u
#define BATCHES 3u

struct frozen_runses {
    struct run *run[RUNS];
    struct frozen_runs b;
};

static struct span
key_of(unsigned i, char text[16])
{
    return (struct span){text, (size_t)snprintf(text, 16, "key-%06u", i)};
}

/* The newest change of a key is that of the last run that has it. */
static uint64_t
newest(unsigned key)
{
    unsigned run = key / STEP < RUNS ? key / STEP : RUNS - 1;

    return run * IN_RUN + (key - run * STEP) + 1;
}

static struct entry
entry_of(uint64_t base, uint64_t counter)
{
    return (struct entry){.flags = ENTRY_PLAIN,
                          .version = {1, base + counter},
                          .content = content_id_of(1, 1, base + counter),
                          .size = counter,
                          .mtime_ms = 1700000000000,
                          .place.segment = 1 + (uint32_t)(counter / 1000),
                          .place.offset = counter * 512};
}

static void
batch_make(struct frozen_runses *out, uint64_t base)
{
    char text[16];

    for (unsigned r = 0; r < RUNS; r++) {
        out->run[r] = run_new();
        for (unsigned i = 0; i < IN_RUN; i++) {
            struct entry entry = entry_of(base, r * IN_RUN + i + 1);

            run_object(out->run[r], BUCKET, key_of(r * STEP + i, text), &entry);
        }
        run_finish(out->run[r]);
    }
    out->b = (struct frozen_runs){.runs = (const struct run **)out->run, .count = RUNS};
    CHECK(index_decoder_is_worth_help(&out->b));
}

static void
batch_end(struct frozen_runses *b)
{
    for (unsigned r = 0; r < RUNS; r++)
        run_drop(b->run[r]);
}

/* ---- the two of them, without an index ---- */

enum order { HELPER_FIRST, TOGETHER, HELPER_LATE, ALONE, ORDERS_ };

struct helper {
    pthread_t thread;
    bool runs;
};

static void *
help(void *arg)
{
    index_decoder_help(arg);
    return NULL;
}

static void
helper_start(struct helper *h, struct index_decoder *a)
{
    CHECK(pthread_create(&h->thread, NULL, help, a) == 0);
    h->runs = true;
}

static void
helper_join(struct helper *h)
{
    if (h->runs)
        CHECK(pthread_join(h->thread, NULL) == 0);
    h->runs = false;
}

/* Takes `most` of them and goes. What came is right; returns how many. */
static unsigned
ask(struct index_decoder *a, enum order order, unsigned most, struct helper *h)
{
    const struct decoded_entry *ae;
    unsigned count = 0, wrong = 0;
    char text[16];

    while (count < most && (ae = index_decoder_next(a)) != NULL) {
        struct span want = key_of(count, text);

        wrong += ae->bad || ae->e.bucket != BUCKET || span_cmp(ae->e.key, want) != 0 ||
                 ae->entry.version.counter != newest(count) ||
                 ae->entry.size != newest(count);
        count++;
        if (order == HELPER_LATE && count == 1000)
            helper_start(h, a);
    }
    CHECK_U64(wrong, 0);
    return count;
}

static void
one_walk(const struct frozen_runs *b, enum order order, unsigned most)
{
    struct index_decoder *a = index_decoder_new(b);
    struct helper h = {.runs = false};

    if (order == HELPER_FIRST || order == TOGETHER)
        helper_start(&h, a);
    if (order == HELPER_FIRST)
        helper_join(
            &h); /* no request yet: it does what it can, and never waits for that */
    index_decoder_begin(a);
    CHECK_U64(ask(a, order, most, &h), most < KEYS ? most : KEYS);
    index_decoder_end(a);
    helper_join(&h);
    index_decoder_free(&a);
}

static void
test_two_walk_over_a_batch(void)
{
    static const unsigned most[] = {0, 1, 255, 256, 257, 2048, 5000, UINT32_MAX};
    struct frozen_runses b;

    batch_make(&b, 0);
    for (enum order o = 0; o < ORDERS_; o++)
        for (unsigned i = 0; i < sizeof most / sizeof most[0]; i++)
            one_walk(&b.b, o, most[i]);
    batch_end(&b);
}

/* ---- with an index behind it: empty at first, then with all of these keys ---- */

static void
check_all(struct index *x, uint64_t base)
{
    struct entry_key where = {.table = TABLE_OBJECTS, .bucket = BUCKET};
    unsigned char value[VALUE_CODED_MAX];
    unsigned wrong = 0;
    char text[16];

    for (unsigned i = 0; i < KEYS; i++) {
        struct errbuf eb = {0};
        struct entry entry = {0};
        size_t len = 0;

        where.key = key_of(i, text);
        wrong +=
            index_find(x, TABLE_OBJECTS, BUCKET, where.key, NULL, value, &len, &eb) !=
                ERR_OK ||
            entry_decode(&where, (struct span){(char *)value, len}, &entry) != ERR_OK ||
            entry.version.counter != base + newest(i);
    }
    CHECK_U64(wrong, 0);
}

static void
fill(void *arg)
{
    struct rt_dir *dir = NULL;
    struct index_options o = {.map_bytes = 256u << 20, .keep_tombstones = true};
    struct index_checkpoint checkpoint = {0};
    enum index_state state;
    struct index_stat stat;
    struct index *x = NULL;
    struct errbuf eb = {0};

    (void)arg;
    REQUIRE(rt_dir_open(scratch_path, &dir, &eb) == ERR_OK);
    o.dir = dir;
    REQUIRE(index_open(&o, &x, &state, &checkpoint, &eb) == ERR_OK);
    for (uint64_t n = 0; n < BATCHES; n++) {
        struct frozen_runses b;

        batch_make(&b, n * RUNS * IN_RUN);
        checkpoint.log[0].batch++;
        CHECK(index_apply(x, &b.b, &checkpoint, &eb) == ERR_OK);
        batch_end(&b);
        check_all(x, n * RUNS * IN_RUN);
    }
    index_stat(x, &stat);
    CHECK_U64(stat.objects, KEYS);
    index_close(&x);
    rt_dir_close(&dir);
}

static void
test_an_index_is_filled_by_two(void)
{
    scratch_run(1, fill, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_two_walk_over_a_batch);
    RUN(test_an_index_is_filled_by_two);
    return check_done();
}
