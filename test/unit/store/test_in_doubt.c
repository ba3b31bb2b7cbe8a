/* An in-doubt record that was cleared, when the log with the clearing is compacted away while that of the in-doubt record stays: an index rebuilt from
 * the logs knows the in-doubt record again, and the object is requested again. `disk check` takes that for no damage. Protects rule 4 of
 * the format: never wrong, and no false alarm. */
#include "world_damage.h"
#include "world_wal.h"

#include "base/mem.h"
#include "store/gc/compactor.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_write.h"

#define FILLER (200u << 10) /* five of these fill a log */
#define SMALL  3000u

static char *data;

static void
cleared_and_compacted(void *arg)
{
    struct store *d = world_open_small_logs();
    struct store_key had = world_key(7, "had"), none = world_key(7, "none");
    struct segment *cleared;
    struct entry entry;
    struct errbuf eb = {0};

    (void)arg;
    CHECK(world_put_class(d, STORE_CACHED, "had", data, SMALL, true, NULL, &entry) ==
          ERR_OK);
    CHECK(store_in_doubt_begin(d, &had, &eb) == ERR_OK &&
          store_in_doubt_begin(d, &none, &eb) == ERR_OK);
    world_fill_log(d, data, FILLER);
    CHECK(store_in_doubt_clear(d, &had, &eb) == ERR_OK);
    CHECK(store_in_doubt_clear(d, &none, &eb) == ERR_OK);
    cleared = segment_ref(world_log_now(d));
    world_fill_log(d, data, FILLER);
    world_compact_log(d, cleared);
    CHECK(store_lookup(d, &had, &entry, &eb) == ERR_OK &&
          (entry.flags & ENTRY_IN_DOUBT) == 0);
    store_close(&d);
    world_check_sound();

    world_lose_index();
    d = world_open_small_logs();
    CHECK(store_lookup(d, &had, &entry, &eb) == ERR_OK &&
          (entry.flags & ENTRY_IN_DOUBT) != 0);
    CHECK(store_lookup(d, &none, &entry, &eb) == ERR_OK &&
          (entry.flags & ENTRY_IN_DOUBT) != 0);
    CHECK(store_in_doubt_clear(d, &had, &eb) ==
          ERR_OK); /* requested again, and unchanged */
    CHECK(world_get(d, "had", data, SMALL, 0, SMALL) == ERR_OK);
    store_close(&d);
    world_check_sound();
}

static void
test_an_in_doubt_write_whose_end_was_compacted_away(void)
{
    world_run(cleared_and_compacted, NULL);
}

/* The answer about one in-doubt record says nothing about a later one; nor about an entry that was replaced. */
static void
resolved(void *arg)
{
    struct store *d = world_open(NULL);
    struct store_key k = world_key(7, "k"), none = world_key(7, "none");
    struct version other = {1, 1};
    struct errbuf eb = {0};
    struct entry entry;
    uint32_t in_doubt;

    (void)arg;
    CHECK(world_put_class(d, STORE_CACHED, "k", data, SMALL, true, NULL, &entry) ==
          ERR_OK);
    for (int again = 0; again < 2; again++) {
        CHECK(store_in_doubt_begin(d, &k, &eb) == ERR_OK);
        in_doubt = store_in_doubt_count(d, &k);
        CHECK(store_in_doubt_begin(d, &k, &eb) == ERR_OK); /* in between */
        CHECK(store_in_doubt_resolve(d, &k, &entry.version, in_doubt, &eb) ==
              ERR_PRECONDITION);
        CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK &&
              (entry.flags & ENTRY_IN_DOUBT) != 0);
        in_doubt = store_in_doubt_count(d, &k);
        CHECK(store_in_doubt_begin(d, &none, &eb) == ERR_OK); /* of another key */
        CHECK(store_in_doubt_resolve(d, &k, &other, in_doubt, &eb) == ERR_PRECONDITION);
        CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK &&
              (entry.flags & ENTRY_IN_DOUBT) != 0);
        CHECK(store_in_doubt_resolve(d, &k, &entry.version, in_doubt, &eb) == ERR_OK);
        CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK &&
              (entry.flags & ENTRY_IN_DOUBT) == 0);
        CHECK(store_in_doubt_resolve(d, &k, &entry.version, in_doubt, &eb) ==
              ERR_OK); /* none */
        store_close(&d);
        d = world_open(NULL);
        CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK &&
              (entry.flags & ENTRY_IN_DOUBT) == 0);
    }
    /* An entry that is only an in-doubt record is not resolved by a caller that knew none. */
    CHECK(store_in_doubt_resolve(d, &none, &other, store_in_doubt_count(d, &none), &eb) ==
          ERR_PRECONDITION);
    store_close(&d);
    world_check_sound();
}

static void
test_only_the_in_doubt_write_that_was_asked_about(void)
{
    world_run(resolved, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    data = xmalloc(FILLER);
    world_fill(data, FILLER, 5);
    RUN(test_an_in_doubt_write_whose_end_was_compacted_away);
    RUN(test_only_the_in_doubt_write_that_was_asked_about);
    free(data);
    return check_done();
}
