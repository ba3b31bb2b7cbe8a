/* Body segments that are mostly dead: what lives in them moves, also under its readers; what is damaged stays. Protects D1, V3
 * and I4. Power cuts in the middle are sim_store_space's. */
#include "compact_rig.h"

#define BODIES     60u
#define BODY       (300u << 10)
#define BODY_LIVES 20u /* every so manieth */

static struct upload_id body_upload;

static struct store *
open_for_bodies(void)
{
    struct store_options o = world_options();
    struct store *d = NULL;
    struct errbuf eb = {0};

    o.segment_bytes = 4u << 20;
    o.index_interval_ms =
        PATIENCE_MS; /* what the index has not is not compacted: all is, by compact() */
    o.compact_bodies_percent = 2; /* a third of them lives where parts are */
    CHECK(store_open(world_path, &o, &d, &eb) == ERR_OK);
    return d;
}

/* One whose metadata stands behind the body. */
static void
put_with_metadata(struct store *d, const char *key)
{
    char much[6000];
    struct object_pair pair = {SPAN("name"), {much, sizeof much}};
    struct object_meta meta = {.mtime_ms = 5, .user = &pair, .user_count = 1};
    struct store_key k = world_key(7, key);
    struct store_writer *w;
    struct errbuf eb = {0};
    struct entry entry;

    memset(much, 'm', sizeof much);
    REQUIRE(store_write_begin(d, &k, STORE_NATIVE, BODY, &w, &eb) == ERR_OK);
    CHECK(store_write(w, data, BODY, &eb) == ERR_OK);
    CHECK(store_commit(&w, &meta, NULL, &entry, &eb) == ERR_OK);
}

static void
put_bodies(struct store *d)
{
    struct upload_id done;
    struct entry entry;

    for (unsigned n = 0; n < BODIES; n++) {
        CHECK(world_put(d, name(n), data + n, BODY - n, &entry) == ERR_OK);
        if (n == 10) {
            struct store_key k = world_key(7, "whole"), o = world_key(7, "begun");
            struct object_meta meta = {.mtime_ms = 5};
            struct errbuf eb = {0};

            REQUIRE(store_upload_begin(d, &k, STORE_NATIVE, &meta, &done, &eb) == ERR_OK);
            REQUIRE(store_upload_begin(d, &o, STORE_NATIVE, &meta, &body_upload, &eb) ==
                    ERR_OK);
            put_part_of(d, "whole", &done, 0 + 1, BODY);
            put_part_of(d, "begun", &body_upload, 1, BODY);
            put_with_metadata(d, "described");
        }
        if (n == 12) {
            put_part_of(d, "whole", &done, 2, BODY);
            complete_upload(d, "whole", &done);
        }
    }
    for (unsigned n = 0; n < BODIES; n++)
        if (n % BODY_LIVES != 0)
            delete (d, STORE_NATIVE, name(n));
}

static void
check_bodies(struct store *d)
{
    struct arena *a = arena_new(4096, 1 << 20);
    struct store_key described = world_key(7, "described");
    struct object_meta meta;
    struct store_part *parts;
    struct errbuf eb = {0};
    struct entry entry;

    for (unsigned n = 0; n < BODIES; n++)
        CHECK(world_get(d, name(n), data + n, BODY - n, 0, BODY - n) ==
              (n % BODY_LIVES == 0 ? ERR_OK : ERR_NOT_FOUND));
    CHECK(world_get(d, "whole", data + BODY, 2 * BODY, 0, 2 * BODY) == ERR_OK);
    CHECK(world_get(d, "described", data, BODY, 7, 70000) == ERR_OK);
    CHECK(store_lookup(d, &described, &entry, &eb) == ERR_OK);
    CHECK(store_meta(d, &described, &entry, a, &meta, &eb) == ERR_OK);
    CHECK(meta.user_count == 1 && meta.user[0].value.len == 6000 && meta.mtime_ms == 5);
    CHECK_U64(parts_of(d, "begun", &body_upload, a, &parts), 1);
    arena_free(&a);
}

static unsigned
shared_segments(void)
{
    char path[700];
    unsigned count = 0;
    struct dirent *e;
    DIR *dir;

    snprintf(path, sizeof path, "%s/native", world_path);
    dir = opendir(path);
    while (dir != NULL && (e = readdir(dir)) != NULL)
        count += strncmp(e->d_name, "body-", 5) == 0;
    closedir(dir);
    return count;
}

static void
mostly_dead(void *arg)
{
    struct store *d = open_for_bodies();
    struct store_space space;
    struct errbuf eb = {0};
    uint64_t living = (BODIES / BODY_LIVES + 4) * (uint64_t)BODY;
    unsigned before;

    (void)arg;
    put_bodies(d);
    before = shared_segments();
    CHECK(before >= 5);
    compact(d);
    check_bodies(d);
    CHECK(shared_segments() <= 2);
    store_space(d, &space);
    CHECK(space.moved_bytes >= living / 2);
    /* All that bodies and logs take. */
    CHECK(space.living_bytes[STORE_NATIVE] + space.dead_bytes[STORE_NATIVE] <
          living * 115 / 100 + (1u << 20));
    store_close(&d);
    world_check_sound();
    d = open_for_bodies();
    check_bodies(d);
    { /* and the upload goes on from the part that was moved */
        complete_upload(d, "begun", &body_upload);
        CHECK(world_get(d, "begun", data + BODY, BODY, 0, BODY) == ERR_OK);
    }
    CHECK(store_flush(d, &eb) == ERR_OK);
    store_close(&d);
    world_lose_index();
    d = open_for_bodies();
    CHECK(world_get(d, "begun", data + BODY, BODY, 0, BODY) == ERR_OK);
    CHECK(world_get(d, "whole", data + BODY, 2 * BODY, 0, 2 * BODY) == ERR_OK);
    store_close(&d);
    world_check_sound();
}

static void
test_bodies_leave_what_is_mostly_dead(void)
{
    world_run(mostly_dead, NULL);
}

/* As it is by itself: one of thirteen lives. */
static void
next_to_nothing_lives(void *arg)
{
    struct store_options o = world_options();
    struct store *d = NULL;
    struct errbuf eb = {0};
    struct entry entry;

    (void)arg;
    o.segment_bytes = 4u << 20;
    REQUIRE(store_open(world_path, &o, &d, &eb) == ERR_OK);
    for (unsigned n = 0; n < BODIES; n++)
        CHECK(world_put(d, name(n), data + n, BODY, &entry) == ERR_OK);
    compact(d);
    CHECK(shared_segments() >= 4); /* there is nothing to do */
    for (unsigned n = 0; n < BODIES; n++)
        if (n % 3 != 0)
            delete (d, STORE_NATIVE, name(n));
    compact(d);
    CHECK(shared_segments() >= 4); /* it is punched, and that is all it is worth */
    for (unsigned n = 0; n < BODIES; n += 3)
        if (n % 15 != 0)
            delete (d, STORE_NATIVE, name(n));
    compact(d);
    CHECK(shared_segments() == 1);
    for (unsigned n = 0; n < BODIES; n += 15)
        CHECK(world_get(d, name(n), data + n, BODY, 0, BODY) == ERR_OK);
    store_close(&d);
    world_check_sound();
}

static void
test_next_to_nothing_lives(void)
{
    world_run(next_to_nothing_lives, NULL);
}

/* A body is read while it moves: to the end from where it was, and its file goes only then. */
static void
moved_under_reader(void *arg)
{
    struct store *d = open_for_bodies();
    struct store_key k = world_key(7, "key-0000");
    struct entry old, entry;
    struct store_reader *r;
    struct errbuf eb = {0};
    struct span piece;
    char path[400];

    (void)arg;
    put_bodies(d);
    CHECK(store_lookup(d, &k, &old, &eb) == ERR_OK);
    CHECK(store_read_begin(d, &k, &old, 0, BODY, &r, &eb) == ERR_OK);
    CHECK(store_read_next(r, DEADLINE_NEVER, &piece, &eb) == ERR_OK);
    compact(d);
    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK &&
          entry.place.segment != old.place.segment);
    snprintf(path, sizeof path, "%s/native/body-%06u.tar", world_path, old.place.segment);
    CHECK(access(path, F_OK) == 0);
    for (uint64_t at = piece.len; at < BODY; at += piece.len) {
        REQUIRE(store_read_next(r, DEADLINE_NEVER, &piece, &eb) == ERR_OK);
        REQUIRE(piece.len > 0 && memcmp(piece.at, data + at, piece.len) == 0);
    }
    store_read_end(&r);
    compact(d);
    CHECK(access(path, F_OK) != 0);
    /* Who comes late with the old entry goes to the new place. */
    CHECK(store_read_begin(d, &k, &old, 0, BODY, &r, &eb) == ERR_OK);
    CHECK(store_read_next(r, DEADLINE_NEVER, &piece, &eb) == ERR_OK && piece.len > 0 &&
          memcmp(piece.at, data, piece.len) == 0);
    store_read_end(&r);
    check_bodies(d);
    store_close(&d);
}

static void
test_a_body_moves_under_its_reader(void)
{
    world_run(moved_under_reader, NULL);
}

static void
damaged_body(void *arg)
{
    struct store *d = open_for_bodies();
    struct store_key k = world_key(7, "key-0000");
    struct entry entry;
    struct errbuf eb = {0};
    char path[400];

    (void)arg;
    put_bodies(d);
    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK && store_flush(d, &eb) == ERR_OK);
    snprintf(path, sizeof path, "%s/native/body-%06u.tar", world_path,
             entry.place.segment);
    world_flip_at(world_file("native/body-%06u.tar", entry.place.segment),
                  entry.place.offset + 200000);
    compact(d);
    CHECK(access(path, F_OK) == 0); /* it stays as it is */
    CHECK(world_get(d, name(0), data, BODY, 0, BODY) == ERR_CORRUPT);
    CHECK(world_get(d, name(BODY_LIVES), data + BODY_LIVES, BODY - BODY_LIVES, 0,
                    BODY - BODY_LIVES) == ERR_OK);
    store_close(&d);
}

static void
test_a_damaged_body_is_not_moved(void)
{
    world_run(damaged_body, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(getenv("V") != NULL ? LOG_DEBUG : LOG_ERROR + 1);
    data = malloc(3 * LARGE);
    world_fill(data, 3 * LARGE, 4);
    RUN(test_bodies_leave_what_is_mostly_dead);
    RUN(test_next_to_nothing_lives);
    RUN(test_a_body_moves_under_its_reader);
    RUN(test_a_damaged_body_is_not_moved);
    free(data);
    return check_done();
}
