#include "rt/point.h"

#ifdef FB_TEST_HOOKS
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rt/fiber.h"
#include "rt/sim_engine.h"
#include "rt/test_hooks.h"

static const char *const names[POINTS_] = {
#define X(id, name) [POINT_##id] = name,
    POINT_TABLE(X)
#undef X
};

#define FAULTS_MAX 8

enum action { KILL, SLEEP, FAIL };
static struct {
    enum point at;
    uint64_t nth;
    enum action action;
    uint64_t ms;
} faults[FAULTS_MAX];
static unsigned fault_count;
static _Atomic uint64_t passed[POINTS_];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static _Noreturn void
point_refuse(const char *text, const char *why)
{
    fprintf(stderr,
            "FOREBAY_FAULT: \"%s\": %s; wanted NAME:N:kill, NAME:N:sleep=MS or "
            "NAME:N:error\n",
            text, why);
    abort();
}

static bool
read_action(const char *text, enum action *action, uint64_t *ms)
{
    char end;

    *action = strcmp(text, "kill") == 0 ? KILL : FAIL;
    if (strcmp(text, "kill") == 0 || strcmp(text, "error") == 0)
        return true;
    *action = SLEEP;
    return sscanf(text, "sleep=%" SCNu64 "%c", ms, &end) == 1;
}

static void
read_fault(char *text)
{
    char *number = strchr(text, ':'),
         *action = number != NULL ? strchr(number + 1, ':') : NULL;
    unsigned p = 0;

    if (action == NULL || fault_count == FAULTS_MAX)
        point_refuse(text, action == NULL ? "not three words" : "too many");
    *number++ = '\0';
    *action++ = '\0';
    while (p < POINTS_ && strcmp(names[p], text) != 0)
        p++;
    if (p == POINTS_)
        point_refuse(text, "there is no such point");
    faults[fault_count].at = (enum point)p;
    faults[fault_count].nth = strtoull(number, NULL, 10);
    if (faults[fault_count].nth == 0)
        point_refuse(number, "is not a number from 1");
    if (!read_action(action, &faults[fault_count].action, &faults[fault_count].ms))
        point_refuse(action, "is not an action");
    fault_count++;
    assert(fault_count <= FAULTS_MAX);
}

static void
read_faults(void)
{
    const char *text = getenv("FOREBAY_FAULT");
    char *copy = text != NULL ? strdup(text) : NULL, *rest = copy;

    while (rest != NULL && *rest != '\0') {
        char *fault = rest, *comma = strchr(rest, ',');

        rest = comma != NULL ? comma + 1 : NULL;
        if (comma != NULL)
            *comma = '\0';
        read_fault(fault);
    }
    free(copy);
}

/* A test may need a long time to reach its middle. */
static bool
point_counts(void)
{
    static _Atomic bool begun;
    const char *from = getenv("FOREBAY_FAULT_FROM");

    if (fault_count > 0 && !begun && (from == NULL || access(from, F_OK) == 0))
        begun = true;
    return begun;
}

static void
point_act(enum action action, uint64_t ms)
{
    struct rt_test_io *io = rt_test_io();

    switch (action) {
    case KILL:
        (void)raise(SIGKILL);
        break;
    case SLEEP:
        if (rt_self() == NULL)
            (void)usleep((useconds_t)(ms * 1000));
        else if (rt_sleep_ms(ms) != ERR_OK)
            return; /* cancelled: the next wait reports it */
        break;
    case FAIL:
        io->error = EIO;
        io->disk = io->skip = io->seen = 0;
        io->count = 1;
        io->kinds = UINT64_MAX;
        break;
    }
}

void (*rt_test_on_point)(enum point p);

void
point_pass(enum point p)
{
    uint64_t nth;

    assert(p < POINTS_);
    if (sim_world != NULL) {
        sim_point(p);
        return;
    }
    if (rt_test_on_point != NULL)
        rt_test_on_point(p);
    (void)pthread_once(&once, read_faults);
    if (!point_counts())
        return;
    nth = atomic_fetch_add(&passed[p], 1) + 1;
    for (unsigned i = 0; i < fault_count; i++) {
        if (faults[i].at == p && faults[i].nth == nth)
            point_act(faults[i].action, faults[i].ms);
    }
}
#endif
