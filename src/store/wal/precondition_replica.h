/* precondition_replica: decides whether a record that keeps replicas in sync may go into the
 * log: prepare, commit, abort, tombstones, obsolete, and a copy of a version committed
 * elsewhere. Owner loop; may switch. */
#pragma once
#include "store/wal/precondition.h"

struct changes;
struct commit;
struct store;

/* Checks the kinds above. *sync: the change must be durable before its reply. The caller first
 * checks an upload to be completed with precondition_check(). */
enum verdict precondition_check_replica(struct changes *changes, struct commit *c,
                                        bool *sync);
/* True if a prepared version holds the upload of this part or abort. Then *c has the result. */
bool precondition_upload_is_held(struct store *d, struct commit *c);
