#include "cli/session.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/advice.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/settings.h"
#include "rt/loop.h"

struct run {
    struct session s;
    enum exit_code (*fn)(struct session *s);
    enum exit_code code;
    struct fiber *fiber;
    struct settings settings, to;
};

static void
on_interrupt(void *arg)
{
    struct run *r = arg;

    input_end();
    if (r->fiber != NULL)
        rt_cancel(r->fiber);
}

static enum err
make_client(struct session *s, const struct settings *c, struct s3_client **out)
{
    struct s3_options o = {.endpoint = c->endpoint.value,
                           .region = c->region.value,
                           .ca_file = c->ca_bundle.value,
                           .insecure_no_verify = c->no_verify_tls,
                           .credentials = c->keys,
                           .proxies = &s->proxies,
                           .connections = s->connections};

    return s3_client_new(&o, out, &s->eb);
}

static bool
is_given(const struct args *a, const char *flag)
{
    for (size_t i = 0; i < a->given_count; i++)
        if (strcmp(a->given[i].flag->name, flag) == 0)
            return true;
    return false;
}

static bool
is_loopback(const char *endpoint)
{
    static const char *const hosts[] = {"http://127.",      "https://127.",
                                        "http://[::1]",     "https://[::1]",
                                        "http://localhost", "https://localhost"};

    for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
        if (strncmp(endpoint, hosts[i], strlen(hosts[i])) == 0)
            return true;
    return false;
}

/* Does the server take a request with the keys of this client? Sets *unknown when it does not know the key. */
static bool
session_probe(struct s3_client *c, bool *unknown)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_request r = {
        .method = "GET", .path = SPAN("/"), .query = SPAN("max-buckets=1")};
    struct errbuf eb = {{0}};
    struct span answer = {"", 0};
    int status = 0;
    enum err rc = s3_request(c, &r, a, &status, &answer, &eb);

    *unknown = rc == ERR_OK && status == 403 &&
               memmem(answer.at, answer.len, "InvalidAccessKeyId", 18) != NULL;
    arena_free(&a);
    return rc == ERR_OK && status == 200;
}

/* Keys of the AWS environment are often a remote's. A server on loopback that does not know them, and wants none, gets unsigned
 * requests, as it would without these variables. */
static enum err
session_check_keys(struct run *r)
{
    struct session *s = &r->s;
    struct settings without = r->settings;
    struct s3_client *other = NULL;
    bool unknown = false, ignored;
    enum err rc;

    s->key = r->settings.has_keys ? r->settings.keys.access_key : NULL;
    s->keys_how = r->settings.keys_how;
    if (s->key == NULL || strncmp(s->keys_how, "AWS", 3) != 0 ||
        !is_loopback(s->endpoint) || is_given(s->args, "profile"))
        return ERR_OK;
    if (session_probe(s->s3, &unknown) || !unknown)
        return ERR_OK;
    without.keys = (struct s3_credentials){0};
    rc = make_client(s, &without, &other);
    if (rc != ERR_OK || !session_probe(other, &ignored)) {
        s3_client_free(&other);
        return rc;
    }
    if (!s->quiet)
        fprintf(stderr,
                "note: %s does not know the key %s of %s and wants none: requests go "
                "unsigned (--no-sign; for other tools: eval \"$(forebay env)\")\n",
                s->endpoint, s->key,
                strcmp(s->keys_how, "AWS_ACCESS_KEY_ID") == 0 ? "AWS_ACCESS_KEY_ID"
                                                              : "your AWS files");
    s3_client_free(&s->s3);
    s->s3 = other;
    s->key = NULL;
    return ERR_OK;
}

/* The target's own, or the same. */
static enum err
make_target(struct run *r)
{
    struct session *s = &r->s;
    struct settings *to = &r->to;
    bool own = is_given(s->args, "to-endpoint-url") || is_given(s->args, "to-profile");
    enum err rc;

    s->to = s->s3;
    s->to_endpoint = s->endpoint;
    if (!own)
        return ERR_OK;
    rc = settings_find(s->args, &settings_to, false, to, &s->eb);
    if (rc == ERR_OK && !to->has_keys && r->settings.has_keys)
        settings_copy_keys(to, &r->settings);
    s->to_endpoint = to->endpoint.value;
    return rc == ERR_OK ? make_client(s, to, &s->to) : rc;
}

static void
end_target(struct run *r)
{
    if (r->s.to != r->s.s3)
        s3_client_free(&r->s.to);
    settings_fini(&r->to);
}

static void
run_fiber(void *arg)
{
    struct run *r = arg;
    enum err rc;

    r->fiber = rt_self();
    rt_on_signal(SIGINT, on_interrupt, r);
    rt_on_signal(SIGTERM, on_interrupt, r);
    rc = s3_proxies_find(&(struct s3_proxy_options){0}, &r->s.proxies, &r->s.eb);
    if (rc == ERR_OK)
        rc = make_client(&r->s, &r->settings, &r->s.s3);
    if (rc == ERR_OK)
        rc = session_check_keys(r);
    if (rc == ERR_OK)
        rc = make_target(r);
    r->code = rc == ERR_OK ? r->fn(&r->s) : session_fail(&r->s, rc);
    if (rt_cancelled())
        r->code = r->s.endless ? EXIT_OK_ : EXIT_INTERRUPTED;
    r->fiber = NULL;
    end_target(r);
    s3_client_free(&r->s.s3);
    proxies_fini(&r->s.proxies);
}

static enum err
take_output(const struct args *a, struct session *s)
{
    static const char *const nameless[] = {"ping", "ready", "doctor", "top", "trace"};
    static const char *const forms[] = {"table", "json", "jsonl", "name"};
    const char *form = args_value(a, "output"), *units = args_value(a, "units");

    s->output = args_has(a, "json") ? OUTPUT_JSON : OUTPUT_TABLE;
    for (size_t i = 0; form != NULL && i < ARRAY_LEN(forms); i++)
        if (strcmp(form, forms[i]) == 0) {
            s->output = (enum output)i;
            form = NULL;
        }
    s->json = s->output == OUTPUT_JSON || s->output == OUTPUT_JSONL;
    if (form == NULL && units != NULL && num_units_parse(units, &s->units) != ERR_OK)
        return err_set(&s->eb, ERR_BAD_REQUEST, "--units \"%s\": expected iec, si or raw",
                       units);
    for (size_t i = 0; s->output == OUTPUT_NAME && i < ARRAY_LEN(nameless); i++)
        if (strcmp(a->verb->name, nameless[i]) == 0)
            return err_set(
                &s->eb, ERR_BAD_REQUEST,
                "--output \"name\": %s lists nothing that has a name; expected "
                "table, json or jsonl",
                nameless[i]);
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
    enum exit_code code;
    enum err rc = take_output(s->args, s);

    if (rc == ERR_OK)
        rc = take_parallel(s->args, s);
    if (rc != ERR_OK)
        return cli_usage(&s->eb, s->args->verb);
    s->quiet = shared->quiet || args_has(s->args, "quiet");
    s->within = true;
    s->s3 = shared->s3;
    s->endpoint = shared->endpoint;
    s->key = shared->key;
    s->keys_how = shared->keys_how;
    rc = s3_proxies_find(&(struct s3_proxy_options){0}, &s->proxies, &s->eb);
    if (rc == ERR_OK)
        rc = make_target(r);
    code = rc == ERR_OK ? r->fn(s) : session_fail(s, rc);
    end_target(r);
    proxies_fini(&s->proxies);
    return code;
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
    rc = settings_find(s->args, &settings_first, s->own_keys, &r->settings, &s->eb);
    s->endpoint = r->settings.endpoint.value;
    if (rc == ERR_OK)
        rc = rt_run(&o, run_fiber, r, &s->eb);
    if (rc != ERR_OK)
        r->code = session_fail(s, rc);
    settings_fini(&r->settings);
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

const char *
session_size(const struct session *s, uint64_t bytes, char out[NUM_SIZE_TEXT])
{
    return num_size_in(bytes, s->units, out);
}

void
session_listed(struct session *s, struct span bucket, const struct s3_list_page *page)
{
    if (page->stale && !s->stale)
        fprintf(stderr,
                "note: the remote of s3://%.*s does not respond: the listing shows "
                "cached objects only\n",
                SPAN_ARG(bucket));
    s->stale |= page->stale;
}

enum err
session_all_listed(struct session *s)
{
    return !s->stale
               ? ERR_OK
               : err_set(&s->eb, ERR_PRECONDITION,
                         "the number of objects is unknown while the remote does not "
                         "respond: nothing is deleted");
}

enum exit_code
session_fail(struct session *s, enum err rc)
{
    if (rc == ERR_NOT_MODIFIED && output_is_over())
        return EXIT_OK_; /* the reader has enough */
    return advice_fail(rc, &s->eb, NULL, s);
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
