/* scratch: a folder of its own for a test of the disk, and a runtime to work in. */
#pragma once
#include <unistd.h>

#include "check.h"
#include "folder.h"
#include "rt/file.h"
#include "rt/loop.h"

static char scratch_path[64];

/* Runs fn(arg) as the first fiber of a runtime of its own, with an empty folder at scratch_path. */
static inline void
scratch_run(unsigned loops, fiber_fn *fn, void *arg)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = loops, .workers = 2};
    struct errbuf eb = {0};

    snprintf(scratch_path, sizeof scratch_path, "/tmp/forebay-test-XXXXXX");
    REQUIRE(mkdtemp(scratch_path) != NULL);
    CHECK(rt_run(&o, fn, arg, &eb) == ERR_OK);
    if (eb.text[0] != '\0')
        fprintf(stderr, "%s\n", eb.text);
    folder_remove(scratch_path);
}

static inline uint64_t
scratch_random(void)
{
    static uint64_t seed = 1;

    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 20;
}
