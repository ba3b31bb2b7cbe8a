/* compactor: shared by the files of compaction: compact.c (the fiber, when and how fast),
 * compact_log.c, compact_body.c. Owner loop; private to these files. */
#pragma once
#include "store/gc/compact.h"
#include "store/gc/relocate.h"
#include "store/store_entry.h"

struct segment;
struct store;

struct compact_batch; /* compact_log.c: batch of the current log */
struct compactor {
    struct store *disk; /* borrowed */
    struct rt_cond wake;
    struct rt_sem turn; /* one round at a time */
    struct rt_daemon daemon;
    bool stop;
    unsigned urgent; /* store_compact(): no rate limit, thresholds as if idle */

    uint64_t user_bytes, quiet_since_ms; /* at the last user write */

    struct arena *arena;         /* owned; for the current move */
    struct compact_batch *batch; /* owned */
};

/* How low the thresholds are at the moment. */
enum compact_mood { COMPACT_BUSY, COMPACT_QUIET, COMPACT_FULL };
enum compact_mood compact_mood(const struct compactor *k);
/* Waits as long as this many bytes should take. ERR_CANCELLED: the disk is closing. Switches. */
enum err compact_pace(struct compactor *k, uint64_t bytes) MUST_CHECK;
/* Excludes the segment until the next start, and logs that. */
void compact_hold(struct store *d, struct segment *s, const char *why);

/* The two kinds of compaction. Both calls switch. */
struct compact_kind {
    /* Returns the segment of the class most worth it, with a reference. ERR_NOT_FOUND: none;
     * ERR_BUSY: survey incomplete, there may be one. */
    enum err (*choose)(struct compactor *k, enum store_class class, struct segment **out,
                       struct errbuf *eb);
    enum err (*compact)(struct compactor *k, struct segment **sp, struct errbuf *eb);
};
extern const struct compact_kind compact_logs, compact_bodies;
struct compact_batch *compact_batch_new(void);
/* Writes the manifest of the object that has `part` (part->entry) again, with the part at its
 * new place. Increments *changed if the object has changed. Switches. */
enum err compact_manifest(struct compactor *k, enum store_class class,
                          const struct relocation *part, const struct entry *now,
                          uint32_t *changed, struct errbuf *eb) MUST_CHECK;
