/* The checker is checked: a disk that lies about syncs, a write or a delete that is acknowledged and never happened, a
 * byte that is not the one that was sent, pieces of a body that never arrive. Each is planted into the lives of sim_disks.c, and a checker that does not
 * complain within a few tries fails. Each try is a process of its own, because a complaint is what is wanted there. */
#include "sim/disks_life.h"

#include <sys/wait.h>
#include <unistd.h>

#define TRIES 40

static bool
complains(uint64_t seed, enum plant plant)
{
    int status = 0;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(0);
        (void)lives(seed, 1, plant);
        _exit(check_failures_ > 0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status)); /* a crash is no complaint */
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static uint64_t
run(uint64_t seed)
{
    enum plant plant = 1 + (enum plant)(seed % (PLANTS_ - 1));
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
