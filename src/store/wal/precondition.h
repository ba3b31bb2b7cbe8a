/* precondition: decides whether a change may go into the log.
 *
 * The committer calls it for each change before writing it. This file checks puts, deletes,
 * in-doubt writes, parts and uploads. precondition_check_replica() checks the records that keep
 * replicas in sync, precondition_check_version() the records on one version of a key, and
 * commit.still_holds() the relocations of compaction.
 *
 * Owner loop; may switch. Keeps no state: the result of a rejected change is in *c.
 */
#pragma once
#include "store/wal/change.h"
#include "store/wal/commit.h"

/* `changes`: the current batch, which has `written` records so far. *sync: the change must be
 * durable before its reply. Never returns VERDICT_DEFERRED if `written` is 0. */
enum verdict precondition_check(struct changes *changes, struct commit *c,
                                uint32_t written, bool *sync);
