#include "rt/sim_cluster.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "rt/sim_engine.h"

struct sim_cluster {
    struct sim_options options;
    struct sim_shared shared;
    struct sim *at[SIM_CLUSTER_MAX]; /* owned */
    unsigned count;
    bool running;
    bool cut[SIM_CLUSTER_MAX][SIM_CLUSTER_MAX]; /* from, to */
    uint32_t delay_us[SIM_CLUSTER_MAX][SIM_CLUSTER_MAX];
    unsigned resets; /* of 10,000 */
};

static const struct rt_options runtime_options = {.loops = 1,
                                                  .fibers_max = SIM_FIBERS_MAX};

static bool
sim_cluster_holds(const struct sim *s)
{
    const struct sim_cluster *c = s->shared->cluster;

    return c != NULL && s->member.index < c->count && c->at[s->member.index] == s;
}

/* ---- contexts ---- */

/* Where there is no cluster the world that runs is entered already. */
struct sim_context
sim_enter(struct sim *s)
{
    struct sim_context before = {.world = sim_world};

    if (s->shared->cluster == NULL)
        return before;
    assert(sim_cluster_holds(s));
    sim_world = s;
    before.runtime = runtime_enter(s->member.runtime);
    return before;
}

/* What was done there may have made its fibers ready. */
void
sim_leave(struct sim_context before)
{
    struct sim *s = sim_world;

    if (s->shared->cluster == NULL)
        return;
    if (s != before.world && s->member.runtime != NULL)
        s->member.ready_ns = MIN(s->member.ready_ns, s->shared->now_ns + 1);
    sim_world = before.world;
    (void)runtime_enter(before.runtime);
}

/* ---- the network between nodes ---- */

struct sim *
sim_member_at(const struct sim *from, const char *addr)
{
    const struct sim_cluster *c = from->shared->cluster;

    for (unsigned i = 0; c != NULL && i < c->count; i++) {
        if (strcmp(c->at[i]->member.addr, addr) == 0)
            return c->at[i];
    }
    return NULL;
}

bool
sim_way_is_cut(const struct sim *from, const struct sim *to)
{
    const struct sim_cluster *c = from->shared->cluster;

    return c != NULL && c->cut[from->member.index][to->member.index];
}

uint64_t
sim_way_delay_ns(const struct sim *from, const struct sim *to)
{
    const struct sim_cluster *c = from->shared->cluster;

    return c != NULL ? c->delay_us[from->member.index][to->member.index] * UINT64_C(1000)
                     : 0;
}

bool
sim_way_resets(const struct sim *from, const struct sim *to)
{
    struct sim_cluster *c = from->shared->cluster;

    return c != NULL && from != to && c->resets > 0 &&
           sim_rng_next(&c->shared.rng) % 10000 < c->resets;
}

void
sim_cluster_cut(struct sim *from, struct sim *to, bool cut)
{
    assert(sim_cluster_holds(from));
    assert(sim_cluster_holds(to));
    assert(from != to);
    from->shared->cluster->cut[from->member.index][to->member.index] = cut;
}

void
sim_cluster_slow(struct sim *from, struct sim *to, uint32_t delay_us)
{
    assert(sim_cluster_holds(from));
    assert(sim_cluster_holds(to));
    assert(from != to);
    from->shared->cluster->delay_us[from->member.index][to->member.index] = delay_us;
}

void
sim_cluster_resets(struct sim_cluster *c, unsigned of_10000)
{
    assert(of_10000 <= 10000);
    c->resets = of_10000;
}

/* ---- nodes ---- */

struct sim *
sim_cluster_add(struct sim_cluster *c, const struct sim_cluster_node *node)
{
    struct sim *s = sim_new(&c->options);
    struct sim_member *m = &s->member;

    assert(c->count < SIM_CLUSTER_MAX);
    assert(strlen(node->name) > 0 && strlen(node->name) < sizeof m->name);
    assert(strlen(node->addr) > 0 && strlen(node->addr) < sizeof m->addr);
    assert(node->rate_ppm > -1000000 && node->rate_ppm < 1000000);
    s->shared = &c->shared;
    *m = (struct sim_member){.index = c->count,
                             .offset_ns = node->offset_ns,
                             .rate_ppm = node->rate_ppm,
                             .ready_ns = UINT64_MAX};
    memcpy(m->name, node->name, strlen(node->name) + 1);
    memcpy(m->addr, node->addr, strlen(node->addr) + 1);
    assert(sim_member_at(s, node->addr) == NULL);
    sim_jump_clock(s, node->wall_ms);
    c->at[c->count++] = s;
    return s;
}

bool
sim_cluster_is_up(const struct sim *node)
{
    return node->member.runtime != NULL || node->member.start != NULL;
}

void
sim_cluster_start(struct sim *node, fiber_fn *fn, void *arg)
{
    struct sim_member *m = &node->member;

    assert(sim_cluster_holds(node));
    assert(!sim_cluster_is_up(node));
    assert(fn != NULL);
    m->start = fn;
    m->arg = arg;
    m->paused = false;
    m->power = true;
    m->ready_ns = node->shared->now_ns;
}

void
sim_cluster_crash(struct sim *node, enum sim_crash how)
{
    struct sim_context before;

    assert(node != sim_world); /* the script survives */
    assert(sim_cluster_is_up(node));
    if (node->member.runtime == NULL) { /* it has done nothing yet */
        node->member.start = NULL;
        return;
    }
    if (node->cut)
        return;
    node->member.power = how == SIM_POWER;
    node->member.paused = false; /* so that it can unwind */
    before = sim_enter(node);
    sim_cut_power(node);
    sim_leave(before);
}

void
sim_cluster_pause(struct sim *node, bool paused)
{
    assert(node != sim_world);
    node->member.paused = paused && !node->cut;
}

bool
sim_cluster_is_paused(const struct sim *node)
{
    return node->member.paused;
}

/* ---- turns ---- */

static void
sim_cluster_open(struct sim *s)
{
    struct sim_member *m = &s->member;
    struct errbuf eb = {{0}};

    sim_world_begin(s);
    if (runtime_open(&runtime_options, m->start, m->arg, &m->runtime, &eb) != ERR_OK) {
        fprintf(stderr, "sim: node %s: %s\n", m->name, eb.text);
        abort(); /* the host machine fails: nothing to test there */
    }
    m->start = NULL;
    m->ready_ns = s->shared->now_ns;
    (void)runtime_enter(m->runtime);
}

static void
sim_cluster_close(struct sim *s)
{
    struct sim_member *m = &s->member;

    LIST_EACH(&s->shared->listeners, n)
    {
        assert(!sim_net_listens(n, s)); /* else a leak */
    }
    runtime_close(&m->runtime);
    (void)sim_world_end(s, ERR_OK, NULL);
    m->ready_ns = UINT64_MAX;
}

/* When something of this node is due; UINT64_MAX: nothing is. */
static uint64_t
sim_cluster_due(const struct sim *s)
{
    bool works = s->member.runtime != NULL || s->member.start != NULL;

    if (s->member.paused)
        return UINT64_MAX;
    return MIN(timer_next(&s->events), works ? s->member.ready_ns : UINT64_MAX);
}

static void
sim_cluster_step(struct sim *s)
{
    struct sim_member *m = &s->member;

    assert(sim_world == NULL);
    sim_world = s;
    (void)runtime_enter(m->runtime);
    if (m->start != NULL)
        sim_cluster_open(s);
    timer_run(&s->events, s->shared->now_ns);
    if (m->runtime != NULL && !runtime_turn(m->runtime))
        sim_cluster_close(s);
    (void)runtime_enter(NULL);
    sim_world = NULL;
}

static _Noreturn void
sim_cluster_stuck(const struct sim_cluster *c, const char *what)
{
    fprintf(stderr, "sim: seed %llu, %.9f s: %s\n", (unsigned long long)c->options.seed,
            (double)c->shared.now_ns / 1e9, what);
    for (unsigned i = 0; i < c->count; i++) {
        if (c->at[i]->member.runtime != NULL)
            sim_report_fibers(c->at[i]);
    }
    abort();
}

/* The next node, and how late it is then. Of several that are due at once the first one. */
static struct sim *
sim_cluster_next(const struct sim_cluster *c, uint64_t *due)
{
    struct sim *next = NULL;

    *due = UINT64_MAX;
    for (unsigned i = 0; i < c->count; i++) {
        uint64_t at = sim_cluster_due(c->at[i]);

        if (at >= *due)
            continue;
        *due = at;
        next = c->at[i];
    }
    return next;
}

enum err
sim_cluster_run(struct sim_cluster *c, struct sim *first, fiber_fn *script, void *arg,
                struct errbuf *eb)
{
    assert(!c->running);
    assert(sim_world == NULL);
    assert(sim_cluster_holds(first));
    c->running = true;
    log_set_clock(sim_wall_for_log);
    sim_openssl_begin(&c->shared.rng_user);
    runtimes_begin(&sim_ops);
    sim_cluster_start(first, script, arg);
    while (sim_cluster_is_up(first)) {
        uint64_t due;
        struct sim *next = sim_cluster_next(c, &due);

        if (next == NULL)
            sim_cluster_stuck(c, "deadlock: every fiber waits and no event is due");
        c->shared.now_ns = MAX(c->shared.now_ns, due);
        sim_cluster_step(next);
    }
    for (unsigned i = 0; i < c->count; i++) {
        if (sim_cluster_is_up(c->at[i]))
            sim_cluster_stuck(c, "the script has ended, and a node is still up");
    }
    runtimes_end();
    sim_openssl_end();
    log_set_clock(NULL);
    c->running = false;
    if (first->cut)
        return err_set(eb, ERR_CANCELLED, "the script's node was cut");
    return ERR_OK;
}

/* ---- the whole ---- */

struct sim_cluster *
sim_cluster_new(const struct sim_options *options)
{
    struct sim_cluster *c = xcalloc(1, sizeof *c);

    c->options = *options;
    c->shared.cluster = c;
    c->shared.rng.state = options->seed;
    c->shared.rng_user.state = sim_rng_next(&c->shared.rng);
    c->shared.now_ns = 1000000000u;
    c->shared.next_port = 40000;
    list_init(&c->shared.listeners);
    return c;
}

void
sim_cluster_free(struct sim_cluster **cp)
{
    struct sim_cluster *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    assert(!c->running);
    for (unsigned i = 0; i < c->count; i++)
        sim_free(&c->at[i]);
    sim_net_end(&c->shared);
    free(c);
}

uint64_t
sim_cluster_trace(const struct sim_cluster *c)
{
    return c->shared.trace;
}

uint64_t
sim_cluster_now_ns(const struct sim_cluster *c)
{
    return c->shared.now_ns;
}
