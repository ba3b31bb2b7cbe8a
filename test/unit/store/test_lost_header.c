/* Bodies of the class cached are not synced before their record: a power cut may leave payload, sums and record, and lose
 * the header of the place, its own or one in front of it. A body without its own header is not believed; behind a lost header
 * no place is given out again. What was lost is fetched again, and no damage. Found by seeds of sim_store_space. Protects I1, I4. */
#include "world_damage.h"

#include "base/metrics.h"
#include "store/record/log_record.h"
#include "store/record/manifest.h"
#include "store/segment/read.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_space.h"
#include "store/store_upload.h"
#include "store/store_write.h"

#define LARGE  ((300u << 10) + 77)
#define PAGE   4096u
#define BODIES 4u
#define MORE   3u

struct lost {
    unsigned body; /* whose header */
    bool open; /* the one that it had while it was written is there, instead of nothing */
    unsigned gone; /* a bit for each body that must be */
};

static char *bodies[BODIES + MORE];

static void
put(struct store *d, unsigned i, struct entry *entry)
{
    char key[8];

    snprintf(key, sizeof key, "k%u", i);
    CHECK(world_put_class(d, STORE_CACHED, key, bodies[i], LARGE, true, NULL, entry) ==
          ERR_OK);
}

static enum err
get(struct store *d, unsigned i)
{
    char key[8];

    snprintf(key, sizeof key, "k%u", i);
    return world_get(d, key, bodies[i], LARGE, 0, LARGE);
}

/* What the header said before the body was sealed. */
static void
make_open(char *page)
{
    struct log_record m, open;
    struct buf b;
    size_t need;

    REQUIRE(log_record_parse((struct span){page, PAGE}, &m, &need, NULL) ==
            LOG_RECORD_OK);
    open = (struct log_record){.kind = LOG_RECORD_OPEN,
                               .segment = m.segment,
                               .generation = m.generation,
                               .epoch = m.epoch,
                               .offset = m.offset,
                               .payload = m.span - PAGE,
                               .span = m.span,
                               .bucket = m.bucket,
                               .immutable_name = m.immutable_name,
                               .key = m.key,
                               .content = m.content};
    buf_init(&b, PAGE);
    log_record_encode(&open, PAGE, &b);
    REQUIRE(!b.full && b.len == PAGE);
    memcpy(page, b.at, PAGE);
    buf_fini(&b);
}

static void
lose_header(const struct entry *entry, bool open_header)
{
    char page[PAGE];
    int fd = world_file("cached/body-%06u.tar", (unsigned)entry->place.segment);

    CHECK(pread(fd, page, PAGE, (off_t)entry->place.offset) == PAGE);
    if (open_header)
        make_open(page);
    else
        memset(page, 0, PAGE);
    CHECK(pwrite(fd, page, PAGE, (off_t)entry->place.offset) == PAGE);
    close(fd);
}

static void
lose(void *arg)
{
    const struct lost *l = arg;
    int64_t damages = metric_read(M_CHECKSUM_FAILURES, 0);
    struct entry entries[BODIES], entry;
    struct store *d = world_open(NULL);

    for (unsigned i = 0; i < BODIES; i++)
        put(d, i, &entries[i]);
    CHECK(entries[0].place.segment == entries[BODIES - 1].place.segment);
    store_close(&d);
    lose_header(&entries[l->body], l->open);
    world_lose_index();
    d = world_open(NULL);
    for (unsigned i = 0; i < MORE; i++)
        put(d, BODIES + i, &entry);
    for (unsigned i = 0; i < BODIES + MORE; i++) {
        enum err want = (l->gone >> i & 1) != 0 ? ERR_NOT_FOUND : ERR_OK;

        CHECK(get(d, i) == want);
    }
    store_close(&d);
    CHECK(metric_read(M_CHECKSUM_FAILURES, 0) == damages);
}

/* ---- a part that was moved ---- */

#define FILLERS 30u

static void
put_filler(struct store *d, unsigned i)
{
    char key[16];
    struct entry entry;

    snprintf(key, sizeof key, "filler-%02u", i);
    CHECK(world_put_class(d, STORE_CACHED, key, bodies[0], LARGE, true, NULL, &entry) ==
          ERR_OK);
}

static void
delete_filler(struct store *d, unsigned i)
{
    char key[16];
    struct store_key k;
    struct errbuf eb = {0};
    bool existed = false;

    snprintf(key, sizeof key, "filler-%02u", i);
    k = world_key(7, key);
    CHECK(store_delete(d, &k, STORE_CACHED, NULL, &existed, &eb) == ERR_OK && existed);
}

/* An object of two parts, each with a place in the first segment. */
static void
upload(struct store *d)
{
    struct store_key k = world_key(7, "parts");
    struct object_meta meta = {.mtime_ms = 5, .parts = 2};
    struct arena *a = arena_new(4096, 1 << 20);
    struct store_part *parts;
    struct upload_id u;
    struct entry entry;
    struct errbuf eb = {0};
    uint32_t count = 0;
    bool more;

    CHECK(store_upload_begin(d, &k, STORE_CACHED, &meta, &u, &eb) == ERR_OK);
    for (uint32_t i = 1; i <= 2; i++) {
        struct store_writer *w;

        CHECK(store_part_begin(d, &k, &u, i, LARGE, &w, &eb) == ERR_OK);
        CHECK(store_write(w, bodies[i], LARGE, &eb) == ERR_OK);
        CHECK(store_part_commit(&w, &meta, &eb) == ERR_OK);
    }
    CHECK(store_part_list(d, &k, &u, 0, 10, a, &parts, &count, &more, &eb) == ERR_OK);
    CHECK(store_upload_complete(d, &k, &u, parts, count, &meta, NULL, &entry, &eb) ==
          ERR_OK);
    arena_free(&a);
}

static void
second_part(struct store *d, struct entry *out)
{
    struct store_key k = world_key(7, "parts");
    struct manifest m = {0};
    struct entry entry;
    struct errbuf eb = {0};

    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK);
    CHECK(manifest_load(d, &entry, &m, &eb) == ERR_OK);
    CHECK_U64(m.count, 2);
    if (m.count == 2)
        *out = (struct entry){.place.segment = m.entries[1].segment,
                              .place.offset = m.entries[1].offset};
    manifest_fini(&m);
}

static void
lose_moved_part(void *arg)
{
    int64_t damages = metric_read(M_CHECKSUM_FAILURES, 0);
    struct entry before = {0}, after = {0}, entry;
    struct store_key k = world_key(7, "parts");
    struct errbuf eb = {0};
    struct store *d = world_open(NULL);

    (void)arg;
    upload(d);
    for (unsigned i = 0; i < FILLERS; i++)
        put_filler(d, i);
    second_part(d, &before);
    for (unsigned i = 0; i < FILLERS - 4; i++)
        delete_filler(d, i);
    CHECK(store_compact(d, &eb) == ERR_OK);
    second_part(d, &after);
    CHECK(before.place.segment != after.place.segment);
    store_close(&d);
    lose_header(&after, false);
    world_lose_index();
    d = world_open(NULL);
    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_NOT_FOUND);
    store_close(&d);
    CHECK(metric_read(M_CHECKSUM_FAILURES, 0) == damages);
}

static void
test_a_manifest_is_not_believed_whose_moved_part_is_lost(void)
{
    world_run(lose_moved_part, NULL);
}

static void
test_a_body_without_its_header_is_not_believed(void)
{
    world_run(lose, &(struct lost){.body = 3, .gone = 1 << 3});
}

static void
test_a_body_whose_header_is_not_final_is_not_believed(void)
{
    world_run(lose, &(struct lost){.body = 1, .open = true, .gone = 1 << 1});
}

static void
test_what_stands_behind_a_lost_header_is_not_overwritten(void)
{
    world_run(lose, &(struct lost){.body = 1, .gone = 1 << 1});
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    for (unsigned i = 0; i < BODIES + MORE; i++) {
        bodies[i] = malloc(LARGE);
        world_fill(bodies[i], LARGE, i + 1);
    }
    RUN(test_a_body_without_its_header_is_not_believed);
    RUN(test_a_body_whose_header_is_not_final_is_not_believed);
    RUN(test_what_stands_behind_a_lost_header_is_not_overwritten);
    RUN(test_a_manifest_is_not_believed_whose_moved_part_is_lost);
    for (unsigned i = 0; i < BODIES + MORE; i++)
        free(bodies[i]);
    return check_done();
}
