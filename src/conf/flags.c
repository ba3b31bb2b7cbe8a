#include "conf/flags.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "conf/suggest.h"

#define FAIL(eb, ...) err_set(eb, ERR_BAD_REQUEST, __VA_ARGS__)

/* ---- finding ---- */

static const struct flag *
flags_find_in(const struct flag *flags, struct span name)
{
    for (; flags != NULL && flags->name != NULL; flags++) {
        if (span_is(name, flags->name))
            return flags;
    }
    return NULL;
}

struct span
flags_real_name(struct span name)
{
    static const struct {
        const char *other, *name;
    } others[] = {{"endpoint", "endpoint-url"},
                  {"to-endpoint", "to-endpoint-url"},
                  {"no-sign-request", "no-sign"},
                  {"dryrun", "dry-run"}};

    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (span_is(name, others[i].other))
            return span_of(others[i].name);
    return name;
}

static const struct flag *
find_flag(const struct verb *v, struct span name)
{
    const struct flag *f = flags_find_in(v->flags, name);

    if (f == NULL)
        f = flags_find_in(v->common, name);
    if (f == NULL)
        f = flags_find_in(v->flags, flags_real_name(name));
    return f;
}

static const struct flag *
find_letter_in(const struct flag *f, char letter)
{
    for (; f != NULL && f->name != NULL; f++)
        if (f->letter != 0 && f->letter == letter)
            return f;
    return NULL;
}

static const struct flag *
find_letter(const struct verb *v, char letter)
{
    const struct flag *f = find_letter_in(v->flags, letter);

    return f != NULL ? f : find_letter_in(v->common, letter);
}

static enum err
unknown_flag(const struct verb *v, struct span name, struct errbuf *eb)
{
    struct suggest near;

    suggest_begin(&near, name);
    for (const struct flag *f = v->flags; f != NULL && f->name != NULL; f++)
        suggest_offer(&near, f->name);
    for (const struct flag *f = v->common; f != NULL && f->name != NULL; f++)
        suggest_offer(&near, f->name);
    suggest_offer(&near, "help");
    if (near.best != NULL)
        return FAIL(eb, "%s has no flag \"--%.*s\": did you mean \"--%s\"?", v->name,
                    (int)MIN(name.len, 64), name.at, near.best);
    return FAIL(eb, "%s has no flag \"--%.*s\"", v->name, (int)MIN(name.len, 64),
                name.at);
}

/* ---- parsing ---- */

/* The words still to be read. */
struct words {
    char *const *at;
    char *const *end;
};

static enum err
flags_give(struct args *a, const struct flag *f, const char *value, struct errbuf *eb)
{
    if (!f->many && args_value(a, f->name) != NULL)
        return FAIL(eb, "--%s is given twice", f->name);
    if (a->given_count == FLAGS_GIVEN_MAX)
        return FAIL(eb, "more than %d flags", FLAGS_GIVEN_MAX);
    a->given[a->given_count].flag = f;
    a->given[a->given_count++].value = value;
    return ERR_OK;
}

/* The next word as the value of f. */
static enum err
give_next(struct args *a, const struct flag *f, struct words *w, struct errbuf *eb)
{
    if (w->at == w->end)
        return FAIL(eb, "--%s wants a value: --%s %s", f->name, f->name, f->value);
    return flags_give(a, f, *w->at++, eb);
}

/* "--name", "--name=value" */
static enum err
parse_long(struct args *a, const char *word, struct words *w, struct errbuf *eb)
{
    const char *equals = strchr(word, '=');
    struct span name = {word, equals != NULL ? (size_t)(equals - word) : strlen(word)};
    const struct flag *f = find_flag(a->verb, name);

    if (f == NULL)
        return unknown_flag(a->verb, name, eb);
    if (equals != NULL && f->value == NULL)
        return FAIL(eb, "--%s takes no value, got \"%.64s\"", f->name, equals + 1);
    if (equals != NULL)
        return flags_give(a, f, equals + 1, eb);
    return f->value != NULL ? give_next(a, f, w, eb) : flags_give(a, f, "", eb);
}

/* "-r", "-rf", "-n5", "-n 5" */
static enum err
parse_letters(struct args *a, const char *letters, struct words *w, struct errbuf *eb)
{
    for (; *letters != '\0'; letters++) {
        const struct flag *f = find_letter(a->verb, *letters);
        enum err rc;

        if (f == NULL)
            return FAIL(eb, "%s has no flag \"-%c\"", a->verb->name,
                        *letters > ' ' && *letters < 0x7F ? *letters : '?');
        if (f->value != NULL)
            return letters[1] != '\0' ? flags_give(a, f, letters + 1, eb)
                                      : give_next(a, f, w, eb);
        rc = flags_give(a, f, "", eb);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

/* Anywhere before "--", also where it would be a value: a request for help is always answered. */
static bool
asks_for_help(const struct verb *v, struct words w)
{
    for (; w.at < w.end && strcmp(*w.at, "--") != 0; w.at++) {
        if (strcmp(*w.at, "--help") == 0 ||
            (strcmp(*w.at, "-h") == 0 && find_letter(v, 'h') == NULL))
            return true;
    }
    return false;
}

static enum err
parse_words(struct args *a, struct words w, struct errbuf *eb)
{
    bool flags_ended = false;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && w.at < w.end) {
        const char *word = *w.at++;

        if (flags_ended || word[0] != '-' || word[1] == '\0')
            a->at[a->count++] = word;
        else if (word[1] != '-')
            rc = parse_letters(a, word + 1, &w, eb);
        else if (word[2] != '\0')
            rc = parse_long(a, word + 2, &w, eb);
        else
            flags_ended = true;
    }
    return rc;
}

enum err
flags_parse(const struct verb *v, int argc, char *const *argv, struct args *out,
            struct errbuf *eb)
{
    struct words w = {argv, argv + argc};
    enum err rc;

    *out = (struct args){.verb = v};
    if (asks_for_help(v, w)) {
        out->help = true;
        return ERR_OK;
    }
    out->at = xcalloc((size_t)argc + 1, sizeof *out->at);
    rc = parse_words(out, w, eb);
    if (rc == ERR_OK && out->count < v->least)
        rc = FAIL(eb, "%s wants %s%s", v->name, v->least < v->most ? "at least " : "",
                  v->arguments);
    if (rc == ERR_OK && out->count > v->most)
        rc = FAIL(eb, "%s does not take \"%.64s\": its arguments are %s", v->name,
                  out->at[v->most], v->arguments[0] != '\0' ? v->arguments : "none");
    if (rc != ERR_OK)
        args_fini(out);
    return rc;
}

/* How many words the flag at the begin of `w` takes; 0: none of `common` is called that. */
static int
lead_words(const struct flag *common, const char *word)
{
    const char *equals = strchr(word, '=');
    const struct flag *f;

    if (word[1] == '-') {
        struct span name = {
            word + 2, (equals != NULL ? (size_t)(equals - word) : strlen(word)) - 2};

        f = flags_find_in(common, flags_real_name(name));
        return f == NULL ? 0 : f->value != NULL && equals == NULL ? 2 : 1;
    }
    for (const char *letter = word + 1; *letter != '\0'; letter++) {
        f = find_letter_in(common, *letter);
        if (f == NULL)
            return 0;
        if (f->value != NULL)
            return letter[1] != '\0' ? 1 : 2;
    }
    return 1;
}

enum err
flags_lead(const struct flag *common, int argc, char *const *argv, int *count,
           struct errbuf *eb)
{
    *count = 0;
    while (*count < argc && argv[*count][0] == '-' && argv[*count][1] != '\0') {
        const char *word = argv[*count];
        int n = lead_words(common, word);

        if (n == 0 || strcmp(word, "--") == 0)
            return FAIL(eb,
                        "\"%.64s\" stands before the verb, where only flags that all "
                        "verbs have may stand: put it behind the verb",
                        word);
        if (*count + n > argc)
            return FAIL(eb, "\"%.64s\" wants a value", word);
        *count += n;
    }
    return ERR_OK;
}

void
args_fini(struct args *a)
{
    free(a->at);
    *a = (struct args){0};
}

const char *
args_nth(const struct args *a, const char *name, size_t index)
{
    const struct flag *f = find_flag(a->verb, span_of(name));

    assert(f != NULL);
    for (size_t i = 0; i < a->given_count; i++) {
        if (a->given[i].flag == f && index-- == 0)
            return a->given[i].value;
    }
    return NULL;
}

const char *
args_value(const struct args *a, const char *name)
{
    const char *last = NULL;
    const char *value;

    for (size_t i = 0; (value = args_nth(a, name, i)) != NULL; i++)
        last = value;
    return last;
}

bool
args_has(const struct args *a, const char *name)
{
    return args_nth(a, name, 0) != NULL;
}

/* ---- help ---- */

static size_t
label_width(const struct flag *f)
{
    return strlen(f->name) + (f->value != NULL ? strlen(f->value) + 1 : 0);
}

static void
put_flag(const struct flag *f, size_t width, struct buf *out)
{
    if (f->letter != 0)
        buf_printf(out, "  -%c, --%s", f->letter, f->name);
    else
        buf_printf(out, "      --%s", f->name);
    buf_printf(out, "%s%s%*s  %s%s\n", f->value != NULL ? " " : "",
               f->value != NULL ? f->value : "", (int)(width - label_width(f)), "",
               f->help, f->many ? " (may be repeated)" : "");
}

void
flags_help(const struct verb *v, const char *program, struct buf *out)
{
    static const struct flag help = {"help", 'h', NULL, "this page", false};
    const struct flag *const tables[] = {v->flags, v->common};
    size_t width = label_width(&help);

    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        for (const struct flag *f = tables[i]; f != NULL && f->name != NULL; f++)
            width = MAX(width, label_width(f));
    }
    buf_printf(out, "%s\n\n", v->summary);
    for (const char *const *e = v->examples; e != NULL && *e != NULL; e++)
        buf_printf(out, "  $ %s\n", *e);
    buf_printf(out, "%sUsage: %s %s [FLAGS]%s%s\n", v->examples != NULL ? "\n" : "",
               program, v->name, v->arguments[0] != '\0' ? " " : "", v->arguments);
    if (v->flags != NULL && v->flags->name != NULL)
        buf_puts(out, "\nFlags:\n");
    for (const struct flag *f = v->flags; f != NULL && f->name != NULL; f++)
        put_flag(f, width, out);
    buf_puts(out, "\nFlags of all verbs:\n");
    for (const struct flag *f = v->common; f != NULL && f->name != NULL; f++)
        put_flag(f, width, out);
    put_flag(&help, width, out);
    if (v->more != NULL)
        buf_printf(out, "\n%s\n", v->more);
}

const struct verb *
flags_verb(const struct verb *const *verbs, const char *name, struct errbuf *eb)
{
    struct suggest near;

    suggest_begin(&near, span_of(name));
    for (; *verbs != NULL; verbs++) {
        if (strcmp((*verbs)->name, name) == 0)
            return *verbs;
        suggest_offer(&near, (*verbs)->name);
    }
    if (near.best != NULL)
        FAIL(eb, "there is no verb \"%.64s\": did you mean \"%s\"?", name, near.best);
    else
        FAIL(eb, "there is no verb \"%.64s\"; see --help", name);
    return NULL;
}

void
flags_overview(const struct verb *const *verbs, struct buf *out)
{
    size_t width = 0;

    for (const struct verb *const *v = verbs; *v != NULL; v++)
        width = MAX(width, strlen((*v)->name));
    for (const struct verb *const *v = verbs; *v != NULL; v++)
        buf_printf(out, "  %-*s  %s\n", (int)width, (*v)->name, (*v)->summary);
}
