/* Bodies that are received straight into the writer's buffer, alone and mixed with bytes that are copied: what is read is
 * what came, whether the last buffer went to the disk before the commit or with it. Protects I1 and D3. */
#include <errno.h>

#include "world.h"

#include "rt/test_hooks.h"
#include "rt/time.h"

#define MOST (3u * 1024 * 1024 + 777)

static char *data; /* MOST bytes */

enum how { IN_PLACE, IN_PLACE_PUSHED, MIXED, LENT };

static enum err
fill(struct store_writer *w, uint64_t len, enum how how, struct errbuf *eb)
{
    enum err rc = ERR_OK;
    uint64_t at = 0;

    for (unsigned turn = 0; rc == ERR_OK && at < len; turn++) {
        void *to;
        size_t n = store_write_room(w, &to);

        if (n == 0) {
            rc = store_write_flush(w, eb);
            continue;
        }
        n = MIN(n, (size_t)100001); /* no multiple of anything */
        if (how == MIXED && turn % 2 == 1) {
            rc = store_write(w, data + at, n, eb);
        } else {
            memcpy(to, data + at, n);
            store_write_filled(w, n);
        }
        at += n;
    }
    if (rc == ERR_OK && how == IN_PLACE_PUSHED && len > STORE_INLINE_MAX) {
        rc = store_write_flush(w, eb);
        if (rc == ERR_OK)
            rc = store_write_flush(w, eb); /* it is there already */
    }
    return rc;
}

static void
put_and_get(struct store *d, uint64_t len, enum how how)
{
    struct object_meta meta = {.mtime_ms = 1700000000123};
    struct errbuf eb = {0};
    struct store_writer *w = NULL;
    struct store_key k;
    char name[48];
    void *to;

    snprintf(name, sizeof name, "key-%llu-%u", (unsigned long long)len, (unsigned)how);
    k = world_key(7, name);
    CHECK(store_write_begin(d, &k, STORE_NATIVE, len, &w, &eb) == ERR_OK);
    if (how == LENT)
        store_write_zero_copy(w, (struct span){data, len});
    else
        CHECK(fill(w, len, how, &eb) == ERR_OK);
    CHECK_U64(store_written(w), len);
    CHECK_U64(store_write_room(w, &to), 0);
    CHECK(store_write(w, "x", 1, &eb) == ERR_BAD_REQUEST);
    CHECK(store_commit(&w, &meta, NULL, NULL, &eb) == ERR_OK);
    CHECK(world_get(d, name, data, len, 0, len) == ERR_OK);
}

static void
sizes(void *arg)
{
    static const uint64_t all[] = {1,
                                   4096,
                                   65537,
                                   256u << 10,
                                   (256u << 10) + 1,
                                   (1u << 20) - 1,
                                   1u << 20,
                                   (1u << 20) + 4095,
                                   2u << 20,
                                   MOST};
    struct store_options o = world_options();
    struct store *d = NULL;
    struct errbuf eb = {0};

    (void)arg;
    CHECK(store_open(world_path, &o, &d, &eb) == ERR_OK);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        for (enum how how = IN_PLACE; how <= (all[i] <= STORE_INLINE_MAX ? LENT : MIXED);
             how++)
            put_and_get(d, all[i], how);
    store_close(&d);
}

/* One that ends in the middle leaves nothing, also after its bytes went to the disk. */
static void
given_up(void *arg)
{
    struct store_options o = world_options();
    struct store_key k = world_key(7, "gone");
    struct store_writer *w = NULL;
    struct store *d = NULL;
    struct errbuf eb = {0};
    struct entry entry;
    uint64_t used;

    (void)arg;
    CHECK(store_open(world_path, &o, &d, &eb) == ERR_OK);
    CHECK(store_write_begin(d, &k, STORE_NATIVE, MOST, &w, &eb) == ERR_OK);
    CHECK(fill(w, MOST, IN_PLACE_PUSHED, &eb) == ERR_OK);
    store_write_abort(&w);
    used = iobuf_in_use();
    CHECK(store_write_begin(d, &k, STORE_NATIVE, 100, &w, &eb) == ERR_OK);
    store_write_zero_copy(w, (struct span){data, 100});
    CHECK_U64(iobuf_in_use(), used); /* no buffer for what is lent */
    store_write_abort(&w);
    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_NOT_FOUND);
    store_close(&d);
}

static struct store_writer *
begin(struct store *d, const char *name, uint64_t len)
{
    struct store_key k = world_key(7, name);
    struct store_writer *w = NULL;

    CHECK(store_write_begin(d, &k, STORE_NATIVE, len, &w, NULL) == ERR_OK);
    return w;
}

/* `len` bytes from `at` on came. */
static void
take(struct store_writer *w, uint64_t at, size_t len)
{
    void *to;

    CHECK(store_write_room(w, &to) >= len);
    memcpy(to, data + at, len);
    store_write_filled(w, len);
}

/* Writes of the disk that were meant; nothing else writes while a body comes, once the header of its place is there. */
static uint64_t
writes_seen(void)
{
    return atomic_load(&rt_test_io()->seen);
}

static void
wait_for_writes(uint64_t count)
{
    while (writes_seen() < count)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    CHECK_U64(writes_seen(), count);
}

/* What is there of a body goes to the disk while the rest is on its way, in pieces of 256 KiB or more; it is aborted, refused and
 * taken while such a piece is on its way. */
static void
early(void *arg)
{
    const uint64_t len = (1u << 20) + 8192;
    const size_t half = 512u << 10;
    struct rt_test_io *t = rt_test_io();
    struct object_meta meta = {.mtime_ms = 1700000000123};
    struct store_options o = world_options();
    struct errbuf eb = {0};
    struct store *d = NULL;
    struct store_writer *w;
    struct entry entry;
    struct store_key k = world_key(7, "bad");

    (void)arg;
    CHECK(store_open(world_path, &o, &d, &eb) == ERR_OK);
    atomic_store(&t->seen, 0);
    atomic_store(&t->count, 0);
    atomic_store(&t->error, EIO);
    atomic_store(&t->kinds, 1u << RT_IO_WRITE);
    w = begin(d, "slow", len);
    wait_for_writes(2); /* headers: of the first segment, of the place */
    take(w, 0, (256u << 10) - 1);
    CHECK(rt_sleep_ms(20) == ERR_OK);
    CHECK_U64(writes_seen(), 2); /* not a piece yet */
    take(w, (256u << 10) - 1, half - (256u << 10) + 1);
    wait_for_writes(3);
    take(w, half, (1u << 20) - half);
    CHECK(store_write_flush(w, &eb) == ERR_OK);
    CHECK_U64(writes_seen(), 4);
    take(w, 1u << 20, 8192);
    CHECK(store_commit(&w, &meta, NULL, NULL, &eb) == ERR_OK);
    CHECK(world_get(d, "slow", data, len, 0, len) == ERR_OK);

    for (unsigned i = 0; i < 4; i++) {
        atomic_store(&t->seen, 0);
        w = begin(d, "gone", len);
        wait_for_writes(1);
        atomic_store(&t->delay_us, 50000);
        take(w, 0, half);
        if (i < 2)
            rt_yield(); /* one is on its way, and there is enough for another */
        take(w, half, half);
        if (i % 2 == 0)
            store_write_abort(&w);
        else
            CHECK(store_commit(&w, &meta, NULL, NULL, &eb) == ERR_INCOMPLETE);
        CHECK_U64(writes_seen(), i < 2 ? 2 : 1); /* none begins for an unwanted body */
        atomic_store(&t->delay_us, 0);
    }

    atomic_store(&t->seen, 0);
    w = begin(d, "bad", len);
    wait_for_writes(1);
    atomic_store(&t->skip, 1);
    atomic_store(&t->count, 1);
    take(w, 0, half);
    wait_for_writes(2);
    take(w, half, (1u << 20) - half);
    CHECK(store_write_flush(w, &eb) == ERR_IO);
    CHECK(eb.text[0] != '\0');
    CHECK(store_commit(&w, &meta, NULL, NULL, &eb) == ERR_IO);
    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_NOT_FOUND);
    atomic_store(&t->kinds, 0);
    atomic_store(&t->error, 0);
    atomic_store(&t->skip, 0);
    put_and_get(d, len, IN_PLACE);
    store_close(&d);
}

static void
test_bytes_received_in_place(void)
{
    data = xmalloc(MOST);
    world_fill(data, MOST, 3);
    world_run(sizes, NULL);
    world_run(given_up, NULL);
    world_run(early, NULL);
    free(data);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_bytes_received_in_place);
    return check_done();
}
