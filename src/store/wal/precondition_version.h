/* precondition_check_version: conditions of a change, and what records about one version of a key need to know of it. Called by the
 * committer, in one step with publishing. Owner loop; what asks for entries may switch.
 */
#pragma once
#include "store/wal/commit.h"

struct entry;
struct store_condition;

struct changes;

/* ERR_PRECONDITION, ERR_NOT_FOUND, or ERR_OK. `entry` is the current one, of which `exists` says whether it is an object. */
enum err precondition_check_condition(const struct store_condition *c, bool exists,
                                      const struct entry *entry,
                                      struct errbuf *eb) MUST_CHECK;
/* Of a `version-delete` or `meta`: finds the version (c->which), checks the condition against it, and fills in what the
 * record says of it; c->was is its entry. */
enum err precondition_check_version(struct changes *k, struct commit *c) MUST_CHECK;
