/* internal: the structs behind the public types of `rt`, and how its parts wait and wake. Inside `rt` only. */
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

/* ---- timers: a 4-ary heap per loop. A timer that is in no heap has place TIMER_IDLE. ---- */
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
void timer_remove(struct timer_heap *h, struct timer *t); /* an idle one is fine */
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
    struct list of_group; /* link in group->members */
    struct rt_group *group;
    struct list groups; /* rt_group.of_parent: begun by this fiber and not joined yet */
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
/* Waits for fiber_wake(). ERR_TIMEOUT at the sooner of `by` and the scope, ERR_CANCELLED. After an error the caller must
 * take back the pointer by which the waker would find it. May switch. */
enum err fiber_wait(struct deadline by) MUST_CHECK;
void fiber_wait_owed(void); /* only fiber_wake() ends the wait. May switch. */
void fiber_enter(struct loop *l,
                 struct fiber *f); /* by the loop: runs f until it waits or ends */
/* Ends the wait of `f` with `why`; no effect when it does not wait (any more). Same loop. */
void fiber_wake(struct fiber *f, enum err why);

/* ---- stacks (stack.c): one loop's, cut from one mapping, each over a guard page; reused last in first out. The struct
 * fiber lies at the top of its stack. Only the loop's thread enters. ---- */
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
#define FIBERS_MOST 65536u
/* fibers_max 0: as many as the kernel allows, at most FIBERS_MOST. */
enum err stacks_init(struct stacks *st, unsigned fibers_max, unsigned loops,
                     struct errbuf *eb) MUST_CHECK;
void stacks_fini(struct stacks *st);
/* NULL: all are in use. Only the fields of the stack itself are set in the result. */
struct fiber *stacks_get(struct stacks *st);
void stacks_put(struct stacks *st, struct fiber *f);
/* Whether an address lies in a guard page, for the handler of SIGSEGV. */
bool stacks_in_guard(const struct stacks *st, const void *address);

/* ---- idle I/O buffers of a loop, by size (iobuf.c) ---- */
#define IOBUF_CLASSES 12 /* 4 KiB << 0 .. 11 */
static_assert(4096u << (IOBUF_CLASSES - 1) == IOBUF_MAX, "one class per power of two");
struct iobuf_list {
    struct pooled *first; /* owned; last in first out */
    uint64_t wanted;      /* iobuf_cache.gets at the last request for this size */
};
struct iobuf_cache {
    struct iobuf_list idle[IOBUF_CLASSES];
    uint64_t bytes; /* of all these lists */
    uint64_t gets;
    struct blocks blocks;   /* of buffers for large reads */
    uint64_t blocks_wanted; /* iobuf_cache.gets at the last cut from them */
    struct pooled *pieces;  /* idle pieces of the slabs */
    struct slab *slabs;     /* owned */
    unsigned slab_count;
    uint64_t number; /* of the loop, unique in the process; 0: none drawn yet */
};
void iobuf_set_limit(uint64_t bytes); /* of all buffers handed out; 0: 256 MiB */
void iobuf_free_idle(struct loop *l); /* at the loop's end, after its engine's */
/* Where the engine keeps the slot number, from 1, under which this loop's ring has registered the buffer (0: not yet), and
 * the memory that the slot stands for: the buffer, or what it was cut from. NULL: this loop does not read into it
 * repeatedly. */
uint32_t *iobuf_slot(struct iobuf *b, struct iovec *memory);

/* ---- loops ---- */
struct mailbox {
    _Atomic(struct rt_msg *) head; /* newest first */
    atomic_bool asleep;
};

/* Disk operations of one loop on one disk. Each class has a lane; large reads, which take long, have their own. */
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
    uint64_t now_ns;    /* at the start of this turn */
    bool polling;       /* the engine is delivering events, */
    uint64_t polled_ns; /* since about this time; 0: not read yet */
    struct fiber *self; /* the running fiber; NULL in the loop itself */
    void *main_sp;
    struct list ready; /* fiber.link */
    struct list *turn; /* fibers of this turn that have not run yet; NULL between turns */
    struct list *woken_behind; /* the last entry of `ready` when `self` was entered */
    unsigned fibers, fibers_counted; /* alive; as the metrics have it */
    uint64_t
        started; /* fibers ever; with `messages`: whether anything happened since (run.c) */
    uint64_t messages;
    struct timer_heap timers;
    struct stacks stacks;
    struct rt_group root;      /* rt_spawn(), rt_call(), parked streams */
    struct list parked;        /* stream.of_loop */
    struct list due;           /* the same: woken, waiting for a stack */
    struct list soon;          /* rt_after_poll.link */
    struct list before_submit; /* the same, for rt_before_submit() */
    struct list disks;         /* io_queue.link */
    struct iobuf_cache iobufs;
    unsigned in_flight; /* operations that the engine or the pool still owes */
    bool stopping;      /* every fiber here is cancelled */
    bool exit;
    struct stop_token *token; /* run.c: held until this loop is quiet */
    struct retired *retired;  /* rt_retire(): collected since the last round began */
    bool retiring;            /* a round is under way */
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
/* Runs what waits in rt_before_submit(). An engine that holds disk operations back until all edges of a turn are
 * delivered calls it then; the loop calls it too. */
void loop_run_before_submit(struct loop *l);

/* One loop's life; run.c drives it. loop_open() runs in the loop's own thread and sets loop_self; on error everything is
 * undone. */
enum err loop_open(struct loop *l, const struct rt_options *o, unsigned loops,
                   struct errbuf *eb) MUST_CHECK;
void loop_close(struct loop *l);
void loop_turn(struct loop *l); /* runs everything that is due, then sleeps */
/* Cancels all fibers and wakes parked streams; later ones start out cancelled. */
void loop_stop(struct loop *l);
bool loop_quiet(const struct loop *l); /* stopped, and nothing is alive or owed */
void loop_pass_token(struct loop *l);  /* run.c: l holds the token and is quiet */
void mailbox_push(struct loop *l, struct rt_msg *m);

/* ---- signals.c: SIGTERM and the like become fibers of loop 0; a stack overflow is reported before it kills ---- */
/* A stack for handlers, so that they run even when a fiber's own stack is used up. */
struct signal_stack {
    void *at; /* owned */
};
void signals_thread_begin(struct signal_stack *st);
void signals_thread_end(struct signal_stack *st);
void signals_close(struct loop *zero); /* restores the earlier handlers */

/* ---- report.c: the runtime's part of the metrics page ---- */
void report_begin(unsigned loop_count);
void report_end(void);

/* ---- streams ---- */
enum {
    EDGE_IN = 1,
    EDGE_OUT = 2,
    /* The end or an error has arrived, so a short read does not mean that nothing is left. */
    EDGE_HANGUP = 4,
};

#define PARK_WAITING ERR_COUNT_ /* stream.park.why while nothing has woken it */

struct stream {
    const struct stream_ops *ops;
    const struct stream_layer *layer; /* NULL: plain */
    void *layer_data;                 /* of checked frames (frames.c) */
    void *tls;                        /* of TLS, below them */
    struct loop *loop;
    struct fiber *receiver, *sender; /* waiting for an edge */
    /* False after -EAGAIN or a short read, until the next edge. */
    bool may_in, may_out;
    bool hangup;
    bool closed;
    bool reset;     /* closing sends a reset */
    bool more;      /* more will be sent soon: see rt_sendv_more() */
    unsigned users; /* calls in progress; the last one destroys a closed stream */
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
        enum err why;        /* for on_ready; PARK_WAITING: not woken yet */
    } park;
    char peer[56];
};

/* Sets all common fields; backends embed struct stream as the first field of theirs. */
void stream_init(struct stream *s, const struct stream_ops *ops, const char *peer,
                 bool loopback);
/* The backend calls it on the stream's loop: bytes (or the end, or an error) may have arrived, or there is room to send. */
void stream_edge(struct stream *s, unsigned edges);

void stream_leave(struct stream *s); /* a call in progress ends: `s` may be gone */
void stream_on_park_deadline(struct timer *t);
/* Runs the owner's inline handler. True: it handled the event, so no fiber is needed. */
bool stream_run_inline(struct stream *s);
/* Ends parking; `why` goes to on_ready. Later calls have no effect. */
void stream_unpark(struct stream *s, enum err why);
void stream_start_due(struct loop *l);  /* parked streams that wait for a stack */
void stream_unpark_all(struct loop *l); /* at the end */

/* The bytes below the layer; contracts of rt_recv, rt_sendv, rt_send_end. */
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
    atomic_uint busy; /* operations not done yet, on all loops */
    uint64_t device;  /* st_dev; sim: any number */
    bool direct;
    int fd;                       /* real engines; -1 in sim */
    char *name;                   /* owned; for error messages */
    struct rt_observer *observer; /* a reference, or NULL */
};
struct rt_dir {
    char *path;                   /* owned */
    int fd;                       /* real engines; -1 in sim */
    struct rt_observer *observer; /* a reference, or NULL */
    _Atomic uint64_t filesystem;  /* as of the latest rt_dir_space() */
};
void io_queues_free(struct loop *l);
void file_ref(struct rt_file *f);
void file_drop(struct rt_file *f); /* the last drop calls ops->file_free */

/* observe.c; `o` may be NULL in all of them. */
struct rt_observer *observer_ref(struct rt_observer *o);
/* ERR_IO once the disk is shut. */
enum err observer_may_begin(const struct rt_observer *o, const char *name,
                            struct errbuf *eb) MUST_CHECK;
uint32_t observer_begin(struct rt_observer *o); /* returns the operations in flight now */
void observer_end(struct rt_observer *o, const struct rt_io_done *d);

/* ---- pool.c: worker threads for what has no asynchronous form. Workers serve disks and rt_blocking(); resolvers serve
 * host names, so that a slow name server never delays a disk. Real engines only. Threads start when there is work. A loop
 * submits and cancels a job; its `done` runs on that loop. ---- */
enum pool_kind { POOL_WORK, POOL_RESOLVE, POOLS_ };

void pools_start(unsigned workers, unsigned queue_max);
void pools_stop(void); /* every job is done by then */
/* ERR_BUSY: the queue is full. *j must live until `done` runs or pool_cancel() takes it off the queue. */
enum err pool_submit(enum pool_kind kind, struct rt_job *j) MUST_CHECK;
/* The same for jobs whose number is bounded elsewhere (class limits of disks). */
void pool_submit_always(enum pool_kind kind, struct rt_job *j);
bool pool_cancel(enum pool_kind kind,
                 struct rt_job *j); /* true: it has not begun and never will */

/* Runs work(arg) on a worker and waits; contract of rt_blocking(). */
enum err pool_run(enum pool_kind kind, void (*work)(void *arg), void *arg,
                  struct deadline by) MUST_CHECK;
