/* The TOML parser: what it says about mistakes, its limits, and python's tomllib as the
 * a reference for the rest.
 *
 * test/unit/conf/toml: bad_*.toml both refuse, beyond_*.toml tomllib takes and we refuse
 * by design, all others both take with equal values. */
#include "conf/toml.h"

#include <dirent.h>
#include <inttypes.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "check.h"

#define FOLDER "test/unit/conf/toml"

/* ---- collecting values as lines ---- */

struct lines {
    char *at[512];
    size_t count;
};

static void
put_hex(struct buf *b, struct span s)
{
    char *out = buf_reserve(b, 2 * s.len + 1);

    if (out != NULL) {
        hex_encode(s.at, s.len, out);
        b->len += 2 * s.len;
    }
}

static enum err
collect(const char *key, const struct toml_value *v, void *arg, struct errbuf *eb)
{
    struct lines *l = arg;
    struct buf b;

    if (l->count == ARRAY_LEN(l->at))
        return err_set(eb, ERR_TOO_LARGE, "too many lines for this test");
    buf_init(&b, 1 << 20);
    buf_printf(&b, "%s ", key);
    switch (v->kind) {
    case TOML_STRING:
        buf_puts(&b, "str ");
        put_hex(&b, v->string);
        break;
    case TOML_INTEGER:
        buf_printf(&b, "int %" PRId64, v->integer);
        break;
    case TOML_BOOLEAN:
        buf_printf(&b, "bool %s", v->boolean ? "true" : "false");
        break;
    case TOML_ARRAY:
        buf_puts(&b, "arr ");
        for (size_t i = 0; i < v->count; i++) {
            buf_puts(&b, i > 0 ? "," : "");
            put_hex(&b, v->items[i]);
        }
        break;
    }
    l->at[l->count++] = xmemdup0(b.at, b.len);
    buf_fini(&b);
    return ERR_OK;
}

static void
clear(struct lines *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->at[i]);
    l->count = 0;
}

static enum err
parse(struct span text, struct lines *l, struct errbuf *eb)
{
    /* A copy that fits exactly, so that the sanitizer sees a step too far. */
    char *copy = xmalloc(text.len);
    enum err rc;

    memcpy(copy, text.at, text.len);
    *eb = (struct errbuf){0};
    rc = toml_parse("x.toml", (struct span){copy, text.len}, collect, l, eb);
    free(copy);
    return rc;
}

/* ---- sentences ---- */

static void
test_mistakes_are_named_with_their_line(void)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"a = 1\na = 2\n", "x.toml:2: \"a\" is defined a second time"},
        {"\n[http]\n\nidle = 5 s\n", "x.toml:4: something more behind the value"},
        {"a = 1\n[a.b]\n", "x.toml:2: \"a\" is a value, not a table"},
        {"a = hello", "x.toml:1: \"hello\" is no value: strings want quotes"},
        {"a = 1.5", "x.toml:1: \"1.5\" is no value"},
        {"a = {b = 1}", "x.toml:1: inline tables are not taken here"},
        {"[[a]]", "arrays of tables are not taken here"},
        {"a = \"\"\"x\"\"\"", "strings over several lines"},
        {"a = [1]", "an array here holds strings only"},
        {"a = [\n\"x\"\n\"y\"]", "x.toml:3: a comma is missing"},
        {"a = \"x\n", "x.toml:1: a string without an end"},
        {"a = \"\\q\"", "an escape of this kind does not exist"},
        {"a = \"\\ud800\"", "U+D800 is no character"},
        {"a = \"x\001\"", "write it as \\u0001"},
        {"a", "\"=\" and a value are missing behind \"a\""},
        {"a =", "no value behind"},
        {"\"a.b\" = 1", "a key may hold"},
        {"a.b.c.d.e.f.g.h.i = 1", "more than 8 parts"},
        {"a = \"\xff\"", "x.toml: not UTF-8"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct lines l = {0};
        struct errbuf eb;

        CHECK(parse(span_of(rows[i].text), &l, &eb) == ERR_BAD_REQUEST);
        CHECK_SAYS(eb.text, rows[i].says);
        clear(&l);
    }
}

static enum err
refuse(const char *key, const struct toml_value *v, void *arg, struct errbuf *eb)
{
    (void)arg;
    return err_set(eb, ERR_DENIED, "\"%s\" on line %u", key, v->line);
}

static void
test_the_callback_may_refuse(void)
{
    struct errbuf eb = {0};

    CHECK(toml_parse("f", SPAN("\na = [\n\"x\",\n]\n"), refuse, NULL, &eb) == ERR_DENIED);
    CHECK_STR(eb.text, "f:2: \"a\" on line 2");
}

static void
test_limits(void)
{
    struct buf b;
    struct lines l = {0};
    struct errbuf eb;

    buf_init(&b, TOML_TEXT_MAX + 1);
    buf_zero(&b, TOML_TEXT_MAX + 1);
    memset(b.at, '\n', b.len);
    CHECK(parse(buf_span(&b), &l, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "1048577 bytes, at most 1048576");
    b.len--;
    CHECK(parse(buf_span(&b), &l, &eb) == ERR_OK);
    buf_clear(&b);
    for (int i = 0; i < 40000 && !b.full; i++)
        buf_printf(&b, "[t%d]\n", i);
    CHECK(parse(buf_span(&b), &l, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "more than 4096 tables and values");
    buf_fini(&b);
    clear(&l);
}

/* ---- against tomllib ---- */

static bool
read_whole(const char *path, struct buf *out)
{
    FILE *f = fopen(path, "rb");
    size_t n = 0;
    char *p;

    if (f == NULL)
        return false;
    while ((p = buf_reserve(out, 4096)) != NULL && (n = fread(p, 1, 4096, f)) > 0)
        out->len += n;
    fclose(f);
    return true;
}

static int
by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
is_toml(const struct dirent *e)
{
    size_t len = strlen(e->d_name);

    return len > 5 && strcmp(e->d_name + len - 5, ".toml") == 0;
}

/* "name: taken", then the values; as toml_canon.py prints it. */
static void
say_ours(const char *name, struct buf *out)
{
    char *path = xasprintf(FOLDER "/%s", name);
    struct lines l = {0};
    struct errbuf eb;
    struct buf text;
    enum err rc;

    buf_init(&text, 1 << 20);
    CHECK(read_whole(path, &text));
    rc = parse(text.len > 0 ? buf_span(&text) : SPAN(""), &l, &eb);
    buf_printf(out, "%s: %s\n", name, rc == ERR_OK ? "taken" : "refused");
    qsort(l.at, l.count, sizeof l.at[0], by_bytes);
    for (size_t i = 0; i < l.count && rc == ERR_OK; i++)
        buf_printf(out, "%s\n", l.at[i]);
    clear(&l);
    buf_fini(&text);
    free(path);
}

static bool
says_taken(const char *verdicts, const char *name)
{
    char *want = xasprintf("%s: taken\n", name);
    bool yes = strstr(verdicts, want) != NULL;

    free(want);
    return yes;
}

static void
check_against(const char *verdicts, struct dirent **files, int count)
{
    struct buf ours;

    buf_init(&ours, 1 << 20);
    for (int i = 0; i < count; i++) {
        const char *name = files[i]->d_name;
        bool taken = says_taken(verdicts, name);
        char *mine;

        buf_clear(&ours);
        say_ours(name, &ours);
        mine = xmemdup0(ours.at, ours.len);
        if (strncmp(name, "beyond_", 7) == 0) {
            CHECK(taken);
            CHECK(strstr(mine, ": refused\n") != NULL);
        } else {
            CHECK(taken == (strncmp(name, "bad_", 4) != 0));
            if (strstr(verdicts, mine) == NULL)
                fprintf(stderr, "tomllib does not agree with:\n%s", mine);
            CHECK(strstr(verdicts, mine) != NULL);
        }
        free(mine);
    }
    buf_fini(&ours);
}

static void
test_tomllib_agrees(void)
{
    struct dirent **files;
    int count = scandir(FOLDER, &files, is_toml, alphasort);
    struct buf verdicts;
    FILE *python;
    size_t n;
    char *p;

    REQUIRE(count > 70);
    if (system("python3 -c 'import tomllib' 2>/dev/null") != 0) {
        printf("SKIPPED test_tomllib_agrees: no python3 with tomllib (3.11 or newer)\n");
    } else {
        buf_init(&verdicts, 1 << 20);
        python = popen("python3 test/unit/conf/toml_canon.py " FOLDER "/*.toml", "r");
        REQUIRE(python != NULL);
        while ((p = buf_reserve(&verdicts, 4096)) != NULL &&
               (n = fread(p, 1, 4096, python)) > 0)
            verdicts.len += n;
        CHECK(pclose(python) == 0);
        buf_putc(&verdicts, '\0');
        check_against(verdicts.at, files, count);
        buf_fini(&verdicts);
    }
    for (int i = 0; i < count; i++)
        free(files[i]);
    free(files);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_mistakes_are_named_with_their_line);
    RUN(test_the_callback_may_refuse);
    RUN(test_limits);
    RUN(test_tomllib_agrees);
    return check_done();
}
