/* Body segments that are mostly dead: what lives in them moves, also under its readers; what is damaged stays. Protects D1, V3
 * and I4. Power cuts in the middle are sim_disk_space's. */
#include "compact_rig.h"

#define BODIES     60u
#define BODY       (300u << 10)
#define BODY_LIVES 20u /* every so manieth */

static struct upload_id body_upload;

static struct disk *
open_for_bodies(void)
{
    struct disk_options o = world_options();
    struct disk *d = NULL;
    struct errbuf eb = {0};

    o.segment_bytes = 4u << 20;
    o.index_interval_ms =
        PATIENCE_MS; /* what the index has not is not compacted: all is, by compact() */
    o.compact_bodies_percent = 2; /* a third of them lives where parts are */
    CHECK(disk_open(world_path, &o, &d, &eb) == ERR_OK);
    return d;
}

/* One whose metadata stands behind the body. */
static void
put_with_metadata(struct disk *d, const char *key)
{
    char much[6000];
    struct object_pair pair = {SPAN("name"), {much, sizeof much}};
    struct object_meta meta = {.mtime_ms = 5, .user = &pair, .user_count = 1};
    struct disk_key k = world_key(7, key);
    struct disk_writer *w;
    struct errbuf eb = {0};
    struct row row;

    memset(much, 'm', sizeof much);
    REQUIRE(disk_write_begin(d, &k, DISK_NATIVE, BODY, &w, &eb) == ERR_OK);
    CHECK(disk_write(w, data, BODY, &eb) == ERR_OK);
    CHECK(disk_commit(&w, &meta, NULL, &row, &eb) == ERR_OK);
}

static void
put_bodies(struct disk *d)
{
    struct upload_id done;
    struct row row;

    for (unsigned n = 0; n < BODIES; n++) {
        CHECK(world_put(d, name(n), data + n, BODY - n, &row) == ERR_OK);
        if (n == 10) {
            struct disk_key k = world_key(7, "whole"), o = world_key(7, "begun");
            struct object_meta meta = {.mtime_ms = 5};
            struct errbuf eb = {0};

            REQUIRE(disk_upload_begin(d, &k, DISK_NATIVE, &meta, &done, &eb) == ERR_OK);
            REQUIRE(disk_upload_begin(d, &o, DISK_NATIVE, &meta, &body_upload, &eb) ==
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
            delete (d, DISK_NATIVE, name(n));
}

static void
check_bodies(struct disk *d)
{
    struct arena *a = arena_new(4096, 1 << 20);
    struct disk_key described = world_key(7, "described");
    struct object_meta meta;
    struct disk_part *parts;
    struct errbuf eb = {0};
    struct row row;

    for (unsigned n = 0; n < BODIES; n++)
        CHECK(world_get(d, name(n), data + n, BODY - n, 0, BODY - n) ==
              (n % BODY_LIVES == 0 ? ERR_OK : ERR_NOT_FOUND));
    CHECK(world_get(d, "whole", data + BODY, 2 * BODY, 0, 2 * BODY) == ERR_OK);
    CHECK(world_get(d, "described", data, BODY, 7, 70000) == ERR_OK);
    CHECK(disk_lookup(d, &described, &row, &eb) == ERR_OK);
    CHECK(disk_meta(d, &described, &row, a, &meta, &eb) == ERR_OK);
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
    struct disk *d = open_for_bodies();
    struct disk_space space;
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
    disk_space(d, &space);
    CHECK(space.moved_bytes >= living / 2);
    /* All that bodies and logs take. */
    CHECK(space.living_bytes[DISK_NATIVE] + space.dead_bytes[DISK_NATIVE] <
          living * 115 / 100 + (1u << 20));
    disk_close(&d);
    world_check_sound();
    d = open_for_bodies();
    check_bodies(d);
    { /* and the upload goes on from the part that was moved */
        complete_upload(d, "begun", &body_upload);
        CHECK(world_get(d, "begun", data + BODY, BODY, 0, BODY) == ERR_OK);
    }
    CHECK(disk_settle(d, &eb) == ERR_OK);
    disk_close(&d);
    world_lose_index();
    d = open_for_bodies();
    CHECK(world_get(d, "begun", data + BODY, BODY, 0, BODY) == ERR_OK);
    CHECK(world_get(d, "whole", data + BODY, 2 * BODY, 0, 2 * BODY) == ERR_OK);
    disk_close(&d);
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
    struct disk_options o = world_options();
    struct disk *d = NULL;
    struct errbuf eb = {0};
    struct row row;

    (void)arg;
    o.segment_bytes = 4u << 20;
    REQUIRE(disk_open(world_path, &o, &d, &eb) == ERR_OK);
    for (unsigned n = 0; n < BODIES; n++)
        CHECK(world_put(d, name(n), data + n, BODY, &row) == ERR_OK);
    compact(d);
    CHECK(shared_segments() >= 4); /* there is nothing to do */
    for (unsigned n = 0; n < BODIES; n++)
        if (n % 3 != 0)
            delete (d, DISK_NATIVE, name(n));
    compact(d);
    CHECK(shared_segments() >= 4); /* it is punched, and that is all it is worth */
    for (unsigned n = 0; n < BODIES; n += 3)
        if (n % 15 != 0)
            delete (d, DISK_NATIVE, name(n));
    compact(d);
    CHECK(shared_segments() == 1);
    for (unsigned n = 0; n < BODIES; n += 15)
        CHECK(world_get(d, name(n), data + n, BODY, 0, BODY) == ERR_OK);
    disk_close(&d);
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
    struct disk *d = open_for_bodies();
    struct disk_key k = world_key(7, "key-0000");
    struct row old, row;
    struct disk_reader *r;
    struct errbuf eb = {0};
    struct span piece;
    char path[400];

    (void)arg;
    put_bodies(d);
    CHECK(disk_lookup(d, &k, &old, &eb) == ERR_OK);
    CHECK(disk_read_begin(d, &k, &old, 0, BODY, &r, &eb) == ERR_OK);
    CHECK(disk_read_next(r, DEADLINE_NEVER, &piece, &eb) == ERR_OK);
    compact(d);
    CHECK(disk_lookup(d, &k, &row, &eb) == ERR_OK && row.segment != old.segment);
    snprintf(path, sizeof path, "%s/native/body-%06u.tar", world_path, old.segment);
    CHECK(access(path, F_OK) == 0);
    for (uint64_t at = piece.len; at < BODY; at += piece.len) {
        REQUIRE(disk_read_next(r, DEADLINE_NEVER, &piece, &eb) == ERR_OK);
        REQUIRE(piece.len > 0 && memcmp(piece.at, data + at, piece.len) == 0);
    }
    disk_read_end(&r);
    compact(d);
    CHECK(access(path, F_OK) != 0);
    /* Who comes late with the old row goes to the new place. */
    CHECK(disk_read_begin(d, &k, &old, 0, BODY, &r, &eb) == ERR_OK);
    CHECK(disk_read_next(r, DEADLINE_NEVER, &piece, &eb) == ERR_OK && piece.len > 0 &&
          memcmp(piece.at, data, piece.len) == 0);
    disk_read_end(&r);
    check_bodies(d);
    disk_close(&d);
}

static void
test_a_body_moves_under_its_reader(void)
{
    world_run(moved_under_reader, NULL);
}

static void
damaged_body(void *arg)
{
    struct disk *d = open_for_bodies();
    struct disk_key k = world_key(7, "key-0000");
    struct row row;
    struct errbuf eb = {0};
    char path[400];

    (void)arg;
    put_bodies(d);
    CHECK(disk_lookup(d, &k, &row, &eb) == ERR_OK && disk_settle(d, &eb) == ERR_OK);
    snprintf(path, sizeof path, "%s/native/body-%06u.tar", world_path, row.segment);
    world_flip_at(world_file("native/body-%06u.tar", row.segment), row.offset + 200000);
    compact(d);
    CHECK(access(path, F_OK) == 0); /* it stays as it is */
    CHECK(world_get(d, name(0), data, BODY, 0, BODY) == ERR_CORRUPT);
    CHECK(world_get(d, name(BODY_LIVES), data + BODY_LIVES, BODY - BODY_LIVES, 0,
                    BODY - BODY_LIVES) == ERR_OK);
    disk_close(&d);
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
