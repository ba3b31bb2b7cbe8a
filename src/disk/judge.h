/* judge: may a record go into the log? What the committer asks before it writes one that keeps copies in step: prepare,
 * decide, abort, tombstones, forgetting, a copy of a version that was decided elsewhere. Home loop; may switch. */
#pragma once
#include "disk/change.h"
#include "disk/commit.h"

enum verdict {
    WRITE,
    REFUSED,  /* answered: commit.rc says how */
    DEFERRED, /* it waits for the group at hand to be visible */
};
static inline enum verdict
refuse(struct commit *c, enum err rc)
{
    c->rc = rc;
    return REFUSED;
}

/* The kinds above. *sync: the change must be durable before it is answered. An upload that is to be completed is
 * judged by the committer first. */
enum verdict judge_copies(struct changes *changes, struct commit *c, bool *sync);
/* Is the upload of this part or abort held by a version that is prepared? Then *c is answered. */
bool judge_is_held(struct disk *d, struct commit *c);
