#include "cli/names.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

/* ---- braces ---- */

#define DEPTH_MAX 16
#define NAME_ROOM 8192

struct expansion {
    names_on *on_name;
    void *arg;
    struct errbuf *eb;
    size_t given;
};

static enum err expand(struct expansion *x, struct span head, struct span rest,
                       unsigned depth);

/* The '}' that belongs to the '{' at text.at[0]; NULL when there is none. */
static const char *
closing(struct span text)
{
    unsigned open = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '\\')
            i++;
        else if (text.at[i] == '{')
            open++;
        else if (text.at[i] == '}' && --open == 0)
            return text.at + i;
    }
    return NULL;
}

/* head + middle + the rest, opened further. */
static enum err
go_on(struct expansion *x, struct span head, struct span middle, struct span rest,
      unsigned depth)
{
    struct buf text;
    enum err rc;

    buf_init(&text, NAME_ROOM);
    buf_put_span(&text, head);
    buf_put_span(&text, middle);
    rc = text.full ? err_set(x->eb, ERR_TOO_LARGE, "a name has over %d bytes", NAME_ROOM)
                   : expand(x, buf_span(&text), rest, depth);
    buf_fini(&text);
    return rc;
}

/* "000..999", also downwards; the wider of both ends gives the zeros. */
static bool
is_range(struct span body, uint64_t *from, uint64_t *to, int *width)
{
    for (size_t i = 1; i + 2 < body.len; i++) {
        struct span a = {body.at, i}, b = {body.at + i + 2, body.len - i - 2};

        if (body.at[i] != '.' || body.at[i + 1] != '.')
            continue;
        *width = (a.len > 1 && a.at[0] == '0') || (b.len > 1 && b.at[0] == '0')
                     ? (int)MAX(a.len, b.len)
                     : 0;
        return a.len < 19 && b.len < 19 && num_u64(a, from) == ERR_OK &&
               num_u64(b, to) == ERR_OK;
    }
    return false;
}

static enum err
expand_range(struct expansion *x, struct span head, struct span rest, uint64_t from,
             uint64_t to, int width, unsigned depth)
{
    enum err rc = ERR_OK;

    if ((from < to ? to - from : from - to) >= NAMES_MAX)
        return err_set(x->eb, ERR_TOO_LARGE, "{%llu..%llu} are over %u names",
                       (unsigned long long)from, (unsigned long long)to, NAMES_MAX);
    for (uint64_t n = from; rc == ERR_OK; n += from <= to ? 1 : (uint64_t)-1) {
        char text[24];
        int len = snprintf(text, sizeof text, "%0*llu", width, (unsigned long long)n);

        rc = go_on(x, head, (struct span){text, (size_t)len}, rest, depth);
        if (n == to)
            break;
    }
    return rc;
}

/* "a,b{c,d},e": cut at commas that stand in no inner brace. */
static enum err
expand_list(struct expansion *x, struct span head, struct span body, struct span rest,
            unsigned depth)
{
    size_t from = 0;
    unsigned open = 0;
    enum err rc = ERR_OK;

    for (size_t i = 0; i <= body.len && rc == ERR_OK; i++) {
        struct buf inner;

        if (i < body.len && body.at[i] == '\\') {
            i++;
            continue;
        }
        if (i < body.len && body.at[i] == '{')
            open++;
        if (i < body.len && body.at[i] == '}')
            open--;
        if (i < body.len && (body.at[i] != ',' || open > 0))
            continue;
        /* What stands in the alternative is opened with what follows the brace. */
        buf_init(&inner, NAME_ROOM);
        buf_put(&inner, body.at + from, i - from);
        buf_put_span(&inner, rest);
        rc = inner.full
                 ? err_set(x->eb, ERR_TOO_LARGE, "a name has over %d bytes", NAME_ROOM)
                 : expand(x, head, buf_span(&inner), depth);
        buf_fini(&inner);
        from = i + 1;
    }
    return rc;
}

static bool
has_comma(struct span body)
{
    unsigned open = 0;

    for (size_t i = 0; i < body.len; i++) {
        if (body.at[i] == '\\')
            i++;
        else if (body.at[i] == '{')
            open++;
        else if (body.at[i] == '}')
            open--;
        else if (body.at[i] == ',' && open == 0)
            return true;
    }
    return false;
}

/* What is left of backslashes before braces and commas: the braces are open, so they have done their work. */
static void
put_plain(struct buf *out, struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '\\' && i + 1 < text.len &&
            (text.at[i + 1] == '{' || text.at[i + 1] == '}' || text.at[i + 1] == ','))
            i++;
        buf_putc(out, text.at[i]);
    }
}

static enum err
give(struct expansion *x, struct span head, struct span rest)
{
    struct buf text;
    enum err rc;

    if (x->given++ == NAMES_MAX)
        return err_set(x->eb, ERR_TOO_LARGE, "the braces give over %u names", NAMES_MAX);
    buf_init(&text, 2 * NAME_ROOM);
    put_plain(&text, head);
    put_plain(&text, rest);
    buf_putc(&text, '\0');
    rc = text.full ? err_set(x->eb, ERR_TOO_LARGE, "a name has over %d bytes", NAME_ROOM)
                   : x->on_name(x->arg, (struct span){text.at, text.len - 1}, x->eb);
    buf_fini(&text);
    return rc;
}

/* `head` is done, `rest` may hold braces. */
static enum err
expand(struct expansion *x, struct span head, struct span rest, unsigned depth)
{
    uint64_t from, to;
    int width;

    if (depth > DEPTH_MAX)
        return err_set(x->eb, ERR_TOO_LARGE, "more than %d braces in one name",
                       DEPTH_MAX);
    for (size_t i = 0; i < rest.len; i++) {
        struct span tail = span_from(rest, i), body;
        const char *end;

        if (rest.at[i] == '\\')
            i++;
        if (i >= rest.len || rest.at[i] != '{' || tail.at[0] == '\\')
            continue;
        end = closing(tail);
        if (end == NULL)
            return err_set(x->eb, ERR_BAD_REQUEST,
                           "\"%.*s\": this brace is not closed (\\{ is a brace itself)",
                           (int)MIN(tail.len, 60u), tail.at);
        body = (struct span){tail.at + 1, (size_t)(end - tail.at) - 1};
        tail = span_from(tail, body.len + 2);
        if (is_range(body, &from, &to, &width) || has_comma(body)) {
            struct buf before;
            enum err rc;

            buf_init(&before, NAME_ROOM);
            buf_put_span(&before, head);
            buf_put(&before, rest.at, i);
            if (before.full)
                rc = err_set(x->eb, ERR_TOO_LARGE, "a name has over %d bytes", NAME_ROOM);
            else if (is_range(body, &from, &to, &width))
                rc = expand_range(x, buf_span(&before), tail, from, to, width, depth + 1);
            else
                rc = expand_list(x, buf_span(&before), body, tail, depth + 1);
            buf_fini(&before);
            return rc;
        }
        i += body.len + 1; /* "{x}" is text */
    }
    return give(x, head, rest);
}

enum err
names_expand(struct span text, names_on *on_name, void *arg, struct errbuf *eb)
{
    struct expansion x = {.on_name = on_name, .arg = arg, .eb = eb};

    return expand(&x, SPAN(""), text, 0);
}

/* ---- patterns ---- */

/* A set "[...]" at p: its length, and whether it holds c. 0: no set. */
static size_t
in_set(struct span p, unsigned char c, bool *holds)
{
    size_t i = 1;
    bool not_in = p.len > 1 && (p.at[1] == '!' || p.at[1] == '^');

    *holds = false;
    i += not_in;
    for (size_t first = i; i < p.len; i++) {
        unsigned char low = (unsigned char)p.at[i];

        if (p.at[i] == ']' && i > first) {
            *holds = *holds != not_in;
            return i + 1;
        }
        if (i + 2 < p.len && p.at[i + 1] == '-' && p.at[i + 2] != ']') {
            *holds = *holds || (c >= low && c <= (unsigned char)p.at[i + 2]);
            i += 2;
        } else {
            *holds = *holds || c == low;
        }
    }
    return 0;
}

/* How many bytes of the pattern stand for the byte c; 0: they do not. */
static size_t
one(struct span p, char c)
{
    size_t len;
    bool holds;

    if (p.at[0] == '?')
        return c != '/';
    if (p.at[0] == '[' && (len = in_set(p, (unsigned char)c, &holds)) > 0)
        return holds && c != '/' ? len : 0;
    if (p.at[0] == '\\' && p.len > 1)
        return p.at[1] == c ? 2 : 0;
    return p.at[0] == c;
}

/* Two places to come back to: the last star, and the last double star, which may also take a '/'. Their number is bounded, so is
 * the time: the product of both lengths. */
bool
glob_match(struct span p, struct span n)
{
    struct {
        size_t p, n;
        bool set,
            whole; /* whole: it stands for whole folders, so goes on only behind a slash */
    } star = {0}, deep = {0};
    size_t i = 0, k = 0;

    for (;;) {
        size_t step;

        if (i < p.len && p.at[i] == '*') {
            bool twice = i + 1 < p.len && p.at[i + 1] == '*';

            i += twice ? 2 : 1;
            if (twice) {
                /* A folder's slash behind it is part of it: a, double star, b matches a/b. */
                deep.whole =
                    i < p.len && p.at[i] == '/' && (k == 0 || n.at[k - 1] == '/');
                i += deep.whole;
                deep.p = i;
                deep.n = k;
                deep.set = true;
                star.set = false;
            } else {
                star.p = i;
                star.n = k;
                star.set = true;
            }
            continue;
        }
        if (k == n.len && i == p.len)
            return true;
        step = k < n.len && i < p.len ? one(span_from(p, i), n.at[k]) : 0;
        if (step > 0) {
            i += step;
            k++;
        } else if (star.set && star.n < n.len && n.at[star.n] != '/') {
            i = star.p;
            k = ++star.n;
        } else if (deep.set && deep.n < n.len) {
            do
                deep.n++;
            while (deep.whole && deep.n < n.len && n.at[deep.n - 1] != '/');
            i = deep.p;
            k = deep.n;
            star.set = false;
        } else {
            return false;
        }
    }
}

size_t
glob_literal(struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] == '*' || text.at[i] == '?' || text.at[i] == '[' ||
            text.at[i] == '\\')
            return i;
    return text.len;
}

bool
glob_is(struct span text)
{
    return glob_literal(text) < text.len;
}

/* ---- filters ---- */

static bool
matches_any(const char *const *patterns, size_t count, struct span name)
{
    const char *slash = name.len > 0 ? memrchr(name.at, '/', name.len) : NULL;
    struct span base =
        slash != NULL ? span_from(name, (size_t)(slash - name.at) + 1) : name;

    for (size_t i = 0; i < count; i++)
        if (glob_match(span_of(patterns[i]),
                       strchr(patterns[i], '/') != NULL ? name : base))
            return true;
    return false;
}

bool
filter_takes(const struct filter *f, struct span name)
{
    if (f->include_count > 0 && matches_any(f->include, f->include_count, name))
        return true;
    if (f->exclude_count > 0)
        return !matches_any(f->exclude, f->exclude_count, name);
    return f->include_count == 0;
}

bool
name_is_safe(struct span name)
{
    if (name.len == 0 || name.at[0] == '/' || memchr(name.at, '\0', name.len) != NULL)
        return false;
    for (size_t i = 0; i <= name.len;) {
        const char *slash = i < name.len ? memchr(name.at + i, '/', name.len - i) : NULL;
        size_t len = slash != NULL ? (size_t)(slash - name.at) - i : name.len - i;
        struct span part = {name.at + i, len};

        if (len == 0 || len > 255 || span_is(part, "..") || span_is(part, "."))
            return false;
        i += len + 1;
    }
    return true;
}

static bool
is_clean(struct span name)
{
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.at[i] < ' ' || name.at[i] == 0x7f || name.at[i] == '\\')
            return false;
    return utf8_valid(name);
}

struct span
name_shown(struct span name, struct arena *a)
{
    struct span out;
    struct buf text;

    if (is_clean(name))
        return name;
    buf_init(&text, 4 * name.len + 1);
    for (size_t i = 0; i < name.len;) {
        uint32_t code;
        size_t len = utf8_next(span_from(name, i), &code);

        if (name.at[i] == '\n')
            buf_puts(&text, "\\n");
        else if (name.at[i] == '\t')
            buf_puts(&text, "\\t");
        else if (name.at[i] == '\\')
            buf_puts(&text, "\\\\");
        else if (len == 0 || code < ' ' || (code >= 0x7f && code < 0xa0))
            for (size_t k = 0; k < MAX(len, 1u); k++)
                buf_printf(&text, "\\x%02x", (unsigned char)name.at[i + k]);
        else
            buf_put(&text, name.at + i, len);
        i += MAX(len, 1u);
    }
    out = arena_span(a, buf_span(&text));
    buf_fini(&text);
    return out;
}
