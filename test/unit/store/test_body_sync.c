/* Bodies of a segment that end together are made durable by one sync, and their records by one batch: who is ready first waits a moment
 * for the last writes of the others, and for nothing that begins later. Protects D1 beside the speed of large PUTs. */
#include "world.h"

#include "rt/test_hooks.h"
#include "store/core/core.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_write.h"
#include "store/wal/wal.h"

#define BODIES 8u
#define BYTES  300000u

static char *data; /* BYTES */

struct put {
    struct store *disk;
    struct store_writer *writer;
    char name[16];
};

static void
begin(struct store *d, struct put *p, unsigned n)
{
    struct errbuf eb = {0};
    struct store_key k;

    p->disk = d;
    snprintf(p->name, sizeof p->name, "body-%u", n);
    k = world_key(7, p->name);
    REQUIRE(store_write_begin(d, &k, STORE_NATIVE, BYTES, &p->writer, &eb) == ERR_OK);
    REQUIRE(store_write(p->writer, data, BYTES, &eb) == ERR_OK);
    REQUIRE(store_write_flush(p->writer, &eb) == ERR_OK);
}

static void
commit(void *arg)
{
    struct put *p = arg;
    struct object_meta meta = {.mtime_ms = 1700000000123};
    struct errbuf eb = {0};

    CHECK(store_commit(&p->writer, &meta, NULL, NULL, &eb) == ERR_OK);
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
    struct store *d = world_open(NULL);
    struct rt_group batch;
    uint64_t batches;

    (void)arg;
    begin(d, &last, BODIES); /* the last place of a segment is sealed alone */
    commit(&last);
    for (unsigned i = 0; i < BODIES; i++)
        begin(d, &puts[i], i);
    begin(d, &last, BODIES + 1);
    batches = d->wals->of[STORE_NATIVE].next_batch;
    count_syncs();
    rt_group_begin(&batch);
    for (unsigned i = 0; i < BODIES; i++)
        REQUIRE(rt_group_start(&batch, commit, &puts[i]) == ERR_OK);
    rt_group_join(&batch);
    CHECK_U64(counted(), 2); /* of the segment, of the log */
    CHECK_U64(d->wals->of[STORE_NATIVE].next_batch, batches + 1);
    commit(&last);
    for (unsigned i = 0; i < BODIES; i++)
        CHECK(world_get(d, puts[i].name, data, BYTES, 0, BYTES) == ERR_OK);
    store_close(&d);
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
