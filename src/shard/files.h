/* files: indexes of members kept in a folder of the node's state, so that the first read of a shard after a start needs no scan.
 *
 * One file a shard, named by a hash of bucket and key; the bytes say of which version it is (index_code.h). Files are not synced: a
 * torn one has a wrong sum and is made again from the shard. So nothing here needs to be durable, and nothing is served unproven.
 * The least recently used files are removed beyond the limit. docs/formats.md, section "Index of a shard".
 *
 * Fibers of any loop. Calls that do I/O may switch.
 */
#pragma once
#include "rt/file.h"
#include "shard/index_code.h"

struct shard_files;
/* Reads the names in the folder. `dir` is borrowed; `limit`: bytes of all files together. May switch. */
enum err shard_files_open(struct rt_dir *dir, uint64_t limit, struct shard_files **out,
                          struct errbuf *eb) MUST_CHECK;
void shard_files_close(struct shard_files **fp); /* NULL is fine */
/* One reference, or NULL: there is none of this version. May switch. */
struct shard_index *shard_files_load(struct shard_files *f, uint64_t bucket,
                                     struct span key, const struct shard_version *v);
/* Keeps an index. Calls for one shard come one after the other. A failure leaves none, and is logged. May switch. */
void shard_files_keep(struct shard_files *f, uint64_t bucket, struct span key,
                      const struct shard_version *v, const struct shard_index *x);
/* Removes the index of a shard, if there is one; cheap if not. May switch. */
void shard_files_drop(struct shard_files *f, uint64_t bucket, struct span key);
struct shard_files_stats {
    uint64_t bytes, count;
};
void shard_files_stats(struct shard_files *f, struct shard_files_stats *out);
