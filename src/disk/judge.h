/* judge: may a change go into the log? What the committer asks of each before it writes it: of puts, deletes, doubts, parts
 * and uploads here; of records that keep copies in step judge_copies, of one version of a key judge_version, of what
 * compaction carries carry_allowed().
 *
 * Home loop; may switch. Nothing is kept: the answer of what is refused stands in *c.
 */
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

/* `changes`: the group at hand, which has `written` records by now. *sync: the change must be durable before it is
 * answered. Never DEFERRED where `written` is 0. */
enum verdict judge_change(struct changes *changes, struct commit *c, uint32_t written,
                          bool *sync);
