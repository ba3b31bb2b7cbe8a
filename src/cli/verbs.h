/* verbs: the table of all verbs, for help, completion, the manual page and batch. main() sets it. */
#pragma once
#include "cli/cli.h"

struct cli_table {
    const struct cli_verb *const *verbs;   /* ends with NULL */
    const struct cli_group *const *groups; /* ends with NULL */
};
/* Set once by main(), before anything runs. */
void verbs_set(const struct cli_table *t);
const struct cli_table *verbs_get(void);
/* The verb that argv[0..] names, of one word or two; *words says of how many. NULL and a sentence when there is none. */
const struct cli_verb *verbs_find(int argc, char *const *argv, int *words,
                                  struct errbuf *eb);
/* Calls on_verb for each verb of one word and of two, in the order of the table. */
void verbs_each(void (*on_verb)(void *arg, const struct verb *v), void *arg);
