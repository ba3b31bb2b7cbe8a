/* log_set: which logs the disk must have. docs/formats.md, section 6.
 *
 * The set is a list outside the logs, in two files with a sum each (`.forebay/logs`, `.forebay/logs.2`). A log is named
 * before its first batch, and until it is removed. So a log that the set names and the folder lacks is missing: what
 * it said is unknown.
 *
 * While a native log is missing the disk takes no writes, and nothing is freed. Where the index covers the missing log
 * too, look-ups are right. Otherwise the disk is in doubt: only an entry whose version is above `bound` can be believed,
 * because it was written after the missing log was full. That is durable until the log is back or an
 * administrator continues without it (rebuild). The start that finds the log again rebuilds the index from all logs.
 *
 * Owner loop, or before there is one.
 */
#pragma once
#include "base/buf.h"
#include "rt/file.h"
#include "rt/sync.h"
#include "store/store_entry.h"

#define LOG_SET_FILE  "logs"
#define LOG_SET_FILE2 "logs.2"
#define LOG_SET_MAX   65536u /* logs of a disk */

struct store;
struct segment;

struct log_set_entry {
    enum store_class class;
    uint32_t segment;
    uint64_t first_batch;
    struct version
        begun;    /* no record of an older log has a higher version of this node */
    bool missing; /* not in the folder: log_set_match() */
};
struct log_set {
    struct log_set_entry *at; /* owned; by class, then first batch */
    uint32_t count, room;
    uint64_t generation; /* of the file; 0: there is none */
    bool was_missing; /* a start found a native log missing; cleared when all are back */
    bool in_doubt;    /* and the index did not cover it */
    struct version bound;
    bool dirty;         /* a start has changed it */
    struct rt_sem turn; /* serializes writes */
};
void log_set_init(struct log_set *s);
void log_set_fini(struct log_set *s); /* idempotent */
void log_set_check(const struct log_set *s);

/* The file's bytes. ERR_CORRUPT: *out is empty. */
void log_set_encode(const struct log_set *s, struct buf *out);
enum err log_set_decode(struct span bytes, struct log_set *out,
                        struct errbuf *eb) MUST_CHECK;

/* Reads the newer good copy. Neither exists, or neither is good: an empty set with generation 0. May switch. */
enum err log_set_load(struct rt_dir *state, struct log_set *out,
                      struct errbuf *eb) MUST_CHECK;

/* ---- of a store; may switch ---- */

/* Writes both copies, durably. On a full disk it uses the space of the ballast. */
enum err log_set_persist(struct store *d, struct errbuf *eb) MUST_CHECK;
/* Names a log that was just made, durably. */
enum err log_set_add(struct store *d, const struct segment *s,
                     struct errbuf *eb) MUST_CHECK;
/* The log will be removed: the set forgets it, durably. */
enum err log_set_remove(struct store *d, enum store_class class, uint32_t segment,
                        struct errbuf *eb) MUST_CHECK;

/* ---- of a start ---- */

/* Marks the entries whose logs are not in the table of segments. Returns how many native ones, and whether a cached one is. */
uint32_t log_set_match(struct store *d, bool *cached);
/* Makes the set what the table of segments has; missing native logs stay named. True: it has changed. */
bool log_set_update(struct store *d);
void log_set_forget_missing(struct log_set *s);
void log_set_forget_class(struct log_set *s, enum store_class class);
uint32_t log_set_missing(const struct log_set *s); /* native */
/* "native/log-000005.tar (commit batches from 17 on)": the first missing native log. */
void log_set_name_missing(const struct log_set *s, char *out, size_t room);
/* What the index covers, up to that native batch: is something of a missing log not among it? Then *bound is the highest
 * version that it may have. */
bool log_set_uncovered(const struct log_set *s, uint64_t covered, uint64_t durable,
                       struct version *bound);
