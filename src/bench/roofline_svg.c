/* The picture: both axes double with each step, since ceilings lie factors apart. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "bench/roofline.h"

#define WIDTH       900
#define HEIGHT      540 /* three lines of verdict */
#define LEFT        80
#define RIGHT       650 /* of the field; names of ceilings stand behind it */
#define TOP         60
#define BOTTOM      430
#define LINE_HEIGHT 15

static const char style[] =
    "<style>\n"
    "svg { font: 12px sans-serif; background: #fff; color: #222 }\n"
    "text { fill: currentColor } .quiet { fill: #777 } .title { font-size: 15px }\n"
    ".grid { stroke: #ddd } .demand { stroke: #888; stroke-dasharray: 5 4; fill: none }\n"
    ".roof { stroke: #c33; stroke-width: 2.5; fill: none }\n"
    ".ceiling { stroke: #38c } .limit { stroke: #c33; stroke-width: 2 }\n"
    ".passed { fill: #2a7; stroke: #2a7 } .failed { fill: none; stroke: #c33; "
    "stroke-width: 2 }\n"
    "@media (prefers-color-scheme: dark) { svg { background: #1a1a1a; color: #ddd } "
    ".grid { stroke: #333 } }\n"
    "</style>\n";

struct scale {
    double x_most, y_least, y_most; /* x begins at 1 */
};

static double
x_of(const struct scale *s, double n)
{
    return LEFT + (RIGHT - LEFT) * log2(n) / log2(s->x_most);
}

static double
y_of(const struct scale *s, double samples_s)
{
    double share = log2(samples_s / s->y_least) / log2(s->y_most / s->y_least);

    return BOTTOM - (BOTTOM - TOP) * MIN(MAX(share, 0.0), 1.0);
}

static struct scale
scale_of(const struct roofline *r)
{
    unsigned most = r->reported.accelerators;
    struct scale s = {.y_least = r->demand / 2};
    double y = r->demand * 2;

    for (unsigned i = 0; i < r->run_count; i++) {
        most = MAX(most, r->runs[i].accelerators);
        if (r->runs[i].samples_s > 0)
            s.y_least = MIN(s.y_least, r->runs[i].samples_s / 2);
    }
    s.x_most = exp2(ceil(log2(most + 1.0)));
    y = MAX(y, s.x_most * r->demand);
    for (enum ceiling c = 0; c < CEILINGS_; c++)
        if (r->at[c].samples_s > 0) {
            y = MAX(y, r->at[c].samples_s * 1.3);
            s.y_least = MIN(s.y_least, r->at[c].samples_s / 1.3);
        }
    s.y_most = y;
    return s;
}

static void
put_axes(const struct roofline *r, const struct scale *s, struct buf *out)
{
    for (int i = 0; exp2(i) <= s->x_most; i++) {
        double n = exp2(i);

        buf_printf(out,
                   "<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>"
                   "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n",
                   x_of(s, n), TOP, x_of(s, n), BOTTOM, x_of(s, n), BOTTOM + 18, n);
    }
    for (int i = (int)ceil(log10(s->y_least)); pow(10, i) <= s->y_most; i++) {
        double y = pow(10, i);

        buf_printf(out,
                   "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
                   "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                   LEFT, y_of(s, y), RIGHT, y_of(s, y), LEFT - 6, y_of(s, y) + 4, y);
    }
    buf_printf(
        out,
        "<text class=\"quiet\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">emulated "
        "accelerators, %s</text>\n<text class=\"quiet\" x=\"%d\" y=\"%d\">samples/s"
        "</text>\n",
        (LEFT + RIGHT) / 2, BOTTOM + 38, r->profile, LEFT - 60, TOP - 10);
}

static int
svg_by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x > *y ? -1 : *x < *y;
}

/* Lines at their heights, names beside them, pushed down where they would lie over each other. */
static void
put_ceilings(const struct roofline *r, const struct scale *s, struct buf *out)
{
    struct named {
        double samples_s;
        enum ceiling c;
    } known[CEILINGS_];
    enum ceiling limit = roofline_limit(r);
    char rate[NUM_SIZE_TEXT];
    double last = TOP - LINE_HEIGHT;
    size_t count = 0;

    for (enum ceiling c = 0; c < CEILINGS_; c++)
        if (r->at[c].samples_s > 0)
            known[count++] = (struct named){r->at[c].samples_s, c};
    qsort(known, count, sizeof *known, svg_by_value);
    for (size_t i = 0; i < count; i++) {
        double y = y_of(s, known[i].samples_s), text = MAX(y, last + LINE_HEIGHT);

        num_size_text((uint64_t)(known[i].samples_s * r->sample_bytes), rate);
        buf_printf(out,
                   "<line class=\"%s\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
                   "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
                   "<text x=\"%d\" y=\"%.1f\">%s: %.0f (%s/s)</text>\n",
                   known[i].c == limit ? "limit" : "ceiling", LEFT, y, RIGHT, y, RIGHT, y,
                   RIGHT + 12, text, RIGHT + 15, text + 4, ceiling_name(known[i].c),
                   known[i].samples_s, rate);
        last = text;
    }
}

/* What is asked, and the part of it under the lowest ceiling. */
static void
put_roof(const struct roofline *r, const struct scale *s, struct buf *out)
{
    double least = 0, knee;

    for (enum ceiling c = 0; c < CEILINGS_; c++)
        if (c != CEILING_IN_FLIGHT && r->at[c].samples_s > 0 &&
            (least <= 0 || r->at[c].samples_s < least))
            least = r->at[c].samples_s;
    buf_printf(out,
               "<line class=\"demand\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>\n",
               LEFT, y_of(s, r->demand), RIGHT, y_of(s, r->demand * s->x_most));
    if (least <= 0)
        return;
    knee = MIN(MAX(least / r->demand, 1.0), s->x_most);
    buf_printf(out, "<polyline class=\"roof\" points=\"%d,%.1f %.1f,%.1f %d,%.1f\"/>\n",
               LEFT, y_of(s, MIN(r->demand, least)), x_of(s, knee),
               y_of(s, MIN(knee * r->demand, least)), RIGHT,
               y_of(s, MIN(s->x_most * r->demand, least)));
}

static void
put_runs(const struct roofline *r, const struct scale *s, struct buf *out)
{
    for (unsigned i = 0; i < r->run_count; i++) {
        const struct roofline_run *run = &r->runs[i];

        buf_printf(out,
                   "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"><title>%u "
                   "accelerators: %.0f samples/s, utilisation %.1f %%</title></circle>\n",
                   run->passed ? "passed" : "failed", x_of(s, run->accelerators),
                   y_of(s, run->samples_s), run->accelerators, run->samples_s,
                   run->au * 100);
    }
}

/* What dots and lines are. */
static void
put_legend(struct buf *out)
{
    buf_printf(out,
               "<circle class=\"passed\" cx=\"%d\" cy=\"46\" r=\"5\"/><text "
               "x=\"%d\" y=\"50\">kept busy</text>\n"
               "<circle class=\"failed\" cx=\"%d\" cy=\"46\" r=\"5\"/><text "
               "x=\"%d\" y=\"50\">not kept busy</text>\n"
               "<line class=\"demand\" x1=\"%d\" y1=\"46\" x2=\"%d\" y2=\"46\"/><text "
               "x=\"%d\" y=\"50\">asked for</text>\n"
               "<line class=\"roof\" x1=\"%d\" y1=\"46\" x2=\"%d\" y2=\"46\"/><text "
               "x=\"%d\" y=\"50\">what the lowest ceiling leaves of it</text>\n",
               LEFT + 60, LEFT + 70, LEFT + 150, LEFT + 160, LEFT + 262, LEFT + 286,
               LEFT + 292, LEFT + 366, LEFT + 390, LEFT + 396);
}

/* In lines of so many letters, cut at blanks. */
static void
put_wrapped(struct span text, int x, int y, size_t letters, struct buf *out)
{
    while (text.len > 0) {
        size_t n = MIN(text.len, letters);

        while (n < text.len && n > 1 && text.at[n] != ' ')
            n--;
        buf_printf(out, "<text x=\"%d\" y=\"%d\">%.*s</text>\n", x, y, (int)n, text.at);
        text = span_from(text, n);
        if (text.len > 0 && text.at[0] == ' ')
            text = span_from(text, 1);
        y += LINE_HEIGHT;
    }
}

void
roofline_svg(const struct roofline *r, struct buf *out)
{
    struct scale s = scale_of(r);
    struct buf verdict;

    buf_init(&verdict, KIB(4));
    roofline_verdict(r, &verdict);
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
               "width=\"%d\" height=\"%d\">\n%s"
               "<text class=\"title\" x=\"%d\" y=\"24\">%s: what storage must give, what "
               "this machine allows, what came</text>\n",
               WIDTH, HEIGHT, WIDTH, HEIGHT, style, LEFT - 60, r->profile);
    put_legend(out);
    put_axes(r, &s, out);
    put_roof(r, &s, out);
    put_ceilings(r, &s, out);
    put_runs(r, &s, out);
    put_wrapped(buf_span(&verdict), LEFT - 60, BOTTOM + 56, 130, out);
    buf_puts(out, "</svg>\n");
    buf_fini(&verdict);
}
