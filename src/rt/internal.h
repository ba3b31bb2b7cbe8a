/* internal: the structs behind the public types of `rt`, and how its parts wait and wake.
 * Inside `rt` only. */
#pragma once
#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rt/blocks.h"
#include "rt/engine.h"
#include "rt/sendable.h"
#include "rt/sync.h"
#include "rt/watchdog.h"

/* ---- timers: a 4-ary heap a loop. A timer that is in no heap has place TIMER_IDLE. ----
 */
#define TIMER_IDLE UINT32_MAX
struct timer {
    uint32_t place;
    void (*fire)(
        struct timer *t); /* on the loop, outside fibers; the timer is idle again */
};
struct timer_heap {
    struct timer_entry {
        uint64_t at_ns;
        struct timer *timer;
    } * at; /* owned */
    uint32_t count, room;
};
void timer_init(struct timer *t, void (*fire)(struct timer *t));
void timer_add(struct timer_heap *h, struct timer *t,
               uint64_t at_ns);                           /* moves it when it is in */
void timer_remove(struct timer_heap *h, struct timer *t); /* idle is fine */
uint64_t timer_next(const struct timer_heap *h);          /* UINT64_MAX: none */
void timer_run(struct timer_heap *h, uint64_t now_ns);    /* fires what is due */
void timer_fini(struct timer_heap *h);

/* ---- fibers ---- */
struct fiber {
    void *sp; /* saved by the switch */
    struct loop *loop;
    fiber_fn *fn;
    void *arg;
    struct list link;     /* run queue, or the pool of idle stacks */
    struct list of_group; /* in group->members */
    struct rt_group *group;
    struct list groups; /* rt_group.of_parent: begun by this fiber, not joined */
    struct deadline scope;
    struct rt_retries *retries; /* borrowed; NULL: outside of a budget */
    struct timer timer;         /* runs while it waits with a deadline */
    enum err why;               /* how its wait ended */
    unsigned shields;
    const char *doing; /* rt_doing() */
    bool background;   /* rt_io_background() */
    bool essential;    /* rt_essential() */
    bool waiting;      /* in fiber_wait or fiber_wait_owed */
    bool owed;         /* neither cancellation nor time end this wait */
    bool cancelled;
    char *stack_low; /* first usable byte */
    size_t stack_size;
    void *asan_fake;
    void *tsan_fiber; /* pooled with the stack */
};

/* A fiber of `group` on this loop; NULL: out of stacks. It runs at the next turn. */
struct fiber *fiber_start(struct loop *l, struct rt_group *group, struct deadline scope,
                          fiber_fn *fn, void *arg);
/* Waits for fiber_wake(). ERR_TIMEOUT at the sooner of `by` and the scope, ERR_CANCELLED.
 * Whoever would wake it must be told afterwards that nobody waits. May switch. */
enum err fiber_wait(struct deadline by) MUST_CHECK;
void fiber_wait_owed(void); /* only fiber_wake() ends it. May switch. */
void fiber_enter(struct loop *l,
                 struct fiber *f); /* by the loop: runs f until it waits or ends */
/* Ends the wait of `f` with `why`; without effect when it does not wait, or no longer.
 * Same loop. */
void fiber_wake(struct fiber *f, enum err why);

/* The arena of stacks of one loop. */
struct stacks {
    char *base; /* owned: one mapping */
    size_t slot, slot_size, slots,
        used;         /* `used` slots have been handed out at least once */
    struct list idle; /* fiber.link; last in, first out */
    bool guard_by_mprotect;
    unsigned recycled;
    _Atomic uint64_t
        high_water; /* bytes of the deepest stack seen by sampling; any thread reads */
};

/* ---- idle I/O buffers of a loop, by size (iobuf.c) ---- */
#define IOBUF_CLASSES 12 /* 4 KiB << 0 .. 11 */
static_assert(4096u << (IOBUF_CLASSES - 1) == IOBUF_MAX,
              "one class for each power of two");
struct iobuf_list {
    struct pooled *first; /* owned; last in first out */
    uint64_t wanted;      /* iobuf_cache.gets when one of this size was asked for last */
};
struct iobuf_cache {
    struct iobuf_list idle[IOBUF_CLASSES];
    uint64_t bytes; /* of all these */
    uint64_t gets;
    struct blocks blocks;   /* of buffers for large reads */
    uint64_t blocks_wanted; /* iobuf_cache.gets when one was cut from them last */
    struct pooled *pieces;  /* idle ones of the slabs */
    struct slab *slabs;     /* owned */
    unsigned slab_count;
    uint64_t number; /* of the loop, no other of this process has it; 0: none drawn yet */
};

/* ---- small pieces of memory, idle ones of a loop by size (small.c) ---- */
#define SMALL_STEP 64u
#define SMALL_MOST 1024u
#define SMALL_KEPT 64u /* of each size: 0.5 MiB if they are all used */
struct small_list {
    struct idle *first; /* owned */
    uint32_t count;
};
struct loop;
void small_free_idle(struct loop *l); /* when the loop ends */

/* ---- loops ---- */
struct mailbox {
    _Atomic(struct rt_msg *) head; /* newest first */
    atomic_bool asleep;
};

/* Disk operations of one loop on one disk. Each class has a lane; reads that a disk gets long for have their own. */
enum { LANE_LARGE_READ = RT_CLASSES_, IO_LANES };
struct io_queue {
    struct list link; /* loop.disks */
    uint64_t device;
    struct {
        unsigned in_flight;
        struct list waiting; /* io_op.link */
    } of[IO_LANES];
};

struct loop {
    /* Set before the loop runs, then never changed: anyone may read. */
    unsigned index;
    const struct engine_ops *ops;

    /* Any thread. */
    struct mailbox box;
    atomic_uint connections; /* streams handed to this loop by listeners */

    /* Only on the loop. */
    struct sendable_pipe zero_copy_pipe;
    void *engine;       /* the engine's state, from ops->open */
    uint64_t now_ns;    /* at the begin of this turn */
    bool polling;       /* the engine tells what has happened, */
    uint64_t polled_ns; /* at about this time; 0: nobody has asked for it */
    struct fiber *self; /* the running fiber; NULL in the loop itself */
    void *main_sp;
    struct list ready; /* fiber.link */
    struct list *turn; /* those of this turn that still wait; NULL between turns */
    struct list *woken_behind;       /* the last one in `ready` when `self` was entered */
    unsigned fibers, fibers_counted; /* alive; told to the metrics */
    uint64_t
        started; /* fibers ever; with `messages`: has anything happened since? (run.c) */
    uint64_t messages;
    struct timer_heap timers;
    struct stacks stacks;
    struct rt_group root;      /* rt_spawn(), rt_call(), parked streams */
    struct list parked;        /* stream.of_loop */
    struct list due;           /* the same: woken, waiting for a stack */
    struct list soon;          /* rt_after_poll.link */
    struct list before_submit; /* the same, of rt_before_submit() */
    struct list disks;         /* io_queue.link */
    struct iobuf_cache iobufs;
    struct small_list smalls[SMALL_MOST / SMALL_STEP];
    unsigned in_flight; /* operations that the engine or the pool still owes */
    bool stopping;      /* everything here is cancelled */
    bool exit;
    struct stop_token *token; /* run.c: held until this loop is quiet */
    struct retired *retired;  /* rt_retire(): gathered since the last round began */
    bool retiring;            /* a round is on its way */
    unsigned spent; /* I/O calls of the running fiber that did not wait (net.c) */
    struct watchdog watchdog;

    void *asan_fake, *tsan_fiber; /* of the loop's own stack */
    const void *asan_low;
    size_t asan_size;
};

extern _Thread_local struct loop *loop_self; /* NULL on other threads */
struct loop *loop_at(unsigned index);
/* Makes `f` run at the next turn. */
void loop_ready(struct loop *l, struct fiber *f);
/* All edges of this turn are told. By an engine that keeps disk operations back until then; the loop does it as well. */
void loop_run_before_submit(struct loop *l);

/* ---- streams ---- */
enum {
    EDGE_IN = 1,
    EDGE_OUT = 2,
    /* The end or an error has arrived: a short read does not mean that nothing is left. */
    EDGE_HANGUP = 4,
};

#define PARK_WAITING ERR_COUNT_ /* stream.park.why before it is to be woken */

struct stream {
    const struct stream_ops *ops;
    const struct stream_layer *layer; /* NULL: plain */
    void *layer_data;
    struct loop *loop;
    struct fiber *receiver, *sender; /* waiting for an edge */
    /* False after -EAGAIN (or a short read) until the next edge. */
    bool may_in, may_out;
    bool hangup;
    bool closed;
    bool reset;     /* to be closed by a reset */
    bool more;      /* what is sent now is not the last: see rt_sendv_more() */
    unsigned users; /* calls that are inside; the last one destroys a closed stream */
    bool loopback;
    bool counted; /* in loop->connections */
    bool parked;
    struct {
        bool (*inline_handler)(void *arg); /* NULL: none */
        void *inline_arg;
        void (*on_ready)(void *arg, enum err why);
        void *arg;
        uint64_t until_ns; /* its deadline; the timer may be earlier */
        struct timer timer;
        struct list of_loop; /* loop.parked while parked */
        enum err why;        /* once it is to be woken */
    } park;
    char peer[56];
};

/* Sets all common fields; backends embed struct stream as the first field of theirs. */
void stream_init(struct stream *s, const struct stream_ops *ops, const char *peer,
                 bool loopback);
/* By the backend on the stream's loop: bytes (or the end, or an error) may be there, or
 * room is. */
void stream_edge(struct stream *s, unsigned edges);

void stream_leave(
    struct stream *s); /* the call that is inside is over: `s` may be gone */
void stream_on_park_deadline(struct timer *t);
/* Has what its owner's inline_handler saw been seen to, without a fiber? */
bool stream_run_inline(struct stream *s);
/* Ends its parking; `why` goes to on_ready. Once is enough: later calls have no
 * effect. */
void stream_unpark(struct stream *s, enum err why);
void stream_start_due(struct loop *l);  /* parked streams that waited for a stack */
void stream_unpark_all(struct loop *l); /* at the end */

/* The bytes under the layer; contracts of rt_recv, rt_sendv, rt_send_end. */
enum err stream_recv_raw(struct stream *s, void *buf, size_t len, struct deadline by,
                         size_t *n, struct errbuf *eb) MUST_CHECK;
enum err stream_sendv_raw(struct stream *s, struct iovec *iov, int count,
                          struct deadline by, struct errbuf *eb) MUST_CHECK;
enum err stream_send_end_raw(struct stream *s, struct deadline by) MUST_CHECK;

struct listener {
    const struct listener_ops *ops;
    struct loop *loop;
    uint16_t port;
    void (*on_stream)(struct stream *s, void *arg);
    void *arg;
};

/* ---- files ---- */
struct rt_file {
    atomic_uint refs; /* the owner and each operation */
    atomic_uint busy; /* operations submitted and not done, on all loops */
    uint64_t device;  /* st_dev; sim: any number */
    bool direct;
    int fd;                       /* real engines; -1 in sim */
    char *name;                   /* owned; for sentences */
    struct rt_observer *observer; /* a reference, or NULL */
};
struct rt_dir {
    char *path;                   /* owned */
    int fd;                       /* real engines; -1 in sim */
    struct rt_observer *observer; /* a reference, or NULL */
    _Atomic uint64_t filesystem;  /* as the latest rt_dir_space() found it */
};
void io_queues_free(struct loop *l);
void file_ref(struct rt_file *f);
void file_drop(struct rt_file *f); /* the last one frees by ops->file_free */

/* observe.c; `o` NULL is fine in all of them. */
struct rt_observer *observer_ref(struct rt_observer *o);
/* ERR_IO when the disk was shut out. */
enum err observer_may_begin(const struct rt_observer *o, const char *name,
                            struct errbuf *eb) MUST_CHECK;
uint32_t observer_begin(struct rt_observer *o); /* how many there are now */
void observer_end(struct rt_observer *o, const struct rt_io_done *d);
