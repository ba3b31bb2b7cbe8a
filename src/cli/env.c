/* env: variables that point other tools at a server; for eval, or for a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/session.h"
#include "cli/settings.h"

static const struct flag flags[] = {
    {"credentials", 0, "FILE",
     "keys from this file; else the server says where its own are", false},
    {"format", 0, "shell|dotenv|json", "what is printed", false},
    {"origin", 0, NULL, "say instead what is used, and where each was said", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "eval $(forebay env)",
    "eval $(forebay env --credentials data/.forebay/credentials)",
    "forebay env --format dotenv > .env",
    "forebay env --origin",
    NULL,
};
static const struct verb verb = {.name = "env",
                                 .summary =
                                     "print variables that point other tools at a server",
                                 .arguments = "",
                                 .examples = examples,
                                 .flags = flags,
                                 .more = "The shell form also defines a function `aws` "
                                         "that names the endpoint, for AWS CLIs before\n"
                                         "2.13, which have no variable for it."};

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
    puts("';");
}

/* AWS CLIs before 2.13 (Debian 12 has 2.9) know no variable for the endpoint. Everything ends in ';', so that the text may be
 * evaluated with or without quotes around it. */
static void
print_aws(void)
{
    puts("aws() { command aws --endpoint-url \"$AWS_ENDPOINT_URL\" \"$@\"; };");
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
    if (format == NULL || strcmp(format, "shell") == 0)
        print_aws();
    if (format != NULL && strcmp(format, "json") == 0)
        puts("}");
    return ERR_OK;
}

/* Where a server on this machine says its keys are; only who may read the file gets them. */
static enum exit_code
ask_server(struct session *s)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_request r = {.method = "GET", .path = SPAN("/_/stat")};
    char **file = s->arg;
    struct span answer;
    int status = 0;
    json_t *doc;

    if (s3_request(s->s3, &r, a, &status, &answer, &s->eb) == ERR_OK && status == 200) {
        doc = json_loadb(answer.at, answer.len, 0, NULL);
        if (json_is_string(json_object_get(doc, "credentials")))
            *file = xstrdup(json_string_value(json_object_get(doc, "credentials")));
        json_decref(doc);
    }
    arena_free(&a);
    return EXIT_OK_;
}

static bool
is_aws(const struct settings *s)
{
    return !s->has_keys || strncmp(s->keys_how, "AWS", 3) == 0;
}

/* --credentials; else flags, the environment, a profile; and before those of AWS's tools the server's own keys. */
static enum err
find(const struct args *a, struct settings *out, struct errbuf *eb)
{
    const char *file = args_value(a, "credentials");
    char *told = NULL;
    enum err rc = settings_find(a, &settings_first, false, out, eb);

    if (rc == ERR_OK && file == NULL && is_aws(out) && args_value(a, "profile") == NULL) {
        (void)session_run_own_keys(a, ask_server, &told);
        if (told != NULL && access(told, R_OK) == 0)
            file = told;
    }
    if (rc == ERR_OK && file != NULL) {
        s3_credentials_fini(&out->keys);
        setenv("AWS_SHARED_CREDENTIALS_FILE", file, 1);
        rc = s3_credentials_chain("default", &out->keys, NULL, eb);
        out->has_keys = rc == ERR_OK;
    }
    free(told);
    return rc;
}

static void
print_origin(const struct settings *s)
{
    struct buf out;

    buf_init(&out, KIB(64));
    settings_show(s, "", &out);
    fwrite(out.at, 1, out.len, stdout);
    buf_fini(&out);
}

static enum exit_code
run(const struct args *a)
{
    struct settings s = {0};
    struct errbuf eb = {{0}};
    struct pair pairs[12];
    size_t n = 0;
    enum err rc = args_has(a, "origin")
                      ? settings_find(a, &settings_first, false, &s, &eb)
                      : find(a, &s, &eb);

    if (rc == ERR_OK && args_has(a, "origin")) {
        print_origin(&s);
    } else if (rc == ERR_OK) {
        pairs[n++] = (struct pair){"AWS_ENDPOINT_URL", s.endpoint.value};
        pairs[n++] = (struct pair){"AWS_ENDPOINT_URL_S3", s.endpoint.value};
        pairs[n++] = (struct pair){"S3_ENDPOINT_URL", s.endpoint.value};
        pairs[n++] = (struct pair){"FOREBAY_ENDPOINT", s.endpoint.value};
        pairs[n++] = (struct pair){"AWS_REGION", s.region.value};
        pairs[n++] = (struct pair){"AWS_DEFAULT_REGION", s.region.value};
        if (s.has_keys) {
            pairs[n++] = (struct pair){"AWS_ACCESS_KEY_ID", s.keys.access_key};
            pairs[n++] = (struct pair){"AWS_SECRET_ACCESS_KEY", s.keys.secret_key};
        }
        if (s.has_keys && s.keys.session_token != NULL)
            pairs[n++] = (struct pair){"AWS_SESSION_TOKEN", s.keys.session_token};
        if (s.ca_bundle.value != NULL && strcmp(s.ca_bundle.how, "AWS_CA_BUNDLE") != 0)
            pairs[n++] = (struct pair){"AWS_CA_BUNDLE", s.ca_bundle.value};
        rc = print_all(pairs, n, args_value(a, "format"), &eb);
    }
    settings_fini(&s);
    return rc == ERR_OK            ? EXIT_OK_
           : rc == ERR_BAD_REQUEST ? cli_usage(&eb, &verb)
                                   : cli_fail(rc, &eb);
}
const struct cli_verb cli_env = {&verb, run};
