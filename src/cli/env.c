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
#include "wire/json.h"

static const struct flag flags[] = {
    {"credentials", 0, "FILE",
     "read keys from this file; default: the file that the server names", false},
    {"format", 0, "shell|dotenv|json|python|yaml", "what is printed", false},
    {"origin", 0, NULL, "print the values in use and their origin instead", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "eval $(forebay env)",
    "eval $(forebay env --credentials data/.forebay/credentials)",
    "forebay env --format dotenv > .env",
    "forebay env --format python",
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

static void
env_print_json(const struct pair *pairs, size_t count)
{
    struct buf out;
    struct json j;

    buf_init(&out, KIB(64));
    json_begin(&j, &out);
    json_open_object(&j, NULL);
    for (size_t i = 0; i < count; i++)
        json_text(&j, pairs[i].name, pairs[i].value);
    json_end(&j);
    printf("%.*s\n", SPAN_ARG(buf_span(&out)));
    buf_fini(&out);
}

/* A text in double quotes as JSON has it is one of Python and of YAML too. */
static void
print_quoted(const char *before, const char *value, const char *after)
{
    struct buf out;

    buf_init(&out, KIB(64));
    json_escape(&out, span_of(value));
    printf("%s\"%.*s\"%s", before, SPAN_ARG(buf_span(&out)), after);
    buf_fini(&out);
}

static const char *
env_value_of(const struct pair *pairs, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(pairs[i].name, name) == 0)
            return pairs[i].value;
    return NULL;
}

/* What libraries want that read no environment. */
static void
print_python(const struct pair *p, size_t n)
{
    const char *key = env_value_of(p, n, "AWS_ACCESS_KEY_ID"),
               *token = env_value_of(p, n, "AWS_SESSION_TOKEN");

    puts("import os\n\nos.environ.update({");
    for (size_t i = 0; i < n; i++) {
        print_quoted("    ", p[i].name, ": ");
        print_quoted("", p[i].value, ",\n");
    }
    puts("})\n# boto3, s3torchconnector, pyarrow and litdata read these. fsspec (pandas, "
         "datasets, zarr) takes them by hand:");
    print_quoted("storage_options = {\"client_kwargs\": {\"endpoint_url\": ",
                 env_value_of(p, n, "AWS_ENDPOINT_URL"), "}");
    if (key != NULL) {
        print_quoted(", \"key\": ", key, "");
        print_quoted(", \"secret\": ", env_value_of(p, n, "AWS_SECRET_ACCESS_KEY"), "");
    } else {
        printf(", \"anon\": True");
    }
    if (token != NULL)
        print_quoted(", \"token\": ", token, "");
    puts("}");
}

/* The `env` of a container of Kubernetes, or of a service of compose. */
static void
print_yaml(const struct pair *pairs, size_t count)
{
    puts("env:");
    for (size_t i = 0; i < count; i++) {
        printf("  - name: %s\n", pairs[i].name);
        print_quoted("    value: ", pairs[i].value, "\n");
    }
}

/* -o json and --json are --format json; table is the usual form. */
static enum err
take_form(const struct args *a, bool *json, struct errbuf *eb)
{
    const char *form = args_value(a, "output");

    *json = args_has(a, "json");
    if (form == NULL || strcmp(form, "table") == 0)
        return ERR_OK;
    *json = strcmp(form, "json") == 0 || strcmp(form, "jsonl") == 0;
    return *json ? ERR_OK
                 : err_set(eb, ERR_BAD_REQUEST,
                           "--output \"%s\": expected table or json; --format has others",
                           form);
}

static enum err
print_all(const struct pair *pairs, size_t count, const char *format, struct errbuf *eb)
{
    if (format == NULL || strcmp(format, "shell") == 0) {
        for (size_t i = 0; i < count; i++)
            print_shell(&pairs[i]);
        print_aws();
    } else if (strcmp(format, "dotenv") == 0) {
        for (size_t i = 0; i < count; i++)
            printf("%s=%s\n", pairs[i].name, pairs[i].value);
    } else if (strcmp(format, "json") == 0) {
        env_print_json(pairs, count);
    } else if (strcmp(format, "python") == 0) {
        print_python(pairs, count);
    } else if (strcmp(format, "yaml") == 0) {
        print_yaml(pairs, count);
    } else {
        return err_set(eb, ERR_BAD_REQUEST,
                       "--format \"%s\": expected shell, dotenv, json, python or yaml",
                       format);
    }
    return ERR_OK;
}

/* What the server said of its keys. */
struct env_told {
    char *file; /* owned: where they are; NULL: it did not say */
    int status; /* 0: no answer */
    enum err rc;
    struct errbuf eb;
};

/* Where a server on this machine says its keys are; only who may read the file gets them. */
static enum exit_code
ask_server(struct session *s)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_request r = {.method = "GET", .path = SPAN("/_/stat")};
    struct env_told *told = s->arg;
    struct span answer;
    json_t *doc;

    told->rc = s3_request(s->s3, &r, a, &told->status, &answer, &told->eb);
    if (told->rc == ERR_OK && told->status == 200) {
        doc = json_loadb(answer.at, answer.len, 0, NULL);
        if (json_is_string(json_object_get(doc, "credentials")))
            told->file = xstrdup(json_string_value(json_object_get(doc, "credentials")));
        json_decref(doc);
    }
    arena_free(&a);
    return EXIT_OK_;
}

/* Without keys the variables are of use only where none are needed. */
static enum err
env_check_told(const struct env_told *told, const struct settings *s, struct errbuf *eb)
{
    if (told->rc != ERR_OK) {
        *eb = told->eb;
        err_prefix(eb, "no server answers at %s, so there are no keys to print",
                   s->endpoint.value);
        return told->rc;
    }
    if (told->status == 200 && told->file != NULL && access(told->file, R_OK) != 0)
        return err_set(
            eb, ERR_DENIED,
            "the keys of %s are in %s, which you may not read; copy that file, "
            "or have a key of your own made: forebay user add",
            s->endpoint.value, told->file);
    if ((told->status == 401 || told->status == 403) && !s->has_keys)
        return err_set(eb, ERR_DENIED,
                       "the server at %s wants keys, and there are none here: "
                       "--credentials FILE names the file that forebay serve printed, "
                       "--profile one of yours",
                       s->endpoint.value);
    return ERR_OK;
}

static bool
is_aws(const struct settings *s)
{
    return !s->has_keys || strncmp(s->keys_how, "AWS", 3) == 0;
}

/* --credentials; else flags, the environment, a profile; and before those of AWS's tools the server's own keys. */
static enum err
env_find(const struct args *a, struct settings *out, struct errbuf *eb)
{
    const char *file = args_value(a, "credentials");
    struct env_told told = {0};
    enum err rc = settings_find(a, &settings_first, false, out, eb);

    if (rc == ERR_OK && file == NULL && is_aws(out) && args_value(a, "profile") == NULL &&
        !args_has(a, "no-sign")) {
        (void)session_run_own_keys(a, ask_server, &told);
        if (told.file != NULL && access(told.file, R_OK) == 0)
            file = told.file;
        else
            rc = env_check_told(&told, out, eb);
    }
    if (rc == ERR_OK && file != NULL) {
        s3_credentials_fini(&out->keys);
        setenv("AWS_SHARED_CREDENTIALS_FILE", file, 1);
        rc = s3_credentials_chain("default", &out->keys, NULL, eb);
        out->has_keys = rc == ERR_OK;
    }
    free(told.file);
    return rc;
}

static void
print_origin(const struct settings *s, bool json)
{
    struct buf out;

    buf_init(&out, KIB(64));
    if (json)
        settings_show_json(s, &out);
    else
        settings_show(s, "", &out);
    fwrite(out.at, 1, out.len, stdout);
    buf_fini(&out);
}

static enum exit_code
env_run(const struct args *a)
{
    struct settings s = {0};
    struct errbuf eb = {{0}};
    const char *format = args_value(a, "format");
    struct pair pairs[16];
    size_t n = 0;
    bool json;
    enum err rc = take_form(a, &json, &eb);

    if (rc == ERR_OK)
        rc = args_has(a, "origin") ? settings_find(a, &settings_first, false, &s, &eb)
                                   : env_find(a, &s, &eb);

    if (rc == ERR_OK && args_has(a, "origin")) {
        print_origin(&s, json);
    } else if (rc == ERR_OK) {
        char *ca = s.ca_bundle.value != NULL ? realpath(s.ca_bundle.value, NULL) : NULL;

        pairs[n++] = (struct pair){"AWS_ENDPOINT_URL", s.endpoint.value};
        pairs[n++] = (struct pair){"AWS_ENDPOINT_URL_S3", s.endpoint.value};
        pairs[n++] = (struct pair){"S3_ENDPOINT_URL", s.endpoint.value};
        pairs[n++] = (struct pair){"S3_ENDPOINT", s.endpoint.value};
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
            pairs[n++] =
                (struct pair){"AWS_CA_BUNDLE", ca != NULL ? ca : s.ca_bundle.value};
        rc = print_all(pairs, n, format == NULL && json ? "json" : format, &eb);
        free(ca);
    }
    settings_fini(&s);
    return rc == ERR_OK            ? EXIT_OK_
           : rc == ERR_BAD_REQUEST ? cli_usage(&eb, &verb)
                                   : cli_fail(rc, &eb);
}
const struct cli_verb cli_env = {&verb, env_run};
