/* truncated: the commit batches that the logs lack for a known reason: compaction removed their
 * log, or a power cut lost them. Also the durable mark: up to where the cached log was synced.
 * docs/formats.md, section 6.
 *
 * Logs are compacted in any order, so the remaining logs may have gaps between them. The file
 * `.forebay/retired` lists the gaps and is durable before a log is removed. A gap that is not
 * listed is damage. A power cut also leaves gaps inside a cached log (log_gap.h); the start that
 * finds one lists it.
 *
 * Owner loop, or before there is one. The list serves only to explain gaps.
 */
#pragma once
#include "base/buf.h"
#include "rt/file.h"
#include "store/store_entry.h"

#define TRUNCATED_FILE "retired"

struct store;

struct truncated_range {
    uint64_t first, last; /* batch numbers */
};
#define TRUNCATED_LOST                                                                   \
    STORE_CLASSES_ /* index in `of`: batches of the cached log lost in a power cut */
#define TRUNCATED_LISTS (STORE_CLASSES_ + 1)
struct truncated {
    struct {
        struct truncated_range *at; /* owned; ascending and disjoint */
        uint32_t count, room;
    } of[TRUNCATED_LISTS];
    /* The durable mark: this batch of the cached log and all before it were synced, some of them
     * before a reply. If one of them is missing it is damaged, even if no later batch says so. */
    uint64_t durable_mark;
    /* A damaged batch of the cached log: the next start drops the cached class. 0: none. */
    uint64_t damaged;
};
void truncated_fini(struct truncated *r); /* idempotent */

/* Asserts that the ranges ascend and do not touch. */
void truncated_check(const struct truncated *r);

/* True if the list explains the absence of all these batches. */
bool truncated_covers(const struct truncated *r, enum store_class class, uint64_t first,
                      uint64_t last);
/* Returns the first truncated batch after `batch`; 0: none. */
uint64_t truncated_next_after(const struct truncated *r, enum store_class class,
                              uint64_t batch);
void truncated_add(struct truncated *r, enum store_class class, uint64_t first,
                   uint64_t last);
/* Adds batches of the cached log that a power cut lost and that were not durable before a reply. */
void truncated_add_lost(struct truncated *r, uint64_t first, uint64_t last);
bool truncated_covers_lost(const struct truncated *r, uint64_t first, uint64_t last);
/* True if a power cut lost a batch up to that one. */
bool truncated_gap_before(const struct truncated *r, uint64_t batch);
/* Removes ranges before the first batch of the oldest log; no gap there needs an explanation. */
void truncated_forget(struct truncated *r, enum store_class class, uint64_t oldest);

/* The file's bytes. ERR_CORRUPT: *out is empty. */
void truncated_encode(const struct truncated *r, struct buf *out);
enum err truncated_decode(struct span bytes, struct truncated *out,
                          struct errbuf *eb) MUST_CHECK;
/* Read and write the file in the folder `.forebay`. A missing file loads as empty; so does a
 * damaged one, with a log line. For an open store use truncated_persist(). May switch. */
enum err truncated_load(struct rt_dir *state, struct truncated *out,
                        struct errbuf *eb) MUST_CHECK;
enum err truncated_save(struct rt_dir *state, const struct truncated *r,
                        struct errbuf *eb) MUST_CHECK;

/* ---- of an open store; may switch ---- */

/* Writes the file, one call at a time. On a full disk it uses the space of the ballast. */
enum err truncated_persist(struct store *d, struct errbuf *eb) MUST_CHECK;
/* Writes the durable mark if it has moved: when the store closes, otherwise at most once per
 * durable_mark_interval_ms. Only the flusher calls it, never a fiber that a client waits for. */
void durable_mark_persist(struct store *d, bool closing);
