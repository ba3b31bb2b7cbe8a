/* config: shows and explains the options. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "conf/conf.h"

extern char **environ;

static const struct flag flags[] = {
    {"config", 'c', "FILE", "a configuration file (TOML)", false},
    {"set", 0, "NAME=VALUE", "sets one option", true},
    {"origin", 0, NULL, "say where each value came from", false},
    {"json", 0, NULL, "as JSON", false},
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay config show --origin",
    "forebay config check forebay.toml",
    "forebay config explain cache.budget",
    NULL,
};
static const struct verb verb = {
    .name = "config",
    .summary = "show, check and explain the options of the server",
    .arguments = "show | check [FILE] | explain [NAME]",
    .least = 1,
    .most = 2,
    .examples = examples,
    .flags = flags,
};

static enum err
load(const struct args *a, struct conf *c, struct errbuf *eb)
{
    const char *file = args_value(a, "config"), *pair;
    enum err rc;

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
act(const struct args *a, struct conf *c, struct buf *out, struct errbuf *eb)
{
    const char *what = a->at[0];

    if (strcmp(what, "show") == 0) {
        conf_show(c,
                  args_has(a, "json")     ? CONF_AS_JSON
                  : args_has(a, "origin") ? CONF_AS_TOML_ORIGIN
                                          : CONF_AS_TOML,
                  out);
        return ERR_OK;
    }
    if (strcmp(what, "check") == 0) {
        buf_puts(out, "ok\n");
        return ERR_OK;
    }
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
run(const struct args *a)
{
    struct conf *c = conf_new();
    struct errbuf eb = {{0}};
    struct buf out;
    enum err rc = load(a, c, &eb);

    buf_init(&out, MIB(1));
    if (rc == ERR_OK)
        rc = act(a, c, &out, &eb);
    if (rc == ERR_OK)
        fwrite(out.at, 1, out.len, stdout);
    buf_fini(&out);
    conf_free(&c);
    return rc == ERR_OK            ? EXIT_OK_
           : rc == ERR_BAD_REQUEST ? cli_usage(&eb, &verb)
                                   : cli_fail(rc, &eb);
}

const struct cli_verb cli_config = {&verb, run};
