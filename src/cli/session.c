#include "cli/session.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/advice.h"
#include "rt/loop.h"

#define DEFAULT_ENDPOINT "http://127.0.0.1:9000"

char *
session_endpoint(const struct args *a)
{
    static const char *const names[] = {"FOREBAY_ENDPOINT", "AWS_ENDPOINT_URL_S3",
                                        "AWS_ENDPOINT_URL"};
    const char *given = args_value(a, "endpoint-url");

    for (size_t i = 0; given == NULL && i < ARRAY_LEN(names); i++) {
        const char *v = getenv(names[i]);

        if (v != NULL && v[0] != '\0')
            given = v;
    }
    return xstrdup(given != NULL ? given : DEFAULT_ENDPOINT);
}

enum err
session_keys(const struct args *a, bool own_only, struct s3_credentials *out,
             char **region, bool *found, struct errbuf *eb)
{
    const char *id = getenv("FOREBAY_ACCESS_KEY_ID"),
               *secret = getenv("FOREBAY_SECRET_ACCESS_KEY");
    const char *profile = args_value(a, "profile");
    enum err rc;

    *found = false;
    *region = NULL;
    if (profile == NULL && id != NULL && id[0] != '\0') {
        if (secret == NULL || secret[0] == '\0')
            return err_set(
                eb, ERR_BAD_REQUEST,
                "FOREBAY_ACCESS_KEY_ID is set, FOREBAY_SECRET_ACCESS_KEY is not");
        *out = (struct s3_credentials){.access_key = xstrdup(id),
                                       .secret_key = xstrdup(secret)};
        *found = true;
        return ERR_OK;
    }
    if (profile == NULL && own_only)
        return ERR_OK;
    rc = s3_credentials_chain(profile, out, region, eb);
    if (rc == ERR_NOT_FOUND && profile == NULL)
        return ERR_OK;
    *found = rc == ERR_OK;
    return rc;
}

struct run {
    struct session s;
    enum exit_code (*fn)(struct session *s);
    enum exit_code code;
    struct fiber *fiber;
};

static void
on_interrupt(void *arg)
{
    struct run *r = arg;

    if (r->fiber != NULL)
        rt_cancel(r->fiber);
}

static enum err
make_client(struct session *s)
{
    struct s3_options o = {.endpoint = s->endpoint,
                           .ca_file = args_value(s->args, "ca-bundle"),
                           .connections = s->connections};
    const char *bundle = getenv("AWS_CA_BUNDLE");
    char *region = NULL;
    bool found = false;
    enum err rc =
        session_keys(s->args, s->own_keys, &o.credentials, &region, &found, &s->eb);

    if (o.ca_file == NULL && bundle != NULL && bundle[0] != '\0')
        o.ca_file = bundle;
    o.insecure_no_verify =
        args_has(s->args, "no-verify-ssl") || args_has(s->args, "no-verify-tls");
    o.region =
        args_value(s->args, "region") != NULL ? args_value(s->args, "region") : region;
    if (rc == ERR_OK)
        rc = s3_proxies_find(&(struct s3_proxy_options){0}, &s->proxies, &s->eb);
    o.proxies = &s->proxies;
    if (rc == ERR_OK)
        rc = s3_client_new(&o, &s->s3, &s->eb);
    s3_credentials_fini(&o.credentials);
    free(region);
    return rc;
}

static void
run_fiber(void *arg)
{
    struct run *r = arg;
    enum err rc;

    r->fiber = rt_self();
    rt_on_signal(SIGINT, on_interrupt, r);
    rt_on_signal(SIGTERM, on_interrupt, r);
    rc = make_client(&r->s);
    r->code = rc == ERR_OK ? r->fn(&r->s) : session_fail(&r->s, rc);
    if (rt_cancelled())
        r->code = EXIT_INTERRUPTED;
    r->fiber = NULL;
    s3_client_free(&r->s.s3);
    proxies_fini(&r->s.proxies);
}

static enum err
take_output(const struct args *a, struct session *s)
{
    static const char *const forms[] = {"table", "json", "jsonl", "name"};
    const char *form = args_value(a, "output");

    s->output = args_has(a, "json") ? OUTPUT_JSON : OUTPUT_TABLE;
    for (size_t i = 0; form != NULL && i < ARRAY_LEN(forms); i++)
        if (strcmp(form, forms[i]) == 0) {
            s->output = (enum output)i;
            form = NULL;
        }
    s->json = s->output == OUTPUT_JSON || s->output == OUTPUT_JSONL;
    if (form != NULL)
        return err_set(&s->eb, ERR_BAD_REQUEST,
                       "--output \"%s\": expected table, json, jsonl or name", form);
    return ERR_OK;
}

/* --parallel of those verbs that have it. */
static enum err
take_parallel(const struct args *a, struct session *s)
{
    const char *text = NULL;
    uint64_t n = 0;

    for (size_t i = 0; i < a->given_count; i++)
        if (strcmp(a->given[i].flag->name, "parallel") == 0 ||
            strcmp(a->given[i].flag->name, "concurrency") == 0)
            text = a->given[i].value;
    if (text == NULL)
        return ERR_OK;
    if (num_u64(span_of(text), &n) != ERR_OK || n < 1 || n > CONNECTIONS_MAX)
        return err_set(&s->eb, ERR_BAD_REQUEST,
                       "\"%s\" requests at a time: expected a number from 1 to %d", text,
                       CONNECTIONS_MAX);
    s->connections = (unsigned)n;
    return ERR_OK;
}

static struct session *shared; /* only on the one loop of a client */

void
session_share(struct session *s)
{
    shared = s;
}

/* A command of a batch: in the fiber that asks, with what batch has. */
static enum exit_code
run_within(struct run *r)
{
    struct session *s = &r->s;
    enum err rc = take_output(s->args, s);

    if (rc == ERR_OK)
        rc = take_parallel(s->args, s);
    if (rc != ERR_OK)
        return cli_usage(&s->eb, s->args->verb);
    s->quiet = shared->quiet || args_has(s->args, "quiet");
    s->within = true;
    s->s3 = shared->s3;
    s->endpoint = shared->endpoint;
    return r->fn(s);
}

static enum exit_code
run_session(struct run *r)
{
    struct session *s = &r->s;
    struct rt_options o = {
        .engine = RT_EPOLL, .loops = MAX(s->loops, 1u), .workers = s->loops > 1 ? 8 : 4};
    enum err rc;

    if (shared != NULL)
        return run_within(r);
    s->quiet = args_has(s->args, "quiet");
    rc = take_output(s->args, s);
    if (rc == ERR_OK)
        rc = take_parallel(s->args, s);
    if (rc != ERR_OK)
        return cli_usage(&s->eb, s->args->verb);
    log_set_level(LOG_ERROR);
    s->endpoint = session_endpoint(s->args);
    rc = rt_run(&o, run_fiber, r, &s->eb);
    if (rc != ERR_OK)
        r->code = cli_fail(rc, &s->eb);
    free(s->endpoint);
    return r->code;
}

enum exit_code
session_run(const struct args *a, enum exit_code (*fn)(struct session *s), void *arg)
{
    struct run r = {.s = {.args = a, .arg = arg}, .fn = fn};

    return run_session(&r);
}

enum exit_code
session_run_wide(const struct args *a, enum exit_code (*fn)(struct session *s),
                 unsigned loops, unsigned connections)
{
    struct run r = {.s = {.args = a, .loops = loops, .connections = connections},
                    .fn = fn};

    return run_session(&r);
}

enum exit_code
session_run_own_keys(const struct args *a, enum exit_code (*fn)(struct session *s),
                     void *arg)
{
    struct run r = {.s = {.args = a, .arg = arg, .own_keys = true}, .fn = fn};

    return run_session(&r);
}

enum exit_code
session_fail(struct session *s, enum err rc)
{
    enum exit_code code = cli_fail(rc, &s->eb);

    advice_print(rc, s);
    return code;
}

enum err
place_parse(const char *text, struct place *out, struct errbuf *eb)
{
    struct span rest = span_of(text);
    const char *slash;

    *out = (struct place){.text = text, .standard = strcmp(text, "-") == 0};
    if (span_starts(rest, SPAN("s3://")))
        rest = span_from(rest, 5);
    else if (span_starts(rest, SPAN("forebay://")))
        rest = span_from(rest, 10);
    else
        return ERR_OK;
    out->remote = true;
    slash = memchr(rest.at, '/', rest.len);
    out->bucket =
        (struct span){rest.at, slash != NULL ? (size_t)(slash - rest.at) : rest.len};
    out->key =
        slash != NULL ? span_from(rest, out->bucket.len + 1) : (struct span){"", 0};
    if (out->bucket.len == 0)
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\" names no bucket", text);
    return ERR_OK;
}

enum err
place_bucket(const char *text, struct place *out, struct errbuf *eb)
{
    if (text[0] != '\0' && strcmp(text, "-") != 0 && strchr(text, '/') == NULL) {
        *out = (struct place){.remote = true, .bucket = span_of(text), .text = text};
        return ERR_OK;
    }
    return place_remote(text, false, out, eb);
}

enum err
place_remote(const char *text, bool key, struct place *out, struct errbuf *eb)
{
    enum err rc = place_parse(text, out, eb);

    if (rc != ERR_OK)
        return rc;
    if (!out->remote)
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\": expected s3://BUCKET%s", text,
                       key ? "/KEY" : "");
    if (key && out->key.len == 0)
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\" names a bucket, not an object", text);
    return ERR_OK;
}
