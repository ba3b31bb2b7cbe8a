/* config: shows, checks and explains the options of the server, and shows and checks the settings of the command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/settings.h"
#include "conf/conf.h"

extern char **environ;

static const struct flag flags[] = {
    {"config", 'c', "FILE", "a configuration file (TOML)", false},
    {"set", 0, "NAME=VALUE", "sets one option", true},
    {"origin", 0, NULL, "print where each value came from", false},
    {"json", 0, NULL, "as JSON", false},
    {"client", 0, NULL, "the command line's own settings, not the server's", false},
    {"endpoint-url", 0, "URL", "of the command line: as for other verbs", false},
    {"profile", 0, "NAME", "the same", false},
    {"region", 0, "NAME", "the same", false},
    {"ca-bundle", 0, "FILE", "the same", false},
    {"no-verify-tls", 0, NULL, "the same", false},
    {"no-verify-ssl", 0, NULL, "the same", false},
    {"no-sign", 0, NULL, "the same", false},
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay config show --origin",        "forebay config show --client --profile lab",
    "forebay config check forebay.toml",   "forebay config check --client",
    "forebay config explain cache.budget", NULL,
};
static const struct verb verb = {
    .name = "config",
    .summary = "show, check and explain the options of the server; of the command line "
               "with --client",
    .arguments = "show | check [FILE] | explain [NAME]",
    .least = 1,
    .most = 2,
    .examples = examples,
    .flags = flags,
    .more = "show --origin ends with the settings of the command line, as comments: "
            "endpoint, region, keys, and which flag,\nvariable or profile said each. "
            "check looks at ~/.config/forebay/config.toml as well, where there is one.",
};

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
    const char *file = a->count == 2 ? a->at[1] : NULL;
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

static enum err
config_load(const struct args *a, struct conf *c, struct errbuf *eb)
{
    const char *file = args_value(a, "config"), *pair;
    enum err rc;

    if (args_has(a, "client"))
        return ERR_OK; /* nothing of the server's */
    if (strcmp(a->at[0], "check") == 0 && a->count == 2)
        file = a->at[1];
    rc = file != NULL ? conf_file(c, file, eb) : ERR_OK;

    if (rc == ERR_OK)
        rc = conf_env(c, environ, eb);
    for (size_t i = 0; rc == ERR_OK && (pair = args_nth(a, "set", i)) != NULL; i++)
        rc = conf_set(c, pair, "--set", eb);
    return rc;
}

static enum err
config_act(const struct args *a, struct conf *c, struct buf *out, struct errbuf *eb)
{
    const char *what = a->at[0];

    bool client = args_has(a, "client"), json = args_has(a, "json");

    if (client && strcmp(what, "show") == 0)
        return show_client(a, "", out, eb);
    if (strcmp(what, "check") == 0)
        return config_check(a, out, eb);
    if (strcmp(what, "show") == 0) {
        conf_show(c,
                  json                    ? CONF_AS_JSON
                  : args_has(a, "origin") ? CONF_AS_TOML_ORIGIN
                                          : CONF_AS_TOML,
                  out);
        if (args_has(a, "origin") && !json)
            add_client(a, out);
        return ERR_OK;
    }
    if (json && strcmp(what, "explain") == 0)
        return err_set(eb, ERR_BAD_REQUEST,
                       "config explain is text; config show --json has the values");
    if (strcmp(what, "explain") == 0 && a->count == 2)
        return conf_explain(span_of(a->at[1]), out, eb);
    if (strcmp(what, "explain") == 0) {
        conf_reference(out);
        return ERR_OK;
    }
    return err_set(eb, ERR_BAD_REQUEST, "config \"%s\": expected show, check or explain",
                   what);
}

static enum exit_code
config_run(const struct args *a)
{
    struct conf *c = conf_new();
    struct errbuf eb = {{0}};
    struct buf out;
    enum err rc = config_load(a, c, &eb);

    buf_init(&out, MIB(1));
    if (rc == ERR_OK)
        rc = config_act(a, c, &out, &eb);
    if (rc == ERR_OK)
        fwrite(out.at, 1, out.len, stdout);
    buf_fini(&out);
    conf_free(&c);
    return rc == ERR_OK            ? EXIT_OK_
           : rc == ERR_BAD_REQUEST ? cli_usage(&eb, &verb)
                                   : cli_fail(rc, &eb);
}

const struct cli_verb cli_config = {&verb, config_run};
