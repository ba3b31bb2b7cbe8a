/* planted: the checkers are checked. A bug is planted into the lives of a simulation; a checker that does not complain within
 * a few tries fails. Each try is a process of its own, because a complaint is what is wanted there. */
#pragma once
#include <sys/wait.h>

#include "sim/sim_main.h"

/* One life with this bug, or lives; what it thinks of them it says by CHECK. */
typedef void planted_fn(uint64_t seed, unsigned plant);

static inline bool
planted_complains(planted_fn *life, uint64_t seed, unsigned plant)
{
    int status = 0;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(0);
        life(seed, plant);
        _exit(check_failures_ > 0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status)); /* a crash is no complaint */
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

/* The seed chooses which of the bugs 1 to `plants`. How many tries passed without a complaint. */
static inline uint64_t
planted_tries(planted_fn *life, uint64_t seed, unsigned plants, uint64_t most)
{
    unsigned plant = 1 + (unsigned)(seed % plants);
    uint64_t tries = 0;

    while (tries < most && !planted_complains(life, seed * most + tries, plant))
        tries++;
    CHECK(tries < most);
    return tries;
}
