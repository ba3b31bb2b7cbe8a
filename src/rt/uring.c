/* uring: the engine on io_uring. Plain system calls read and write sockets; the ring delivers their edges (one multishot
 * poll each, edge-triggered) and does the disk work. So the kernel never holds memory of a socket call while its fiber
 * sleeps, and the ring reads only into counted buffers.
 *
 * A poll's op lives until its final completion, a disk op until its own: nothing else frees them. Completions carry a
 * pointer with a tag in its low bits; those of cancel requests carry 0 and are dropped. */
#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "rt/internal.h"
#include "rt/real.h"

enum { SQ_ENTRIES = 256, SQ_ENTRIES_LEAST = 32, CQ_FACTOR = 8, ENABLE_RINGS = 12 };
enum { TAG_NONE, TAG_POLL, TAG_DISK, TAG_MASK = 3 };
#define SLOTS      32u /* blocks and slabs whose pages stay pinned; bits of uring.slots_free */
#define READS_HELD (512u << 10) /* bytes of reads that wait for the end of a turn */
/* A buffered read of at most this size may fill the page cache while it is submitted. */
#define CACHED_READ_BYTES_MAX 4096u
/* The kernel needs 75 us to accept a write of 1 MiB: from this size on one is submitted per turn, so that eight bodies that
 * end together do not delay the other fibers. */
#define LARGE_WRITE (512u << 10)
/* After so many events the clock is read again: handlers have sent replies meanwhile. */
#define CLOCK_EVENTS 64u
#define POLL_BITS    ((unsigned)(POLLIN | POLLOUT | POLLRDHUP) | (unsigned)EPOLLET)

struct poll_op {
    struct list link;    /* uring.polls */
    struct watch *watch; /* NULL: unwatched */
    int fd;
};

struct completion {
    uint64_t data;
    int32_t res;
    uint32_t flags;
};

struct uring {
    struct io_uring ring;
    int wake_fd; /* never read: each write is an edge */
    struct watch wake_watch;
    struct list polls;   /* all that the kernel still holds */
    bool unwatched;      /* since the last enter */
    uint32_t slots_free; /* of the buffer table, as bits */
    size_t pin_most;     /* bytes: the kernel refuses to pin more at a time */
    uint32_t reads_held; /* bytes of reads prepared since the last submit */
    struct list writes;  /* io_op.link: large writes that wait for their turn */
    bool large_gone;     /* one was submitted in this turn */
    /* Taken off the ring, not handled yet. */
    struct {
        struct completion *at; /* owned */
        size_t count, room;
    } events;
};

static uint64_t
uring_tagged(const void *p, unsigned tag)
{
    return (uint64_t)(uintptr_t)p | tag;
}

/* ---- setting up ---- */

static int
try_setup(struct io_uring *ring, unsigned entries)
{
    static const unsigned modes[] = {IORING_SETUP_SINGLE_ISSUER |
                                         IORING_SETUP_DEFER_TASKRUN,
                                     IORING_SETUP_COOP_TASKRUN, 0};
    int rc = -EINVAL;

    for (size_t i = 0; i < ARRAY_LEN(modes) && rc == -EINVAL; i++) {
        struct io_uring_params p = {
            .flags = modes[i] | IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE,
            .cq_entries = entries * CQ_FACTOR,
        };

        rc = io_uring_queue_init_params(entries, ring, &p);
    }
    return rc;
}

/* The memory of rings that ended just now is freed late: then a smaller ring will do. */
static int
uring_setup(struct io_uring *ring)
{
    int rc = -ENOMEM;

    for (unsigned entries = SQ_ENTRIES; rc == -ENOMEM && entries >= SQ_ENTRIES_LEAST;
         entries /= 2)
        rc = try_setup(ring, entries);
    return rc;
}

/* From now on the ring accepts only the operations of this file: an attacker with its descriptor finds no open and no
 * connect. A kernel without restrictions runs without. */
static void
restrict_ring(struct io_uring *ring)
{
    static const uint8_t used[] = {
        IORING_OP_POLL_ADD, IORING_OP_ASYNC_CANCEL, IORING_OP_READ,  IORING_OP_READ_FIXED,
        IORING_OP_WRITE,    IORING_OP_WRITE_FIXED,  IORING_OP_FSYNC, IORING_OP_FALLOCATE};
    struct io_uring_restriction res[ARRAY_LEN(used) + 2];
    int rc;

    memset(res, 0, sizeof res);
    for (size_t i = 0; i < ARRAY_LEN(used); i++) {
        res[i].opcode = IORING_RESTRICTION_SQE_OP;
        res[i].sqe_op = used[i];
    }
    res[ARRAY_LEN(used)].opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED;
    res[ARRAY_LEN(used)].sqe_flags = IOSQE_ASYNC | IOSQE_CQE_SKIP_SUCCESS;
    res[ARRAY_LEN(used) + 1].opcode = IORING_RESTRICTION_REGISTER_OP;
    res[ARRAY_LEN(used) + 1].register_op = IORING_REGISTER_BUFFERS_UPDATE;
    rc = io_uring_register((unsigned)ring->ring_fd, IORING_REGISTER_RESTRICTIONS, res,
                           ARRAY_LEN(res));
    if (rc < 0)
        LOG(LOG_INFO, "rt.uring", "the ring is not restricted", L_I64("error", -rc));
}

static enum err
open_ring(struct uring *u, struct errbuf *eb)
{
    unsigned wanted = IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_CQE_SKIP;
    int rc = uring_setup(&u->ring);

    if (rc < 0)
        return err_errno(eb, ERR_BUSY, -rc, "io_uring_setup");
    if ((u->ring.features & wanted) != wanted) {
        io_uring_queue_exit(&u->ring);
        return err_set(eb, ERR_NOT_IMPLEMENTED,
                       "the io_uring of this kernel is older than 5.17");
    }
    (void)io_uring_register_ring_fd(&u->ring); /* saves a look-up per enter; optional */
    if (io_uring_register_buffers_sparse(&u->ring, SLOTS) == 0) /* from 5.19 */
        u->slots_free = UINT32_MAX;
    u->pin_most = SIZE_MAX;
    restrict_ring(&u->ring);
    rc = io_uring_register((unsigned)u->ring.ring_fd, ENABLE_RINGS, NULL, 0);
    if (rc < 0) {
        io_uring_queue_exit(&u->ring);
        return err_errno(eb, ERR_BUSY, -rc, "enabling the ring");
    }
    return ERR_OK;
}

static void
on_wake_edge(struct watch *w, unsigned edges)
{
    (void)w, (void)edges;
}

static enum err
uring_open_engine(struct loop *l, struct errbuf *eb)
{
    struct uring *u = xcalloc(1, sizeof *u);
    enum err rc;

    assert(l->engine == NULL);
    list_init(&u->polls);
    list_init(&u->writes);
    u->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = u->wake_fd >= 0 ? open_ring(u, eb) : err_errno(eb, ERR_BUSY, errno, "eventfd");
    if (rc != ERR_OK) {
        if (u->wake_fd >= 0)
            close(u->wake_fd);
        free(u);
        return rc;
    }
    l->engine = u;
    u->wake_watch = (struct watch){.fd = u->wake_fd, .on_edge = on_wake_edge};
    (void)l->ops->watch(l, &u->wake_watch);
    return ERR_OK;
}

/* ---- submitting, collecting ---- */

static void
uring_collect(struct uring *u)
{
    struct io_uring_cqe *cqe;
    unsigned head, n = 0;

    io_uring_for_each_cqe(&u->ring, head, cqe)
    {
        if (u->events.count == u->events.room) {
            u->events.room = u->events.room > 0 ? u->events.room * 2 : 64;
            u->events.at = xrealloc(u->events.at, u->events.room * sizeof *u->events.at);
        }
        u->events.at[u->events.count++] =
            (struct completion){cqe->user_data, cqe->res, cqe->flags};
        n++;
    }
    io_uring_cq_advance(&u->ring, n);
}

static bool
uring_passes(int rc)
{
    return rc >= 0 || rc == -ETIME || rc == -EINTR || rc == -EAGAIN || rc == -EBUSY;
}

static struct io_uring_sqe *
get_sqe(struct uring *u)
{
    struct io_uring_sqe *sqe;

    while ((sqe = io_uring_get_sqe(&u->ring)) == NULL) {
        int rc = io_uring_submit_and_get_events(&u->ring);

        assert(uring_passes(rc));
        (void)rc;
        uring_collect(u); /* the kernel may refuse more while completions wait for room */
    }
    return sqe;
}

static void
uring_enter(struct uring *u, uint64_t until_ns)
{
    struct io_uring_cqe *cqe;
    struct __kernel_timespec ts;
    uint64_t now = 0;
    int rc;

    /* A descriptor that was closed under its poll is really closed, visibly to the peer, only after the cancel is done
     * and this thread has returned from the kernel: so do not sleep in the kernel now. */
    if (u->events.count > 0 || u->unwatched)
        until_ns = 0;
    u->unwatched = false;
    if (until_ns != 0 && until_ns != UINT64_MAX) {
        now = real_now_ns();
        if (until_ns <= now)
            until_ns = 0;
    }
    if (until_ns == 0) {
        rc = io_uring_submit_and_get_events(&u->ring);
    } else if (until_ns == UINT64_MAX) {
        rc = io_uring_submit_and_wait(&u->ring, 1);
    } else {
        ts.tv_sec = (long long)((until_ns - now) / 1000000000u);
        ts.tv_nsec = (long long)((until_ns - now) % 1000000000u);
        rc = io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1, &ts, NULL);
    }
    assert(uring_passes(rc));
    (void)rc;
    uring_collect(u);
}

/* Submits prepared operations now, not at the end of the turn: a disk must not wait for the fibers of this turn. What the
 * kernel does not accept is submitted with the next enter. */
static void
submit_now(struct uring *u)
{
    if (io_uring_sq_ready(&u->ring) > 0)
        (void)io_uring_submit(&u->ring);
    u->reads_held = 0;
}

/* ---- polls ---- */

static void
uring_arm(struct uring *u, struct poll_op *op)
{
    struct io_uring_sqe *sqe = get_sqe(u);

    io_uring_prep_poll_multishot(sqe, op->fd, POLL_BITS);
    io_uring_sqe_set_data64(sqe, uring_tagged(op, TAG_POLL));
}

/* Not POLL_REMOVE: while an edge is in transit that returns EALREADY and removes nothing. */
static void
cancel_poll(struct uring *u, struct poll_op *op)
{
    struct io_uring_sqe *sqe = get_sqe(u);

    io_uring_prep_cancel64(sqe, uring_tagged(op, TAG_POLL), 0);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    io_uring_sqe_set_data64(sqe, TAG_NONE);
}

static int
uring_watch(struct loop *l, struct watch *w)
{
    struct uring *u = l->engine;
    struct poll_op *op = xmalloc(sizeof *op);

    assert(w->fd >= 0);
    assert(w->on_edge != NULL);
    assert(((uintptr_t)op & TAG_MASK) == 0); /* room for the tag */
    *op = (struct poll_op){.watch = w, .fd = w->fd};
    list_push_back(&u->polls, &op->link);
    w->engine_data = op;
    uring_arm(u, op);
    return 0;
}

/* The descriptor may be closed at once: a poll that is not submitted yet then gets EBADF, or an unrelated descriptor, from
 * which the cancel behind it in the same queue removes it again. */
static void
uring_unwatch(struct loop *l, struct watch *w)
{
    struct uring *u = l->engine;
    struct poll_op *op = w->engine_data;

    if (op == NULL)
        return;
    assert(op->watch == w);
    w->engine_data = NULL;
    op->watch = NULL;
    u->unwatched = true;
    cancel_poll(u, op);
}

static void
on_poll(struct uring *u, struct poll_op *op, const struct completion *c)
{
    struct watch *w = op->watch;
    bool over = (c->flags & IORING_CQE_F_MORE) == 0;

    assert(w == NULL || w->engine_data == op);
    if (w != NULL && over && c->res < 0 && c->res != -ECANCELED) {
        /* The kernel cannot poll it any more: the next call on the descriptor returns the reason. */
        w->engine_data = NULL;
        w->on_edge(w, EDGE_IN | EDGE_OUT | EDGE_HANGUP);
    } else if (w != NULL) {
        if (c->res > 0)
            w->on_edge(w, watch_edges((uint32_t)c->res));
        if (over) {
            uring_arm(u, op);
            return;
        }
    }
    if (over) {
        list_remove(&op->link);
        free(op);
    }
}

/* ---- disk ---- */

static_assert(SLOTS == 32, "slots_free has a bit per slot");

/* Registers a buffer, or nothing, in a slot: pins its pages, or unpins them. Returns 1, or a negative errno. */
static int
fill_slot(struct uring *u, uint32_t slot, void *at, size_t len)
{
    struct iovec v = {at, len};
    __u64 tag = 0;

    return io_uring_register_buffers_update_tag(&u->ring, slot, &v, &tag, 1);
}

/* The slot of an operation's buffer, from 1; 0: it has none. When the kernel refuses to pin (RLIMIT_MEMLOCK), buffers of
 * that size are not tried again: the huge pages of large reads may be too large where the slabs of small reads are not. */
static uint32_t
uring_slot_of(struct uring *u, const struct io_op *op)
{
    struct iovec memory = {0};
    uint32_t *slot = op->file->direct ? iobuf_slot(op->buf, &memory) : NULL, n;
    int rc;

    if (slot == NULL || *slot != 0 || u->slots_free == 0 || memory.iov_len > u->pin_most)
        return slot != NULL ? *slot : 0;
    n = (uint32_t)__builtin_ctz(u->slots_free);
    rc = fill_slot(u, n, memory.iov_base, memory.iov_len);
    if (rc != 1) {
        LOG(LOG_INFO, "rt.uring", "buffers are not pinned",
            L_U64("bytes", memory.iov_len), L_I64("error", -rc));
        u->pin_most = memory.iov_len - 1;
        return 0;
    }
    assert((u->slots_free & 1u << n) != 0);
    u->slots_free &= ~(1u << n);
    *slot = n + 1;
    return *slot;
}

/* Operations that the kernel has begun keep the pages by themselves. */
static bool
forget_slot(struct loop *l, uint32_t slot)
{
    struct uring *u = l->engine;

    if (u == NULL)
        return true; /* the ring is gone */
    assert(slot > 0 && slot <= SLOTS);
    assert((u->slots_free & 1u << (slot - 1)) == 0);
    submit_now(u);
    if (io_uring_sq_ready(&u->ring) > 0 || fill_slot(u, slot - 1, NULL, 0) != 1)
        return false;
    u->slots_free |= 1u << (slot - 1);
    return true;
}

static void
prepare_read(struct uring *u, struct io_uring_sqe *sqe, const struct io_op *op,
             uint32_t slot)
{
    char *at = op->buf->at + op->at;
    int fd = op->file->fd;

    assert(op->len <= UINT32_MAX);
    assert(op->at + op->len <= op->buf->room);
    if (slot > 0)
        io_uring_prep_read_fixed(sqe, fd, at, (unsigned)op->len, op->offset,
                                 (int)slot - 1);
    else
        io_uring_prep_read(sqe, fd, at, (unsigned)op->len, op->offset);
    if (!op->file->direct && op->len > CACHED_READ_BYTES_MAX)
        sqe->flags |= IOSQE_ASYNC; /* filling the page cache would delay the submit */
    u->reads_held += (uint32_t)op->len;
}

/* A writer waits for one operation after the other, and other fibers wait for it: so the disk begins while the rest of the
 * turn runs. */
static void
submit_soon(struct uring *u, enum io_op_kind kind)
{
    if (u->reads_held >= READS_HELD || (kind != IO_READ && rt_others_ready()))
        submit_now(u);
}

static void
prepare_write(struct uring *u, struct io_op *op)
{
    uint32_t slot = uring_slot_of(u, op);
    struct io_uring_sqe *sqe = get_sqe(u);
    char *at = op->buf->at + op->at;
    int fd = op->file->fd;

    assert(op->at + op->len <= op->buf->room);
    assert(op->len <= UINT32_MAX);
    u->large_gone = u->large_gone || op->len >= LARGE_WRITE;
    if (slot > 0)
        io_uring_prep_write_fixed(sqe, fd, at, (unsigned)op->len, op->offset,
                                  (int)slot - 1);
    else
        io_uring_prep_write(sqe, fd, at, (unsigned)op->len, op->offset);
    if (op->durable)
        sqe->rw_flags = RWF_DSYNC;
    io_uring_sqe_set_data64(sqe, uring_tagged(op, TAG_DISK));
}

/* Submits the large write that waits longest, at the start of a turn. */
static void
let_one_go(struct uring *u)
{
    struct list *n = list_pop_front(&u->writes);

    u->large_gone = false;
    if (n != NULL)
        prepare_write(u, LIST_ENTRY(n, struct io_op, link));
}

static void
submit_write(struct uring *u, struct io_op *op)
{
    if (op->len >= LARGE_WRITE && u->large_gone) {
        list_push_back(&u->writes, &op->link);
        return;
    }
    prepare_write(u, op);
    submit_soon(u, op->kind);
}

static void
uring_submit(struct loop *l, struct io_op *op)
{
    struct uring *u = l->engine;
    struct io_uring_sqe *sqe;
    uint32_t slot = op->kind == IO_READ ? uring_slot_of(u, op) : 0;
    int fd = op->file->fd;

    if (op->kind == IO_TRUNCATE) { /* has an opcode from 6.9 only */
        real_submit_to_pool(l, op);
        return;
    }
    l->in_flight++;
    if (op->kind == IO_WRITE) {
        submit_write(u, op);
        return;
    }
    sqe = get_sqe(u);
    switch (op->kind) {
    case IO_READ:
        prepare_read(u, sqe, op, slot);
        break;
    case IO_SYNC:
        io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
        break;
    case IO_ALLOCATE:
        io_uring_prep_fallocate(sqe, fd, 0, (off_t)op->offset, (off_t)op->len);
        break;
    case IO_PUNCH:
        io_uring_prep_fallocate(sqe, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                (off_t)op->offset, (off_t)op->len);
        break;
    case IO_WRITE:
    case IO_TRUNCATE:
        abort();
    }
    io_uring_sqe_set_data64(sqe, uring_tagged(op, TAG_DISK));
    submit_soon(u, op->kind);
}

static void
on_disk(struct loop *l, struct io_op *op, const struct completion *c)
{
    assert(l->in_flight > 0);
    assert(op->loop == l);
    l->in_flight--;
    if (c->res == -EINTR || c->res == -EAGAIN)
        real_submit_to_pool(l, op); /* the ring could not wait for it: a worker can */
    else
        io_op_done(op, c->res);
}

/* ---- the loop's calls ---- */

static void
uring_handle(struct loop *l, struct uring *u)
{
    assert(!l->polling);
    l->polling = true;
    for (size_t i = 0; i < u->events.count; i++) { /* get_sqe() may add more meanwhile */
        struct completion c = u->events.at[i];
        void *p = (void *)(uintptr_t)(c.data & ~(uint64_t)TAG_MASK);

        if (i % CLOCK_EVENTS == 0)
            l->polled_ns = 0;
        switch (c.data & TAG_MASK) {
        case TAG_POLL:
            on_poll(u, p, &c);
            break;
        case TAG_DISK:
            on_disk(l, p, &c);
            break;
        default:
            break; /* a cancel request's */
        }
    }
    u->events.count = 0;
    l->polling = false;
    loop_run_before_submit(l);
    if (u->reads_held > 0)
        submit_now(u);
}

static void
uring_wait_events(struct loop *l, uint64_t until_ns)
{
    struct uring *u = l->engine;

    uring_enter(u, list_empty(&u->writes) ? until_ns : 0);
    uring_handle(l, u);
    let_one_go(u);
}

static void
uring_wake(struct loop *l)
{
    struct uring *u = l->engine;

    eventfd_write(u->wake_fd, 1);
}

/* First wait until the kernel holds nothing: io_uring_queue_exit() returns too early. */
static void
uring_close_engine(struct loop *l)
{
    struct uring *u = l->engine;

    assert(l->in_flight == 0);
    assert(list_empty(&u->writes));
    LIST_EACH(&u->polls, n)
    {
        struct poll_op *op = LIST_ENTRY(n, struct poll_op, link);

        if (op->watch != NULL)
            cancel_poll(u, op);
        op->watch = NULL;
    }
    while (!list_empty(&u->polls))
        uring_wait_events(l, UINT64_MAX);
    assert(u->events.count == 0);
    io_uring_queue_exit(&u->ring);
    close(u->wake_fd);
    free(u->events.at);
    free(u);
    l->engine = NULL;
}

const struct engine_ops uring_ops = {
    .kind = RT_URING,
    .open = uring_open_engine,
    .close = uring_close_engine,
    .wait = uring_wait_events,
    .wake = uring_wake,
    .watch = uring_watch,
    .unwatch = uring_unwatch,
    .submit = uring_submit,
    .forget_slot = forget_slot,
    REAL_ENGINE_OPS,
};
