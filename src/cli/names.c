#include "cli/names.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "wire/brace.h"

/* ---- braces ---- */

#define NAME_ROOM 8192

static enum err
give_all(const struct brace *b, names_on *on_name, void *arg, struct errbuf *eb)
{
    struct buf name;
    enum err rc = ERR_OK;

    buf_init(&name, NAME_ROOM);
    for (uint64_t i = 0; rc == ERR_OK && i < brace_count(b); i++) {
        buf_clear(&name);
        brace_pattern(b, i, &name);
        buf_putc(&name, '\0');
        rc = name.full ? err_set(eb, ERR_TOO_LARGE, "a name has over %d bytes", NAME_ROOM)
                       : on_name(arg, (struct span){name.at, name.len - 1}, eb);
    }
    buf_fini(&name);
    return rc;
}

enum err
names_expand(struct span text, names_on *on_name, void *arg, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(4), MIB(8));
    struct brace *b;
    size_t at;
    enum err rc = brace_parse(text, a, &b, eb);

    if (rc == ERR_OK && brace_is_open(text, &at))
        rc = err_set(eb, ERR_BAD_REQUEST,
                     "\"%.*s\": this brace is not closed (\\{ is a brace itself)",
                     (int)MIN(text.len - at, 60u), text.at + at);
    if (rc == ERR_OK && brace_count(b) > NAMES_MAX)
        rc = err_set(eb, ERR_TOO_LARGE, "the braces give over %u names", NAMES_MAX);
    if (rc == ERR_OK)
        rc = give_all(b, on_name, arg, eb);
    arena_free(&a);
    return rc;
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
names_one(struct span p, char c)
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
        step = k < n.len && i < p.len ? names_one(span_from(p, i), n.at[k]) : 0;
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

const char *
name_problem(struct span name)
{
    if (name.len == 0)
        return "it has no name";
    if (memchr(name.at, '\0', name.len) != NULL)
        return "it has a NUL";
    if (name.at[0] == '/' || name.at[name.len - 1] == '/')
        return name.at[0] == '/' ? "it begins with a slash" : "it ends in a slash";
    for (size_t i = 0; i <= name.len;) {
        const char *slash = i < name.len ? memchr(name.at + i, '/', name.len - i) : NULL;
        size_t len = slash != NULL ? (size_t)(slash - name.at) - i : name.len - i;
        struct span part = {name.at + i, len};

        if (len == 0)
            return "two slashes follow each other";
        if (len > 255)
            return "a part of it has over 255 bytes, more than a file's name may have";
        if (span_is(part, "..") || span_is(part, "."))
            return len == 2 ? "a part of it is \"..\", which leads out of the folder"
                            : "a part of it is \".\", which is no name";
        i += len + 1;
    }
    return NULL;
}

static bool
is_clean(struct span name)
{
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.at[i] < ' ' || name.at[i] == 0x7f || name.at[i] == '\\')
            return false;
    return utf8_valid(name);
}

/* What no terminal should get, as escapes; a backslash as two where a reader is to tell them from those. */
static struct span
shown(struct span name, bool doubles, struct arena *a)
{
    struct span out;
    struct buf text;

    buf_init(&text, 4 * name.len + 1);
    for (size_t i = 0; i < name.len;) {
        uint32_t code;
        size_t len = utf8_next(span_from(name, i), &code);

        if (name.at[i] == '\n')
            buf_puts(&text, "\\n");
        else if (name.at[i] == '\t')
            buf_puts(&text, "\\t");
        else if (name.at[i] == '\\' && doubles)
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

struct span
name_shown(struct span name, struct arena *a)
{
    return is_clean(name) ? name : shown(name, true, a);
}

struct span
sentence_shown(struct span text, struct arena *a)
{
    return is_clean(text) ? text : shown(text, false, a);
}
