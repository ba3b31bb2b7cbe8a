/* completion: scripts for shells; they ask `forebay completion words` what could stand next, names of buckets and objects too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "cli/walk.h"
#include "conf/conf.h"

#define NAMES_SHOWN 200

static const struct flag flags[] = {SESSION_FLAGS, {NULL, 0, NULL, NULL, false}};
static const char *const examples[] = {
    "eval \"$(forebay completion bash)\"", "forebay completion zsh > ~/.zfunc/_forebay",
    "forebay completion fish > ~/.config/fish/completions/forebay.fish", NULL};
static const struct verb verb = {
    .name = "completion",
    .summary = "print a shell completion script for verbs, flags and remote names",
    .arguments = "bash | zsh | fish",
    .least = 1,
    .most = 1000,
    .examples = examples,
    .flags = flags,
};

static const char bash[] =
    "_forebay() {\n"
    "    local cur words IFS=$'\\n'\n"
    "    cur=${COMP_LINE:0:COMP_POINT}; cur=${cur##*[[:space:]]}\n"
    "    COMPREPLY=($(forebay completion words -- \"${COMP_WORDS[@]:1:COMP_CWORD-1}\" "
    "\"$cur\" 2>/dev/null))\n"
    "    if [[ $cur == *:* ]]; then "
    "COMPREPLY=(\"${COMPREPLY[@]#\"${cur%\"${cur##*:}\"}\"}\"); "
    "fi\n"
    "    [[ ${#COMPREPLY[@]} -eq 0 && $cur != s3:* ]] && COMPREPLY=($(compgen -f -- "
    "\"$cur\"))\n"
    "    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace\n"
    "}\n"
    "complete -o filenames -F _forebay forebay\n";
static const char zsh[] =
    "#compdef forebay\n"
    "_forebay() {\n"
    "    local -a found\n"
    "    found=(\"${(@f)$(forebay completion words -- \"${(@)words[2,CURRENT-1]}\" "
    "\"${words[CURRENT]}\" 2>/dev/null)}\")\n"
    "    found=(${found:#})\n"
    "    if (( ${#found} )); then compadd -Q -S '' -- $found; else _files; fi\n"
    "}\n"
    "compdef _forebay forebay\n";
static const char fish[] =
    "complete -c forebay -a '(forebay completion words -- (commandline -opc)[2..-1] "
    "(commandline -ct) 2>/dev/null)'\n";

/* ---- what could stand next ---- */

struct wanting {
    const char *begin; /* what is typed of the word */
    const char *first; /* the word before; NULL: none. Then only second words of it */
};

static void
offer(const struct wanting *w, const char *word)
{
    if (strncmp(word, w->begin, strlen(w->begin)) == 0)
        puts(word);
}

static void
offer_verb(void *arg, const struct verb *v)
{
    const struct wanting *w = arg;
    const char *space = strchr(v->name, ' ');

    if (w->first == NULL && space == NULL)
        offer(w, v->name);
    if (w->first != NULL && space != NULL &&
        strncmp(v->name, w->first, (size_t)(space - v->name)) == 0 &&
        w->first[space - v->name] == '\0')
        offer(w, space + 1);
}

/* "iec|si|raw": the words that a flag takes. */
static void
offer_choices(const struct wanting *w, const char *value)
{
    char word[64];

    if (value == NULL || strchr(value, '|') == NULL)
        return;
    for (size_t len; *value != '\0'; value += len + (value[len] == '|')) {
        len = strcspn(value, "|");
        snprintf(word, sizeof word, "%.*s", (int)len, value);
        offer(w, word);
    }
}

/* The flag of the word before, if that takes a value: "-o", "--units". */
static const struct flag *
flag_before(const struct verb *v, const char *word)
{
    for (const struct flag *f = v->flags; f != NULL && f->name != NULL; f++)
        if (f->value != NULL &&
            ((word[0] == '-' && word[1] == f->letter && f->letter != 0 &&
              word[2] == '\0') ||
             (strncmp(word, "--", 2) == 0 && strcmp(word + 2, f->name) == 0)))
            return f;
    return NULL;
}

static void
offer_options(const struct wanting *w)
{
    for (unsigned i = 0; i < OPT_COUNT_; i++)
        offer(w, conf_option_name((enum conf_option)i));
}

/* What stands in place of an argument: subcommands of a verb ("show | check [FILE]"), options of the server. */
static void
offer_arguments(const struct wanting *w, const struct verb *v, size_t count)
{
    const char *at = v->arguments;
    char word[64];

    if (strcmp(v->name, "explain") == 0 || strcmp(v->name, "config explain") == 0)
        offer_options(w);
    if (strcmp(v->name, "help") == 0)
        verbs_each(offer_verb, &(struct wanting){.begin = w->begin});
    while (count == 0 && at != NULL && *at != '\0') {
        size_t len = strcspn(at, " |");

        snprintf(word, sizeof word, "%.*s", (int)len, at);
        if (len > 0 && word[0] >= 'a' && word[0] <= 'z' && strchr(word, ':') == NULL)
            offer(w, word);
        at = strchr(at, '|');
        if (at != NULL)
            at += strspn(at, "| ");
    }
}

static void
offer_flags(const struct wanting *w, const struct flag *f)
{
    char word[80];

    for (; f != NULL && f->name != NULL; f++) {
        snprintf(word, sizeof word, "--%s", f->name);
        offer(w, word);
    }
}

static enum err
offer_buckets(struct session *s, const char *scheme, struct span begin)
{
    struct arena *a = arena_new(KIB(64), MIB(16));
    struct s3_bucket_entry *b = NULL;
    struct s3_failure f;
    uint32_t count = 0;
    enum err rc = s3_list_buckets(s->s3, a, &b, &count, &f, &s->eb);

    for (uint32_t i = 0; rc == ERR_OK && i < count; i++)
        if (span_starts(b[i].name, begin))
            printf("%s%.*s/\n", scheme, SPAN_ARG(b[i].name));
    arena_free(&a);
    return rc;
}

static enum exit_code
offer_names(struct session *s)
{
    const char *text = s->arg;
    const char *scheme = strncmp(text, "s3://", 5) == 0 ? "s3://" : "forebay://";
    const char *rest = text + strlen(scheme);
    struct walk_options o = {.how = WALK_LEVEL, .literal = true};
    const struct found *e = NULL;
    struct walk *w = NULL;
    struct place p;
    enum err rc;

    if (strchr(rest, '/') == NULL)
        return offer_buckets(s, scheme, span_of(rest)) == ERR_OK ? EXIT_OK_
                                                                 : EXIT_UNAVAILABLE;
    rc = place_parse(text, &p, &s->eb);
    if (rc == ERR_OK)
        rc = walk_open(s, &p, &o, &w, &s->eb);
    for (int shown = 0; rc == ERR_OK && shown < NAMES_SHOWN; shown++) {
        rc = walk_next(w, &e, &s->eb);
        if (rc != ERR_OK || e == NULL)
            break;
        if (strchr(e->path, '\n') == NULL)
            printf("%s%.*s/%s\n", scheme, SPAN_ARG(p.bucket), e->path);
    }
    walk_close(&w);
    return rc == ERR_OK ? EXIT_OK_ : EXIT_UNAVAILABLE;
}

static bool
is_group(const char *word)
{
    const struct cli_group *const *g = verbs_get()->groups;

    for (; *g != NULL; g++)
        if (strcmp((*g)->verb->name, word) == 0)
            return true;
    return false;
}

/* The arguments behind "words" are the line so far, the word to complete last. */
static enum exit_code
words(const struct args *a)
{
    const char *word = a->count > 1 ? a->at[a->count - 1] : "";
    size_t before = a->count > 2 ? a->count - 2 : 0;
    struct wanting w = {.begin = word};
    const struct cli_verb *v;
    const struct flag *flag;
    struct errbuf eb = {{0}};
    int used = 0;

    if (before == 0 || (before == 1 && is_group(a->at[1]))) {
        w.first = before == 1 ? a->at[1] : NULL;
        verbs_each(offer_verb, &w);
        for (const struct cli_group *const *g = verbs_get()->groups;
             before == 0 && *g != NULL; g++)
            offer(&w, (*g)->verb->name);
        return EXIT_OK_;
    }
    if (strncmp(word, "s3://", 5) == 0 || strncmp(word, "forebay://", 10) == 0)
        return session_run(a, offer_names, (void *)(uintptr_t)word);
    v = verbs_find((int)before, (char *const *)(uintptr_t)(a->at + 1), &used, &eb);
    if (v == NULL)
        return EXIT_OK_;
    flag = flag_before(v->verb, a->at[before]);
    w.first = a->at[before];
    if (flag != NULL)
        offer_choices(&w, flag->value);
    else if (word[0] == '-')
        offer_flags(&w, v->verb->flags);
    else
        offer_arguments(&w, v->verb, before - (size_t)used);
    return EXIT_OK_;
}

static enum exit_code
completion_run(const struct args *a)
{
    struct errbuf eb = {{0}};

    if (strcmp(a->at[0], "words") == 0)
        return words(a);
    if (strcmp(a->at[0], "bash") == 0)
        fputs(bash, stdout);
    else if (strcmp(a->at[0], "zsh") == 0)
        fputs(zsh, stdout);
    else if (strcmp(a->at[0], "fish") == 0)
        fputs(fish, stdout);
    else {
        err_set(&eb, ERR_BAD_REQUEST, "completion \"%s\": expected bash, zsh or fish",
                a->at[0]);
        return cli_usage(&eb, &verb);
    }
    return EXIT_OK_;
}
const struct cli_verb cli_completion = {&verb, completion_run};
