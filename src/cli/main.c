/* main: finds the verb, reads its flags, runs it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"

/* In a file that cmake/commit.cmake writes. */
extern const char main_commit[];

static const struct cli_verb *const verbs[] = {
    &cli_serve,      &cli_mb,      &cli_rb,     &cli_ls,      &cli_cp,       &cli_mv,
    &cli_put,        &cli_get,     &cli_sync,   &cli_diff,    &cli_find,     &cli_du,
    &cli_head,       &cli_cat,     &cli_rm,     &cli_stat,    &cli_env,      &cli_tls,
    &cli_share,      &cli_version, &cli_backup, &cli_restore, &cli_prefetch, &cli_jobs,
    &cli_wait,       &cli_cancel,  &cli_batch,  &cli_top,     &cli_trace,    &cli_explain,
    &cli_completion, &cli_man,     &cli_pin,    &cli_unpin,   &cli_evict,    &cli_secrets,
    &cli_ping,       &cli_ready,   &cli_doctor, &cli_tag,     &cli_undo,     &cli_mirror,
    &cli_reshard,    NULL,
};

/* Verbs of two words: the first one names the group. */
static const struct cli_group *const groups[] = {
    &cli_bench_group, &cli_bucket_group, &cli_cluster_group, &cli_config_group,
    &cli_disk_group,  &cli_shard_group,  &cli_user_group,    NULL};
static const struct cli_table table = {verbs, groups};

static const struct cli_group *
find_group(const char *name)
{
    for (size_t i = 0; groups[i] != NULL; i++)
        if (strcmp(groups[i]->verb->name, name) == 0)
            return groups[i];
    return NULL;
}

static void
group_overview(const struct cli_group *g, FILE *out)
{
    const struct verb *list[CLI_GROUP_MAX + 1] = {NULL};
    struct buf text;

    for (size_t i = 0; i < CLI_GROUP_MAX && g->verbs[i] != NULL; i++)
        list[i] = g->verbs[i]->verb;
    buf_init(&text, KIB(64));
    buf_printf(&text, "%s\n\n", g->verb->summary);
    flags_overview(list, &text);
    buf_printf(&text,
               "\n"
               "forebay %s VERB --help explains one.\n",
               g->verb->name);
    fwrite(text.at, 1, text.len, out);
    buf_fini(&text);
}

static void
overview(FILE *out)
{
    const struct verb *list[ARRAY_LEN(verbs) + ARRAY_LEN(groups) + 1] = {NULL};
    struct buf text;
    size_t n = 0;

    for (size_t i = 0; verbs[i] != NULL; i++)
        list[n++] = verbs[i]->verb;
    for (size_t i = 0; groups[i] != NULL; i++)
        list[n++] = groups[i]->verb;
    buf_init(&text, KIB(64));
    buf_puts(&text, "usage: forebay VERB [FLAGS] [ARGUMENTS]\n\n");
    flags_overview(list, &text);
    buf_puts(&text, "\n"
                    "forebay VERB --help explains one.\n");
    fwrite(text.at, 1, text.len, out);
    buf_fini(&text);
}

/* Before the flags are read: an error in them is JSON, too. */
static bool
wants_json(int argc, char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0 || strncmp(argv[i], "-ojson", 6) == 0 ||
            strncmp(argv[i], "--output=json", 13) == 0 ||
            (i + 1 < argc && strncmp(argv[i + 1], "json", 4) == 0 &&
             (strcmp(argv[i], "-o") == 0 || strcmp(argv[i], "--output") == 0)))
            return true;
    return false;
}

static enum exit_code
show_help(const struct verb *v)
{
    struct buf text;

    buf_init(&text, KIB(256));
    flags_help(v, "forebay", &text);
    fwrite(text.at, 1, text.len, stdout);
    buf_fini(&text);
    return EXIT_OK_;
}

/* Runs the verb with the words behind it. */
static int
main_run(const struct cli_verb *v, int argc, char *const *argv)
{
    struct errbuf eb = {{0}};
    enum exit_code code;
    struct args args;

    cli_json_errors(wants_json(argc, argv));
    if (flags_parse(v->verb, argc, argv, &args, &eb) != ERR_OK)
        return (int)cli_usage(&eb, v->verb);
    code = args.help ? show_help(v->verb) : v->run(&args);
    args_fini(&args);
    return (int)output_end(code);
}

/* "disk check DIR": argv[1] is "disk". */
static int
run_group(const struct cli_group *g, int argc, char **argv)
{
    const struct cli_verb *v;
    struct errbuf eb = {{0}};
    int words;

    if (argc < 3 || (argv[2][0] == '-' && strcmp(argv[2], "--help") != 0 &&
                     strcmp(argv[2], "-h") != 0)) {
        group_overview(g, stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0) {
        group_overview(g, stdout);
        return EXIT_OK_;
    }
    v = verbs_find(argc - 1, argv + 1, &words, &eb);
    if (v == NULL)
        return (int)cli_usage(&eb, g->verb);
    return main_run(v, argc - 3, argv + 3);
}

/* A flag before the verb by the name that every verb has for it: `bucket attach` has an --endpoint of its own. */
static char *
in_full(char *word)
{
    struct span name = {word + 2, strcspn(word + 2, "=")}, real = flags_real_name(name);

    return real.at == name.at ? word
                              : xasprintf("--%.*s%s", SPAN_ARG(real), name.at + name.len);
}

/* "forebay -q disk ls" becomes "forebay disk ls -q": flags before the verb go behind its words. */
static enum err
put_verb_first(int argc, char **argv, struct errbuf *eb)
{
    static const struct flag common[] = {SESSION_FLAGS, {NULL, 0, NULL, NULL, false}};
    char **lead = NULL;
    int count, words;
    enum err rc;

    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "--version") == 0)
        return ERR_OK;
    rc = flags_lead(common, argc - 1, argv + 1, &count, eb);
    if (rc == ERR_OK && count > 0 && count == argc - 1)
        rc = err_set(eb, ERR_BAD_REQUEST, "a verb is missing after \"%.64s\"",
                     argv[count]);
    if (rc != ERR_OK || count == 0)
        return rc;
    words = find_group(argv[1 + count]) != NULL && argc > 2 + count ? 2 : 1;
    lead = xcalloc((size_t)count, sizeof *lead);
    for (int i = 0; i < count; i++)
        lead[i] = strncmp(argv[1 + i], "--", 2) == 0 ? in_full(argv[1 + i]) : argv[1 + i];
    memmove(argv + 1, argv + 1 + count, (size_t)words * sizeof *argv);
    memcpy(argv + 1 + words, lead, (size_t)count * sizeof *argv);
    free(lead);
    return ERR_OK;
}

int
main(int argc, char **argv)
{
    const struct cli_group *g;
    const struct cli_verb *v;
    struct errbuf eb = {{0}};
    static char version[] = "version", help[] = "--help";
    int words;

    metrics_set_commit(main_commit);
    output_begin();
    signal(SIGPIPE, SIG_IGN);
    verbs_set(&table);
    if (argc < 2) {
        overview(stderr);
        return EXIT_USAGE;
    }
    if (put_verb_first(argc, argv, &eb) != ERR_OK)
        return (int)cli_usage(&eb, NULL);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        (strcmp(argv[1], "help") == 0 && (argc == 2 || argv[2][0] == '-'))) {
        overview(stdout);
        return EXIT_OK_;
    }
    if (strcmp(argv[1], "help") == 0) { /* "help cp" */
        memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
        argv[argc - 1] = help;
    }
    g = find_group(argv[1]);
    if (g != NULL)
        return run_group(g, argc, argv);
    if (strcmp(argv[1], "--version") == 0)
        argv[1] = version;
    v = verbs_find(argc - 1, argv + 1, &words, &eb);
    if (v == NULL)
        return (int)cli_usage(&eb, NULL);
    return main_run(v, argc - 2, argv + 2);
}
