/* usage: what each bucket holds and its bytes, as of the last change that is visible: living objects, older versions, parts of
 * uploads in progress. For quotas.
 *
 * Loaded from the index at start, then changed on the owner loop with each published batch, by replay and committer alike. The index
 * keeps the counts of objects and older versions; each start counts the parts from their entries. Reading: any loop, no lock.
 */
#pragma once
#include "store/index/index.h"

struct entry;
struct index;

struct usage;

/* The older versions of a bucket's objects are counted as if they were a bucket of their own, with this number. */
static inline uint64_t
usage_of_older(uint64_t bucket)
{
    return bucket | (uint64_t)1 << 62;
}
static inline bool
usage_is_of_older(uint64_t bucket)
{
    return (bucket & (uint64_t)1 << 62) != 0;
}
/* And so are the parts of its uploads in progress; not of those that copy an object of another disk. */
static inline uint64_t
usage_of_open(uint64_t bucket)
{
    return bucket | (uint64_t)1 << 61;
}
static inline bool
usage_is_of_open(uint64_t bucket)
{
    return (bucket & (uint64_t)1 << 61) != 0;
}

struct usage *usage_new(void);
void usage_free(struct usage **up); /* NULL is fine */
/* What the index knows, the memtable being empty. Home; before replay. May switch. */
enum err usage_load(struct usage *u, struct memtable *t, struct index *x,
                    struct errbuf *eb) MUST_CHECK;
void usage_add(struct usage *u, uint64_t bucket, int64_t objects,
               int64_t bytes); /* owner */
void usage_get(const struct usage *u, uint64_t bucket, uint64_t *objects,
               uint64_t *bytes);
/* Of all buckets: living objects, older versions, parts of uploads in progress and their bytes. */
struct usage_totals {
    uint64_t objects, older, parts, part_bytes;
};
void usage_total(const struct usage *u, struct usage_totals *out);

/* The changes of one batch, before they are visible. */
struct usage_change {
    uint64_t bucket;
    int64_t objects, bytes;
};
struct usage_changes {
    struct usage_change *at; /* owned */
    uint32_t count, room;
};
/* `before` and `after` may be NULL. */
void usage_note(struct usage_changes *c, uint64_t bucket, const struct entry *before,
                const struct entry *after);
void usage_note_bytes(struct usage_changes *c, uint64_t bucket, int64_t objects,
                      int64_t bytes);
void usage_apply(struct usage *u, struct usage_changes *c); /* and forgets them */
