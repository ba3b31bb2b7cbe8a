#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "rt/time.h"

#define SECOND    1000000000u
#define BAR_WIDTH 16
#define MARK_NS   (5ull * SECOND)

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
    p->mark[0].at_ns = p->mark[1].at_ns = p->began_ns;
}

static double
rate(struct progress *p, uint64_t now)
{
    uint64_t moved = p->bytes - p->resumed;
    double seconds;

    if (now - p->mark[1].at_ns > MARK_NS) {
        p->mark[0] = p->mark[1];
        p->mark[1].at_ns = now;
        p->mark[1].bytes = moved;
    }
    seconds = (double)(now - p->mark[0].at_ns) / SECOND;
    return seconds > 0 && moved > p->mark[0].bytes
               ? (double)(moved - p->mark[0].bytes) / seconds
               : 0;
}

static void
put_time(double seconds)
{
    if (seconds < 100)
        fprintf(stderr, ", %.0f s left", seconds);
    else if (seconds < 6000)
        fprintf(stderr, ", %.0f min left", seconds / 60);
    else
        fprintf(stderr, ", %.1f h left", seconds / 3600);
}

static void
put_bar(double share)
{
    char bar[BAR_WIDTH + 1];
    int full = (int)(share * BAR_WIDTH);

    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < full ? '=' : i == full ? '>' : ' ';
    bar[BAR_WIDTH] = '\0';
    fprintf(stderr, "[%s] ", bar);
}

static void
show(struct progress *p, uint64_t now)
{
    char done[NUM_SIZE_TEXT], all[NUM_SIZE_TEXT], per[NUM_SIZE_TEXT];
    double per_second = rate(p, now);
    bool bytes_known = p->total_bytes > 0 && p->bytes <= p->total_bytes;
    uint64_t left = bytes_known ? p->total_bytes - p->bytes : 0;
    double share = bytes_known    ? (double)p->bytes / (double)p->total_bytes
                   : p->total > 0 ? (double)p->count / (double)p->total
                                  : 0;

    if (p->terminal) {
        fputs("\r\033[K", stderr);
        if (!p->open_end && p->total + p->total_bytes > 0)
            put_bar(share);
    }
    fprintf(stderr, "%s ", p->what);
    if (p->bytes > 0 || p->total_bytes > 0) {
        fputs(num_size_text(p->bytes, done), stderr);
        if (bytes_known)
            fprintf(stderr, " of %s", num_size_text(p->total_bytes, all));
        if (bytes_known && !p->open_end)
            fprintf(stderr, " (%.0f %%)", 100.0 * share);
    }
    if (p->total > 1)
        fprintf(stderr, "%s%llu of %llu%s",
                p->bytes > 0 || p->total_bytes > 0 ? ", " : "",
                (unsigned long long)p->count, (unsigned long long)p->total,
                p->open_end ? " so far" : "");
    if (p->bytes > 0)
        fprintf(stderr, ", %s/s", num_size_text((uint64_t)per_second, per));
    if (left > 0 && per_second > 0 && !p->open_end)
        put_time((double)left / per_second);
    if (!p->terminal)
        fputc('\n', stderr);
    p->shown = true;
    p->shown_ns = now;
}

void
progress_tick(struct progress *p)
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
    progress_tick(p);
}

void
progress_back(struct progress *p, uint64_t less)
{
    p->bytes -= less < p->bytes ? less : p->bytes;
}

void
progress_resumed(struct progress *p, uint64_t more)
{
    p->bytes += more;
    p->resumed += more;
}

void
progress_one(struct progress *p)
{
    p->count++;
    progress_tick(p);
}

void
progress_clear(struct progress *p)
{
    if (p->terminal && p->shown)
        fprintf(stderr, "\r\033[K");
    p->shown = false;
}

void
progress_end(struct progress *p)
{
    progress_clear(p);
}
