/* evict: makes room in the class cached, segment by segment, the coldest first (access_freq.h).
 *
 * Each object of a segment that goes gets a delete record, conditional on the version that was seen; a batch of them is
 * one batch and one sync, so that no crash brings back what was evicted after a newer version was fetched (disk.md, rule
 * 4). The rest is what happens to anything that died: a segment of one body is unlinked, places are punched, a log is
 * compacted, readers who are inside finish. So eviction has no record and no recovery of its own. What is to stay (pins)
 * stays where it is, or is moved by compaction.
 *
 * What has a write of unknown outcome is passed over. Native objects are never looked at.
 *
 * Owner loop; store_evict() (store_space.h) is the call.
 */
#pragma once
#include "store/core/core.h"

struct evictor;
void evictor_check(const struct evictor *e); /* asserts what holds between switches */
struct evictor *evictor_new(void);
void evictor_free(struct evictor **ep); /* NULL is fine */
