/* Uploads that are kept on several disks: one id, the parts' content ids given, the end prepared and then decided or
 * given up; each outcome through restarts. Protects D1 and V1 for multipart uploads with copies.
 */
#include "copies.h"

static const uint64_t sizes[] = {300000, 5000, 0, 400000};
#define PARTS (sizeof sizes / sizeof sizes[0])

static struct upload_id
upload_id(uint8_t n)
{
    return (struct upload_id){copies_content(n)};
}

static void
put_part(struct disk *d, const struct upload_id *u, uint32_t number, enum err want)
{
    struct disk_key k = world_key(7, "key");
    struct content_id content = copies_content((uint8_t)(100 + number));
    struct object_meta meta = {.mtime_ms = 5};
    struct disk_writer *w;
    struct errbuf eb = {0};
    uint64_t at = 0;
    enum err rc;

    for (uint32_t i = 1; i < number; i++)
        at += sizes[i - 1];
    REQUIRE(disk_part_begin_as(d, &k, u, number, sizes[number - 1], &content, &w, &eb) ==
            ERR_OK);
    CHECK(disk_write(w, copies_data + at, sizes[number - 1], &eb) == ERR_OK);
    rc = disk_part_commit(&w, &meta, &eb);
    CHECK(rc == want);
    if (want == ERR_BUSY)
        CHECK_SAYS(eb.text, "being completed");
}

static void
begin(struct disk *d, uint8_t n)
{
    struct disk_key k = world_key(7, "key");
    struct upload_id u = upload_id(n);
    struct object_meta meta = {.content_type = SPAN("text/parts")};
    struct errbuf eb = {0};

    CHECK(disk_upload_begin_as(d, &k, &meta, &u, &eb) == ERR_OK);
    CHECK(disk_upload_begin_as(d, &k, &meta, &u, &eb) == ERR_EXISTS);
    for (uint32_t i = 1; i <= PARTS; i++)
        put_part(d, &u, i, ERR_OK);
}

static uint64_t
whole(void)
{
    uint64_t size = 0;

    for (uint32_t i = 0; i < PARTS; i++)
        size += sizes[i];
    return size;
}

/* Prepares (or, on the owner, completes) with all parts but `without`. */
static enum err
complete(struct disk *d, uint8_t upload, uint8_t content, uint32_t without,
         struct row *out)
{
    struct arena *a = arena_new(4096, 1 << 20);
    struct disk_key k = world_key(7, "key");
    struct upload_id u = upload_id(upload);
    struct content_id cid = copies_content(content);
    struct object_meta meta = {.mtime_ms = (int64_t)(rt_wall_ns() / 1000000),
                               .parts = PARTS};
    struct disk_part *parts, chosen[PARTS];
    struct errbuf eb = {0};
    uint32_t count, n = 0;
    bool more;
    enum err rc = disk_part_list(d, &k, &u, 0, 100, a, &parts, &count, &more, &eb);

    CHECK(rc == ERR_OK || rc == ERR_NO_UPLOAD);
    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        if (parts[i].number != without)
            chosen[n++] = parts[i];
    }
    if (out == NULL)
        rc = disk_upload_prepare(d, &k, &u, chosen, n, &cid, &meta, &eb);
    else
        rc = disk_upload_complete_as(d, &k, &u, chosen, n, &cid, &meta, NULL, out, &eb);
    arena_free(&a);
    return rc;
}

static void
uploads_are(struct disk *d, uint32_t want)
{
    struct arena *a = arena_new(4096, 1 << 20);
    struct disk_upload *uploads;
    struct errbuf eb = {0};
    uint32_t count;
    bool more;

    CHECK(disk_upload_list(d, 7, SPAN(""), NULL, 10, a, &uploads, &count, &more, &eb) ==
          ERR_OK);
    CHECK_U64(count, want);
    arena_free(&a);
}

static void
prepared_upload(void *arg)
{
    struct disk *d = copies_open();
    struct disk_key k = world_key(7, "key");
    struct upload_id u = upload_id(1);
    struct arena *a = arena_new(4096, 1 << 20);
    struct disk_undecided *page;
    struct errbuf eb = {0};
    struct row row;
    uint32_t count;
    bool more;

    (void)arg;
    begin(d, 1);
    CHECK(complete(d, 1, 50, 0, NULL) == ERR_OK);
    for (int way = 0; way < COPIES_WAYS; way++) {
        CHECK(copies_undecided(d, "key"));
        uploads_are(d, 1);
        put_part(d, &u, 2, ERR_BUSY);
        CHECK(disk_upload_abort(d, &k, &u, &eb) == ERR_BUSY);
        CHECK(complete(d, 1, 51, 0, NULL) == ERR_BUSY);
        CHECK(disk_undecided(d, NULL, 10, a, &page, &count, &more, &eb) == ERR_OK);
        REQUIRE(count == 1);
        CHECK(memcmp(&page[0].upload, &u, sizeof u) == 0 && page[0].size == whole());
        copies_reopen(&d, way);
    }
    CHECK(copies_give_up(d, "key", 50) == ERR_OK); /* the upload goes on */
    uploads_are(d, 1);
    put_part(d, &u, 2, ERR_OK);
    CHECK(complete(d, 1, 52, 3, NULL) == ERR_OK);
    CHECK(copies_decide(d, "key", 52, 40) == ERR_OK);
    CHECK(copies_decide(d, "key", 52, 40) == ERR_OK);
    for (int way = 0; way < COPIES_WAYS; way++) {
        CHECK_U64(copies_count(d), 0);
        uploads_are(d, 0);
        copies_is(d, "key", 40, 52, 0, whole());
        CHECK(disk_lookup(d, &k, &row, &eb) == ERR_OK && (row.flags & ROW_PARTS) != 0);
        /* A repeat answers as the first, whatever content it brings. */
        CHECK(complete(d, 1, 53, 0, &row) == ERR_OK);
        CHECK(row.content.bytes[15] == 52 && row.version.counter == 40);
        CHECK(complete(d, 1, 53, 0, NULL) == ERR_NO_UPLOAD);
        copies_reopen(&d, way);
    }
    arena_free(&a);
    copies_close(&d);
}

/* Something newer was written meanwhile: the upload ends with its parts, the object stays. */
static void
decided_too_late(void *arg)
{
    struct disk *d = copies_open();
    struct disk_stat before, after;
    struct errbuf eb = {0};

    (void)arg;
    disk_stat(d, &before);
    begin(d, 1);
    CHECK(complete(d, 1, 50, 0, NULL) == ERR_OK);
    CHECK(copies_copy(d, "key", 60, 41, 9, 12345) == ERR_OK);
    copies_reopen(&d, 1);
    CHECK(copies_decide(d, "key", 50, 40) == ERR_OK);
    for (int way = 0; way < COPIES_WAYS; way++) {
        copies_is(d, "key", 41, 60, 9, 12345);
        uploads_are(d, 0);
        CHECK_U64(copies_count(d), 0);
        copies_reopen(&d, way);
    }
    CHECK(disk_settle(d, &eb) == ERR_OK);
    disk_stat(d, &after);
    CHECK_U64(after.objects, 1);
    copies_close(&d);
}

/* The owner's side: a content id that was minted before. */
static void
completed_as(void *arg)
{
    struct disk *d = copies_open();
    struct row row;

    (void)arg;
    begin(d, 1);
    CHECK(complete(d, 1, 50, 0, &row) == ERR_OK);
    CHECK(row.content.bytes[15] == 50 && row.size == whole());
    CHECK(world_get(d, "key", copies_data, whole(), 0, whole()) == ERR_OK);
    copies_close(&d);
}

/* An object of parts is copied part by part to where it was: in place of itself, as a repair does; the copy is begun,
 * interrupted by a restart, and goes on where it was. */
static void
copied_in_parts(void *arg)
{
    struct disk *d = copies_open();
    struct disk_key k = world_key(7, "key");
    struct arena *a = arena_new(4096, 1 << 20);
    struct object_meta meta = {.mtime_ms = 77, .parts = PARTS};
    struct disk_object_part *parts;
    struct disk_part *there;
    struct disk_upload *begun;
    struct upload_id u;
    struct errbuf eb = {0};
    struct row row, again;
    uint32_t count, n;
    bool more, empty;

    (void)arg;
    begin(d, 1);
    CHECK(complete(d, 1, 50, 0, &row) == ERR_OK);
    REQUIRE(disk_object_parts(d, &row, a, &parts, &count, &eb) == ERR_OK &&
            count == PARTS);
    CHECK(disk_copy_begin(d, &k, &row, &u, &eb) == ERR_OK);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(parts[i].content.bytes[15] == 100 + parts[i].number);
        if (i == 2) {
            copies_reopen(&d, 1);
            CHECK(disk_copy_begin(d, &k, &row, &u, &eb) == ERR_EXISTS);
            CHECK(disk_part_list(d, &k, &u, 0, 10, a, &there, &n, &more, &eb) == ERR_OK);
            CHECK_U64(n, 2);
            uploads_are(d, 0);
            CHECK(disk_copy_list(d, 7, SPAN(""), NULL, 10, a, &begun, &n, &more, &eb) ==
                      ERR_OK &&
                  n == 1 && memcmp(&begun[0].id, &u, sizeof u) == 0);
        }
        put_part(d, &u, parts[i].number, ERR_OK);
    }
    CHECK(disk_part_list(d, &k, &u, 0, 10, a, &there, &n, &more, &eb) == ERR_OK);
    CHECK(disk_copy_complete(d, &k, &u, there, n, &meta, &row, &eb) == ERR_OK);
    for (int way = 0; way < COPIES_WAYS; way++) {
        REQUIRE(disk_lookup(d, &k, &again, &eb) == ERR_OK);
        CHECK(memcmp(&again.version, &row.version, sizeof row.version) == 0);
        CHECK(memcmp(&again.content, &row.content, sizeof row.content) == 0);
        CHECK((again.flags & ROW_PARTS) != 0 &&
              (again.segment != row.segment || again.offset != row.offset));
        CHECK(world_get(d, "key", copies_data, whole(), 0, whole()) == ERR_OK);
        CHECK(disk_copy_list(d, 7, SPAN(""), NULL, 10, a, &begun, &n, &more, &eb) ==
                  ERR_OK &&
              n == 0);
        copies_reopen(&d, way);
    }
    /* One that is older than what is there is refused, and is ended by hand. */
    row.content.bytes[15]++;
    row.version = copies_version(1);
    CHECK(disk_copy_begin(d, &k, &row, &u, &eb) == ERR_OK);
    put_part(d, &u, 1, ERR_OK);
    CHECK(disk_part_list(d, &k, &u, 0, 10, a, &there, &n, &more, &eb) == ERR_OK);
    CHECK(disk_copy_complete(d, &k, &u, there, n, &meta, &row, &eb) == ERR_PRECONDITION);
    CHECK(disk_forget(d, &k, &again.version, &eb) == ERR_OK);
    CHECK(disk_bucket_empty(d, 7, &empty, &eb) == ERR_OK && empty);
    CHECK(disk_upload_abort(d, &k, &u, &eb) == ERR_OK);
    arena_free(&a);
    copies_close(&d);
}

#define CASE(fn, body)                                                                   \
    static void test_##fn(void)                                                          \
    {                                                                                    \
        world_run(body, NULL);                                                           \
    }
CASE(a_prepared_upload_is_held_until_it_is_decided, prepared_upload)
CASE(an_upload_that_is_decided_too_late_ends_all_the_same, decided_too_late)
CASE(an_owner_completes_under_a_content_id_that_is_given, completed_as)
CASE(an_object_of_parts_is_copied_part_by_part, copied_in_parts)

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    copies_data = malloc(COPIES_DATA);
    world_fill(copies_data, COPIES_DATA, 1);
    RUN(test_a_prepared_upload_is_held_until_it_is_decided);
    RUN(test_an_upload_that_is_decided_too_late_ends_all_the_same);
    RUN(test_an_owner_completes_under_a_content_id_that_is_given);
    RUN(test_an_object_of_parts_is_copied_part_by_part);
    free(copies_data);
    return check_done();
}
