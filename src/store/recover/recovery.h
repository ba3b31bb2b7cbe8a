/* recovery: what a start has found, and what it needs until it is over. Owner loop. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct lost_keys;
struct scan_readahead;
struct replay_visitor; /* replay.h */

struct recovery {
    uint64_t given_back; /* places found without a record */
    bool after_gap;      /* the replay has passed a gap of the cached log: log_gap.h */
    bool drop_cached;    /* the cached log is damaged: the cached class is not believed */
    bool dropped_cached; /* this start has dropped it */
    bool wal_lost; /* as wals.damaged, but for a rebuild that only keeps what there is */
    bool lost_end; /* the native log ends before a batch that was durable */
    bool
        logs_are_back; /* native logs that were missing are there: the index is made from all */
    bool skip_native; /* what the index does not cover is in logs that are missing */
    uint64_t covered; /* native batch up to which the index knew the log */
    struct lost_keys *lost_keys;  /* owned; NULL: none was needed yet */
    uint64_t replayed, to_replay; /* bytes of logs */
    uint64_t replay_told_ns;
    const struct replay_visitor *visitor; /* borrowed; NULL: a start, no check */
    struct scan_readahead
        *scan_readahead; /* owned; NULL but while a replay has several logs */
};
