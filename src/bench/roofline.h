/* roofline: what a machine allows, what is asked of it, and what it gave: as one sentence, as text, as a picture.
 *
 * A ceiling is how many samples a second one resource would allow if it were the only limit. Each was measured, or read from the
 * server, or it is not known and says why; none is assumed. What a run used of a resource is its samples over the ceiling. Plain data.
 */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "wire/json.h"

enum ceiling {
    CEILING_NETWORK, /* a TCP stream of this machine to itself */
    CEILING_PATH,    /* one object again and again: server's memory, network, HTTP */
    CEILING_DISK, /* reads of what lies on the server's disks, as far as the run read there */
    CEILING_SERVER_CPU,  /* its cores over what a sample cost them */
    CEILING_CLIENT_CPU,  /* ours */
    CEILING_MACHINE_CPU, /* all cores, where both share a machine */
    CEILING_BACKEND, /* what came from behind the server at best, over the share that had to */
    CEILING_IN_FLIGHT, /* requests at a time over how long one takes */
    CEILINGS_
};
const char *ceiling_name(enum ceiling c); /* "server CPU" */

#define ROOFLINE_HOW  160
#define ROOFLINE_RUNS 64
struct roofline_run {
    unsigned accelerators;
    double samples_s, au;
    bool passed;
};
struct roofline {
    const char *profile;
    const char *unit,
        *who;            /* "MB", "ranks write"; NULL: samples that accelerators take */
    double sample_bytes; /* on average, as read */
    double demand;       /* samples/s of one accelerator that never waits */
    double floor;
    struct {
        double samples_s;       /* 0: not known, or not used */
        char how[ROOFLINE_HOW]; /* how it was measured, or why not */
    } at[CEILINGS_];
    double others; /* share of the machine's busy cores that neither end was */
    struct roofline_run runs[ROOFLINE_RUNS];
    unsigned run_count;
    struct roofline_run reported; /* the one that the ceilings belong to */
};
void roofline_set(struct roofline *r, enum ceiling c, double samples_s, const char *how,
                  ...) __attribute__((format(printf, 4, 5)));
void roofline_add_run(struct roofline *r, const struct roofline_run *run);

/* The resource that the reported run used up; CEILINGS_: none, the accelerators are the limit. */
enum ceiling roofline_limit(const struct roofline *r);
/* "The server's CPU limits this run: ...": one sentence. */
void roofline_verdict(const struct roofline *r, struct buf *out);
void roofline_text(const struct roofline *r, struct buf *out); /* a table with bars */
void roofline_json(const struct roofline *r, struct json *j, const char *key);
/* A picture for itself, light or dark: number of accelerators against samples/s, both in doublings. */
void roofline_svg(const struct roofline *r, struct buf *out);
