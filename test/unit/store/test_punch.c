/* A place is punched once its body is dead, and what follows it stays. Where places are reused, the dead header of
 * one that was there may stand in the unused rest of a new one, with a span that reaches into the body behind. A rebuild of
 * the index lets the old places die once more, and must not believe that header: a part of a completed upload was lost by it
 * once (sim_rebuild 50272). Protects D1, D2, I4. */
#include "world_damage.h"

#define PAGE  4096u
#define LEAST ((300u << 10) + 77)
#define LONG  ((600u << 10) + 77) /* the old place that reaches over what comes next */

static char *data;

static struct store *
open_disk(void)
{
    struct store_options o = world_options();
    struct store *d = NULL;
    struct errbuf eb = {0};

    CHECK(store_open(world_path, &o, &d, &eb) == ERR_OK);
    return d;
}

static void
put(struct store *d, const char *key, uint64_t len, struct entry *entry)
{
    CHECK(world_put(d, key, data, len, entry) == ERR_OK);
}

static void
drop(struct store *d, const char *key)
{
    struct store_key k = world_key(7, key);
    struct errbuf eb = {0};
    bool existed = false;

    CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK && existed);
}

/* What died is punched, headers first. */
static void
punch(struct store *d)
{
    struct errbuf eb = {0};

    CHECK(store_compact(d, &eb) == ERR_OK);
    CHECK(store_flush(d, &eb) == ERR_OK);
}

/* The name of the record that begins at this byte of a body segment. */
static void
member_name(uint32_t segment, uint64_t offset, char out[100])
{
    char path[400], page[PAGE];
    int fd;

    snprintf(path, sizeof path, "%s/native/body-%06u.tar", world_path, (unsigned)segment);
    fd = open(path, O_RDONLY);
    REQUIRE(fd >= 0);
    CHECK(pread(fd, page, PAGE, (off_t)offset) == PAGE);
    close(fd);
    snprintf(out, 100, "%.99s",
             page + PAGE - 512); /* the last block is its ustar header */
}

static struct store_writer *
begin(struct store *d, const char *key, uint64_t len)
{
    struct store_key k = world_key(7, key);
    struct store_writer *w = NULL;
    struct errbuf eb = {0};

    CHECK(store_write_begin(d, &k, STORE_NATIVE, len, &w, &eb) == ERR_OK);
    CHECK(store_write(w, data, len, &eb) == ERR_OK);
    return w;
}

static void
commit(struct store_writer **w, struct entry *entry)
{
    struct object_meta meta = {.mtime_ms = 3};
    struct errbuf eb = {0};

    CHECK(store_commit(w, &meta, NULL, entry, &eb) == ERR_OK);
}

/* "first" and "second" die and are punched. The place of the first is reused, to a body that is a little smaller,
 * but had another one behind it before it was done, and so keeps what was reserved: the dead header of the second lies in
 * that rest. False: it does not, for a rest of this length. */
static bool
leave_a_stale_header(uint64_t less)
{
    struct store_writer *writers[2];
    struct entry first, second, again, behind;
    struct store *d = open_disk();
    char name[100];

    put(d, "front", LEAST, &first);
    put(d, "first", LEAST, &first);
    put(d, "second", LONG, &second);
    CHECK(first.place.segment == second.place.segment &&
          first.place.offset < second.place.offset);
    drop(d, "first");
    drop(d, "second");
    punch(d);
    store_close(&d);

    d = open_disk();
    writers[0] = begin(d, "again", LEAST - less);
    writers[1] = begin(d, "behind", LEAST);
    commit(&writers[0], &again);
    commit(&writers[1], &behind);
    CHECK(again.place.segment == first.place.segment &&
          again.place.offset == first.place.offset);
    CHECK(behind.place.segment == first.place.segment &&
          behind.place.offset < second.place.offset + LONG);
    store_close(&d);
    member_name(second.place.segment, second.place.offset, name);
    return second.place.offset < behind.place.offset &&
           strncmp(name, ".forebay/dead/", 14) == 0 &&
           strcmp(name, ".forebay/dead/fill") != 0;
}

struct stale {
    uint64_t less;
    bool stands; /* out */
};

static void
rebuild(void *arg)
{
    struct stale *s = arg;
    struct store *d;

    s->stands = leave_a_stale_header(s->less);
    world_lose_index();
    d = open_disk();
    punch(d);
    CHECK(world_get(d, "front", data, LEAST, 0, LEAST) == ERR_OK);
    CHECK(world_get(d, "again", data, LEAST - s->less, 0, LEAST - s->less) == ERR_OK);
    CHECK(world_get(d, "behind", data, LEAST, 0, LEAST) == ERR_OK);
    store_close(&d);
}

static void
test_a_dead_header_inside_another_place_punches_nothing(void)
{
    unsigned stood = 0;

    /* Where the rest begins depends on what a place takes: sizes around it. */
    for (uint64_t less = 0; less <= 3u * PAGE; less += PAGE) {
        struct stale s = {.less = less};

        world_run(rebuild, &s);
        stood += s.stands;
    }
    CHECK(stood > 0);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    data = malloc(LONG);
    world_fill(data, LONG, 1);
    RUN(test_a_dead_header_inside_another_place_punches_nothing);
    free(data);
    return check_done();
}
