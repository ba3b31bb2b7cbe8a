/* One pass over the text, line by line. `names` remembers what each path is, so that
 * nothing is defined twice; the rules are those of TOML 1.0, "Keys" and "Table". */
#include "conf/toml.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/table.h"
#include "base/utf8.h"

/* What a path names. */
struct name {
    enum {
        VALUE,
        BY_HEADER,   /* [a.b] itself */
        BY_SUBTABLE, /* a, because of [a.b]: may still get its own header */
        BY_DOTS,     /* a, because of a.b = 1: complete when its section ends */
    } is;
    unsigned section; /* number of the header under which it was made */
};

struct key {
    char text[TOML_KEY_MAX + 1]; /* dotted */
    size_t ends[TOML_PARTS_MAX]; /* where each part ends */
    size_t parts;
};

struct parser {
    const char *name;
    const char *at, *end;
    unsigned line, section;
    struct key table; /* the last header */
    struct table names;
    struct arena *arena; /* keys and names */
    char string[TOML_STRING_MAX];
    size_t used; /* of `string` */
    struct span items[TOML_ARRAY_MAX];
    size_t values;
    struct errbuf *eb;
};

#define FAIL(p, ...) err_set((p)->eb, ERR_BAD_REQUEST, __VA_ARGS__)

/* ---- characters ---- */

static int
peek(const struct parser *p)
{
    return p->at < p->end ? (unsigned char)*p->at : -1;
}

static bool
accept(struct parser *p, char c)
{
    if (peek(p) != (unsigned char)c)
        return false;
    p->at++;
    return true;
}

static bool
looking_at(const struct parser *p, const char *text)
{
    size_t len = strlen(text);

    return (size_t)(p->end - p->at) >= len && memcmp(p->at, text, len) == 0;
}

static void
skip_blanks(struct parser *p)
{
    while (peek(p) == ' ' || peek(p) == '\t')
        p->at++;
}

static bool
accept_newline(struct parser *p)
{
    if (looking_at(p, "\r\n"))
        p->at += 2;
    else if (!accept(p, '\n'))
        return false;
    p->line++;
    return true;
}

static bool
is_control(int c)
{
    return (c >= 0 && c < ' ' && c != '\t') || c == 0x7F;
}

/* Up to the end of the line, not over it. */
static enum err
skip_comment(struct parser *p)
{
    if (peek(p) != '#')
        return ERR_OK;
    while (peek(p) >= 0 && peek(p) != '\n' && !looking_at(p, "\r\n")) {
        if (is_control(peek(p)))
            return FAIL(p, "a control character 0x%02x in a comment", (unsigned)peek(p));
        p->at++;
    }
    return ERR_OK;
}

static enum err
end_of_line(struct parser *p)
{
    enum err rc;

    skip_blanks(p);
    rc = skip_comment(p);
    if (rc != ERR_OK)
        return rc;
    if (peek(p) < 0 || accept_newline(p))
        return ERR_OK;
    return FAIL(p, "something more behind the value: one key = value a line");
}

/* ---- strings ---- */

static enum err
toml_put_bytes(struct parser *p, const char *bytes, size_t len)
{
    if (len > sizeof p->string - p->used)
        return FAIL(p, "the strings of a value take more than %d bytes", TOML_STRING_MAX);
    memcpy(p->string + p->used, bytes, len);
    p->used += len;
    return ERR_OK;
}

static enum err
parse_unicode(struct parser *p, unsigned digits)
{
    uint32_t code = 0;
    char bytes[4];

    for (unsigned i = 0; i < digits; i++) {
        int c = peek(p);
        unsigned v;

        if (c >= '0' && c <= '9')
            v = (unsigned)c - '0';
        else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
            v = ((unsigned)c | 32) - 'a' + 10;
        else
            return FAIL(p, "\\%c wants %u hex digits", digits == 4 ? 'u' : 'U', digits);
        code = code << 4 | v;
        p->at++;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        return FAIL(p, "U+%04" PRIX32 " is no character", code);
    return toml_put_bytes(p, bytes, utf8_put(code, bytes));
}

static enum err
parse_escape(struct parser *p)
{
    static const char names[] = "btnfr\"\\";
    static const char values[] = "\b\t\n\f\r\"\\";
    int c = peek(p);
    const char *which;

    if (c < 0)
        return FAIL(p, "a string without an end");
    p->at++;
    if (c == 'u' || c == 'U')
        return parse_unicode(p, c == 'u' ? 4 : 8);
    which = c != 0 ? strchr(names, c) : NULL;
    if (which == NULL)
        return FAIL(p, "an escape of this kind does not exist in a string: \\%c",
                    is_control(c) || c >= 0x7F ? '?' : c);
    return toml_put_bytes(p, values + (which - names), 1);
}

/* At the opening quote. The bytes go into p->string. */
static enum err
parse_string(struct parser *p, struct span *out)
{
    const char quote = *p->at;
    size_t start = p->used;
    enum err rc = ERR_OK;

    if (looking_at(p, "\"\"\"") || looking_at(p, "'''"))
        return FAIL(p, "strings over several lines are not taken here");
    p->at++;
    while (rc == ERR_OK && !accept(p, quote)) {
        int c = peek(p);

        if (c < 0 || c == '\n' || looking_at(p, "\r\n"))
            return FAIL(p, "a string without an end on its line");
        if (is_control(c))
            return FAIL(p, "a control character 0x%02x in a string: write it as \\u%04x",
                        (unsigned)c, (unsigned)c);
        p->at++;
        rc =
            c == '\\' && quote == '"' ? parse_escape(p) : toml_put_bytes(p, p->at - 1, 1);
    }
    *out = (struct span){p->string + start, p->used - start};
    return rc;
}

/* ---- numbers and words ---- */

static bool
is_word_char(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '-';
}

static int
digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 32) >= 'a' && (c | 32) <= 'f')
        return (c | 32) - 'a' + 10;
    return 99;
}

/* "1_000", "+5", "0x1f", "0o17", "0b11". */
static bool
integer_of(struct span word, int64_t *out)
{
    bool negative = span_starts(word, SPAN("-"));
    bool sign = negative || span_starts(word, SPAN("+"));
    struct span s = span_from(word, sign);
    int base = 10;
    int64_t v = 0;

    if (!sign && s.len > 2 && s.at[0] == '0' &&
        (s.at[1] == 'x' || s.at[1] == 'o' || s.at[1] == 'b')) {
        base = s.at[1] == 'x' ? 16 : s.at[1] == 'o' ? 8 : 2;
        s = span_from(s, 2);
    }
    if (s.len == 0 || (base == 10 && s.len > 1 && s.at[0] == '0'))
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] == '_') { /* only between digits */
            if (i == 0 || i + 1 == s.len || s.at[i - 1] == '_')
                return false;
            continue;
        }
        if (digit_value(s.at[i]) >= base || __builtin_mul_overflow(v, base, &v))
            return false;
        if (negative ? __builtin_sub_overflow(v, digit_value(s.at[i]), &v)
                     : __builtin_add_overflow(v, digit_value(s.at[i]), &v))
            return false;
    }
    *out = v;
    return true;
}

static enum err
parse_word(struct parser *p, struct toml_value *v)
{
    struct span word = {p->at, 0};

    while (is_word_char(peek(p)) || peek(p) == '+' || peek(p) == '.' || peek(p) == ':')
        p->at++;
    word.len = (size_t)(p->at - word.at);
    if (span_is(word, "true") || span_is(word, "false")) {
        v->kind = TOML_BOOLEAN;
        v->boolean = span_is(word, "true");
        return ERR_OK;
    }
    v->kind = TOML_INTEGER;
    if (word.len > 0 && integer_of(word, &v->integer))
        return ERR_OK;
    if (word.len == 0)
        return FAIL(p, "no value behind \"=\"");
    return FAIL(
        p,
        "\"%.*s\" is no value: strings want quotes, integers have 64 bits, floats and "
        "dates are not taken here",
        (int)MIN(word.len, 64), word.at);
}

/* ---- arrays ---- */

static enum err
skip_to_item(struct parser *p)
{
    enum err rc;

    do {
        skip_blanks(p);
        rc = skip_comment(p);
        if (rc != ERR_OK)
            return rc;
    } while (accept_newline(p));
    return ERR_OK;
}

static enum err
parse_array(struct parser *p, struct toml_value *v)
{
    enum err rc;

    p->at++; /* [ */
    v->kind = TOML_ARRAY;
    v->items = p->items;
    for (;;) {
        rc = skip_to_item(p);
        if (rc != ERR_OK || accept(p, ']'))
            return rc;
        if (peek(p) != '"' && peek(p) != '\'')
            return FAIL(p, "an array here holds strings only and ends with ]");
        if (v->count == TOML_ARRAY_MAX)
            return FAIL(p, "more than %d items in an array", TOML_ARRAY_MAX);
        rc = parse_string(p, &p->items[v->count++]);
        if (rc == ERR_OK)
            rc = skip_to_item(p);
        if (rc != ERR_OK)
            return rc;
        if (accept(p, ']'))
            return ERR_OK;
        if (!accept(p, ','))
            return FAIL(p, "a comma is missing between the items of an array");
    }
}

static enum err
parse_value(struct parser *p, struct toml_value *v)
{
    *v = (struct toml_value){.line = p->line};
    p->used = 0;
    switch (peek(p)) {
    case '"':
    case '\'':
        v->kind = TOML_STRING;
        return parse_string(p, &v->string);
    case '[':
        return parse_array(p, v);
    case '{':
        return FAIL(
            p, "inline tables are not taken here: write [table] or table.key = value");
    default:
        return parse_word(p, v);
    }
}

/* ---- keys ---- */

static enum err
parse_part(struct parser *p, struct span *part)
{
    p->used = 0;
    if (peek(p) == '"' || peek(p) == '\'') {
        enum err rc = parse_string(p, part);

        if (rc != ERR_OK)
            return rc;
    } else {
        part->at = p->at;
        while (is_word_char(peek(p)))
            p->at++;
        part->len = (size_t)(p->at - part->at);
    }
    for (size_t i = 0; i < part->len; i++) {
        if (!is_word_char((unsigned char)part->at[i]))
            return FAIL(p, "a key may hold A-Z a-z 0-9 _ - only");
    }
    if (part->len == 0)
        return FAIL(p, "a key is missing");
    return ERR_OK;
}

/* Appends the dotted key at the cursor to `key`. */
static enum err
toml_parse_key(struct parser *p, struct key *key)
{
    size_t len = strlen(key->text);
    struct span part = {0};

    do {
        enum err rc;

        skip_blanks(p);
        rc = parse_part(p, &part);
        if (rc != ERR_OK)
            return rc;
        if (key->parts == TOML_PARTS_MAX)
            return FAIL(p, "a key of more than %d parts", TOML_PARTS_MAX);
        if (len + (len > 0) + part.len > TOML_KEY_MAX)
            return FAIL(p, "a key of more than %d bytes", TOML_KEY_MAX);
        if (len > 0)
            key->text[len++] = '.';
        memcpy(key->text + len, part.at, part.len);
        len += part.len;
        key->text[len] = '\0';
        key->ends[key->parts++] = len;
        skip_blanks(p);
    } while (accept(p, '.'));
    return ERR_OK;
}

/* ---- what is defined ---- */

static struct span
path(const struct key *key, size_t parts)
{
    return (struct span){key->text, parts > 0 ? key->ends[parts - 1] : 0};
}

static enum err
remember(struct parser *p, struct span what, struct name as)
{
    struct name *n = arena_alloc(p->arena, sizeof *n);

    *n = as;
    if (!table_put(&p->names, arena_span(p->arena, what), n))
        return FAIL(p, "more than %d tables and values", TOML_VALUES_MAX);
    return ERR_OK;
}

static enum err
defined_before(struct parser *p, struct span what)
{
    return FAIL(p, "\"%.*s\" is defined a second time", SPAN_ARG(what));
}

static enum err
define_table(struct parser *p, const struct key *key)
{
    struct span whole = path(key, key->parts);
    struct name *n;

    for (size_t i = 1; i < key->parts; i++) {
        n = table_get(&p->names, path(key, i));
        if (n != NULL && n->is == VALUE)
            return FAIL(p, "\"%.*s\" is a value, not a table", SPAN_ARG(path(key, i)));
        if (n == NULL) {
            enum err rc =
                remember(p, path(key, i), (struct name){BY_SUBTABLE, p->section});

            if (rc != ERR_OK)
                return rc;
        }
    }
    n = table_get(&p->names, whole);
    if (n == NULL)
        return remember(p, whole, (struct name){BY_HEADER, p->section});
    if (n->is != BY_SUBTABLE)
        return defined_before(p, whole);
    n->is = BY_HEADER;
    return ERR_OK;
}

/* The parts behind the header make tables that belong to this section alone. */
static enum err
define_value(struct parser *p, const struct key *key)
{
    struct name *n;

    for (size_t i = p->table.parts + 1; i < key->parts; i++) {
        n = table_get(&p->names, path(key, i));
        if (n == NULL) {
            enum err rc = remember(p, path(key, i), (struct name){BY_DOTS, p->section});

            if (rc != ERR_OK)
                return rc;
        } else if (n->is == VALUE) {
            return FAIL(p, "\"%.*s\" is a value, not a table", SPAN_ARG(path(key, i)));
        } else if (n->is == BY_HEADER || (n->is == BY_DOTS && n->section != p->section)) {
            return defined_before(p, path(key, i));
        } else {
            *n = (struct name){BY_DOTS, p->section};
        }
    }
    if (table_get(&p->names, path(key, key->parts)) != NULL)
        return defined_before(p, path(key, key->parts));
    return remember(p, path(key, key->parts), (struct name){VALUE, p->section});
}

/* ---- lines ---- */

static enum err
toml_parse_header(struct parser *p)
{
    struct key key = {0};
    enum err rc;

    p->at++; /* [ */
    if (peek(p) == '[')
        return FAIL(p, "arrays of tables are not taken here");
    rc = toml_parse_key(p, &key);
    if (rc != ERR_OK)
        return rc;
    if (!accept(p, ']'))
        return FAIL(p, "a table's name ends with ]");
    p->section++;
    p->table = key;
    return define_table(p, &key);
}

static enum err
toml_parse_pair(struct parser *p, toml_fn *on_value, void *arg)
{
    struct key key = p->table;
    struct toml_value v;
    unsigned line;
    enum err rc = toml_parse_key(p, &key);

    if (rc != ERR_OK)
        return rc;
    if (!accept(p, '='))
        return FAIL(p, "\"=\" and a value are missing behind \"%s\"", key.text);
    skip_blanks(p);
    rc = define_value(p, &key);
    if (rc == ERR_OK)
        rc = parse_value(p, &v);
    if (rc != ERR_OK)
        return rc;
    if (++p->values > TOML_VALUES_MAX)
        return FAIL(p, "more than %d values", TOML_VALUES_MAX);
    line = p->line;
    p->line = v.line;
    rc = on_value(key.text, &v, arg, p->eb);
    if (rc == ERR_OK)
        p->line = line;
    return rc;
}

static enum err
toml_parse_lines(struct parser *p, toml_fn *on_value, void *arg)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && p->at < p->end) {
        skip_blanks(p);
        if (peek(p) == '[')
            rc = toml_parse_header(p);
        else if (peek(p) >= 0 && peek(p) != '#' && peek(p) != '\n' &&
                 !looking_at(p, "\r\n"))
            rc = toml_parse_pair(p, on_value, arg);
        if (rc == ERR_OK)
            rc = end_of_line(p);
    }
    return rc;
}

enum err
toml_parse(const char *name, struct span text, toml_fn *on_value, void *arg,
           struct errbuf *eb)
{
    struct parser *p;
    enum err rc;

    if (text.len > TOML_TEXT_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "%s: %zu bytes, at most %u", name, text.len,
                       TOML_TEXT_MAX);
    if (!utf8_valid(text))
        return err_set(eb, ERR_BAD_REQUEST, "%s: not UTF-8", name);
    p = xcalloc(1, sizeof *p);
    p->name = name;
    p->at = text.len > 0 ? text.at : "";
    p->end = p->at + text.len;
    p->line = 1;
    p->eb = eb;
    /* A value brings at most PARTS names, a header too, each a node and its path; the
     * table stops first. */
    p->arena = arena_new(4096, (size_t)64 << 20);
    table_init(&p->names, (size_t)2 * TOML_VALUES_MAX);
    rc = toml_parse_lines(p, on_value, arg);
    if (rc != ERR_OK)
        err_prefix(eb, "%s:%u", name, p->line);
    table_fini(&p->names);
    arena_free(&p->arena);
    free(p);
    return rc;
}
