/* Bodies that are received straight into the writer's buffer, alone and mixed with bytes that are copied: what is read is
 * what came, whether the last buffer went to the disk before the commit or with it. Protects I1 and D3. */
#include "world.h"

#define MOST (3u * 1024 * 1024 + 777)

static char *data; /* MOST bytes */

enum how { IN_PLACE, IN_PLACE_PUSHED, MIXED, LENT };

static enum err
fill(struct disk_writer *w, uint64_t len, enum how how, struct errbuf *eb)
{
    enum err rc = ERR_OK;
    uint64_t at = 0;

    for (unsigned turn = 0; rc == ERR_OK && at < len; turn++) {
        void *to;
        size_t n = disk_write_room(w, &to);

        if (n == 0) {
            rc = disk_write_flush(w, eb);
            continue;
        }
        n = MIN(n, (size_t)100001); /* no multiple of anything */
        if (how == MIXED && turn % 2 == 1) {
            rc = disk_write(w, data + at, n, eb);
        } else {
            memcpy(to, data + at, n);
            disk_write_filled(w, n);
        }
        at += n;
    }
    if (rc == ERR_OK && how == IN_PLACE_PUSHED && len > DISK_INLINE_MAX) {
        rc = disk_write_flush(w, eb);
        if (rc == ERR_OK)
            rc = disk_write_flush(w, eb); /* it is there already */
    }
    return rc;
}

static void
put_and_get(struct disk *d, uint64_t len, enum how how)
{
    struct object_meta meta = {.mtime_ms = 1700000000123};
    struct errbuf eb = {0};
    struct disk_writer *w = NULL;
    struct disk_key k;
    char name[48];
    void *to;

    snprintf(name, sizeof name, "key-%llu-%u", (unsigned long long)len, (unsigned)how);
    k = world_key(7, name);
    CHECK(disk_write_begin(d, &k, DISK_NATIVE, len, &w, &eb) == ERR_OK);
    if (how == LENT)
        disk_write_lend(w, (struct span){data, len});
    else
        CHECK(fill(w, len, how, &eb) == ERR_OK);
    CHECK_U64(disk_written(w), len);
    CHECK_U64(disk_write_room(w, &to), 0);
    CHECK(disk_write(w, "x", 1, &eb) == ERR_BAD_REQUEST);
    CHECK(disk_commit(&w, &meta, NULL, NULL, &eb) == ERR_OK);
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
    struct disk_options o = world_options();
    struct disk *d = NULL;
    struct errbuf eb = {0};

    (void)arg;
    CHECK(disk_open(world_path, &o, &d, &eb) == ERR_OK);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        for (enum how how = IN_PLACE; how <= (all[i] <= DISK_INLINE_MAX ? LENT : MIXED);
             how++)
            put_and_get(d, all[i], how);
    disk_close(&d);
}

/* One that ends in the middle leaves nothing, also after its bytes went to the disk. */
static void
given_up(void *arg)
{
    struct disk_options o = world_options();
    struct disk_key k = world_key(7, "gone");
    struct disk_writer *w = NULL;
    struct disk *d = NULL;
    struct errbuf eb = {0};
    struct row row;
    uint64_t used;

    (void)arg;
    CHECK(disk_open(world_path, &o, &d, &eb) == ERR_OK);
    CHECK(disk_write_begin(d, &k, DISK_NATIVE, MOST, &w, &eb) == ERR_OK);
    CHECK(fill(w, MOST, IN_PLACE_PUSHED, &eb) == ERR_OK);
    disk_write_abort(&w);
    used = iobuf_in_use();
    CHECK(disk_write_begin(d, &k, DISK_NATIVE, 100, &w, &eb) == ERR_OK);
    disk_write_lend(w, (struct span){data, 100});
    CHECK_U64(iobuf_in_use(), used); /* no buffer for what is lent */
    disk_write_abort(&w);
    CHECK(disk_lookup(d, &k, &row, &eb) == ERR_NOT_FOUND);
    disk_close(&d);
}

static void
test_bytes_received_in_place(void)
{
    data = xmalloc(MOST);
    world_fill(data, MOST, 3);
    world_run(sizes, NULL);
    world_run(given_up, NULL);
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
