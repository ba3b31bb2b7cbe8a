/* Conditions, in_doubt and multipart uploads on one disk, before and after a restart. Protects V4 (conditions are
 * atomic), rule 4 of the format (a version in doubt is known to be) and D1 for uploads.
 */
#include "world_damage.h"

#define DATA (2u << 20)
static char *data;

static void
reopen(struct store **dp, bool lose_index)
{
    store_close(dp);
    if (lose_index)
        world_lose_index();
    *dp = world_open(NULL);
}

static void
conditions(void *arg)
{
    struct store *d = world_open(NULL);
    struct store_condition absent = {.if_absent = true}, content = {.if_content = true},
                           version = {.if_version = true};
    struct store_key k = world_key(7, "a");
    struct errbuf eb = {0};
    struct entry a, b;
    bool existed;

    (void)arg;
    CHECK(world_put_class(d, STORE_NATIVE, "a", data, 10, true, &version, &a) ==
          ERR_OK); /* zero: none yet */
    CHECK(world_put_class(d, STORE_NATIVE, "a", data, 10, true, &version, &b) ==
          ERR_PRECONDITION);
    CHECK(world_put_class(d, STORE_NATIVE, "a", data, 10, true, &absent, &b) ==
          ERR_PRECONDITION);
    content.content = a.content;
    CHECK(world_put_class(d, STORE_NATIVE, "a", data, 20, true, &content, &b) == ERR_OK);
    CHECK(world_put_class(d, STORE_NATIVE, "a", data, 30, true, &content, &a) ==
          ERR_PRECONDITION);
    CHECK(world_get(d, "a", data, 20, 0, 20) == ERR_OK);
    version.version = b.version;
    CHECK(store_delete(d, &k, STORE_NATIVE, &content, &existed, &eb) == ERR_PRECONDITION);
    CHECK(store_delete(d, &k, STORE_NATIVE, &version, &existed, &eb) == ERR_OK &&
          existed);
    CHECK(store_delete(d, &k, STORE_NATIVE, &content, &existed, &eb) == ERR_NOT_FOUND);
    CHECK(world_put_class(d, STORE_NATIVE, "a", data, 10, true, &absent, &a) == ERR_OK);
    store_close(&d);
}

/* S3's conditions: what the object is, checked with the change. */
static void
conditions_of_state(void *arg)
{
    struct store *d = world_open(NULL);
    struct store_key k = world_key(7, "a");
    struct md5_etag etags[2] = {{.parts = 3}, {.parts = 0}};
    struct store_condition by_etag = {.if_exists = true, .etags = etags, .etag_count = 2};
    struct store_condition by_size = {.if_size = true, .size = 10, .or_absent = true};
    struct store_condition by_time = {.if_mtime = true, .mtime_s = 1700000000};
    struct store_condition there = {.if_exists = true};
    struct errbuf eb = {0};
    struct entry entry;
    bool existed;

    (void)arg;
    CHECK(world_put_class(d, STORE_NATIVE, "a", data, 10, true, &there, &entry) ==
          ERR_NOT_FOUND);
    CHECK(world_put_class(d, STORE_NATIVE, "a", data, 10, true, &by_etag, &entry) ==
          ERR_NOT_FOUND);
    CHECK(store_delete(d, &k, STORE_NATIVE, &by_size, &existed, &eb) == ERR_OK &&
          !existed);
    CHECK(store_delete(d, &k, STORE_NATIVE, &by_time, &existed, &eb) == ERR_NOT_FOUND);
    CHECK(world_put_class(d, STORE_NATIVE, "a", data, 10, true, NULL, &entry) == ERR_OK);
    CHECK(world_put_class(d, STORE_NATIVE, "a", data, 20, true, &by_etag, &entry) ==
          ERR_PRECONDITION);
    memcpy(etags[0].md5, entry.md5, sizeof entry.md5); /* but of three parts */
    CHECK(world_put_class(d, STORE_NATIVE, "a", data, 20, true, &by_etag, &entry) ==
          ERR_PRECONDITION);
    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK);
    memcpy(etags[1].md5, entry.md5, sizeof entry.md5);
    CHECK(world_put_class(d, STORE_NATIVE, "a", data, 20, true, &by_etag, &entry) ==
          ERR_OK);
    CHECK(store_delete(d, &k, STORE_NATIVE, &by_size, &existed, &eb) == ERR_PRECONDITION);
    by_size.size = 20;
    by_time.mtime_s++;
    CHECK(store_delete(d, &k, STORE_NATIVE, &by_time, &existed, &eb) == ERR_PRECONDITION);
    by_time.mtime_s--;
    by_size.if_mtime = true;
    by_size.mtime_s = by_time.mtime_s;
    CHECK(store_delete(d, &k, STORE_NATIVE, &by_size, &existed, &eb) == ERR_OK &&
          existed);
    store_close(&d);
}

static uint32_t
flags_of(struct store *d, const char *key)
{
    struct store_key k = world_key(7, key);
    struct entry entry;
    struct errbuf eb = {0};

    return store_lookup(d, &k, &entry, &eb) == ERR_OK ? entry.flags : ENTRY_TOMBSTONE;
}

static void
in_doubt(void *arg)
{
    struct store *d = world_open(NULL);
    struct store_key had = world_key(7, "had"), none = world_key(7, "none"),
                     put = world_key(7, "put");
    struct store_key gone = world_key(7, "gone");
    struct errbuf eb = {0};
    struct entry entry;
    bool existed, empty;

    (void)arg;
    CHECK(world_put_class(d, STORE_CACHED, "had", data, 300000, true, NULL, &entry) ==
          ERR_OK);
    CHECK(world_put_class(d, STORE_CACHED, "gone", data, 10, true, NULL, &entry) ==
          ERR_OK);
    CHECK(store_in_doubt_begin(d, &had, &eb) == ERR_OK &&
          store_in_doubt_begin(d, &none, &eb) == ERR_OK);
    CHECK(store_in_doubt_begin(d, &put, &eb) == ERR_OK &&
          store_in_doubt_begin(d, &gone, &eb) == ERR_OK);
    for (int i = 0; i < 3; i++) {
        CHECK_U64(flags_of(d, "had") & (ENTRY_IN_DOUBT | ENTRY_CACHED | ENTRY_TOMBSTONE),
                  ENTRY_IN_DOUBT | ENTRY_CACHED);
        CHECK_U64(flags_of(d, "none") & (ENTRY_IN_DOUBT | ENTRY_TOMBSTONE),
                  ENTRY_IN_DOUBT);
        CHECK(world_get(d, "had", data, 300000, 0, 300000) == ERR_OK);
        reopen(&d, i == 1); /* twice with the index, once from the logs alone */
    }
    CHECK(store_in_doubt_clear(d, &had, &eb) == ERR_OK &&
          store_in_doubt_clear(d, &none, &eb) == ERR_OK);
    CHECK(world_put_class(d, STORE_CACHED, "put", data, 50, true, NULL, &entry) ==
          ERR_OK);
    CHECK(store_delete(d, &gone, STORE_CACHED, NULL, &existed, &eb) == ERR_OK && existed);
    for (int i = 0; i < 3; i++) {
        CHECK_U64(flags_of(d, "had") & (ENTRY_IN_DOUBT | ENTRY_TOMBSTONE), 0);
        CHECK_U64(flags_of(d, "put") & (ENTRY_IN_DOUBT | ENTRY_TOMBSTONE), 0);
        CHECK_U64(flags_of(d, "none"), ENTRY_TOMBSTONE);
        CHECK_U64(flags_of(d, "gone"), ENTRY_TOMBSTONE);
        reopen(&d, i == 1);
    }
    CHECK(store_delete(d, &had, STORE_CACHED, NULL, &existed, &eb) == ERR_OK && existed);
    CHECK(store_delete(d, &put, STORE_CACHED, NULL, &existed, &eb) == ERR_OK && existed);
    CHECK(store_bucket_empty(d, 7, &empty, &eb) == ERR_OK && empty);
    store_close(&d);
}

static void
put_part(struct store *d, const struct store_key *k, const struct upload_id *u,
         uint32_t number, uint64_t at, uint64_t len)
{
    struct object_meta meta = {
        .mtime_ms = 5, .checksum_algorithm = 2, .checksum = SPAN("abcd")};
    struct store_writer *w;
    struct errbuf eb = {0};

    meta.md5[0] = (uint8_t)number;
    REQUIRE(store_part_begin(d, k, u, number, len, &w, &eb) == ERR_OK);
    CHECK(store_write(w, data + at, len, &eb) == ERR_OK);
    CHECK(store_part_commit(&w, &meta, &eb) == ERR_OK);
}

/* More parts than a page of the manifest holds, small ones in the log and large ones in body segments. */
#define MANY 1203u
static void
uploads(void *arg)
{
    struct store *d = world_open(NULL);
    struct arena *a = arena_new(65536, 8u << 20);
    struct store_key k = world_key(7, "dir/many"), other = world_key(7, "other");
    struct object_meta meta = {.content_type = SPAN("text/many")}, got;
    struct upload_id u, v;
    struct store_part *parts;
    struct store_upload *listed;
    struct errbuf eb = {0};
    struct entry entry, again;
    uint32_t count;
    uint64_t size = 0;
    bool more, existed;

    (void)arg;
    meta.mtime_ms =
        (int64_t)(rt_wall_ns() /
                  1000000); /* completed uploads are remembered for 7 days from it */
    CHECK(store_upload_begin(d, &k, STORE_NATIVE, &meta, &u, &eb) == ERR_OK);
    CHECK(store_upload_begin(d, &other, STORE_NATIVE, &meta, &v, &eb) == ERR_OK);
    put_part(d, &k, &u, 3, 7, 5000); /* replaced below */
    for (uint32_t i = 1; i <= MANY; i++) {
        uint64_t len = i == 2 ? 300000 : i == 1000 ? 0 : 1000 + i % 7;

        put_part(d, &k, &u, i, size, len);
        size += len;
    }
    put_part(d, &other, &v, 1, 0, 400000);
    reopen(&d, false);
    CHECK(store_upload_list(d, 7, SPAN(""), NULL, 10, a, &listed, &count, &more, &eb) ==
              ERR_OK &&
          count == 2);
    CHECK(store_upload_meta(d, &k, &u, a, &got, &eb) == ERR_OK &&
          span_is(got.content_type, "text/many"));
    CHECK(store_part_list(d, &k, &u, 0, 10000, a, &parts, &count, &more, &eb) == ERR_OK);
    REQUIRE(count == MANY && !more);
    CHECK(parts[1].size == 300000 && parts[1].md5[0] == 2 &&
          span_is(parts[1].checksum, "abcd"));
    CHECK(store_part_list(d, &other, &u, 0, 10, a, &parts, &count, &more, &eb) ==
          ERR_NO_UPLOAD);
    CHECK(store_part_list(d, &k, &u, 0, 10000, a, &parts, &count, &more, &eb) == ERR_OK);
    meta.parts = MANY;
    parts[5].content.bytes[3] ^= 1;
    CHECK(store_upload_complete(d, &k, &u, parts, count, &meta, NULL, &entry, &eb) ==
          ERR_BUSY);
    parts[5].content.bytes[3] ^= 1;
    CHECK(store_upload_complete(d, &k, &u, parts, count, &meta, NULL, &entry, &eb) ==
          ERR_OK);
    CHECK(entry.size == size && entry.parts == MANY && (entry.flags & ENTRY_PARTS) != 0);
    for (int i = 0; i < 3; i++) {
        CHECK(world_get(d, "dir/many", data, size, 0, size) == ERR_OK);
        CHECK(world_get(d, "dir/many", data, size, 290000, 310000) == ERR_OK);
        CHECK(world_get(d, "dir/many", data, size, size - 1, size) == ERR_OK);
        CHECK(store_meta(d, &k, &entry, a, &got, &eb) == ERR_OK &&
              span_is(got.content_type, "text/many"));
        CHECK(store_upload_complete(d, &k, &u, parts, count, &meta, NULL, &again, &eb) ==
              ERR_OK);
        CHECK(memcmp(&entry.content, &again.content, sizeof entry.content) == 0);
        CHECK(store_upload_meta(d, &k, &u, a, &got, &eb) == ERR_NO_UPLOAD);
        reopen(&d, i == 1);
    }
    CHECK(store_upload_abort(d, &other, &v, &eb) == ERR_OK);
    CHECK(store_upload_abort(d, &other, &v, &eb) == ERR_NO_UPLOAD);
    CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK && existed);
    reopen(&d, true);
    CHECK(store_bucket_empty(d, 7, &existed, &eb) == ERR_OK && existed);
    arena_free(&a);
    store_close(&d);
}

/* Metadata too long for the 4 KiB in front of a body stands behind it. */
static void
long_metadata(void *arg)
{
    struct store *d = world_open(NULL);
    struct arena *a = arena_new(65536, 1u << 20);
    static char long_value[6000];
    struct object_pair pair = {SPAN("long"), {long_value, sizeof long_value}};
    struct object_meta meta = {.mtime_ms = 1, .user = &pair, .user_count = 1}, got;
    struct errbuf eb = {0};

    (void)arg;
    memset(long_value, 'v', sizeof long_value);
    for (unsigned i = 0; i < 4; i++) {
        uint64_t size = i % 2 ? 700000 : 1000;
        struct store_key k = world_key(7, i % 2 ? "large" : "small");
        struct store_writer *w;
        struct entry entry;

        pair.value.len = i < 2 ? sizeof long_value : 10;
        REQUIRE(store_write_begin(d, &k, STORE_NATIVE, size, &w, &eb) == ERR_OK);
        CHECK(store_write(w, data, size, &eb) == ERR_OK);
        CHECK(store_commit(&w, &meta, NULL, &entry, &eb) == ERR_OK);
        CHECK((entry.flags & ENTRY_PLAIN) == 0);
        CHECK(store_meta(d, &k, &entry, a, &got, &eb) == ERR_OK);
        REQUIRE(got.user_count == 1);
        CHECK(span_is(got.user[0].name, "long") &&
              span_eq(got.user[0].value, pair.value));
        CHECK(world_get(d, i % 2 ? "large" : "small", data, size, 0, size) == ERR_OK);
    }
    pair.value.len = 9000; /* beyond the limit: refused, nothing changes */
    for (unsigned i = 0; i < 2; i++) {
        struct store_key k = world_key(7, "refused");
        struct store_writer *w;
        struct entry entry;

        REQUIRE(store_write_begin(d, &k, STORE_NATIVE, i ? 300000 : 10, &w, &eb) ==
                ERR_OK);
        CHECK(store_write(w, data, i ? 300000 : 10, &eb) == ERR_OK);
        CHECK(store_commit(&w, &meta, NULL, &entry, &eb) == ERR_BAD_REQUEST && w == NULL);
        CHECK_SAYS(eb.text, "at most 8192");
        CHECK(store_lookup(d, &k, &entry, &eb) == ERR_NOT_FOUND);
    }
    arena_free(&a);
    store_close(&d);
}

/* What a waiter of a cold GET sees of a body that is still coming. */
static void
peeking(void *arg)
{
    struct store *d = world_open(NULL);
    struct store_key k = world_key(7, "cold");
    struct store_writer *w;
    struct errbuf eb = {0};
    static char got[100000];
    size_t n;

    (void)arg;
    REQUIRE(store_write_begin(d, &k, STORE_CACHED, STORE_SIZE_UNKNOWN, &w, &eb) ==
            ERR_OK);
    CHECK(store_write_peek(w, 0, got, sizeof got, &n, &eb) == ERR_OK && n == 0);
    for (uint64_t at = 0; at < DATA; at += 77777) {
        CHECK(store_write(w, data + at, at + 77777 < DATA ? 77777 : DATA - at, &eb) ==
              ERR_OK);
        for (uint64_t from = 0; from < store_written(w); from += 65432) {
            CHECK(store_write_peek(w, from, got, sizeof got, &n, &eb) == ERR_OK);
            CHECK(n > 0 && n <= store_written(w) - from &&
                  memcmp(got, data + from, n) == 0);
        }
    }
    CHECK(store_write_peek(w, DATA, got, sizeof got, &n, &eb) == ERR_OK && n == 0);
    store_write_abort(&w);
    store_close(&d);
}

/* Space: a large body that was replaced, deleted or aborted leaves no file behind. */
static unsigned
single_files(void)
{
    char path[300];
    unsigned count = 0;
    struct dirent *e;
    DIR *dir;

    snprintf(path, sizeof path, "%s/native", world_path);
    dir = opendir(path);
    while (dir != NULL && (e = readdir(dir)) != NULL)
        count += strncmp(e->d_name, "one-", 4) == 0;
    closedir(dir);
    return count;
}

static void
space(void *arg)
{
    struct store *d = world_open(NULL);
    struct store_key k = world_key(7, "own");
    struct store_stat before, after;
    struct errbuf eb = {0};
    struct store_writer *w;
    struct entry entry;
    bool existed;

    (void)arg;
    store_stat(d, &before);
    for (int i = 0; i < 3; i++) {
        CHECK(world_put_class(d, STORE_NATIVE, "own", data, DATA, false, NULL, &entry) ==
              ERR_OK);
        CHECK(store_compact(d, &eb) == ERR_OK);
        CHECK_U64(single_files(), 1);
    }
    REQUIRE(store_write_begin(d, &k, STORE_NATIVE, 17u << 20, &w, &eb) == ERR_OK);
    CHECK_U64(single_files(), 2);
    store_write_abort(&w);
    CHECK_U64(single_files(), 1);
    CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK);
    CHECK(store_compact(d, &eb) == ERR_OK);
    CHECK_U64(single_files(), 0);
    store_stat(d, &after);
    CHECK(after.native_bytes - before.native_bytes < 64u << 10); /* log records only */
    store_close(&d);
}

#define CASE(fn, body)                                                                   \
    static void test_##fn(void)                                                          \
    {                                                                                    \
        world_run(body, NULL);                                                           \
    }
CASE(conditions_are_judged_by_the_committer, conditions)
CASE(conditions_of_state_are_judged_by_the_committer, conditions_of_state)
CASE(in_doubt_writes_outlive_restarts, in_doubt)
CASE(uploads_of_many_parts, uploads)
CASE(long_metadata_stands_behind_a_body, long_metadata)
CASE(a_body_on_its_way_can_be_read, peeking)
CASE(dead_bodies_give_their_files_back, space)

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_WARN);
    data = malloc(DATA);
    world_fill(data, DATA, 1);
    RUN(test_conditions_are_judged_by_the_committer);
    RUN(test_conditions_of_state_are_judged_by_the_committer);
    RUN(test_in_doubt_writes_outlive_restarts);
    RUN(test_uploads_of_many_parts);
    RUN(test_long_metadata_stands_behind_a_body);
    RUN(test_a_body_on_its_way_can_be_read);
    RUN(test_dead_bodies_give_their_files_back);
    free(data);
    return check_done();
}
