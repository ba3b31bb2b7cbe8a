/* evict: frees space in the cached class, segment by segment, the coldest first (access_freq.h).
 *
 * For each object of a segment it writes a delete record, conditional on the version that it
 * read. A batch of them is one commit batch with one sync, so no crash restores an evicted
 * object after a newer version was fetched (disk.md, rule 4). The rest is ordinary garbage
 * collection: a segment of one body is unlinked, places are punched, a log is compacted, and
 * current readers finish. So eviction has no record and no recovery of its own. Objects to keep
 * (pins) stay, or compaction moves them.
 *
 * In-doubt writes are skipped. Native objects are never touched.
 *
 * Owner loop; store_evict() (store_space.h) is the call.
 */
#pragma once
#include "store/core/core.h"

struct evictor;
/* Asserts the invariants that hold between switches. */
void evictor_check(const struct evictor *e);
struct evictor *evictor_new(void);
void evictor_free(struct evictor **ep); /* NULL is fine */
