/* Uploads of as many parts as S3 allows, each with the longest checksum: the manifest fits one record, and every part is
 * found again with its number, size, MD5 and checksum, after a restart too. Protects the limit of 10,000 parts. And of one
 * of 2,500 parts that is aborted, which shrinks the index: the check finds a sound disk, and the start keeps its index. */
#include "base/mem.h"
#include "wire/checksum.h"
#include "world_damage.h"

#define PARTS   10000u
#define FIBERS  64u
#define ABORTED 2500u
#define SUM_LEN 32u

struct uploading {
    struct store *disk;
    struct store_key key;
    struct upload_id id;
    uint32_t next, parts;
};

static uint32_t
size_of(uint32_t number)
{
    return 1 + number % 7;
}

static void
sum_of(uint32_t number, char out[SUM_LEN])
{
    for (uint32_t i = 0; i < SUM_LEN; i++)
        out[i] = (char)(number * 31 + i * (number >> 8));
}

static void
put_parts(void *arg)
{
    struct uploading *u = arg;
    struct errbuf eb = {0};

    while (u->next <= u->parts) {
        uint32_t number = u->next++;
        char sum[SUM_LEN];
        struct object_meta meta = {.mtime_ms = 1,
                                   .checksum_algorithm = CHECKSUM_SHA256,
                                   .checksum = {sum, SUM_LEN}};
        struct store_writer *w;

        sum_of(number, sum);
        memcpy(meta.md5, &number, sizeof number);
        REQUIRE(store_part_begin(u->disk, &u->key, &u->id, number, size_of(number), &w,
                                 &eb) == ERR_OK);
        REQUIRE(store_write(w, "1234567", size_of(number), &eb) == ERR_OK);
        REQUIRE(store_part_commit(&w, &meta, &eb) == ERR_OK);
    }
}

static void
look(struct store *d, const struct entry *entry)
{
    struct arena *a = arena_new(KIB(64), MIB(8));
    struct store_object_part *parts;
    struct errbuf eb = {0};
    uint64_t offset = 0;
    uint32_t count;

    REQUIRE(store_object_parts(d, entry, a, &parts, &count, &eb) == ERR_OK);
    REQUIRE(count == PARTS);
    for (uint32_t i = 0; i < PARTS; i++) {
        uint32_t number = i + 1;
        char sum[SUM_LEN];

        sum_of(number, sum);
        REQUIRE(parts[i].number == number && parts[i].offset == offset &&
                parts[i].size == size_of(number));
        REQUIRE(memcmp(parts[i].md5, &number, sizeof number) == 0);
        REQUIRE(parts[i].checksum_algorithm == CHECKSUM_SHA256 &&
                span_eq(parts[i].checksum, (struct span){sum, SUM_LEN}));
        offset += parts[i].size;
    }
    CHECK_U64(offset, entry->size);
    arena_free(&a);
}

static void
ten_thousand_parts(void *arg)
{
    struct store_options o = world_options();
    struct uploading u = {.key = world_key(7, "many"), .next = 1, .parts = PARTS};
    struct object_meta meta = {.mtime_ms = (int64_t)(rt_wall_ns() / 1000000),
                               .parts = PARTS};
    struct arena *a = arena_new(KIB(64), MIB(16));
    struct store_part *parts;
    struct rt_group batch;
    struct errbuf eb = {0};
    struct entry entry;
    uint32_t count;
    bool more;

    (void)arg;
    REQUIRE(store_open(world_path, &o, &u.disk, &eb) == ERR_OK);
    REQUIRE(store_upload_begin(u.disk, &u.key, STORE_NATIVE, &meta, &u.id, &eb) ==
            ERR_OK);
    rt_group_begin(&batch);
    for (unsigned i = 0; i < FIBERS; i++)
        REQUIRE(rt_group_start(&batch, put_parts, &u) == ERR_OK);
    rt_group_join(&batch);
    REQUIRE(store_part_list(u.disk, &u.key, &u.id, 0, PARTS, a, &parts, &count, &more,
                            &eb) == ERR_OK);
    REQUIRE(count == PARTS && !more);
    REQUIRE(store_upload_complete(u.disk, &u.key, &u.id, parts, count, &meta, NULL,
                                  &entry, &eb) == ERR_OK);
    look(u.disk, &entry);
    store_close(&u.disk);
    o = world_options();
    REQUIRE(store_open(world_path, &o, &u.disk, &eb) == ERR_OK);
    REQUIRE(store_lookup(u.disk, &u.key, &entry, &eb) == ERR_OK && entry.parts == PARTS);
    look(u.disk, &entry);
    store_close(&u.disk);
    arena_free(&a);
}

static void
test_ten_thousand_parts(void)
{
    world_run(ten_thousand_parts, NULL);
}

/* A rebuilt index is a new file. */
static ino_t
file_of_index(void)
{
    int fd = world_file("index/data.mdb");
    struct stat st;

    CHECK(fstat(fd, &st) == 0);
    close(fd);
    return st.st_ino;
}

static void
put_some_parts(struct uploading *u)
{
    struct object_meta meta = {.mtime_ms = 1};
    struct rt_group batch;
    struct errbuf eb = {0};

    u->next = 1;
    REQUIRE(store_upload_begin(u->disk, &u->key, STORE_NATIVE, &meta, &u->id, &eb) ==
            ERR_OK);
    rt_group_begin(&batch);
    for (unsigned i = 0; i < FIBERS; i++)
        REQUIRE(rt_group_start(&batch, put_parts, u) == ERR_OK);
    rt_group_join(&batch);
}

/* `killed`: it ends behind the flush of the abort, without closing. */
static void
parts_aborted(void *arg)
{
    bool killed = *(bool *)arg;
    struct uploading u = {.key = world_key(7, "many"), .parts = ABORTED};
    struct errbuf eb = {0};
    struct entry entry;
    ino_t index;

    u.disk = world_open(NULL);
    for (unsigned i = 0; i < 2; i++) {
        put_some_parts(&u);
        CHECK(store_flush(u.disk, &eb) == ERR_OK);
        CHECK(store_upload_abort(u.disk, &u.key, &u.id, &eb) == ERR_OK);
        CHECK(store_flush(u.disk, &eb) == ERR_OK);
    }
    if (killed)
        world_copy();
    store_close(&u.disk);
    if (killed)
        world_back_to_copy();
    index = file_of_index();
    world_check_sound();
    u.disk = world_open(NULL);
    CHECK(file_of_index() == index);
    CHECK(world_put(u.disk, "next", "abc", 3, &entry) == ERR_OK);
    store_close(&u.disk);
    world_check_sound();
}

static void
test_an_aborted_upload_leaves_a_sound_index(void)
{
    for (unsigned i = 0; i < 2; i++) {
        bool killed = i != 0;

        world_run(parts_aborted, &killed);
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_ten_thousand_parts);
    RUN(test_an_aborted_upload_leaves_a_sound_index);
    return check_done();
}
