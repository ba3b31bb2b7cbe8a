/* config: shows, checks and explains the options of the server, and shows and checks the settings of the command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/settings.h"
#include "conf/conf.h"

extern char **environ;

#define SERVER_FLAGS                                                                     \
    {"config", 'c', "FILE", "a configuration file (TOML)", false},                       \
        {"set", 0, "NAME=VALUE", "sets one option", true},                               \
        {"json", 0, NULL, "as JSON", false},                                             \
    {                                                                                    \
        "client", 0, NULL, "the command line's own settings, not the server's", false    \
    }
static const struct flag show_flags[] = {
    SERVER_FLAGS,
    {"origin", 0, NULL, "print where each value came from", false},
    {"endpoint-url", 0, "URL", "of the command line: as for other verbs", false},
    {"profile", 0, "NAME", "the same", false},
    {"region", 0, "NAME", "the same", false},
    {"ca-bundle", 0, "FILE", "the same", false},
    {"no-verify-tls", 0, NULL, "the same", false},
    {"no-verify-ssl", 0, NULL, "the same", false},
    {"no-sign", 0, NULL, "the same", false},
    {NULL, 0, NULL, NULL, false},
};
static const char *const show_examples[] = {
    "forebay config show --origin", "forebay config show --client --profile lab", NULL};
static const struct verb show = {
    .name = "config show",
    .summary = "show the options of the server; of the command line with --client",
    .arguments = "",
    .examples = show_examples,
    .flags = show_flags,
    .more = "--origin ends with the settings of the command line, as comments: "
            "endpoint, region, keys, and which flag,\nvariable or profile said each."};

static const struct flag check_flags[] = {SERVER_FLAGS, {NULL, 0, NULL, NULL, false}};
static const char *const check_examples[] = {"forebay config check forebay.toml",
                                             "forebay config check --client", NULL};
static const struct verb check = {
    .name = "config check",
    .summary = "check a configuration file, or with --client one of profiles",
    .arguments = "[FILE]",
    .most = 1,
    .examples = check_examples,
    .flags = check_flags,
    .more = "Without FILE it looks at ~/.config/forebay/config.toml as well, where there "
            "is one."};

static const char *const explain_examples[] = {"forebay config explain cache.budget",
                                               "forebay config explain", NULL};
static const struct verb explain = {.name = "config explain",
                                    .summary = "explain an option of the server, or all",
                                    .arguments = "[NAME]",
                                    .most = 1,
                                    .examples = explain_examples};

/* ---- of the command line ---- */

static enum err
show_client(const struct args *a, const char *line_begins, struct buf *out,
            struct errbuf *eb)
{
    struct settings s;
    enum err rc = settings_find(a, &settings_first, false, &s, eb);

    if (rc == ERR_OK && args_has(a, "json"))
        settings_show_json(&s, out);
    else if (rc == ERR_OK)
        settings_show(&s, line_begins, out);
    settings_fini(&s);
    return rc;
}

static enum err
check_client(const char *file, struct buf *out, struct errbuf *eb)
{
    char *path;
    enum err rc = settings_check(file, &path, eb);

    if (rc == ERR_OK && out != NULL && path != NULL)
        buf_printf(out, "%s: ok\n", path);
    free(path);
    return rc;
}

/* `out` of people: a line for each file; of programs: that all is well, anything else is an error. */
static enum err
config_check(const struct args *a, struct buf *out, struct errbuf *eb)
{
    bool client = args_has(a, "client"), json = args_has(a, "json");
    const char *file = a->count == 1 ? a->at[0] : NULL;
    enum err rc = ERR_OK;

    if (!client && !json)
        buf_puts(out, "ok\n");
    if (client || (file == NULL && args_value(a, "config") == NULL))
        rc = check_client(client ? file : NULL, json ? NULL : out, eb);
    if (rc == ERR_OK && client && out->len == 0 && !json)
        buf_puts(out, "ok: there is no file of profiles\n");
    if (rc == ERR_OK && json)
        buf_puts(out, "{\"ok\":true}\n");
    return rc;
}

/* The server's and the command line's: what is wrong with the one is no reason not to show the other. */
static void
add_client(const struct args *a, struct buf *out)
{
    struct errbuf eb = {{0}};

    buf_puts(out, "\n# The command line's own (docs/cli.md): value, and who said it\n");
    if (show_client(a, "# ", out, &eb) != ERR_OK)
        buf_printf(out, "# %s\n", eb.text);
}

/* ---- all of it ---- */

/* `file` NULL: the one of --config, if any. */
static enum err
config_load(const struct args *a, const char *file, struct conf *c, struct errbuf *eb)
{
    const char *pair;
    enum err rc;

    if (args_has(a, "client"))
        return ERR_OK; /* nothing of the server's */
    if (file == NULL)
        file = args_value(a, "config");
    rc = file != NULL ? conf_file(c, file, eb) : ERR_OK;
    if (rc == ERR_OK)
        rc = conf_env(c, environ, eb);
    for (size_t i = 0; rc == ERR_OK && (pair = args_nth(a, "set", i)) != NULL; i++)
        rc = conf_set(c, pair, "--set", eb);
    return rc;
}

static enum err
config_show(const struct args *a, struct conf *c, struct buf *out, struct errbuf *eb)
{
    bool json = args_has(a, "json");

    if (args_has(a, "client"))
        return show_client(a, "", out, eb);
    conf_show(c,
              json                    ? CONF_AS_JSON
              : args_has(a, "origin") ? CONF_AS_TOML_ORIGIN
                                      : CONF_AS_TOML,
              out);
    if (args_has(a, "origin") && !json)
        add_client(a, out);
    return ERR_OK;
}

static enum err
config_explain(const struct args *a, struct buf *out, struct errbuf *eb)
{
    if (a->count == 1)
        return conf_explain(span_of(a->at[0]), out, eb);
    conf_reference(out);
    return ERR_OK;
}

static enum exit_code
config_run(const struct args *a)
{
    struct conf *c = conf_new();
    struct errbuf eb = {{0}};
    struct buf out;
    enum err rc = ERR_OK;

    buf_init(&out, MIB(1));
    if (a->verb != &explain)
        rc = config_load(a, a->verb == &check && a->count == 1 ? a->at[0] : NULL, c, &eb);
    if (rc == ERR_OK)
        rc = a->verb == &show    ? config_show(a, c, &out, &eb)
             : a->verb == &check ? config_check(a, &out, &eb)
                                 : config_explain(a, &out, &eb);
    if (rc == ERR_OK)
        fwrite(out.at, 1, out.len, stdout);
    buf_fini(&out);
    conf_free(&c);
    return rc == ERR_OK            ? EXIT_OK_
           : rc == ERR_BAD_REQUEST ? cli_usage(&eb, a->verb)
                                   : cli_fail(rc, &eb);
}

static const struct verb group = {
    .name = "config",
    .summary = "show, check and explain the options of the server; of the command line "
               "with --client"};
static const struct cli_verb cli_show = {&show, config_run},
                             cli_check = {&check, config_run},
                             cli_config_explain = {&explain, config_run};
static const struct cli_verb *const verbs[] = {&cli_show, &cli_check, &cli_config_explain,
                                               NULL};
const struct cli_group cli_config_group = {&group, verbs};
