/* engine: the operations that an engine implements for the runtime; inside `rt` only. There are three: uring, epoll,
 * sim.
 *
 * Everything above these tables is shared: fibers, timers, scopes, waiting, parking, deadlines of streams, I/O class
 * limits, abandoned disk operations, mailboxes. An engine brings a clock, a way to sleep, non-blocking byte streams,
 * and disk operations that complete later. One engine is in force per process at a time (rt_engine_ops()).
 *
 * Threads: only the loop's thread touches a loop's engine state, except in `wake`. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "rt/file.h"
#include "rt/loop.h"
#include "rt/net.h"

struct loop;

/* ---- disk operations: submitted by file.c, completed by io_op_done() ---- */
enum io_op_kind {
    IO_READ,     /* result: bytes read; short only at the end of the file */
    IO_WRITE,    /* result: bytes written; file.c goes on after a short one */
    IO_SYNC,     /* fdatasync */
    IO_ALLOCATE, /* fallocate(0) of offset, len */
    IO_PUNCH,    /* fallocate(PUNCH_HOLE | KEEP_SIZE) */
    IO_TRUNCATE, /* to `offset` bytes */
};

/* A job for the worker pool; the caller embeds it. `work` runs on a worker, `done` back on the loop, outside any
 * fiber. */
struct rt_job {
    struct rt_msg msg;
    struct list link; /* in the pool's queue */
    void (*work)(struct rt_job *j);
    void (*done)(struct rt_job *j);
    unsigned loop;
    bool begun;
};

struct io_op {
    enum io_op_kind kind;
    enum rt_class class;
    unsigned lane;        /* of file.c: the class, or that of large reads */
    struct rt_file *file; /* owns a reference */
    struct iobuf *buf;    /* owns a reference; NULL where there are no bytes */
    uint32_t at;          /* place in buf */
    bool durable;         /* a write that includes its sync */
    uint64_t offset;      /* place in the file */
    uint64_t len;
    int64_t result; /* bytes or -errno */
    uint64_t
        begun_ns; /* when the kernel received it; 0: not yet, or without an observer */
    uint32_t beside;

    struct loop *loop;
    struct fiber *waiter; /* NULL: abandoned */
    struct io_wait *wait; /* the waiter's; file.c */
    struct rt_async_read *
        reading; /* the asynchronous read to complete instead of waking a waiter; NULL: none */
    struct list link;  /* queued behind the class limit */
    struct rt_job job; /* for engines that use the pool */
};
/* Called by the engine, on the op's loop, outside any fiber, once per submitted op. It frees the op. */
void io_op_done(struct io_op *op, int64_t result);

/* ---- byte streams: net.c waits; the backend moves bytes without blocking ---- */
struct stream_ops {
    /* Bytes moved; 0 from try_recv is the end of the stream. -EAGAIN: it would wait, and the backend owes a
     * stream_edge(). Else another -errno. */
    ssize_t (*try_recv)(struct stream *s, void *buf, size_t len);
    ssize_t (*try_sendv)(struct stream *s, const struct iovec *iov, int count);
    int (*shut)(struct stream *s); /* ends the sending direction: 0 or -errno */
    void (*set_lowat)(struct stream *s, unsigned bytes);
    /* Stops edges, closes descriptors, then frees everything, `s` included, now or later. */
    void (*destroy)(struct stream *s);
};

/* A layer over the bytes: TLS, or checked frames, which have their bytes from TLS where there is TLS. Same contracts as rt_recv and so on; the lowest one uses
 * stream_recv_raw() and the like. */
struct stream_layer {
    enum err (*recv)(struct stream *s, void *buf, size_t len, struct deadline by,
                     size_t *n, struct errbuf *eb);
    enum err (*sendv)(struct stream *s, struct iovec *iov, int count, struct deadline by,
                      struct errbuf *eb);
    enum err (*send_end)(struct stream *s, struct deadline by);
    bool (*has_bytes)(
        const struct stream *s);       /* plain text is ready without asking the socket */
    void (*destroy)(struct stream *s); /* frees s->tls or s->layer_data */
};

struct listener_ops {
    void (*serve)(struct listener *l); /* on_stream and arg are set */
    enum err (*accept)(struct listener *l, struct deadline by, struct stream **out,
                       struct errbuf *eb);
    void (*close)(struct listener *l); /* frees it; a fiber in accept gets ERR_CLOSED */
};

/* One descriptor whose edges are wanted (real engines). */
struct watch {
    int fd;
    void (*on_edge)(struct watch *w,
                    unsigned edges); /* EDGE_*; outside fibers; must not close watches */
    void *engine_data;
};

/* ---- the engine ---- */
struct engine_ops {
    enum rt_engine kind;
    bool single; /* one loop in the caller's thread; no threads, no signals */

    /* In the loop's own thread. `open` fills l->engine. `close` runs when l->in_flight is zero. */
    enum err (*open)(struct loop *l, struct errbuf *eb);
    void (*close)(struct loop *l);
    /* Handles events. Without events it sleeps until there is one, until wake(), or until `until_ns` (0: does not
     * sleep; UINT64_MAX: no limit). Runs outside any fiber; wakes fibers, never switches. */
    void (*wait)(struct loop *l, uint64_t until_ns);
    void (*wake)(struct loop *l); /* any thread */

    uint64_t (*now_ns)(void);
    uint64_t (*wall_ns)(void);
    void (*random)(void *out, size_t len);

    /* Runs before each wait of a fiber that would really switch. Not ERR_OK: the wait ends with that at once.
     * `owed`: the wait cannot fail (the result is ignored). NULL: none. */
    enum err (*before_wait)(struct loop *l, bool owed);

    /* rt_blocking(). */
    enum err (*blocking)(void (*work)(void *arg), void *arg, struct deadline by);

    /* Edge-triggered readiness of a descriptor, for what the real engines share; NULL in sim. `watch` returns 0 or
     * -errno. No edge comes after `unwatch`, which must precede close(). Both on the loop. */
    int (*watch)(struct loop *l, struct watch *w);
    void (*unwatch)(struct loop *l, struct watch *w);

    /* Net. The streams come from stream_init() on the caller's loop. */
    enum err (*listen)(const char *addr, uint16_t port, const struct rt_listen_options *o,
                       struct listener **out, struct errbuf *eb);
    enum err (*connect)(const char *host, uint16_t port, unsigned refuse,
                        struct deadline by, struct stream **out, struct errbuf *eb);
    enum err (*pipe)(struct stream **a, struct stream **b);

    /* Disk. op->file->device tells disks apart. Never fails at once: errors come by io_op_done(), never from within
     * submit. Counts in l->in_flight until done. */
    void (*submit)(struct loop *l, struct io_op *op);
    bool writes_durable; /* supports io_op.durable */
    /* Releases the memory of this slot (iobuf_slot()) before it, or an unused part, is returned to the system.
     * False: not now, prepared operations still name the slot. NULL: the engine has no slots. */
    bool (*forget_slot)(struct loop *l, uint32_t slot);
    /* The rest of file.h; each may switch. `file_free` runs after the last operation, on any thread of rt. */
    enum err (*dir_open)(struct rt_dir *at, const char *path, struct rt_dir **out,
                         struct errbuf *eb);
    void (*dir_free)(struct rt_dir *d);
    enum err (*dir_make)(struct rt_dir *d, const char *name, unsigned mode,
                         struct errbuf *eb);
    enum err (*dir_sync)(struct rt_dir *d, struct errbuf *eb);
    enum err (*dir_list)(struct rt_dir *d, void (*on_name)(const char *name, void *arg),
                         void *arg, struct errbuf *eb);
    enum err (*dir_unlink)(struct rt_dir *d, const char *name, struct errbuf *eb);
    enum err (*dir_rename)(struct rt_dir *d, const char *from, const char *to,
                           struct errbuf *eb);
    enum err (*dir_mode)(struct rt_dir *d, const char *name, unsigned *mode,
                         struct errbuf *eb);
    enum err (*dir_space)(struct rt_dir *d, struct rt_space *out, struct errbuf *eb);
    enum err (*open_file)(struct rt_dir *d, const char *name, unsigned flags,
                          unsigned mode, struct rt_file **out, struct errbuf *eb);
    void (*file_free)(struct rt_file *f);
    enum err (*file_size)(struct rt_file *f, uint64_t *out, struct errbuf *eb);
    enum err (*file_lock)(struct rt_file *f, struct errbuf *eb);
};

const struct engine_ops *rt_engine_ops(void); /* in force; epoll's outside rt_run() */
extern const struct engine_ops uring_ops, epoll_ops, sim_ops;

/* rt_run() with the engine given; sim_run_world() calls it with sim_ops. */
enum err rt_run_on(const struct engine_ops *ops, const struct rt_options *options,
                   fiber_fn *start, void *arg, struct errbuf *eb) MUST_CHECK;

/* The simulator's nodes: several runtimes in one thread, each with one loop, turned by the simulator. It enters one,
 * turns it or wakes its fibers, and leaves. Nothing of a runtime may be touched while another one is entered. */
struct runtime;
void runtimes_begin(const struct engine_ops *ops);
void runtimes_end(void);
/* Returns the one that was entered before, for a later call. NULL: none of them. */
struct runtime *runtime_enter(struct runtime *r);
/* `start` runs at the first turn; `options` outlive the runtime. */
enum err runtime_open(const struct rt_options *options, fiber_fn *start, void *arg,
                      struct runtime **out, struct errbuf *eb) MUST_CHECK;
bool runtime_turn(struct runtime *r);    /* false: that was its last turn */
void runtime_close(struct runtime **rp); /* entered, after its last turn */
