/* flags: the command line of a verb, from a table: parsing, --help, and "did you mean".
 *
 * --name=value and --name value, -n value and -nvalue, switches together as -rf, "--"
 * ends the flags, "-" alone is an argument. Flags and arguments may be mixed. Every verb
 * has --help. Flags that all verbs have may stand before the verb too. Messages are usage errors (ERR_BAD_REQUEST; exit code 2).
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct flag {
    const char *name;  /* without dashes: "endpoint-url" */
    char letter;       /* 'r', or 0 */
    const char *value; /* placeholder of its value in --help: "URL"; NULL: a switch */
    const char *help;
    bool many; /* may be given more than once */
};
/* A table of flags ends with an entry without a name. */
struct verb {
    const char *name;            /* "cp" */
    const char *summary;         /* one line */
    const char *arguments;       /* "SOURCE... DEST", "" */
    unsigned least, most;        /* count of arguments */
    const char *const *examples; /* whole lines without the prompt; ends with NULL */
    const struct flag *flags;    /* may be NULL */
    const struct flag *common;   /* those all verbs share; may be NULL */
    const char *more;            /* paragraphs at the end of --help, or NULL */
};

#define FLAGS_GIVEN_MAX 256

struct args {
    const struct verb *verb;
    bool help;       /* --help or -h: nothing else was checked */
    const char **at; /* owned array; the arguments themselves are argv's */
    size_t count;
    struct {
        const struct flag *flag;
        const char *value; /* argv's; "" of a switch */
    } given[FLAGS_GIVEN_MAX];
    size_t given_count;
};

/* argv without program and verb. On ERR_OK the caller owns *out: args_fini(). */
enum err flags_parse(const struct verb *v, int argc, char *const *argv, struct args *out,
                     struct errbuf *eb) MUST_CHECK;
void args_fini(struct args *a);
/* "forebay -q ls": how many of the words before the verb are flags, of `common`, and their values. */
enum err flags_lead(const struct flag *common, int argc, char *const *argv, int *count,
                    struct errbuf *eb) MUST_CHECK;
/* Resolves an alias of a flag: "endpoint" to "endpoint-url". */
struct span flags_real_name(struct span name);

/* Asserted: the verb has a flag of that name. */
bool args_has(const struct args *a, const char *name);
const char *args_value(const struct args *a,
                       const char *name); /* NULL when not given; of several the last */
/* The index-th value of a flag that may be given often; NULL beyond the last. */
const char *args_nth(const struct args *a, const char *name, size_t index);

/* The --help of one verb, examples first. `program` is "forebay". */
void flags_help(const struct verb *v, const char *program, struct buf *out);
/* The verb of that name, or NULL and a sentence with a suggestion. `verbs` ends with
 * NULL. */
const struct verb *flags_verb(const struct verb *const *verbs, const char *name,
                              struct errbuf *eb);
/* The list of verbs: name and summary. */
void flags_overview(const struct verb *const *verbs, struct buf *out);
