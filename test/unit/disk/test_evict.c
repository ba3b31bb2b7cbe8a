/* Eviction: the coldest segments of the class cached go, whole and for good; what was read, what is to stay, what has a
 * write of unknown outcome and what is native stays; the space comes back. Power cuts in the middle are sim_disk_space's.
 * Protects D6 and V3 for evictions. */
#include "world_damage.h"

#define OBJECTS 300u
#define SMALL   3000u
#define MIDDLE  (300u << 10)
#define LARGE   (17u << 20)

static char *data; /* LARGE bytes and some */

static const char *
name(unsigned n)
{
    static char text[OBJECTS + 100][32];

    snprintf(text[n], sizeof text[n], "key-%04u", n);
    return text[n];
}

static uint64_t
size_of(unsigned n)
{
    return n % 100 == 99 ? LARGE : n % 10 == 9 ? MIDDLE : SMALL;
}

static void
put(struct disk *d, enum disk_class class, unsigned n)
{
    struct row row;

    CHECK(world_put_class(d, class, name(n), data + n, size_of(n), true, NULL, &row) ==
          ERR_OK);
}

/* Whole and right, or not there. */
static bool
is_here(struct disk *d, unsigned n)
{
    struct disk_key k = world_key(7, name(n));
    struct row row;
    struct errbuf eb = {0};
    enum err rc = disk_lookup(d, &k, &row, &eb);

    if (rc == ERR_NOT_FOUND)
        return false;
    CHECK(rc == ERR_OK);
    CHECK(world_get(d, name(n), data + n, size_of(n), 0, size_of(n)) == ERR_OK);
    return true;
}

static void
read_often(struct disk *d, unsigned n, uint32_t reads)
{
    struct disk_key k = world_key(7, name(n));
    struct row row;
    struct errbuf eb = {0};

    CHECK(disk_lookup(d, &k, &row, &eb) == ERR_OK);
    disk_heat_add(d, &row, reads);
}

static struct disk_evicted
evict(struct disk *d, uint64_t target,
      bool (*keep)(void *, const struct disk_candidate *), void *arg)
{
    struct disk_evict_options o = {.target = target, .keep = keep, .arg = arg};
    struct disk_evicted out;
    struct errbuf eb = {0};

    CHECK(disk_evict(d, &o, &out, &eb) == ERR_OK);
    return out;
}

static uint64_t
used(struct disk *d)
{
    struct disk_stat st;

    disk_stat(d, &st);
    return st.cached_bytes;
}

static void
close_checked(struct disk **dp)
{
    disk_close(dp);
    world_check_sound();
}

static void
fill(struct disk *d)
{
    for (unsigned n = 0; n < OBJECTS; n++)
        put(d, DISK_CACHED, n);
    for (unsigned n = OBJECTS; n < OBJECTS + 20; n++)
        put(d, DISK_NATIVE, n);
}

/* The half that is read stays; the rest goes, and is gone after a start, with and without the index. */
static void
cold_goes(void *arg)
{
    struct disk *d = world_open_small_logs();
    struct disk_evicted out;
    struct errbuf eb = {0};
    uint64_t before;
    unsigned hot = 0;

    (void)arg;
    fill(d);
    CHECK(disk_settle(d, &eb) == ERR_OK);
    out = evict(d, UINT64_MAX, NULL, NULL); /* only looked at */
    CHECK_U64(out.objects, 0);
    CHECK_U64(out.coldest, 0);
    before = out.living;
    for (unsigned n = OBJECTS / 2; n < OBJECTS; n++)
        read_often(d, n, 3);
    out = evict(d, before * 7 / 10, NULL, NULL);
    CHECK(out.objects > 0 && out.living <= before * 7 / 10);
    CHECK(out.living > before * 5 / 10); /* no more than needed, by segments */
    for (unsigned n = OBJECTS / 2; n < OBJECTS; n++)
        hot += is_here(d, n);
    CHECK(hot >= OBJECTS / 2 * 9 / 10); /* one segment has some of both */
    CHECK(disk_compact(d, &eb) == ERR_OK);
    CHECK(used(d) < before * 8 / 10);

    for (int way = 0; way < 2; way++) {
        unsigned again = 0;

        close_checked(&d);
        if (way > 0)
            world_lose_index();
        d = world_open_small_logs();
        for (unsigned n = 0; n < OBJECTS; n++)
            again += is_here(d, n);
        CHECK_U64(again, OBJECTS - out.objects);
        for (unsigned n = OBJECTS; n < OBJECTS + 20; n++)
            CHECK(is_here(d, n));
    }
    out = evict(d, 0, NULL, NULL);
    for (unsigned n = 0; n < OBJECTS + 20; n++)
        CHECK(is_here(d, n) == (n >= OBJECTS));
    CHECK(disk_compact(d, &eb) == ERR_OK);
    CHECK(used(d) < 1u << 20);
    close_checked(&d);
}

static void
test_the_coldest_segments_go(void)
{
    world_run(cold_goes, NULL);
}

static bool
keep_tens(void *arg, const struct disk_candidate *c)
{
    ++*(unsigned *)arg;
    CHECK(c->bucket == 7 && c->heat == 0 && c->row->size > 0);
    return c->key.at[c->key.len - 1] == '0';
}

static void
kept_stays(void *arg)
{
    struct disk *d = world_open_small_logs();
    struct disk_key k = world_key(7, name(11));
    struct disk_evicted out;
    struct errbuf eb = {0};
    struct row row;
    unsigned asked = 0;

    (void)arg;
    fill(d);
    CHECK(disk_doubt(d, &k, &eb) == ERR_OK);
    out = evict(d, 0, keep_tens, &asked);
    CHECK(out.kept >= OBJECTS / 10); /* what compaction moves meanwhile is met twice */
    CHECK_U64(out.objects, OBJECTS - OBJECTS / 10 - 1);
    CHECK(asked >= OBJECTS - 1);
    for (unsigned n = 0; n < OBJECTS; n++)
        CHECK(is_here(d, n) == (n % 10 == 0 || n == 11));
    CHECK(disk_lookup(d, &k, &row, &eb) == ERR_OK && (row.flags & ROW_DOUBT) != 0);
    CHECK(disk_compact(d, &eb) == ERR_OK); /* what stays is moved out of the logs */
    for (unsigned n = 0; n < OBJECTS; n++)
        CHECK(is_here(d, n) == (n % 10 == 0 || n == 11));
    disk_close(
        &d); /* a rebuild knows of the doubt only, not of the object under it: the check would say so */
}

static void
test_what_is_to_stay_stays(void)
{
    world_run(kept_stays, NULL);
}

/* A reader who is inside has all of it, though its segment was evicted and the room given back meanwhile. */
static void
reader_finishes(void *arg)
{
    static const unsigned objects[] = {0, 9, 99};
    struct disk *d = world_open_small_logs();
    struct errbuf eb = {0};

    (void)arg;
    fill(d);
    CHECK(disk_settle(d, &eb) == ERR_OK);
    for (size_t i = 0; i < 3; i++) {
        unsigned n = objects[i];
        struct disk_key k = world_key(7, name(n));
        struct disk_reader *r = NULL;
        struct row row;
        struct span piece;
        uint64_t at = 0;

        if (!is_here(d, n))
            put(d, DISK_CACHED, n);
        CHECK(disk_lookup(d, &k, &row, &eb) == ERR_OK);
        CHECK(disk_read_begin(d, &k, &row, 0, row.size, &r, &eb) == ERR_OK);
        CHECK(disk_read_next(r, DEADLINE_NEVER, &piece, &eb) == ERR_OK);
        (void)evict(d, 0, NULL, NULL);
        CHECK(disk_settle(d, &eb) == ERR_OK);
        CHECK(i < 2 || disk_compact(d, &eb) == ERR_OK);
        CHECK(!is_here(d, n));
        while (piece.len > 0) {
            CHECK(memcmp(piece.at, data + n + at, piece.len) == 0);
            at += piece.len;
            if (disk_read_next(r, DEADLINE_NEVER, &piece, &eb) != ERR_OK)
                break;
        }
        CHECK_U64(at, row.size);
        disk_read_end(&r);
    }
    close_checked(&d);
}

static void
test_a_reader_finishes(void)
{
    world_run(reader_finishes, NULL);
}

/* Reads of two windows count; what was not read since is cold. */
static void
heat_fades(void *arg)
{
    struct disk *d = world_open_small_logs();
    struct errbuf eb = {0};

    (void)arg;
    put(d, DISK_CACHED, 99); /* a segment of its own */
    CHECK(disk_settle(d, &eb) == ERR_OK);
    CHECK_U64(evict(d, UINT64_MAX, NULL, NULL).coldest, 0);
    read_often(d, 99, 3);
    CHECK_U64(evict(d, UINT64_MAX, NULL, NULL).coldest, 3 * 16);
    disk_heat_rotate(d);
    read_often(d, 99, 1);
    CHECK_U64(evict(d, UINT64_MAX, NULL, NULL).coldest, 4 * 16);
    disk_heat_rotate(d);
    CHECK_U64(evict(d, UINT64_MAX, NULL, NULL).coldest, 16);
    disk_heat_rotate(d);
    CHECK_U64(evict(d, UINT64_MAX, NULL, NULL).coldest, 0);
    close_checked(&d);
}

static void
test_heat_fades(void)
{
    world_run(heat_fades, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    data = malloc(LARGE + OBJECTS + 100);
    world_fill(data, LARGE + OBJECTS + 100, 5);
    RUN(test_heat_fades);
    RUN(test_the_coldest_segments_go);
    RUN(test_what_is_to_stay_stays);
    RUN(test_a_reader_finishes);
    free(data);
    return check_done();
}
