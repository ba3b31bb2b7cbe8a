/* Eviction: the coldest segments of the class cached go, whole and for good; what was read, what is to stay, what has a
 * write of unknown outcome and what is native stays; the space comes back. Power cuts in the middle are sim_store_space's.
 * Protects D11 and V3 for evictions. */
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
put(struct store *d, enum store_class class, unsigned n)
{
    struct entry entry;

    CHECK(world_put_class(d, class, name(n), data + n, size_of(n), true, NULL, &entry) ==
          ERR_OK);
}

/* Whole and right, or not there. */
static bool
is_here(struct store *d, unsigned n)
{
    struct store_key k = world_key(7, name(n));
    struct entry entry;
    struct errbuf eb = {0};
    enum err rc = store_lookup(d, &k, &entry, &eb);

    if (rc == ERR_NOT_FOUND)
        return false;
    CHECK(rc == ERR_OK);
    CHECK(world_get(d, name(n), data + n, size_of(n), 0, size_of(n)) == ERR_OK);
    return true;
}

static void
read_often(struct store *d, unsigned n, uint32_t reads)
{
    struct store_key k = world_key(7, name(n));
    struct entry entry;
    struct errbuf eb = {0};

    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK);
    store_access_freq_add(d, &entry, reads);
}

static struct store_evicted
evict(struct store *d, uint64_t target,
      bool (*keep)(void *, const struct store_candidate *), void *arg)
{
    struct store_evict_options o = {.target = target, .keep = keep, .arg = arg};
    struct store_evicted out;
    struct errbuf eb = {0};

    CHECK(store_evict(d, &o, &out, &eb) == ERR_OK);
    return out;
}

static uint64_t
used(struct store *d)
{
    struct store_stat st;

    store_stat(d, &st);
    return st.cached_bytes;
}

static void
close_checked(struct store **dp)
{
    store_close(dp);
    world_check_sound();
}

static void
fill(struct store *d)
{
    for (unsigned n = 0; n < OBJECTS; n++)
        put(d, STORE_CACHED, n);
    for (unsigned n = OBJECTS; n < OBJECTS + 20; n++)
        put(d, STORE_NATIVE, n);
}

/* The half that is read stays; the rest goes, and is gone after a start, with and without the index. */
static void
cold_goes(void *arg)
{
    struct store *d = world_open_small_logs();
    struct store_evicted out;
    struct errbuf eb = {0};
    uint64_t before;
    unsigned hot = 0;

    (void)arg;
    fill(d);
    CHECK(store_flush(d, &eb) == ERR_OK);
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
    CHECK(store_compact(d, &eb) == ERR_OK);
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
    CHECK(store_compact(d, &eb) == ERR_OK);
    CHECK(used(d) < 1u << 20);
    close_checked(&d);
}

static void
test_the_coldest_segments_go(void)
{
    world_run(cold_goes, NULL);
}

static bool
keep_tens(void *arg, const struct store_candidate *c)
{
    ++*(unsigned *)arg;
    CHECK(c->bucket == 7 && c->access_freq == 0 && c->entry->size > 0);
    return c->key.at[c->key.len - 1] == '0';
}

static void
kept_stays(void *arg)
{
    struct store *d = world_open_small_logs();
    struct store_key k = world_key(7, name(11));
    struct store_evicted out;
    struct errbuf eb = {0};
    struct entry entry;
    unsigned asked = 0;

    (void)arg;
    fill(d);
    CHECK(store_in_doubt_begin(d, &k, &eb) == ERR_OK);
    out = evict(d, 0, keep_tens, &asked);
    CHECK(out.kept >= OBJECTS / 10); /* what compaction moves meanwhile is met twice */
    CHECK_U64(out.objects, OBJECTS - OBJECTS / 10 - 1);
    CHECK(asked >= OBJECTS - 1);
    for (unsigned n = 0; n < OBJECTS; n++)
        CHECK(is_here(d, n) == (n % 10 == 0 || n == 11));
    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK &&
          (entry.flags & ENTRY_IN_DOUBT) != 0);
    CHECK(store_compact(d, &eb) == ERR_OK); /* what stays is moved out of the logs */
    for (unsigned n = 0; n < OBJECTS; n++)
        CHECK(is_here(d, n) == (n % 10 == 0 || n == 11));
    store_close(
        &d); /* a rebuild knows of the in-doubt record only, not of the object under it: the check would say so */
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
    struct store *d = world_open_small_logs();
    struct errbuf eb = {0};

    (void)arg;
    fill(d);
    CHECK(store_flush(d, &eb) == ERR_OK);
    for (size_t i = 0; i < 3; i++) {
        unsigned n = objects[i];
        struct store_key k = world_key(7, name(n));
        struct store_reader *r = NULL;
        struct entry entry;
        struct span piece;
        uint64_t at = 0;

        if (!is_here(d, n))
            put(d, STORE_CACHED, n);
        CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK);
        CHECK(store_read_begin(d, &k, &entry, 0, entry.size, &r, &eb) == ERR_OK);
        CHECK(store_read_next(r, DEADLINE_NEVER, &piece, &eb) == ERR_OK);
        (void)evict(d, 0, NULL, NULL);
        CHECK(store_flush(d, &eb) == ERR_OK);
        CHECK(i < 2 || store_compact(d, &eb) == ERR_OK);
        CHECK(!is_here(d, n));
        while (piece.len > 0) {
            CHECK(memcmp(piece.at, data + n + at, piece.len) == 0);
            at += piece.len;
            if (store_read_next(r, DEADLINE_NEVER, &piece, &eb) != ERR_OK)
                break;
        }
        CHECK_U64(at, entry.size);
        store_read_end(&r);
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
access_freq_fades(void *arg)
{
    struct store *d = world_open_small_logs();
    struct errbuf eb = {0};

    (void)arg;
    put(d, STORE_CACHED, 99); /* a segment of its own */
    CHECK(store_flush(d, &eb) == ERR_OK);
    CHECK_U64(evict(d, UINT64_MAX, NULL, NULL).coldest, 0);
    read_often(d, 99, 3);
    CHECK_U64(evict(d, UINT64_MAX, NULL, NULL).coldest, 3 * 16);
    store_access_freq_rotate(d);
    read_often(d, 99, 1);
    CHECK_U64(evict(d, UINT64_MAX, NULL, NULL).coldest, 4 * 16);
    store_access_freq_rotate(d);
    CHECK_U64(evict(d, UINT64_MAX, NULL, NULL).coldest, 16);
    store_access_freq_rotate(d);
    CHECK_U64(evict(d, UINT64_MAX, NULL, NULL).coldest, 0);
    close_checked(&d);
}

static void
test_access_freq_fades(void)
{
    world_run(access_freq_fades, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    data = malloc(LARGE + OBJECTS + 100);
    world_fill(data, LARGE + OBJECTS + 100, 5);
    RUN(test_access_freq_fades);
    RUN(test_the_coldest_segments_go);
    RUN(test_what_is_to_stay_stays);
    RUN(test_a_reader_finishes);
    free(data);
    return check_done();
}
