/* What one disk offers so that an object can be kept on several: bodies that are prepared, committed and aborted, copies
 * of what was decided elsewhere, deletes that other replicas must receive. Each outcome is held against a restart, a restart
 * with everything in the index, and one with the index lost; then the check reads all of it. Protects D1, D4, D8, V1.
 */
#include "replicas.h"

/* One in the log, one in a body segment, one with a segment of its own would be too large for a unit test. */
static const struct {
    const char *key;
    uint64_t at, len;
} bodies[] = {{"small", 100, 5000}, {"large", 777, 700000}, {"empty", 0, 0}};
#define BODIES (sizeof bodies / sizeof bodies[0])

static void
prepared_then_committed(void *arg)
{
    struct store *d = copies_open();

    (void)arg;
    for (uint8_t i = 0; i < BODIES; i++) {
        CHECK(world_put(d, bodies[i].key, copies_data, 10, NULL) == ERR_OK);
        CHECK(copies_prepare(d, bodies[i].key, i, bodies[i].at, bodies[i].len) == ERR_OK);
        CHECK(copies_prepare(d, "never", (uint8_t)(100 + i), 0, bodies[i].len) == ERR_OK);
        CHECK(copies_prepare(d, bodies[i].key, i, bodies[i].at, bodies[i].len) ==
              ERR_EXISTS);
    }
    for (int way = 0; way < COPIES_WAYS; way++) {
        copies_reopen(&d, way);
        CHECK_U64(copies_count(d), 2 * BODIES);
        CHECK(replicas_prepared(d, "never") && !replicas_prepared(d, "other"));
        copies_is(d, "never", 0, 0, 0, 0);
        for (uint8_t i = 0; i < BODIES; i++) { /* what was there before still is */
            CHECK(replicas_prepared(d, bodies[i].key));
            CHECK(world_get(d, bodies[i].key, copies_data, 10, 0, 10) == ERR_OK);
        }
    }
    for (uint8_t i = 0; i < BODIES; i++) {
        struct version high = {copies_epoch + 100, 7};
        struct content_id content = copies_content(i);
        struct store_key k = world_key(7, bodies[i].key);
        struct errbuf eb = {0};

        CHECK(store_commit_prepared(d, &k, &content, &high, &eb) == ERR_OK);
        CHECK(store_commit_prepared(d, &k, &content, &high, &eb) ==
              ERR_OK); /* twice is one */
        CHECK(store_abort_prepared(d, &k, &content, &eb) == ERR_PRECONDITION);
        CHECK_SAYS(eb.text, "is committed");
        CHECK(copies_prepare(d, bodies[i].key, i, bodies[i].at, bodies[i].len) ==
              ERR_EXISTS);
    }
    for (int way = 0; way < COPIES_WAYS; way++) {
        for (uint8_t i = 0; i < BODIES; i++) {
            CHECK(!replicas_prepared(d, bodies[i].key));
            CHECK(world_get(d, bodies[i].key, copies_data + bodies[i].at, bodies[i].len,
                            0, bodies[i].len) == ERR_OK);
        }
        CHECK_U64(copies_count(d), BODIES);
        copies_reopen(&d, way);
    }
    copies_close(&d);
}

static void
given_up(void *arg)
{
    struct store *d = copies_open();

    (void)arg;
    CHECK(copies_copy(d, "large", 50, 5, 0, 400000) == ERR_OK);
    for (uint8_t i = 0; i < BODIES; i++)
        CHECK(copies_prepare(d, bodies[i].key, i, bodies[i].at, bodies[i].len) == ERR_OK);
    copies_reopen(&d, 1);
    for (uint8_t i = 0; i < BODIES; i++) {
        CHECK(replicas_abort_prepared(d, bodies[i].key, i) == ERR_OK);
        CHECK(replicas_abort_prepared(d, bodies[i].key, i) ==
              ERR_OK); /* nothing is there: fine */
        CHECK(replicas_commit_prepared(d, bodies[i].key, i, 9) == ERR_NOT_FOUND);
    }
    for (int way = 0; way < COPIES_WAYS; way++) {
        CHECK_U64(copies_count(d), 0);
        copies_is(d, "small", 0, 0, 0, 0);
        copies_is(d, "large", 5, 50, 0, 400000);
        copies_reopen(&d, way);
    }
    CHECK(copies_prepare(d, "small", 0, 0, 10) == ERR_OK); /* the id is free again */
    copies_close(&d);
}

/* Decisions come in any order; the newest version stands, and what lost is dropped. */
static void
decisions_in_any_order(void *arg)
{
    struct store *d = copies_open();
    struct store_deleted gone;
    struct store_key k = world_key(7, "deleted");
    struct version v = copies_version(30);
    struct errbuf eb = {0};

    (void)arg;
    for (uint8_t i = 1; i <= 3; i++)
        CHECK(copies_prepare(d, "key", i, i, 300000) == ERR_OK);
    CHECK(copies_prepare(d, "deleted", 9, 0, 10) == ERR_OK);
    CHECK(replicas_commit_prepared(d, "key", 2, 20) == ERR_OK);
    CHECK(replicas_commit_prepared(d, "key", 1, 10) ==
          ERR_OK); /* older: dropped, and that is no fault */
    copies_is(d, "key", 20, 2, 2, 300000);
    CHECK(replicas_prepared(d, "key"));
    CHECK(replicas_commit_prepared(d, "key", 1, 10) == ERR_OK); /* again */
    CHECK(replicas_commit_prepared(d, "other", 3, 40) ==
          ERR_NOT_FOUND); /* prepared for another key */
    CHECK(replicas_commit_prepared(d, "key", 77, 15) ==
          ERR_OK); /* unknown, but older than what is here */
    CHECK(replicas_commit_prepared(d, "key", 77, 40) == ERR_NOT_FOUND); /* lost */
    CHECK(replicas_abort_prepared(d, "key", 3) == ERR_OK);
    CHECK(store_delete_with(
              d, &k,
              &(struct store_delete_options){
                  .version = &v, .keep_tombstone = true, .always = true, .now_ms = 5},
              &gone, &eb) == ERR_OK &&
          !gone.existed && gone.version.counter == 30);
    CHECK(replicas_commit_prepared(d, "deleted", 9, 29) ==
          ERR_OK); /* older than the delete */
    for (int way = 0; way < COPIES_WAYS; way++) {
        CHECK_U64(copies_count(d), 0);
        copies_is(d, "key", 20, 2, 2, 300000);
        copies_is(d, "deleted", 0, 0, 0, 0);
        copies_reopen(&d, way);
    }
    copies_close(&d);
}

static void
as_many_as_allowed(void *arg)
{
    struct store_options o = world_options();
    struct arena *a = arena_new(4096, 1 << 20);
    struct store *d;
    struct store_prepared *page;
    struct errbuf eb = {0};
    uint32_t count, seen = 0;
    struct content_id after;
    bool more = true;

    (void)arg;
    o.prepared_max = 100;
    d = copies_open_with(o);
    for (uint8_t i = 0; i < 100; i++)
        CHECK(copies_prepare(d, i % 2 ? "odd" : "even", i, i, 20) == ERR_OK);
    CHECK(copies_prepare(d, "odd", 100, 0, 20) == ERR_BUSY);
    copies_reopen(&d, 1);
    for (uint8_t i = 0; i < 10; i++) /* some in the tail, some in the index */
        CHECK(replicas_abort_prepared(d, i % 2 ? "odd" : "even", i) == ERR_OK);
    while (more) {
        CHECK(store_prepared(d, seen > 0 ? &after : NULL, 7, a, &page, &count, &more,
                             &eb) == ERR_OK);
        for (uint32_t i = 0; i < count; i++, seen++) {
            uint8_t n = (uint8_t)(10 + seen);
            struct content_id want = copies_content(n);

            CHECK(memcmp(&page[i].content, &want, sizeof want) == 0);
            CHECK(span_is(page[i].key, n % 2 ? "odd" : "even") && page[i].bucket == 7);
            CHECK_U64(page[i].size, 20);
            CHECK_U64((uint64_t)page[i].mtime_ms, 1700000000123 + n);
            CHECK(page[i].prepared.counter > 0);
            after = page[i].content;
        }
        arena_reset(a);
    }
    CHECK_U64(seen, 90);
    arena_free(&a);
    copies_close(&d);
}

/* Flips bytes of the object's body on the disk. */
static void
damage(const char *key, uint64_t len)
{
    char command[600];

    (void)key;
    snprintf(command, sizeof command,
             "python3 - '%s' %llu <<'E'\n"
             "import sys, glob\n"
             "for p in glob.glob(sys.argv[1] + '/native/body-*.tar'):\n"
             "    f = open(p, 'r+b'); f.seek(8192 + int(sys.argv[2]) // 2)\n"
             "    f.write(b'damaged')\n"
             "E",
             world_path, (unsigned long long)len);
    CHECK(system(command) == 0);
}

static void
copies_come_and_go(void *arg)
{
    struct store *d = copies_open();
    struct store_key k = world_key(7, "key");
    struct version v20 = copies_version(20), v30 = copies_version(30);
    struct errbuf eb = {0};

    (void)arg;
    CHECK(store_drop_replica(d, &k, &v20, &eb) == ERR_NOT_FOUND);
    CHECK(copies_copy(d, "key", 2, 20, 5, 600000) == ERR_OK);
    CHECK(copies_copy(d, "key", 1, 10, 0, 600000) == ERR_PRECONDITION); /* older */
    copies_is(d, "key", 20, 2, 5, 600000);
    copies_reopen(&d, 1);
    damage("key", 600000);
    CHECK(world_get(d, "key", copies_data + 5, 600000, 0, 600000) == ERR_CORRUPT);
    CHECK(copies_copy(d, "key", 2, 20, 5, 600000) == ERR_OK); /* in place of itself */
    for (int way = 0; way < COPIES_WAYS; way++) {
        copies_is(d, "key", 20, 2, 5, 600000);
        copies_reopen(&d, way);
    }
    CHECK(store_drop_replica(d, &k, &v30, &eb) == ERR_PRECONDITION);
    CHECK_SAYS(eb.text, "changed");
    for (int way = 0; way < COPIES_WAYS;
         way++) { /* goes, and comes back as the same version */
        CHECK(store_drop_replica(d, &k, &v20, &eb) == ERR_OK);
        CHECK(store_drop_replica(d, &k, &v20, &eb) == ERR_NOT_FOUND);
        copies_is(d, "key", 0, 0, 0, 0);
        copies_reopen(&d, way);
        copies_is(d, "key", 0, 0, 0, 0);
        CHECK(copies_copy(d, "key", 2, 20, 5, 600000) == ERR_OK);
        copies_reopen(&d, way);
        copies_is(d, "key", 20, 2, 5, 600000);
    }
    copies_close(&d);
}

/* Is a tombstone of this version there? 0: none. */
static void
tombstone_is(struct store *d, const char *key, uint64_t counter)
{
    struct store_key k = world_key(7, key);
    struct arena *a = arena_new(4096, 1 << 20);
    struct store_entry *entries;
    struct errbuf eb = {0};
    struct entry entry;
    uint32_t count, found = 0;
    bool more;
    enum err rc = store_lookup_any(d, &k, &entry, &eb);

    if (counter == 0) {
        CHECK(rc == ERR_NOT_FOUND || (entry.flags & ENTRY_TOMBSTONE) == 0);
    } else {
        REQUIRE(rc == ERR_OK);
        CHECK_U64(entry.flags & (ENTRY_TOMBSTONE | ENTRY_KEPT),
                  ENTRY_TOMBSTONE | ENTRY_KEPT);
        CHECK_U64(entry.version.counter, counter);
        CHECK_U64((uint64_t)entry.mtime_ms, 1234567);
        CHECK(store_lookup(d, &k, &entry, &eb) == ERR_NOT_FOUND);
    }
    CHECK(store_list_any(d, 7, SPAN(""), true, 100, a, &entries, &count, &more, &eb) ==
          ERR_OK);
    for (uint32_t i = 0; i < count; i++)
        found +=
            span_is(entries[i].key, key) && (entries[i].entry.flags & ENTRY_KEPT) != 0;
    CHECK_U64(found, counter != 0);
    CHECK(store_list(d, 7, SPAN(""), true, 100, a, &entries, &count, &more, &eb) ==
          ERR_OK);
    for (uint32_t i = 0; i < count; i++)
        CHECK((entries[i].entry.flags & ENTRY_TOMBSTONE) == 0);
    arena_free(&a);
}

static struct store_deleted
delete_as(struct store *d, const char *key, uint64_t counter, bool keep, bool always)
{
    struct store_key k = world_key(7, key);
    struct version v = copies_version(counter);
    struct store_delete_options o = {.version = counter > 0 ? &v : NULL,
                                     .keep_tombstone = keep,
                                     .always = always,
                                     .now_ms = 1234567};
    struct store_deleted gone;
    struct errbuf eb = {0};

    CHECK(store_delete_with(d, &k, &o, &gone, &eb) == ERR_OK);
    return gone;
}

static void
tombstones(void *arg)
{
    struct store *d = copies_open();
    struct store_key k = world_key(7, "key");
    struct version v20 = copies_version(20), v21 = copies_version(21);
    struct errbuf eb = {0};
    bool existed, empty;

    (void)arg;
    CHECK(copies_copy(d, "key", 1, 10, 0, 5000) == ERR_OK);
    CHECK_U64(delete_as(d, "key", 9, true, true).version.counter,
              0); /* older than the entry */
    copies_is(d, "key", 10, 1, 0, 5000);
    CHECK_U64(delete_as(d, "nothing", 0, true, false).version.counter, 0);
    tombstone_is(d, "nothing", 0);
    CHECK(delete_as(d, "key", 20, true, false).existed);
    CHECK_U64(delete_as(d, "key", 20, true, true).version.counter, 0); /* again */
    CHECK(delete_as(d, "unknown", 21, true, true).version.counter == 21);
    for (int way = 0; way < COPIES_WAYS; way++) {
        tombstone_is(d, "key", 20);
        tombstone_is(d, "unknown", 21);
        CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK);
        CHECK(!existed); /* and the tombstone stays */
        CHECK(copies_copy(d, "key", 1, 10, 0, 5000) ==
              ERR_PRECONDITION); /* older than the delete */
        CHECK(copies_copy(d, "key", 2, 19, 0, 500000) == ERR_PRECONDITION);
        copies_is(d, "key", 0, 0, 0, 0);
        CHECK(store_bucket_empty(d, 7, &empty, &eb) == ERR_OK && empty);
        copies_reopen(&d, way);
        CHECK(store_tombstone_drop(d, &k, &v21, &eb) == ERR_OK); /* of another: nothing */
    }
    CHECK(store_tombstone_drop(d, &k, &v20, &eb) == ERR_OK);
    for (int way = 0; way < COPIES_WAYS; way++) {
        tombstone_is(d, "key", 0);
        tombstone_is(d, "unknown", 21);
        copies_reopen(&d, way);
    }
    CHECK(copies_copy(d, "key", 1, 24, 0, 5000) == ERR_OK);
    CHECK(copies_copy(d, "unknown", 3, 22, 0, 5000) ==
          ERR_OK); /* newer than the delete */
    tombstone_is(d, "unknown", 0);
    copies_is(d, "unknown", 22, 3, 0, 5000);
    CHECK(delete_as(d, "unknown", 23, false, false).existed); /* not kept */
    tombstone_is(d, "unknown", 0);
    copies_close(&d);
}

/* Everything there is, and then logs of nothing but dead objects behind it: compaction has to carry it. */
static void
fill_logs(struct store *d, unsigned rounds)
{
    struct errbuf eb = {0};

    for (unsigned i = 0; i < rounds; i++)
        CHECK(world_put(d, "filling", copies_data, 250000, NULL) == ERR_OK);
    CHECK(store_flush(d, &eb) == ERR_OK);
    CHECK(store_compact(d, &eb) == ERR_OK);
}

static void
compacted(void *arg)
{
    struct store *d;
    struct store_key k = world_key(7, "gone");
    struct version v = copies_version(31);
    struct errbuf eb = {0};
    char first_log[300];

    (void)arg;
    copies_segment_bytes = 2u << 20;
    d = copies_open();
    snprintf(first_log, sizeof first_log, "%s/native/log-000001.tar", world_path);
    for (uint8_t i = 0; i < BODIES; i++) {
        CHECK(copies_prepare(d, bodies[i].key, i, bodies[i].at, bodies[i].len) == ERR_OK);
        CHECK(copies_prepare(d, "never", (uint8_t)(50 + i), 0, bodies[i].len) == ERR_OK);
        CHECK(copies_prepare(d, "late", (uint8_t)(100 + i), 7u + i, bodies[i].len) ==
              ERR_OK);
        CHECK(copies_prepare(d, "aborted", (uint8_t)(150 + i), 0, bodies[i].len) ==
              ERR_OK);
        CHECK(replicas_commit_prepared(d, bodies[i].key, i, 20u + i) == ERR_OK);
        CHECK(replicas_abort_prepared(d, "aborted", (uint8_t)(150 + i)) == ERR_OK);
    }
    CHECK(copies_copy(d, "gone", 200, 30, 0, 4000) == ERR_OK);
    CHECK_U64(delete_as(d, "gone", 31, true, true).version.counter, 31);
    CHECK(access(first_log, F_OK) == 0);
    for (int way = 0; way < COPIES_WAYS; way++) {
        fill_logs(d, 12);
        CHECK_U64(copies_count(d), 2 * BODIES);
        CHECK(replicas_prepared(d, "never") && replicas_prepared(d, "late"));
        CHECK(!replicas_prepared(d, "aborted"));
        for (uint8_t i = 0; i < BODIES; i++)
            copies_is(d, bodies[i].key, 20u + i, i, bodies[i].at, bodies[i].len);
        tombstone_is(d, "gone", 31);
        CHECK(copies_copy(d, "gone", 201, 30, 0, 4000) == ERR_PRECONDITION);
        copies_reopen(&d, way);
    }
    for (uint8_t i = 0; i < BODIES; i++) /* their records have been moved by now */
        CHECK(replicas_commit_prepared(d, "late", (uint8_t)(100 + i), 40u + i) == ERR_OK);
    CHECK(store_tombstone_drop(d, &k, &v, &eb) == ERR_OK);
    CHECK(access(first_log, F_OK) != 0); /* all of it was carried to another one */
    for (int way = 0; way < COPIES_WAYS; way++) {
        copies_is(d, "late", 40 + BODIES - 1, 100 + BODIES - 1, 7 + BODIES - 1,
                  bodies[BODIES - 1].len);
        CHECK_U64(copies_count(d), BODIES);
        tombstone_is(d, "gone", 0);
        fill_logs(d, 12);
        copies_reopen(&d, way);
    }
    copies_close(&d);
    copies_segment_bytes = 0;
}

/* Segments of one body on the disk. */
static unsigned
own_segments(void)
{
    char path[300];
    unsigned count = 0;
    struct dirent *e;
    DIR *dir;

    snprintf(path, sizeof path, "%s/native", world_path);
    dir = opendir(path);
    while (dir != NULL && (e = readdir(dir)) != NULL)
        count += strncmp(e->d_name, "one-", 4) == 0;
    if (dir != NULL)
        closedir(dir);
    return count;
}

/* A body with a segment of its own: the file stays while it is prepared, and goes when it is aborted. */
static void
own_segment(void *arg)
{
    struct store *d = copies_open();
    struct store_key k = world_key(7, "own");
    struct content_id content = copies_content(9);
    struct object_meta meta = {.mtime_ms = 1};
    struct errbuf eb = {0};

    (void)arg;
    for (int decided = 0; decided < 2; decided++) {
        struct store_writer *w;

        REQUIRE(store_write_begin_as(d, &k, 9 * COPIES_DATA, &content, &w, &eb) ==
                ERR_OK);
        for (unsigned i = 0; i < 9; i++)
            CHECK(store_write(w, copies_data, COPIES_DATA, &eb) == ERR_OK);
        CHECK(store_prepare(&w, &meta, NULL, &eb) == ERR_OK);
        for (int way = 0; way < COPIES_WAYS; way++) {
            CHECK_U64(own_segments(), 1);
            copies_reopen(&d, way);
            CHECK(replicas_prepared(d, "own"));
        }
        if (decided)
            CHECK(replicas_commit_prepared(d, "own", 9, 5) == ERR_OK);
        else
            CHECK(replicas_abort_prepared(d, "own", 9) == ERR_OK);
        CHECK(store_flush(d, &eb) == ERR_OK && store_compact(d, &eb) == ERR_OK);
        CHECK_U64(own_segments(), (unsigned)decided);
    }
    for (int way = 0; way < COPIES_WAYS; way++) {
        copies_reopen(&d, way);
        CHECK_U64(own_segments(), 1);
    }
    copies_close(&d);
}

/* A disk that lost the decision with its record gets a copy, in place of what may be damaged; told of the decision again it
 * keeps that one, also where its index is rebuilt. */
static void
repaired_then_committed(void *arg)
{
    struct store *d = copies_open();
    struct entry copy[BODIES], now;
    struct errbuf eb = {0};

    (void)arg;
    for (uint8_t i = 0; i < BODIES; i++) {
        struct store_key k = world_key(7, bodies[i].key);

        CHECK(copies_prepare(d, bodies[i].key, i, bodies[i].at, bodies[i].len) == ERR_OK);
        CHECK(copies_copy(d, bodies[i].key, i, 20, bodies[i].at, bodies[i].len) ==
              ERR_OK);
        CHECK(store_lookup(d, &k, &copy[i], &eb) == ERR_OK);
        CHECK(replicas_commit_prepared(d, bodies[i].key, i, 20) == ERR_OK);
    }
    for (int way = 0; way < COPIES_WAYS; way++) {
        for (uint8_t i = 0; i < BODIES; i++) {
            struct store_key k = world_key(7, bodies[i].key);

            copies_is(d, bodies[i].key, 20, i, bodies[i].at, bodies[i].len);
            CHECK(store_lookup(d, &k, &now, &eb) == ERR_OK);
            CHECK(now.place.segment == copy[i].place.segment &&
                  now.place.offset == copy[i].place.offset);
        }
        CHECK_U64(copies_count(d), 0);
        copies_reopen(&d, way);
    }
    copies_close(&d);
}

/* Disks of one node count together and have one epoch; a disk that is ahead of its node is refused in words. */
static void
one_count_for_all(void *arg)
{
    struct store_options o = world_options();
    struct store_ids ids = {0};
    struct store_identity found;
    struct store *d = copies_open();
    struct errbuf eb = {0};
    struct entry entry;

    (void)arg;
    store_close(&d);
    CHECK(store_identify(world_path, &found, &eb) == ERR_OK);
    CHECK_U64(found.epoch, copies_epoch);
    o.ids = &ids;
    o.epoch = found.epoch;
    CHECK(store_open(world_path, &o, &d, &eb) == ERR_DENIED && d == NULL);
    CHECK_SAYS(eb.text, "epoch");
    o.epoch = found.epoch + 5;
    atomic_store(&ids.counter, 1000); /* others have counted */
    atomic_store(&ids.map_epoch, found.map_epoch);
    CHECK(store_open(world_path, &o, &d, &eb) == ERR_DENIED && d == NULL);
    CHECK_SAYS(eb.text, "map epoch");
    atomic_store(&ids.map_epoch, found.map_epoch + 7);
    REQUIRE(store_open(world_path, &o, &d, &eb) == ERR_OK);
    CHECK(world_put(d, "key", copies_data, 100, &entry) == ERR_OK);
    CHECK_U64(entry.version.epoch, found.map_epoch + 7);
    CHECK(entry.version.counter > 1000);
    CHECK(atomic_load(&ids.counter) >= entry.version.counter);
    store_close(&d);
    copies_epoch = o.epoch;
}

#define CASE(fn, body)                                                                   \
    static void test_##fn(void)                                                          \
    {                                                                                    \
        world_run(body, NULL);                                                           \
    }
CASE(a_prepared_version_is_seen_once_committed, prepared_then_committed)
CASE(what_is_given_up_is_gone, given_up)
CASE(decisions_may_come_in_any_order, decisions_in_any_order)
CASE(prepared_versions_are_bounded_and_listed, as_many_as_allowed)
CASE(copies_come_and_go_by_version, copies_come_and_go)
CASE(kept_tombstones_refuse_older_copies, tombstones)
CASE(compaction_relocates_what_replicas_need, compacted)
CASE(a_prepared_body_keeps_its_segment, own_segment)
CASE(a_repaired_copy_outlives_the_decision, repaired_then_committed)
CASE(disks_of_a_node_count_together, one_count_for_all)

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    copies_data = malloc(COPIES_DATA);
    world_fill(copies_data, COPIES_DATA, 1);
    RUN(test_a_prepared_version_is_seen_once_committed);
    RUN(test_what_is_given_up_is_gone);
    RUN(test_decisions_may_come_in_any_order);
    RUN(test_prepared_versions_are_bounded_and_listed);
    RUN(test_copies_come_and_go_by_version);
    RUN(test_kept_tombstones_refuse_older_copies);
    RUN(test_compaction_relocates_what_replicas_need);
    RUN(test_a_prepared_body_keeps_its_segment);
    RUN(test_a_repaired_copy_outlives_the_decision);
    RUN(test_disks_of_a_node_count_together);
    free(copies_data);
    return check_done();
}
