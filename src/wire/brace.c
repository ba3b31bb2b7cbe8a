#include "wire/brace.h"

#include <assert.h>

#include "base/mem.h"
#include "base/num.h"

#define NUMBER_DIGITS_MAX 18

enum piece_kind { LITERAL, LIST, NUMBERS, LETTERS };

struct sequence;
struct piece {
    enum piece_kind kind;
    struct span text;       /* LITERAL: as written, with its backslashes */
    struct sequence *items; /* LIST */
    uint64_t item_count;
    int64_t first, step;
    unsigned width; /* NUMBERS: 0, or padded with zeros to so many digits */
    uint64_t count; /* names it stands for */
    struct piece *next;
};

/* Pieces one behind the other: a pattern, or an item of a list. */
struct sequence {
    struct piece *first, *last;
    uint64_t names;
};

struct brace {
    struct sequence all;
};

/* ---- reading ---- */

struct reader {
    struct span pattern; /* all of it, for sentences */
    struct arena *arena;
    unsigned groups, seen; /* braces that mean something; that were looked at */
    struct errbuf *eb;
};

static enum err
no_room(struct reader *r)
{
    return err_set(r->eb, ERR_TOO_LARGE, "braces hold more names than there is room for");
}

/* Where the braces that open at `at` close; 0: nowhere. */
static size_t
brace_closing(struct span p, size_t at)
{
    unsigned open = 0;

    for (size_t i = at; i < p.len; i++) {
        if (p.at[i] == '\\')
            i++;
        else if (p.at[i] == '{')
            open++;
        else if (p.at[i] == '}' && --open == 0)
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
brace_is_letter(struct span s)
{
    return s.len == 1 &&
           ((s.at[0] >= 'a' && s.at[0] <= 'z') || (s.at[0] >= 'A' && s.at[0] <= 'Z'));
}

/* False: these braces are no sequence. */
static bool
brace_read_range(struct span body, struct piece *p)
{
    struct span part[3];
    unsigned n = split_range(body, part), digits[2], unused;
    int64_t first, last, step = 1;
    bool zero[2], no;

    if (n < 2 || (n == 3 && !read_number(part[2], &step, &unused, &no)))
        return false;
    if (brace_is_letter(part[0]) && brace_is_letter(part[1])) {
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

/* The next comma of a list that stands in no inner braces, from `at` on; the length: there is none. */
static size_t
brace_comma(struct span body, size_t at)
{
    unsigned open = 0;

    for (size_t i = at; i < body.len; i++) {
        if (body.at[i] == '\\')
            i++;
        else if (body.at[i] == '{')
            open++;
        else if (body.at[i] == '}' && open > 0)
            open--;
        else if (body.at[i] == ',' && open == 0)
            return i;
    }
    return body.len;
}

static enum err read_sequence(struct reader *r, struct span text, unsigned depth,
                              struct sequence *out);

static enum err
read_list(struct reader *r, struct span body, unsigned depth, struct piece *p)
{
    uint64_t n = 1;
    size_t from = 0;
    enum err rc = ERR_OK;

    for (size_t at = brace_comma(body, 0); at < body.len; at = brace_comma(body, at + 1))
        n++;
    if (n > BRACE_LIST_MAX)
        return err_set(r->eb, ERR_TOO_LARGE, "braces hold %llu names, %u are possible",
                       (unsigned long long)n, BRACE_LIST_MAX);
    p->kind = LIST;
    p->item_count = n;
    p->items = arena_try(r->arena, n * sizeof *p->items);
    if (p->items == NULL)
        return no_room(r);
    for (uint64_t i = 0; rc == ERR_OK && i < n; i++) {
        size_t end = brace_comma(body, from);

        rc = read_sequence(r, (struct span){body.at + from, end - from}, depth,
                           &p->items[i]);
        p->count += p->items[i].names; /* each at most BRACE_COUNT_MAX */
        from = end + 1;
    }
    return rc;
}

/* Braces at `at` that mean something; *end behind them. ERR_NOT_FOUND: they are text. */
static enum err
read_braces(struct reader *r, struct span text, size_t at, unsigned depth,
            struct piece *p, size_t *end)
{
    size_t close;
    struct span body;

    if (++r->seen > BRACE_SEEN_MAX)
        return err_set(r->eb, ERR_BAD_REQUEST, "\"%.*s\" has more than %u braces",
                       (int)MIN(r->pattern.len, 100u), r->pattern.at, BRACE_SEEN_MAX);
    close = brace_closing(text, at);
    if (close == 0 || (at > 0 && text.at[at - 1] == '$'))
        return ERR_NOT_FOUND;
    body = (struct span){text.at + at + 1, close - at - 1};
    *end = close + 1;
    if (brace_comma(body, 0) == body.len)
        return brace_read_range(body, p) ? ERR_OK : ERR_NOT_FOUND;
    if (depth == BRACE_DEPTH_MAX)
        return err_set(r->eb, ERR_BAD_REQUEST,
                       "\"%.*s\" has more than %u braces inside each other",
                       (int)MIN(r->pattern.len, 100u), r->pattern.at, BRACE_DEPTH_MAX);
    return read_list(r, body, depth + 1, p);
}

static enum err
add_piece(struct reader *r, struct sequence *s, const struct piece *p)
{
    struct piece *mine;

    if (p->count > BRACE_COUNT_MAX / s->names)
        return err_set(r->eb, ERR_TOO_LARGE,
                       "\"%.*s\" stands for more than %u names, the limit",
                       (int)MIN(r->pattern.len, 100u), r->pattern.at, BRACE_COUNT_MAX);
    mine = arena_try(r->arena, sizeof *mine);
    if (mine == NULL)
        return no_room(r);
    *mine = *p;
    s->names *= p->count;
    if (s->last != NULL)
        s->last->next = mine;
    else
        s->first = mine;
    s->last = mine;
    return ERR_OK;
}

static enum err
add_literal(struct reader *r, struct sequence *s, struct span text)
{
    struct piece p = {.kind = LITERAL, .text = text, .count = 1};

    return text.len > 0 ? add_piece(r, s, &p) : ERR_OK;
}

static enum err
read_sequence(struct reader *r, struct span text, unsigned depth, struct sequence *out)
{
    size_t from = 0;
    enum err rc = ERR_OK;

    *out = (struct sequence){.names = 1};
    for (size_t i = 0; i < text.len; i++) {
        struct piece p = {0};
        size_t end = 0;

        if (text.at[i] == '\\') {
            i++;
            continue;
        }
        if (text.at[i] != '{')
            continue;
        rc = read_braces(r, text, i, depth, &p, &end);
        if (rc == ERR_NOT_FOUND)
            continue;
        if (rc == ERR_OK && ++r->groups > BRACE_GROUPS_MAX)
            rc = err_set(r->eb, ERR_BAD_REQUEST, "\"%.*s\" has more than %u braces",
                         (int)MIN(r->pattern.len, 100u), r->pattern.at, BRACE_GROUPS_MAX);
        if (rc == ERR_OK)
            rc = add_literal(r, out, (struct span){text.at + from, i - from});
        if (rc == ERR_OK)
            rc = add_piece(r, out, &p);
        if (rc != ERR_OK)
            return rc;
        from = end;
        i = end - 1;
    }
    return add_literal(r, out, span_from(text, from));
}

enum err
brace_parse(struct span pattern, struct arena *a, struct brace **out, struct errbuf *eb)
{
    struct reader r = {.pattern = pattern, .arena = a, .eb = eb};
    struct brace *b = arena_try(a, sizeof *b);

    *out = b;
    if (b == NULL)
        return no_room(&r);
    if (pattern.len > BRACE_PATTERN_MAX)
        return err_set(eb, ERR_TOO_LARGE,
                       "a pattern of %zu bytes, %u are possible in one line", pattern.len,
                       BRACE_PATTERN_MAX);
    return read_sequence(&r, pattern, 0, &b->all);
}

bool
brace_is_open(struct span pattern, size_t *at)
{
    for (size_t i = 0; i < pattern.len; i++) {
        if (pattern.at[i] == '\\') {
            i++;
        } else if (pattern.at[i] == '{') {
            size_t close = brace_closing(pattern, i);

            *at = i;
            if (close == 0)
                return true;
            i = close;
        }
    }
    return false;
}

/* ---- making names ---- */

uint64_t
brace_count(const struct brace *b)
{
    return b->all.names;
}

/* Backslashes go; with `keep` only those that kept braces and commas from their meaning. */
static void
put_literal(struct buf *out, struct span text, bool keep)
{
    for (size_t i = 0; i < text.len; i++) {
        char next = i + 1 < text.len ? text.at[i + 1] : '\0';

        if (text.at[i] == '\\' && next != '\0') {
            if (keep && next != '{' && next != '}' && next != ',')
                buf_putc(out, '\\');
            i++;
        }
        buf_putc(out, text.at[i]);
    }
}

static void put_sequence(struct buf *out, const struct sequence *s, uint64_t index,
                         bool keep);

static void
put_item(struct buf *out, const struct piece *p, uint64_t at, bool keep)
{
    uint64_t i = 0;

    while (at >= p->items[i].names)
        at -= p->items[i++].names;
    put_sequence(out, &p->items[i], at, keep);
}

static void
put_piece(struct buf *out, const struct piece *p, uint64_t at, bool keep)
{
    int64_t n = p->first + p->step * (int64_t)at;

    switch (p->kind) {
    case LITERAL:
        put_literal(out, p->text, keep);
        break;
    case LIST:
        put_item(out, p, at, keep);
        break;
    case LETTERS:
        buf_putc(out, (char)n);
        break;
    case NUMBERS:
        buf_printf(out, "%0*lld", (int)p->width, (long long)n);
        break;
    }
}

/* The last pieces turn fastest. */
static void
put_sequence(struct buf *out, const struct sequence *s, uint64_t index, bool keep)
{
    uint64_t below = s->names;

    for (const struct piece *p = s->first; p != NULL; p = p->next) {
        below /= p->count;
        put_piece(out, p, index / below, keep);
        index %= below;
    }
}

void
brace_name(const struct brace *b, uint64_t index, struct buf *out)
{
    assert(index < b->all.names);
    put_sequence(out, &b->all, index, false);
}

void
brace_pattern(const struct brace *b, uint64_t index, struct buf *out)
{
    assert(index < b->all.names);
    put_sequence(out, &b->all, index, true);
}
