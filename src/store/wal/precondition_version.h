/* precondition_version: the conditions of a change, and the checks of records on one version of
 * a key. The committer calls them in the same step as publishing. Owner loop; calls that read
 * entries may switch.
 */
#pragma once
#include "store/wal/commit.h"

struct entry;
struct store_condition;

struct changes;

/* ERR_PRECONDITION, ERR_NOT_FOUND or ERR_OK. `entry` is the current entry; `exists` says whether
 * it holds an object. */
enum err precondition_check_condition(const struct store_condition *c, bool exists,
                                      const struct entry *entry,
                                      struct errbuf *eb) MUST_CHECK;
/* For a `version-delete` or `meta`: finds the version (c->which), checks the condition against
 * it, and fills in the record's fields. c->was is the version's entry. */
enum err precondition_check_version(struct changes *k, struct commit *c) MUST_CHECK;
