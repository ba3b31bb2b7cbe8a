#include "cli/progress.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/terminal.h"
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
                           .terminal = terminal_is(stderr),
                           .total = total,
                           .total_bytes = total_bytes,
                           .began_ns = rt_now_ns()};
    p->shown_ns = p->began_ns;
    p->mark[0].at_ns = p->mark[1].at_ns = p->began_ns;
}

static double
progress_rate(struct progress *p, uint64_t now)
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
progress_put_time(struct buf *to, double seconds)
{
    if (seconds < 100)
        buf_printf(to, ", %.0f s left", seconds);
    else if (seconds < 6000)
        buf_printf(to, ", %.0f min left", seconds / 60);
    else
        buf_printf(to, ", %.1f h left", seconds / 3600);
}

static void
put_bar(struct buf *to, double share)
{
    int full = (int)(share * BAR_WIDTH);

    buf_putc(to, '[');
    for (int i = 0; i < BAR_WIDTH; i++)
        buf_putc(to, i < full ? '=' : i == full ? '>' : ' ');
    buf_puts(to, "] ");
}

/* What a narrow terminal has no room for, in the order in which it goes. */
enum room { ROOM_ALL, ROOM_NO_BAR, ROOM_NO_TOTAL, ROOM_NO_VERB, ROOM_NO_COUNT };

static void
progress_put_counts(const struct progress *p, enum room room, struct buf *to)
{
    if (p->total > 1 && room < ROOM_NO_COUNT)
        buf_printf(to, "%s%llu of %llu%s", p->bytes > 0 || p->total_bytes > 0 ? ", " : "",
                   (unsigned long long)p->count, (unsigned long long)p->total,
                   p->open_end ? " so far" : "");
}

static void
write_line(const struct progress *p, double per_second, enum room room, struct buf *to)
{
    char done[NUM_SIZE_TEXT], all[NUM_SIZE_TEXT], per[NUM_SIZE_TEXT];
    bool bytes_known = p->total_bytes > 0 && p->bytes <= p->total_bytes;
    uint64_t left = bytes_known ? p->total_bytes - p->bytes : 0;
    double share = bytes_known    ? (double)p->bytes / (double)p->total_bytes
                   : p->total > 0 ? (double)p->count / (double)p->total
                                  : 0;

    buf_clear(to);
    if (p->terminal && room < ROOM_NO_BAR && !p->open_end &&
        (bytes_known || p->total > 1))
        put_bar(to, share);
    if (room < ROOM_NO_VERB || p->total_bytes == 0)
        buf_printf(to, "%s ", p->what);
    if (p->bytes > 0 || p->total_bytes > 0 || p->total <= 1)
        buf_puts(to, num_size_text(p->bytes, done));
    if (bytes_known && room < ROOM_NO_TOTAL)
        buf_printf(to, " of %s", num_size_text(p->total_bytes, all));
    if (bytes_known && !p->open_end)
        buf_printf(to, " (%.0f %%)", 100.0 * share);
    progress_put_counts(p, room, to);
    if (p->bytes > 0)
        buf_printf(to, ", %s/s", num_size_text((uint64_t)per_second, per));
    if (left > 0 && per_second > 0 && !p->open_end)
        progress_put_time(to, (double)left / per_second);
}

static void
progress_show(struct progress *p, uint64_t now)
{
    unsigned columns = terminal_columns();
    double per_second = progress_rate(p, now);
    enum room room = ROOM_ALL;
    struct buf line;

    buf_init(&line, KIB(1));
    write_line(p, per_second, room, &line);
    while (p->terminal && line.len >= columns && room < ROOM_NO_COUNT)
        write_line(p, per_second, ++room, &line);
    buf_putc(&line, '\0');
    if (p->terminal)
        terminal_line(line.at);
    else
        fprintf(stderr, "%s\n", line.at);
    buf_fini(&line);
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
        progress_show(p, now);
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
        terminal_clear();
    p->shown = false;
}

void
progress_end(struct progress *p)
{
    progress_clear(p);
}
