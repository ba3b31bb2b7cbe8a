/* numbered: one entry a number, whichever thread comes first, also when many threads make the same ones at once; what was found
 * stays. */
#include "base/numbered.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "check.h"

struct box {
    struct numbered_entry head;
    _Atomic uint64_t count;
};
static_assert(offsetof(struct box, head) == 0, "the head comes first");

/* ---- one thread ---- */

static void
test_found_as_made(void)
{
    static const uint64_t numbers[] = {0, 1, 7, 9, 17, UINT64_MAX, (uint64_t)1 << 62 | 7,
                                       25};
    struct numbered *n = numbered_new(8, sizeof(struct box)); /* 1, 9, 17, 25: one slot */
    struct box *made[ARRAY_LEN(numbers)];

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        CHECK(numbered_find(n, numbers[i]) == NULL);
        made[i] = numbered_make(n, numbers[i]);
        CHECK(made[i]->head.number == numbers[i] && made[i]->count == 0);
        made[i]->count = i + 1;
    }
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        CHECK(numbered_find(n, numbers[i]) == made[i]);
        CHECK(numbered_make(n, numbers[i]) == made[i] && made[i]->count == i + 1);
    }
    CHECK(numbered_find(n, 33) == NULL); /* the slot of 1, but another number */
    numbered_free(&n);
    CHECK(n == NULL);
    numbered_free(&n);
}

static void
test_each_once(void)
{
    struct numbered *n = numbered_new(16, sizeof(struct box));
    uint64_t sum = 0, seen = 0;

    CHECK(numbered_next(n, NULL) == NULL);
    for (uint64_t i = 0; i < 100; i += 3) /* slots with several, with none */
        (void)numbered_make(n, i < 50 ? i : i * 16);
    for (struct box *b = numbered_next(n, NULL); b != NULL; b = numbered_next(n, b)) {
        CHECK(b->count == 0); /* not seen before */
        b->count = 1;
        seen++;
        sum += b->head.number < 50 ? b->head.number : b->head.number / 16;
    }
    CHECK_U64(seen, 34);
    CHECK_U64(sum, 33 * 34 / 2 * 3);
    numbered_free(&n);
}

/* ---- many ---- */

enum { THREADS = 4, NUMBERS = 3000, SLOTS = 64, ROUNDS = 20 };

struct maker {
    struct numbered *n;
    struct box *got[NUMBERS];
};

/* All make the same numbers in the same order: so they meet at each. */
static void *
make_all(void *arg)
{
    struct maker *m = arg;

    for (uint64_t i = 0; i < NUMBERS; i++) {
        m->got[i] = numbered_make(m->n, i);
        atomic_fetch_add(&m->got[i]->count, 1);
    }
    return NULL;
}

static atomic_bool over;

/* What is there is whole, and once it is there it stays. */
static void *
look_on(void *arg)
{
    struct numbered *n = arg;
    uint64_t there = 0;

    while (!atomic_load(&over)) {
        uint64_t seen = 0;

        for (uint64_t i = 0; i < NUMBERS; i++) {
            const struct box *b = numbered_find(n, i);

            CHECK(b == NULL || b->head.number == i);
            seen += b != NULL;
        }
        CHECK(seen >= there);
        there = seen;
    }
    return NULL;
}

static void
test_who_meets_gets_the_same(void)
{
    static struct maker makers[THREADS];

    for (int round = 0; round < ROUNDS; round++) {
        struct numbered *n = numbered_new(SLOTS, sizeof(struct box));
        pthread_t threads[THREADS], looker;
        uint64_t count = 0;

        atomic_store(&over, false);
        REQUIRE(pthread_create(&looker, NULL, look_on, n) == 0);
        for (size_t i = 0; i < THREADS; i++) {
            makers[i].n = n;
            REQUIRE(pthread_create(&threads[i], NULL, make_all, &makers[i]) == 0);
        }
        for (size_t i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        atomic_store(&over, true);
        pthread_join(looker, NULL);
        for (uint64_t i = 0; i < NUMBERS; i++) {
            for (size_t k = 0; k < THREADS; k++)
                CHECK(makers[k].got[i] == numbered_find(n, i));
            CHECK_U64(makers[0].got[i]->count, THREADS);
        }
        for (struct box *b = numbered_next(n, NULL); b != NULL; b = numbered_next(n, b))
            count++;
        CHECK_U64(count, NUMBERS);
        numbered_free(&n);
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_found_as_made);
    RUN(test_each_once);
    RUN(test_who_meets_gets_the_same);
    return check_done();
}
