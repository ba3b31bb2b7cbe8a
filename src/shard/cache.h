/* cache: the indexes of shards that were read: by bucket, key and version of the object. The least recently used ones leave first.
 *
 * An index belongs to one immutable version: after an overwrite the version differs, and the next read replaces the index. The index
 * of a deleted shard is never served, since the object is looked up first; it leaves by age.
 * Any thread; a lock that is held for a lookup only. Nothing switches.
 */
#pragma once
#include "shard/index.h"

struct shard_cache;
struct shard_cache *shard_cache_new(size_t bytes); /* its limit */
void shard_cache_free(struct shard_cache **cp);
/* One reference, or NULL. */
struct shard_index *shard_cache_find(struct shard_cache *c, uint64_t bucket,
                                     struct span key, const struct shard_version *v);
/* Keeps a reference of its own, unless the index alone is over the limit. */
void shard_cache_keep(struct shard_cache *c, uint64_t bucket, struct span key,
                      const struct shard_version *v, struct shard_index *x);
struct shard_cache_stats {
    uint64_t bytes, count, hits, misses;
};
void shard_cache_stats(struct shard_cache *c, struct shard_cache_stats *out);
