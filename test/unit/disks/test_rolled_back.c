/* A disk of several that is rolled back to an older snapshot does not answer: no older version, no deleted object and no
 * false "not found" comes of it. The others have its copies. Protects D1 and D4. */
#include "rig.h"

#include "disks/internal.h"
#include "store/store_rescue.h"

#define OBJECTS 24u

static void
folder_copy(const char *from, const char *to)
{
    char command[700];

    snprintf(command, sizeof command, "rm -rf '%s' && cp -a '%s' '%s'", to, from, to);
    CHECK(system(command) == 0);
}

static void
snapshot_of(struct rig *g, unsigned disk, char out[300])
{
    snprintf(out, 300, "%s/snapshot", g->base);
    folder_copy(g->path[disk], out);
}

/* Objects 0 to 7 are overwritten, 8 to 15 deleted, 24 to 31 new; the rest stays. */
static void
change_them(struct rig *g)
{
    bool existed;

    for (unsigned i = 0; i < 8; i++)
        CHECK(rig_put(g, rig_name(i), rig_size(i), 1000 + i) == ERR_OK);
    for (unsigned i = 8; i < 16; i++)
        CHECK(rig_delete(g, rig_name(i), &existed) == ERR_OK && existed);
    for (unsigned i = OBJECTS; i < OBJECTS + 8; i++)
        CHECK(rig_put(g, rig_name(i), rig_size(i), 1000 + i) == ERR_OK);
}

static void
check_them(struct rig *g)
{
    for (unsigned i = 0; i < OBJECTS + 8; i++) {
        uint64_t seed = (i < 8 || i >= OBJECTS ? 1000 : 1) + i;
        enum err rc = rig_get(g, rig_name(i), rig_size(i), seed);
        enum err wanted = i >= 8 && i < 16 ? ERR_NOT_FOUND : ERR_OK;

        if (rc != wanted)
            fprintf(stderr, "%s: %s: %s\n", rig_name(i), err_name(rc), g->eb.text);
        CHECK(rc == wanted);
    }
}

static bool
is_out(struct rig *g, const char *path)
{
    struct disks_status *st = xcalloc(1, sizeof *st);
    bool out = false;

    disks_status(g->ds, st);
    for (unsigned i = 0; i < st->count; i++)
        if (strcmp(st->disks[i].path, path) == 0)
            out = g->ds->slots[i].at.store == NULL;
    free(st);
    return out;
}

/* `live`: the snapshot is made while the disk is served, as a volume manager would. */
static void
with_copies(struct rig *g, bool live)
{
    char snapshot[300], command[300];

    REQUIRE(rig_open(g, 7) == ERR_OK);
    CHECK(rig_converged(g));
    rig_put_all(g, OBJECTS, 1);
    if (live) {
        CHECK(disks_flush(g->ds, &g->eb) == ERR_OK);
        snapshot_of(g, 1, snapshot);
    } else {
        disks_close(&g->ds);
        snapshot_of(g, 1, snapshot);
        REQUIRE(rig_open(g, 7) == ERR_OK);
        CHECK(rig_converged(g));
    }
    change_them(g);
    disks_close(&g->ds);

    folder_copy(snapshot, g->path[1]);
    for (unsigned start = 0; start < 2; start++) { /* it stays out, start after start */
        REQUIRE(rig_open(g, 7) == ERR_OK);
        CHECK(is_out(g, g->path[1]));
        check_them(g);
        CHECK(rig_converged(g));
        check_them(g);
        disks_close(&g->ds);
    }
    /* Emptied it is a new disk, and catches up before it answers. */
    snprintf(command, sizeof command, "rm -rf '%s'", g->path[1]);
    CHECK(system(command) == 0);
    REQUIRE(rig_open(g, 7) == ERR_OK);
    check_them(g);
    CHECK(rig_converged(g));
    check_them(g);
    CHECK(rig_objects_on(g, g->path[1]) > 0);
    disks_close(&g->ds);
}

static void
while_closed(void *arg)
{
    with_copies(arg, false);
}

static void
while_served(void *arg)
{
    with_copies(arg, true);
}

/* What only that disk had is an error, not "not found" and not what it was before. */
static void
the_only_copy(void *arg)
{
    struct rig *g = arg;
    char snapshot[300];
    unsigned lost = 0;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    CHECK(rig_converged(g));
    rig_put_all(g, OBJECTS, 1);
    disks_close(&g->ds);
    snapshot_of(g, 1, snapshot);
    REQUIRE(rig_open(g, 7) == ERR_OK);
    CHECK(rig_converged(g));
    change_them(g);
    disks_close(&g->ds);
    folder_copy(snapshot, g->path[1]);

    REQUIRE(rig_open(g, 7) == ERR_OK);
    for (unsigned i = 0; i < OBJECTS + 8; i++) {
        uint64_t seed = (i < 8 || i >= OBJECTS ? 1000 : 1) + i;
        enum err rc = rig_get(g, rig_name(i), rig_size(i), seed);

        lost += rc == ERR_UNAVAILABLE;
        CHECK(rc == ERR_UNAVAILABLE || rc == (i >= 8 && i < 16 ? ERR_NOT_FOUND : ERR_OK));
    }
    CHECK(lost > 0 && lost < OBJECTS);
    disks_close(&g->ds);
}

/* The disk with the node's state does not go out by itself: the sentence says what to do. */
static void
with_the_state(void *arg)
{
    struct rig *g = arg;
    char snapshot[300];

    REQUIRE(rig_open(g, 7) == ERR_OK);
    disks_close(&g->ds);
    snapshot_of(g, 0, snapshot);
    REQUIRE(rig_open(g, 7) == ERR_OK);
    disks_close(&g->ds);
    folder_copy(snapshot, g->path[0]);
    CHECK(rig_open(g, 7) == ERR_DENIED);
    CHECK_SAYS(g->eb.text, "was rolled back to a snapshot");
    CHECK_SAYS(g->eb.text, "--without");
}

/* A superblock that was rebuilt from the segments begins to count again: no roll-back. */
static void
rebuilt_is_not_rolled_back(void *arg)
{
    struct store_rebuild_options o = {.superblock_only = true};
    struct store_rebuilt rebuilt;
    struct rig *g = arg;
    char path[300];

    for (unsigned start = 0; start < 3; start++) {
        REQUIRE(rig_open(g, 7) == ERR_OK);
        CHECK(rig_converged(g));
        rig_put_all(g, OBJECTS, 1 + start);
        disks_close(&g->ds);
    }
    snprintf(path, sizeof path, "%s/.forebay/superblock", g->path[1]);
    CHECK(unlink(path) == 0);
    snprintf(path, sizeof path, "%s/.forebay/superblock.2", g->path[1]);
    CHECK(unlink(path) == 0);
    CHECK(store_rebuild(g->path[1], &o, &rebuilt, &g->eb) == ERR_OK);
    for (unsigned start = 0; start < 2; start++) {
        REQUIRE(rig_open(g, 7) == ERR_OK);
        CHECK(!is_out(g, g->path[1]));
        rig_get_all(g, OBJECTS, 3);
        disks_close(&g->ds);
    }
}

static void
test_a_snapshot_made_between_two_starts(void)
{
    rig_run(while_closed, &(struct rig){.copies = 2});
}
static void
test_a_snapshot_made_while_it_was_served(void)
{
    rig_run(while_served, &(struct rig){.copies = 2});
}
static void
test_what_only_it_had_is_an_error(void)
{
    rig_run(the_only_copy, &(struct rig){.copies = 1});
}
static void
test_the_disk_with_the_state(void)
{
    rig_run(with_the_state, &(struct rig){.copies = 2});
}
static void
test_a_rebuilt_superblock(void)
{
    rig_run(rebuilt_is_not_rolled_back, &(struct rig){.copies = 2});
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_a_snapshot_made_between_two_starts);
    RUN(test_a_snapshot_made_while_it_was_served);
    RUN(test_what_only_it_had_is_an_error);
    RUN(test_the_disk_with_the_state);
    RUN(test_a_rebuilt_superblock);
    return check_done();
}
