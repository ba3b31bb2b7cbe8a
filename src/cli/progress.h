/* progress: one line on stderr while something long runs: bytes, share, rate, time left. On a terminal it is rewritten ten
 * times a second; else a plain line each 10 s; with --quiet nothing. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* "copied" */
    bool quiet, terminal;
    uint64_t total_bytes; /* 0: unknown */
    uint64_t bytes;
    uint64_t total, count; /* things */
    uint64_t began_ns, shown_ns;
    bool shown;
};
void progress_begin(struct progress *p, const char *what, bool quiet, uint64_t total,
                    uint64_t total_bytes);
void progress_bytes(struct progress *p, uint64_t more);
void progress_one(struct progress *p);
void progress_end(struct progress *p); /* clears the line of a terminal */
