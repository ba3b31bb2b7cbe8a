/* file: disk operations as fibers see them, on any engine: class limits, abandoned reads. */
#include "rt/file.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "rt/internal.h"
#include "rt/test_io.h"

enum { DIRECT_ALIGN = 4096, CACHE_LINE = 64 };

/* A read of this length keeps a disk busy by itself: eight at once saturate a disk whose knee is at 32 reads of 4 KiB, and
 * as many again are in transit. With more, each takes longer, and so do the operations behind it. */
#define LARGE_READ      (64u << 10)
#define LARGE_READS_ALL 32u /* of all loops together */
/* Pieces of bodies, up to 1 MiB each: eight keep the disk as busy as 32 do, and a small append or a sync then waits behind
 * 8 MiB in the disk instead of 32. */
#define BODY_WRITES_ALL 16u

/* Operations of one loop in flight on one disk; beyond the limit they wait in order. */
static unsigned
lane_limit(unsigned lane)
{
    static const unsigned limits[IO_LANES] = {
        [RT_READ] = 32,  [RT_WRITE] = 32,     [RT_BODY] = 8,
        [RT_REPAIR] = 4, [RT_BACKGROUND] = 4, [LANE_LARGE_READ] = 16,
    };

    if (lane == LANE_LARGE_READ)
        return MAX(4u, MIN(limits[lane], LARGE_READS_ALL / rt_loop_count()));
    if (lane == RT_BODY)
        return MAX(4u, MIN(limits[lane], BODY_WRITES_ALL / rt_loop_count()));
    return limits[lane];
}

static unsigned
lane_of(const struct io_op *op)
{
    return op->kind == IO_READ && op->class == RT_READ && op->len >= LARGE_READ
               ? (unsigned)LANE_LARGE_READ
               : (unsigned)op->class;
}

/* ---- counted files ---- */

void
file_ref(struct rt_file *f)
{
    unsigned before = atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);

    assert(before > 0); /* a new reference needs a live one */
    (void)before;
}

void
file_drop(struct rt_file *f)
{
    unsigned before = atomic_fetch_sub(&f->refs, 1);

    assert(before > 0);
    if (before == 1) {
        assert(atomic_load(&f->busy) == 0);
        rt_observer_drop(&f->observer);
        rt_engine_ops()->file_free(f);
    }
}

void
rt_file_close(struct rt_file **fp)
{
    struct rt_file *f = *fp;

    *fp = NULL;
    if (f != NULL)
        file_drop(f);
}

bool
rt_file_is_direct(const struct rt_file *f)
{
    return f->direct;
}

uint32_t
rt_file_busy(const struct rt_file *f)
{
    return atomic_load(&f->busy);
}

/* ---- queues ---- */

static struct io_queue *
queue_of(struct loop *l, uint64_t device)
{
    struct io_queue *q;

    LIST_EACH(&l->disks, n)
    {
        q = LIST_ENTRY(n, struct io_queue, link);
        if (q->device == device)
            return q;
    }
    q = xcalloc(1, sizeof *q);
    q->device = device;
    for (unsigned i = 0; i < IO_LANES; i++)
        list_init(&q->of[i].waiting);
    list_push_back(&l->disks, &q->link);
    return q;
}

void
io_queues_free(struct loop *l)
{
    struct list *n;

    while ((n = list_pop_front(&l->disks)) != NULL) {
        struct io_queue *q = LIST_ENTRY(n, struct io_queue, link);

        for (unsigned i = 0; i < IO_LANES; i++) {
            assert(q->of[i].in_flight == 0);
            assert(list_empty(&q->of[i].waiting));
        }
        free(q);
    }
}

static enum rt_io
io_of(const struct io_op *op)
{
    static const enum rt_io kinds[] = {
        [IO_READ] = RT_IO_READ,   [IO_WRITE] = RT_IO_WRITE,
        [IO_SYNC] = RT_IO_SYNC,   [IO_ALLOCATE] = RT_IO_SPACE,
        [IO_PUNCH] = RT_IO_SPACE, [IO_TRUNCATE] = RT_IO_SPACE,
    };

    return op->durable ? RT_IO_SYNC : kinds[op->kind];
}

/* Test hooks: a durable write fails, and is slow, like a write and like a sync. */
static int
test_error_of(const struct io_op *op)
{
    int error = test_io_error(op->file->observer, io_of(op));

    return error == 0 && op->durable ? test_io_error(op->file->observer, RT_IO_WRITE)
                                     : error;
}

static uint64_t
test_delay_of(const struct io_op *op)
{
    uint64_t ns = test_io_delay_ns(op->file->observer, io_of(op));

    return op->durable ? ns + test_io_delay_ns(op->file->observer, RT_IO_WRITE) : ns;
}

/* Test hooks: an operation that a slow disk delays. */
struct late {
    struct timer timer;
    struct io_op *op;
};

static void
submit_late(struct timer *t)
{
    struct late *late = CONTAINER_OF(t, struct late, timer);
    struct io_op *op = late->op;

    assert(op->loop->in_flight > 0);
    free(late);
    op->loop->in_flight--;
    op->loop->ops->submit(op->loop, op);
}

static void
hold_back(struct loop *l, struct io_op *op, uint64_t ns)
{
    struct late *late = xmalloc(sizeof *late);

    late->op = op;
    timer_init(&late->timer, submit_late);
    l->in_flight++;
    timer_add(&l->timers, &late->timer, l->ops->now_ns() + ns);
}

/* Read once per batch of events that the engine delivers. */
static uint64_t
clock_of(struct loop *l)
{
    if (!l->polling)
        return l->ops->now_ns();
    if (l->polled_ns == 0)
        l->polled_ns = l->ops->now_ns();
    return l->polled_ns;
}

/* From here on the kernel has it: the time in our queue does not count. */
static void
file_op_submit(struct loop *l, struct io_op *op)
{
    struct rt_observer *o = op->file->observer;
    uint64_t delay = test_delay_of(op);

    if (o != NULL) {
        op->beside = observer_begin(o);
        op->begun_ns = clock_of(l);
    }
    if (delay > 0)
        hold_back(l, op, delay);
    else
        l->ops->submit(l, op);
}

static void
start_waiting(struct loop *l, struct io_queue *q, unsigned lane)
{
    unsigned limit = lane_limit(lane);

    assert(lane < IO_LANES);
    while (q->of[lane].in_flight < limit) {
        struct list *n = list_pop_front(&q->of[lane].waiting);

        if (n == NULL)
            return;
        q->of[lane].in_flight++;
        file_op_submit(l, LIST_ENTRY(n, struct io_op, link));
    }
}

static void
notify_observer(const struct io_op *op, int64_t result)
{
    bool no_space =
        result == -ENOSPC || result == -EDQUOT; /* that is the write, not the sync */
    struct rt_io_done d = {.kind = no_space && op->durable ? RT_IO_WRITE : io_of(op),
                           .error = result < 0 ? (int)-result : 0,
                           .len = op->len,
                           .beside = op->beside};

    if (op->begun_ns == 0)
        return;
    if (d.error != 0)
        d.where = hash_xxh3(op->file->name, strlen(op->file->name), op->offset / 4096);
    d.took_ns = clock_of(op->loop) - op->begun_ns;
    observer_end(op->file->observer, &d);
}

static void
free_op(struct io_op *op)
{
    unsigned busy = atomic_fetch_sub(&op->file->busy, 1);

    assert(busy > 0);
    (void)busy;
    file_drop(op->file);
    iobuf_drop(&op->buf);
    free(op);
}

/* ---- one operation ---- */

/* The waiting side, on the fiber's stack. */
struct io_wait {
    int64_t result;
    bool done;
};

static void
run_on_read(struct rt_after_poll *s)
{
    struct rt_async_read *r = CONTAINER_OF(s, struct rt_async_read, soon);

    r->on_read(r, r->result);
}

/* What a disk has just written is in no cache of this core. */
static void
prefetch_lines(struct span s)
{
    for (size_t i = 0; i < s.len; i += CACHE_LINE)
        __builtin_prefetch(s.at + i);
}

/* on_read works on the bytes, so it runs after the disk has received its next reads. */
static void
read_completed(struct rt_async_read *r, int64_t result)
{
    prefetch_lines(r->prefetch_span);
    r->op = NULL;
    r->result = result;
    r->soon.fn = run_on_read;
    rt_after_poll(&r->soon);
}

void
io_op_done(struct io_op *op, int64_t result)
{
    struct loop *l = op->loop;
    struct io_queue *q = queue_of(l, op->file->device);
    unsigned lane = op->lane;
    struct rt_async_read *reading = op->reading;
    int test_error = test_error_of(op);

    assert(l == loop_self);
    assert(lane < IO_LANES);
    assert(q->of[lane].in_flight > 0);
    assert(list_empty(&op->link));
    assert(op->waiter == NULL || reading == NULL);
    q->of[lane].in_flight--;
    if (test_error != 0)
        result = -test_error;
    notify_observer(op, result);
    if (op->waiter != NULL) {
        assert(!op->wait->done);
        op->wait->result = result;
        op->wait->done = true;
        fiber_wake(op->waiter, ERR_OK);
    }
    free_op(op);
    start_waiting(l, q, lane);
    if (reading != NULL)
        read_completed(reading, result);
}

/* Whether an operation may begin: not in a cancelled fiber, after its scope, or on a shut disk. */
static enum err
may_begin(struct errbuf *eb, const struct rt_file *file)
{
    struct fiber *f = rt_self();

    assert(f != NULL);
    if (f->cancelled && f->shields == 0)
        return err_set(eb, ERR_CANCELLED, "'%s': cancelled", file->name);
    if (deadline_passed(f->scope))
        return err_set(eb, ERR_TIMEOUT, "'%s': the deadline has passed", file->name);
    return observer_may_begin(file->observer, file->name, eb);
}

/* Queues or submits. The operation holds its own references, whatever the fiber does meanwhile. */
static struct io_op *
file_op_begin(const struct io_op *template, struct io_wait *w)
{
    struct loop *l = loop_self;
    struct io_op *op = xmalloc(sizeof *op);
    struct io_queue *q = queue_of(l, template->file->device);

    assert(template->file != NULL);
    assert(template->class < RT_CLASSES_);
    *op = *template;
    if (rt_self() != NULL && rt_self()->background)
        op->class = RT_BACKGROUND;
    op->lane = lane_of(op);
    op->loop = l;
    op->waiter = rt_self();
    op->wait = w;
    list_init(&op->link);
    file_ref(op->file);
    atomic_fetch_add(&op->file->busy, 1);
    if (op->buf != NULL)
        iobuf_ref(op->buf);
    list_push_back(&q->of[op->lane].waiting, &op->link);
    start_waiting(l, q, op->lane);
    return op;
}

/* Waits whatever happens: the kernel would continue without us. */
static int64_t
file_op_perform(const struct io_op *template)
{
    struct io_wait w = {0};

    file_op_begin(template, &w);
    while (!w.done)
        fiber_wait_owed();
    return w.result;
}

/* When the fiber is cancelled or late it continues; the operation is taken off the queue, or ends by itself. */
static enum err
perform_abandonable(const struct io_op *template, struct deadline by, int64_t *result)
{
    struct io_wait w = {0};
    struct io_op *op = file_op_begin(template, &w);
    enum err rc = w.done ? ERR_OK : fiber_wait(by);

    *result = w.result;
    if (w.done)
        return ERR_OK;
    if (!list_empty(&op->link)) {
        list_remove(&op->link);
        free_op(op);
    } else {
        op->waiter = NULL;
    }
    return rc;
}

static enum err
io_op_failed(const struct rt_file *f, const char *doing, int64_t result,
             struct errbuf *eb)
{
    int error = (int)-result;
    enum err rc = error == ENOSPC || error == EDQUOT ? ERR_NO_SPACE
                  : error == ECANCELED               ? ERR_CANCELLED
                                                     : ERR_IO;

    return err_errno(eb, rc, error, "%s '%s'", doing, f->name);
}

/* ---- the calls ---- */

void
rt_io_background(bool on)
{
    rt_self()->background = on;
}

static void
check_place(const struct rt_file *f, uint64_t offset, const struct iobuf *b, uint32_t at,
            uint32_t len)
{
    assert(at <= b->room);
    assert(len <= b->room - at);
    assert(offset <= INT64_MAX);
    assert(!f->direct || (offset | at | len) % DIRECT_ALIGN == 0);
    (void)f, (void)offset, (void)b, (void)at, (void)len;
}

enum err
rt_read(struct rt_file *f, uint64_t offset, struct iobuf *b, uint32_t at, uint32_t len,
        enum rt_class class, struct deadline by, uint32_t *n, struct errbuf *eb)
{
    struct io_op op = {.kind = IO_READ,
                       .class = class,
                       .file = f,
                       .buf = b,
                       .at = at,
                       .offset = offset,
                       .len = len};
    int64_t result;
    enum err rc;

    *n = 0;
    check_place(f, offset, b, at, len);
    rc = may_begin(eb, f);
    if (rc != ERR_OK)
        return rc;
    rc = perform_abandonable(&op, by, &result);
    if (rc != ERR_OK)
        return err_set(eb, rc, "reading '%s' at %" PRIu64 ": %s", f->name, offset,
                       err_name(rc));
    if (result < 0)
        return io_op_failed(f, "reading", result, eb);
    assert(result <= len);
    *n = (uint32_t)result;
    return ERR_OK;
}

enum err
rt_read_begin(struct rt_file *f, uint64_t offset, struct iobuf *b, uint32_t at,
              uint32_t len, enum rt_class class, struct rt_async_read *r)
{
    struct io_op op = {.kind = IO_READ,
                       .class = class,
                       .file = f,
                       .buf = b,
                       .at = at,
                       .offset = offset,
                       .len = len,
                       .reading = r};
    enum err rc = observer_may_begin(f->observer, f->name, NULL);

    assert(r->on_read != NULL);
    check_place(f, offset, b, at, len);
    if (rc == ERR_OK) {
        r->op = file_op_begin(&op, NULL);
        r->op->waiter = NULL;
    }
    return rc;
}

void
rt_read_abandon(struct rt_async_read *r)
{
    if (r->op != NULL)
        r->op->reading = NULL;
    else
        list_remove(&r->soon.link);
}

static enum err
write_all(struct io_op op, struct errbuf *eb)
{
    struct rt_file *f = op.file;
    uint64_t offset = op.offset;
    uint32_t at = op.at, len = (uint32_t)op.len;
    enum err rc;

    check_place(f, offset, op.buf, at, len);
    rc = may_begin(eb, f);
    if (rc != ERR_OK)
        return rc;
    while (len > 0) {
        int64_t result;

        op.offset = offset;
        op.at = at;
        op.len = len;
        result = file_op_perform(&op);
        if (result < 0)
            return io_op_failed(f, "writing", result, eb);
        assert(result <= (int64_t)len);
        if (result == 0 || (f->direct && result % DIRECT_ALIGN != 0))
            return err_set(eb, ERR_IO, "writing '%s': %" PRId64 " of %" PRIu32 " bytes",
                           f->name, result, len);
        offset += (uint64_t)result;
        at += (uint32_t)result;
        len -= (uint32_t)result;
    }
    return ERR_OK;
}

enum err
rt_write(struct rt_file *f, uint64_t offset, struct iobuf *b, uint32_t at, uint32_t len,
         enum rt_class class, struct errbuf *eb)
{
    return write_all((struct io_op){.kind = IO_WRITE,
                                    .class = class,
                                    .file = f,
                                    .buf = b,
                                    .at = at,
                                    .offset = offset,
                                    .len = len},
                     eb);
}

bool
rt_writes_durable(const struct rt_file *f)
{
    return f->direct && rt_engine_ops()->writes_durable;
}

enum err
rt_write_durable(struct rt_file *f, uint64_t offset, struct iobuf *b, uint32_t at,
                 uint32_t len, enum rt_class class, struct errbuf *eb)
{
    assert(rt_writes_durable(f));
    return write_all((struct io_op){.kind = IO_WRITE,
                                    .class = class,
                                    .file = f,
                                    .buf = b,
                                    .at = at,
                                    .durable = true,
                                    .offset = offset,
                                    .len = len},
                     eb);
}

/* Operations without bytes: class RT_WRITE, waited for. */
static enum err
file_op_change(struct rt_file *f, enum io_op_kind kind, uint64_t offset, uint64_t len,
               const char *doing, struct errbuf *eb)
{
    struct io_op op = {
        .kind = kind, .class = RT_WRITE, .file = f, .offset = offset, .len = len};
    enum err rc = may_begin(eb, f);
    int64_t result;

    if (rc != ERR_OK)
        return rc;
    result = file_op_perform(&op);
    return result < 0 ? io_op_failed(f, doing, result, eb) : ERR_OK;
}

enum err
rt_sync(struct rt_file *f, struct errbuf *eb)
{
    return file_op_change(f, IO_SYNC, 0, 0, "syncing", eb);
}

enum err
rt_fallocate(struct rt_file *f, uint64_t offset, uint64_t len, struct errbuf *eb)
{
    return file_op_change(f, IO_ALLOCATE, offset, len, "reserving room in", eb);
}

enum err
rt_punch(struct rt_file *f, uint64_t offset, uint64_t len, struct errbuf *eb)
{
    return file_op_change(f, IO_PUNCH, offset, len, "punching", eb);
}

enum err
rt_truncate(struct rt_file *f, uint64_t size, struct errbuf *eb)
{
    return file_op_change(f, IO_TRUNCATE, size, 0, "truncating", eb);
}

enum err
rt_file_size(struct rt_file *f, uint64_t *out, struct errbuf *eb)
{
    *out = 0;
    return rt_engine_ops()->file_size(f, out, eb);
}

#define LOCK_LOOKS   25u
#define LOCK_LOOK_MS 20u

enum err
rt_file_lock(struct rt_file *f, struct errbuf *eb)
{
    enum err rc = rt_engine_ops()->file_lock(f, eb);

    for (unsigned i = 0; rc == ERR_EXISTS && i < LOCK_LOOKS; i++) {
        enum err slept = rt_sleep_ms(LOCK_LOOK_MS);

        if (slept != ERR_OK)
            return err_set(eb, slept, "locking '%s': %s while another process holds it",
                           f->name, err_name(slept));
        rc = rt_engine_ops()->file_lock(f, eb);
    }
    return rc;
}
