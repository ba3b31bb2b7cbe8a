/* store_version: S3's versions. A bucket that never had versioning uses none of this. Part of
 * store.h. */
#pragma once
#include "store/store_write.h"

/* Finds a version by its id; a null pointer: the null version. Also finds delete markers
 * (ENTRY_MARKER). *current: it is the current one. ERR_NOT_FOUND. May switch. */
enum err store_version_find(struct store *d, const struct store_key *k,
                            const struct version *born, struct entry *out, bool *current,
                            struct errbuf *eb) MUST_CHECK;
/* Deletes one version permanently. If it was the current one, the newest of the others becomes
 * current. *was and *committed (may be NULL) receive its entry and the version of this change.
 * ERR_NOT_FOUND. May switch. */
enum err store_version_delete(struct store *d, const struct store_key *k,
                              const struct version *born, const struct store_condition *c,
                              const struct version *as, struct entry *was,
                              struct version *committed, struct errbuf *eb) MUST_CHECK;
struct store_version {
    struct span key;    /* in the arena */
    struct entry entry; /* ENTRY_MARKER: a delete marker */
    bool latest;
};
/* Lists all versions by key, newest first within a key, after (after_key, *after). With `after`
 * NULL: from the key after after_key (from after_key itself, if inclusive). May switch. */
enum err store_version_list(struct store *d, uint64_t bucket, struct span after_key,
                            bool inclusive, const struct version *after, uint32_t max,
                            struct arena *a, struct store_version **out, uint32_t *count,
                            bool *more, struct errbuf *eb) MUST_CHECK;
/* Replaces the metadata for the same content: the version keeps its id, `version` of the entry
 * rises. Native class only. `born` NULL: the current object; else the version of that id (the
 * null version: its own id, as store_version_find() returns it). ERR_NOT_FOUND: there is no such
 * object. May switch. */
enum err store_set_meta(struct store *d, const struct store_key *k,
                        const struct version *born, const struct object_meta *meta,
                        const struct store_condition *c, const struct version *as,
                        struct entry *out, struct errbuf *eb) MUST_CHECK;
