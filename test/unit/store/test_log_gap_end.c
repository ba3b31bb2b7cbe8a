/* Groups that are missing at the end of the cached log, where nothing behind them tells that they were there: what was
 * promised before a reply does (promised.h). What was deleted, put in doubt or replaced there is never served as it was
 * before. test_log_gap.c has those in the middle. */
#include "log_gap_rig.h"

static void
replace(struct store *d, const char *key)
{
    put(d, key, 3);
}

static void
lost_end(void *arg)
{
    void (*say)(struct store *, const char *) =
        *(void (**)(struct store *, const char *))arg;
    struct store *d = open_slow(8u << 20);
    struct checked c;
    struct spot at;
    int64_t before;

    put(d, "kept", 1);
    put(d, "old", 2);
    at = here(d);
    say(d, "old");
    store_close(&d);
    damage(at, IN_HEAD);

    /* An index that has it knows better. */
    d = open_slow(8u << 20);
    CHECK(is_served(d, "kept", 1) && !is_served(d, "old", 2));
    store_close(&d);
    c = check_disk();
    CHECK(c.faults == 1 && c.of_index == 0);

    before = damages();
    world_lose_index();
    d = open_slow(8u << 20);
    CHECK(d->recovery->dropped_cached);
    CHECK_U64(damages(), before + 1);
    CHECK(!is_served(d, "old", 2) && !is_served(d, "kept", 1));
    put(d, "kept", 4);
    store_close(&d);
    CHECK_U64(check_disk().faults, 0);
    world_lose_index();
    d = open_slow(8u << 20);
    CHECK(!d->recovery->dropped_cached);
    CHECK(!is_served(d, "old", 2) && is_served(d, "kept", 4));
    store_close(&d);
}

static void
test_the_last_record_is_lost(void)
{
    void (*says[])(struct store *, const char *) = {delete, in_doubt, replace};

    for (unsigned i = 0; i < 3; i++)
        world_run(lost_end, &says[i]);
}

/* The header stands, but nothing behind it tells where the batch ended. */
static void
lost_last_bytes(void *arg)
{
    struct store *d = open_slow(8u << 20);
    struct spot at;

    (void)arg;
    put(d, "kept", 1);
    put(d, "replaced", 2);
    at = here(d);
    put(d, "replaced", 3);
    store_close(&d);
    damage(at, IN_BODY);
    for (unsigned i = 0; i < 3; i++) {
        world_lose_index();
        d = open_slow(8u << 20);
        CHECK(d->recovery->dropped_cached == (i == 0));
        CHECK(!is_served(d, "kept", 1) && is_served(d, "later", 4) == (i > 0));
        CHECK(!is_served(d, "replaced", 2) && !is_served(d, "replaced", 3));
        put(d, "later", 4);
        store_close(&d);
        CHECK_U64(check_disk().faults, 0);
    }
}

static void
test_the_last_bytes_are_lost(void)
{
    world_run(lost_last_bytes, NULL);
}

/* What stands behind the last promise may be lost. */
static void
end_beyond_mark(void *arg)
{
    struct store *d = open_slow(8u << 20);
    int64_t before = damages();
    struct spot at;

    (void)arg;
    put(d, "kept", 1);
    put(d, "deleted", 2);
    delete (d, "deleted");
    at = here(d);
    put(d, "lost", 3);
    store_close(&d);
    damage(at, IN_HEAD);
    world_lose_index();
    d = open_slow(8u << 20);
    CHECK(!d->recovery->dropped_cached && !d->recovery->after_gap);
    CHECK(is_served(d, "kept", 1) && !is_served(d, "lost", 3));
    CHECK(!is_served(d, "deleted", 2));
    CHECK_U64(damages(), before);
    store_close(&d);
}

static void
test_an_end_beyond_the_durable_mark(void)
{
    world_run(end_beyond_mark, NULL);
}

/* The log that was written last is gone, then all of them are. */
static void
missing_logs(void *arg)
{
    struct store *d = open_slow(1u << 20);
    char text[600];
    uint32_t id;

    (void)arg;
    put(d, "old", 2);
    world_fill_log(d, data, FILLER);
    id = world_log_now(d)->id;
    delete (d, "old");
    store_close(&d);
    snprintf(text, sizeof text, "%s/cached/log-%06u.tar", world_path, (unsigned)id);
    CHECK(unlink(text) == 0);
    for (unsigned i = 0; i < 2; i++) {
        world_lose_index();
        d = open_slow(1u << 20);
        CHECK(d->recovery->dropped_cached == (i == 0));
        CHECK(!is_served(d, "old", 2) && is_served(d, "last", 4) == (i > 0));
        put(d, "last", 4);
        delete (d, "last");
        put(d, "last", 4);
        store_close(&d);
    }
    snprintf(text, sizeof text, "rm '%s'/cached/log-*", world_path);
    CHECK(system(text) == 0);
    for (unsigned i = 0; i < 2; i++) {
        d = open_slow(1u << 20);
        CHECK(d->recovery->dropped_cached == (i == 0));
        CHECK(is_served(d, "last", 4) == (i > 0));
        put(d, "last", 4);
        store_close(&d);
        CHECK_U64(check_disk().faults, 0);
        world_lose_index();
    }
}

static void
test_the_last_log_is_missing(void)
{
    world_run(missing_logs, NULL);
}

/* The disk was not closed: its state is a while old. */
static void
not_closed(void *arg)
{
    struct store *d = open_slow(8u << 20);
    struct errbuf eb = {0};
    struct spot at;

    (void)arg;
    put(d, "kept", 1);
    put(d, "old", 2);
    at = here(d);
    delete (d, "old");
    CHECK(store_flush(d, &eb) == ERR_OK);
    world_copy();
    store_close(&d);
    world_back_to_copy();
    damage(at, IN_HEAD);
    world_lose_index();
    d = open_slow(8u << 20);
    CHECK(d->recovery->dropped_cached);
    CHECK(!is_served(d, "old", 2) && !is_served(d, "kept", 1));
    store_close(&d);
}

static void
test_a_disk_that_was_not_closed(void)
{
    world_run(not_closed, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    data = xmalloc(FILLER);
    world_fill(data, FILLER, 5);
    RUN(test_the_last_record_is_lost);
    RUN(test_the_last_bytes_are_lost);
    RUN(test_an_end_beyond_the_durable_mark);
    RUN(test_the_last_log_is_missing);
    RUN(test_a_disk_that_was_not_closed);
    free(data);
    return check_done();
}
