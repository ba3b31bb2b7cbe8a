/* judge_version: conditions of a change, and what records about one version of a key need to know of it. Called by the
 * committer, in one step with publishing. Home loop; what asks for rows may switch.
 */
#pragma once
#include "disk/commit.h"

struct changes;

/* ERR_PRECONDITION, ERR_NOT_FOUND, or ERR_OK. `row` is the current one, of which `exists` says whether it is an object. */
enum err judge_condition(const struct disk_condition *c, bool exists,
                         const struct row *row, struct errbuf *eb) MUST_CHECK;
/* Of a `version-delete` or `meta`: finds the version (c->which), judges the condition by it, and fills in what the
 * record says of it; c->was is its row. */
enum err judge_version(struct changes *k, struct commit *c) MUST_CHECK;
