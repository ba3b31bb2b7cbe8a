/* look: what the server, this process and this machine have done so far, as far as it can be known; two looks make a run's account.
 *
 * A Forebay tells by its /_/metrics; of other servers on this machine the processes are asked (--pid, once for each). What is not known is below 0.
 */
#pragma once
#include "cli/session.h"

struct look {
    bool forebay;
    bool local;           /* the endpoint is this machine */
    double server_cores;  /* that it may use */
    double machine_cores; /* that there are */
    /* Totals: */
    double server_cpu_s, client_cpu_s, machine_busy_s;
    double sent_bytes; /* answers */
    double disk_bytes; /* read from its disks */
    double store_written;
    double backend_bytes; /* fetched from behind it */
};
/* Is the endpoint this machine? */
bool look_is_local(const char *endpoint);
/* Cores that this process may use, at least 1. */
unsigned look_cores(void);
/* Bytes of memory of this machine; 0: not known. */
double look_memory(void);
/* Never fails: what cannot be had is not known. May switch. */
void look_now(struct session *s, struct look *out);
/* What happened between the two, in `out`'s totals; the rest is that of `after`. */
void look_between(const struct look *before, const struct look *after, struct look *out);
