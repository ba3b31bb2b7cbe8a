/* trace: the requests of a node as they end. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/admin.h"
#include "cli/names.h"
#include "cli/output.h"
#include "rt/fiber.h"
#include "wire/json_get.h"

#define LOOK_MS 500

static const struct flag flags[] = {
    {"slow", 0, "TIME", "only those that took longer: 100ms", false},
    {"bucket", 'b', "NAME", "only of this bucket", false},
    {"status", 0, "CODE", "only with this status: 404, 5xx", false},
    {"method", 0, "NAME", "only of this method: PUT", false},
    {"count", 'n', "N", "exit after this many", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {"forebay trace --slow 100ms",
                                       "forebay trace --bucket train --status 5xx",
                                       "forebay trace -o jsonl -n 1000 > requests", NULL};
static const struct verb verb = {
    .name = "trace",
    .summary = "show the requests of a node as they end",
    .arguments = "",
    .examples = examples,
    .flags = flags,
    .more =
        "Needs an administrator's keys. Names are shown, queries and headers are not.",
};

struct tracing {
    struct session *s;
    uint64_t slow_us, count, told, lost;
    const char *bucket, *status, *method;
    uint64_t after;
};

/* "404", "5xx" */
static bool
is_status(const char *pattern, uint64_t status)
{
    char code[24];

    snprintf(code, sizeof code, "%03" PRIu64, status);
    if (strlen(pattern) != strlen(code))
        return false;
    for (size_t i = 0; code[i] != '\0'; i++)
        if (pattern[i] != 'x' && pattern[i] != code[i])
            return false;
    return true;
}

static bool
trace_is_wanted(const struct tracing *t, const json_t *r)
{
    const char *path = json_get_text(r, "path", "");
    size_t len = t->bucket != NULL ? strlen(t->bucket) : 0;

    return json_get_u64(r, "us") >= t->slow_us &&
           (t->status == NULL || is_status(t->status, json_get_u64(r, "status"))) &&
           (t->method == NULL ||
            strcmp(t->method, json_get_text(r, "method", "")) == 0) &&
           (t->bucket == NULL ||
            (path[0] == '/' && strncmp(path + 1, t->bucket, len) == 0 &&
             (path[1 + len] == '/' || path[1 + len] == '\0'))) &&
           strcmp(path, "/_/trace") != 0;
}

static void
trace_print(const struct tracing *t, const json_t *r)
{
    char date[NUM_DATE_TEXT], in[NUM_SIZE_TEXT], out[NUM_SIZE_TEXT];
    struct arena *a;

    if (t->s->json) {
        json_dumpf(r, stdout, JSON_COMPACT);
        putchar('\n');
        return;
    }
    a = arena_new(KIB(4), MIB(1));
    date_iso((int64_t)json_get_u64(r, "time_ms"), date);
    printf("%s %3" PRIu64 " %-6s %9.3f ms %9s in %9s out %-21s %.*s\n", date + 11,
           json_get_u64(r, "status"), json_get_text(r, "method", ""),
           (double)json_get_u64(r, "us") / 1000, num_size_text(json_get_u64(r, "in"), in),
           num_size_text(json_get_u64(r, "out"), out), json_get_text(r, "peer", ""),
           SPAN_ARG(name_shown(span_of(json_get_text(r, "path", "")), a)));
    arena_free(&a);
}

static enum err
trace_take(struct tracing *t, struct span answer)
{
    json_t *doc, *r;
    size_t i;
    enum err rc = admin_list(t->s, answer, "requests", &doc);

    if (rc != ERR_OK)
        return rc;
    t->after = json_get_u64(doc, "after");
    t->lost += json_get_u64(doc, "lost");
    json_array_foreach(json_object_get(doc, "requests"), i, r)
    {
        if (!trace_is_wanted(t, r) || (t->count > 0 && t->told == t->count))
            continue;
        t->told++;
        trace_print(t, r);
    }
    fflush(stdout);
    json_decref(doc);
    return output_check(&t->s->eb);
}

static enum err
cli_trace_look(struct tracing *t)
{
    struct arena *a = arena_new(KIB(64), MIB(32));
    struct s3_request r = {.method = "GET", .path = SPAN("/_/trace")};
    struct span answer = {"", 0};
    enum err rc;

    r.query = span_of(arena_printf(a, "after=%" PRIu64, t->after));
    rc = admin_call(t->s, &r, a, &answer);
    if (rc == ERR_OK)
        rc = trace_take(t, answer);
    arena_free(&a);
    return rc;
}

static enum err
trace_take_flags(struct tracing *t)
{
    const struct args *a = t->s->args;
    const char *slow = args_value(a, "slow"), *count = args_value(a, "count");
    uint64_t ms = 0;
    enum err rc = ERR_OK;

    t->bucket = args_value(a, "bucket");
    t->status = args_value(a, "status");
    t->method = args_value(a, "method");
    if (slow != NULL)
        rc = num_duration_ms(span_of(slow), &ms, &t->s->eb);
    t->slow_us = ms * 1000;
    if (rc == ERR_OK && count != NULL &&
        (num_u64(span_of(count), &t->count) != ERR_OK || t->count == 0))
        rc = err_set(&t->s->eb, ERR_BAD_REQUEST,
                     "--count \"%s\": expected a number from 1 on", count);
    return rc;
}

static enum exit_code
trace_act(struct session *s)
{
    struct tracing t = {.s = s};
    enum err rc = trace_take_flags(&t);

    if (rc != ERR_OK)
        return cli_usage(&s->eb, &verb);
    s->endless = t.count == 0;
    while (rc == ERR_OK) {
        rc = cli_trace_look(&t);
        if (rc != ERR_OK || (t.count > 0 && t.told == t.count) ||
            rt_sleep_ms(LOOK_MS) != ERR_OK)
            break;
    }
    if (t.lost > 0 && !s->quiet)
        fprintf(stderr, "forebay: %" PRIu64 " requests came too fast and are not shown\n",
                t.lost);
    return rc == ERR_OK || rt_cancelled() ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
trace_run(const struct args *a)
{
    return session_run(a, trace_act, NULL);
}
const struct cli_verb cli_trace = {&verb, trace_run};
