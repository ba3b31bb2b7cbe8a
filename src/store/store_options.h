/* store_options: how a disk is opened; part of store.h. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct block_cache;

/* The counters of content ids and versions, shared by all disks of a node. The caller of
 * store_open() owns them. */
struct store_ids {
    _Atomic uint64_t counter;
    _Atomic uint64_t
        map_epoch; /* of new versions; only rises (store_raise_map_epoch()) */
};

/* Limits at which a disk counts as slow, or fails (health.h). 0 selects the default in brackets. */
struct store_limits {
    uint64_t errors; /* [100] places with errors within ... ; UINT64_MAX: no limit */
    uint64_t error_window_ms; /* [10 min] ... this time: the disk fails */
    uint64_t slow_factor;     /* [10] times its usual latency: slow */
    uint64_t slow_ms;         /* [none] absolute, instead of the factor */
    /* [never] slow for this long: the disk fails. Counted in ticks */
    uint64_t slow_leave_ms;
    uint64_t
        stall_ms; /* [2 min] operations wait and none ends: it fails; UINT64_MAX: never. In ticks */
    uint64_t tick_ms; /* [1,000] */
};
struct store_options {
    uint8_t cluster_id
        [16]; /* minted by the first serve, for ever; store_open() refuses another one's disk */
    uint16_t node;  /* node number, 1 for the first */
    uint64_t epoch; /* the count of starts, higher than any before */
    uint64_t
        map_epoch; /* of new versions: higher than any that the disk has seen. 0: as `epoch`; ignored with `ids` */
    uint64_t segment_bytes; /* maximum; 0: 1 GiB. Bodies from 16 MiB have their own */
    uint64_t
        cached_bytes; /* that the class cached is to take here: its logs and shared segments are a 64th of it at most, as
                         compaction writes what lives in one before it is given back; 0: no matter */
    uint64_t memtable_bytes;  /* 0: 64 MiB: log beyond what the index covers, at most */
    uint64_t index_map_bytes; /* 0: 64 GiB, sparse */
    uint64_t
        index_memory_bytes; /* 0: 1 GiB: a larger index is taken not to stay in memory, and no loop touches it */
    /* 0: 1,000: at most one durable index commit per interval */
    uint64_t index_interval_ms;
    uint64_t
        durable_mark_interval_ms; /* 0: 10,000: least interval between writes of the durable mark */
    uint64_t block_cache_bytes; /* the block cache; 0: none */
    uint32_t prepared_max;      /* most prepared versions at a time; 0: 65,536 */
    uint64_t
        compact_bytes_s; /* 0: 64 MiB: compaction's limit; a quarter of it while others write */
    uint32_t
        compact_bodies_percent; /* 0: 10, 25 while others write: so much of a segment of many bodies is headers of dead ones
                                   before the living move */
    unsigned owner_loop;
    /* Rebuild the index from the remaining logs, however few: `forebay disk rebuild`. Otherwise
     * a disk whose index is ahead of its native log is rejected. */
    bool rebuild;
    /* Progress while a long log is read, on the owner loop; NULL: none. It must not switch. */
    void (*on_replay)(void *arg, uint64_t done_bytes, uint64_t total_bytes);
    void *on_replay_arg;
    struct store_ids *ids; /* borrowed; NULL: its own */
    struct block_cache *
        block_cache; /* lent: the block cache of the node; NULL: one of block_cache_bytes */
    struct store_limits limits;
    uint64_t scrub_rate;    /* limit in bytes a second; 0: 64 MiB */
    uint64_t scrub_pass_ms; /* duration of a scrub pass; 0: a week */
    bool state_elsewhere;   /* a new disk: the node's state is on another one */
    /* Whether this node may order changes of keys now: its lease in a cluster. Asked with each commit batch, right before it
     * is written and again after its sync: where the answer is no, the changes of objects in it get ERR_UNAVAILABLE, in the
     * second case with an unknown outcome. On the owner loop; must not switch. NULL: always. */
    bool (*may_order)(void *arg);
    void *may_order_arg;
};
