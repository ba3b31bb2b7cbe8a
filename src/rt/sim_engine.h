/* sim_engine: what the parts of the simulator share; inside `rt` only. rt/sim.h has the contract.
 *
 * sim.c         worlds, clock, events, the cut, disturbed waits
 * sim_cluster.c several nodes: whose turn it is, crashes, pauses
 * sim_random.c  the seed's numbers, also for OpenSSL
 * sim_disk.c    files and directories that forget what was not synced
 * sim_file.c    the file part of the engine over it
 * sim_trouble.c mount points: what fails there
 * sim_index.c   real directories in memory for LMDB, thrown back by a cut
 * sim_net.c     pipes, connections, listeners
 */
#pragma once
#include "rt/internal.h"
#include "rt/point.h"
#include "rt/sim.h"
#include "rt/sim_disk.h"
#include "rt/sim_trouble.h"

struct sim_rng {
    uint64_t state;
};
uint64_t sim_rng_next(struct sim_rng *r);
void sim_rng_bytes(struct sim_rng *r, void *out, size_t len);
/* While a world runs OpenSSL takes its random bytes from `r`. */
void sim_openssl_begin(struct sim_rng *r);
void sim_openssl_end(void);

/* What all nodes of a simulated cluster have in common. */
struct sim_shared {
    struct sim_cluster *cluster; /* NULL: one node alone */
    struct sim_rng rng;          /* what happens */
    /* rt_random, sim_random, OpenSSL: apart, so that their use does not change what happens. */
    struct sim_rng rng_user;
    uint64_t now_ns;
    uint64_t trace;
    struct list listeners; /* sim_net.c */
    uint16_t next_port;
    uint64_t next_link;
};

struct sim {
    struct sim_options options;
    struct sim_shared *shared;
    struct sim_shared own; /* of one node alone; else unused */
    struct sim_member {    /* of a cluster */
        unsigned index;
        char name[16], addr[24];
        uint64_t offset_ns; /* of its clocks */
        int64_t rate_ppm;
        struct runtime *runtime; /* NULL: the node is down */
        fiber_fn *start;         /* its world is to begin; NULL: not */
        void *arg;
        uint64_t ready_ns; /* shared time of its next turn; UINT64_MAX: none of its own */
        bool paused;
        bool power; /* its crash takes unsynced data, and its connections fall silent */
    } member;
    struct sim_disk *disk; /* owned */
    struct list mounts;    /* sim_trouble.c */
    struct list indexes;   /* sim_index.c */
    /* owned; the real directory that stands for "/"; NULL until asked for */
    char *shadow;
    int shadow_fd; /* owned while there is one; locked, so that other processes do not remove it */
    uint64_t wall_base_ns;

    /* Orders for the next world. */
    uint64_t cut_at, disturb_at;
    enum err disturb_err;
    enum point cut_point;
    uint64_t cut_point_nth; /* 0: none */

    /* The world that runs, or the last one. */
    struct loop *loop; /* NULL between worlds */
    struct timer_heap events;
    uint64_t event_count, wait_count, turns_since_cut;
    uint64_t points[POINTS_]; /* how often each was passed */
    bool cut;
    struct list ops;   /* disk operations in flight: sim_file.c */
    struct list files; /* open handles: sim_file.c */
};

extern struct sim *sim_world; /* the one that runs; NULL: none */
#define SIM_TURN_NS    1000u  /* what a turn takes while something runs */
#define SIM_FIBERS_MAX 4096u

/* The clock of a node at a moment of the shared time, and the first moment at which its clock says `local_ns`. */
uint64_t sim_local_ns(const struct sim *s, uint64_t shared_ns);
uint64_t sim_shared_ns(const struct sim *s, uint64_t local_ns);
/* The two ends of a world, whichever way its loop is turned. */
void sim_world_begin(struct sim *s);
enum err sim_world_end(struct sim *s, enum err rc, struct errbuf *eb);
void sim_cut_power(struct sim *s); /* in its context */
void sim_report_fibers(struct sim *s);
uint64_t sim_wall_for_log(void);

/* sim_cluster.c: works in another node for a moment. */
struct sim_context {
    struct sim *world;
    struct runtime *runtime;
};
struct sim_context sim_enter(struct sim *s);
void sim_leave(struct sim_context before);
/* The node with this address; NULL: none, or there is no cluster. */
struct sim *sim_member_at(const struct sim *from, const char *addr);
/* Whether bytes of this node do not reach that one now, and what is added to their delay. */
bool sim_way_is_cut(const struct sim *from, const struct sim *to);
uint64_t sim_way_delay_ns(const struct sim *from, const struct sim *to);
bool sim_way_resets(const struct sim *from, const struct sim *to); /* draws */
/* Whether what runs in this node has no effect any more. */
static inline bool
sim_is_dead(const struct sim *s)
{
    return s->cut && s->shared->cluster != NULL;
}

/* What happened, in order: the hash of all these is the trace. Numbers only, never addresses. */
enum sim_trace_kind {
    TRACE_WORLD = 1,
    TRACE_WAIT,
    TRACE_EVENT,
    TRACE_DONE,
    TRACE_READ,
    TRACE_SEND,
    TRACE_RECV,
    TRACE_CUT,
};
void sim_note(enum sim_trace_kind kind, uint64_t a, uint64_t b);

struct sim_lottery sim_lottery(struct sim *s);
/* A delay drawn from 1 ns to the option's maximum. */
uint64_t sim_delay_ns(void);
void sim_after(struct timer *t, uint64_t delay_ns);
void sim_after_at(struct sim *s, struct timer *t, uint64_t delay_ns); /* in that node */
/* Waits a drawn delay: the fiber is "in the queue". May switch. */
enum err sim_pause(struct deadline by) MUST_CHECK;
void sim_pause_owed(void);
/* Something that a disk may forget begins: counts it, and cuts the power when its turn has come. */
void sim_event(uint64_t a, uint64_t b);
/* A point is passed: the power may go. */
void sim_point(enum point p);

/* sim_trouble.c. The mount point of an absolute path, made when it is new; NULL for "/". */
struct sim_mount *sim_mount_of(struct sim *s, const char *path);
void sim_mounts_free(struct sim *s);
uint64_t sim_mount_device(const struct sim_mount *m);
enum sim_io { SIM_READS, SIM_WRITES, SIM_SYNCS };
/* Draws whether this one fails; never for NULL. */
bool sim_mount_fails(const struct sim_mount *m, enum sim_io deed);
bool sim_mount_lies(const struct sim_mount *m);
uint64_t sim_mount_slow_ns(const struct sim_mount *m);

/* sim_index.c: the real directory that stands for a path of the simulated disk; made when asked for. */
char *sim_shadow_path(struct sim *s, const char *path); /* the caller frees */
/* Strips the shadow's prefix, when it is there. */
const char *sim_unshadow(const struct sim *s, const char *path);
void sim_shadow_make(struct sim *s, const char *path);
bool sim_shadow_unlink(struct sim *s, const char *path); /* or an empty directory */
/* A file of the shadow; the caller frees *at. */
bool sim_shadow_load(struct sim *s, const char *path, char **at, size_t *len);
bool sim_dir_exists(struct sim *s, const char *path); /* on the simulated disk */
void sim_index_cut(struct sim *s);
void sim_shadow_free(struct sim *s);

/* Parts of sim_ops. */
void sim_submit(struct loop *l, struct io_op *op);
bool sim_fail_op_of(struct fiber *f); /* the disk operation that f waits for will fail */
enum err sim_dir_open(struct rt_dir *at, const char *path, struct rt_dir **out,
                      struct errbuf *eb);
void sim_dir_free(struct rt_dir *d);
enum err sim_dir_make(struct rt_dir *d, const char *name, unsigned mode,
                      struct errbuf *eb);
enum err sim_dir_sync(struct rt_dir *d, struct errbuf *eb);
enum err sim_dir_list(struct rt_dir *d, void (*on_name)(const char *name, void *arg),
                      void *arg, struct errbuf *eb);
enum err sim_dir_remove(struct rt_dir *d, const char *name, struct errbuf *eb);
enum err sim_dir_move(struct rt_dir *d, const char *from, const char *to,
                      struct errbuf *eb);
enum err sim_dir_mode(struct rt_dir *d, const char *name, unsigned *mode,
                      struct errbuf *eb);
enum err sim_dir_space(struct rt_dir *d, struct rt_space *out, struct errbuf *eb);
enum err sim_open_file(struct rt_dir *d, const char *name, unsigned flags, unsigned mode,
                       struct rt_file **out, struct errbuf *eb);
void sim_file_free(struct rt_file *f);
enum err sim_stat_size(struct rt_file *f, uint64_t *out, struct errbuf *eb);
enum err sim_file_lock(struct rt_file *f, struct errbuf *eb);

enum err sim_listen(const char *addr, uint16_t port, const struct rt_listen_options *o,
                    struct listener **out, struct errbuf *eb);
enum err sim_connect(const char *host, uint16_t port, unsigned refuse, struct deadline by,
                     struct stream **out, struct errbuf *eb);
enum err sim_pipe(struct stream **a, struct stream **b);
void sim_net_end(struct sim_shared *sh);
/* Whether the listener at this place of sim_shared.listeners is one of the node. */
bool sim_net_listens(const struct list *of_sim, const struct sim *node);
void sim_file_end(struct sim *s);
