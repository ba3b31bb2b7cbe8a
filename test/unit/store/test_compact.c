/* Compaction and punching on a real file system: what lives is as it was, also for readers that were under way and when
 * the index is rebuilt from the compacted logs; what was deleted stays deleted; the space is there again. Protects D1,
 * V3 and I4. Power cuts in the middle are sim_store_space's. */
#include <math.h>

#include "base/metrics.h"

#include "store/core/core.h"
#include "store/index/entry.h"
#include "store/record/block.h"
#include "store/record/manifest.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_options.h"
#include "store/store_read.h"
#include "store/store_replica.h"
#include "store/store_space.h"
#include "store/store_upload.h"
#include "store/store_write.h"
#include "store/wal/commit.h"

#include "compact_rig.h" /* behind them: it has `data` */

#define OBJECTS 400u
#define SMALL   3000u

static bool
lives(unsigned n)
{
    return n % 3 != 1;
}

/* What the index has not is not compacted: nothing is before compact(). So what it moves stands in another log than before;
 * a log that was given back may be rewritten, under its old number. */
static struct store *
open_held(void)
{
    struct store_options o = world_options();

    o.segment_bytes = 1u << 20;
    o.index_interval_ms = PATIENCE_MS;
    return world_open(&o);
}

/* ---- uploads: an open one, and an object, each with small parts, which lie in the log ---- */

static struct upload_id open_upload;

static void
put_part(struct store *d, const char *key, const struct upload_id *u, uint32_t number)
{
    put_part_of(d, key, u, number, 5000);
}

static void
begin_upload(struct store *d, const char *key, struct upload_id *u)
{
    struct store_key k = world_key(7, key);
    struct object_meta meta = {.mtime_ms = 5, .content_type = SPAN("text/upload")};
    struct errbuf eb = {0};

    REQUIRE(store_upload_begin(d, &k, STORE_NATIVE, &meta, u, &eb) == ERR_OK);
    for (uint32_t i = 0; i < 4; i++)
        put_part(d, key, u, i + 1);
}

/* ---- a disk with some of everything ---- */

static void
fill(struct store *d)
{
    struct upload_id done;
    struct entry entry;
    struct errbuf eb = {0};
    struct store_key in_doubt = world_key(7, "in-doubt");

    for (unsigned n = 0; n < OBJECTS; n++) {
        CHECK(world_put(d, name(n), data + n, SMALL, &entry) == ERR_OK);
        if (n % 100 == 50) {
            char large[32];

            snprintf(large, sizeof large, "large-%u", n);
            CHECK(world_put(d, large, data + n, LARGE - n, &entry) == ERR_OK);
        }
        if (n == 100)
            begin_upload(d, "open", &open_upload);
        if (n == 200) {
            begin_upload(d, "parts", &done);
            complete_upload(d, "parts", &done);
        }
        CHECK(world_put_class(d, STORE_CACHED, "in-doubt", data, SMALL, true, NULL,
                              &entry) == ERR_OK);
    }
    CHECK(store_in_doubt_begin(d, &in_doubt, &eb) == ERR_OK);
    for (unsigned n = 0; n < OBJECTS; n += 2) /* replaced */
        CHECK(world_put(d, name(n), data + n + 1, SMALL, &entry) == ERR_OK);
    for (unsigned n = 0; n < OBJECTS; n++)
        if (!lives(n))
            delete (d, STORE_NATIVE, name(n));
    delete (d, STORE_NATIVE, "large-50");
    delete (d, STORE_NATIVE, "large-250");
    CHECK(store_bucket_note(d, 7, SPAN("a record"), &eb) == ERR_OK);
}

static void
check_all(struct store *d)
{
    struct arena *a = arena_new(4096, 1 << 20);
    struct store_key k = world_key(7, "open"), in_doubt = world_key(7, "in-doubt");
    struct object_meta meta;
    struct store_part *parts;
    struct entry entry;
    struct errbuf eb = {0};
    uint64_t objects, bytes, want = 2 + 2 + 0, want_bytes = 0;

    for (unsigned n = 0; n < OBJECTS; n++) {
        enum err rc = world_get(d, name(n), data + n + (n % 2 == 0), SMALL, 0, SMALL);

        CHECK(rc == (lives(n) ? ERR_OK : ERR_NOT_FOUND));
        want += lives(n);
        want_bytes += lives(n) ? SMALL : 0;
    }
    CHECK(world_get(d, "large-150", data + 150, LARGE - 150, 0, LARGE - 150) == ERR_OK);
    CHECK(world_get(d, "large-350", data + 350, LARGE - 350, 1, LARGE - 400) == ERR_OK);
    CHECK(world_get(d, "parts", data + 5000, 20000, 0, 20000) == ERR_OK);
    CHECK(world_get(d, "parts", data + 5000, 20000, 7000, 15001) == ERR_OK);
    want_bytes += 2 * LARGE - 500 + 20000 + SMALL;
    CHECK_U64(parts_of(d, "open", &open_upload, a, &parts), 4);
    CHECK(store_upload_meta(d, &k, &open_upload, a, &meta, &eb) == ERR_OK &&
          span_is(meta.content_type, "text/upload"));
    CHECK(store_lookup(d, &in_doubt, &entry, &eb) == ERR_OK &&
          (entry.flags & ENTRY_IN_DOUBT) != 0);
    store_bucket_usage(d, 7, USAGE_LIVE, &objects, &bytes);
    CHECK_U64(objects, want);
    CHECK_U64(bytes, want_bytes);
    arena_free(&a);
}

/* Of the one disk there is, as the metrics page says it. */
static double
ratio_shown(const char *name)
{
    struct buf page;
    const char *at;
    double out = 0;

    buf_init(&page, 1u << 20);
    metrics_write(&page);
    buf_put(&page, "", 1);
    at = strstr(page.at, "# TYPE ");
    while (at != NULL && strncmp(at, name, strlen(name)) != 0)
        at = strchr(at, '\n') != NULL ? strchr(at, '\n') + 1 : NULL;
    at = at != NULL ? strstr(at, "\"} ") : NULL;
    CHECK(at != NULL);
    if (at != NULL)
        out = strtod(at + 3, NULL);
    buf_fini(&page);
    return out;
}

static bool
is_shown(const char *name, double part, double whole)
{
    return whole > 0 && fabs(ratio_shown(name) - part / whole) < 0.0002;
}

static bool
ratios_are_shown(struct store *d)
{
    struct store_space now;
    uint64_t living, dead;

    store_space(d, &now);
    living = now.living_bytes[STORE_NATIVE] + now.living_bytes[STORE_CACHED];
    dead = now.dead_bytes[STORE_NATIVE] + now.dead_bytes[STORE_CACHED];
    return dead > 0 && now.moved_bytes > 0 &&
           is_shown("forebay_space_overhead_ratio", (double)(living + dead),
                    (double)living) &&
           is_shown("forebay_write_amplification_ratio",
                    (double)(now.user_bytes + now.moved_bytes), (double)now.user_bytes);
}

/* Space overhead and write amplification stand on the metrics page, which is rewritten once a second. */
static void
check_ratios(struct store *d)
{
    while (!ratios_are_shown(d))
        CHECK(rt_sleep_ms(50) == ERR_OK);
}

static void
everything(void *arg)
{
    struct store *d = open_held();
    struct store_space space;
    unsigned files, files_before;
    uint64_t before;

    (void)arg;
    fill(d);
    check_all(d);
    before = allocated("native", &files_before);
    compact(d);
    check_all(d);
    check_ratios(d);
    CHECK(allocated("native", &files) < before && files < files_before);
    CHECK(allocated("cached", &files) <
          4u << 20); /* 400 versions of one object were there */
    store_space(d, &space);
    CHECK(space.moved_bytes > 0 && space.compacted_bytes > 0);
    CHECK(space.punched_bytes + space.unlinked_bytes > LARGE);
    store_close(&d);
    world_check_sound();
    d = world_open_small_logs(); /* nothing is replayed twice */
    check_all(d);
    compact(d);
    check_all(d);
    store_close(&d);
    world_lose_index();
    d = world_open_small_logs(); /* the compacted logs are all that is known */
    check_all(d);
    CHECK_U64(metric_read(M_CHECKSUM_FAILURES, 0), 0);
    store_close(&d);
    world_check_sound();
}

static void
test_what_lives_is_as_it_was(void)
{
    world_run(everything, NULL);
}

/* ---- objects that moved behind an in-doubt record about them ---- */

static void
check_in_doubts(struct store *d)
{
    struct store_key in_doubt = world_key(7, "in-doubt"),
                     cleared = world_key(7, "cleared");
    struct entry entry;
    struct errbuf eb = {0};

    CHECK(store_lookup(d, &in_doubt, &entry, &eb) == ERR_OK &&
          (entry.flags & ENTRY_IN_DOUBT) != 0);
    CHECK(entry_has_object(&entry) && entry.size == SMALL);
    CHECK(store_lookup(d, &cleared, &entry, &eb) == ERR_OK &&
          (entry.flags & ENTRY_IN_DOUBT) == 0);
    CHECK(world_get(d, "cleared", data + 1, SMALL, 0, SMALL) == ERR_OK);
}

/* Each version but the last is dead. */
static void
put_versions(struct store *d, const char *key)
{
    struct entry entry;

    for (unsigned n = 0; n < OBJECTS; n++)
        CHECK(world_put_class(d, STORE_CACHED, key, data, SMALL, true, NULL, &entry) ==
              ERR_OK);
}

static void
in_doubt(void *arg)
{
    struct store *d = open_held();
    struct store_key in_doubt = world_key(7, "in-doubt"),
                     cleared = world_key(7, "cleared");
    struct entry before, entry;
    struct errbuf eb = {0};

    (void)arg;
    CHECK(world_put_class(d, STORE_CACHED, "in-doubt", data, SMALL, true, NULL,
                          &before) == ERR_OK);
    CHECK(world_put_class(d, STORE_CACHED, "cleared", data + 1, SMALL, true, NULL,
                          &entry) == ERR_OK);
    put_versions(d, "filler");
    CHECK(store_in_doubt_begin(d, &in_doubt, &eb) == ERR_OK);
    CHECK(store_in_doubt_begin(d, &cleared, &eb) == ERR_OK);
    CHECK(store_in_doubt_clear(d, &cleared, &eb) == ERR_OK);
    compact(d);
    check_in_doubts(d);
    CHECK(store_lookup(d, &in_doubt, &entry, &eb) == ERR_OK &&
          entry.place.segment != before.place.segment);
    store_close(&d);
    world_check_sound();
    world_lose_index();
    d = world_open_small_logs();
    check_in_doubts(d);
    /* After asking the remote: it stays, or is another one now. */
    CHECK(store_in_doubt_clear(d, &in_doubt, &eb) == ERR_OK);
    CHECK(world_get(d, "in-doubt", data, SMALL, 0, SMALL) == ERR_OK);
    CHECK(world_put_class(d, STORE_CACHED, "cleared", data + 2, SMALL, true, NULL,
                          &entry) == ERR_OK);
    put_versions(d, "filler");
    compact(d); /* moved once more */
    store_close(&d);
    world_check_sound();
    world_lose_index();
    d = world_open_small_logs();
    CHECK(world_get(d, "in-doubt", data, SMALL, 0, SMALL) == ERR_OK);
    CHECK(world_get(d, "cleared", data + 2, SMALL, 0, SMALL) == ERR_OK);
    store_close(&d);
    world_check_sound();
}

static void
test_objects_in_doubt_are_known_after_a_rebuild(void)
{
    world_run(in_doubt, NULL);
}

/* ---- readers under way ---- */

static void
readers(void *arg)
{
    struct store *d = open_held();
    struct store_key small = world_key(7, "key-0000"), large = world_key(7, "large");
    struct store_reader *rs, *rl, *late;
    struct entry entry, old_small, old_large;
    struct errbuf eb = {0};
    struct span piece;
    uint64_t at;

    (void)arg;
    for (unsigned n = 0; n < OBJECTS; n++)
        CHECK(world_put(d, name(n), data + n, SMALL, &entry) == ERR_OK);
    CHECK(world_put(d, "large", data, LARGE, &entry) == ERR_OK);
    CHECK(store_lookup(d, &small, &old_small, &eb) == ERR_OK &&
          store_lookup(d, &large, &old_large, &eb) == ERR_OK);
    CHECK(store_read_begin(d, &small, &old_small, 0, SMALL, &rs, &eb) == ERR_OK);
    CHECK(store_read_begin(d, &large, &old_large, 0, LARGE, &rl, &eb) == ERR_OK);
    CHECK(store_read_next(rl, DEADLINE_NEVER, &piece, &eb) == ERR_OK &&
          memcmp(piece.at, data, piece.len) == 0);
    at = piece.len;
    for (unsigned n = 1; n < OBJECTS; n++)
        delete (d, STORE_NATIVE, name(n));
    CHECK(world_put(d, "large", data + 1, LARGE, &entry) == ERR_OK);
    compact(d);
    CHECK(store_lookup(d, &small, &entry, &eb) == ERR_OK &&
          entry.place.segment != old_small.place.segment);
    /* Moved under its reader: he goes to the new place. */
    CHECK(store_read_next(rs, DEADLINE_NEVER, &piece, &eb) == ERR_OK &&
          piece.len == SMALL && memcmp(piece.at, data, SMALL) == 0);
    /* Replaced under its reader: the old bytes to the end. */
    while (at < LARGE) {
        REQUIRE(store_read_next(rl, DEADLINE_NEVER, &piece, &eb) == ERR_OK);
        REQUIRE(piece.len > 0);
        CHECK(memcmp(piece.at, data + at, piece.len) == 0);
        at += piece.len;
    }
    store_read_end(&rs);
    store_read_end(&rl);
    compact(d);
    /* A later caller with the old entry learns that it is stale. */
    if (store_read_begin(d, &large, &old_large, 0, LARGE, &late, &eb) == ERR_OK) {
        CHECK(store_read_next(late, DEADLINE_NEVER, &piece, &eb) == ERR_NOT_FOUND);
        store_read_end(&late);
    }
    CHECK(world_get(d, "large", data + 1, LARGE, 0, LARGE) == ERR_OK);
    CHECK_U64(metric_read(M_CHECKSUM_FAILURES, 0), 0);
    store_close(&d);
}

static void
test_readers_end_as_they_began(void)
{
    world_run(readers, NULL);
}

/* ---- a manifest that was made before a part was moved ---- */

static void
stale_manifest(void *arg)
{
    struct store *d = world_open_small_logs();
    struct store_key k = world_key(7, "stale");
    struct arena *a = arena_new(4096, 1 << 20);
    struct object_meta meta = {.mtime_ms = 9, .parts = 1};
    struct manifest_entry entry = {
        .size = 5000, .offset = 4096, .segment = 4711, .number = 1, .in_log = true};
    struct manifest m = {.entries = &entry, .count = 1};
    struct upload_id u;
    struct store_part *parts;
    struct errbuf eb = {0};
    char payload[1024], sums[4];
    struct commit c = {
        .kind = LOG_RECORD_UPLOAD_COMPLETE, .key = &k, .meta = &meta, .size = 5000};

    (void)arg;
    REQUIRE(store_upload_begin(d, &k, STORE_NATIVE, &meta, &u, &eb) == ERR_OK);
    put_part(d, "stale", &u, 1);
    REQUIRE(parts_of(d, "stale", &u, a, &parts) == 1);
    entry.content = parts[0].content;
    c.upload = u;
    c.content = content_mint(d);
    c.payload = (struct span){payload, manifest_len(1, 0)};
    manifest_encode(&m, payload);
    block_sums_put(block_seed(d->cluster_sum, &c.content, 0), 0, payload, c.payload.len,
                   sums);
    c.block_sums = (struct span){sums, sizeof sums};
    CHECK(commit_submit(d, STORE_NATIVE, &c, &eb) == ERR_BUSY && c.of.upload.parts_moved);
    complete_upload(d, "stale", &u);
    CHECK(world_get(d, "stale", data + 5000, 5000, 0, 5000) == ERR_OK);
    arena_free(&a);
    store_close(&d);
}

static void
test_a_stale_manifest_is_made_anew(void)
{
    world_run(stale_manifest, NULL);
}

/* ---- damage ---- */

static void
damage(void *arg)
{
    struct store *d = world_open_small_logs();
    struct entry entry, victim;
    struct store_key k = world_key(7, "key-0010");
    struct errbuf eb = {0};
    char path[400];

    (void)arg;
    for (unsigned n = 0; n < OBJECTS; n++)
        CHECK(world_put(d, name(n), data + n, SMALL, &entry) == ERR_OK);
    CHECK(store_flush(d, &eb) == ERR_OK);
    /* Damaged while nothing in its log is dead: later the compactor may have moved it by itself. */
    CHECK(store_lookup(d, &k, &victim, &eb) == ERR_OK);
    snprintf(path, sizeof path, "%s/native/log-%06u.tar", world_path,
             victim.place.segment);
    world_flip_at(world_file("native/log-%06u.tar", victim.place.segment),
                  victim.place.offset + 2000);
    for (unsigned n = 0; n < OBJECTS; n++)
        if (n % 4 != 2)
            delete (d, STORE_NATIVE, name(n));
    CHECK(store_flush(d, &eb) == ERR_OK);
    compact(d);
    CHECK(access(path, F_OK) == 0); /* it stays as it is */
    for (unsigned n = 2; n < OBJECTS; n += 4)
        CHECK(world_get(d, name(n), data + n, SMALL, 0, SMALL) ==
              (n == 10 ? ERR_CORRUPT : ERR_OK));
    store_close(&d);
}

static void
test_damage_is_not_moved(void)
{
    world_run(damage, NULL);
}

/* ---- what compaction adds before it takes away ---- */

#define BOUND   (48u << 20)
#define MIDDLE  (60u << 10)
#define DIES(n) ((n) % 5 == 0)
#define MIDDLES (BOUND / (MIDDLE + 4096u))

struct peak {
    struct store *disk;
    uint64_t bytes;
    bool over;
};

static uint64_t
cached_bytes(struct store *d)
{
    struct store_stat st;

    store_stat(d, &st);
    return st.cached_bytes;
}

static void
watch_peak(void *arg)
{
    struct peak *p = arg;

    while (!p->over) {
        p->bytes = MAX(p->bytes, cached_bytes(p->disk));
        rt_yield();
    }
}

static bool
lives_on(void *arg, const struct store_candidate *c)
{
    (void)arg;
    return (c->key.at[c->key.len - 1] - '0') % 5 != 0;
}

/* A cache that is full of small objects, a fifth of them dead, all over its logs: their compaction copies what lives before
 * it gives a log back, so a log has to be small beside the budget (decision D10: 1.05 of it, whatever happens). */
static void
stays_within_its_bound(void *arg)
{
    struct store_options o = world_options();
    struct peak p = {0};
    struct rt_group watcher;
    struct errbuf eb = {0};
    struct store_evict_options fifth = {.want = UINT64_MAX, .keep = lives_on};
    struct store_evicted gone;
    uint64_t full, after;

    (void)arg;
    o.segment_bytes = 1u << 30;
    o.cached_bytes = BOUND;
    p.disk = world_open(&o);
    for (unsigned n = 0; n < MIDDLES; n++)
        CHECK(world_put_class(p.disk, STORE_CACHED, name(n), data + n, MIDDLE, true, NULL,
                              NULL) == ERR_OK);
    full = cached_bytes(p.disk);
    rt_group_begin(&watcher);
    REQUIRE(rt_group_start(&watcher, watch_peak, &p) == ERR_OK);
    CHECK(store_evict(p.disk, &fifth, &gone, &eb) == ERR_OK); /* many share a sync */
    CHECK_U64(gone.objects, (MIDDLES + 4) / 5);
    compact(p.disk);
    p.over = true;
    rt_group_join(&watcher);
    after = cached_bytes(p.disk);
    fprintf(
        stderr,
        "cached bytes: %.3f of the bound, at most %.3f while logs move, %.3f behind\n",
        (double)full / BOUND, (double)p.bytes / BOUND, (double)after / BOUND);
    CHECK(full > BOUND / 100 * 95 && after < full / 100 * 90);
    CHECK(p.bytes <= full + BOUND / 40);
    for (unsigned n = 0; n < MIDDLES; n++)
        CHECK(world_get(p.disk, name(n), data + n, MIDDLE, 0, MIDDLE) ==
              (DIES(n) ? ERR_NOT_FOUND : ERR_OK));
    store_close(&p.disk);
}

static void
test_compaction_stays_within_the_bound_of_the_cache(void)
{
    world_run(stays_within_its_bound, NULL);
}

/* ---- tombstones that every disk has applied ---- */

static struct version
delete_kept(struct store *d, const char *key)
{
    struct store_key k = world_key(7, key);
    struct store_delete_options o = {.keep_tombstone = true, .now_ms = 5};
    struct store_deleted out;
    struct errbuf eb = {0};

    CHECK(store_delete_with(d, &k, &o, &out, &eb) == ERR_OK);
    CHECK(out.existed);
    return out.version;
}

static void
put_garbage(struct store *d, unsigned times)
{
    struct entry entry;

    for (unsigned i = 0; i < times; i++)
        CHECK(world_put(d, "garbage", data + i, 200u << 10, &entry) == ERR_OK);
}

/* A log older than the tombstone's stays, so compaction writes the delete again. It must not be a tombstone once more: one
 * that nothing ends, and that hides from `disk check` what the logs say (a later delete of the key). */
static void
ended_tombstones_stay_ended(void *arg)
{
    struct store *d = world_open_small_logs();
    struct store_key k = world_key(7, "again");
    struct version ended[2];
    struct errbuf eb = {0};
    struct entry entry;

    (void)arg;
    for (unsigned i = 0; i < 4; i++) /* the first log */
        CHECK(world_put(d, name(i), data, 200u << 10, &entry) == ERR_OK);
    CHECK(world_put(d, "once", data, 10, &entry) == ERR_OK);
    CHECK(world_put(d, "again", data, 10, &entry) == ERR_OK);
    put_garbage(d, 1);
    ended[0] = delete_kept(d, "once");
    ended[1] = delete_kept(d, "again");
    put_garbage(d, 8);
    k.key = span_of("once");
    CHECK(store_tombstone_drop(d, &k, &ended[0], &eb) == ERR_OK);
    k.key = span_of("again");
    CHECK(store_tombstone_drop(d, &k, &ended[1], &eb) == ERR_OK);
    CHECK(world_put(d, "again", data, 20, &entry) == ERR_OK);
    delete (d, STORE_NATIVE, "again");
    CHECK(store_flush(d, &eb) == ERR_OK);
    put_garbage(d, 8);
    compact(d);
    CHECK(store_lookup_any(d, &k, &entry, &eb) == ERR_NOT_FOUND);
    k.key = span_of("once");
    CHECK(store_lookup_any(d, &k, &entry, &eb) == ERR_NOT_FOUND);
    store_close(&d);
    world_check_sound();
}

static void
test_ended_tombstones_stay_ended(void)
{
    world_run(ended_tombstones_stay_ended, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(getenv("V") != NULL ? LOG_DEBUG : LOG_ERROR + 1);
    data = malloc(3 * LARGE);
    world_fill(data, 3 * LARGE, 4);
    RUN(test_what_lives_is_as_it_was);
    RUN(test_objects_in_doubt_are_known_after_a_rebuild);
    RUN(test_readers_end_as_they_began);
    RUN(test_a_stale_manifest_is_made_anew);
    RUN(test_damage_is_not_moved);
    RUN(test_compaction_stays_within_the_bound_of_the_cache);
    RUN(test_ended_tombstones_stay_ended);
    free(data);
    return check_done();
}
