/* judge_copies: may a record go into the log that keeps copies in step: prepare, decide, abort, tombstones, forgetting,
 * a copy of a version that was decided elsewhere? Home loop; may switch. */
#pragma once
#include "disk/judge.h"

/* The kinds above. *sync: the change must be durable before it is answered. An upload that is to be completed is
 * judged by judge_change() first. */
enum verdict judge_copies(struct changes *changes, struct commit *c, bool *sync);
/* Is the upload of this part or abort held by a version that is prepared? Then *c is answered. */
bool judge_is_held(struct disk *d, struct commit *c);
