/* A doubt that was cleared, when the log with the clearing is compacted away while that of the doubt stays: an index made anew from
 * the logs knows the doubt again, and the object is asked for anew. `disk check` takes that for no damage. Protects rule 4 of
 * the format: never wrong, and no false alarm. */
#include "world_damage.h"
#include "world_logs.h"

#include "base/mem.h"
#include "disk/compactor.h"
#include "disk/segment.h"

#define FILLER (200u << 10) /* five of these fill a log */
#define SMALL  3000u

static char *data;

static void
cleared_and_compacted(void *arg)
{
    struct disk *d = world_open_small_logs();
    struct disk_key had = world_key(7, "had"), none = world_key(7, "none");
    struct segment *cleared;
    struct row row;
    struct errbuf eb = {0};

    (void)arg;
    CHECK(world_put_class(d, DISK_CACHED, "had", data, SMALL, true, NULL, &row) ==
          ERR_OK);
    CHECK(disk_doubt(d, &had, &eb) == ERR_OK && disk_doubt(d, &none, &eb) == ERR_OK);
    world_fill_log(d, data, FILLER);
    CHECK(disk_doubt_clear(d, &had, &eb) == ERR_OK);
    CHECK(disk_doubt_clear(d, &none, &eb) == ERR_OK);
    cleared = segment_ref(world_log_now(d));
    world_fill_log(d, data, FILLER);
    world_compact_log(d, cleared);
    CHECK(disk_lookup(d, &had, &row, &eb) == ERR_OK && (row.flags & ROW_DOUBT) == 0);
    disk_close(&d);
    world_check_sound();

    world_lose_index();
    d = world_open_small_logs();
    CHECK(disk_lookup(d, &had, &row, &eb) == ERR_OK && (row.flags & ROW_DOUBT) != 0);
    CHECK(disk_lookup(d, &none, &row, &eb) == ERR_OK && (row.flags & ROW_DOUBT) != 0);
    CHECK(disk_doubt_clear(d, &had, &eb) == ERR_OK); /* asked for anew, and unchanged */
    CHECK(world_get(d, "had", data, SMALL, 0, SMALL) == ERR_OK);
    disk_close(&d);
    world_check_sound();
}

static void
test_a_doubt_whose_end_was_compacted_away(void)
{
    world_run(cleared_and_compacted, NULL);
}

/* What was asked about one doubt says nothing about a later one; nor about a row that was replaced. */
static void
settled(void *arg)
{
    struct disk *d = world_open(NULL);
    struct disk_key k = world_key(7, "k"), none = world_key(7, "none");
    struct version other = {1, 1};
    struct errbuf eb = {0};
    struct row row;
    uint32_t doubts;

    (void)arg;
    CHECK(world_put_class(d, DISK_CACHED, "k", data, SMALL, true, NULL, &row) == ERR_OK);
    for (int again = 0; again < 2; again++) {
        CHECK(disk_doubt(d, &k, &eb) == ERR_OK);
        doubts = disk_doubts(d, &k);
        CHECK(disk_doubt(d, &k, &eb) == ERR_OK); /* in between */
        CHECK(disk_doubt_settle(d, &k, &row.version, doubts, &eb) == ERR_PRECONDITION);
        CHECK(disk_lookup(d, &k, &row, &eb) == ERR_OK && (row.flags & ROW_DOUBT) != 0);
        doubts = disk_doubts(d, &k);
        CHECK(disk_doubt(d, &none, &eb) == ERR_OK); /* of another key */
        CHECK(disk_doubt_settle(d, &k, &other, doubts, &eb) == ERR_PRECONDITION);
        CHECK(disk_lookup(d, &k, &row, &eb) == ERR_OK && (row.flags & ROW_DOUBT) != 0);
        CHECK(disk_doubt_settle(d, &k, &row.version, doubts, &eb) == ERR_OK);
        CHECK(disk_lookup(d, &k, &row, &eb) == ERR_OK && (row.flags & ROW_DOUBT) == 0);
        CHECK(disk_doubt_settle(d, &k, &row.version, doubts, &eb) == ERR_OK); /* none */
        disk_close(&d);
        d = world_open(NULL);
        CHECK(disk_lookup(d, &k, &row, &eb) == ERR_OK && (row.flags & ROW_DOUBT) == 0);
    }
    /* A row that is only a doubt is settled by nobody who knew none. */
    CHECK(disk_doubt_settle(d, &none, &other, disk_doubts(d, &none), &eb) ==
          ERR_PRECONDITION);
    disk_close(&d);
    world_check_sound();
}

static void
test_only_the_doubt_that_was_asked_about(void)
{
    world_run(settled, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    data = xmalloc(FILLER);
    world_fill(data, FILLER, 5);
    RUN(test_a_doubt_whose_end_was_compacted_away);
    RUN(test_only_the_doubt_that_was_asked_about);
    free(data);
    return check_done();
}
