/* engines: runs a case as the first fiber of a runtime, under each real engine in turn. */
#pragma once
#include "check.h"
#include "rt/loop.h"

static const enum rt_engine engines_[] = {RT_EPOLL, RT_URING};

static inline void
run_fiber(enum rt_engine engine, unsigned loops, fiber_fn *fn, void *arg)
{
    struct rt_options o = {
        .engine = engine, .loops = loops, .workers = 4, .worker_queue = 8};
    struct errbuf eb = {0};
    enum err rc = rt_run(&o, fn, arg, &eb);

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
