/* sim_cluster: several simulated nodes in one process. Each is a `struct sim`: disks that outlive its worlds, one loop, and
 * clocks of its own. Time, network and seed are shared.
 *
 *     struct sim_cluster *c = sim_cluster_new(&options);
 *     struct sim *me = sim_cluster_add(c, &(struct sim_cluster_node){.name = "test", .addr = "10.0.0.9"});
 *     struct sim *a = sim_cluster_add(c, &(struct sim_cluster_node){.name = "a", .addr = "10.0.0.1"});
 *     sim_cluster_run(c, me, script, arg, &eb);        script() starts `a`, disturbs it, and waits for its end
 *
 * One node works at a time, for one turn of its loop; which one comes next is decided by what is due, and so by the seed.
 * A node is *down* until it is started, and when its world has ended: by itself, or after a crash. A crash cancels its
 * fibers as a power cut of rt/sim.h does; from that moment nothing of it reaches the network or a disk. A *paused* node makes
 * no turn while time passes; what is sent to it waits. A way that is *cut* delivers nothing in that direction, keeps what is
 * under way, and accepts no new connection.
 *
 * Calls marked "script" may come from a fiber of any node, and from outside of a run. Nodes share nothing else: a fiber of one
 * may read plain memory of another one, and must not wake its fibers. */
#pragma once
#include "rt/sim.h"

#define SIM_CLUSTER_MAX 16u

struct sim_cluster;

struct sim_cluster_node {
    const char *name, *addr; /* up to 15 letters; where it listens, unless on loopback */
    int64_t rate_ppm;        /* its clocks run by so much faster, or slower */
    uint64_t offset_ns;      /* of its monotonic clock */
    int64_t wall_ms;         /* of its wall clock */
};
/* `options` are those of each node's disks and of the network. */
struct sim_cluster *sim_cluster_new(const struct sim_options *options);
void sim_cluster_free(struct sim_cluster **cp); /* NULL is fine */
/* Down, with empty disks; owned by the cluster. */
struct sim *sim_cluster_add(struct sim_cluster *c, const struct sim_cluster_node *node);

/* Runs script(arg) as the first fiber of `first`; returns when that world has ended. All others must be down by then. */
enum err sim_cluster_run(struct sim_cluster *c, struct sim *first, fiber_fn *script,
                         void *arg, struct errbuf *eb) MUST_CHECK;
uint64_t sim_cluster_trace(const struct sim_cluster *c);
/* Shared time: of no node's clock. */
uint64_t sim_cluster_now_ns(const struct sim_cluster *c);

/* ---- script ---- */
/* It is down. fn(arg) is the first fiber of its new world. */
void sim_cluster_start(struct sim *node, fiber_fn *fn, void *arg);
bool sim_cluster_is_up(const struct sim *node);
/* It is up. Soon it is down: wait for that before it is started again. SIM_KILL: the kernel stays, so its disks keep what was
 * written, and its connections end. SIM_POWER: the disks' lottery (sim_disk.h), and silence. */
enum sim_crash { SIM_KILL, SIM_POWER };
void sim_cluster_crash(struct sim *node, enum sim_crash how);
void sim_cluster_pause(struct sim *node, bool paused);
bool sim_cluster_is_paused(const struct sim *node);
/* From one node to the other, this direction alone. */
void sim_cluster_cut(struct sim *from, struct sim *to, bool cut);
void sim_cluster_slow(struct sim *from, struct sim *to, uint32_t delay_us);
/* Of 10,000 deliveries between different nodes, so many break their connection instead. */
void sim_cluster_resets(struct sim_cluster *c, unsigned of_10000);
