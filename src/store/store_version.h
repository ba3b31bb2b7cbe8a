/* store_version: S3's versions; a bucket that never had them on has none of this. Part of store.h. */
#pragma once
#include "store/store_write.h"

/* A version by its id; a null pointer: the null version. Delete markers are found too (ENTRY_MARKER). *current says whether
 * it is the current one. ERR_NOT_FOUND. May switch. */
enum err store_version_find(struct store *d, const struct store_key *k,
                            const struct version *born, struct entry *out, bool *current,
                            struct errbuf *eb) MUST_CHECK;
/* Ends one version for ever; where it was the current one, the newest of the others becomes that. *was and
 * *committed (they may be NULL) are what it was, and the version of this change. ERR_NOT_FOUND: there is none. May switch. */
enum err store_version_delete(struct store *d, const struct store_key *k,
                              const struct version *born, const struct store_condition *c,
                              const struct version *as, struct entry *was,
                              struct version *committed, struct errbuf *eb) MUST_CHECK;
struct store_version {
    struct span key;    /* in the arena */
    struct entry entry; /* ENTRY_MARKER: a delete marker */
    bool latest;
};
/* All versions by key, the newest of each first, from behind (after_key, *after), or with `after` NULL from the key
 * behind after_key (at it, when inclusive). May switch. */
enum err store_version_list(struct store *d, uint64_t bucket, struct span after_key,
                            bool inclusive, const struct version *after, uint32_t max,
                            struct arena *a, struct store_version **out, uint32_t *count,
                            bool *more, struct errbuf *eb) MUST_CHECK;
/* Other metadata for the same content: the version keeps its id, `version` of the entry rises. Class native only. `born`
 * NULL: the current object; else the version of that id, whichever it is (the null version: its own id, as
 * store_version_find() says). ERR_NOT_FOUND: there is no such object. May switch. */
enum err store_set_meta(struct store *d, const struct store_key *k,
                        const struct version *born, const struct object_meta *meta,
                        const struct store_condition *c, const struct version *as,
                        struct entry *out, struct errbuf *eb) MUST_CHECK;
