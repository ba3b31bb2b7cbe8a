#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/num.h"
#include "rt/time.h"

#define SECOND 1000000000u

void
progress_begin(struct progress *p, const char *what, bool quiet, uint64_t total,
               uint64_t total_bytes)
{
    *p = (struct progress){.what = what,
                           .quiet = quiet,
                           .terminal = isatty(2) == 1,
                           .total = total,
                           .total_bytes = total_bytes,
                           .began_ns = rt_now_ns()};
    p->shown_ns = p->began_ns;
}

static void
show(struct progress *p, uint64_t now)
{
    char done[NUM_SIZE_TEXT], all[NUM_SIZE_TEXT], rate[NUM_SIZE_TEXT];
    double seconds = (double)(now - p->began_ns) / SECOND;
    double per_second = seconds > 0 ? (double)p->bytes / seconds : 0;
    uint64_t left = p->total_bytes > p->bytes ? p->total_bytes - p->bytes : 0;

    fprintf(stderr, "%s%s %s", p->terminal ? "\r\033[K" : "", p->what,
            num_size_text(p->bytes, done));
    if (p->total_bytes > 0)
        fprintf(stderr, " of %s (%.0f %%)", num_size_text(p->total_bytes, all),
                100.0 * (double)p->bytes / (double)p->total_bytes);
    if (p->total > 1)
        fprintf(stderr, ", %llu of %llu", (unsigned long long)p->count,
                (unsigned long long)p->total);
    fprintf(stderr, ", %s/s", num_size_text((uint64_t)per_second, rate));
    if (left > 0 && per_second > 0)
        fprintf(stderr, ", %.0f s left", (double)left / per_second);
    if (!p->terminal)
        fputc('\n', stderr);
    p->shown = true;
    p->shown_ns = now;
}

static void
maybe_show(struct progress *p)
{
    uint64_t now;

    if (p->quiet)
        return;
    now = rt_now_ns();
    if (now - p->shown_ns >= (p->terminal ? SECOND / 10 : 10ull * SECOND))
        show(p, now);
}

void
progress_bytes(struct progress *p, uint64_t more)
{
    p->bytes += more;
    maybe_show(p);
}

void
progress_one(struct progress *p)
{
    p->count++;
    maybe_show(p);
}

void
progress_end(struct progress *p)
{
    if (p->terminal && p->shown)
        fprintf(stderr, "\r\033[K");
}
