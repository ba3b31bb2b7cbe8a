/* compactor: what the files of compaction share: compact.c (the fiber, when and how fast), compact_log.c, compact_body.c.
 * Owner loop; private to these files. */
#pragma once
#include "store/gc/compact.h"
#include "store/gc/relocate.h"
#include "store/store_entry.h"

struct segment;
struct store;

struct compact_batch; /* compact_log.c: of the log at hand */
struct compactor {
    struct store *disk; /* borrowed */
    struct rt_cond wake;
    struct rt_sem turn; /* one round at a time */
    struct rt_daemon daemon;
    bool stop;
    unsigned urgent; /* store_compact(): no pace, and as if it were quiet */

    uint64_t user_bytes, quiet_since_ms; /* of the last user write */

    struct arena *arena;         /* owned; of what is moved at the moment */
    struct compact_batch *batch; /* owned */
};

/* How eager it is at the moment. */
enum compact_mood { COMPACT_BUSY, COMPACT_QUIET, COMPACT_FULL };
enum compact_mood compact_mood(const struct compactor *k);
/* Waits as long as so many bytes should take. ERR_CANCELLED: the disk is closing. Switches. */
enum err compact_pace(struct compactor *k, uint64_t bytes) MUST_CHECK;
/* It is left alone until the next start, and that is said. */
void compact_hold(struct store *d, struct segment *s, const char *why);

/* What there is to compact. Both switch. */
struct compact_kind {
    /* The segment of the class that is most worth it, with a reference. ERR_NOT_FOUND: none is; ERR_BUSY: not seen to the end,
     * there may be one. */
    enum err (*choose)(struct compactor *k, enum store_class class, struct segment **out,
                       struct errbuf *eb);
    enum err (*compact)(struct compactor *k, struct segment **sp, struct errbuf *eb);
};
extern const struct compact_kind compact_logs, compact_bodies;
struct compact_batch *compact_batch_new(void);
/* The manifest again, of the object that has `part` (part->entry), with the part at its new place. *changed counts where that
 * object is another by now. Switches. */
enum err compact_manifest(struct compactor *k, enum store_class class,
                          const struct relocation *part, const struct entry *now,
                          uint32_t *changed, struct errbuf *eb) MUST_CHECK;
