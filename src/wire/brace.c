#include "wire/brace.h"

#include <assert.h>

#include "base/mem.h"
#include "base/num.h"

#define NUMBER_DIGITS_MAX 18

enum piece_kind { LITERAL, LIST, NUMBERS, LETTERS };

struct piece {
    enum piece_kind kind;
    struct span text;   /* LITERAL: as written, with its backslashes */
    struct span *items; /* LIST */
    int64_t first, step;
    unsigned width; /* NUMBERS: 0, or padded with zeros to so many digits */
    uint64_t count;
};

struct brace {
    struct piece *pieces;
    unsigned count;
    uint64_t names;
};

/* ---- reading ---- */

/* Where the braces that open at `at` close; 0: nowhere. */
static size_t
closing(struct span p, size_t at, bool *nested)
{
    *nested = false;
    for (size_t i = at + 1; i < p.len; i++) {
        if (p.at[i] == '\\')
            i++;
        else if (p.at[i] == '{')
            *nested = true;
        else if (p.at[i] == '}')
            return i;
    }
    return 0;
}

static bool
read_number(struct span s, int64_t *out, unsigned *digits, bool *zero)
{
    bool minus = s.len > 0 && s.at[0] == '-';
    struct span bare = span_from(s, minus ? 1 : 0);
    uint64_t n;

    if (bare.len == 0 || bare.len > NUMBER_DIGITS_MAX || num_u64(bare, &n) != ERR_OK)
        return false;
    *digits = (unsigned)s.len;
    *zero = bare.len > 1 && bare.at[0] == '0';
    *out = minus ? -(int64_t)n : (int64_t)n;
    return true;
}

/* "A..B" or "A..B..STEP" into up to three texts. */
static unsigned
split_range(struct span body, struct span out[3])
{
    unsigned n = 0;
    size_t from = 0;

    for (size_t i = 0; i + 1 < body.len; i++)
        if (body.at[i] == '.' && body.at[i + 1] == '.') {
            if (n == 2)
                return 0;
            out[n++] = (struct span){body.at + from, i - from};
            from = i + 2;
            i++;
        }
    out[n++] = span_from(body, from);
    return n;
}

static void
set_range(struct piece *p, int64_t first, int64_t last, int64_t step)
{
    uint64_t distance =
        first <= last ? (uint64_t)(last - first) : (uint64_t)(first - last);
    int64_t by = step < 0 ? -step : step;

    by = by == 0 ? 1 : by;
    p->first = first;
    p->step = first <= last ? by : -by;
    p->count = distance / (uint64_t)by + 1;
}

static bool
is_letter(struct span s)
{
    return s.len == 1 &&
           ((s.at[0] >= 'a' && s.at[0] <= 'z') || (s.at[0] >= 'A' && s.at[0] <= 'Z'));
}

/* False: these braces are no sequence. */
static bool
read_range(struct span body, struct piece *p)
{
    struct span part[3];
    unsigned n = split_range(body, part), digits[2], unused;
    int64_t first, last, step = 1;
    bool zero[2], no;

    if (n < 2 || (n == 3 && !read_number(part[2], &step, &unused, &no)))
        return false;
    if (is_letter(part[0]) && is_letter(part[1])) {
        p->kind = LETTERS;
        set_range(p, part[0].at[0], part[1].at[0], step);
        return true;
    }
    if (!read_number(part[0], &first, &digits[0], &zero[0]) ||
        !read_number(part[1], &last, &digits[1], &zero[1]))
        return false;
    p->kind = NUMBERS;
    p->width = zero[0] || zero[1] ? MAX(digits[0], digits[1]) : 0;
    set_range(p, first, last, step);
    return true;
}

static enum err
read_list(struct span body, struct arena *a, struct piece *p, struct errbuf *eb)
{
    uint64_t n = 1;
    size_t from = 0;

    for (size_t i = 0; i < body.len; i++)
        if (body.at[i] == '\\')
            i++;
        else if (body.at[i] == ',')
            n++;
    if (n > BRACE_LIST_MAX)
        return err_set(eb, ERR_TOO_LARGE, "braces hold %llu names, %u are possible",
                       (unsigned long long)n, BRACE_LIST_MAX);
    p->kind = LIST;
    p->count = n;
    p->items = arena_try(a, n * sizeof *p->items);
    if (p->items == NULL)
        return err_set(eb, ERR_TOO_LARGE,
                       "braces hold more names than there is room for");
    n = 0;
    for (size_t i = 0; i <= body.len; i++) {
        if (i < body.len && body.at[i] == '\\') {
            i++;
        } else if (i == body.len || body.at[i] == ',') {
            p->items[n++] = (struct span){body.at + from, i - from};
            from = i + 1;
        }
    }
    if (n < p->count) /* a backslash at the very end */
        p->items[n] = span_from(body, from);
    return ERR_OK;
}

static bool
has_comma(struct span body)
{
    for (size_t i = 0; i < body.len; i++) {
        if (body.at[i] == '\\')
            i++;
        else if (body.at[i] == ',')
            return true;
    }
    return false;
}

/* Braces at `at` that mean something; *end behind them. ERR_NOT_FOUND: they are text. */
static enum err
read_braces(struct span pattern, size_t at, struct arena *a, struct piece *p, size_t *end,
            struct errbuf *eb)
{
    bool nested;
    size_t close = closing(pattern, at, &nested);
    struct span body;

    if (close == 0 || (at > 0 && pattern.at[at - 1] == '$'))
        return ERR_NOT_FOUND;
    if (nested)
        return err_set(eb, ERR_BAD_REQUEST,
                       "\"%.*s\": braces inside braces, at byte %zu, are not understood",
                       SPAN_ARG(pattern), at);
    body = (struct span){pattern.at + at + 1, close - at - 1};
    *end = close + 1;
    if (has_comma(body))
        return read_list(body, a, p, eb);
    return read_range(body, p) ? ERR_OK : ERR_NOT_FOUND;
}

static void
add_literal(struct brace *b, struct span text)
{
    if (text.len > 0)
        b->pieces[b->count++] = (struct piece){.kind = LITERAL, .text = text, .count = 1};
}

static enum err
add_names(struct brace *b, struct span pattern, uint64_t count, struct errbuf *eb)
{
    if (count > BRACE_COUNT_MAX / b->names)
        return err_set(eb, ERR_TOO_LARGE,
                       "\"%.*s\" stands for more than %u names, the limit",
                       SPAN_ARG(pattern), BRACE_COUNT_MAX);
    b->names *= count;
    return ERR_OK;
}

static enum err
read_pattern(struct brace *b, struct span pattern, struct arena *a, struct errbuf *eb)
{
    unsigned groups = 0;
    size_t from = 0;

    for (size_t i = 0; i < pattern.len; i++) {
        struct piece p = {0};
        size_t end;
        enum err rc;

        if (pattern.at[i] == '\\') {
            i++;
            continue;
        }
        if (pattern.at[i] != '{')
            continue;
        rc = read_braces(pattern, i, a, &p, &end, eb);
        if (rc == ERR_NOT_FOUND)
            continue;
        if (rc == ERR_OK && ++groups > BRACE_GROUPS_MAX)
            rc = err_set(eb, ERR_BAD_REQUEST, "\"%.*s\" has more than %u braces",
                         SPAN_ARG(pattern), BRACE_GROUPS_MAX);
        if (rc == ERR_OK)
            rc = add_names(b, pattern, p.count, eb);
        if (rc != ERR_OK)
            return rc;
        add_literal(b, (struct span){pattern.at + from, i - from});
        b->pieces[b->count++] = p;
        from = end;
        i = end - 1;
    }
    add_literal(b, span_from(pattern, from));
    return ERR_OK;
}

enum err
brace_parse(struct span pattern, struct arena *a, struct brace **out, struct errbuf *eb)
{
    struct brace *b = arena_try(a, sizeof *b);

    *out = NULL;
    if (b != NULL)
        b->pieces = arena_try(a, (2 * BRACE_GROUPS_MAX + 1) * sizeof *b->pieces);
    if (b == NULL || b->pieces == NULL)
        return err_set(eb, ERR_TOO_LARGE, "no room for one more pattern");
    b->names = 1;
    *out = b;
    return read_pattern(b, pattern, a, eb);
}

/* ---- making names ---- */

uint64_t
brace_count(const struct brace *b)
{
    return b->names;
}

static void
put_literal(struct buf *out, struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '\\' && i + 1 < text.len)
            i++;
        buf_putc(out, text.at[i]);
    }
}

static void
put_piece(struct buf *out, const struct piece *p, uint64_t at)
{
    int64_t n = p->first + p->step * (int64_t)at;

    switch (p->kind) {
    case LITERAL:
        put_literal(out, p->text);
        break;
    case LIST:
        put_literal(out, p->items[at]);
        break;
    case LETTERS:
        buf_putc(out, (char)n);
        break;
    case NUMBERS:
        buf_printf(out, "%0*lld", (int)p->width, (long long)n);
        break;
    }
}

void
brace_name(const struct brace *b, uint64_t index, struct buf *out)
{
    uint64_t at[2 * BRACE_GROUPS_MAX + 1];

    assert(index < b->names);
    for (unsigned i = b->count; i-- > 0; index /= b->pieces[i].count)
        at[i] = index % b->pieces[i].count;
    for (unsigned i = 0; i < b->count; i++)
        put_piece(out, &b->pieces[i], at[i]);
}
