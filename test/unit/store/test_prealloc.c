/* The native log that comes next is made before it is needed, written full of zeros, and so is the first one; the full one is
 * followed by it, a start removes an unused one, and what was written over zeros is replayed. Protects D1 beside the
 * speed of durable PUTs. Power cuts while it is made are sim_store's and sim_store_space's. */
#include "store/core/core.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/wal/wal.h"
#include "world.h"

#define BYTES 100000u

static char *data; /* BYTES */

static const char *
name(unsigned n)
{
    static char text[32];

    snprintf(text, sizeof text, "key-%04u", n);
    return text;
}

/* Loose: what is waited for takes milliseconds. */
static struct segment *
spare_of(struct store *d)
{
    while (d->segments->spare[STORE_NATIVE] == NULL)
        CHECK(rt_sleep_ms(10) == ERR_OK);
    CHECK(d->segments->spare[STORE_NATIVE] != NULL);
    return d->segments->spare[STORE_NATIVE];
}

static bool
is_there(uint32_t id)
{
    char path[700];

    snprintf(path, sizeof path, "%s/native/log-%06u.tar", world_path, id);
    return access(path, F_OK) == 0;
}

/* Behind the header there are zeros and nothing else, to the last byte. */
static void
check_zeros(const struct segment *s)
{
    static char bytes[1u << 16];
    char path[700];
    uint64_t at = 4096;
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "%s/native/log-%06u.tar", world_path, s->id);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    while ((n = pread(fd, bytes, sizeof bytes, (off_t)at)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            if (bytes[i] != 0)
                CHECK_U64(at + (uint64_t)i, UINT64_MAX);
        at += (uint64_t)n;
    }
    CHECK_U64(at, s->owner.size);
    close(fd);
}

/* All of its blocks were: none is a hole, or only allocated. */
static void
check_written(const struct segment *s)
{
    char path[700];
    int fd;

    snprintf(path, sizeof path, "%s/native/log-%06u.tar", world_path, s->id);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    CHECK_U64((uint64_t)lseek(fd, 0, SEEK_HOLE), s->owner.size);
    close(fd);
}

static void
follows(void *arg)
{
    struct store *d = world_open(NULL);
    uint32_t first, next, after;
    unsigned count = 0;

    (void)arg;
    check_written(d->wals->of[STORE_NATIVE].now);
    CHECK(world_put(d, name(count++), data, BYTES, NULL) == ERR_OK);
    CHECK(d->segments->spare[STORE_NATIVE] ==
          NULL); /* a log that is hardly used wants none */
    first = d->wals->of[STORE_NATIVE].now->id;
    while (d->wals->of[STORE_NATIVE].now->owner.used <
           d->wals->of[STORE_NATIVE].now->owner.size / 4)
        CHECK(world_put(d, name(count++), data, BYTES, NULL) == ERR_OK);
    next = spare_of(d)->id;
    CHECK(next > first && is_there(next));
    CHECK_U64(spare_of(d)->owner.size, d->wals->of[STORE_NATIVE].now->owner.size);
    CHECK_U64(spare_of(d)->first_batch, 0);
    check_zeros(spare_of(d));

    while (d->wals->of[STORE_NATIVE].now->id == first)
        CHECK(world_put(d, name(count++), data, BYTES, NULL) == ERR_OK);
    CHECK_U64(d->wals->of[STORE_NATIVE].now->id, next);
    while (d->wals->of[STORE_NATIVE].now->owner.used <
           d->wals->of[STORE_NATIVE].now->owner.size / 4)
        CHECK(world_put(d, name(count++), data, BYTES, NULL) == ERR_OK);
    after = spare_of(d)->id;
    CHECK(after != next && is_there(after));
    store_close(&d);

    d = world_open(NULL);
    CHECK(!is_there(after)); /* room, and nothing else */
    for (unsigned i = 0; i < count; i++)
        CHECK(world_get(d, name(i), data, BYTES, 0, BYTES) == ERR_OK);
    CHECK_U64(d->wals->of[STORE_NATIVE].now->id, next);
    store_close(&d);
}

static void
test_the_next_log_is_ready(void)
{
    data = xmalloc(BYTES);
    world_fill(data, BYTES, 1);
    world_run(follows, NULL);
    free(data);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_the_next_log_is_ready);
    return check_done();
}
