/* A scrub finds every damaged version by its key and nothing else, drops what can be fetched again, has other replicas repair what they can, and reports nothing the second time; it goes on where it stood after a restart; faults of
 * the disk while it reads end in findings and not in crashes. Protects I3, F8. */
#include <errno.h>

#include "rt/test_hooks.h"
#include "store/core/core.h"
#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/scrub/scrub.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_options.h"
#include "store/store_upload.h"
#include "store/store_write.h"
#include "wire/record.h"
#include "world_damage.h"

#define BIG   (600u << 10)
#define SMALL 3000u

static char body[BIG];

static struct store *
open_disk(uint64_t rate)
{
    struct store_options o = world_options();

    o.index_interval_ms = 20;
    o.scrub_rate = rate;
    return world_open(&o);
}

static struct scrub_status
status(struct store *d, struct arena *a)
{
    struct scrub_status s = {0};

    arena_reset(a);
    CHECK(store_scrub_status(d, a, &s, NULL) == ERR_OK);
    return s;
}

/* A pass from the start to its end. */
static struct scrub_status
scrub(struct store *d, struct arena *a)
{
    uint64_t before = status(d, a).pass.number;
    struct scrub_status s;

    CHECK(store_scrub_start(d, NULL) == ERR_OK);
    for (unsigned i = 0; i < PATIENCE_MS / 5; i++) {
        s = status(d, a);
        if (s.pass.number > before && !s.running)
            return s;
        CHECK(rt_sleep_ms(5) == ERR_OK);
    }
    CHECK(false && "the pass does not end");
    return s;
}

static void
flip_at(const char *class, const char *kind, uint32_t segment, uint64_t at)
{
    world_flip_at(world_file("%s/%s-%06u.tar", class, kind, segment), at);
}

static bool
names(const struct scrub_status *s, const char *key, enum store_outcome outcome,
      const char *what)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const struct scrub_finding *f = &s->findings[i];

        if (f->pass == s->pass.number && f->key_len == strlen(key) &&
            memcmp(f->key, key, f->key_len) == 0)
            return f->outcome == outcome && strstr(f->what, what) != NULL;
    }
    return false;
}

static struct upload_id
put_parts(struct store *d, const char *key, bool complete)
{
    struct store_key k = world_key(7, key);
    struct object_meta meta = {.mtime_ms = 1700000000123};
    struct store_part parts[2] = {{.number = 1}, {.number = 2}}, *listed;
    struct arena *a = arena_new(4096, 1u << 20);
    struct upload_id u;
    struct entry entry;
    uint32_t count;
    bool more;

    CHECK(store_upload_begin(d, &k, STORE_NATIVE, &meta, &u, NULL) == ERR_OK);
    for (uint32_t n = 1; n <= 2; n++) {
        struct store_writer *w;
        uint64_t len = n == 1 ? BIG : SMALL;
        unsigned char md5[DIGEST_MAX];

        CHECK(store_part_begin(d, &k, &u, n, len, &w, NULL) == ERR_OK);
        CHECK(store_write(w, body, len, NULL) == ERR_OK);
        digest_oneshot(DIGEST_MD5, body, len, md5);
        memcpy(meta.md5, md5, 16);
        CHECK(store_part_commit(&w, &meta, NULL) == ERR_OK);
    }
    CHECK(store_part_list(d, &k, &u, 0, 2, a, &listed, &count, &more, NULL) == ERR_OK);
    CHECK(count == 2);
    memcpy(parts, listed, sizeof parts);
    meta.parts = 2;
    if (complete)
        CHECK(store_upload_complete(d, &k, &u, parts, 2, &meta, NULL, &entry, NULL) ==
              ERR_OK);
    arena_free(&a);
    return u;
}

struct made {
    struct entry small, big, header, cached, whole;
};

static void
fill(struct store *d, struct made *m)
{
    struct entry entry;
    char key[16];

    CHECK(world_put(d, "small", body, SMALL, &m->small) == ERR_OK);
    CHECK(world_put(d, "big", body, BIG, &m->big) == ERR_OK);
    CHECK(world_put(d, "header", body, BIG, &m->header) == ERR_OK);
    CHECK(world_put(d, "whole", body, BIG, &m->whole) == ERR_OK);
    CHECK(world_put_class(d, STORE_CACHED, "cached", body, BIG, true, NULL, &m->cached) ==
          ERR_OK);
    for (unsigned i = 0; i < 70; i++) { /* more than a page */
        snprintf(key, sizeof key, "n%02u", i);
        CHECK(world_put(d, key, body, i, &entry) == ERR_OK);
    }
    (void)put_parts(d, "parts", true);
    (void)put_parts(d, "upload", false);
    CHECK(store_flush(d, NULL) == ERR_OK);
}

static unsigned repairs;

static enum err
repair(void *arg, const struct store_key *k, const struct entry *entry, struct errbuf *eb)
{
    char key[STORE_KEY_MAX + 1];
    struct entry now;

    (void)eb;
    repairs++;
    memcpy(key, k->key.at, k->key.len);
    key[k->key.len] = '\0';
    CHECK(entry->place.segment != 0);
    return world_put(arg, key, body, entry->size, &now);
}

static void
finds_fiber(void *arg)
{
    struct store *d = open_disk(0);
    struct arena *a = arena_new(4096, 4u << 20);
    struct scrub_status s;
    struct made m;

    (void)arg;
    fill(d, &m);
    s = scrub(d, a);
    CHECK_U64(s.pass.number, 1);
    CHECK_U64(s.pass.objects, 5 + 70 + 1);
    CHECK_U64(s.pass.parts, 2);
    CHECK_U64(s.pass.findings, 0);
    CHECK(s.pass.bytes > 5 * (uint64_t)BIG && s.count == 0);

    flip_at("native", "log", m.small.place.segment, m.small.place.offset + 4096);
    flip_at("native", "body", m.big.place.segment,
            m.big.place.offset + 4096 + 3 * 16384 + 9);
    flip_at("native", "body", m.header.place.segment, m.header.place.offset + 700);
    flip_at("cached", "body", m.cached.place.segment, m.cached.place.offset + 4096 + 5);
    s = scrub(d, a);
    CHECK_U64(s.pass.findings, 4);
    CHECK_U64(s.pass.repaired, 1);
    CHECK(names(&s, "small", FINDING_OPEN, "log") ||
          names(&s, "small", FINDING_OPEN, "header"));
    CHECK(names(&s, "big", FINDING_OPEN, "a block"));
    CHECK(names(&s, "header", FINDING_OPEN, "header"));
    CHECK(names(&s, "cached", FINDING_DROPPED, "a block"));
    for (uint32_t i = 0; i < s.count; i++)
        if (s.findings[i].key_len == 3)
            CHECK_U64(s.findings[i].block, 3);
    CHECK(world_get(d, "cached", body, BIG, 0, BIG) == ERR_NOT_FOUND);

    store_on_damage(d, repair, d);
    s = scrub(d, a);
    CHECK_U64(s.pass.findings, 3);
    CHECK_U64(s.pass.repaired, 3);
    CHECK_U64(repairs, 3);
    CHECK(names(&s, "big", FINDING_REPAIRED, "a block"));
    s = scrub(d, a);
    CHECK_U64(s.pass.findings, 0);
    CHECK_U64(s.last.findings, 3);
    CHECK(world_get(d, "big", body, BIG, 0, BIG) == ERR_OK);
    CHECK(world_get(d, "whole", body, BIG, 0, BIG) == ERR_OK);
    arena_free(&a);
    store_close(&d);
}

/* The first part of each: found by the number of the part. */
static void
parts_fiber(void *arg)
{
    struct store *d = open_disk(0);
    struct arena *a = arena_new(4096, 4u << 20);
    struct scrub_status s;

    (void)arg;
    (void)put_parts(d, "parts", true);
    (void)put_parts(d, "upload", false);
    CHECK(store_flush(d, NULL) == ERR_OK);
    /* The two bodies are the first ones of the segment, one behind the other. */
    flip_at("native", "body", 2, 4096 + 4096 + 20000);
    flip_at("native", "body", 2, 4096 + 4096 + BIG + 4096 + 4096 + 20000);
    s = scrub(d, a);
    CHECK_U64(s.pass.findings, 2);
    CHECK(names(&s, "parts", FINDING_OPEN, "a block"));
    CHECK(names(&s, "upload", FINDING_OPEN, "a block"));
    for (uint32_t i = 0; i < s.count; i++)
        CHECK(s.findings[i].part == (s.findings[i].key_len == 5 ? 1 : 0));
    arena_free(&a);
    store_close(&d);
}

/* What becomes of the second part of an upload, the first time that it is listed and not yet read. */
static struct {
    struct store *disk;
    struct upload_id upload;
    bool aborted; /* else: replaced */
    unsigned passed;
} meanwhile;

static void
on_point(enum point p)
{
    struct store *d = meanwhile.disk;
    struct store_key k = world_key(7, "upload");
    struct object_meta meta = {.mtime_ms = 1700000000124};
    struct store_writer *w;
    struct part_entry old;

    if (p != POINT_SCRUB_PART || ++meanwhile.passed != 2)
        return;
    CHECK(find_part(d->memtable, d->index, &meanwhile.upload, 2, &old, NULL) == ERR_OK);
    if (meanwhile.aborted) {
        CHECK(store_upload_abort(d, &k, &meanwhile.upload, NULL) == ERR_OK);
    } else {
        CHECK(store_part_begin(d, &k, &meanwhile.upload, 2, SMALL, &w, NULL) == ERR_OK);
        CHECK(store_write(w, body, SMALL, NULL) == ERR_OK);
        CHECK(store_part_commit(&w, &meta, NULL) == ERR_OK);
    }
    flip_at("native", "log", old.entry.place.segment, old.entry.place.offset + 1500);
}

/* Its old place is unused by then: what is there is no damage. */
static void
part_goes_fiber(void *arg)
{
    struct store *d = open_disk(0);
    struct arena *a = arena_new(4096, 4u << 20);
    struct scrub_status s;

    meanwhile.disk = d;
    meanwhile.passed = 0;
    meanwhile.aborted = *(bool *)arg;
    meanwhile.upload = put_parts(d, "upload", false);
    CHECK(store_flush(d, NULL) == ERR_OK);
    rt_test_on_point = on_point;
    s = scrub(d, a);
    rt_test_on_point = NULL;
    CHECK_U64(meanwhile.passed, 2);
    CHECK_U64(s.pass.parts, 2);
    CHECK_U64(s.pass.findings, 0);
    arena_free(&a);
    store_close(&d);
}

static void
restart_fiber(void *arg)
{
    struct store *d = open_disk(128u << 10); /* seconds for one of the large ones */
    struct arena *a = arena_new(4096, 4u << 20);
    struct store_options o = world_options();
    struct scrub_status s;
    struct made m;
    uint64_t objects;

    (void)arg;
    fill(d, &m);
    flip_at("native", "body", m.big.place.segment, m.big.place.offset + 4096 + 9);
    CHECK(store_scrub_start(d, NULL) == ERR_OK);
    do {
        CHECK(rt_sleep_ms(5) == ERR_OK);
        s = status(d, a);
    } while (s.running && (s.pass.findings == 0 || s.pass.objects < 20));
    CHECK(s.running && s.asked);
    objects = s.pass.objects;
    store_close(&d);

    d = open_disk(0);
    s = status(d, a);
    CHECK(s.running && s.asked && s.pass.number == 1);
    CHECK(s.pass.objects >= objects && s.pass.objects < 76);
    CHECK_U64(s.pass.findings, 1);
    CHECK(names(&s, "big", FINDING_OPEN, "a block"));
    store_close(&d);

    o.scrub_pass_ms = 100;   /* it goes on soon, and another pass follows... */
    o.scrub_rate = 1u << 20; /* ...of a second, in which the first one's end is seen */
    d = world_open(&o);
    while (s.last.number == 0) {
        CHECK(rt_sleep_ms(5) == ERR_OK);
        s = status(d, a);
    }
    CHECK_U64(s.last.number, 1);
    /* Of all lives together: no more than what was under way is read twice. */
    CHECK(s.last.objects >= 5 + 70 + 1 && s.last.objects <= 5 + 70 + 1 + 2);
    store_close(&d);
    arena_free(&a);
}

/* A damaged state is no reason to stop: the pass starts again. */
static void
state_fiber(void *arg)
{
    struct store *d = open_disk(0);
    struct arena *a = arena_new(4096, 4u << 20);
    struct entry entry;
    int fd;

    (void)arg;
    CHECK(world_put(d, "k", body, SMALL, &entry) == ERR_OK);
    (void)scrub(d, a);
    store_close(&d);
    fd = world_file(".forebay/scrub");
    CHECK(pwrite(fd, "?", 1, 30) == 1);
    close(fd);
    d = open_disk(0);
    CHECK_U64(status(d, a).pass.number, 0);
    CHECK_U64(scrub(d, a).pass.number, 1);
    store_close(&d);
    arena_free(&a);
}

static void
test_state_reads_back(void)
{
    static struct scrub_finding f[2], got[2];
    struct scrub_state s = {.running = true,
                            .asked = true,
                            .bucket = 9,
                            .key = "a/b",
                            .key_len = 3,
                            .version = {3, 4},
                            .pass = {.number = 7, .bytes = 1u << 30, .findings = 2},
                            .last = {.number = 6, .ended_ms = 12345}};
    struct scrub_state back;
    struct errbuf eb = {0};
    struct buf out;
    uint32_t count;

    f[0] = (struct scrub_finding){
        .pass = 7, .bucket = 9, .part = 3, .block = 11, .what = "a block"};
    f[1] = (struct scrub_finding){
        .pass = 6, .outcome = FINDING_DROPPED, .what = "the header"};
    memcpy(f[0].key, "key", 3);
    f[0].key_len = 3;
    buf_init(&out, SCRUB_STATE_MAX);
    scrub_encode(&s, f, 2, &out);
    CHECK(scrub_decode(buf_span(&out), &back, got, 2, &count, &eb) == ERR_OK);
    CHECK(count == 2 && memcmp(f, got, sizeof f) == 0);
    CHECK(memcmp(&s, &back, sizeof s) == 0);
    CHECK(scrub_decode(buf_span(&out), &back, got, 1, &count, &eb) == ERR_OK &&
          count == 1);
    out.at[20] ^= 1;
    CHECK(scrub_decode(buf_span(&out), &back, got, 2, &count, &eb) == ERR_CORRUPT);
    CHECK(count == 0 && !back.running);
    buf_fini(&out);
}

/* Of a program that did not write whether it was requested: it was not. */
static void
test_an_older_state_is_read(void)
{
    struct scrub_finding got;
    struct scrub_state back;
    struct record_writer w;
    struct errbuf eb = {0};
    struct buf out;
    uint32_t count;

    buf_init(&out, SCRUB_STATE_MAX);
    record_begin(&w, &out, 96, 1);
    record_put_u64(&w, 1, 1);
    record_put_u64(&w, 2, 9);
    record_end(&w);
    CHECK(scrub_decode(buf_span(&out), &back, &got, 1, &count, &eb) == ERR_OK);
    CHECK(back.running && back.bucket == 9 && !back.asked);
    buf_fini(&out);
}

#ifdef FB_TEST_HOOKS
/* Each read of a pass fails once: what was meant is found, nothing else; the pass ends. */
static void
faults_fiber(void *arg)
{
    struct store *d = open_disk(0);
    struct arena *a = arena_new(4096, 4u << 20);
    struct rt_test_io *t = rt_test_io();
    struct scrub_status s;
    unsigned found = 0;
    struct entry entry;

    (void)arg;
    CHECK(world_put(d, "small", body, SMALL, &entry) == ERR_OK);
    CHECK(world_put(d, "big", body, BIG, &entry) == ERR_OK);
    (void)put_parts(d, "parts", true);
    CHECK(store_flush(d, NULL) == ERR_OK);
    for (uint64_t nth = 0;; nth++) {
        t->seen = 0;
        t->skip = nth;
        t->count = 1;
        t->error = EIO;
        t->kinds = 1u << RT_IO_READ;
        s = scrub(d, a);
        t->kinds = 0;
        CHECK(s.pass.findings <= 1);
        found += (unsigned)s.pass.findings;
        if (t->seen <= nth)
            break;
    }
    CHECK(found >= 8);
    s = scrub(d, a);
    CHECK_U64(s.pass.findings, 0);
    arena_free(&a);
    store_close(&d);
}
#endif

static void
test_finds_drops_and_has_repaired(void)
{
    world_run(finds_fiber, NULL);
}
static void
test_parts_are_named(void)
{
    world_run(parts_fiber, NULL);
}
static void
test_a_part_that_goes_is_no_damage(void)
{
    bool aborted[] = {false, true};

    world_run(part_goes_fiber, &aborted[0]);
    world_run(part_goes_fiber, &aborted[1]);
}
static void
test_goes_on_after_a_restart(void)
{
    world_run(restart_fiber, NULL);
}
static void
test_a_damaged_state_begins_anew(void)
{
    world_run(state_fiber, NULL);
}

#ifdef FB_TEST_HOOKS
static void
test_each_read_fails_once(void)
{
    world_run(faults_fiber, NULL);
}
#endif

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    world_fill(body, BIG, 1);
    RUN(test_state_reads_back);
    RUN(test_an_older_state_is_read);
    RUN(test_finds_drops_and_has_repaired);
    RUN(test_parts_are_named);
    RUN(test_a_part_that_goes_is_no_damage);
    RUN(test_goes_on_after_a_restart);
    RUN(test_a_damaged_state_begins_anew);
#ifdef FB_TEST_HOOKS
    RUN(test_each_read_fails_once);
#endif
    return check_done();
}
