/* A native log whose header and first batch are damaged: all that its other batches say is read, by a start and by a rebuild; what
 * lies in it from a former life stays away. Protects I5. */
#include "base/mem.h"
#include "findings.h"
#include "store/core/core.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_rescue.h"
#include "store/store_space.h"
#include "store/store_write.h"
#include "store/wal/wal.h"
#include "world_damage.h"

static char *data;

#define FILLER (200u << 10) /* five of these fill a log of 1 MiB */

static const struct segment *
log_now(const struct store *d)
{
    return d->wals->of[STORE_NATIVE].now;
}

/* Numbered objects until the next log is begun, and one more; how many there are. */
static unsigned
fill_log(struct store *d, unsigned from)
{
    const struct segment *was = log_now(d);
    struct entry entry;
    char key[20];

    do {
        snprintf(key, sizeof key, "f%02u", from++);
        CHECK(world_put(d, key, data, FILLER, &entry) == ERR_OK);
    } while (log_now(d) == was);
    return from;
}

/* Header and the first bytes of the first batch. */
static void
destroy_head(uint32_t log, bool zeros)
{
    char name[40], block[4096];
    int fd;

    snprintf(name, sizeof name, "native/log-%06u.tar", (unsigned)log);
    world_flip_at(world_file("%s", name), 600);
    fd = world_file("%s", name);
    memset(block, zeros ? 0 : 0x55, sizeof block);
    CHECK(pwrite(fd, block, sizeof block, 4096) == (ssize_t)sizeof block);
    close(fd);
}

/* Which of these objects are there, whole. */
static unsigned
count_good(struct store *d, unsigned count)
{
    unsigned good = 0;

    for (unsigned i = 0; i < count; i++) {
        char key[20];

        snprintf(key, sizeof key, "f%02u", i);
        good += world_get_damaged(d, key, data, FILLER) == ERR_OK;
    }
    return good;
}

/* Of three logs one loses both: only what its first batch said is lost, with the index and without. */
static void
headless(void *arg)
{
    const unsigned which = *(const unsigned *)arg;
    struct store_rebuild_options o = {.from_bodies = false};
    struct store *d = world_open_small_logs();
    struct store_rebuilt rebuilt;
    struct store_checked c;
    struct errbuf eb = {0};
    struct entry entry;
    uint32_t logs[3];
    unsigned count = 0;

    for (unsigned i = 0; i < 3; i++) {
        CHECK(world_put(d, "first", data, 10, &entry) == ERR_OK);
        logs[i] = log_now(d)->id;
        count = fill_log(d, count);
    }
    CHECK(store_flush(d, &eb) == ERR_OK);
    store_close(&d);
    destroy_head(logs[which], false);
    CHECK(check(&c).count > 0 || c.faults > 0);
    d = world_open_small_logs(); /* the index has it all */
    CHECK(count_good(d, count) >= count - 1);
    store_close(&d);
    CHECK(store_rebuild(world_path, &o, &rebuilt, &eb) == ERR_OK);
    CHECK(rebuilt.wal_damaged);
    d = world_open_small_logs();
    CHECK(count_good(d, count) >= count - 1);
    CHECK(world_put(d, "later", data, 5000, &entry) == ERR_OK);
    store_close(&d);
    world_lose_index();
    d = world_open_small_logs();
    CHECK(count_good(d, count) >= count - 1 &&
          world_get_damaged(d, "later", data, 5000) == ERR_OK);
    store_close(&d);
}

static void
test_a_log_without_its_head(void)
{
    for (unsigned which = 0; which < 3; which++)
        world_run(headless, &which);
}

/* A log that was used again: what stands behind its lost head is of its former life, and stays away. */
static void
headless_again(void *arg)
{
    struct store_rebuild_options o = {.from_bodies = false};
    struct store *d = world_open_small_logs();
    struct store_key old = world_key(7, "old");
    struct store_rebuilt rebuilt;
    struct errbuf eb = {0};
    struct prealloc *ahead = d->prealloc;
    struct entry entry;
    uint32_t first;
    unsigned count;
    bool existed;

    d->prealloc = NULL; /* none is made ahead: the log that goes is the one used next */
    CHECK(world_put(d, "before", data, 3000, &entry) == ERR_OK);
    CHECK(world_put(d, "old", data, 3000, &entry) == ERR_OK);
    first = log_now(d)->id;
    count = fill_log(d, 0);
    CHECK(store_delete(d, &old, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK && existed);
    for (unsigned i = 0; i + 1 < count; i++) {
        char key[20];
        struct store_key k;

        snprintf(key, sizeof key, "f%02u", i);
        k = world_key(7, key);
        CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK);
    }
    CHECK(store_flush(d, &eb) == ERR_OK);
    segment_drop_spare(d, STORE_NATIVE);
    CHECK(store_compact(d, &eb) == ERR_OK);
    count = fill_log(d, count);
    REQUIRE(log_now(d)->id == first && log_now(d)->generation > 1);
    d->prealloc = ahead;
    store_close(&d);
    destroy_head(first, arg != NULL);
    CHECK(store_rebuild(world_path, &o, &rebuilt, &eb) == ERR_OK);
    d = world_open_small_logs();
    CHECK(store_lookup(d, &old, &entry, &eb) == ERR_NOT_FOUND);
    CHECK(world_get_damaged(d, "before", data, 3000) == ERR_OK);
    store_close(&d);
}

static void
test_a_lost_head_brings_no_former_life_back(void)
{
    bool zeros = true;

    world_run(headless_again, NULL);
    world_run(headless_again, &zeros);
}

int
main(int argc, char **argv)
{
    log_set_level(getenv("V") != NULL ? LOG_DEBUG : LOG_ERROR + 1);
    data = xmalloc(FILLER);
    world_fill(data, FILLER, 7);
    CHECK_MAIN(argc, argv);
    RUN(test_a_log_without_its_head);
    RUN(test_a_lost_head_brings_no_former_life_back);
    free(data);
    return check_done();
}
