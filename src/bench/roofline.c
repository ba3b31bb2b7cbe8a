#include "bench/roofline.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"

#define USED_UP                                                                          \
    0.8 /* what limits a run is used at least so far; the rest is waiting and unevenness */
#define NO_WAIT  0.99 /* utilisation from which on the accelerators are the limit */
#define BAR      24   /* characters of a whole one */
#define PER_CENT 100

static const struct {
    const char *name, *json;
    const char *limits; /* the begin of the sentence */
    const char *advice;
} ceilings[CEILINGS_] = {
    [CEILING_NETWORK] = {"network", "network", "The network limits this run",
                         "a faster network, or fewer bytes a sample"},
    [CEILING_PATH] = {"path", "path", "The path to the server limits this run",
                      "compare the CPU of both ends, then the network"},
    [CEILING_DISK] = {"disks", "disk", "The server's disks limit this run",
                      "more disks, or more memory for objects that are read again"},
    [CEILING_SERVER_CPU] = {"server CPU", "server_cpu",
                            "The server's CPU limits this run",
                            "more cores for the server; no TLS where none is needed"},
    [CEILING_CLIENT_CPU] = {"client CPU", "client_cpu",
                            "The CPU of this client limits this run",
                            "run further clients on other machines: storage may do more"},
    [CEILING_MACHINE_CPU] = {"machine CPU", "machine_cpu",
                             "The CPU that client and server share limits this run",
                             "run the client on another machine: storage may do more"},
    [CEILING_BACKEND] = {"backend", "backend",
                         "What stands behind the server limits this run",
                         "read the set once before training: forebay prefetch"},
    [CEILING_IN_FLIGHT] = {"in flight", "in_flight",
                           "Too few concurrent requests limit this run",
                           "more readers: --readers, or larger requests: --request"},
};

const char *
ceiling_name(enum ceiling c)
{
    return ceilings[c].name;
}

void
roofline_set(struct roofline *r, enum ceiling c, double samples_s, const char *how, ...)
{
    va_list args;

    r->at[c].samples_s = samples_s;
    va_start(args, how);
    (void)vsnprintf(r->at[c].how, sizeof r->at[c].how, how, args);
    va_end(args);
}

void
roofline_add_run(struct roofline *r, const struct roofline_run *run)
{
    if (r->run_count < ROOFLINE_RUNS)
        r->runs[r->run_count++] = *run;
}

static double
used(const struct roofline *r, enum ceiling c)
{
    return r->at[c].samples_s > 0 ? r->reported.samples_s / r->at[c].samples_s : 0;
}

/* A resource is more telling than the way through several, and that more than how often we asked. */
enum ceiling
roofline_limit(const struct roofline *r)
{
    static const enum ceiling by_rank[] = {CEILING_DISK,        CEILING_BACKEND,
                                           CEILING_SERVER_CPU,  CEILING_CLIENT_CPU,
                                           CEILING_MACHINE_CPU, CEILING_NETWORK};
    enum ceiling best = CEILING_DISK;

    if (r->reported.au >= NO_WAIT)
        return CEILINGS_;
    for (size_t i = 0; i < ARRAY_LEN(by_rank); i++)
        if (used(r, by_rank[i]) > used(r, best))
            best = by_rank[i];
    if (used(r, best) < USED_UP)
        best = CEILING_PATH;
    if (used(r, best) < USED_UP && r->who == NULL) /* ranks do nothing but wait */
        best = CEILING_IN_FLIGHT;
    return used(r, best) >= USED_UP ? best : CEILINGS_;
}

static bool
is_of_others(const struct roofline *r, enum ceiling c)
{
    return c == CEILING_MACHINE_CPU && r->others > 0.5;
}

/* The lowest ceiling but `but`; CEILINGS_: no other is known. */
static enum ceiling
next_ceiling(const struct roofline *r, enum ceiling but)
{
    enum ceiling out = CEILINGS_;

    for (enum ceiling c = 0; c < CEILINGS_; c++)
        if (c != but && c != CEILING_IN_FLIGHT && r->at[c].samples_s > 0 &&
            (out == CEILINGS_ || r->at[c].samples_s < r->at[out].samples_s))
            out = c;
    return out;
}

static const char *
rate_text(const struct roofline *r, double samples_s, char out[NUM_SIZE_TEXT])
{
    return num_size_text((uint64_t)(samples_s * r->sample_bytes), out);
}

static const char *
unit_of(const struct roofline *r)
{
    return r->unit != NULL ? r->unit : "samples";
}

void
roofline_verdict(const struct roofline *r, struct buf *out)
{
    enum ceiling limit = roofline_limit(r), next = next_ceiling(r, limit);
    char rate[NUM_SIZE_TEXT];

    rate_text(r, r->reported.samples_s, rate);
    if (limit == CEILINGS_ && r->reported.au >= NO_WAIT)
        buf_printf(out,
                   "Storage does not limit this run: %u accelerators wait for less than "
                   "1 %% of their time at %.0f samples/s (%s/s)",
                   r->reported.accelerators, r->reported.samples_s, rate);
    else if (limit == CEILINGS_ && r->who != NULL)
        buf_printf(
            out,
            "No resource is used up: %u %s %.0f %s/s, and wait for single answers; "
            "look at the p99 of requests, or have more at a time (--readers)",
            r->reported.accelerators, r->who, r->reported.samples_s, unit_of(r));
    else if (limit == CEILINGS_)
        buf_printf(
            out,
            "No resource is used up, yet %u accelerators wait for %.0f %% of their "
            "time: single batches come late; look at the p99 of requests, or read "
            "further ahead (--prefetch)",
            r->reported.accelerators, (1 - r->reported.au) * PER_CENT);
    else
        buf_printf(out, "%s: %u %s %.0f %s/s (%s/s), %.0f %% of %.0f",
                   is_of_others(r, limit) ? "Other work on this machine limits this run"
                                          : ceilings[limit].limits,
                   r->reported.accelerators,
                   r->who != NULL ? r->who : "accelerators take", r->reported.samples_s,
                   unit_of(r), rate, used(r, limit) * PER_CENT, r->at[limit].samples_s);
    if (next != CEILINGS_)
        buf_printf(out, "; the next ceiling is %s at %.0f", ceilings[next].name,
                   r->at[next].samples_s);
    if (is_of_others(r, limit))
        buf_puts(out, ". Try: measure when nothing else runs here");
    else if (limit != CEILINGS_)
        buf_printf(out, ". Try: %s", ceilings[limit].advice);
    buf_puts(out, ".");
}

static void
bar(struct buf *out, double share)
{
    int filled = (int)(MIN(share, 1.0) * BAR + 0.5);

    buf_printf(out, "|%.*s%.*s|", filled, "########################", BAR - filled,
               "                        ");
}

void
roofline_text(const struct roofline *r, struct buf *out)
{
    enum ceiling limit = roofline_limit(r);
    char rate[NUM_SIZE_TEXT];

    buf_printf(out, "%-12s %10s/s %10s/s  used\n", "ceiling", unit_of(r), "bytes");
    for (enum ceiling c = 0; c < CEILINGS_; c++) {
        if (r->at[c].samples_s <= 0) {
            buf_printf(out, "%-12s %12s %12s  %s\n", ceilings[c].name, "-", "-",
                       r->at[c].how);
            continue;
        }
        buf_printf(out, "%-12s %12.0f %10s/s  ", ceilings[c].name, r->at[c].samples_s,
                   rate_text(r, r->at[c].samples_s, rate));
        bar(out, used(r, c));
        buf_printf(out, " %3.0f %%%s  %s\n", used(r, c) * PER_CENT,
                   c == limit ? " <--" : "", r->at[c].how);
    }
}

static void
json_run(struct json *j, const char *key, const struct roofline_run *run)
{
    json_open_object(j, key);
    json_u64(j, "accelerators", run->accelerators);
    json_f64(j, "samples_per_second", run->samples_s);
    json_f64(j, "au", run->au);
    json_bool(j, "passed", run->passed);
    json_end(j);
}

void
roofline_json(const struct roofline *r, struct json *j, const char *key)
{
    enum ceiling limit = roofline_limit(r);
    struct buf verdict;

    buf_init(&verdict, KIB(4));
    roofline_verdict(r, &verdict);
    json_open_object(j, key);
    if (r->demand > 0)
        json_f64(j, "demand_samples_per_second_each", r->demand);
    json_f64(j, "sample_bytes", r->sample_bytes);
    json_open_object(j, "ceilings");
    for (enum ceiling c = 0; c < CEILINGS_; c++) {
        json_open_object(j, ceilings[c].json);
        if (r->at[c].samples_s > 0) {
            json_f64(j, "samples_per_second", r->at[c].samples_s);
            json_f64(j, "bytes_per_second", r->at[c].samples_s * r->sample_bytes);
            json_f64(j, "used", used(r, c));
        }
        json_text(j, "how", r->at[c].how);
        json_end(j);
    }
    json_end(j);
    json_open_array(j, "runs");
    for (unsigned i = 0; i < r->run_count; i++)
        json_run(j, NULL, &r->runs[i]);
    json_end(j);
    json_run(j, "reported", &r->reported);
    json_text(j, "limit",
              limit != CEILINGS_          ? ceilings[limit].json
              : r->reported.au >= NO_WAIT ? "accelerators"
                                          : "latency");
    json_span(j, "verdict", buf_span(&verdict));
    json_end(j);
    buf_fini(&verdict);
}
