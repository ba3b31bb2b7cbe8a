/* main: finds the verb, reads its flags, runs it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"

static const struct cli_verb *const verbs[] = {
    &cli_serve, &cli_mb,   &cli_rb,     &cli_ls,      &cli_cp,     &cli_put,
    &cli_get,   &cli_cat,  &cli_rm,     &cli_stat,    &cli_bucket, &cli_bench,
    &cli_env,   &cli_disk, &cli_config, &cli_version,
};

static void
overview(FILE *out)
{
    const struct verb *list[ARRAY_LEN(verbs) + 1] = {NULL};
    struct buf text;

    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        list[i] = verbs[i]->verb;
    buf_init(&text, KIB(64));
    buf_puts(&text, "usage: forebay VERB [FLAGS] [ARGUMENTS]\n\n");
    flags_overview(list, &text);
    buf_puts(&text, "\nforebay VERB --help tells more of one.\n");
    fwrite(text.at, 1, text.len, out);
    buf_fini(&text);
}

static const struct cli_verb *
find_verb(const char *name, struct errbuf *eb)
{
    const struct verb *list[ARRAY_LEN(verbs) + 1] = {NULL}, *found;

    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        list[i] = verbs[i]->verb;
    found = flags_verb(list, name, eb);
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (verbs[i]->verb == found)
            return verbs[i];
    return NULL;
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

int
main(int argc, char **argv)
{
    const struct cli_verb *v;
    struct errbuf eb = {{0}};
    struct args args;
    enum exit_code code;

    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        overview(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        overview(stdout);
        return EXIT_OK_;
    }
    v = find_verb(strcmp(argv[1], "--version") == 0 ? "version" : argv[1], &eb);
    if (v == NULL)
        return (int)cli_usage(&eb, NULL);
    if (flags_parse(v->verb, argc - 2, argv + 2, &args, &eb) != ERR_OK)
        return (int)cli_usage(&eb, v->verb);
    code = args.help ? show_help(v->verb) : v->run(&args);
    args_fini(&args);
    return (int)code;
}
