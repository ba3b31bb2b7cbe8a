#include "rt/sim.h"

#include <assert.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "rt/sim_engine.h"

#define WALL_START_NS (1795219200u * UINT64_C(1000000000)) /* 2026-11-21 */
/* Unwinding after a cut takes fewer turns than this in any program that obeys its cancellation. */
#define TURNS_AFTER_CUT_MAX 1000000u

struct sim *sim_world;

/* ---- the trace ---- */
void
sim_note(enum sim_trace_kind kind, uint64_t a, uint64_t b)
{
    struct sim *s = sim_world;
    struct sim_shared *sh = s->shared;
    uint64_t words[5] = {sh->trace, sh->now_ns,
                         (uint64_t)kind | (uint64_t)s->member.index << 32, a, b};

    sh->trace = hash_xxh3(words, sizeof words, 0);
}

uint64_t
sim_trace_hash(const struct sim *s)
{
    return s->shared->trace;
}

/* ---- time and events ---- */
static int64_t
sim_drift_ns(uint64_t ns, int64_t ppm)
{
    return (int64_t)(ns / 1000000u) * ppm + (int64_t)(ns % 1000000u) * ppm / 1000000;
}

uint64_t
sim_local_ns(const struct sim *s, uint64_t shared_ns)
{
    return s->member.offset_ns + shared_ns +
           (uint64_t)sim_drift_ns(shared_ns, s->member.rate_ppm);
}

uint64_t
sim_shared_ns(const struct sim *s, uint64_t local_ns)
{
    uint64_t rate = (uint64_t)(1000000 + s->member.rate_ppm);
    uint64_t ns = local_ns - MIN(local_ns, s->member.offset_ns), at;

    if (local_ns == UINT64_MAX)
        return UINT64_MAX;
    at = ns / rate * 1000000u + ns % rate * 1000000u / rate;
    while (sim_local_ns(s, at) < local_ns)
        at++;
    return at;
}

static uint64_t
sim_now(void)
{
    return sim_local_ns(sim_world, sim_world->shared->now_ns);
}

static uint64_t
sim_wall(void)
{
    return sim_world->wall_base_ns + sim_now() - sim_world->member.offset_ns;
}

uint64_t
sim_wall_for_log(void)
{
    return sim_world != NULL ? sim_wall() : 0;
}

uint64_t
sim_delay_ns(void)
{
    struct sim *s = sim_world;

    return 1 + sim_rng_next(&s->shared->rng) %
                   (s->options.max_delay_us * UINT64_C(1000) + 1000);
}

void
sim_after_at(struct sim *s, struct timer *t, uint64_t delay_ns)
{
    assert(delay_ns > 0);
    timer_add(&s->events, t, s->shared->now_ns + delay_ns);
}

void
sim_after(struct timer *t, uint64_t delay_ns)
{
    assert(sim_world != NULL);
    sim_after_at(sim_world, t, delay_ns);
}

struct pause {
    struct timer timer;
    struct fiber *fiber;
};

static void
on_pause(struct timer *t)
{
    fiber_wake(CONTAINER_OF(t, struct pause, timer)->fiber, ERR_OK);
}

enum err
sim_pause(struct deadline by)
{
    struct pause p = {.fiber = rt_self()};
    enum err rc;

    timer_init(&p.timer, on_pause);
    sim_after(&p.timer, sim_delay_ns());
    rc = fiber_wait(by);
    timer_remove(&sim_world->events, &p.timer);
    return rc;
}

void
sim_pause_owed(void)
{
    struct pause p = {.fiber = rt_self()};

    timer_init(&p.timer, on_pause);
    sim_after(&p.timer, sim_world->cut ? 1 : sim_delay_ns());
    fiber_wait_owed();
    assert(p.timer.place == TIMER_IDLE);
}

/* ---- the cut ---- */

/* Calls fn for each fiber of the loop: the root's members, then those of the groups they have begun. */
static void
each_fiber(struct rt_group *g, void (*fn)(struct fiber *f))
{
    LIST_EACH(&g->members, n)
    {
        struct fiber *f = LIST_ENTRY(n, struct fiber, of_group);

        fn(f);
        LIST_EACH(&f->groups, child)
        {
            each_fiber(LIST_ENTRY(child, struct rt_group, of_parent), fn);
        }
    }
}

/* Also inside a shield: without power there is no clean-up. */
static void
cancel_for_good(struct fiber *f)
{
    f->cancelled = true;
    LIST_EACH(&f->groups, n)
    {
        LIST_ENTRY(n, struct rt_group, of_parent)->cancelled = true;
    }
    if (!f->owed)
        fiber_wake(f, ERR_CANCELLED);
}

void
sim_cut_power(struct sim *s)
{
    assert(!s->cut);
    assert(s->loop != NULL);
    assert(s == sim_world);
    sim_note(TRACE_CUT, s->event_count, 0);
    s->cut = true;
    s->loop->root.cancelled = true;
    each_fiber(&s->loop->root, cancel_for_good);
}

void
sim_event(uint64_t a, uint64_t b)
{
    struct sim *s = sim_world;

    s->event_count++;
    sim_note(TRACE_EVENT, a, b);
    if (s->event_count == s->cut_at)
        sim_cut_power(s);
}

void
sim_point(enum point p)
{
    struct sim *s = sim_world;

    if (s->cut || ++s->points[p] != s->cut_point_nth || p != s->cut_point)
        return;
    sim_cut_power(s);
}

void
sim_cut_at_point(struct sim *s, enum point p, uint64_t nth)
{
    s->cut_point = p;
    s->cut_point_nth = nth;
}

/* ---- a world that cannot continue ---- */
static void
report_fiber(struct fiber *f)
{
    void *fn = (void *)(uintptr_t)f->fn;

    if (!f->waiting)
        return;
    fprintf(stderr, "sim: a fiber waits%s%s%s: ", f->owed ? ", owed a wake" : "",
            f->cancelled ? ", cancelled" : "", f->shields > 0 ? ", in a shield" : "");
    backtrace_symbols_fd(&fn, 1, STDERR_FILENO);
}

void
sim_report_fibers(struct sim *s)
{
    each_fiber(&s->loop->root, report_fiber);
    fprintf(stderr, "sim: %s%s%u fibers, %u operations in flight\n", s->member.name,
            s->member.name[0] != '\0' ? ": " : "", s->loop->fibers, s->loop->in_flight);
}

static _Noreturn void
sim_stuck(struct sim *s, const char *what)
{
    fprintf(stderr, "sim: seed %llu, %.9f s: %s\n", (unsigned long long)s->options.seed,
            (double)s->shared->now_ns / 1e9, what);
    sim_report_fibers(s);
    abort();
}

/* ---- the engine ---- */
static enum err
open_loop(struct loop *l, struct errbuf *eb)
{
    (void)eb;
    assert(sim_world->loop == NULL); /* one loop a world */
    sim_world->loop = l;
    l->engine = sim_world;
    return ERR_OK;
}

static void
sim_close_loop(struct loop *l)
{
    assert(l->in_flight == 0);
    assert(sim_world->loop == l);
    sim_world->loop = NULL;
}

/* In a cluster only says when the next turn is due: other nodes may come first. */
static void
sim_wait_events(struct loop *l, uint64_t until_ns)
{
    struct sim *s = l->engine;
    struct sim_shared *sh = s->shared;
    uint64_t before = sh->now_ns;
    bool busy = until_ns == 0 || l->token != NULL;

    if (s->cut && ++s->turns_since_cut > TURNS_AFTER_CUT_MAX)
        sim_stuck(s, "fibers keep running long after the power cut");
    if (sh->cluster != NULL) {
        s->member.ready_ns = busy ? sh->now_ns + SIM_TURN_NS
                                  : MAX(sh->now_ns + 1, sim_shared_ns(s, until_ns));
        return;
    }
    if (busy) {
        sh->now_ns += SIM_TURN_NS;
    } else {
        until_ns = MIN(until_ns, timer_next(&s->events));
        if (until_ns == UINT64_MAX)
            sim_stuck(s, "deadlock: every fiber waits and no event is due");
        sh->now_ns = MAX(sh->now_ns, until_ns);
    }
    assert(sh->now_ns >= before); /* time never goes back */
    timer_run(&s->events, sh->now_ns);
}

static void
wake_loop(struct loop *l)
{
    (void)l;
    assert(false && "another thread in the simulator");
}

static void
random_bytes(void *out, size_t len)
{
    sim_rng_bytes(&sim_world->shared->rng_user, out, len);
}

static enum err
before_wait(struct loop *l, bool owed)
{
    struct sim *s = l->engine;

    if (s->cut && owed)
        return ERR_OK;
    if (s->cut) {
        rt_yield(); /* it may wait, in a shield, for others that unwind: let them run */
        return ERR_CANCELLED;
    }
    s->wait_count++;
    sim_note(TRACE_WAIT, s->wait_count, owed);
    if (s->wait_count != s->disturb_at)
        return ERR_OK;
    if (s->disturb_err == ERR_CANCELLED) {
        rt_cancel(l->self);
        return l->self->shields > 0 ? ERR_OK : ERR_CANCELLED;
    }
    if (owed)
        (void)sim_fail_op_of(l->self);
    return s->disturb_err;
}

struct work {
    struct timer timer;
    struct fiber *fiber;
    void (*fn)(void *arg);
    void *arg;
    bool done;
};

/* Outside fibers: workers have large stacks. */
static void
on_work(struct timer *t)
{
    struct work *w = CONTAINER_OF(t, struct work, timer);

    assert(!w->done);
    assert(loop_self->self == NULL);
    w->fn(w->arg);
    w->done = true;
    fiber_wake(w->fiber, ERR_OK);
}

static enum err
sim_blocking(void (*work)(void *arg), void *arg, struct deadline by)
{
    struct work w = {.fiber = rt_self(), .fn = work, .arg = arg};
    bool clean_up =
        w.fiber->shields > 0; /* must free its memory even after a power cut */
    enum err rc = ERR_OK;

    if (sim_world->cut && !clean_up)
        return ERR_CANCELLED;
    timer_init(&w.timer, on_work);
    sim_after(&w.timer, sim_delay_ns());
    if (sim_world->cut)
        fiber_wait_owed();
    else
        rc = fiber_wait(by);
    if (!w.done && clean_up && sim_world->cut)
        fiber_wait_owed();
    timer_remove(&sim_world->events, &w.timer);
    return w.done ? ERR_OK : rc;
}

const struct engine_ops sim_ops = {
    .kind = RT_SIM,
    .single = true,
    .open = open_loop,
    .close = sim_close_loop,
    .wait = sim_wait_events,
    .wake = wake_loop,
    .now_ns = sim_now,
    .wall_ns = sim_wall,
    .random = random_bytes,
    .before_wait = before_wait,
    .blocking = sim_blocking,
    .listen = sim_listen,
    .connect = sim_connect,
    .pipe = sim_pipe,
    .submit = sim_submit,
    .dir_open = sim_dir_open,
    .dir_free = sim_dir_free,
    .dir_make = sim_dir_make,
    .dir_sync = sim_dir_sync,
    .dir_list = sim_dir_list,
    .dir_unlink = sim_dir_remove,
    .dir_rename = sim_dir_move,
    .dir_mode = sim_dir_mode,
    .dir_space = sim_dir_space,
    .open_file = sim_open_file,
    .file_free = sim_file_free,
    .file_size = sim_stat_size,
    .file_lock = sim_file_lock,
};

/* ---- worlds ---- */
struct sim *
sim_new(const struct sim_options *o)
{
    struct sim *s = xcalloc(1, sizeof *s);

    s->options = *o;
    s->disk = sim_disk_new(o->disk_bytes > 0 ? o->disk_bytes : GIB(1024));
    list_init(&s->mounts);
    list_init(&s->indexes);
    list_init(&s->ops);
    list_init(&s->files);
    list_init(&s->own.listeners);
    s->shared = &s->own;
    s->own.rng.state = o->seed;
    s->own.rng_user.state = sim_rng_next(&s->own.rng);
    s->own.now_ns = 1000000000u;
    s->wall_base_ns = WALL_START_NS;
    return s;
}

void
sim_free(struct sim **sp)
{
    struct sim *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    assert(s != sim_world);
    assert(s->loop == NULL);
    sim_shadow_free(s);
    sim_mounts_free(s);
    sim_disk_free(&s->disk);
    timer_fini(&s->events);
    free(s);
}

static uint64_t
sim_draw_random(void *arg)
{
    return sim_rng_next(arg);
}

struct sim_lottery
sim_lottery(struct sim *s)
{
    return (struct sim_lottery){
        .draw = sim_draw_random, .arg = &s->shared->rng, .lossy = s->options.lossy};
}

void
sim_world_begin(struct sim *s)
{
    assert(s->loop == NULL);
    assert(list_empty(&s->ops));
    assert(list_empty(&s->files));
    s->cut = false;
    s->event_count = s->wait_count = s->turns_since_cut = 0;
    memset(s->points, 0, sizeof s->points);
    sim_note(TRACE_WORLD, s->options.seed, 0);
}

/* Its loop is closed. The disks become what the cut leaves of them. */
enum err
sim_world_end(struct sim *s, enum err rc, struct errbuf *eb)
{
    struct sim_lottery lottery = sim_lottery(s);

    assert(s->loop == NULL);
    sim_file_end(s);
    if (s->cut && (s->shared->cluster == NULL || s->member.power)) {
        sim_disk_cut(s->disk, &lottery);
        sim_index_cut(s);
    }
    if (s->cut)
        rc = err_set(eb, ERR_CANCELLED, "the power was cut at event %llu",
                     (unsigned long long)s->event_count);
    s->cut_at = s->disturb_at = s->cut_point_nth = 0;
    return rc;
}

enum err
sim_run_world(struct sim *s, fiber_fn *start, void *arg, struct errbuf *eb)
{
    struct rt_options options = {.loops = 1, .fibers_max = SIM_FIBERS_MAX};
    enum err rc;

    assert(sim_world == NULL);
    assert(s->shared == &s->own); /* nodes of a cluster: sim_host_start() */
    assert(s->events.count == 0);
    sim_world = s;
    s->own.next_port = 40000;
    sim_world_begin(s);
    log_set_clock(sim_wall_for_log);
    sim_openssl_begin(&s->own.rng_user);

    rc = rt_run_on(&sim_ops, &options, start, arg, eb);

    sim_openssl_end();
    log_set_clock(NULL);
    sim_net_end(&s->own);
    rc = sim_world_end(s, rc, eb);
    sim_world = NULL;
    return rc;
}

void
sim_cut_at(struct sim *s, uint64_t nth)
{
    s->cut_at = nth;
}

void
sim_disturb_wait(struct sim *s, uint64_t nth, enum err err)
{
    assert(err != ERR_OK);
    s->disturb_at = nth;
    s->disturb_err = err;
}

uint64_t
sim_events(const struct sim *s)
{
    return s->event_count;
}

uint64_t
sim_waits(const struct sim *s)
{
    return s->wait_count;
}

bool
sim_was_cut(const struct sim *s)
{
    return s->cut;
}

uint64_t
sim_random(void)
{
    assert(sim_world != NULL);
    return sim_rng_next(&sim_world->shared->rng_user);
}
