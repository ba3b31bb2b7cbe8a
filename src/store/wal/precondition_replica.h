/* precondition_check_replica: may a record go into the log that keeps copies in step: prepare, decide, abort, tombstones, forgetting,
 * a copy of a version that was committed elsewhere? Owner loop; may switch. */
#pragma once
#include "store/wal/precondition.h"

struct changes;
struct commit;
struct store;

/* The kinds above. *sync: the change must be durable before it is answered. An upload that is to be completed is
 * checked by precondition_check() first. */
enum verdict precondition_check_replica(struct changes *changes, struct commit *c,
                                        bool *sync);
/* Is the upload of this part or abort held by a version that is prepared? Then *c is answered. */
bool precondition_upload_is_held(struct store *d, struct commit *c);
