/* env: variables that point other tools at a server; for eval, or for a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/session.h"

static const struct flag flags[] = {
    {"endpoint-url", 0, "URL", "the server; FOREBAY_ENDPOINT, else http://127.0.0.1:9000",
     false},
    {"credentials", 0, "FILE", "keys from this file, as forebay serve prints its path",
     false},
    {"profile", 0, "NAME", "the profile in it; default", false},
    {"region", 0, "NAME", "us-east-1 unless given", false},
    {"format", 0, "shell|dotenv|json", "what is printed", false},
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "eval $(forebay env --credentials data/.forebay/credentials)",
    "forebay env --format dotenv > .env",
    NULL,
};
static const struct verb verb = {.name = "env",
                                 .summary =
                                     "print variables that point other tools at a server",
                                 .arguments = "",
                                 .examples = examples,
                                 .flags = flags};

struct pair {
    const char *name, *value;
};

/* Values may hold anything: in single quotes, a quote as '\''. */
static void
print_shell(const struct pair *p)
{
    printf("export %s='", p->name);
    for (const char *c = p->value; *c != '\0'; c++)
        if (*c == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*c);
    puts("'");
}

static enum err
print_all(const struct pair *pairs, size_t count, const char *format, struct errbuf *eb)
{
    if (format != NULL && strcmp(format, "shell") != 0 && strcmp(format, "dotenv") != 0 &&
        strcmp(format, "json") != 0)
        return err_set(eb, ERR_BAD_REQUEST,
                       "--format \"%s\": expected shell, dotenv or json", format);
    if (format != NULL && strcmp(format, "json") == 0)
        putchar('{');
    for (size_t i = 0; i < count; i++) {
        if (format == NULL || strcmp(format, "shell") == 0)
            print_shell(&pairs[i]);
        else if (strcmp(format, "dotenv") == 0)
            printf("%s=%s\n", pairs[i].name, pairs[i].value);
        else
            printf("%s\"%s\":\"%s\"", i > 0 ? "," : "", pairs[i].name, pairs[i].value);
    }
    if (format != NULL && strcmp(format, "json") == 0)
        puts("}");
    return ERR_OK;
}

static enum exit_code
run(const struct args *a)
{
    const char *file = args_value(a, "credentials"), *region = args_value(a, "region");
    struct s3_credentials keys = {0};
    struct errbuf eb = {{0}};
    char *endpoint = session_endpoint(a), *own_region = NULL;
    struct pair pairs[10];
    size_t n = 0;
    bool found = false;
    enum err rc = ERR_OK;

    if (file != NULL) {
        setenv("AWS_SHARED_CREDENTIALS_FILE", file, 1);
        rc = s3_credentials_chain(
            args_value(a, "profile") != NULL ? args_value(a, "profile") : "default",
            &keys, &own_region, &eb);
        found = rc == ERR_OK;
    } else {
        rc = session_keys(a, false, &keys, &own_region, &found, &eb);
    }
    if (rc == ERR_OK) {
        pairs[n++] = (struct pair){"AWS_ENDPOINT_URL", endpoint};
        pairs[n++] = (struct pair){"AWS_ENDPOINT_URL_S3", endpoint};
        pairs[n++] = (struct pair){"S3_ENDPOINT_URL", endpoint};
        pairs[n++] = (struct pair){"FOREBAY_ENDPOINT", endpoint};
        region = region != NULL ? region : own_region != NULL ? own_region : "us-east-1";
        pairs[n++] = (struct pair){"AWS_REGION", region};
        pairs[n++] = (struct pair){"AWS_DEFAULT_REGION", region};
        if (found) {
            pairs[n++] = (struct pair){"AWS_ACCESS_KEY_ID", keys.access_key};
            pairs[n++] = (struct pair){"AWS_SECRET_ACCESS_KEY", keys.secret_key};
        }
        rc = print_all(pairs, n, args_value(a, "format"), &eb);
    }
    s3_credentials_fini(&keys);
    free(own_region);
    free(endpoint);
    return rc == ERR_OK            ? EXIT_OK_
           : rc == ERR_BAD_REQUEST ? cli_usage(&eb, &verb)
                                   : cli_fail(rc, &eb);
}
const struct cli_verb cli_env = {&verb, run};
