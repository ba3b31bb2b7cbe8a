/* Several disks as one: where objects lie, disks that come and go, and who is refused. */
#include "rig.h"

#include "disks/internal.h"
#include "rt/point.h"
#include "rt/test_hooks.h"

#define KEYS 60

static uint64_t
objects_on_all(struct rig *g, unsigned disks)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < disks; i++)
        sum += rig_objects_on(g, g->path[i]);
    return sum;
}

/* Every key once, in order, whatever the size of the pages. */
static void
list_all(struct rig *g, uint32_t page)
{
    struct arena *a = arena_new(KIB(16), MIB(2));
    struct store_entry *rows;
    char after[64] = "";
    unsigned seen = 0;
    uint32_t count;
    bool more = true;

    while (more) {
        arena_reset(a);
        if (disks_list(g->ds, RIG_BUCKET, g->copies, span_of(after), false, page, a,
                       &rows, &count, &more, &g->eb) != ERR_OK) {
            CHECK(false);
            break;
        }
        for (uint32_t i = 0; i < count; i++)
            CHECK(span_is(rows[i].key, rig_name(seen++)));
        if (count > 0)
            snprintf(after, sizeof after, "%.*s", SPAN_ARG(rows[count - 1].key));
    }
    CHECK_U64(seen, KEYS);
    arena_free(&a);
}

static void
several(void *arg)
{
    struct rig *g = arg;
    bool existed = false, empty = true;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    rig_put_all(g, KEYS, 1);
    rig_get_all(g, KEYS, 1);
    CHECK_U64(objects_on_all(g, 3), KEYS);
    for (unsigned i = 0; i < 3; i++)
        CHECK(rig_objects_on(g, g->path[i]) > KEYS / 8);
    list_all(g, 1000);
    list_all(g, 7);
    rig_put_all(g, KEYS, 1000);
    rig_get_all(g, KEYS, 1000);
    CHECK(disks_bucket_empty(g->ds, RIG_BUCKET, 1, &empty, &g->eb) == ERR_OK && !empty);
    disks_close(&g->ds);
    REQUIRE(rig_open(g, 7) == ERR_OK);
    rig_get_all(g, KEYS, 1000);
    for (unsigned i = 0; i < KEYS; i++) {
        CHECK(rig_delete(g, rig_name(i), &existed) == ERR_OK && existed);
        CHECK(rig_get(g, rig_name(i), 1, 1) == ERR_NOT_FOUND);
    }
    CHECK(rig_delete(g, rig_name(0), &existed) == ERR_OK && !existed);
    CHECK(disks_bucket_empty(g->ds, RIG_BUCKET, 1, &empty, &g->eb) == ERR_OK && empty);
    disks_close(&g->ds);
}

static void
conditions(void *arg)
{
    struct rig *g = arg;
    struct store_condition absent = {.if_absent = true}, same = {.if_content = true};
    struct entry entry;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    CHECK(rig_put_if(g, "k", 100, 1, &absent, &entry) == ERR_OK);
    CHECK(rig_put_if(g, "k", 100, 2, &absent, &entry) == ERR_PRECONDITION);
    same.content = entry.content;
    CHECK(rig_put_if(g, "k", 100, 3, &same, &entry) == ERR_OK);
    CHECK(rig_put_if(g, "k", 100, 4, &same, &entry) == ERR_PRECONDITION);
    CHECK(rig_get(g, "k", 100, 3) == ERR_OK);
    disks_close(&g->ds);
}

/* One disk becomes three, three become two: nothing is lost, nothing comes back, only a share moves. */
static void
come_and_go(void *arg)
{
    struct rig *g = arg;
    uint8_t id[16];
    bool existed;

    REQUIRE(rig_open(g, 1) == ERR_OK);
    rig_put_all(g, KEYS, 1);
    CHECK(disks_add(g->ds, g->path[1], id, &g->eb) == ERR_OK);
    rig_get_all(g, KEYS, 1);
    list_all(g, 10);
    CHECK(rig_put_if(g, rig_name(3), rig_size(3), 4,
                     &(struct store_condition){.if_absent = true},
                     NULL) == ERR_PRECONDITION);
    CHECK(disks_add(g->ds, g->path[2], id, &g->eb) == ERR_OK);
    rig_put_all(g, KEYS, 5);
    rig_get_all(g, KEYS, 5);
    CHECK(rig_converged(g));
    rig_get_all(g, KEYS, 5);
    list_all(g, 10);
    CHECK_U64(objects_on_all(g, 3), KEYS);
    CHECK(rig_objects_on(g, g->path[2]) > KEYS / 8);

    CHECK(disks_remove(g->ds, g->path[1], false, &g->eb) == ERR_DENIED);
    CHECK_SAYS(g->eb.text, "in use");
    CHECK(disks_drain(g->ds, g->path[1], false, &g->eb) == ERR_OK);
    CHECK(rig_delete(g, rig_name(0), &existed) == ERR_OK && existed);
    CHECK(rig_get(g, rig_name(0), rig_size(0), 5) == ERR_NOT_FOUND);
    CHECK(rig_put(g, rig_name(0), rig_size(0), 5) == ERR_OK);
    rig_get_all(g, KEYS, 5);
    CHECK(rig_converged(g));
    CHECK_U64(rig_objects_on(g, g->path[1]), 0);
    rig_get_all(g, KEYS, 5);
    CHECK(disks_remove(g->ds, g->path[1], false, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
    rig_get_all(g, KEYS, 5);
    list_all(g, 10);
    disks_close(&g->ds);

    CHECK(rig_open(g, 7) == ERR_DENIED); /* the removed one comes back */
    CHECK_SAYS(g->eb.text, "removed");
    REQUIRE(rig_open(g, 5) == ERR_OK);
    rig_get_all(g, KEYS, 5);
    disks_close(&g->ds);
}

/* A restart in the middle of a drain goes on with it. */
static void
drain_over_a_restart(void *arg)
{
    struct rig *g = arg;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    rig_put_all(g, KEYS, 1);
    CHECK(disks_drain(g->ds, g->path[0], false, &g->eb) == ERR_OK);
    disks_close(&g->ds);
    REQUIRE(rig_open(g, 3) == ERR_OK);
    rig_get_all(g, KEYS, 1);
    CHECK(rig_converged(g));
    CHECK_U64(rig_objects_on(g, g->path[0]), 0);
    rig_get_all(g, KEYS, 1);
    CHECK(disks_drain(g->ds, g->path[0], true, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK(rig_objects_on(g, g->path[0]) > KEYS / 8);
    rig_get_all(g, KEYS, 1);
    disks_close(&g->ds);
}

/* With fewer disks than copies some would be taken away and none made: refused, and nothing has changed. */
static void
drain_below_the_copies(void *arg)
{
    struct rig *g = arg;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    rig_put_all(g, KEYS, 1);
    CHECK(disks_drain(g->ds, g->path[0], false, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK(disks_drain(g->ds, g->path[1], false, &g->eb) == ERR_DENIED);
    CHECK_SAYS(g->eb.text, "wants 2 copies, and 1 disk would be left");
    CHECK_U64(rig_objects_on(g, g->path[1]), KEYS);
    CHECK_U64(rig_objects_on(g, g->path[2]), KEYS);
    CHECK(disks_drain(g->ds, g->path[0], true, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK(disks_drain(g->ds, g->path[1], false, &g->eb) == ERR_OK);
    rig_get_all(g, KEYS, 1);
    disks_close(&g->ds);
}

static void
command(const char *fmt, const char *a, const char *b)
{
    char text[700];

    snprintf(text, sizeof text, fmt, a, b);
    CHECK(system(text) == 0);
}

static void
refusals(void *arg)
{
    struct rig *g = arg;
    const char *paths[2] = {g->path[0], g->path[1]};
    unsigned which = 9;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    rig_put_all(g, KEYS, 1);
    disks_close(&g->ds);
    CHECK(disks_find_state(paths, 2, &which, &g->eb) == ERR_OK && which == 0);
    paths[0] = g->path[1];
    paths[1] = g->path[0];
    CHECK(disks_find_state(paths, 2, &which, &g->eb) == ERR_OK && which == 1);
    CHECK(disks_find_state(paths, 1, &which, &g->eb) == ERR_NOT_FOUND);
    CHECK_SAYS(g->eb.text, "none of these disks holds the node's state");

    CHECK(rig_open(g, 1) == ERR_DENIED);
    CHECK_SAYS(g->eb.text, "is missing: name its folder too");
    command("mv '%s' '%s.away'", g->path[1], g->path[1]);
    CHECK(rig_open(g, 3) == ERR_DENIED);
    CHECK_SAYS(g->eb.text, "is its file system not mounted?");
    command("cp -a '%s' '%s'", g->path[0], g->path[1]);
    CHECK(rig_open(g, 3) == ERR_DENIED);
    CHECK_SAYS(g->eb.text, "copy of the other");
}

static void
test_several_disks_are_one(void)
{
    rig_run(several, &(struct rig){.copies = 1});
}
static void
test_conditions_are_judged_by_the_owner(void)
{
    rig_run(conditions, &(struct rig){.copies = 1});
}
static void
test_disks_come_and_go(void)
{
    rig_run(come_and_go, &(struct rig){.copies = 1});
}
#ifdef FB_TEST_HOOKS
/* ---- a disk that leaves between the choice of disks and the question ---- */

static struct rig *left_by;
static bool leaves_the_list; /* else it fails */

static bool
is_on(struct rig *g, const char *key, unsigned slot)
{
    struct disks_key k = rig_key(g, key);
    struct entry entry;

    return disks_lookup(g->ds, &k, &entry, &g->eb) == ERR_OK && entry.place.disk == slot;
}

static void
disk_1_leaves(enum point p)
{
    struct rig *g = left_by;

    if (p != POINT_PLACES_CHOSEN || g == NULL)
        return;
    left_by = NULL;
    if (leaves_the_list)
        CHECK(disks_remove(g->ds, g->path[1], true, &g->eb) == ERR_OK);
    else
        atomic_store(&g->ds->slots[1].state, REPLICA_OUT);
}

/* What was drained is not missed. */
static void
removed_before_it_is_asked(void *arg)
{
    struct rig *g = arg;
    struct disks_key k = rig_key(g, "key-none");
    struct upload_id none = {{{1}}};
    struct arena *a = arena_new(KIB(4), KIB(64));
    struct store_part *parts;
    uint8_t id[16];
    uint32_t count;
    bool more;

    leaves_the_list = true;
    REQUIRE(rig_open(g, 3) == ERR_OK);
    rig_put_all(g, KEYS, 1);
    for (unsigned uploads = 0; uploads < 2; uploads++) {
        CHECK(disks_drain(g->ds, g->path[1], false, &g->eb) == ERR_OK);
        CHECK(rig_converged(g));
        atomic_store(&g->ds->converged, false); /* as when the removal has begun */
        left_by = g;
        if (uploads == 0)
            CHECK(rig_get(g, "key-none", 1, 1) == ERR_NOT_FOUND);
        else
            CHECK(disks_part_list(g->ds, &k, &none, 0, 10, a, &parts, &count, &more,
                                  &g->eb) == ERR_NO_UPLOAD);
        CHECK(left_by == NULL);
        CHECK(rig_converged(g));
        rig_get_all(g, KEYS, 1);
        if (uploads == 0) { /* the next one */
            folder_remove(g->path[1]);
            CHECK(disks_add(g->ds, g->path[1], id, &g->eb) == ERR_OK);
            CHECK(rig_converged(g));
        }
    }
    disks_close(&g->ds);
    arena_free(&a);
}

static void
test_a_disk_that_is_removed_is_not_missed(void)
{
    rt_test_on_point = disk_1_leaves;
    rig_run(removed_before_it_is_asked, &(struct rig){.copies = 1});
    rt_test_on_point = NULL;
}

/* What failed is: no list is short of its keys, and no bucket is empty without it. */
static void
fails_before_it_is_asked(void *arg)
{
    struct rig *g = arg;
    struct arena *a = arena_new(KIB(16), MIB(2));
    struct store_entry *rows;
    uint32_t count;
    bool more, empty;

    leaves_the_list = false;
    REQUIRE(rig_open(g, 3) == ERR_OK);
    rig_put_all(g, KEYS, 1);
    left_by = g;
    CHECK(disks_list(g->ds, RIG_BUCKET, 1, SPAN(""), false, 1000, a, &rows, &count, &more,
                     &g->eb) == ERR_UNAVAILABLE);
    atomic_store(&g->ds->slots[1].state, REPLICA_ACTIVE);
    for (unsigned i = 0; i < KEYS; i++) {
        bool existed;

        if (is_on(g, rig_name(i), 1))
            continue;
        CHECK(rig_delete(g, rig_name(i), &existed) == ERR_OK && existed);
    }
    left_by = g;
    CHECK(disks_bucket_empty(g->ds, RIG_BUCKET, 1, &empty, &g->eb) == ERR_UNAVAILABLE);
    atomic_store(&g->ds->slots[1].state, REPLICA_ACTIVE);
    CHECK(disks_bucket_empty(g->ds, RIG_BUCKET, 1, &empty, &g->eb) == ERR_OK && !empty);
    disks_close(&g->ds);
    arena_free(&a);
}

static void
test_a_disk_that_fails_is_missed(void)
{
    rt_test_on_point = disk_1_leaves;
    rig_run(fails_before_it_is_asked, &(struct rig){.copies = 1});
    rt_test_on_point = NULL;
}
#endif

static void
test_a_drain_goes_on_after_a_restart(void)
{
    rig_run(drain_over_a_restart, &(struct rig){.copies = 1});
}
static void
test_a_drain_below_the_copies_is_refused(void)
{
    rig_run(drain_below_the_copies, &(struct rig){.copies = 2});
}
static void
test_who_is_refused(void)
{
    rig_run(refusals, &(struct rig){.copies = 1});
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_WARN);
    RUN(test_several_disks_are_one);
    RUN(test_conditions_are_judged_by_the_owner);
    RUN(test_disks_come_and_go);
    RUN(test_a_drain_goes_on_after_a_restart);
    RUN(test_a_drain_below_the_copies_is_refused);
    RUN(test_who_is_refused);
#ifdef FB_TEST_HOOKS
    RUN(test_a_disk_that_is_removed_is_not_missed);
    RUN(test_a_disk_that_fails_is_missed);
#endif
    return check_done();
}
