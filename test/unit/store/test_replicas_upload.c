/* Uploads that are kept on several disks: one id, the parts' content ids given, the end prepared and then decided or
 * aborted; each outcome through restarts. Protects D1 and V1 for multipart uploads with copies.
 */
#include "replicas.h"

static const uint64_t sizes[] = {300000, 5000, 0, 400000};
#define PARTS (sizeof sizes / sizeof sizes[0])

static struct upload_id
upload_id(uint8_t n)
{
    return (struct upload_id){copies_content(n)};
}

static void
put_part(struct store *d, const struct upload_id *u, uint32_t number, enum err want)
{
    struct store_key k = world_key(7, "key");
    struct content_id content = copies_content((uint8_t)(100 + number));
    struct object_meta meta = {.mtime_ms = 5};
    struct store_writer *w;
    struct errbuf eb = {0};
    uint64_t at = 0;
    enum err rc;

    for (uint32_t i = 1; i < number; i++)
        at += sizes[i - 1];
    REQUIRE(store_part_begin_as(d, &k, u, number, sizes[number - 1], &content, &w, &eb) ==
            ERR_OK);
    CHECK(store_write(w, copies_data + at, sizes[number - 1], &eb) == ERR_OK);
    rc = store_part_commit(&w, &meta, &eb);
    CHECK(rc == want);
    if (want == ERR_BUSY)
        CHECK_SAYS(eb.text, "being completed");
}

static void
begin(struct store *d, uint8_t n)
{
    struct store_key k = world_key(7, "key");
    struct upload_id u = upload_id(n);
    struct object_meta meta = {.content_type = SPAN("text/parts")};
    struct errbuf eb = {0};

    CHECK(store_upload_begin_as(d, &k, &meta, &u, &eb) == ERR_OK);
    CHECK(store_upload_begin_as(d, &k, &meta, &u, &eb) == ERR_EXISTS);
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
complete(struct store *d, uint8_t upload, uint8_t content, uint32_t without,
         struct entry *out)
{
    struct arena *a = arena_new(4096, 1 << 20);
    struct store_key k = world_key(7, "key");
    struct upload_id u = upload_id(upload);
    struct content_id cid = copies_content(content);
    struct object_meta meta = {.mtime_ms = (int64_t)(rt_wall_ns() / 1000000),
                               .parts = PARTS};
    struct store_part *parts, chosen[PARTS];
    struct errbuf eb = {0};
    uint32_t count, n = 0;
    bool more;
    enum err rc = store_part_list(d, &k, &u, 0, 100, a, &parts, &count, &more, &eb);

    CHECK(rc == ERR_OK || rc == ERR_NO_UPLOAD);
    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        if (parts[i].number != without)
            chosen[n++] = parts[i];
    }
    if (out == NULL)
        rc = store_upload_prepare(d, &k, &u, chosen, n, &cid, &meta, NULL, &eb);
    else
        rc = store_upload_complete_as(d, &k, &u, chosen, n, &cid, &meta, NULL, out, &eb);
    arena_free(&a);
    return rc;
}

static void
uploads_are(struct store *d, uint32_t want)
{
    struct arena *a = arena_new(4096, 1 << 20);
    struct store_upload *uploads;
    struct errbuf eb = {0};
    uint32_t count;
    bool more;

    CHECK(store_upload_list(d, 7, SPAN(""), NULL, 10, a, &uploads, &count, &more, &eb) ==
          ERR_OK);
    CHECK_U64(count, want);
    arena_free(&a);
}

static void
prepared_upload(void *arg)
{
    struct store *d = copies_open();
    struct store_key k = world_key(7, "key");
    struct upload_id u = upload_id(1);
    struct arena *a = arena_new(4096, 1 << 20);
    struct store_prepared *page;
    struct errbuf eb = {0};
    struct entry entry;
    uint32_t count;
    bool more;

    (void)arg;
    begin(d, 1);
    CHECK(complete(d, 1, 50, 0, NULL) == ERR_OK);
    for (int way = 0; way < COPIES_WAYS; way++) {
        CHECK(replicas_prepared(d, "key"));
        uploads_are(d, 1);
        put_part(d, &u, 2, ERR_BUSY);
        CHECK(store_upload_abort(d, &k, &u, &eb) == ERR_BUSY);
        CHECK(complete(d, 1, 51, 0, NULL) == ERR_BUSY);
        CHECK(store_prepared(d, NULL, 10, a, &page, &count, &more, &eb) == ERR_OK);
        REQUIRE(count == 1);
        CHECK(memcmp(&page[0].upload, &u, sizeof u) == 0 && page[0].size == whole());
        copies_reopen(&d, way);
    }
    CHECK(replicas_abort_prepared(d, "key", 50) == ERR_OK); /* the upload goes on */
    uploads_are(d, 1);
    put_part(d, &u, 2, ERR_OK);
    CHECK(complete(d, 1, 52, 3, NULL) == ERR_OK);
    CHECK(replicas_commit_prepared(d, "key", 52, 40) == ERR_OK);
    CHECK(replicas_commit_prepared(d, "key", 52, 40) == ERR_OK);
    for (int way = 0; way < COPIES_WAYS; way++) {
        CHECK_U64(copies_count(d), 0);
        uploads_are(d, 0);
        copies_is(d, "key", 40, 52, 0, whole());
        CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK &&
              (entry.flags & ENTRY_PARTS) != 0);
        /* A repeat answers as the first, whatever content it brings. */
        CHECK(complete(d, 1, 53, 0, &entry) == ERR_OK);
        CHECK(entry.content.bytes[15] == 52 && entry.version.counter == 40);
        CHECK(complete(d, 1, 53, 0, NULL) == ERR_NO_UPLOAD);
        copies_reopen(&d, way);
    }
    arena_free(&a);
    copies_close(&d);
}

/* Something newer was written meanwhile: the upload ends with its parts, the object stays. */
static void
committed_too_late(void *arg)
{
    struct store *d = copies_open();
    struct store_stat before, after;
    struct errbuf eb = {0};

    (void)arg;
    store_stat(d, &before);
    begin(d, 1);
    CHECK(complete(d, 1, 50, 0, NULL) == ERR_OK);
    CHECK(copies_copy(d, "key", 60, 41, 9, 12345) == ERR_OK);
    copies_reopen(&d, 1);
    CHECK(replicas_commit_prepared(d, "key", 50, 40) == ERR_OK);
    for (int way = 0; way < COPIES_WAYS; way++) {
        copies_is(d, "key", 41, 60, 9, 12345);
        uploads_are(d, 0);
        CHECK_U64(copies_count(d), 0);
        copies_reopen(&d, way);
    }
    CHECK(store_flush(d, &eb) == ERR_OK);
    store_stat(d, &after);
    CHECK_U64(after.objects, 1);
    copies_close(&d);
}

/* The owner's side: a content id that was minted before. */
static void
completed_as(void *arg)
{
    struct store *d = copies_open();
    struct entry entry;

    (void)arg;
    begin(d, 1);
    CHECK(complete(d, 1, 50, 0, &entry) == ERR_OK);
    CHECK(entry.content.bytes[15] == 50 && entry.size == whole());
    CHECK(world_get(d, "key", copies_data, whole(), 0, whole()) == ERR_OK);
    copies_close(&d);
}

/* An object of parts is copied part by part to where it was: in place of itself, as a repair does; the copy is begun,
 * interrupted by a restart, and goes on where it was. */
static void
copied_in_parts(void *arg)
{
    struct store *d = copies_open();
    struct store_key k = world_key(7, "key");
    struct arena *a = arena_new(4096, 1 << 20);
    struct object_meta meta = {.mtime_ms = 77, .parts = PARTS};
    struct store_object_part *parts;
    struct store_part *there;
    struct store_upload *begun;
    struct upload_id u;
    struct errbuf eb = {0};
    struct entry entry, again;
    uint32_t count, n;
    bool more, empty;

    (void)arg;
    begin(d, 1);
    CHECK(complete(d, 1, 50, 0, &entry) == ERR_OK);
    REQUIRE(store_object_parts(d, &entry, a, &parts, &count, &eb) == ERR_OK &&
            count == PARTS);
    CHECK(store_replica_begin(d, &k, &entry, &u, &eb) == ERR_OK);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(parts[i].content.bytes[15] == 100 + parts[i].number);
        if (i == 2) {
            copies_reopen(&d, 1);
            CHECK(store_replica_begin(d, &k, &entry, &u, &eb) == ERR_EXISTS);
            CHECK(store_part_list(d, &k, &u, 0, 10, a, &there, &n, &more, &eb) == ERR_OK);
            CHECK_U64(n, 2);
            uploads_are(d, 0);
            CHECK(store_replica_list(d, 7, SPAN(""), NULL, 10, a, &begun, &n, &more,
                                     &eb) == ERR_OK &&
                  n == 1 && memcmp(&begun[0].id, &u, sizeof u) == 0);
        }
        put_part(d, &u, parts[i].number, ERR_OK);
    }
    CHECK(store_part_list(d, &k, &u, 0, 10, a, &there, &n, &more, &eb) == ERR_OK);
    CHECK(store_replica_complete(d, &k, &u, there, n, &meta, &entry, &eb) == ERR_OK);
    for (int way = 0; way < COPIES_WAYS; way++) {
        REQUIRE(store_lookup(d, &k, &again, &eb) == ERR_OK);
        CHECK(memcmp(&again.version, &entry.version, sizeof entry.version) == 0);
        CHECK(memcmp(&again.content, &entry.content, sizeof entry.content) == 0);
        CHECK((again.flags & ENTRY_PARTS) != 0 &&
              (again.place.segment != entry.place.segment ||
               again.place.offset != entry.place.offset));
        CHECK(world_get(d, "key", copies_data, whole(), 0, whole()) == ERR_OK);
        CHECK(store_replica_list(d, 7, SPAN(""), NULL, 10, a, &begun, &n, &more, &eb) ==
                  ERR_OK &&
              n == 0);
        copies_reopen(&d, way);
    }
    /* One that is older than what is there is refused, and is ended by hand. */
    entry.content.bytes[15]++;
    entry.version = copies_version(1);
    CHECK(store_replica_begin(d, &k, &entry, &u, &eb) == ERR_OK);
    put_part(d, &u, 1, ERR_OK);
    CHECK(store_part_list(d, &k, &u, 0, 10, a, &there, &n, &more, &eb) == ERR_OK);
    CHECK(store_replica_complete(d, &k, &u, there, n, &meta, &entry, &eb) ==
          ERR_PRECONDITION);
    CHECK(store_drop_replica(d, &k, &again.version, &eb) == ERR_OK);
    CHECK(store_bucket_empty(d, 7, &empty, &eb) == ERR_OK && empty);
    CHECK(store_upload_abort(d, &k, &u, &eb) == ERR_OK);
    arena_free(&a);
    copies_close(&d);
}

#define CASE(fn, body)                                                                   \
    static void test_##fn(void)                                                          \
    {                                                                                    \
        world_run(body, NULL);                                                           \
    }
CASE(a_prepared_upload_is_held_until_its_outcome, prepared_upload)
CASE(an_upload_that_is_committed_late_ends, committed_too_late)
CASE(an_owner_completes_under_a_content_id_that_is_given, completed_as)
CASE(an_object_of_parts_is_copied_part_by_part, copied_in_parts)

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    copies_data = malloc(COPIES_DATA);
    world_fill(copies_data, COPIES_DATA, 1);
    RUN(test_a_prepared_upload_is_held_until_its_outcome);
    RUN(test_an_upload_that_is_committed_late_ends);
    RUN(test_an_owner_completes_under_a_content_id_that_is_given);
    RUN(test_an_object_of_parts_is_copied_part_by_part);
    free(copies_data);
    return check_done();
}
