/* engines: runs a case as the first fiber of a runtime, under each engine in turn. The
 * simulator has one loop: cases that want more are for the real ones. */
#pragma once
#include "check.h"
#include "rt/loop.h"
#include "rt/sim.h"

static const enum rt_engine engines_[] = {RT_EPOLL, RT_URING, RT_SIM};

static inline enum err
run_in_sim_(unsigned loops, fiber_fn *fn, void *arg, struct errbuf *eb)
{
    struct sim *s;
    enum err rc;

    if (loops > 1)
        return ERR_OK;
    s = sim_new(&(struct sim_options){.seed = 1, .calm = true, .max_delay_us = 100});
    rc = sim_run_world(s, fn, arg, eb);
    sim_free(&s);
    return rc;
}

static inline void
run_fiber(enum rt_engine engine, unsigned loops, fiber_fn *fn, void *arg)
{
    struct rt_options o = {
        .engine = engine, .loops = loops, .workers = 4, .worker_queue = 8};
    struct errbuf eb = {0};
    enum err rc =
        engine == RT_SIM ? run_in_sim_(loops, fn, arg, &eb) : rt_run(&o, fn, arg, &eb);

    /* qemu-user has no io_uring at all; a kernel that merely forbids it is a failure here. */
    if (engine == RT_URING && strstr(eb.text, "Function not implemented") != NULL) {
        fprintf(stderr, "SKIPPED engine uring: %s\n", eb.text);
        return;
    }
    if (rc != ERR_OK)
        fprintf(stderr, "engine %s: %s: %s\n", rt_engine_name(engine), err_name(rc),
                eb.text);
    CHECK(rc == ERR_OK);
}

/* A case that runs `fn` on `loops` loops, once for each engine. */
#define CASE(name, loops, fn)                                                            \
    static void name(void)                                                               \
    {                                                                                    \
        for (unsigned i_ = 0; i_ < sizeof engines_ / sizeof engines_[0]; i_++)           \
            run_fiber(engines_[i_], (loops), (fn), NULL);                                \
    }
/* The same without the simulator: what only a kernel does. */
#define REAL_CASE(name, loops, fn)                                                       \
    static void name(void)                                                               \
    {                                                                                    \
        for (unsigned i_ = 0; i_ < 2; i_++)                                              \
            run_fiber(engines_[i_], (loops), (fn), NULL);                                \
    }
