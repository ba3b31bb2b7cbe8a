/* load: some fibers do one thing over and over, so often or so long, and it is kept how long each took.
 *
 * A loop is closed: a worker begins again when it has ended. With a rate it is open: step n is due at its time whatever the others do, and
 * how long it took counts from then, so a server that stalls cannot hide the requests that had to wait. Fibers only; load_run() may switch. The caller may be
 * cancelled: workers end after what they do, and what was done until then is the result.
 */
#pragma once
#include <stdbool.h>

#include "base/err.h"
#include "bench/histogram.h"

#define LOAD_ERRORS_MAX 20 /* more make no measurement: load_run() ends */

/* What one step tells of itself. */
struct load_sample {
    uint64_t bytes;    /* of bodies, either way */
    uint64_t items;    /* keys of a page; else 1 */
    uint64_t first_ns; /* from its begin to the first byte; 0: not told */
    uint64_t took_ns;  /* filled in for on_step() */
    unsigned kind;     /* the step's own */
};
/* `number` counts from 0 over all workers. May switch. */
typedef enum err load_step(void *arg, uint64_t number, struct load_sample *out,
                           struct errbuf *eb);

struct load_options {
    unsigned concurrency;
    uint64_t count;       /* 0: no limit */
    uint64_t duration_ms; /* 0: no limit; a count then */
    uint64_t per_second;  /* 0: closed */
    void (*on_step)(void *arg,
                    const struct load_sample *s); /* NULL: none; for progress */
    void *arg;
};
struct load_result {
    struct histogram took, first;
    uint64_t done, items, bytes, errors;
    double seconds;
    struct errbuf first_error; /* its sentence */
};
/* Returns the code of the last error when there were more than LOAD_ERRORS_MAX or nothing was done; *out (zeroed by the
 * caller, on the heap) is filled in every case. ERR_BUSY: not even one worker could start. */
enum err load_run(const struct load_options *o, load_step *step, void *arg,
                  struct load_result *out, struct errbuf *eb) MUST_CHECK;
