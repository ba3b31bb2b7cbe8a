#include "cli/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct sample {
    struct span name, labels; /* what stands between the braces */
    double value;
};
struct samples {
    char *page; /* owned */
    struct sample *at;
    size_t count, room;
};

static bool
take_sample(struct span line, struct sample *out)
{
    const char *space = line.len > 0 ? memrchr(line.at, ' ', line.len) : NULL, *brace;
    struct span head;
    char number[64], *end;
    size_t len;

    if (space == NULL || line.at[0] == '#')
        return false;
    head = (struct span){line.at, (size_t)(space - line.at)};
    len = line.len - head.len - 1;
    if (len == 0 || len >= sizeof number)
        return false;
    memcpy(number, space + 1, len);
    number[len] = '\0';
    out->value = strtod(number, &end);
    if (*end != '\0' || isnan(out->value))
        return false;
    brace = span_find(head, '{');
    out->name = head;
    out->labels = SPAN("");
    if (brace != NULL && head.at[head.len - 1] == '}') {
        out->name.len = (size_t)(brace - head.at);
        out->labels = (struct span){brace + 1, head.len - out->name.len - 2};
    }
    return out->name.len > 0;
}

enum err
samples_parse(struct span page, struct samples **out, struct errbuf *eb)
{
    struct samples *s = xcalloc(1, sizeof *s);
    struct span rest;

    s->page = xmemdup0(page.at, page.len);
    rest = (struct span){s->page, page.len};
    *out = s;
    while (rest.len > 0) {
        const char *end = span_find(rest, '\n');
        struct span line = {rest.at, end != NULL ? (size_t)(end - rest.at) : rest.len};
        struct sample one;

        rest = span_from(rest, line.len + 1);
        if (!take_sample(line, &one))
            continue;
        if (s->count == SAMPLES_MAX) {
            samples_free(out);
            return err_set(eb, ERR_TOO_LARGE, "the metrics have over %u lines",
                           SAMPLES_MAX);
        }
        if (s->count == s->room) {
            s->room = s->room > 0 ? s->room * 2 : 512;
            s->at = xrealloc(s->at, s->room * sizeof *s->at);
        }
        s->at[s->count++] = one;
    }
    return ERR_OK;
}

void
samples_free(struct samples **sp)
{
    struct samples *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    free(s->at);
    free(s->page);
    free(s);
}

static bool
has_label(const struct sample *s, const char *label)
{
    return label == NULL ||
           memmem(s->labels.at, s->labels.len, label, strlen(label)) != NULL;
}

double
samples_sum(const struct samples *s, const char *name, const char *label,
            const char *label2)
{
    double sum = 0;

    for (size_t i = 0; i < s->count; i++)
        if (span_is(s->at[i].name, name) && has_label(&s->at[i], label) &&
            has_label(&s->at[i], label2))
            sum += s->at[i].value;
    return sum;
}

bool
samples_label(const struct samples *s, const char *name, const char *label, size_t index,
              struct span *out)
{
    size_t len = strlen(label);

    for (size_t i = 0; i < s->count; i++) {
        struct span l = s->at[i].labels;
        const char *at, *end;

        if (!span_is(s->at[i].name, name) || index-- > 0)
            continue;
        at = memmem(l.at, l.len, label, len);
        if (at == NULL ||
            !span_starts(span_from(l, (size_t)(at - l.at) + len), SPAN("=\"")))
            return false;
        at += len + 2;
        for (end = at; end < l.at + l.len && *end != '"'; end++)
            if (*end == '\\' && end + 1 < l.at + l.len)
                end++;
        *out = (struct span){at, (size_t)(end - at)};
        return end < l.at + l.len;
    }
    return false;
}

double
samples_quantile(const struct samples *before, const struct samples *after,
                 const char *name, const char *label, double q)
{
    double total = -1, lower = 0, last = 0;
    const char *inf = "le=\"+Inf\"";

    total = samples_sum(after, name, label, inf) - samples_sum(before, name, label, inf);
    if (total <= 0)
        return 0;
    for (size_t i = 0; i < after->count; i++) {
        const struct sample *s = &after->at[i];
        const char *le;
        char text[64];
        double bound, count;
        size_t len;

        if (!span_is(s->name, name) || !has_label(s, label))
            continue;
        le = memmem(s->labels.at, s->labels.len, "le=\"", 4);
        if (le == NULL)
            continue;
        len = 0;
        while (le + 4 + len < s->labels.at + s->labels.len && le[4 + len] != '"')
            len++;
        if (len == 0 || len + 6 > sizeof text)
            continue;
        memcpy(text, le, len + 5);
        text[len + 5] = '\0';
        bound = strtod(text + 4, NULL);
        count = samples_sum(after, name, label, text) -
                samples_sum(before, name, label, text);
        if (count >= q * total)
            return isinf(bound) ? lower
                   : count > last
                       ? lower + (bound - lower) * (q * total - last) / (count - last)
                       : bound;
        lower = bound;
        last = count;
    }
    return lower;
}
