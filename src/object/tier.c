#include "object/tier.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "object/chunks.h"
#include "object/upload_expiry.h"
#include "rt/loop.h"

#define LOOK_MS         1000u
#define PAUSE_MS        100u  /* the same, when a fetch was refused for lack of room */
#define PURGE_LOOKS     10u   /* looks between two searches for removed buckets */
#define EXPIRY_LOOKS    5u    /* looks between two for uploads that were not completed */
#define PATIENCE        30u   /* looks to skip after one that could evict nothing */
#define RECLAIM_WAIT_MS 5000u /* for evicted bytes to be reclaimed */
#define RECLAIM_WAIT_LONG_MS                                                             \
    60000u /* the same when much of the cache is garbage: an eighth of the budget */
#define MUCH_GARBAGE 8u
#define BATCH                                                                            \
    16u /* fraction of the budget evicted at once: enough to be worth a compaction */
#define BUCKET_HIGH 95u /* percent of a bucket's own budget */
#define BUCKET_LOW  90u
static_assert(BUCKET_LOW < BUCKET_HIGH, "watermarks of a bucket's budget");
static_assert(BUCKET_HIGH <= 100, "percent");
#define PURGE_PAGE 256u

struct tier {
    struct admission admission;

    /* Any loop. */
    _Atomic uint64_t
        wanted; /* bytes of the largest object that was refused for lack of room */
    _Atomic uint64_t reserved; /* bytes that were admitted, and that no disk counts yet */
    _Atomic bool pressing;     /* one of them is worth more than the coldest segment */
    _Atomic bool sweep;        /* chunks may have lost their entry */

    /* Of the fiber. */
    struct rt_cond wake;
    struct rt_daemon daemon;
    bool stop;
    unsigned looks, patience;
    uint64_t living;    /* live bytes of the class, at the last look at its segments */
    uint64_t reclaimed; /* at that time, bytes reclaimed since the start */
    uint64_t reclaim_until_ns,
        reclaim_enough; /* evicted bytes are being reclaimed: until then, or until so much was */
    uint64_t reads_seen; /* at the begin of the window */
};

static uint64_t
key_hash(const struct map_bucket *b, struct span key)
{
    return hash_xxh3(key.at, key.len, b->id ^ 0x7469657200u);
}

static uint64_t
hundredths(uint64_t whole, unsigned part)
{
    assert(part <= 100);
    return whole / 100 * part;
}

const char *
tier_pin_of(const struct map_bucket *b, struct span key)
{
    for (unsigned i = 0; i < b->pin_count; i++) {
        struct span prefix = span_of(b->pins[i]);

        if (prefix.len <= key.len && memcmp(prefix.at, key.at, prefix.len) == 0)
            return b->pins[i];
    }
    return NULL;
}

bool
tier_is_pinned(const struct map_bucket *b, struct span key)
{
    return tier_pin_of(b, key) != NULL;
}

void
tier_view(const struct object_service *s, const struct map_bucket *b, struct span key,
          struct tier_view *out)
{
    const struct admission *m = &s->tier->admission;

    out->reads = admission_seen(m, key_hash(b, key));
    out->coldest = atomic_load_explicit(&m->coldest, memory_order_relaxed);
}

/* ---- the readers' side ---- */

/* Cached objects of a bucket, each chunk counted as one, and their bytes. */
static void
cached_usage(struct object_service *s, const struct map_bucket *b, uint64_t *objects,
             uint64_t *bytes)
{
    uint64_t chunks, in_chunks;

    disks_bucket_usage(s->options.disks, b->id, USAGE_LIVE, 1, objects, bytes);
    disks_bucket_usage(s->options.disks, chunk_space(b->id), USAGE_LIVE, 1, &chunks,
                       &in_chunks);
    *objects += chunks;
    *bytes += in_chunks;
}

/* Is there room in the bucket's own budget? *tight: only for objects that are read more. */
static bool
bucket_has_room(struct object_service *s, const struct map_bucket *b, uint64_t size,
                bool *tight)
{
    uint64_t objects, bytes;

    if (b->cache_budget == 0)
        return true;
    cached_usage(s, b, &objects, &bytes);
    *tight = bytes + size > hundredths(b->cache_budget, BUCKET_HIGH);
    return bytes + size <= b->cache_budget;
}

static bool
node_has_room(struct object_service *s, uint64_t size)
{
    if (s->options.cache_budget == 0)
        return true;
    return disks_cached_bytes(s->options.disks) + atomic_load(&s->tier->reserved) +
               size <=
           s->options.cache_budget;
}

/* Reserves before it looks, so that two concurrent calls see each other. */
static bool
tier_reserve(struct object_service *s, uint64_t size)
{
    atomic_fetch_add(&s->tier->reserved, size);
    if (node_has_room(s, 0))
        return true;
    tier_release(s, size);
    return false;
}

void
tier_release(struct object_service *s, uint64_t size)
{
    assert(atomic_load(&s->tier->reserved) >= size);
    atomic_fetch_sub(&s->tier->reserved, size);
}

bool
tier_admits(struct object_service *s, const struct map_bucket *b, struct span key,
            uint64_t size, bool prefetch)
{
    struct tier *t = s->tier;
    uint32_t seen = admission_count(&t->admission, key_hash(b, key));
    bool tight = false, pinned = prefetch || tier_is_pinned(b, key);
    bool reserved = tier_reserve(s, size);
    bool room = bucket_has_room(s, b, size, &tight) && reserved;
    bool good = pinned || admission_allows(&t->admission, seen);

    if (good && tight && !pinned)
        good = admission_is_wanted(&t->admission, seen);
    if (good && !room && size > atomic_load_explicit(&t->wanted, memory_order_relaxed))
        atomic_store_explicit(&t->wanted, size, memory_order_relaxed);
    if (good && !room && (pinned || admission_is_wanted(&t->admission, seen)))
        atomic_store_explicit(&t->pressing, true, memory_order_relaxed);
    good = good && room;
    if (reserved && !good)
        tier_release(s, size);
    metric_add(M_ADMISSION, good ? 0 : 1, 1);
    return good;
}

bool
tier_would_keep(struct object_service *s, const struct map_bucket *b, struct span key,
                uint64_t size)
{
    const struct admission *m = &s->tier->admission;
    uint32_t seen = admission_seen(m, key_hash(b, key));
    bool tight = false, pinned = tier_is_pinned(b, key);
    bool room = node_has_room(s, size) && bucket_has_room(s, b, size, &tight);

    return room && (pinned || (admission_allows(m, seen) &&
                               (!tight || admission_is_wanted(m, seen))));
}

void
tier_kept(struct object_service *s, const struct map_bucket *b, struct span key,
          const struct entry *entry)
{
    /* Earlier reads of the key count for its new segment; otherwise the newest segment would always be the
     * coldest. */
    uint32_t seen = admission_seen(&s->tier->admission, key_hash(b, key));

    disks_access_freq_add(s->options.disks, entry, MAX(seen, 1u));
}

void
tier_read(struct object_service *s, const struct map_bucket *b, struct span key,
          const struct entry *entry)
{
    (void)admission_count(&s->tier->admission, key_hash(b, key));
    disks_access_freq_add(s->options.disks, entry, 1);
}

/* ---- what stays ---- */

/* One bucket of the map, looked up again only in a new snapshot. */
struct eviction_filter {
    struct object_service *s;
    uint64_t serial, bucket;
    const struct map_bucket *found; /* of the snapshot with that serial */
    uint64_t only;                  /* evict from this bucket only; 0: from any */
};

static const struct map_bucket *
bucket_by_id(const struct map *m, uint64_t id)
{
    for (uint32_t i = 0; i < map_bucket_count(m); i++)
        if (map_bucket_at(m, i)->id == id)
            return map_bucket_at(m, i);
    return NULL;
}

/* The entry of an object in chunks has no bytes to free, and its chunks would be lost with it. */
static bool
tier_keep(void *arg, const struct store_candidate *c)
{
    struct eviction_filter *j = arg;
    const struct map *m = map_now(j->s->options.map);
    uint64_t bucket = chunk_owner(c->bucket);

    if (j->only != 0 && bucket != j->only)
        return true;
    if (j->serial != map_serial(m) || j->bucket != bucket) {
        j->serial = map_serial(m);
        j->bucket = bucket;
        j->found = bucket_by_id(m, bucket);
    }
    if (j->found == NULL)
        return false; /* its bucket was removed */
    return (c->entry->flags & ENTRY_CHUNKS) != 0 || tier_is_pinned(j->found, c->key) ||
           admission_stays(&j->s->tier->admission, key_hash(j->found, c->key),
                           c->access_freq);
}

/* ---- the evictor's side ---- */

static bool
is_reclaiming(const struct tier *t)
{
    return rt_now_ns() < t->reclaim_until_ns && t->reclaimed < t->reclaim_enough;
}

static uint64_t
reads_so_far(void)
{
    uint64_t sum = 0;

    for (unsigned label = 0; label < 4; label++)
        sum += (uint64_t)metric_read(M_CACHE, label);
    return sum;
}

static uint64_t
cached_objects(struct object_service *s)
{
    const struct map *m = map_now(s->options.map);
    uint64_t sum = 0;

    for (uint32_t i = 0; i < map_bucket_count(m); i++) {
        const struct map_bucket *b = map_bucket_at(m, i);
        uint64_t objects, bytes;

        if (!b->cached)
            continue;
        cached_usage(s, b, &objects, &bytes);
        sum += objects;
    }
    return sum;
}

static void
end_window(struct object_service *s, struct tier *t)
{
    uint64_t reads = reads_so_far();

    if (reads - t->reads_seen < admission_window(cached_objects(s)))
        return;
    t->reads_seen = reads;
    admission_rotate(&t->admission);
    disks_access_freq_rotate(s->options.disks);
}

/* Nothing could be evicted: all of it is pinned, or in doubt. Wait before the next try. */
static void
tier_evict(struct object_service *s, uint64_t target, uint64_t want, uint64_t only)
{
    struct tier *t = s->tier;
    struct eviction_filter j = {.s = s, .only = only};
    struct store_evict_options o = {
        .target = target, .want = want, .keep = tier_keep, .arg = &j};
    struct store_evicted out;
    struct errbuf eb = {{0}};
    enum err rc = disks_evict(s->options.disks, &o, &out, &eb);
    bool looked = target == UINT64_MAX && want == 0;

    assert(only == 0 || target == UINT64_MAX);
    if (rc != ERR_OK && rc != ERR_CANCELLED && rc != ERR_CLOSED)
        LOG(LOG_WARN, "tier.evict", eb.text, L_TEXT("code", err_name(rc)));
    if (rc != ERR_OK)
        return;
    atomic_store_explicit(&t->admission.coldest, out.coldest, memory_order_relaxed);
    if (only == 0)
        t->living = out.living;
    t->reclaimed = out.reclaimed;
    if (!looked && out.objects == 0 && out.kept > 0)
        t->patience = PATIENCE;
    if (out.objects > 0)
        LOG(LOG_INFO, "tier.evicted", "the coldest segments gave room",
            L_U64("objects", out.objects), L_U64("bytes", out.bytes),
            L_U64("segments", out.segments), L_U64("kept", out.kept),
            L_U64("living_bytes", out.living));
}

/* The live bytes are at the low watermark, but there is still no room for an object that is worth it: the rest is
 * garbage that is not reclaimed yet, or padding between batches of a log. More is evicted then, a batch at a time,
 * each after the one before was reclaimed or had the time to be: otherwise everything would be evicted before the
 * first byte is free. */
static uint64_t
more_to_go(struct tier *t, uint64_t cached, uint64_t budget, uint64_t wanted)
{
    uint64_t garbage = cached - MIN(cached, t->living), batch = budget / BATCH;

    assert(budget > 0);
    if (is_reclaiming(t))
        return 0;
    t->reclaim_enough = t->reclaimed + batch / 2;
    t->reclaim_until_ns =
        rt_now_ns() +
        (garbage > budget / MUCH_GARBAGE ? RECLAIM_WAIT_LONG_MS : RECLAIM_WAIT_MS) *
            1000000ull;
    return MAX(wanted, batch);
}

static void
look_at_node(struct object_service *s, struct tier *t)
{
    uint64_t budget = s->options.cache_budget;
    uint64_t high = hundredths(budget, s->options.cache_high);
    uint64_t low = hundredths(budget, s->options.cache_low);
    uint64_t wanted = atomic_exchange(&t->wanted, 0);
    bool tight = disks_cache_is_tight(s->options.disks);
    bool pressing = atomic_exchange(&t->pressing, false);
    uint64_t more = 0;
    uint64_t cached = disks_cached_bytes(s->options.disks);
    bool over;

    over = budget != 0 && cached > high;
    if (budget != 0 && wanted <= budget / 2 && cached + wanted > budget) {
        over = true; /* a large object that is worth its place */
        low = MIN(low, budget - wanted);
        if (pressing && t->living <= low)
            more = more_to_go(t, cached, budget, wanted);
    }
    if (over || tight)
        atomic_store(&t->admission.room, ROOM_NONE);
    else if (atomic_load(&t->admission.room) != ROOM_NEW)
        atomic_store(&t->admission.room, budget == 0 || cached < low + (high - low) / 2
                                             ? ROOM_LEFT
                                             : ROOM_NONE);
    if ((over || tight) && t->patience == 0)
        tier_evict(s, over ? low : UINT64_MAX, more, 0);
    else if (atomic_load(&t->admission.room) == ROOM_NONE)
        tier_evict(s, UINT64_MAX, 0,
                   0); /* only to learn how cold the coldest segment is */
}

static void
look_at_buckets(struct object_service *s, struct tier *t)
{
    for (uint32_t i = 0;; i++) {
        const struct map *m = map_now(s->options.map);
        uint64_t id, budget, objects, bytes;

        if (i >= map_bucket_count(m))
            return;
        id = map_bucket_at(m, i)->id;
        budget = map_bucket_at(m, i)->cache_budget;
        if (budget == 0)
            continue;
        cached_usage(s, map_bucket_at(m, i), &objects, &bytes);
        if (bytes > hundredths(budget, BUCKET_HIGH) && t->patience == 0)
            tier_evict(s, UINT64_MAX, bytes - hundredths(budget, BUCKET_LOW), id);
    }
}

/* ---- what removed buckets left ---- */

static enum err
purge_page(struct object_service *s, uint64_t bucket, struct arena *a, bool *more,
           struct errbuf *eb)
{
    struct store_entry *entries;
    uint32_t count = 0;
    enum err rc = disks_list(s->options.disks, bucket, 1, (struct span){"", 0}, true,
                             PURGE_PAGE, a, &entries, &count, more, eb);

    assert(bucket != 0);
    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        if ((entries[i].entry.flags & ENTRY_CACHED) == 0) {
            *more =
                false; /* not cached: a removed native bucket is empty, and this is not the place to check it */
            return ERR_OK;
        }
        rc = disks_evict_one(s->options.disks, bucket, entries[i].key, &entries[i].entry,
                             eb);
    }
    return rc;
}

static void
purge_removed(struct object_service *s, struct tier *t)
{
    uint64_t id = 0;

    while (!t->stop && disks_next_bucket(s->options.disks, id, &id)) {
        struct arena *a;
        struct errbuf eb = {{0}};
        bool more = true;
        enum err rc = ERR_OK;

        if (bucket_by_id(map_now(s->options.map), chunk_owner(id)) != NULL)
            continue;
        a = arena_new(KIB(64), MIB(4));
        while (more && rc == ERR_OK && !t->stop) {
            rc = purge_page(s, id, a, &more, &eb);
            arena_reset(a);
        }
        arena_free(&a);
    }
}

void
tier_sweep(struct object_service *s)
{
    atomic_store_explicit(&s->tier->sweep, true, memory_order_relaxed);
}

/* Runs also after the start: a crash may have left chunks. */
static void
tier_sweep_chunks(struct object_service *s, struct tier *t)
{
    struct errbuf eb = {{0}};
    enum err rc;

    if (!atomic_exchange(&t->sweep, false))
        return;
    rc = chunks_sweep(s, &t->stop, &eb);
    if (rc == ERR_OK || rc == ERR_CANCELLED || rc == ERR_CLOSED)
        return;
    LOG(LOG_WARN, "tier.sweep", eb.text, L_TEXT("code", err_name(rc)));
    tier_sweep(s);
}

/* ---- the fiber ---- */

static void
tier_run(void *arg)
{
    struct object_service *s = arg;
    struct tier *t = s->tier;
    enum err rc = ERR_OK;

    rt_doing("tier");
    while (!t->stop && (rc == ERR_OK || rc == ERR_TIMEOUT)) {
        end_window(s, t);
        t->patience -= t->patience > 0;
        look_at_node(s, t);
        look_at_buckets(s, t);
        tier_sweep_chunks(s, t);
        if (t->looks++ % PURGE_LOOKS == 0)
            purge_removed(s, t);
        if (t->looks % EXPIRY_LOOKS == 0)
            upload_expiry_look(s);
        for (unsigned ms = 0;
             !t->stop && ms < LOOK_MS && (rc == ERR_OK || rc == ERR_TIMEOUT);
             ms += PAUSE_MS) {
            rc = rt_cond_wait(&t->wake, deadline_in_ms(PAUSE_MS));
            if (atomic_load_explicit(&t->wanted, memory_order_relaxed) > 0 &&
                t->patience == 0 && !is_reclaiming(t))
                break;
        }
    }
    rt_daemon_over(&t->daemon);
}

enum err
tier_start(struct object_service *s, struct errbuf *eb)
{
    struct tier *t = xcalloc(1, sizeof *t);
    enum err rc;

    assert(s->tier == NULL);
    admission_init(&t->admission);
    rt_cond_init(&t->wake);
    s->tier = t;
    tier_sweep(s);
    rc = rt_daemon_start(&t->daemon, tier_run, s);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber to watch the cache");
    return ERR_OK;
}

void
tier_stop(struct object_service *s)
{
    struct tier *t = s->tier;

    if (t == NULL)
        return;
    t->stop = true;
    rt_cond_signal(&t->wake);
    rt_daemon_join(&t->daemon);
    admission_fini(&t->admission);
    assert(t->stop);
    free(t);
    s->tier = NULL;
}
