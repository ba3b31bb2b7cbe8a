/* cache: indexes of shards; see cache.h. */
#include "shard/cache.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/mem.h"

#define BUCKETS 1024u /* of the hash table: a power of two */

struct kept {
    struct list by_use; /* the most recently used first */
    struct kept *next;  /* in its slot */
    uint64_t hash, bucket;
    char *key; /* owned */
    size_t key_len;
    struct shard_version version;
    struct shard_index *index; /* one reference */
    size_t bytes;
};

struct shard_cache {
    size_t limit;
    struct lock lock; /* protects what follows */
    struct kept *slots[BUCKETS];
    struct list by_use;
    struct shard_cache_stats stats;
};

struct shard_cache *
shard_cache_new(size_t bytes)
{
    struct shard_cache *c = xcalloc(1, sizeof *c);

    c->limit = bytes;
    lock_init(&c->lock, LOCK_SHARDS);
    list_init(&c->by_use);
    return c;
}

static struct kept **
cache_place(struct shard_cache *c, uint64_t hash, uint64_t bucket, struct span key)
{
    struct kept **at = &c->slots[hash & (BUCKETS - 1)];

    while (*at != NULL && ((*at)->hash != hash || (*at)->bucket != bucket ||
                           !span_eq((struct span){(*at)->key, (*at)->key_len}, key)))
        at = &(*at)->next;
    return at;
}

static void
cache_remove(struct shard_cache *c, struct kept *k)
{
    struct kept **at =
        cache_place(c, k->hash, k->bucket, (struct span){k->key, k->key_len});

    assert(*at == k);
    assert(c->stats.count > 0 && c->stats.bytes >= k->bytes);
    *at = k->next;
    list_remove(&k->by_use);
    c->stats.count--;
    c->stats.bytes -= k->bytes;
    shard_index_drop(&k->index);
    free(k->key);
    free(k);
}

void
shard_cache_free(struct shard_cache **cp)
{
    struct shard_cache *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    while (!list_empty(&c->by_use))
        cache_remove(c, CONTAINER_OF(c->by_use.next, struct kept, by_use));
    assert(c->stats.count == 0 && c->stats.bytes == 0);
    lock_fini(&c->lock);
    free(c);
}

static uint64_t
cache_hash(uint64_t bucket, struct span key)
{
    return hash_xxh3(key.at, key.len, bucket);
}

struct shard_index *
shard_cache_find(struct shard_cache *c, uint64_t bucket, struct span key,
                 const struct shard_version *v)
{
    struct shard_index *found = NULL;
    struct kept *k;

    lock_acquire(&c->lock);
    k = *cache_place(c, cache_hash(bucket, key), bucket, key);
    if (k != NULL && shard_version_eq(&k->version, v)) {
        list_remove(&k->by_use);
        list_push_front(&c->by_use, &k->by_use);
        found = shard_index_ref(k->index);
        c->stats.hits++;
    } else {
        c->stats.misses++;
    }
    lock_release(&c->lock);
    return found;
}

void
shard_cache_keep(struct shard_cache *c, uint64_t bucket, struct span key,
                 const struct shard_version *v, struct shard_index *x)
{
    struct kept *k = xcalloc(1, sizeof *k);
    struct kept **at;

    k->hash = cache_hash(bucket, key);
    k->bucket = bucket;
    k->key = xmemdup0(key.at, key.len);
    k->key_len = key.len;
    k->version = *v;
    k->index = shard_index_ref(x);
    k->bytes = sizeof *k + key.len + shard_index_bytes(x);
    lock_acquire(&c->lock);
    at = cache_place(c, k->hash, bucket, key);
    if (*at != NULL)
        cache_remove(c, *at);
    at = cache_place(c, k->hash, bucket, key);
    assert(*at == NULL);
    *at = k;
    list_push_front(&c->by_use, &k->by_use);
    c->stats.count++;
    c->stats.bytes += k->bytes;
    while (c->stats.bytes > c->limit)
        cache_remove(c, CONTAINER_OF(c->by_use.prev, struct kept, by_use));
    lock_release(&c->lock);
}

void
shard_cache_stats(struct shard_cache *c, struct shard_cache_stats *out)
{
    lock_acquire(&c->lock);
    *out = c->stats;
    lock_release(&c->lock);
}
