/* input: the bytes of an archive, read in ranges. An object of one version, or memory.
 *
 * Fibers: of one loop at a time; everything may switch.
 */
#pragma once
#include "base/arena.h"
#include "object/object.h"

struct shard_input {
    uint64_t size;
    /* Begins to read at `first`; ends what was read before. ERR_NOT_FOUND: the archive was replaced. */
    enum err (*begin)(struct shard_input *in, uint64_t first, uint64_t len,
                      struct errbuf *eb);
    /* The next piece, valid until the next call of either; len 0: the end of the range. */
    enum err (*next)(struct shard_input *in, struct span *piece, struct errbuf *eb);
};

/* Memory: for tests and small archives. */
struct shard_memory {
    struct shard_input in;
    struct span all, left;
};
void shard_memory_init(struct shard_memory *m, struct span bytes);

/* One version of an object. */
struct shard_version {
    uint64_t size;
    int64_t mtime_s;               /* of a cached object without an ETag */
    struct object_version version; /* of a native one */
    char etag[160];
};
void shard_version_of(const struct object_info *info, bool cached,
                      struct shard_version *out);
bool shard_version_eq(const struct shard_version *a, const struct shard_version *b);

struct shard_object {
    struct shard_input in;
    struct object_service *service;  /* borrowed */
    const struct map_bucket *bucket; /* borrowed */
    struct span key;                 /* borrowed */
    struct arena *arena;             /* owned: of the open read */
    struct object_info info;         /* its texts lie in `arena`: of the last begin */
    struct shard_version version;
    struct object_get *get; /* owned; NULL between ranges */
    bool chosen;            /* its range */
};
/* Opens the current version: joins or starts the fetch in a cached bucket. On ERR_OK the caller ends it with
 * shard_object_close(), which a failed open does itself. */
enum err shard_object_open(struct shard_object *o, struct object_service *s,
                           const struct map_bucket *b, struct span key,
                           struct errbuf *eb) MUST_CHECK;
void shard_object_close(struct shard_object *o);
