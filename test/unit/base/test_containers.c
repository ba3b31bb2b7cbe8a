/* table and list against models that are too simple to be wrong. */
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
    RUN(test_table_of_strings_against_an_array);
    RUN(test_list);
    return check_done();
}
