/* The driver of the simulations ends a seed that never comes to an end, and counts CPU time for that: not the time that
 * the machine stood still, or gave to others. */
#define SEED_SECONDS 1
#include "sim/sim_main.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

static uint64_t
rests(uint64_t seed)
{
    struct timespec longer = {.tv_sec = SEED_SECONDS + 1};

    while (nanosleep(&longer, &longer) != 0)
        continue;
    return seed;
}

static uint64_t
spins(uint64_t seed)
{
    static volatile bool ends;

    while (!ends)
        seed++;
    return seed;
}

/* The status of a process that runs seed 17 so; what it says is in `out`. */
static int
status_of(sim_seed_fn *run, char *out, size_t size)
{
    static char name[] = "test_sim_main", seed[] = "--seed", which[] = "17";
    char *argv[] = {name, seed, which, NULL};
    int said[2], status = 0;
    size_t len = 0;
    ssize_t n;
    pid_t child;

    out[0] = '\0';
    if (pipe(said) != 0 || (child = fork()) < 0) {
        CHECK(!"a process");
        return 0;
    }
    if (child == 0) {
        struct rlimit no_core = {0};

        (void)setrlimit(RLIMIT_CORE, &no_core);
        dup2(said[1], STDERR_FILENO);
        dup2(said[1], STDOUT_FILENO);
        close(said[0]);
        close(said[1]);
        status = sim_main(3, argv, run);
        fflush(stdout);
        _exit(status);
    }
    close(said[1]);
    while ((n = read(said[0], out + len, size - 1 - len)) > 0)
        len += (size_t)n;
    out[len] = '\0';
    close(said[0]);
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void
test_time_that_others_take_is_not_counted(void)
{
    char said[4096];

    CHECK_U64(status_of(rests, said, sizeof said), 0);
    CHECK_SAYS(said, "1 passed, 0 failed");
}

static void
test_a_seed_without_an_end_is_named(void)
{
    char said[4096];
    int status = status_of(spins, said, sizeof said);

    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_SAYS(said, "a seed takes too long");
    CHECK_SAYS(said, "failing seed: 17");
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_time_that_others_take_is_not_counted);
    RUN(test_a_seed_without_an_end_is_named);
    return check_done();
}
