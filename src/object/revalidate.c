#include "object/revalidate.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "object/keys.h"
#include "object/tier.h"
#include "rt/point.h"

/* A version has one slot, and loses it to the next one with the same slot. In a cluster each version from before a change
 * of the nodes needs one. */
#define PLACES            (1u << 16)
#define PLACES_OF_CLUSTER (1u << 20)
#define TIME_MASK                                                                        \
    ((1u << 24) -                                                                        \
     1) /* seconds since the start; after 194 days every version is asked again */

struct revalidate_table {
    uint64_t begun_ns, place_mask;
    _Atomic uint64_t places[]; /* 40 bits of hash, 24 of seconds + 1; 0: empty */
};

struct revalidate_table *
revalidate_new(bool in_cluster)
{
    uint64_t places = in_cluster ? PLACES_OF_CLUSTER : PLACES;
    struct revalidate_table *t = /* pages are touched as it fills */
        xcalloc(1, sizeof *t + places * sizeof t->places[0]);

    t->place_mask = places - 1;
    t->begun_ns = rt_now_ns();
    return t;
}

void
revalidate_free(struct revalidate_table **tp)
{
    free(*tp);
    *tp = NULL;
}

/* A mark from before a change of the nodes is not found after it. */
static uint64_t
version_hash(const struct map_bucket *b, struct span key, const struct entry *entry,
             uint64_t stable_since)
{
    uint64_t seed = b->id * 0x9E3779B97F4A7C15u ^ entry->version.counter ^
                    (uint64_t)entry->version.epoch << 40 ^
                    stable_since * 0xC2B2AE3D27D4EB4Fu;

    assert(b->id != 0);
    return hash_xxh3(key.at, key.len, seed);
}

static uint64_t
seconds_since_start(const struct revalidate_table *t)
{
    return (rt_now_ns() - t->begun_ns) / 1000000000u + 1;
}

uint64_t
revalidate_begin(const struct object_service *s)
{
    return nodes_stable_since(s->options.nodes);
}

/* Another node may have written the key since this version was kept. */
static bool
is_from_before(const struct entry *entry, uint64_t stable_since)
{
    return entry->version.epoch < stable_since;
}

void
revalidate_mark(struct object_service *s, const struct map_bucket *b, struct span key,
                const struct entry *entry, uint64_t begun)
{
    struct revalidate_table *t = s->revalidate;
    uint64_t hash, now;

    assert(entry->version.epoch != 0);
    if (begun != revalidate_begin(s) || (b->ttl_ms == 0 && !is_from_before(entry, begun)))
        return;
    hash = version_hash(b, key, entry, begun);
    now = MIN(seconds_since_start(t), TIME_MASK);
    atomic_store_explicit(&t->places[hash & t->place_mask],
                          (hash & ~(uint64_t)TIME_MASK) | now, memory_order_relaxed);
}

int64_t
revalidate_left_ms(const struct object_service *s, const struct map_bucket *b,
                   struct span key, const struct entry *entry)
{
    uint64_t since = b->cached ? revalidate_begin(s) : 0, lasts_ms, hash, there, age_ms;
    const struct revalidate_table *t = s->revalidate;

    if (!b->cached || (b->ttl_ms == 0 && !is_from_before(entry, since)))
        return -1;
    hash = version_hash(b, key, entry, since);
    there = atomic_load_explicit(&t->places[hash & t->place_mask], memory_order_relaxed);
    if (there == 0 || ((there ^ hash) & ~(uint64_t)TIME_MASK) != 0)
        return 0;
    if (b->ttl_ms == 0)
        return -1;
    lasts_ms = b->ttl_ms - MIN(b->ttl_ms, 999u);
    age_ms =
        1000 * (seconds_since_start(t) - MIN(there & TIME_MASK, seconds_since_start(t)));
    return (int64_t)(lasts_ms - MIN(age_ms, lasts_ms));
}

bool
revalidate_is_fresh(const struct object_service *s, const struct map_bucket *b,
                    struct span key, const struct entry *entry)
{
    return revalidate_left_ms(s, b, key, entry) != 0;
}

static bool
version_eq(const struct version *a, const struct version *b)
{
    return a->epoch == b->epoch && a->counter == b->counter;
}

struct ask {
    struct object_service *s;
    const struct map_bucket *bucket;
    struct span key;
    const struct entry *entry;
    struct object_info *info;
    enum revalidate_when when;
    enum err rc;
    struct errbuf *eb;
};

/* ERR_OK: the same version; ERR_NOT_FOUND: another one, or none; ERR_BACKEND: unknown. */
static enum err
compare_with_remote(struct ask *q)
{
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct s3_object_info from;
    struct object_meta meta;
    char etag[160];
    enum err rc = cloud_head(q->s->options.cloud, q->bucket, q->key, a, &from, q->eb);

    if (rc == ERR_OK && from.stale)
        rc = err_set(q->eb, ERR_BACKEND, "the remote could not ask its own remote");
    if (rc == ERR_OK)
        rc = meta_from_backend(&from, a, &meta, q->eb);
    if (rc == ERR_OK) {
        etag_of(meta.md5, meta.parts, meta.etag_text, etag);
        if (from.size != q->info->size || strcmp(etag, q->info->etag) != 0)
            rc = err_set(q->eb, ERR_NOT_FOUND, "the remote has another version");
    }
    arena_free(&a);
    return rc;
}

/* A concurrent write may have replaced the version: then there is nothing to end. */
static enum err
end_cached(struct ask *q)
{
    enum err rc =
        disks_evict_one(q->s->options.disks, q->bucket->id, q->key, q->entry, q->eb);

    assert(q->entry != NULL);
    POINT(REVALIDATE_ENDED);
    if ((q->entry->flags & ENTRY_CHUNKS) != 0)
        tier_sweep(q->s);
    LOG(LOG_INFO, "tier.outdated", "a kept version is not the remote's any more",
        L_TEXT("bucket", q->bucket->name), L_SPAN("key", q->key));
    return rc == ERR_OK || rc == ERR_PRECONDITION || rc == ERR_NOT_FOUND ? ERR_NOT_FOUND
                                                                         : rc;
}

/* Waits for a revalidation in flight. True: *q has its result. */
static bool
await_revalidation(struct ask *q, struct key_slot *slot)
{
    unsigned before = slot->answers;
    bool fits;

    while (q->rc == ERR_OK && slot->asking && slot->answers == before) {
        q->rc = rt_cond_wait(&slot->changed, DEADLINE_NEVER);
        if (q->rc != ERR_OK)
            err_set(q->eb, q->rc, "the wait for the revalidation was cancelled");
    }
    if (q->rc != ERR_OK)
        return true;
    fits = slot->answers != before && version_eq(&slot->asked, &q->entry->version) &&
           slot->answer != ERR_CANCELLED &&
           (q->when == REVALIDATE_SHARED || slot->answer != ERR_OK);
    if (fits && slot->answer != ERR_OK)
        q->rc = err_set(q->eb, slot->answer, "the remote was asked, and that failed");
    return fits;
}

static void
revalidate_on_owner(void *arg)
{
    struct ask *q = arg;
    struct key_slot *slot = NULL;
    uint64_t begun;

    q->rc = key_slot_get(q->s, q->bucket->id, q->key, &slot, q->eb);
    if (q->rc != ERR_OK)
        return;
    for (;;) {
        if (await_revalidation(q, slot) ||
            (q->when == REVALIDATE_EXPIRED &&
             revalidate_is_fresh(q->s, q->bucket, q->key, q->entry))) {
            key_slot_drop(&slot);
            return;
        }
        if (!slot->asking)
            break;
    }
    assert(!slot->asking);
    slot->asking = true;
    begun = revalidate_begin(q->s);
    q->rc = compare_with_remote(q);
    if (q->rc == ERR_OK)
        revalidate_mark(q->s, q->bucket, q->key, q->entry, begun);
    else if (q->rc == ERR_NOT_FOUND)
        q->rc = end_cached(q);
    assert(slot->asking);
    slot->asking = false;
    slot->answers++;
    slot->asked = q->entry->version;
    /* A cancelled fiber has no result. */
    slot->answer = q->rc != ERR_OK && rt_cancelled() ? ERR_CANCELLED : q->rc;
    rt_cond_broadcast(&slot->changed);
    key_slot_drop(&slot);
}

enum err
revalidate_check(struct object_service *s, const struct map_bucket *b, struct span key,
                 const struct entry *entry, enum revalidate_when when,
                 struct object_info *info, struct errbuf *eb)
{
    struct ask q = {.s = s,
                    .bucket = b,
                    .key = key,
                    .entry = entry,
                    .info = info,
                    .when = when,
                    .eb = eb};
    enum err rc;

    assert(info != NULL);
    assert(entry->version.epoch != 0);
    if (!b->cached ||
        (when == REVALIDATE_EXPIRED && revalidate_is_fresh(s, b, key, entry)))
        return ERR_OK;
    rc = key_run_on_owner(key_owner_loop(b, key), revalidate_on_owner, &q);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber is free to ask the remote");
    if (q.rc != ERR_BACKEND || b->fail_stale)
        return q.rc;
    info->stale = true;
    return ERR_OK;
}
