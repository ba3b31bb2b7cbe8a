/* The checker of sim_hole.c is checked: how far the cached log was promised is forgotten, or said to be further than was
 * synced. A checker that does not complain within a few tries fails. Each try is a process of its own, because a complaint is
 * what is wanted there. */
#include "sim/hole_life.h"

#include <sys/wait.h>

#define TRIES 60

static bool
complains(uint64_t seed, enum hole_plant plant)
{
    int status = 0;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(0);
        (void)hole_life(seed, plant == HOLE_PLANT_FORGOTTEN ? HOLE_AT_END : HOLE_NOWHERE,
                        plant);
        _exit(check_failures_ > 0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status)); /* a crash is no complaint */
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static uint64_t
run(uint64_t seed)
{
    enum hole_plant plant = 1 + (enum hole_plant)(seed % (HOLE_PLANTS_ - 1));
    uint64_t tries = 0;

    while (tries < TRIES && !complains(seed * TRIES + tries, plant))
        tries++;
    CHECK(tries < TRIES);
    return tries;
}

int
main(int argc, char **argv)
{
    log_set_level(LOG_ERROR + 1);
    return sim_main(argc, argv, run);
}
