/* precondition: may a change go into the log? What the committer asks of each before it writes it: of puts, deletes, writes in doubt, parts
 * and uploads here; of records that keep copies in step precondition_check_replica, of one version of a key precondition_check_version, of what
 * compaction relocates commit.still_holds().
 *
 * Owner loop; may switch. Nothing is kept: the answer of what is refused stands in *c.
 */
#pragma once
#include "store/wal/change.h"
#include "store/wal/commit.h"

/* `changes`: the batch at hand, which has `written` records by now. *sync: the change must be durable before it is
 * answered. Never VERDICT_DEFERRED where `written` is 0. */
enum verdict precondition_check(struct changes *changes, struct commit *c,
                                uint32_t written, bool *sync);
