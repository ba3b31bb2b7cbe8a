/* retired: which commit batches are gone because compaction gave their logs back, or were never promised. docs/formats.md,
 * section 6.
 *
 * Logs are compacted in any order, so what is left of them may have gaps. The file `.forebay/retired` lists those, and
 * is on the disk before a log goes: a gap that it does not know is damage. In the middle of a cached log a power cut leaves
 * gaps too (hole.h): those are listed by the start that found them. Where a cached log ends it tells a cut from damage.
 *
 * Owner loop, and before there is one. What it says of a disk is only believed to explain gaps.
 */
#pragma once
#include "base/buf.h"
#include "rt/file.h"
#include "store/store_entry.h"

#define TRUNCATED_FILE "retired"

struct truncated_range {
    uint64_t first, last; /* batches */
};
#define TRUNCATED_LOST                                                                   \
    STORE_CLASSES_ /* place in `of`: of the cached log, lost in a power cut */
#define TRUNCATED_LISTS (STORE_CLASSES_ + 1)
struct truncated {
    struct {
        struct truncated_range *at; /* owned; ascending, apart from each other */
        uint32_t count, room;
    } of[TRUNCATED_LISTS];
    /* The cached log was durable up to this batch when a log of it went: what stood there, a log that is gone relied on. */
    uint64_t mark_at_removal;
    /* A batch of the cached log that was synced before a reply (promised.h). */
    uint64_t durable_mark;
    /* A batch of the cached log that is missing and was promised: of such holes the last one's first batch. */
    uint64_t damaged;
};
void truncated_fini(struct truncated *r); /* twice is fine */

/* Are all of these batches gone for that reason? */
bool truncated_covers(const struct truncated *r, enum store_class class, uint64_t first,
                      uint64_t last);
/* The first batch behind `batch` that was retired; 0: none. */
uint64_t truncated_next_after(const struct truncated *r, enum store_class class,
                              uint64_t batch);
void truncated_add(struct truncated *r, enum store_class class, uint64_t first,
                   uint64_t last);
/* Groups that a power cut took out of the cached log, and that nobody had promised. */
void truncated_add_lost(struct truncated *r, uint64_t first, uint64_t last);
bool truncated_covers_lost(const struct truncated *r, uint64_t first, uint64_t last);
/* Is a batch up to that one damaged, or lost in a power cut? */
bool truncated_gap_before(const struct truncated *r, uint64_t batch);
/* Up to this batch all were on the disk, and are missed where they are not; 0: nobody knows of any. */
uint64_t truncated_durable_mark(const struct truncated *r);
/* Before the first batch of the oldest log there is nothing to explain. */
void truncated_forget(struct truncated *r, enum store_class class, uint64_t oldest);

/* The file's bytes. ERR_CORRUPT: *out is empty. */
void truncated_encode(const struct truncated *r, struct buf *out);
enum err truncated_decode(struct span bytes, struct truncated *out,
                          struct errbuf *eb) MUST_CHECK;
/* From and to the folder `.forebay`. One that is not there is empty; one that is damaged too, and that is said. One save
 * at a time: of an open disk by promised.h. May switch. */
enum err truncated_load(struct rt_dir *state, struct truncated *out,
                        struct errbuf *eb) MUST_CHECK;
enum err truncated_save(struct rt_dir *state, const struct truncated *r,
                        struct errbuf *eb) MUST_CHECK;
