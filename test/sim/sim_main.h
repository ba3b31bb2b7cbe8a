/* sim_main: the driver of programs that run one scenario under many seeds.
 *
 *     static uint64_t run(uint64_t seed) { ... CHECK(...) ...; return sim_trace_hash(s); }
 *     int main(int argc, char **argv) { return sim_main(argc, argv, run); }
 *
 * --seeds N   that many, 100 if not said    --from S   the first, 1 if not said    --step S   from each to the next, 1 if not said
 * --seed S    this one only                 --hashes   prints the trace hash of each: two processes must agree
 *
 * Seeds run in this process, one after the other. Every sixteenth runs twice and must leave the same trace. A
 * seed that fails is printed, also when it ends the process or takes more than SEED_SECONDS of CPU time (on a machine that
 * others use, or that stands still for a while, a clock on the wall says nothing); the last line reads "N passed, N failed".
 */
#pragma once
#include <execinfo.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/hash.h"
#include "check.h"

#ifndef SEED_SECONDS
#define SEED_SECONDS 120
#endif

typedef uint64_t sim_seed_fn(uint64_t seed);

/* The next of the random numbers that a seed stands for: what a scenario is made of. */
static inline uint64_t
sim_draw(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    return hash_xxh3(state, sizeof *state, 1);
}

static volatile uint64_t sim_main_seed_;

void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak));

/* Only what a signal handler may call. */
static inline void
sim_main_say_seed_(void)
{
    char text[32];
    size_t at = sizeof text;
    uint64_t n = sim_main_seed_;

    text[--at] = '\n';
    do {
        text[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    if (write(STDERR_FILENO, "failing seed: ", 14) < 0 ||
        write(STDERR_FILENO, text + at, sizeof text - at) < 0)
        return;
}

/* A fiber that never switches again: nothing in the simulator can see it. */
static inline void
sim_main_on_time_(int signo)
{
    static const char text[] = "a seed takes too long; it is here:\n";
    void *frames[32];

    (void)signo;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(1);
    backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
    abort();
}

static inline void
sim_main_on_signal_(int signo)
{
    sim_main_say_seed_();
    signal(signo, SIG_DFL);
    raise(signo);
}

/* From now on this process, all its threads together, may use that much. */
static inline void
sim_main_allow_(time_t seconds)
{
    struct itimerval left = {.it_value.tv_sec = seconds};

    if (setitimer(ITIMER_PROF, &left, NULL) != 0)
        abort();
}

static inline bool
sim_main_one_(sim_seed_fn *run, uint64_t seed, bool hashes)
{
    unsigned before = check_failures_;
    uint64_t hash;

    sim_main_seed_ = seed;
    sim_main_allow_(SEED_SECONDS);
    hash = run(seed);
    if (seed % 16 == 0 && check_failures_ == before)
        CHECK_U64(run(seed), hash);
    if (hashes)
        printf("%" PRIu64 " %016" PRIx64 "\n", seed, hash);
    if (check_failures_ == before)
        return true;
    sim_main_say_seed_();
    return false;
}

static inline int
sim_main(int argc, char **argv, sim_seed_fn *run)
{
    uint64_t from = 1, count = 100, step = 1, failed = 0;
    bool hashes = false;

    (void)check_only_; /* of check.h, for programs with many cases */
    /* What one seed gives back the next one asks for: the kernel need not clear it in between. */
    (void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 256 << 20);
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(argv[i], "--hashes") == 0) {
            hashes = true;
            continue;
        }
        if (strcmp(argv[i], "--seeds") == 0) {
            count = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--from") == 0) {
            from = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--step") == 0) {
            step = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0) {
            from = strtoull(value, NULL, 10);
            count = 1;
        } else {
            fprintf(
                stderr,
                "%s: unknown argument \"%s\"; --seeds N, --from S, --step S, --seed S, "
                "--hashes\n",
                argv[0], argv[i]);
            return 2;
        }
        i++;
    }
    signal(SIGABRT, sim_main_on_signal_);
    signal(SIGPROF, sim_main_on_time_);
    if (__sanitizer_set_death_callback != NULL)
        __sanitizer_set_death_callback(sim_main_say_seed_);
    else
        signal(SIGSEGV, sim_main_on_signal_);
    for (uint64_t i = 0; i < count; i++)
        failed += !sim_main_one_(run, from + i * step, hashes);
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", count - failed, failed);
    return failed > 0 || count == 0;
}
