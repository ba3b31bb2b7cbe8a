#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static const struct cli_table *all; /* constant after main() began */

void
verbs_set(const struct cli_table *t)
{
    all = t;
}

const struct cli_table *
verbs_get(void)
{
    return all;
}

/* Other names that people know a verb by. */
static const char *
real_name(const char *name)
{
    static const struct {
        const char *other, *name;
    } others[] = {{"presign", "share"}, {"list", "ls"}, {"move", "mv"}, {"copy", "cp"}};

    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (strcmp(name, others[i].other) == 0)
            return others[i].name;
    return name;
}

/* What others call what we have by another name, which is not taken for it: it may differ. */
static const char *
verbs_meant(const char *name)
{
    static const struct {
        const char *other, *meant;
    } words[] = {{"delete", "rm"},
                 {"del", "rm"},
                 {"remove", "rm"},
                 {"upload", "cp"},
                 {"download", "cp"},
                 {"mkdir", "mb"},
                 {"make", "mb"},
                 {"create", "mb"},
                 {"rmdir", "rb"},
                 {"tree", "ls --tree"},
                 {"rsync", "sync"},
                 {"tail", "cat --tail"},
                 {"server", "serve"},
                 {"start", "serve"},
                 {"status", "doctor"},
                 {"check", "doctor"},
                 {"info", "stat"},
                 {"show", "stat"},
                 {"warm", "prefetch"},
                 {"purge", "evict"},
                 {"stop", "cancel"},
                 {"abort", "cancel"},
                 {"url", "share"},
                 {"sign", "share"},
                 {"attach", "bucket attach"}};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(name, words[i].other) == 0)
            return words[i].meant;
    return NULL;
}

static const struct cli_verb *
verbs_find_in(const struct cli_verb *const *verbs, const char *name, struct errbuf *eb)
{
    const struct verb *list[128] = {NULL}, *found;
    size_t n = 0;

    for (size_t i = 0; verbs[i] != NULL && n < ARRAY_LEN(list) - 1; i++)
        list[n++] = verbs[i]->verb;
    found = flags_verb(list, name, eb);
    for (size_t i = 0; found != NULL && verbs[i] != NULL; i++)
        if (verbs[i]->verb == found)
            return verbs[i];
    return NULL;
}

const struct cli_verb *
verbs_find(int argc, char *const *argv, int *words, struct errbuf *eb)
{
    const struct cli_verb *found;
    char name[128];

    *words = 1;
    for (size_t i = 0; all->groups[i] != NULL; i++) {
        if (strcmp(argv[0], all->groups[i]->verb->name) != 0)
            continue;
        if (argc < 2) {
            err_set(eb, ERR_BAD_REQUEST, "%s needs a subcommand; see %s --help", argv[0],
                    argv[0]);
            return NULL;
        }
        *words = 2;
        (void)snprintf(name, sizeof name, "%s %.60s", argv[0], argv[1]);
        return verbs_find_in(all->groups[i]->verbs, name, eb);
    }
    found = verbs_find_in(all->verbs, real_name(argv[0]), eb);
    if (found == NULL && verbs_meant(argv[0]) != NULL)
        err_set(eb, ERR_BAD_REQUEST, "there is no verb \"%s\": did you mean \"%s\"?",
                argv[0], verbs_meant(argv[0]));
    return found;
}

void
verbs_each(void (*on_verb)(void *arg, const struct verb *v), void *arg)
{
    for (size_t i = 0; all->verbs[i] != NULL; i++)
        on_verb(arg, all->verbs[i]->verb);
    for (size_t g = 0; all->groups[g] != NULL; g++)
        for (size_t i = 0; all->groups[g]->verbs[i] != NULL; i++)
            on_verb(arg, all->groups[g]->verbs[i]->verb);
}
