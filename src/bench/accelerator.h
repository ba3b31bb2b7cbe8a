/* accelerator: emulated accelerators that train on what a source of files gives them.
 *
 * Each one has readers, which fetch pieces of files (order.h), and takes a batch each step: it waits until the batch is whole, then
 * sleeps for as long as the real chip would compute. Readers are at most `prefetch` batches ahead.
 *
 * Utilisation (AU) is time computed over time run. A step begins when the one before is over and its batch is there, and takes
 * exactly step_ns: that clock, not the moment at which a timer of this process fired, is what counts, so a client that wakes up late is
 * not charged to storage. The first prefetch + 1 steps are left out: they were fetched before anybody waited.
 *
 * An accelerator lives on one loop with its readers; with several loops they are dealt out. It knows nothing of what a source is.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/histogram.h"
#include "bench/order.h"

#define TRAIN_ACCELERATORS_MAX 4096
#define TRAIN_READERS_MAX      1024 /* of one */
#define TRAIN_PREFETCH_MAX     64
#define TRAIN_ERRORS_MAX       20

/* ---- the clock of one accelerator; plain arithmetic ---- */

struct au {
    uint64_t step_ns;
    uint32_t left_out; /* so many first steps do not count */
    uint64_t steps;    /* begun */
    uint64_t from_ns;  /* end of the last one that was left out */
    uint64_t end_ns;   /* of the latest step */
    uint64_t counted;  /* steps that count */
    uint64_t computed_ns, run_ns;
};
void au_begin(struct au *a, uint64_t step_ns, uint32_t left_out, uint64_t now_ns);
/* A batch was whole at ready_ns: the next step takes it. Returns for how long the accelerator waited. */
uint64_t au_step(struct au *a, uint64_t ready_ns);
/* The run is over at now_ns while the accelerator waits, or computes: waiting counts until then. */
void au_end(struct au *a, uint64_t now_ns);
double au_of(const struct au *a); /* 0 when no step counts */

/* ---- a run ---- */

/* Reads one piece to its end; *bytes is what came. May switch. */
typedef enum err train_fetch(void *arg, const struct train_piece *p, uint64_t *bytes,
                             struct errbuf *eb);

struct train_options {
    unsigned accelerators, readers, prefetch;
    unsigned loops; /* 0: this one alone; else from loop 0 */
    uint32_t batch;
    uint64_t step_ns;
    uint64_t duration_ms; /* 0: until the order has been read, which then is `once` */
    struct train_order *order;
    train_fetch *fetch; /* of several loops at once, where there are several */
    void *arg;
};
struct train_result {
    struct histogram wait; /* of a step for its batch */
    struct histogram took; /* requests */
    uint64_t steps, samples, bytes, requests, errors;
    uint64_t counted; /* steps that are not among the first; 0: the rest says nothing */
    uint64_t in_flight_ns;        /* of all requests: their times added up */
    uint64_t computed_ns, run_ns; /* of all accelerators */
    double seconds;
    double samples_s;    /* without the first steps */
    double au, au_least; /* of all accelerators, of the worst one */
    struct errbuf first_error;
};
/* *out is zeroed by the caller, on the heap. An error is tried again; more than TRAIN_ERRORS_MAX of them on a loop, or
 * being cancelled, end the run with their code. May switch. */
enum err train_run(const struct train_options *o, struct train_result *out,
                   struct errbuf *eb) MUST_CHECK;
