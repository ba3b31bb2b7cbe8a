/* heap, table and list against models that are too simple to be wrong. */
#include "base/heap.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/table.h"
#include "check.h"

static uint64_t random_state = 88172645463325252u;

static uint64_t
next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* ---- heap ---- */

enum { TIMERS = 200 };

struct timer {
    struct heap_node node;
    uint64_t key;
};

static uint64_t
least_of(const struct timer *t)
{
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < TIMERS; i++) {
        if (heap_has(&t[i].node))
            least = MIN(least, t[i].key);
    }
    return least;
}

static void
test_heap_against_a_scan(void)
{
    static struct timer t[TIMERS];
    struct heap h;

    heap_init(&h);
    CHECK(heap_pop(&h) == NULL && heap_least(&h) == UINT64_MAX && heap_first(&h) == NULL);
    for (int round = 0; round < 20000; round++) {
        struct timer *one = &t[next_random() % TIMERS];
        uint64_t key = next_random() % 50; /* many equal ones */

        switch (next_random() % 4) {
        case 0:
            heap_remove(&h, &one->node); /* in or not */
            break;
        case 1:
            if (h.count > 0)
                REQUIRE(CONTAINER_OF(heap_pop(&h), struct timer, node)->key <=
                        least_of(t));
            break;
        default:
            one->key = key;
            if (heap_has(&one->node))
                heap_move(&h, &one->node, key);
            else
                heap_push(&h, &one->node, key);
        }
        REQUIRE(heap_least(&h) == least_of(t));
    }
    CHECK(h.count > 0);
    heap_fini(&h);
    for (size_t i = 0; i < TIMERS; i++)
        CHECK(!heap_has(&t[i].node));
}

/* ---- table ---- */

enum { KEYS = 300 };

static void
test_table_of_strings_against_an_array(void)
{
    static char names[KEYS][16];
    static int values[KEYS];
    bool there[KEYS] = {false};
    size_t count = 0;
    struct table m;

    table_init(&m, KEYS / 2);
    CHECK(table_get(&m, SPAN("x")) == NULL && table_erase(&m, SPAN("x")) == NULL);
    for (size_t i = 0; i < KEYS; i++)
        snprintf(names[i], sizeof names[i], "%zu/key", i);
    for (int round = 0; round < 50000; round++) {
        size_t i = next_random() % KEYS;
        struct span key = span_of(names[i]);

        if (next_random() % 2 == 0) {
            bool fits = there[i] || count < KEYS / 2;

            REQUIRE(table_put(&m, key, &values[i]) == fits);
            count += fits && !there[i];
            there[i] = fits;
        } else {
            REQUIRE(table_erase(&m, key) == (there[i] ? &values[i] : NULL));
            count -= there[i];
            there[i] = false;
        }
        i = next_random() % KEYS;
        REQUIRE(table_get(&m, span_of(names[i])) == (there[i] ? &values[i] : NULL));
        REQUIRE(m.count == count);
    }
    TABLE_EACH(&m, s)
    {
        size_t i = (size_t)((int *)s->value - values);

        CHECK(there[i]);
        there[i] = false;
        count--;
    }
    CHECK_U64(count, 0);
    table_fini(&m);
}

static void
test_table_of_numbers(void)
{
    static int values[1000];
    struct table m;

    table_init(&m, 1000);
    for (uint64_t i = 0; i < 1000; i++)
        REQUIRE(table_put_u64(&m, i << 32, &values[i]));
    CHECK(!table_put_u64(&m, 7, &values[0]));
    CHECK(table_put_u64(&m, 0, &values[5])); /* replaces, also when full */
    CHECK(table_get_u64(&m, 0) == &values[5]);
    CHECK(table_get_u64(&m, 7) == NULL);
    for (uint64_t i = 999; i > 0; i--)
        REQUIRE(table_erase_u64(&m, i << 32) == &values[i]);
    CHECK_U64(m.count, 1);
    table_fini(&m);
}

/* ---- list ---- */

struct item {
    struct list link;
    int id;
};

static void
test_list(void)
{
    struct list l;
    struct item items[3] = {{.id = 0}, {.id = 1}, {.id = 2}};
    int seen = 0;

    list_init(&l);
    CHECK(list_empty(&l) && list_pop_front(&l) == NULL);
    list_push_back(&l, &items[1].link);
    list_push_back(&l, &items[2].link);
    list_push_front(&l, &items[0].link);
    LIST_EACH(&l, n)
    {
        CHECK(LIST_ENTRY(n, struct item, link)->id == seen);
        seen++;
        if (seen == 2)
            list_remove(n); /* allowed while walking */
    }
    CHECK(seen == 3);
    list_remove(&items[1].link); /* twice is fine */
    CHECK(list_pop_front(&l) == &items[0].link);
    CHECK(list_pop_front(&l) == &items[2].link);
    CHECK(list_empty(&l));
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_heap_against_a_scan);
    RUN(test_table_of_strings_against_an_array);
    RUN(test_table_of_numbers);
    RUN(test_list);
    return check_done();
}
