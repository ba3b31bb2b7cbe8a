/* Versions, delete markers and metadata records against a plain model: random changes, with compactions and with restarts in
 * between that keep or lose the index. Protects D1 for versions, rule 9 of the format, and that a list of versions is exact. Each
 * run prints its seed; FOREBAY_SEED gives one.
 */
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_read.h"
#include "store/store_space.h"
#include "store/store_version.h"
#include "store/store_write.h"
#include "world_damage.h"

#define KEYS     6
#define VERSIONS 64
#define DATA     (600u << 10)
static char *data;

struct known {
    struct version id;
    bool marker, null;
    uint32_t from, len; /* of `data` */
    unsigned tag;
};
struct model {
    struct known of[KEYS][VERSIONS]; /* the current one first */
    unsigned count[KEYS];
    enum store_versioning versioning;
};

static uint64_t state;
static uint32_t
rnd(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

static struct store_key
key_of(unsigned i)
{
    static char names[KEYS][1024];

    snprintf(names[i], sizeof names[i], "key-%u", i);
    if (i == KEYS - 1) /* one that goes through layers of the index */
        memset(names[i] + 5, 'x', 1000);
    return world_key(7, names[i]);
}

static struct span
tag_text(unsigned tag)
{
    static char text[32];

    snprintf(text, sizeof text, "tag=%u", tag);
    return tag == 0 ? (struct span){NULL, 0} : span_of(text);
}

static void
remove_at(struct model *m, unsigned key, unsigned i)
{
    memmove(&m->of[key][i], &m->of[key][i + 1],
            (m->count[key] - i - 1) * sizeof m->of[key][0]);
    m->count[key]--;
}

/* What a new current version does to the others. */
static void
model_add(struct model *m, unsigned key, const struct known *v)
{
    for (unsigned i = 0; i < m->count[key]; i++)
        if (m->versioning == STORE_UNVERSIONED || (v->null && m->of[key][i].null))
            remove_at(m, key, i--);
    memmove(&m->of[key][1], &m->of[key][0], m->count[key] * sizeof m->of[key][0]);
    m->of[key][0] = *v;
    m->count[key]++;
}

static void
do_put(struct store *d, struct model *m, unsigned key)
{
    struct store_key k = key_of(key);
    struct known v = {.null = m->versioning != STORE_VERSIONED,
                      .len = rnd(8) == 0 ? rnd(500000) : rnd(3000),
                      .from = rnd(100000),
                      .tag = rnd(3)};
    struct object_meta meta = {.mtime_ms = 1700000000123,
                               .versioning = (uint8_t)m->versioning,
                               .tags = tag_text(v.tag)};
    struct store_writer *w;
    struct errbuf eb = {0};
    struct entry entry;

    REQUIRE(store_write_begin(d, &k, STORE_NATIVE, v.len, &w, &eb) == ERR_OK);
    REQUIRE(store_write(w, data + v.from, v.len, &eb) == ERR_OK);
    REQUIRE(store_commit(&w, &meta, NULL, &entry, &eb) == ERR_OK);
    v.id = entry_born(&entry);
    model_add(m, key, &v);
}

static void
do_mark(struct store *d, struct model *m, unsigned key)
{
    struct store_key k = key_of(key);
    struct known v = {.marker = true, .null = m->versioning != STORE_VERSIONED};
    struct errbuf eb = {0};
    struct entry entry;
    bool existed;

    if (m->versioning == STORE_UNVERSIONED) {
        CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK);
        CHECK(existed == (m->count[key] > 0));
        m->count[key] = 0;
        return;
    }
    REQUIRE(store_delete_mark(d, &k, m->versioning, NULL, NULL, &entry, &eb) == ERR_OK);
    CHECK((entry.flags & ENTRY_MARKER) != 0 && entry.mtime_ms > 0);
    v.id = entry_born(&entry);
    model_add(m, key, &v);
}

static void
do_version_delete(struct store *d, struct model *m, unsigned key)
{
    struct store_key k = key_of(key);
    struct errbuf eb = {0};
    struct entry was;
    unsigned i = m->count[key] > 0 ? rnd(m->count[key]) : 0;
    struct version none = {1, 1};
    bool by_null;

    if (m->count[key] == 0) {
        CHECK(store_version_delete(d, &k, &none, NULL, NULL, &was, NULL, &eb) ==
              ERR_NOT_FOUND);
        CHECK(store_version_delete(d, &k, NULL, NULL, NULL, &was, NULL, &eb) ==
              ERR_NOT_FOUND);
        return;
    }
    by_null = m->of[key][i].null && rnd(2) == 0;
    if (store_version_delete(d, &k, by_null ? NULL : &m->of[key][i].id, NULL, NULL, &was,
                             NULL, &eb) != ERR_OK) {
        fprintf(stderr, "version delete: %s\n", eb.text);
        REQUIRE(false);
    }
    CHECK(((was.flags & ENTRY_MARKER) != 0) == m->of[key][i].marker);
    remove_at(m, key, i);
}

static void
do_set_meta(struct store *d, struct model *m, unsigned key)
{
    struct store_key k = key_of(key);
    unsigned i = m->count[key] > 0 ? rnd(m->count[key]) : 0, tag = rnd(5);
    struct object_meta meta = {.mtime_ms = 1700000000123, .tags = tag_text(tag)};
    struct errbuf eb = {0};
    struct entry entry;
    bool current = rnd(2) == 0;
    enum err rc;

    if (current)
        i = 0;
    rc = store_set_meta(d, &k, current ? NULL : &m->of[key][i].id, &meta, NULL, NULL,
                        &entry, &eb);
    if (m->count[key] == 0 || m->of[key][i].marker) {
        CHECK(rc == ERR_NOT_FOUND);
        return;
    }
    REQUIRE(rc == ERR_OK);
    m->of[key][i].tag = tag;
}

static void
check_version(struct store *d, const struct store_key *k, const struct known *v,
              const struct entry *entry, struct arena *a)
{
    struct version id = entry_born(entry);
    struct store_reader *r;
    struct object_meta meta;
    struct errbuf eb = {0};
    struct span piece;
    uint64_t at = 0;

    CHECK(id.epoch == v->id.epoch && id.counter == v->id.counter);
    CHECK(((entry->flags & ENTRY_MARKER) != 0) == v->marker);
    CHECK(entry_is_null_version(entry) == v->null);
    if (v->marker)
        return;
    CHECK_U64(entry->size, v->len);
    REQUIRE(store_meta(d, k, entry, a, &meta, &eb) == ERR_OK);
    CHECK(span_eq(meta.tags, tag_text(v->tag)));
    REQUIRE(store_read_begin(d, k, entry, 0, entry->size, &r, &eb) == ERR_OK);
    for (;;) {
        REQUIRE(store_read_next(r, DEADLINE_NEVER, &piece, &eb) == ERR_OK);
        if (piece.len == 0)
            break;
        CHECK(memcmp(piece.at, data + v->from + at, piece.len) == 0);
        at += piece.len;
    }
    CHECK_U64(at, v->len);
    store_read_end(&r);
}

static void
check_key(struct store *d, const struct model *m, unsigned key, struct arena *a)
{
    struct store_key k = key_of(key);
    struct errbuf eb = {0};
    struct entry entry;
    bool current, null = false;
    enum err rc = store_lookup(d, &k, &entry, &eb);

    if (m->count[key] > 0 && !m->of[key][0].marker) {
        REQUIRE(rc == ERR_OK);
        check_version(d, &k, &m->of[key][0], &entry, a);
    } else {
        CHECK(rc == ERR_NOT_FOUND);
    }
    for (unsigned i = 0; i < m->count[key]; i++) {
        REQUIRE(store_version_find(d, &k, &m->of[key][i].id, &entry, &current, &eb) ==
                ERR_OK);
        CHECK(current == (i == 0));
        check_version(d, &k, &m->of[key][i], &entry, a);
        if (!m->of[key][i].null)
            continue;
        null = true;
        REQUIRE(store_version_find(d, &k, NULL, &entry, &current, &eb) == ERR_OK);
        check_version(d, &k, &m->of[key][i], &entry, a);
    }
    if (!null)
        CHECK(store_version_find(d, &k, NULL, &entry, &current, &eb) == ERR_NOT_FOUND);
}

/* Pages of any size, and each page begins where the one before it ended. */
static void
check_list(struct store *d, const struct model *m, struct arena *a)
{
    unsigned key = 0, i = 0;
    struct span after = {"", 0};
    struct version id;
    bool more = true, begun = false;

    while (more) {
        struct store_version *page;
        struct errbuf eb = {0};
        uint32_t count;

        REQUIRE(store_version_list(d, 7, after, !begun, begun ? &id : NULL, 1 + rnd(7), a,
                                   &page, &count, &more, &eb) == ERR_OK);
        for (uint32_t n = 0; n < count; n++) {
            while (key < KEYS && i == m->count[key]) {
                key++;
                i = 0;
            }
            REQUIRE(key < KEYS);
            CHECK(span_eq(page[n].key, key_of(key).key));
            CHECK(page[n].latest == (i == 0));
            id = entry_born(&page[n].entry);
            CHECK(id.epoch == m->of[key][i].id.epoch &&
                  id.counter == m->of[key][i].id.counter);
            i++;
            after = page[n].key;
            begun = true;
        }
    }
    while (key < KEYS && i == m->count[key]) {
        key++;
        i = 0;
    }
    CHECK(key == KEYS);
}

/* What a quota is measured by: of the current versions and, apart, of the older ones. */
static void
check_usage(struct store *d, const struct model *m)
{
    uint64_t want[2] = {0}, want_bytes[2] = {0}, got, bytes;

    for (unsigned k = 0; k < KEYS; k++) {
        for (unsigned i = 0; i < m->count[k]; i++) {
            want[i > 0] += !m->of[k][i].marker;
            want_bytes[i > 0] += m->of[k][i].marker ? 0 : m->of[k][i].len;
        }
    }
    for (unsigned older = 0; older < 2; older++) {
        store_bucket_usage(d, 7, older != 0 ? USAGE_OLDER : USAGE_LIVE, &got, &bytes);
        CHECK_U64(got, want[older]);
        CHECK_U64(bytes, want_bytes[older]);
    }
}

static void
check_all(struct store *d, const struct model *m)
{
    struct arena *a = arena_new(KIB(64), MIB(16));
    struct store_entry *entries;
    struct errbuf eb = {0};
    uint32_t count, living = 0, any = 0;
    bool more, empty;

    for (unsigned key = 0; key < KEYS; key++) {
        check_key(d, m, key, a);
        living += m->count[key] > 0 && !m->of[key][0].marker;
        any += m->count[key];
        arena_reset(a);
    }
    check_list(d, m, a);
    REQUIRE(store_list(d, 7, SPAN(""), true, 100, a, &entries, &count, &more, &eb) ==
            ERR_OK);
    CHECK_U64(count, living);
    REQUIRE(store_bucket_empty(d, 7, &empty, &eb) == ERR_OK);
    CHECK(empty == (any == 0));
    check_usage(d, m);
    arena_free(&a);
}

static void
restart(struct store **dp)
{
    bool killed = rnd(2) == 0;

    if (killed)
        world_copy();
    store_close(dp);
    if (killed)
        world_back_to_copy();
    world_check_sound();
    if (rnd(2) == 0)
        world_lose_index();
    *dp = world_open_small_logs();
}

static void
run_model(void *arg)
{
    struct store *d = world_open_small_logs();
    struct model *m = xcalloc(1, sizeof *m);
    unsigned steps = *(unsigned *)arg;
    struct errbuf eb = {0};

    m->versioning = rnd(3) == 0 ? STORE_UNVERSIONED : STORE_VERSIONED;
    for (unsigned i = 0; i < steps; i++) {
        unsigned key = rnd(KEYS), what = rnd(100);

        if (m->count[key] >= VERSIONS - 1 || what < 30)
            do_version_delete(d, m, key);
        else if (what < 65)
            do_put(d, m, key);
        else if (what < 80)
            do_mark(d, m, key);
        else
            do_set_meta(d, m, key);
        if (rnd(25) == 0) /* never back to none */
            m->versioning = rnd(2) == 0 ? STORE_VERSIONED : STORE_SUSPENDED;
        if (rnd(20) == 0)
            CHECK(store_flush(d, &eb) == ERR_OK);
        if (rnd(40) == 0)
            CHECK(store_compact(d, &eb) == ERR_OK);
        if (rnd(12) == 0)
            check_all(d, m);
        if (rnd(120) == 0) {
            restart(&d);
            check_all(d, m);
        }
    }
    restart(&d);
    check_all(d, m);
    store_close(&d);
    free(m);
}

static void
test_random_changes_agree_with_a_model(void)
{
    const char *given = getenv("FOREBAY_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : rt_wall_ns();
    unsigned steps = 500;

    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    data = xmalloc(DATA);
    world_fill(data, DATA, 5);
    for (unsigned i = 0; i < 2; i++) {
        state = seed + i;
        world_run(run_model, &steps);
    }
    free(data);
}

/* Several changes of one key in one commit batch see each other. */
struct racer {
    struct store *disk;
    unsigned number;
};

static void
race(void *arg)
{
    struct racer *r = arg;
    struct store_key k = world_key(7, "raced");
    struct errbuf eb = {0};
    struct entry entry;

    for (unsigned i = 0; i < 20; i++) {
        struct object_meta meta = {
            .mtime_ms = 1700000000123,
            .versioning = (r->number + i) % 3 == 0 ? STORE_SUSPENDED : STORE_VERSIONED};
        struct store_writer *w;

        REQUIRE(store_write_begin(r->disk, &k, STORE_NATIVE, 1, &w, &eb) == ERR_OK);
        REQUIRE(store_write(w, "x", 1, &eb) == ERR_OK);
        REQUIRE(store_commit(&w, &meta, NULL, &entry, &eb) == ERR_OK);
        if (i % 2 == 0) {
            struct version id = entry_born(&entry);
            enum err rc =
                store_version_delete(r->disk, &k, &id, NULL, NULL, NULL, NULL, &eb);

            /* A null version may have been replaced. */
            CHECK(rc == ERR_OK || (rc == ERR_NOT_FOUND && entry_is_null_version(&entry)));
        }
    }
}

static void
race_all(void *arg)
{
    struct store *d = world_open(NULL);
    struct racer racers[16];
    struct rt_group batch;
    struct store_version *page;
    struct arena *a = arena_new(KIB(64), MIB(16));
    struct errbuf eb = {0};
    struct version last = {UINT64_MAX, UINT64_MAX};
    uint32_t count, nulls = 0;
    bool more;

    (void)arg;
    rt_group_begin(&batch);
    for (unsigned i = 0; i < ARRAY_LEN(racers); i++) {
        racers[i] = (struct racer){.disk = d, .number = i};
        REQUIRE(rt_group_start(&batch, race, &racers[i]) == ERR_OK);
    }
    rt_group_join(&batch);
    for (unsigned round = 0; round < 2; round++) {
        nulls = 0;
        last = (struct version){UINT64_MAX, UINT64_MAX};
        REQUIRE(store_version_list(d, 7, SPAN(""), true, NULL, 1000, a, &page, &count,
                                   &more, &eb) == ERR_OK);
        CHECK(!more && count > 0);
        for (uint32_t i = 0; i < count; i++) {
            struct version id = entry_born(&page[i].entry);

            CHECK(page[i].latest == (i == 0));
            CHECK(id.epoch < last.epoch ||
                  (id.epoch == last.epoch && id.counter < last.counter));
            last = id;
            nulls += entry_is_null_version(&page[i].entry);
        }
        CHECK(nulls <= 1);
        restart(&d);
    }
    arena_free(&a);
    store_close(&d);
}

static void
test_changes_of_one_batch_see_each_other(void)
{
    state = 1;
    world_run(race_all, NULL);
}

/* Which version was the one before is not known while the index may hide entries: the current one stays. */
static void
hidden_before(void *arg)
{
    struct store *d = world_open(NULL);
    struct store_key k = key_of(0);
    struct object_meta meta = {.mtime_ms = 1700000000123, .versioning = STORE_VERSIONED};
    struct errbuf eb = {0};
    struct version born;
    struct entry entry, was;

    (void)arg;
    for (unsigned i = 0; i < 2; i++) {
        struct store_writer *w;

        REQUIRE(store_write_begin(d, &k, STORE_NATIVE, 1, &w, &eb) == ERR_OK);
        REQUIRE(store_write(w, "x", 1, &eb) == ERR_OK);
        REQUIRE(store_commit(&w, &meta, NULL, &entry, &eb) == ERR_OK);
        CHECK(store_flush(d, &eb) == ERR_OK);
    }
    born = entry_born(&entry);
    index_set_hiding(d->index);
    CHECK(store_version_delete(d, &k, &born, NULL, NULL, &was, NULL, &eb) == ERR_CORRUPT);
    CHECK_SAYS(eb.text, "is damaged");
    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK);
    store_close(&d);
    d = world_open(NULL); /* it rebuilt the index */
    CHECK(store_version_delete(d, &k, &born, NULL, NULL, &was, NULL, &eb) == ERR_OK);
    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK);
    store_close(&d);
}

static void
test_a_hidden_version_is_not_passed_over(void)
{
    world_run(hidden_before, NULL);
}

/* More than a log of an object that is overwritten: compaction drops such a log, and leaves the one behind it, which is in use. */
static void
fill_a_log(struct store *d)
{
    static char bytes[9000];
    struct entry entry;

    for (unsigned i = 0; i < 118; i++)
        CHECK(world_put(d, "other", bytes, sizeof bytes, &entry) == ERR_OK);
}

/* A put or delete that began before versioning was switched on, and ends on a key that has versions by then: what it is
 * (null version, marker) stands in its own record, so that a rebuild agrees when the versions below are gone. */
static void
late_changes(void *arg)
{
    static char bytes[10000];
    bool delete = *(unsigned *)arg % 2 != 0, lose = *(unsigned *)arg / 2 != 0;
    struct store_key k = world_key(7, "late");
    struct object_meta meta = {.mtime_ms = 1700000000123, .versioning = STORE_VERSIONED};
    struct store *d = world_open_small_logs();
    struct store_writer *w;
    struct errbuf eb = {0};
    struct entry first, entry;
    bool existed;

    REQUIRE(store_write_begin(d, &k, STORE_NATIVE, 100, &w, &eb) == ERR_OK);
    REQUIRE(store_write(w, bytes, 100, &eb) == ERR_OK);
    REQUIRE(store_commit(&w, &meta, NULL, &first, &eb) == ERR_OK);
    fill_a_log(d);
    if (delete)
        CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK &&
              existed);
    else
        CHECK(world_put(d, "late", bytes, 50, &entry) == ERR_OK);
    CHECK(store_lookup_any(d, &k, &entry, &eb) == ERR_OK);
    CHECK((entry.flags & ENTRY_SUSPENDED) != 0);
    CHECK(((entry.flags & ENTRY_MARKER) != 0) == delete);
    meta.versioning = STORE_VERSIONED;
    {
        struct version born = entry_born(&first);

        CHECK(store_version_delete(d, &k, &born, NULL, NULL, NULL, NULL, &eb) == ERR_OK);
    }
    CHECK(store_flush(d, &eb) == ERR_OK);
    CHECK(store_compact(d, &eb) == ERR_OK);
    CHECK(store_flush(d, &eb) == ERR_OK);
    store_close(&d);
    world_check_sound();
    if (lose)
        world_lose_index();
    d = world_open_small_logs();
    CHECK(store_lookup_any(d, &k, &entry, &eb) == ERR_OK);
    CHECK((entry.flags & ENTRY_SUSPENDED) != 0);
    CHECK(((entry.flags & ENTRY_MARKER) != 0) == delete);
    store_close(&d);
    world_check_sound();
}

static void
test_a_change_from_before_versioning(void)
{
    for (unsigned i = 0; i < 4; i++)
        world_run(late_changes, &i);
}

int
main(void)
{
    log_set_level(LOG_WARN);
    RUN(test_random_changes_agree_with_a_model);
    RUN(test_changes_of_one_batch_see_each_other);
    RUN(test_a_hidden_version_is_not_passed_over);
    RUN(test_a_change_from_before_versioning);
    return check_done();
}
