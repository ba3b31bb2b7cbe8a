/* recovery: what a start has found, and what it needs until it is over. Owner loop. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct scan_readahead;
struct replay_visitor; /* replay.h */

struct recovery {
    uint64_t given_back; /* places found without a record */
    bool after_gap;      /* the replay has passed a gap of the cached log: log_gap.h */
    bool drop_cached;    /* the cached log is damaged: the cached class is not believed */
    bool dropped_cached; /* this start has dropped it */
    bool wal_lost; /* as wals.damaged, but for a rebuild that only keeps what there is */
    uint64_t replayed, to_replay; /* bytes of logs */
    uint64_t replay_told_ns;
    const struct replay_visitor *visitor; /* borrowed; NULL: a start, no check */
    struct scan_readahead
        *scan_readahead; /* owned; NULL but while a replay has several logs */
};
