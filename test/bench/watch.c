/* watch CORE THREAD PID[,PID...] [CORE THREAD PID[,PID...]]...: when was a core away from THREAD, which is measured on it?
 *
 * A thread of ours on each core, before all others there (SCHED_FIFO), wakes every PERIOD_NS and writes down each time that something was
 * LEAST_NS or more, by the scheduler's own counts:
 *   late    from when its wake-up was due until it ran
 *   kept    how long of this it stood in the core's queue: the interrupt had come, and the core was kept by a system call that may not be
 *           interrupted, or by who ranks higher. The rest of `late` is the interrupt's own: no program keeps interrupts off for so long;
 *           the host had the core
 *   waited  how long THREAD wanted to run and stood in the queue, as told when that ended
 *   theirs  of this time the CPU used by the processes PID, but for THREAD: its helpers, which are no excuse for it
 * Prints "ready" once all watch. When its input ends it prints one line of JSON: gaps as [core, last awake, awake again, late, kept,
 * waited, theirs], all in ns, the two points in time of CLOCK_MONOTONIC. Exit 3: no real-time priority here. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    PERIOD_NS = 200000,
    LEAST_NS = 50000,
    CORES_MAX = 8,
    PIDS_MAX = 16,
    GAPS_MAX = 20000,
    BACK = 256, /* wake-ups that are remembered */
    PRIORITY = 50
};

struct gap {
    uint64_t from, until, late, kept, waited, theirs;
};

/* Of a thread, all in all. */
struct times {
    uint64_t ran, queued;
};

/* As it was at a wake-up. */
struct seen {
    uint64_t at, theirs;
};

struct watcher {
    pthread_t thread;
    int core;
    int of; /* schedstat of THREAD */
    clockid_t clocks[PIDS_MAX];
    unsigned clock_count;
    struct seen back[BACK];
    struct gap *gaps;
    unsigned gap_count, lost, wakes;
};

static struct watcher watchers[CORES_MAX];
static unsigned watcher_count;
static pthread_barrier_t begun;
static volatile bool over;

static void
die(const char *what)
{
    fprintf(stderr, "watch: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t
ns_of(clockid_t clock)
{
    struct timespec t;

    if (clock_gettime(clock, &t) != 0)
        return 0; /* the process has ended */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Of a thread that has ended: as before. */
static struct times
times_of(int schedstat, struct times before)
{
    struct times t;
    char text[96], *end;
    ssize_t n = pread(schedstat, text, sizeof text - 1, 0);

    if (n <= 0)
        return before;
    text[n] = '\0';
    t.ran = strtoull(text, &end, 10);
    t.queued = strtoull(end, NULL, 10);
    return t;
}

static uint64_t
theirs_ns(const struct watcher *w, uint64_t ran)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < w->clock_count; i++)
        sum += ns_of(w->clocks[i]);
    return sum > ran ? sum - ran : 0;
}

/* What they had used at that time, or a little before. */
static uint64_t
theirs_then(const struct watcher *w, uint64_t at)
{
    for (unsigned k = 1; k <= BACK && k <= w->wakes; k++) {
        const struct seen *s = &w->back[(w->wakes - k) % BACK];

        if (s->at <= at)
            return s->theirs;
    }
    return w->back[w->wakes % BACK].theirs; /* the oldest, or 0 */
}

static void
write_down(struct watcher *w, struct gap g)
{
    if (w->gap_count < GAPS_MAX)
        w->gaps[w->gap_count++] = g;
    else
        w->lost++;
}

static void *
watch(void *of)
{
    struct watcher *w = of;
    int own = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    struct times me, it;
    uint64_t last, due;

    if (own < 0)
        die("/proc/thread-self/schedstat");
    pthread_barrier_wait(&begun);
    last = ns_of(CLOCK_MONOTONIC);
    me = times_of(own, (struct times){0});
    it = times_of(w->of, (struct times){0});
    due = last + PERIOD_NS;
    while (!over) {
        struct timespec t = {.tv_sec = (time_t)(due / 1000000000u),
                             .tv_nsec = (long)(due % 1000000000u)};
        struct times me_now, it_now;
        struct gap g = {.from = last};
        uint64_t theirs;

        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        g.until = ns_of(CLOCK_MONOTONIC);
        me_now = times_of(own, me);
        it_now = times_of(w->of, it);
        theirs = theirs_ns(w, it_now.ran);
        g.late = g.until - due;
        g.kept = me_now.queued - me.queued;
        g.waited = it_now.queued - it.queued;
        if (g.waited >= LEAST_NS)
            g.theirs = theirs - theirs_then(w, last - g.waited);
        if (g.late >= LEAST_NS || g.waited >= LEAST_NS)
            write_down(w, g);
        w->back[w->wakes++ % BACK] = (struct seen){.at = g.until, .theirs = theirs};
        last = g.until;
        me = me_now;
        it = it_now;
        due += PERIOD_NS;
        if (due <= last)
            due = last + PERIOD_NS;
    }
    close(own);
    return NULL;
}

static void
start(struct watcher *w, const char *core, const char *thread, char *pids)
{
    char path[64];
    struct sched_param priority = {.sched_priority = PRIORITY};
    pthread_attr_t attr;
    cpu_set_t set;
    int rc;

    w->core = atoi(core);
    w->gaps = calloc(GAPS_MAX, sizeof *w->gaps);
    if (w->gaps == NULL)
        die("memory");
    memset(w->gaps, 1, GAPS_MAX * sizeof *w->gaps); /* no page fault later */
    snprintf(path, sizeof path, "/proc/%d/schedstat", atoi(thread)); /* any thread's */
    w->of = open(path, O_RDONLY | O_CLOEXEC);
    if (w->of < 0)
        die(path);
    for (char *pid = strtok(pids, ","); pid != NULL; pid = strtok(NULL, ",")) {
        if (w->clock_count == PIDS_MAX ||
            clock_getcpuclockid(atoi(pid), &w->clocks[w->clock_count]) != 0) {
            fprintf(stderr, "watch: \"%s\" is no process, or one too many\n", pid);
            exit(2);
        }
        w->clock_count++;
    }
    CPU_ZERO(&set);
    CPU_SET((size_t)w->core, &set);
    pthread_attr_init(&attr);
    pthread_attr_setaffinity_np(&attr, sizeof set, &set);
    pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
    pthread_attr_setschedparam(&attr, &priority);
    rc = pthread_create(&w->thread, &attr, watch, w);
    if (rc != 0) {
        fprintf(stderr, "watch: core %d: %s\n", w->core, strerror(rc));
        exit(rc == EPERM ? 3 : 1);
    }
}

static void
print_gaps(void)
{
    const char *between = "";
    unsigned lost = 0, wakes = 0;

    printf("{\"gaps\":[");
    for (unsigned i = 0; i < watcher_count; i++) {
        const struct watcher *w = &watchers[i];

        for (unsigned k = 0; k < w->gap_count; k++) {
            const struct gap *g = &w->gaps[k];

            printf("%s[%d,%llu,%llu,%llu,%llu,%llu,%llu]", between, w->core,
                   (unsigned long long)g->from, (unsigned long long)g->until,
                   (unsigned long long)g->late, (unsigned long long)g->kept,
                   (unsigned long long)g->waited, (unsigned long long)g->theirs);
            between = ",";
        }
        lost += w->lost;
        wakes += w->wakes;
    }
    printf("],\"lost\":%u,\"wakes\":%u}\n", lost, wakes);
}

int
main(int argc, char **argv)
{
    char byte;

    if (argc < 4 || argc % 3 != 1 || (argc - 1) / 3 > CORES_MAX) {
        fprintf(stderr, "watch CORE THREAD PID[,PID...] [CORE THREAD PID[,PID...]]...\n");
        return 2;
    }
    watcher_count = (unsigned)(argc - 1) / 3;
    if (pthread_barrier_init(&begun, NULL, watcher_count + 1) != 0)
        die("barrier");
    mlockall(MCL_CURRENT |
             MCL_FUTURE); /* where that is refused the pages are touched all the same */
    for (unsigned i = 0; i < watcher_count; i++)
        start(&watchers[i], argv[1 + 3 * i], argv[2 + 3 * i], argv[3 + 3 * i]);
    pthread_barrier_wait(&begun);
    printf("ready\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        continue;
    over = true;
    for (unsigned i = 0; i < watcher_count; i++)
        pthread_join(watchers[i].thread, NULL);
    print_gaps();
    return 0;
}
