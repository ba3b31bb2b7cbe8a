/* truncated: which commit batches are gone because compaction removed their logs, or because a power cut took them, and how far
 * the cached log was durable (the durable mark). docs/formats.md, section 6.
 *
 * Logs are compacted in any order, so there may be gaps between those that are left. The file `.forebay/retired` lists the
 * gaps, and is durable before a log is removed: a gap that is not listed is damage. In the middle of a cached log a power cut
 * leaves gaps too (log_gap.h): the start that finds one lists it.
 *
 * Owner loop, or before there is one. The list is believed only as an explanation of gaps.
 */
#pragma once
#include "base/buf.h"
#include "rt/file.h"
#include "store/store_entry.h"

#define TRUNCATED_FILE "retired"

struct store;

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
    /* The durable mark: this batch of the cached log and all before it were synced, some of them before a reply. Where one is
     * missing it is damaged, though no later batch tells. */
    uint64_t durable_mark;
    /* A batch of the cached log that is damaged: the next start drops the cached class. 0: none. */
    uint64_t damaged;
};
void truncated_fini(struct truncated *r); /* twice is fine */

/* Asserts that the ranges ascend and do not touch. */
void truncated_check(const struct truncated *r);

/* Are all of these batches gone for that reason? */
bool truncated_covers(const struct truncated *r, enum store_class class, uint64_t first,
                      uint64_t last);
/* The first batch behind `batch` that was truncated; 0: none. */
uint64_t truncated_next_after(const struct truncated *r, enum store_class class,
                              uint64_t batch);
void truncated_add(struct truncated *r, enum store_class class, uint64_t first,
                   uint64_t last);
/* Batches that a power cut took out of the cached log, and that were not durable before a reply. */
void truncated_add_lost(struct truncated *r, uint64_t first, uint64_t last);
bool truncated_covers_lost(const struct truncated *r, uint64_t first, uint64_t last);
/* Was a batch up to that one lost in a power cut? */
bool truncated_gap_before(const struct truncated *r, uint64_t batch);
/* Before the first batch of the oldest log there is nothing to explain. */
void truncated_forget(struct truncated *r, enum store_class class, uint64_t oldest);

/* The file's bytes. ERR_CORRUPT: *out is empty. */
void truncated_encode(const struct truncated *r, struct buf *out);
enum err truncated_decode(struct span bytes, struct truncated *out,
                          struct errbuf *eb) MUST_CHECK;
/* From and to the folder `.forebay`. One that is not there is empty; one that is damaged too, and that is said. Of an
 * open store: truncated_persist(). May switch. */
enum err truncated_load(struct rt_dir *state, struct truncated *out,
                        struct errbuf *eb) MUST_CHECK;
enum err truncated_save(struct rt_dir *state, const struct truncated *r,
                        struct errbuf *eb) MUST_CHECK;

/* ---- of an open store; may switch ---- */

/* Writes the file, one call at a time; on a full disk in place of the ballast. */
enum err truncated_persist(struct store *d, struct errbuf *eb) MUST_CHECK;
/* Writes the durable mark if it has moved: when the store closes, else at most once in durable_mark_interval_ms. Called by the
 * flusher, never by a fiber that a client waits for. */
void durable_mark_persist(struct store *d, bool closing);
