/* Calls that end or change one upload with copies, at the same time: whatever their order, the upload is completed or
 * aborted on all of its disks, before and after a restart. Protects D1. */
#include "rig.h"

#include "disks/internal.h"
#include <assert.h>

#define ROUNDS 60u
#define RACERS 4u
#define SIZE   300000u

struct race {
    struct rig *g;
    struct disks_key key;
    struct upload_id upload;
    struct store_part *parts;
    uint32_t count;
    unsigned next, abort_first;
    enum err rc[RACERS];
    struct errbuf eb[RACERS];
};

static const struct object_meta meta = {.mtime_ms = 5};

static enum err
part_send(struct race *r, uint32_t number, char fill)
{
    struct disks_writer *w = NULL;
    struct errbuf eb = {{0}};
    struct object_meta of = meta;
    char *data = xmalloc(SIZE);
    enum err rc = disks_part_begin(r->g->ds, &r->key, &r->upload, number, SIZE, &w, &eb);

    memset(data, fill, SIZE);
    digest_oneshot(DIGEST_MD5, data, SIZE, of.md5);
    if (rc == ERR_OK)
        rc = disks_write(w, data, SIZE, &eb);
    if (rc == ERR_OK)
        rc = disks_part_commit(&w, &of, &eb);
    disks_write_abort(&w);
    free(data);
    return rc;
}

static void
race_begin(struct race *r, struct rig *g, unsigned round, char text[24], struct arena *a)
{
    bool more;

    snprintf(text, 24, "key-%u", round);
    *r = (struct race){.g = g, .key = rig_key(g, text)};
    REQUIRE(disks_upload_begin(g->ds, &r->key, &meta, &r->upload, &g->eb) == ERR_OK);
    CHECK(part_send(r, 1, 'a') == ERR_OK);
    CHECK(disks_part_list(g->ds, &r->key, &r->upload, 0, 10, a, &r->parts, &r->count,
                          &more, &g->eb) == ERR_OK);
    REQUIRE(r->count == 1);
}

static enum err
complete(struct race *r, struct errbuf *eb)
{
    struct entry entry;

    return disks_upload_complete(r->g->ds, &r->key, &r->upload, r->parts, r->count, &meta,
                                 NULL, &entry, eb);
}

static void
racer(void *arg)
{
    struct race *r = arg;
    unsigned n = r->next++;

    assert(n < RACERS);
    r->rc[n] = n % 2 == r->abort_first
                   ? complete(r, &r->eb[n])
                   : disks_upload_abort(r->g->ds, &r->key, &r->upload, &r->eb[n]);
}

static uint32_t
open_uploads(struct rig *g)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct store_upload *found;
    uint32_t count = 0;
    bool more;

    CHECK(disks_upload_list(g->ds, RIG_BUCKET, g->copies, SPAN(""), NULL, 100, a, &found,
                            &count, &more, &g->eb) == ERR_OK);
    arena_free(&a);
    return count;
}

/* Either completed or aborted: every answer says so, and on all disks it has ended. */
static bool
race_check(struct race *r)
{
    struct entry entry;
    bool there = disks_lookup(r->g->ds, &r->key, &entry, &r->g->eb) == ERR_OK;

    for (unsigned n = 0; n < RACERS; n++) {
        bool right = r->rc[n] == ERR_OK ? there == (n % 2 == r->abort_first)
                                        : r->rc[n] == ERR_NO_UPLOAD;

        if (!right)
            fprintf(stderr, "racer %u: %s: %s (%s)\n", n, err_name(r->rc[n]),
                    r->eb[n].text, there ? "completed" : "aborted");
        CHECK(right);
    }
    CHECK(complete(r, &r->g->eb) == (there ? ERR_OK : ERR_NO_UPLOAD));
    CHECK(disks_upload_abort(r->g->ds, &r->key, &r->upload, &r->g->eb) == ERR_NO_UPLOAD);
    CHECK_U64(open_uploads(r->g), 0);
    return there;
}

static void
complete_and_abort(void *arg)
{
    struct rig *g = arg;
    unsigned completed = 0;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    CHECK(rig_converged(g));
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct arena *a = arena_new(KIB(16), MIB(1));
        struct rt_group racers;
        struct race r;
        char text[24];

        race_begin(&r, g, round, text, a);
        r.abort_first = round % 2;
        rt_group_begin(&racers);
        for (unsigned n = 0; n < RACERS; n++)
            CHECK(rt_group_start(&racers, racer, &r) == ERR_OK);
        rt_group_join(&racers);
        completed += race_check(&r);
        arena_free(&a);
    }
    fprintf(stderr, "%u of %u rounds completed\n", completed, ROUNDS);
    disks_close(&g->ds);
    REQUIRE(rig_open(g, 7) == ERR_OK);
    CHECK_U64(open_uploads(g), 0);
    disks_close(&g->ds);
}

/* ---- the same part, twice at a time ---- */

static void
same_part(void *arg)
{
    struct race *r = arg;
    unsigned n = r->next++;

    r->rc[n] = part_send(r, 1, (char)('a' + (int)n));
}

static void
parts_of_one_number(void *arg)
{
    struct rig *g = arg;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    CHECK(rig_converged(g));
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct arena *a = arena_new(KIB(16), MIB(1));
        struct rt_group racers;
        struct race r;
        char text[24];
        bool more;

        race_begin(&r, g, round, text, a);
        rt_group_begin(&racers);
        for (unsigned n = 0; n < RACERS; n++)
            CHECK(rt_group_start(&racers, same_part, &r) == ERR_OK);
        rt_group_join(&racers);
        for (unsigned n = 0; n < RACERS; n++)
            CHECK(r.rc[n] == ERR_OK);
        CHECK(disks_part_list(g->ds, &r.key, &r.upload, 0, 10, a, &r.parts, &r.count,
                              &more, &g->eb) == ERR_OK);
        if (complete(&r, &g->eb) != ERR_OK)
            CHECK_STR(g->eb.text, "a completed upload");
        arena_free(&a);
    }
    CHECK_U64(open_uploads(g), 0);
    disks_close(&g->ds);
}

static void
test_complete_racing_abort(void)
{
    rig_run(complete_and_abort, &(struct rig){.copies = 2});
}
static void
test_a_part_racing_itself(void)
{
    rig_run(parts_of_one_number, &(struct rig){.copies = 2});
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_complete_racing_abort);
    RUN(test_a_part_racing_itself);
    return check_done();
}
