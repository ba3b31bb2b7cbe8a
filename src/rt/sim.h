/* sim: the third engine. One loop, virtual time, pipes and a network in memory, and disks that lose and tear
 * unsynced data; one seed decides everything. Code above `rt` does not know that it runs here.
 *
 * A power cut freezes the simulated disks at that moment: every later file operation fails and every fiber of the
 * world is cancelled, so the code unwinds as it would under any cancellation. sim_run_world() returns, the disks
 * keep what a real disk may have kept, and the next world starts on them. Only a directory sync makes names durable,
 * only a file sync bytes and sizes (sim_disk.h has the model). A world that ends by itself leaves everything in the
 * "page cache": a later cut may still take what was not synced.
 *
 * Paths are absolute; "/NAME" is a mount point that always exists, what is below must be made. A world that cannot
 * continue (every fiber waits and no event is due, or fibers keep running after a cut) is reported with the waiting
 * fibers, and aborts. */
#pragma once
#include "rt/loop.h"
#include "rt/point.h"

struct sim; /* outlives worlds: holds the disks */

struct sim_options {
    uint64_t seed;
    /* A cut loses, tears (4 KiB pages, 512 B sectors) and reorders unsynced writes; else it keeps them. */
    bool lossy;
    /* Bytes arrive in the pieces in which they were sent, as on an idle loopback; else in any. */
    bool calm;
    unsigned max_delay_us; /* network and disk latency are drawn from 0..this */
    uint64_t disk_bytes;   /* room of the simulated disk; 0: 1 TiB */
};
struct sim *sim_new(const struct sim_options *o);
void sim_free(struct sim **sp);

/* Cuts the power when the nth event (write, sync, truncate, fallocate, rename, unlink, create) begins; 0: never. */
void sim_cut_at(struct sim *s, uint64_t nth);
uint64_t sim_events(const struct sim *s); /* events of the last world */
/* Cuts it when the next world passes `p` for the nth time (rt/point.h); 0: never. FB_TEST_HOOKS builds. */
void sim_cut_at_point(struct sim *s, enum point p, uint64_t nth);
bool sim_was_cut(const struct sim *s);
/* The nth wait of the next world (any call that may switch and would wait, counted from 1) is cancelled, or
 * fails with `err`; 0: none. */
void sim_disturb_wait(struct sim *s, uint64_t nth, enum err err);
uint64_t sim_waits(const struct sim *s);      /* waits of the last world */
uint64_t sim_trace_hash(const struct sim *s); /* of all events: equal for equal seeds */

/* Runs start(arg) as the first fiber of a world, like rt_run(). ERR_CANCELLED after a cut. */
enum err sim_run_world(struct sim *s, fiber_fn *start, void *arg,
                       struct errbuf *eb) MUST_CHECK;

uint64_t sim_random(void); /* inside a world: from its seed */
/* LMDB directories (rt_dir_path) lie in memory. A cut restores an older commit of them, or none, as the seed
 * decides. The index reports its commits here. */
void sim_index_committed(const char *path);
/* Files of the disks, for tests that flip bits: what the next world will read. Between worlds only; ERR_NOT_FOUND. */
enum err sim_file_bytes(struct sim *s, const char *path, char **at,
                        uint64_t *size) MUST_CHECK;
