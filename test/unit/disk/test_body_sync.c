/* Bodies of a segment that end together are made durable by one sync, and their records by one group: who is ready first waits a moment
 * for the last writes of the others, and for nothing that begins later. Protects D1 beside the speed of large PUTs. */
#include "world.h"

#include "disk/internal.h"
#include "rt/test_hooks.h"

#define BODIES 8u
#define BYTES  300000u

static char *data; /* BYTES */

struct put {
    struct disk *disk;
    struct disk_writer *writer;
    char name[16];
};

static void
begin(struct disk *d, struct put *p, unsigned n)
{
    struct errbuf eb = {0};
    struct disk_key k;

    p->disk = d;
    snprintf(p->name, sizeof p->name, "body-%u", n);
    k = world_key(7, p->name);
    REQUIRE(disk_write_begin(d, &k, DISK_NATIVE, BYTES, &p->writer, &eb) == ERR_OK);
    REQUIRE(disk_write(p->writer, data, BYTES, &eb) == ERR_OK);
    REQUIRE(disk_write_flush(p->writer, &eb) == ERR_OK);
}

static void
commit(void *arg)
{
    struct put *p = arg;
    struct object_meta meta = {.mtime_ms = 1700000000123};
    struct errbuf eb = {0};

    CHECK(disk_commit(&p->writer, &meta, NULL, NULL, &eb) == ERR_OK);
}

/* Syncs of this disk from now on. */
static void
count_syncs(void)
{
    struct rt_test_io *t = rt_test_io();

    atomic_store(&t->seen, 0);
    atomic_store(&t->kinds, 1u << RT_IO_SYNC);
}

static uint64_t
counted(void)
{
    uint64_t count = atomic_load(&rt_test_io()->seen);

    atomic_store(&rt_test_io()->kinds, 0);
    return count;
}

static void
together(void *arg)
{
    struct put puts[BODIES], last;
    struct disk *d = world_open(NULL);
    struct rt_group group;
    uint64_t groups;

    (void)arg;
    begin(d, &last, BODIES); /* the last place of a segment is sealed alone */
    commit(&last);
    for (unsigned i = 0; i < BODIES; i++)
        begin(d, &puts[i], i);
    begin(d, &last, BODIES + 1);
    groups = d->home.log[DISK_NATIVE].next_group;
    count_syncs();
    rt_group_begin(&group);
    for (unsigned i = 0; i < BODIES; i++)
        REQUIRE(rt_group_start(&group, commit, &puts[i]) == ERR_OK);
    rt_group_join(&group);
    CHECK_U64(counted(), 2); /* of the segment, of the log */
    CHECK_U64(d->home.log[DISK_NATIVE].next_group, groups + 1);
    commit(&last);
    for (unsigned i = 0; i < BODIES; i++)
        CHECK(world_get(d, puts[i].name, data, BYTES, 0, BYTES) == ERR_OK);
    disk_close(&d);
    world_check_sound();
}

static void
test_bodies_that_end_together_share_a_sync(void)
{
    data = xmalloc(BYTES);
    world_fill(data, BYTES, 5);
    world_run(together, NULL);
    free(data);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_bodies_that_end_together_share_a_sync);
    return check_done();
}
