/* suite: what every backend of meta must do. test_meta.c runs it against `embedded`, test_etcd.c against etcd-server, and
 * test_etcd_model.c against the model of etcd in the simulator: each case here holds for all of them.
 */
#pragma once
#include "base/mem.h"
#include "check.h"
#include "meta/follow.h"
#include "rt/loop.h"
#include "rt/time.h"

static inline enum err
suite_put(struct meta *m, const char *key, const char *value, uint64_t if_revision,
          uint64_t *revision)
{
    struct errbuf eb = {{0}};
    struct meta_change c = {
        .key = span_of(key), .value = span_of(value), .if_revision = if_revision};

    return meta_apply(m, &c, 1, revision, &eb);
}

static inline void
suite_conditions(struct meta *m, struct arena *a)
{
    struct meta_pair pair;
    struct errbuf eb = {{0}};
    uint64_t first = 0, second = 0;

    CHECK(meta_get(m, SPAN("a"), a, &pair, &eb) == ERR_NOT_FOUND);
    CHECK_SAYS(eb.text, "\"a\"");
    CHECK(suite_put(m, "a", "one", 0, &first) == ERR_OK);
    CHECK(suite_put(m, "a", "two", 0, NULL) == ERR_PRECONDITION);
    CHECK(suite_put(m, "a", "two", first + 7, NULL) == ERR_PRECONDITION);
    CHECK(suite_put(m, "a", "two", first, &second) == ERR_OK);
    CHECK(second > first);
    CHECK(meta_get(m, SPAN("a"), a, &pair, &eb) == ERR_OK);
    CHECK(span_is(pair.value, "two") && pair.revision == second);
    CHECK(suite_put(m, "a", "", META_ANY, NULL) == ERR_OK); /* an empty value is one */
    CHECK(meta_get(m, SPAN("a"), a, &pair, &eb) == ERR_OK && pair.value.len == 0);
}

/* All or nothing. */
static inline void
suite_several(struct meta *m, struct arena *a)
{
    struct errbuf eb = {{0}};
    struct meta_pair pair;
    struct meta_change c[2] = {{.key = SPAN("b"), .value = SPAN("new"), .if_revision = 0},
                               {.key = SPAN("a"), .value = SPAN("x"), .if_revision = 0}};

    CHECK(meta_apply(m, c, 2, NULL, &eb) == ERR_PRECONDITION);
    CHECK_SAYS(eb.text, "\"a\" has changed");
    CHECK(meta_get(m, SPAN("b"), a, &pair, &eb) == ERR_NOT_FOUND);
    c[1].if_revision = META_ANY;
    CHECK(meta_apply(m, c, 2, NULL, &eb) == ERR_OK);
    CHECK(meta_get(m, SPAN("b"), a, &pair, &eb) == ERR_OK);
    c[0] =
        (struct meta_change){.key = SPAN("b"), .remove = true, .if_revision = META_ANY};
    CHECK(meta_apply(m, c, 1, NULL, &eb) == ERR_OK);
    CHECK(meta_apply(m, c, 1, NULL, &eb) == ERR_OK); /* removing nothing is fine */
    CHECK(meta_get(m, SPAN("b"), a, &pair, &eb) == ERR_NOT_FOUND);
}

static inline void
suite_limits(struct meta *m)
{
    static char big[META_VALUE_MAX + 1], long_key[META_KEY_MAX + 1];
    struct errbuf eb = {{0}};
    struct meta_change c = {.key = SPAN("k"), .value = {big, sizeof big}};

    CHECK(meta_apply(m, &c, 1, NULL, &eb) == ERR_TOO_LARGE);
    CHECK(meta_apply(m, &c, 0, NULL, &eb) == ERR_BAD_REQUEST);
    CHECK(meta_apply(m, &c, META_CHANGE_MAX + 1, NULL, &eb) == ERR_BAD_REQUEST);
    memset(long_key, 'k', sizeof long_key);
    c = (struct meta_change){.key = {long_key, sizeof long_key}};
    CHECK(meta_apply(m, &c, 1, NULL, &eb) == ERR_BAD_REQUEST);
    c.key.len = 0;
    CHECK(meta_apply(m, &c, 1, NULL, &eb) == ERR_BAD_REQUEST);
}

static inline void
suite_lists(struct meta *m, struct arena *a)
{
    static const char *const keys[] = {"l/a", "l/b", "l", "l0", "k/z", "l/", "l/a/b"};
    struct arena *small = arena_new(64, 64);
    struct meta_pair *pairs = NULL;
    struct errbuf eb = {{0}};
    uint64_t revision = 0;
    uint32_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        CHECK(suite_put(m, keys[i], keys[i], META_ANY, NULL) == ERR_OK);
    CHECK(meta_list(m, SPAN("l/"), a, &pairs, &count, &revision, &eb) == ERR_OK);
    CHECK_U64(count, 4);
    CHECK(count == 4 && span_is(pairs[0].key, "l/") && span_is(pairs[1].key, "l/a") &&
          span_is(pairs[2].key, "l/a/b") && span_is(pairs[3].value, "l/b"));
    CHECK(meta_list(m, SPAN("nothing"), a, &pairs, &count, &revision, &eb) == ERR_OK);
    CHECK_U64(count, 0);
    /* More than the arena holds is an error, not the end of the process. */
    CHECK(meta_list(m, SPAN(""), small, &pairs, &count, &revision, &eb) == ERR_TOO_LARGE);
    arena_free(&small);
}

static unsigned suite_calls;

static inline void
suite_on_change(void *arg)
{
    (void)arg;
    suite_calls++;
}

static inline void
suite_calls_wait(void)
{
    struct deadline by = deadline_in_ms(PATIENCE_MS);

    while (suite_calls == 0 && !deadline_passed(by))
        (void)!rt_sleep_ms(1);
}

static inline void
suite_watches(struct meta *m)
{
    struct errbuf eb = {{0}};
    struct meta_watch *w = NULL;
    unsigned before;

    suite_calls = 0;

    CHECK(meta_watch_start(m, SPAN("w/"), suite_on_change, NULL, &w, &eb) == ERR_OK);
    CHECK(suite_put(m, "v", "", META_ANY, NULL) == ERR_OK);
    rt_yield();
    CHECK_U64(suite_calls, 0);
    CHECK(suite_put(m, "w/1", "", META_ANY, NULL) == ERR_OK);
    suite_calls_wait();
    CHECK(suite_calls >= 1); /* a backend may report a change of its own twice */
    meta_watch_stop(&w);
    before = suite_calls;
    CHECK(w == NULL);
    CHECK(suite_put(m, "w/1", "", META_ANY, NULL) == ERR_OK);
    for (int i = 0; i < 100; i++)
        rt_yield();
    CHECK_U64(suite_calls, before);
}

/* A transaction reads in its own step: what stands behind the change, or what refused it. */
static inline void
suite_reads_in_the_same_step(struct meta *m, struct arena *a)
{
    struct span reads[] = {SPAN("t/1"), SPAN("t/none")};
    struct meta_change c = {.key = SPAN("t/1"), .value = SPAN("one"), .if_revision = 0};
    struct meta_txn t = {
        .changes = &c, .change_count = 1, .reads = reads, .read_count = 2};
    struct meta_result r;
    struct errbuf eb = {{0}};
    uint64_t first;

    CHECK(meta_apply_txn(m, &t, a, &r, &eb) == ERR_OK && !r.unknown);
    CHECK(span_is(r.reads[0].value, "one") && r.reads[0].revision == r.revision);
    CHECK_U64(r.reads[1].revision, 0);
    first = r.revision;
    c.value = SPAN("two");
    CHECK(meta_apply_txn(m, &t, a, &r, &eb) == ERR_PRECONDITION && !r.unknown);
    CHECK_U64(r.failed, 0);
    CHECK(span_is(r.reads[0].value, "one") && r.reads[0].revision == first);
    c.if_revision = r.reads[0].revision; /* no second read is needed */
    CHECK(meta_apply_txn(m, &t, a, &r, &eb) == ERR_OK);
    CHECK(span_is(r.reads[0].value, "two") && r.reads[0].revision > first);
}

/* The answer to a change is lost. Without a condition it is unknown what became of it; with one, a backend that sends it
 * again (`resolves`) finds its own value. A value that another writer put over it is unknown again. */
static inline void
suite_unknown_outcome(struct meta *m, struct arena *a, bool resolves)
{
    struct span key = SPAN("u/1");
    struct meta_change c = {.key = key, .value = SPAN("made"), .if_revision = META_ANY};
    struct meta_txn t = {
        .changes = &c, .change_count = 1, .reads = &key, .read_count = 1};
    struct meta_result r;
    struct meta_pair pair;
    struct errbuf eb = {{0}};
    enum err rc;

    meta_lose_outcome = true;
    CHECK(meta_apply_txn(m, &t, a, &r, &eb) == ERR_IO && r.unknown);
    CHECK_SAYS(eb.text, "unknown");
    CHECK(meta_get(m, key, a, &pair, &eb) == ERR_OK && span_is(pair.value, "made"));
    c.value = SPAN("more");
    c.if_revision = pair.revision;
    meta_lose_outcome = true;
    rc = meta_apply_txn(m, &t, a, &r, &eb);
    CHECK(rc == (resolves ? ERR_OK : ERR_IO) && r.unknown == !resolves);
    CHECK(meta_get(m, key, a, &pair, &eb) == ERR_OK && span_is(pair.value, "more"));
    if (resolves) {
        CHECK_U64(r.revision, pair.revision);
        CHECK(span_is(r.reads[0].value, "more") && r.reads[0].revision == r.revision);
    }
    c.if_revision = 1; /* a refusal is known, also when its answer is lost */
    meta_lose_outcome = true;
    CHECK(meta_apply_txn(m, &t, a, &r, &eb) == ERR_PRECONDITION && !r.unknown);
    meta_lose_outcome = false;
    c.if_revision = pair.revision; /* a removal leaves nothing that tells who made it */
    c.remove = true;
    c.value = (struct span){NULL, 0};
    meta_lose_outcome = true;
    CHECK(meta_apply_txn(m, &t, a, &r, &eb) != ERR_OK && r.unknown);
    CHECK(meta_get(m, key, a, &pair, &eb) == ERR_NOT_FOUND);
}

/* Pages end at a count and at a size; a list of several pages is whole. */
static inline void
suite_pages(struct meta *m)
{
    static char value[META_VALUE_MAX];
    struct arena *a = arena_new(4096, 16u << 20);
    struct meta_range r = {.prefix = SPAN("p/"), .max = 3};
    struct meta_page page;
    struct meta_pair *all;
    struct errbuf eb = {{0}};
    uint32_t seen = 0, count;
    uint64_t revision;

    for (unsigned i = 0; i < 20; i++) {
        char key[16];
        struct meta_change c = {.value = {value, sizeof value}, .if_revision = META_ANY};

        snprintf(key, sizeof key, "p/%02u", i);
        c.key = span_of(key);
        CHECK(meta_apply(m, &c, 1, NULL, &eb) == ERR_OK);
    }
    do {
        CHECK(meta_page(m, &r, a, &page, &eb) == ERR_OK);
        REQUIRE(page.count > 0 && page.count <= 3);
        CHECK(seen > 0 || span_is(page.pairs[0].key, "p/00"));
        seen += page.count;
        r.after = page.pairs[page.count - 1].key;
    } while (page.more);
    CHECK_U64(seen, 20);
    r = (struct meta_range){.prefix = SPAN("p/")};
    CHECK(meta_page(m, &r, a, &page, &eb) == ERR_OK && page.more);
    CHECK(page.count == META_PAGE_BYTES / (META_VALUE_MAX + 28));
    CHECK(meta_list(m, SPAN("p/"), a, &all, &count, &revision, &eb) == ERR_OK);
    CHECK_U64(count, 20);
    arena_free(&a);
}

static unsigned suite_refreshes;
static bool suite_refresh_fails;

static inline enum err
suite_refresh(void *arg, uint64_t *revision, struct errbuf *eb)
{
    struct arena *a = arena_new(4096, 1u << 20);
    struct meta_page page;
    enum err rc =
        meta_page(arg, &(struct meta_range){.prefix = SPAN("f/")}, a, &page, eb);

    suite_refreshes++;
    *revision = page.revision;
    arena_free(&a);
    return suite_refresh_fails ? err_set(eb, ERR_IO, "planted") : rc;
}

static inline void
suite_followers(struct meta *m)
{
    struct meta_follower *f = NULL;
    struct errbuf eb = {{0}};
    uint64_t revision = 0;

    suite_refreshes = 0;
    suite_refresh_fails = true;
    CHECK(meta_follow_start(m, SPAN("f/"), suite_refresh, m, &f, &eb) == ERR_IO &&
          f == NULL);
    suite_refresh_fails = false;
    CHECK(meta_follow_start(m, SPAN("f/"), suite_refresh, m, &f, &eb) == ERR_OK);
    CHECK_U64(suite_refreshes, 2);
    CHECK(suite_put(m, "f/1", "", META_ANY, &revision) == ERR_OK);
    CHECK(meta_follow_wait(f, revision, &eb) == ERR_OK);
    CHECK(suite_refreshes >= 3);
    suite_refresh_fails = true; /* the waiter gets the error; it is tried again */
    CHECK(suite_put(m, "f/1", "", META_ANY, &revision) == ERR_OK);
    CHECK(meta_follow_wait(f, revision, &eb) == ERR_IO);
    CHECK_SAYS(eb.text, "planted");
    suite_refresh_fails = false;
    CHECK(meta_follow_refresh(f, &eb) == ERR_OK);
    CHECK(meta_follow_wait(f, revision, &eb) == ERR_OK);
    meta_follow_stop(&f);
}

/* Keys and values are bytes: zero, 0xff, quotes and what is no UTF-8 come back as they were, in byte order. */
static inline void
suite_bytes(struct meta *m, struct arena *a)
{
    static const struct span keys[] = {
        {"y/\0a", 4}, {"y/\"\\", 4}, {"y/\xc3(", 4}, {"y/\xff", 3}, {"y/\xff\0", 4}};
    struct errbuf eb = {{0}};
    struct meta_pair *pairs = NULL;
    uint64_t revision;
    uint32_t count = 0;

    for (size_t i = ARRAY_LEN(keys); i-- > 0;) {
        struct meta_change c = {.key = keys[i], .value = keys[i], .if_revision = 0};

        CHECK(meta_apply(m, &c, 1, NULL, &eb) == ERR_OK);
    }
    CHECK(suite_put(m, "z", "behind them", META_ANY, NULL) == ERR_OK);
    CHECK(meta_list(m, SPAN("y/"), a, &pairs, &count, &revision, &eb) == ERR_OK);
    CHECK_U64(count, ARRAY_LEN(keys));
    for (uint32_t i = 0; i < MIN(count, ARRAY_LEN(keys)); i++)
        CHECK(span_eq(pairs[i].key, keys[i]) && span_eq(pairs[i].value, keys[i]));
    CHECK(meta_list(m, (struct span){"y/\xff", 3}, a, &pairs, &count, &revision, &eb) ==
          ERR_OK);
    CHECK_U64(count, 2);
}

/* A page of an earlier revision shows that revision, or says that it is gone; never a later state. */
static inline void
suite_page_of_a_revision(struct meta *m, struct arena *a)
{
    struct meta_range r = {.prefix = SPAN("g/")};
    struct meta_page page;
    struct errbuf eb = {{0}};
    enum err rc;

    CHECK(suite_put(m, "g/1", "old", META_ANY, &r.revision) == ERR_OK);
    CHECK(meta_page(m, &r, a, &page, &eb) == ERR_OK && page.count == 1);
    CHECK_U64(page.revision, r.revision);
    CHECK(suite_put(m, "g/1", "new", META_ANY, NULL) == ERR_OK);
    rc = meta_page(m, &r, a, &page, &eb);
    CHECK(rc == ERR_BUSY || (rc == ERR_OK && span_is(page.pairs[0].value, "old") &&
                             page.revision == r.revision));
}

/* The largest transaction that the interface takes. */
static inline void
suite_largest(struct meta *m)
{
    static char value[META_TXN_BYTES_MAX / META_CHANGE_MAX - 8];
    struct arena *a = arena_new(4096, 16u << 20);
    struct meta_change changes[META_CHANGE_MAX];
    struct span reads[META_READ_MAX];
    char names[META_CHANGE_MAX][8];
    struct meta_txn t = {changes, META_CHANGE_MAX, reads, META_READ_MAX};
    struct meta_result r;
    struct errbuf eb = {{0}};

    memset(value, 'v', sizeof value);
    for (unsigned i = 0; i < META_CHANGE_MAX; i++) {
        snprintf(names[i], sizeof names[i], "x/%02u", i);
        changes[i] = (struct meta_change){
            .key = span_of(names[i]), .value = {value, sizeof value}, .if_revision = 0};
        reads[i] = span_of(names[i]);
    }
    CHECK(meta_apply_txn(m, &t, a, &r, &eb) == ERR_OK);
    for (unsigned i = 0; r.reads != NULL && i < META_READ_MAX; i++)
        CHECK(r.reads[i].revision == r.revision && r.reads[i].value.len == sizeof value);
    CHECK(meta_apply_txn(m, &t, a, &r, &eb) == ERR_PRECONDITION && r.failed == 0);
    arena_free(&a);
}

static inline void
suite_all(struct meta *m, bool resolves)
{
    struct arena *a = arena_new(4096, 1u << 20);

    suite_conditions(m, a);
    suite_several(m, a);
    suite_limits(m);
    suite_lists(m, a);
    suite_watches(m);
    suite_reads_in_the_same_step(m, a);
    suite_unknown_outcome(m, a, resolves);
    suite_pages(m);
    suite_followers(m);
    suite_bytes(m, a);
    suite_page_of_a_revision(m, a);
    suite_largest(m);
    arena_free(&a);
}
