/* scratch: a folder of its own for a test of the disk, and a runtime to work in. */
#pragma once
#include <ftw.h>
#include <unistd.h>

#include "check.h"
#include "rt/file.h"
#include "rt/loop.h"

static char scratch_path[64];

static inline int
scratch_remove_(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

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
    (void)nftw(scratch_path, scratch_remove_, 16, FTW_DEPTH | FTW_PHYS);
}

static inline uint64_t
scratch_random(void)
{
    static uint64_t seed = 1;

    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 20;
}
