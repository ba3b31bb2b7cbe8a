/* A replay that brings entries into the index while it reads on: many small rounds, keys written again and deleted while an
 * older entry of theirs is on its way. Afterwards every key is what it was. Protects D1, I3. */
#include "world.h"

#include "rt/fiber.h"

#define KEYS    300u
#define CHANGES 1200u

static uint64_t seeds[KEYS]; /* of what the key has; 0: nothing */
static char data[2000];

static void
name(unsigned key, char out[64])
{
    snprintf(out, 64, "photos/%u/of-some-length-that-fills-the-tail", key * 7919u);
}

static struct store *
open_with(const struct store_options *o)
{
    struct errbuf eb = {0};
    struct store *d = NULL;

    if (store_open(world_path, o, &d, &eb) != ERR_OK)
        CHECK_STR(eb.text, "");
    return d;
}

static uint64_t
len_of(uint64_t seed)
{
    return seed * 37 % sizeof data;
}

static void
change(struct store *d, unsigned n)
{
    unsigned key = n * 31 % KEYS;
    char text[64];
    struct store_key k;
    struct entry entry;
    struct errbuf eb = {0};

    name(key, text);
    if (n % 7 == 3) {
        bool existed;

        k = world_key(7, text);
        CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK);
        CHECK(existed == (seeds[key] != 0));
        seeds[key] = 0;
        return;
    }
    seeds[key] = n + 1;
    world_fill(data, len_of(n + 1), n + 1);
    CHECK(world_put(d, text, data, len_of(n + 1), &entry) == ERR_OK);
}

static void
check_all(struct store *d)
{
    struct store_stat stat;
    uint64_t living = 0;

    for (unsigned key = 0; key < KEYS; key++) {
        uint64_t len = len_of(seeds[key]);
        enum err rc;
        char text[64];

        name(key, text);
        world_fill(data, len, seeds[key]);
        rc = world_get(d, text, data, len, 0, len);
        CHECK(rc == (seeds[key] != 0 ? ERR_OK : ERR_NOT_FOUND));
        living += seeds[key] != 0;
    }
    store_stat(d, &stat);
    CHECK_U64(stat.objects, living);
}

static void
rounds_beside(void *arg)
{
    struct store_options o = world_options();
    struct store *d = open_with(&o);

    (void)arg;
    for (unsigned n = 0; n < CHANGES; n++)
        change(d, n);
    store_close(&d);
    for (unsigned memtable_kib = 16; memtable_kib <= 256; memtable_kib *= 4) {
        o = world_options();
        o.rebuild = true;
        o.memtable_bytes = KIB(memtable_kib);
        d = open_with(&o);
        check_all(d);
        store_close(&d);
    }
    o = world_options();
    d = open_with(&o);
    check_all(d);
    store_close(&d);
}

static void
test_a_replay_in_many_rounds(void)
{
    world_run(rounds_beside, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR);
    RUN(test_a_replay_in_many_rounds);
    return check_done();
}
