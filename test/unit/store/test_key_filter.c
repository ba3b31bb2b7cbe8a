/* A key that was met is never taken for a new one; few new ones are taken for met. */
#include "base/hash.h"
#include "check.h"
#include "store/index/key_filter.h"

static uint64_t
hash_of(uint64_t n)
{
    return hash_xxh3(&n, sizeof n, 7);
}

static void
test_met_keys_are_found(void)
{
    const uint64_t keys = 100000;
    struct key_filter *k = key_filter_new(keys * 2048);
    uint64_t wrong = 0;

    CHECK(!key_filter_maybe(k, hash_of(1)));
    for (uint64_t n = 0; n < keys; n++) {
        key_filter_add(k, hash_of(n));
        CHECK(key_filter_maybe(k, hash_of(n)));
    }
    for (uint64_t n = 0; n < keys; n++)
        CHECK(key_filter_maybe(k, hash_of(n)));
    for (uint64_t n = keys; n < 2 * keys; n++)
        wrong += key_filter_maybe(k, hash_of(n));
    CHECK(wrong < keys / 10);
    key_filter_free(&k);
    CHECK(k == NULL);
}

/* Nothing is too little or too much for it. */
static void
test_any_length_of_logs(void)
{
    static const uint64_t lengths[] = {0, 1, 4096, (uint64_t)1 << 40, UINT64_MAX};

    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct key_filter *k = key_filter_new(lengths[i]);

        key_filter_add(k, UINT64_MAX);
        CHECK(key_filter_maybe(k, UINT64_MAX));
        CHECK(!key_filter_maybe(k, 0));
        key_filter_free(&k);
    }
}

/* What comes behind its first size makes it larger, and nothing is forgotten. */
static void
test_it_grows(void)
{
    const uint64_t keys = 300000;
    struct key_filter *k = key_filter_new(0);
    uint64_t wrong = 0;

    CHECK(!key_filter_is_complete(k));
    key_filter_complete(k);
    CHECK(key_filter_is_complete(k));
    for (uint64_t n = 0; n < 2 * keys; n++)
        key_filter_add(k, hash_of(n % keys)); /* each twice: the second takes no room */
    for (uint64_t n = 0; n < keys; n++)
        CHECK(key_filter_maybe(k, hash_of(n)));
    for (uint64_t n = keys; n < 2 * keys; n++)
        wrong += key_filter_maybe(k, hash_of(n));
    CHECK(wrong < keys / 4);
    key_filter_free(&k);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_met_keys_are_found);
    RUN(test_any_length_of_logs);
    RUN(test_it_grows);
    return check_done();
}
