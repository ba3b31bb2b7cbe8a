#include "store/health/health.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "store/core/core.h"
#include "store/health/health_internal.h"
#include "store/store_health.h"

#define ERRORS_DEFAULT    100u
#define WINDOW_DEFAULT_MS 600000u
#define FACTOR_DEFAULT    10u
#define STALL_DEFAULT_MS  120000u
#define TICK_DEFAULT_MS   1000u
#define SMALL_BYTES       (64u << 10)

struct lock healths_lock = LOCK_INIT(LOCK_HEALTH);
struct list healths = {&healths, &healths};
static _Atomic uint64_t born;

static struct health *
of_observer(struct rt_observer *o)
{
    return CONTAINER_OF(o, struct health, observer);
}

/* ---- states ---- */

static const char *const state_names[] = {"ok", "slow", "read-only", "failed"};

const char *
store_state_name(enum store_state s)
{
    return state_names[s];
}

bool
health_move(struct health *h, enum store_state to, const char *why, int error)
{
    unsigned from = atomic_load(&h->state);
    char what[64], said[sizeof h->why];

    assert(to > STORE_OK);
    assert(to <= STORE_FAILED);
    assert(why != NULL);
    do {
        if (from >= (unsigned)to)
            return false;
    } while (!atomic_compare_exchange_weak(&h->state, &from, (unsigned)to));
    (void)snprintf(said, sizeof said, error > 0 ? "%s: %s" : "%s", why,
                   error > 0 ? strerror_r(error, what, sizeof what) : "");
    lock_acquire(&healths_lock);
    memcpy(h->why, said, sizeof h->why);
    lock_release(&healths_lock);
    if (to >= STORE_READ_ONLY)
        atomic_store(&h->now.no_writes, true);
    if (to == STORE_FAILED) {
        atomic_store(&h->now.gone, true);
        atomic_store(&h->observer.shut, true);
    }
    LOG(to == STORE_SLOW ? LOG_WARN : LOG_ERROR, "disk.state",
        to == STORE_FAILED      ? "the disk leaves; the node stays"
        : to == STORE_READ_ONLY ? "the disk takes no writes until the next start"
                                : "the disk is slow",
        L_TEXT("disk", h->path), L_TEXT("state", state_names[to]),
        L_TEXT("before", state_names[from]), L_TEXT("why", said));
    return true;
}

enum err
health_refuse(const struct health *h, bool write, struct errbuf *eb)
{
    struct store_health now;

    assert(h != NULL);
    health_read(h, &now);
    if (now.state == STORE_FAILED)
        return err_set(eb, ERR_IO, "disk \"%s\" has left: %s", h->path, now.why);
    return err_set(eb, ERR_IO, "disk \"%s\" takes no %s: %s", h->path,
                   write ? "writes" : "requests", now.why);
}

/* ---- errors ---- */

/* What says nothing about the disk: a full one, an odd request, a file that is not there. */
static bool
is_innocent(const struct rt_io_done *d)
{
    switch (d->error) {
    case ENOSPC:
    case EDQUOT:
        return d->kind != RT_IO_SYNC;
    case EINTR:
    case EAGAIN:
    case ECANCELED:
    case EINVAL:
    case EOPNOTSUPP:
    case ENOSYS:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EFBIG:
    case E2BIG:
        return true;
    case ENOENT:
    case EEXIST:
    case ENOTEMPTY:
    case EISDIR:
    case ENOTDIR:
        return d->kind == RT_IO_NAME;
    default:
        return false;
    }
}

static void
count_error(struct health *h, enum rt_io kind)
{
    static const size_t counters[RT_IOS_] = {
        [RT_IO_READ] = offsetof(struct health, read_errors),
        [RT_IO_WRITE] = offsetof(struct health, write_errors),
        [RT_IO_SYNC] = offsetof(struct health, sync_errors),
        [RT_IO_SPACE] = offsetof(struct health, write_errors),
        [RT_IO_NAME] = offsetof(struct health, name_errors),
    };

    assert(kind < RT_IOS_);
    assert(counters[kind] > 0);
    atomic_fetch_add_explicit((_Atomic uint64_t *)(void *)((char *)h + counters[kind]), 1,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&h->unanswered, 1, memory_order_relaxed);
}

/* Reads of one bad sector again and again must not take the disk out. */
static bool
is_new_place(struct health *h, uint64_t where)
{
    _Atomic uint64_t *seen = &h->places[where % ERROR_PLACES];

    assert(h != NULL);
    return atomic_exchange_explicit(seen, where, memory_order_relaxed) != where;
}

static void
on_error(struct health *h, const struct rt_io_done *d)
{
    uint64_t recent;

    assert(d->error != 0);
    count_error(h, d->kind);
    recent = atomic_load(&h->last_errors);
    if (is_new_place(h, d->where))
        recent = atomic_fetch_add(&h->last_errors, 1) + 1;
    if (d->error == ENODEV || d->error == ENXIO || d->error == ESTALE ||
        d->error == ENOTCONN)
        (void)health_move(h, STORE_FAILED, "it is gone", d->error);
    else if (d->error == EROFS)
        (void)health_move(h, STORE_READ_ONLY, "the file system is read-only", 0);
    else if (d->kind == RT_IO_SYNC)
        (void)health_move(h, STORE_READ_ONLY, "a sync failed", d->error);
    if (h->limits.errors < UINT64_MAX && recent >= h->limits.errors)
        (void)health_move(h, STORE_FAILED, "too many errors", d->error);
}

static void
on_success(struct health *h, const struct rt_io_done *d)
{
    enum meter_of which;
    struct meter *m;
    uint64_t usual;

    assert(d->error == 0);
    if (d->kind == RT_IO_READ)
        which = d->len <= SMALL_BYTES ? SMALL_READS : LARGE_READS;
    else if (d->kind == RT_IO_WRITE)
        which = d->len <= SMALL_BYTES ? SMALL_WRITES : LARGE_WRITES;
    else if (d->kind == RT_IO_SYNC && d->took_ns > 0)
        which = SYNCS;
    else
        return;
    m = &h->meters[which];
    atomic_fetch_add_explicit(&m->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->sum_ns, d->took_ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->share_ns, d->took_ns / MAX(d->beside, 1u),
                              memory_order_relaxed);
    usual = atomic_load_explicit(&m->usual_ns, memory_order_relaxed);
    if (d->took_ns > SLOW_FLOOR_NS && usual > 0 &&
        d->took_ns / usual >= h->limits.slow_factor)
        atomic_fetch_add_explicit(&h->slow_ops, 1, memory_order_relaxed);
}

static void
on_io(struct rt_observer *o, const struct rt_io_done *d)
{
    assert(d->kind < RT_IOS_);
    if (d->error == 0)
        on_success(of_observer(o), d);
    else if (!is_innocent(d))
        on_error(of_observer(o), d);
}

void
health_corrupt_block(struct health *h)
{
    if (h != NULL)
        atomic_fetch_add_explicit(&h->corrupt_blocks, 1, memory_order_relaxed);
}

void
health_log_missing(struct health *h, const char *what)
{
    char why[128];

    if (h == NULL)
        return;
    (void)snprintf(why, sizeof why, "%s: put it back and restart", what);
    (void)health_move(h, STORE_READ_ONLY, why, 0);
}

void
health_log_failed(struct health *h, const char *class)
{
    char why[64];

    if (h == NULL)
        return;
    (void)snprintf(why, sizeof why, "the %s log has failed", class);
    (void)health_move(h, STORE_READ_ONLY, why, 0);
}

void
health_index_fault(struct health *h)
{
    if (h == NULL)
        return;
    atomic_fetch_add(&h->index_faults, 1);
    (void)health_move(h, STORE_FAILED,
                      "the index's pages cannot be had, or are damaged (SIGBUS, SIGSEGV)",
                      0);
}

void
health_index_is(struct health *h, enum store_index state)
{
    if (h != NULL)
        atomic_store(&h->index, state);
}

void
health_index_commit(struct health *h, int error)
{
    if (h == NULL)
        return;
    atomic_fetch_add(&h->sync_errors, 1);
    if (error == EROFS)
        (void)health_move(h, STORE_READ_ONLY, "the file system is read-only", 0);
    else
        (void)health_move(h, STORE_FAILED, "a commit of the index failed",
                          error > 0 ? error : 0);
}

/* ---- life ---- */

static void
health_last(struct rt_observer *o)
{
    struct health *h = of_observer(o);

    free(h->path);
    free(h);
}

struct health *
health_new(const char *path, const struct store_limits *limits)
{
    struct health *h = aligned_alloc(64, align_up(sizeof *h, 64));

    assert(path != NULL);
    assert(limits != NULL);
    if (h == NULL)
        abort();
    memset(h, 0, sizeof *h);
    h->observer = (struct rt_observer){.on_io = on_io,
                                       .free = health_last,
                                       .refs = 1,
                                       .number = atomic_fetch_add(&born, 1) + 1};
    h->limits = *limits;
#define DEFAULT(field, value)                                                            \
    h->limits.field = h->limits.field != 0 ? h->limits.field : (value)
    DEFAULT(errors, ERRORS_DEFAULT);
    DEFAULT(error_window_ms, WINDOW_DEFAULT_MS);
    DEFAULT(slow_factor, FACTOR_DEFAULT);
    DEFAULT(stall_ms, STALL_DEFAULT_MS);
    DEFAULT(tick_ms, TICK_DEFAULT_MS);
#undef DEFAULT
    h->path = xstrdup(path);
    list_init(&h->of_all);
    rt_cond_init(&h->owner.wake);
    return h;
}

void
health_free(struct health **hp)
{
    struct rt_observer *o = *hp != NULL ? &(*hp)->observer : NULL;

    *hp = NULL;
    rt_observer_drop(&o);
}

struct rt_observer *
health_observer(struct health *h)
{
    return &h->observer;
}

/* All but the sentence. */
void
health_counts(const struct health *h, struct store_health *out)
{
    *out = (struct store_health){.state = (enum store_state)atomic_load(&h->state),
                                 .read_errors = atomic_load(&h->read_errors),
                                 .write_errors = atomic_load(&h->write_errors),
                                 .sync_errors = atomic_load(&h->sync_errors),
                                 .name_errors = atomic_load(&h->name_errors),
                                 .corrupt_blocks = atomic_load(&h->corrupt_blocks),
                                 .slow_ops = atomic_load(&h->slow_ops),
                                 .index_faults = atomic_load(&h->index_faults)};
}

void
health_read(const struct health *h, struct store_health *out)
{
    health_counts(h, out);
    if (out->state == STORE_OK)
        return;
    lock_acquire(&healths_lock);
    memcpy(out->why, h->why, sizeof out->why);
    lock_release(&healths_lock);
}
