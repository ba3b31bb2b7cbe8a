/* Groups that are missing in the middle of the cached log. What was deleted, put in doubt or replaced by a record that is
 * damaged is never served as it was before, however the index was lost; what a power cut explains costs nothing. Protects
 * rule 4 of the format: a cached object may be lost, never wrong. */
#include "log_gap_rig.h"

/* ---- a batch that was not acknowledged ---- */

static void
beyond_mark(void *arg)
{
    struct store *d = open_slow(8u << 20);
    struct spot at;
    int64_t before = damages();

    (void)arg;
    put(d, "kept", 1);
    put(d, "deleted", 2);
    at = here(d);
    put(d, "lost", 3);
    delete (d, "deleted");
    put(d, "last", 4);
    store_close(&d);
    damage(at, IN_HEAD);
    lose_mark();
    world_lose_index();
    CHECK_U64(check_disk().faults, 0);
    for (unsigned i = 0; i < 3; i++) { /* the second and third time it is known */
        d = open_slow(8u << 20);
        CHECK(is_served(d, "kept", 1) && is_served(d, "last", 4));
        CHECK(!is_served(d, "deleted", 2) && !is_served(d, "lost", 3));
        CHECK(!d->recovery->dropped_cached);
        CHECK(d->recovery->after_gap);
        if (i == 1)
            put(d, "more", 5);
        store_close(&d);
        CHECK_U64(check_disk().faults, 0);
        world_lose_index();
    }
    CHECK_U64(damages(), before);
}

static void
test_what_is_beyond_the_durable_mark(void)
{
    world_run(beyond_mark, NULL);
}

/* Of a key in doubt the newer version is lost; what cleared the second in-doubt record meant that one. */
static void
cleared_too_far(void *arg)
{
    struct store *d = open_slow(8u << 20);
    struct store_key k = world_key(7, "key");
    struct errbuf eb = {0};
    struct spot at;

    (void)arg;
    put(d, "key", 1);
    in_doubt(d, "key");
    at = here(d);
    put(d, "key", 2);
    in_doubt(d, "key");
    CHECK(store_in_doubt_clear(d, &k, &eb) == ERR_OK);
    CHECK(is_served(d, "key", 2));
    store_close(&d);
    damage(at, IN_HEAD);
    lose_mark();
    world_lose_index();
    d = open_slow(8u << 20);
    CHECK(d->recovery->after_gap && !d->recovery->dropped_cached);
    CHECK(!is_served(d, "key", 1) && !is_served(d, "key", 2));
    put(d, "key", 2);
    CHECK(is_served(d, "key", 2));
    store_close(&d);
    CHECK_U64(check_disk().faults, 0);
}

static void
test_an_in_doubt_write_cleared_after_a_gap(void)
{
    world_run(cleared_too_far, NULL);
}

/* ---- damage ---- */

static void
lost_record(void *arg)
{
    void (*say)(struct store *, const char *) =
        *(void (**)(struct store *, const char *))arg;
    struct store *d = open_slow(8u << 20);
    struct checked c;
    struct spot at;
    int64_t before = damages();

    put(d, "kept", 1);
    put(d, "old", 2);
    at = here(d);
    say(d, "old");
    put(d, "last", 4);
    store_close(&d);
    damage(at, IN_HEAD);

    /* An index that has it knows better, and a check says so. */
    d = open_slow(8u << 20);
    CHECK(is_served(d, "kept", 1) && is_served(d, "last", 4));
    CHECK(!is_served(d, "old", 2));
    store_close(&d);
    c = check_disk();
    CHECK_U64(c.faults, 1);
    CHECK_U64(c.of_index, 0);

    world_lose_index();
    CHECK_U64(damages(), before);
    d = open_slow(8u << 20);
    CHECK_U64(damages(), before + 1);
    CHECK(d->recovery->dropped_cached);
    CHECK(!is_served(d, "old", 2) && !is_served(d, "kept", 1)); /* fetched again */
    CHECK(!is_served(d, "last", 4));
    put(d, "kept", 1);
    store_close(&d);
    CHECK_U64(check_disk().faults, 0);

    for (unsigned i = 0; i < 2; i++) { /* nothing of it is left to be found again */
        d = open_slow(8u << 20);
        CHECK_U64(damages(), before + 1);
        CHECK(!d->recovery->dropped_cached);
        CHECK(is_served(d, "kept", 1) && !is_served(d, "old", 2));
        store_close(&d);
        world_lose_index();
    }
}

static void
test_a_record_that_said_no_is_lost(void)
{
    void (*says[])(struct store *, const char *) = {delete, in_doubt};

    for (unsigned i = 0; i < 2; i++)
        world_run(lost_record, &says[i]);
}

/* Every header stands: what was said is known, and only bytes are lost. */
static void
lost_bytes(void *arg)
{
    struct store *d = open_slow(8u << 20);
    struct spot at;

    (void)arg;
    put(d, "kept", 1);
    put(d, "replaced", 2);
    at = here(d);
    put(d, "replaced", 3);
    put(d, "last", 4);
    store_close(&d);
    damage(at, IN_BODY);
    world_lose_index();
    d = open_slow(8u << 20);
    CHECK(!d->recovery->dropped_cached);
    CHECK(is_served(d, "kept", 1) && is_served(d, "last", 4));
    CHECK(!is_served(d, "replaced", 2) && !is_served(d, "replaced", 3));
    store_close(&d);
}

static void
test_bytes_of_a_newer_version_are_lost(void)
{
    world_run(lost_bytes, NULL);
}

/* ---- several logs ---- */

static void
missing_log(void *arg)
{
    struct store *d = open_slow(1u << 20);
    char path[400];
    uint32_t id;

    (void)arg;
    put(d, "old", 2);
    world_fill_log(d, data, FILLER);
    id = world_log_now(d)->id;
    delete (d, "old");
    world_fill_log(d, data, FILLER);
    put(d, "last", 4);
    store_close(&d);
    snprintf(path, sizeof path, "%s/cached/log-%06u.tar", world_path, (unsigned)id);
    CHECK(unlink(path) == 0);
    world_lose_index();
    d = open_slow(1u << 20);
    CHECK(d->recovery->dropped_cached);
    CHECK(!is_served(d, "old", 2) && !is_served(d, "last", 4));
    store_close(&d);
}

static void
test_a_log_is_missing(void)
{
    world_run(missing_log, NULL);
}

/* The in-doubt record of an object is lost that compaction has moved behind it since. */
static void
moved_behind(void *arg)
{
    struct store *d = open_slow(1u << 20);
    struct segment *first;
    struct spot at;

    (void)arg;
    put(d, "old", 2);
    first = segment_ref(world_log_now(d));
    world_fill_log(d, data, FILLER);
    at = here(d);
    in_doubt(d, "old");
    world_fill_log(d, data, FILLER);
    world_compact_log(d, first);
    put(d, "last", 4);
    CHECK(!is_served(d, "old", 2));
    store_close(&d);
    damage(at, IN_HEAD);
    world_lose_index();
    d = open_slow(1u << 20);
    CHECK(d->recovery->dropped_cached);
    CHECK(!is_served(d, "old", 2) && !is_served(d, "last", 4));
    store_close(&d);
}

static void
test_what_was_moved_behind_damage(void)
{
    world_run(moved_behind, NULL);
}

/* A hole that a cut explained holds up neither compaction nor eviction; what a log that is gone relied on is damage. */
static void
compacted(void *arg)
{
    struct store *d = open_slow(1u << 20);
    struct segment *holed;
    struct spot at;
    uint32_t id;

    (void)arg;
    put(d, "kept", 1);
    at = here(d);
    put(d, "lost", 3);
    delete (d, "kept");
    put(d, "kept", 2);
    store_close(&d);
    damage(at, IN_HEAD);
    lose_mark();
    world_lose_index();
    d = open_slow(1u << 20);
    CHECK(d->recovery->after_gap && !d->recovery->dropped_cached);
    holed = segment_ref(world_log_now(d));
    id = holed->id;
    world_fill_log(d, data, FILLER);
    world_compact_log(d, holed);
    CHECK(segment_pin(d, id) == NULL); /* it went */
    CHECK(is_served(d, "kept", 2));
    CHECK_U64(d->wals->truncated.of[TRUNCATED_LOST].count, 0);
    world_copy(); /* the list still has the hole there */
    store_close(&d);
    world_check_sound();
    world_back_to_copy();
    d = open_slow(1u << 20);
    CHECK(!d->recovery->after_gap && is_served(d, "kept", 2));
    CHECK_U64(d->wals->truncated.of[TRUNCATED_LOST].count, 0);
    store_close(&d);
    world_check_sound();
}

static void
test_a_log_with_a_gap_is_compacted(void)
{
    world_run(compacted, NULL);
}

/* ---- a full disk ---- */

/* Nothing lived in the second log, and nothing was synced since the first went: no file is needed for it to go. */
static void
went_without_a_file(void *arg)
{
    struct store_options o = world_options();
    struct segment *logs[2];
    struct stat before, after;
    struct store *d;
    uint32_t id;

    (void)arg;
    o.segment_bytes = 1u << 20;
    o.index_interval_ms = o.durable_mark_interval_ms = 3600 * 1000;
    d = world_open(&o);
    for (unsigned i = 0; i < 2; i++) {
        const struct segment *was;

        put(d, "first", 1);
        logs[i] = segment_ref(world_log_now(d));
        for (was = logs[i]; world_log_now(d) == was;) {
            struct entry entry;

            CHECK(world_put_class(d, STORE_CACHED, "replaced", data, FILLER, true, NULL,
                                  &entry) == ERR_OK);
        }
    }
    put(d, "first", 2);
    id = logs[1]->id;
    world_compact_log(d, logs[0]);
    CHECK(has_state("retired", &before));
    world_compact_log(d, logs[1]);
    CHECK(segment_pin(d, id) == NULL); /* it went */
    CHECK(has_state("retired", &after) && before.st_ino == after.st_ino);
    store_close(&d);
    world_check_sound();
}

static void
test_the_oldest_log_goes_without_a_write(void)
{
    world_run(went_without_a_file, NULL);
}

#ifdef FB_TEST_HOOKS
/* Of the writes from now on so many pass, and so many find no room then. */
static void
fill_disk(uint64_t skip, uint64_t count)
{
    struct rt_test_io *t = rt_test_io();

    t->seen = 0;
    t->skip = skip;
    t->count = count;
    t->error = ENOSPC;
    t->kinds = 1u << RT_IO_WRITE;
}

static bool
mend_disk(void)
{
    struct rt_test_io *t = rt_test_io();

    t->kinds = 0;
    return t->seen > t->skip;
}

static void
no_room_for_the_list(void *arg)
{
    struct store *d = open_slow(8u << 20);
    struct errbuf eb = {0};
    struct stat st;

    (void)arg;
    put(d, "kept", 1);
    CHECK(store_flush(d, &eb) == ERR_OK);
    REQUIRE(has_state("ballast", &st));
    fill_disk(0, 1);
    CHECK(truncated_persist(d, &eb) == ERR_OK);
    CHECK(mend_disk());
    CHECK(!has_state("ballast", &st) && has_state("retired", &st));
    fill_disk(0, UINT64_MAX);
    CHECK(truncated_persist(d, &eb) == ERR_NO_SPACE);
    CHECK(mend_disk());
    store_close(&d);
}

static void
test_the_list_comes_before_the_ballast(void)
{
    world_run(no_room_for_the_list, NULL);
}

/* Each write of a start in turn finds no room. That of the list takes the ballast's; those in a place that is reserved are
 * another fault. What is distrusted is not served. */
static void
opened_without_room(void *arg)
{
    struct store *d = open_slow(8u << 20);
    unsigned opened = 0;
    bool seen = true;
    struct stat st;
    struct spot at;

    (void)arg;
    put(d, "kept", 1);
    put(d, "old", 2);
    at = here(d);
    delete (d, "old");
    put(d, "last", 4);
    store_close(&d);
    damage(at, IN_HEAD);
    world_copy();
    for (unsigned i = 0; seen; i++) {
        struct store_options o = world_options();
        struct errbuf eb = {0};
        enum err rc;

        o.index_interval_ms = 3600 * 1000;
        world_back_to_copy();
        world_copy();
        if (has_state("../index", &st)) /* the start before may have made none */
            world_lose_index();
        fill_disk(i, 1);
        rc = store_open(world_path, &o, &d, &eb);
        seen = mend_disk();
        if (rc != ERR_OK) {
            CHECK(strstr(eb.text, TRUNCATED_FILE) == NULL);
            continue;
        }
        opened += seen;
        CHECK(d->recovery->dropped_cached);
        CHECK(!is_served(d, "old", 2) && !is_served(d, "last", 4));
        store_close(&d);
    }
    CHECK(opened > 0);
}

static void
test_damage_is_found_on_a_full_disk(void)
{
    world_run(opened_without_room, NULL);
}
#endif

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    data = xmalloc(FILLER);
    world_fill(data, FILLER, 5);
    RUN(test_what_is_beyond_the_durable_mark);
    RUN(test_an_in_doubt_write_cleared_after_a_gap);
    RUN(test_a_record_that_said_no_is_lost);
    RUN(test_bytes_of_a_newer_version_are_lost);
    RUN(test_a_log_is_missing);
    RUN(test_what_was_moved_behind_damage);
    RUN(test_a_log_with_a_gap_is_compacted);
    RUN(test_the_oldest_log_goes_without_a_write);
#ifdef FB_TEST_HOOKS
    RUN(test_the_list_comes_before_the_ballast);
    RUN(test_damage_is_found_on_a_full_disk);
#endif
    free(data);
    return check_done();
}
