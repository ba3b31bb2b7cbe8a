/* progress: one line on stderr while something long runs: a bar, bytes, share, rate, time left. On a terminal it is rewritten ten
 * times a second; else a plain line each 10 s; with --quiet nothing. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* "copied" */
    bool quiet, terminal;
    bool open_end;        /* the totals still grow */
    uint64_t total_bytes; /* 0: unknown */
    uint64_t bytes;
    uint64_t
        resumed; /* bytes among them that an earlier run moved: no rate comes of them */
    uint64_t total, count; /* things */
    uint64_t began_ns, shown_ns;
    struct {
        uint64_t at_ns, bytes;
    } mark[2]; /* the rate is that of the last 5 to 10 seconds */
    bool shown;
};
void progress_begin(struct progress *p, const char *what, bool quiet, uint64_t total,
                    uint64_t total_bytes);
void progress_bytes(struct progress *p, uint64_t more);
void progress_back(struct progress *p,
                   uint64_t less); /* an attempt that came to nothing */
void progress_resumed(struct progress *p, uint64_t more);
void progress_one(struct progress *p);
void progress_tick(struct progress *p); /* nothing happened, time did */
void progress_clear(
    struct progress *p); /* takes the line away before something else is written */
void progress_end(struct progress *p);
