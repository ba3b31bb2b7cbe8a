#include "store/index/memtable.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "rt/loop.h"
#include "rt/sync.h"
#include "store/index/entry.h"
#include "store/index/lookup_cache.h"
#include "store/index/run.h"
#include "store/record/keys.h"

/* Served, runs are merged on the loop, so a merge has a bound: about 0.3 ms. Larger ones stay side by side. */
#define MERGE_MAX 2048u
/* A replay gathers the changes of many batches in one run, which a thread of the pool puts in order when it is full: each
 * change is copied and sorted once. Where they have to be in order before that they come out small, and are merged, eight
 * at a time, by the pool as well. */
#define GATHER_MAX       (1u << 17)
#define GATHER_BYTES     MIB(32)
#define MERGE_MAX_REPLAY (GATHER_MAX / 2)
#define JOIN             8u /* replaying: so many at once */
#define JOIN_SERVED      4u
static_assert(JOIN <= RUN_MERGE_MOST && JOIN_SERVED <= RUN_MERGE_MOST,
              "one merge takes them");

/* What readers use: immutable, replaced as a whole. Each list holds a reference to its runs. */
struct runs {
    uint64_t bytes;
    uint32_t entries;
    uint32_t count;
    struct run *at[]; /* oldest first */
};

struct memtable {
    _Atomic(struct runs *) current;    /* any loop reads, the owner loop replaces */
    struct lookup_cache *lookup_cache; /* owned */
    /* Owner loop only. */
    uint32_t frozen; /* so many of the oldest runs are on their way to the index */
    bool replaying, merging;
    struct rt_group merger;
    struct run *gathered; /* owned; newer than all of the list; NULL unless replaying */
    struct rt_cond finished; /* a run is in order, or the merger has ended */
};

static struct runs *
runs_new(uint32_t count)
{
    struct runs *rs = xcalloc(1, sizeof *rs + count * sizeof rs->at[0]);

    rs->count = count;
    return rs;
}

static void
runs_free(void *ptr)
{
    struct runs *rs = ptr;

    for (uint32_t i = 0; i < rs->count; i++)
        run_drop(rs->at[i]);
    free(rs);
}

static struct runs *
current_runs(const struct memtable *t)
{
    return atomic_load_explicit(&t->current, memory_order_acquire);
}

/* The list takes effect; the former one dies when no loop can still be reading it. */
static void
replace_runs(struct memtable *t, struct runs *rs)
{
    struct runs *old = current_runs(t);

    for (uint32_t i = 0; i < rs->count; i++) {
        rs->bytes += run_bytes(rs->at[i]);
        rs->entries += run_count(rs->at[i]);
    }
    atomic_store_explicit(&t->current, rs, memory_order_release);
    rt_retire(runs_free, old);
}

/* What holds between two steps of the owner loop. */
static void
memtable_check(const struct memtable *t)
{
    const struct runs *rs = current_runs(t);
    uint32_t entries = 0;

    assert(rs != NULL);
    assert(t->frozen <= rs->count);
    assert((t->gathered != NULL) == t->replaying);
    for (uint32_t i = 0; i < rs->count; i++) {
        assert(rs->at[i] != NULL);
        assert(t->replaying || run_is_finished(rs->at[i]));
        entries += run_count(rs->at[i]);
    }
    assert(entries == rs->entries);
}

struct memtable *
memtable_new(void)
{
    struct memtable *t = xcalloc(1, sizeof *t);

    atomic_init(&t->current, runs_new(0));
    rt_cond_init(&t->finished);
    t->lookup_cache = lookup_cache_new();
    return t;
}

void
memtable_free(struct memtable **tp)
{
    if (*tp == NULL)
        return;
    assert(!(*tp)->merging);
    runs_free(current_runs(*tp));
    run_drop((*tp)->gathered);
    lookup_cache_free(&(*tp)->lookup_cache);
    free(*tp);
    *tp = NULL;
}

struct lookup_cache *
memtable_lookup_cache(struct memtable *t)
{
    return t->lookup_cache;
}

uint64_t
memtable_bytes(const struct memtable *t)
{
    return current_runs(t)->bytes;
}

uint64_t
memtable_bytes_new(const struct memtable *t)
{
    const struct runs *rs = current_runs(t);
    uint64_t bytes = 0;

    for (uint32_t i = t->frozen; i < rs->count; i++)
        bytes += run_bytes(rs->at[i]);
    return bytes + (t->gathered != NULL ? run_bytes(t->gathered) : 0);
}

uint32_t
memtable_count(const struct memtable *t)
{
    return current_runs(t)->entries + (t->gathered != NULL ? run_count(t->gathered) : 0);
}

/* ---- merging ---- */

/* How many of the last runs to merge with r; 0: none. Four of about one size are merged, so that each coded entry is
 * copied once for four times as many; fewer where four would be too many entries. */
static uint32_t
await_merge(const struct memtable *t, const struct runs *old, const struct run *r,
            uint32_t kept)
{
    uint32_t entries = run_count(r), n = 0;

    while (n + 1 < JOIN_SERVED && kept - n > t->frozen) {
        uint32_t more = run_count(old->at[kept - n - 1]);

        if (more > 2 * run_count(r))
            return 0;
        if (entries + more > MERGE_MAX)
            return n;
        entries += more;
        n++;
    }
    assert(n < JOIN_SERVED && n <= kept - t->frozen);
    return n + 1 == JOIN_SERVED ? n : 0;
}

/* While serving: few runs to search, and each coded entry is copied seldom. Takes r. */
static struct run *
merge_last(const struct memtable *t, const struct runs *old, struct run *r,
           uint32_t *kept)
{
    uint32_t n;

    while ((n = await_merge(t, old, r, *kept)) > 0) {
        const struct run *these[JOIN_SERVED];
        struct run *merged;

        *kept -= n;
        for (uint32_t i = 0; i < n; i++)
            these[i] = old->at[*kept + i];
        these[n] = r;
        merged = run_merge(these, n + 1);
        run_drop(r);
        r = merged;
    }
    return r;
}

/* Neighbours in the list: eight runs to merge, or one to sort. */
struct merge {
    struct run *these[JOIN]; /* each with a reference */
    uint32_t count;
    struct run *out;
};

/* During replay: eight of about one size, so that each coded entry is copied once for eight times as many. */
static bool
are_alike(const struct runs *rs, uint32_t first)
{
    uint32_t last = run_count(rs->at[first + JOIN - 1]), entries = 0;

    for (uint32_t i = first; i < first + JOIN; i++) {
        if (run_count(rs->at[i]) > JOIN / 2 * last)
            return false;
        entries += run_count(rs->at[i]);
    }
    return entries <= MERGE_MAX_REPLAY;
}

static bool
run_is_gathered(const struct runs *rs, uint32_t i)
{
    return !run_is_finished(rs->at[i]);
}

/* False: nothing to do. */
static bool
merge_choose(const struct memtable *t, struct merge *m)
{
    const struct runs *rs = current_runs(t);
    uint32_t first = rs->count;

    m->count = JOIN;
    for (uint32_t i = t->frozen; i + JOIN <= rs->count; i++) {
        if (are_alike(rs, i))
            first = i;
    }
    for (uint32_t i = rs->count;
         i-- > 0;) { /* these first: the index may wait for them */
        if (run_is_gathered(rs, i)) {
            first = i;
            m->count = 1;
        }
    }
    if (first == rs->count)
        return false;
    for (uint32_t i = 0; i < m->count; i++)
        m->these[i] = run_ref(rs->at[first + i]);
    return true;
}

static void
merge_work(void *arg)
{
    struct merge *m = arg;

    m->out = m->count == 1 ? run_in_order(m->these[0])
                           : run_merge((const struct run *const *)m->these, m->count);
}

/* `count` runs from `first` on become this one. Takes it. */
static void
runs_put_in_place(struct memtable *t, uint32_t first, uint32_t count, struct run *r)
{
    const struct runs *old = current_runs(t);
    struct runs *rs = runs_new(old->count - (count - 1));

    assert(count > 0 && first + count <= old->count);
    assert(run_is_finished(r));
    for (uint32_t i = 0; i < first; i++)
        rs->at[i] = run_ref(old->at[i]);
    rs->at[first] = r;
    for (uint32_t i = first + 1; i < rs->count; i++)
        rs->at[i] = run_ref(old->at[i + count - 1]);
    replace_runs(t, rs);
}

/* If the runs are still in the list, the result replaces them; of frozen runs only a single one is replaced. Takes m->out. */
static void
merge_take(struct memtable *t, struct merge *m)
{
    const struct runs *rs = current_runs(t);
    uint32_t first = m->count == 1 ? 0 : t->frozen;

    while (first < rs->count && rs->at[first] != m->these[0])
        first++;
    if (first == rs->count)
        run_drop(m->out);
    else
        runs_put_in_place(t, first, m->count, m->out);
}

static void
merge_runs(void *arg)
{
    struct memtable *t = arg;
    struct merge m;

    rt_doing("merging runs");
    while (t->replaying && merge_choose(t, &m)) {
        bool done = rt_blocking(merge_work, &m, DEADLINE_NEVER) == ERR_OK;

        if (done)
            merge_take(t, &m);
        for (uint32_t i = 0; i < m.count; i++)
            run_drop(m.these[i]);
        if (!done) /* they stay side by side */
            break;
        rt_cond_broadcast(&t->finished);
    }
    t->merging = false;
    rt_cond_broadcast(&t->finished);
}

static void
start_merger(struct memtable *t)
{
    if (t->replaying && !t->merging)
        t->merging = rt_group_start(&t->merger, merge_runs, t) == ERR_OK;
}

/* ---- gathering ---- */

/* The gathered run becomes the newest of the list, unsorted. */
static void
gather_close(struct memtable *t)
{
    const struct runs *old = current_runs(t);
    struct runs *rs;

    if (t->gathered == NULL || run_count(t->gathered) == 0)
        return;
    rs = runs_new(old->count + 1);
    for (uint32_t i = 0; i < old->count; i++)
        rs->at[i] = run_ref(old->at[i]);
    rs->at[old->count] = t->gathered;
    t->gathered = t->replaying ? run_gather() : NULL;
    replace_runs(t, rs);
}

/* On this loop, now: the caller cannot wait for the pool. */
static void
runs_finish_all(struct memtable *t)
{
    gather_close(t);
    for (uint32_t i = 0; i < current_runs(t)->count; i++) {
        if (run_is_gathered(current_runs(t), i))
            runs_put_in_place(t, i, 1, run_in_order(current_runs(t)->at[i]));
    }
}

static bool
merge_is_finished(const struct runs *rs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (run_is_gathered(rs, i))
            return false;
    }
    return true;
}

enum err
memtable_sort_frozen(struct memtable *t, struct frozen_runs *b)
{
    enum err rc = ERR_OK;

    assert(b->count == t->frozen);
    while (rc == ERR_OK && !merge_is_finished(current_runs(t), b->count)) {
        start_merger(t);
        if (t->merging)
            rc = rt_cond_wait(&t->finished, DEADLINE_NEVER);
        else
            runs_finish_all(t);
    }
    for (uint32_t i = 0; i < b->count; i++) {
        b->runs[i] = current_runs(t)->at[i];
        assert(rc != ERR_OK || run_is_finished(b->runs[i]));
    }
    return rc;
}

struct run *
memtable_gathered(struct memtable *t)
{
    return t->gathered;
}

void
memtable_replaying(struct memtable *t, bool yes)
{
    assert(t->replaying != yes);
    t->replaying = yes;
    if (yes) {
        assert(t->gathered == NULL && !t->merging);
        rt_group_begin(&t->merger);
        t->gathered = run_gather();
        return;
    }
    rt_group_join(&t->merger);
    runs_finish_all(t);
    run_free(&t->gathered);
    memtable_check(t);
}

void
memtable_gather(struct memtable *t, struct run **rp)
{
    struct run *r = *rp;

    assert(t->replaying && t->gathered != NULL);
    *rp = NULL;
    if (r != NULL) {
        lookup_cache_change_begin(t->lookup_cache, r);
        run_gather_all(t->gathered, r);
        lookup_cache_change_end(t->lookup_cache, r);
        run_drop(r);
    }
    if (run_count(t->gathered) < GATHER_MAX && run_bytes(t->gathered) < GATHER_BYTES)
        return;
    gather_close(t);
    start_merger(t);
}

void
memtable_push(struct memtable *t, struct run **rp)
{
    struct runs *old = current_runs(t), *rs;
    struct run *r = *rp, *last;
    uint32_t kept = old->count;

    if (t->replaying) {
        memtable_gather(t, rp);
        return;
    }
    assert(r != NULL && !run_is_finished(r));
    *rp = NULL;
    run_finish(r);
    lookup_cache_change_begin(t->lookup_cache, r);
    last = merge_last(t, old, run_ref(r), &kept);
    rs = runs_new(kept + 1);
    for (uint32_t i = 0; i < kept; i++)
        rs->at[i] = run_ref(old->at[i]);
    rs->at[kept] = last;
    replace_runs(t, rs);
    lookup_cache_change_end(t->lookup_cache, r);
    run_drop(r);
    memtable_check(t);
}

enum memtable_result
memtable_find(const struct memtable *t, enum table table, uint64_t bucket,
              struct span key, struct span *value)
{
    const struct runs *rs = current_runs(t);
    uint32_t hash;
    struct span newest;
    bool found = false;

    if (rs->count == 0 && t->gathered == NULL)
        return MEMTABLE_MISS;
    hash = run_hash(table, bucket, key);
    for (uint32_t i = 0; i < rs->count; i++) {
        struct span here;

        if (!run_find(rs->at[i], hash, table, bucket, key, &here))
            continue;
        if (!found || entry_is_newer(table, *value, here))
            *value = here;
        found = true;
    }
    if (t->gathered != NULL && run_find(t->gathered, hash, table, bucket, key, &newest)) {
        if (!found || entry_is_newer(table, *value, newest))
            *value = newest;
        found = true;
    }
    if (!found)
        return MEMTABLE_MISS;
    return value->len > 0 ? MEMTABLE_HIT : MEMTABLE_DELETED;
}

/* Copies a coded entry into the arena. */
static bool
page_keep(struct arena *a, const struct coded_entry *e, struct coded_entry *out)
{
    char *at = arena_try(a, e->key.len + e->value.len + 1);

    if (at == NULL)
        return false;
    memcpy(at, e->key.at, e->key.len);
    if (e->value.len > 0)
        memcpy(at + e->key.len, e->value.at, e->value.len);
    *out = (struct coded_entry){
        e->table, e->bucket, {at, e->key.len}, {at + e->key.len, e->value.len}};
    return true;
}

/* A replay that reads keys in order: only its loop uses the memtable. */
static const struct runs *
runs_in_order(struct memtable *t)
{
    if (t->replaying)
        runs_finish_all(t);
    return current_runs(t);
}

enum err
memtable_scan(struct memtable *t, const struct scan *s, struct arena *a, struct page *out)
{
    const struct runs *rs = runs_in_order(t);
    bool from_prefix = span_cmp(s->after, s->prefix) < 0;
    struct span from = from_prefix ? s->prefix : s->after;
    struct run_walk w;
    struct coded_entry e;
    enum err rc = ERR_OK;

    assert(s->table < TABLES_);
    *out = (struct page){0};
    if (rs->count == 0)
        return ERR_OK;
    out->entries = arena_try(a, MIN(s->max, rs->entries) * sizeof *out->entries);
    if (out->entries == NULL)
        return ERR_BUSY;
    run_walk_begin(&w, (const struct run *const *)rs->at, rs->count, s->table, s->bucket,
                   from);
    while (run_walk_next(&w, &e)) {
        if (e.table != s->table || e.bucket != s->bucket ||
            !span_starts(e.key, s->prefix))
            break;
        if (!from_prefix && !s->inclusive && span_eq(e.key, s->after))
            continue;
        if (out->count == s->max) {
            out->more = true;
            break;
        }
        if (!page_keep(a, &e, &out->entries[out->count])) {
            rc = ERR_BUSY;
            break;
        }
        out->count++;
    }
    run_walk_end(&w);
    assert(out->count <= s->max);
    return rc;
}

bool
memtable_freeze(struct memtable *t, struct frozen_runs *out)
{
    struct runs *rs;

    assert(t->frozen == 0);
    *out = (struct frozen_runs){0};
    gather_close(t);
    rs = current_runs(t);
    if (rs->count == 0)
        return false;
    out->runs = xcalloc(rs->count, sizeof(struct run *));
    for (uint32_t i = 0; i < rs->count; i++)
        out->runs[i] = rs->at[i];
    out->count = t->frozen = rs->count;
    memtable_check(t);
    return true;
}

void
memtable_drop(struct memtable *t, struct frozen_runs *b)
{
    struct runs *old = current_runs(t), *rs;

    assert(b->count == t->frozen && b->count > 0);
    assert(old->count >= t->frozen);
    rs = runs_new(old->count - t->frozen);
    for (uint32_t i = 0; i < rs->count; i++)
        rs->at[i] = run_ref(old->at[t->frozen + i]);
    memtable_thaw(t, b);
    replace_runs(t, rs);
}

void
memtable_thaw(struct memtable *t, struct frozen_runs *b)
{
    assert(b->count == t->frozen);
    assert(b->count == 0 || b->runs != NULL);
    t->frozen = 0;
    free(b->runs);
    *b = (struct frozen_runs){0};
}
