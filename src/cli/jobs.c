/* jobs: what a server works at by itself: shown, waited for, cancelled, resumed. */
#include "cli/jobs.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/admin.h"
#include "cli/terminal.h"
#include "rt/fiber.h"
#include "rt/time.h"
#include "wire/json_get.h"

#define ANSWER_MAX MIB(16)
#define PLAIN_S    10 /* between lines where there is no terminal */

static bool
is_state(const json_t *job, const char *name)
{
    return strcmp(json_get_text(job, "state", ""), name) == 0;
}

static bool
has_ended(const json_t *job)
{
    return !is_state(job, "waiting") && !is_state(job, "running") &&
           !is_state(job, "idle");
}

enum err
jobs_parse(struct session *s, struct span answer, json_t **out)
{
    *out = json_loadb(answer.at, answer.len, 0, NULL);
    if (json_is_string(json_object_get(*out, "id")) &&
        json_is_string(json_object_get(*out, "state")))
        return ERR_OK;
    json_decref(*out);
    *out = NULL;
    return err_set(&s->eb, ERR_BACKEND, "the server's response is not a job");
}

static enum err
ask_one(struct session *s, const char *id, bool wait, json_t **out)
{
    struct arena *a = arena_new(KIB(64), ANSWER_MAX);
    struct s3_request r = {.method = "GET",
                           .query = wait ? SPAN("wait=1") : (struct span){"", 0}};
    struct span answer;
    enum err rc;

    *out = NULL;
    r.path = span_of(arena_printf(a, "/_/jobs/%s", id));
    rc = admin_call(s, &r, a, &answer);
    if (rc == ERR_OK)
        rc = jobs_parse(s, answer, out);
    arena_free(&a);
    return rc;
}

static enum err
jobs_change(struct session *s, const char *id, const char *action, json_t **out)
{
    struct arena *a = arena_new(KIB(64), ANSWER_MAX);
    struct s3_request r = {.method = "POST"};
    struct span answer;
    enum err rc;

    *out = NULL;
    r.path = span_of(arena_printf(a, "/_/jobs/%s", id));
    r.body = span_of(arena_printf(a, "{\"action\": \"%s\"}", action));
    rc = admin_call(s, &r, a, &answer);
    if (rc == ERR_OK)
        rc = jobs_parse(s, answer, out);
    arena_free(&a);
    return rc;
}

/* ---- showing ---- */

static const char *
duration(uint64_t ms, char out[32])
{
    uint64_t s = ms / 1000;

    if (s < 120)
        snprintf(out, 32, "%llu s", (unsigned long long)s);
    else if (s < 7200)
        snprintf(out, 32, "%llu m", (unsigned long long)(s / 60));
    else
        snprintf(out, 32, "%llu h %llu m", (unsigned long long)(s / 3600),
                 (unsigned long long)(s / 60 % 60));
    return out;
}

static void
jobs_put_counts(FILE *out, const json_t *job)
{
    char size[NUM_SIZE_TEXT];
    uint64_t total = json_get_u64(job, "total"), present = json_get_u64(job, "present");

    fprintf(out, "%llu", (unsigned long long)json_get_u64(job, "objects"));
    if (total > 0)
        fprintf(out, " of %llu", (unsigned long long)total);
    fprintf(out, " objects, %s", num_size_text(json_get_u64(job, "bytes"), size));
    if (present > 0)
        fprintf(out, ", %llu %s", (unsigned long long)present,
                strcmp(json_get_text(job, "kind", ""), "evict") == 0
                    ? "stay or were not here"
                    : "were here");
    if (json_get_u64(job, "failed") > 0)
        fprintf(out, ", %llu failed", (unsigned long long)json_get_u64(job, "failed"));
}

/* Of one that runs. */
static void
put_pace(FILE *out, const json_t *job)
{
    const json_t *left = json_object_get(job, "left_ms");
    char rate[NUM_SIZE_TEXT], time[32];

    fprintf(out, ", %s/s", num_size_text(json_get_u64(job, "rate"), rate));
    if (json_is_integer(left))
        fprintf(out, ", %s left", duration(json_get_u64(job, "left_ms"), time));
}

static void
put_progress(FILE *out, const json_t *job)
{
    fprintf(out, "%s %s: ", json_get_text(job, "kind", ""),
            json_get_text(job, "what", ""));
    jobs_put_counts(out, job);
    put_pace(out, job);
}

static void
show_progress(const json_t *job, bool terminal)
{
    char *text = NULL;
    size_t len = 0;
    FILE *line = open_memstream(&text, &len);

    assert(line != NULL);
    put_progress(line, job);
    fclose(line);
    if (terminal)
        terminal_line(text);
    else
        fprintf(stderr, "%s\n", text);
    free(text);
}

static void
put_end(const struct session *s, const json_t *job)
{
    const json_t *error;
    char time[32];
    size_t i;

    if (s->output == OUTPUT_NAME) {
        puts(json_get_text(job, "id", ""));
        return;
    }
    if (s->json) {
        char *all =
            json_dumps(job, s->output == OUTPUT_JSONL ? JSON_COMPACT : JSON_INDENT(2));

        printf("%s\n", all);
        free(all);
        return;
    }
    if (!s->quiet) {
        printf("%s %s: ", json_get_text(job, "id", ""),
               is_state(job, "failed-in-part") ? "failed in part"
                                               : json_get_text(job, "state", ""));
        jobs_put_counts(stdout, job);
        printf(", in %s\n", duration(json_get_u64(job, "busy_ms"), time));
    }
    json_array_foreach(json_object_get(job, "errors"), i, error)
        fprintf(stderr, "forebay: %s\n", json_string_value(error));
    if (json_get_u64(job, "failed") > json_array_size(json_object_get(job, "errors")))
        fprintf(stderr, "forebay: %llu failed in all; these are the first\n",
                (unsigned long long)json_get_u64(job, "failed"));
    if (is_state(job, "failed-in-part"))
        fprintf(stderr, "forebay jobs %s --resume tries again what failed\n",
                json_get_text(job, "id", ""));
    if (is_state(job, "failed"))
        fprintf(stderr,
                "forebay: job %s failed: %s\n"
                "forebay jobs %s --resume continues it\n",
                json_get_text(job, "id", ""), json_get_text(job, "reason", ""),
                json_get_text(job, "id", ""));
}

static enum exit_code
code_of(const json_t *job)
{
    if (is_state(job, "failed"))
        return EXIT_UNAVAILABLE;
    if (is_state(job, "cancelled"))
        return EXIT_INTERRUPTED;
    return is_state(job, "failed-in-part") || json_get_u64(job, "failed") > 0
               ? EXIT_DIFFERS
               : EXIT_OK_;
}

enum exit_code
jobs_watch(struct session *s, const json_t *first)
{
    bool terminal = terminal_is(stderr);
    uint64_t shown = rt_now_ns();
    json_t *job = json_incref((json_t *)(uintptr_t)first);
    char id[64];
    enum exit_code code;
    enum err rc = ERR_OK;

    snprintf(id, sizeof id, "%s", json_get_text(job, "id", ""));
    while (rc == ERR_OK && !has_ended(job)) {
        json_decref(job);
        job = NULL;
        rc = ask_one(s, id, true, &job);
        if (rc != ERR_OK || s->quiet || has_ended(job) ||
            (!terminal && rt_now_ns() - shown < PLAIN_S * 1000000000ull))
            continue;
        show_progress(job, terminal);
        shown = rt_now_ns();
    }
    if (terminal && !s->quiet)
        terminal_clear();
    if (rc != ERR_OK) {
        fprintf(stderr,
                "forebay: job %s continues at the server; forebay wait %s follows "
                "it, forebay cancel %s ends it\n",
                id, id, id);
        json_decref(job);
        return session_fail(s, rc);
    }
    put_end(s, job);
    code = code_of(job);
    json_decref(job);
    return code;
}

static void
print_row(const json_t *job)
{
    printf("%s  %-9s  %-14s  ", json_get_text(job, "id", ""),
           json_get_text(job, "kind", ""), json_get_text(job, "state", ""));
    jobs_put_counts(stdout, job);
    if (is_state(job, "running"))
        put_pace(stdout, job);
    printf("  %s\n", json_get_text(job, "what", ""));
}

static enum exit_code
jobs_list(struct session *s)
{
    struct arena *a = arena_new(KIB(64), ANSWER_MAX);
    struct s3_request r = {.method = "GET", .path = SPAN("/_/jobs")};
    struct span answer;
    json_t *doc = NULL, *job;
    size_t i;
    enum err rc;

    if (!args_has(s->args, "all"))
        r.query = SPAN("active=true");
    rc = admin_call(s, &r, a, &answer);
    if (rc == ERR_OK)
        rc = admin_list(s, answer, "jobs", &doc);
    if (rc == ERR_OK && !admin_print(s, answer, "jobs", "", "id"))
        json_array_foreach(json_object_get(doc, "jobs"), i, job) print_row(job);
    if (rc == ERR_OK && s->output == OUTPUT_TABLE && !s->quiet &&
        json_array_size(json_object_get(doc, "jobs")) == 0)
        fprintf(stderr, "no job is running; --all shows finished jobs too\n");
    json_decref(doc);
    arena_free(&a);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

/* ---- the verbs ---- */

static const struct flag jobs_flags[] = {
    {"all", 'a', NULL, "finished jobs, too", false},
    {"resume", 0, NULL, "resume JOB, which failed, failed in part or was cancelled",
     false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const jobs_examples[] = {"forebay jobs", "forebay jobs --all --json",
                                            "forebay jobs k3v9q2mxabcd",
                                            "forebay jobs k3v9q2mxabcd --resume", NULL};
static const struct verb jobs_verb = {
    .name = "jobs",
    .summary = "list the jobs of a server",
    .arguments = "[JOB]",
    .most = 1,
    .examples = jobs_examples,
    .flags = jobs_flags,
};

static enum exit_code
jobs_show(struct session *s)
{
    json_t *job;
    enum err rc;

    if (s->args->count == 0)
        return jobs_list(s);
    rc = args_has(s->args, "resume") ? jobs_change(s, s->args->at[0], "resume", &job)
                                     : ask_one(s, s->args->at[0], false, &job);
    if (rc != ERR_OK)
        return session_fail(s, rc);
    if (has_ended(job) || s->json) {
        put_end(s, job);
    } else {
        put_progress(stdout, job);
        putchar('\n');
    }
    json_decref(job);
    return EXIT_OK_;
}

static enum exit_code
run_jobs(const struct args *a)
{
    return session_run(a, jobs_show, NULL);
}
const struct cli_verb cli_jobs = {&jobs_verb, run_jobs};

static const struct flag plain_flags[] = {SESSION_FLAGS, {NULL, 0, NULL, NULL, false}};
static const char *const wait_examples[] = {"forebay wait k3v9q2mxabcd", NULL};
static const struct verb wait_verb = {
    .name = "wait",
    .summary = "wait until a job has ended",
    .arguments = "JOB",
    .least = 1,
    .most = 1,
    .examples = wait_examples,
    .flags = plain_flags,
    .more = "Exit code 1 when some objects failed, 5 when the job failed, 7 "
            "when it was cancelled.",
};

enum exit_code
jobs_wait(struct session *s, const char *id)
{
    enum exit_code code;
    json_t *job;
    enum err rc = ask_one(s, id, false, &job);

    if (rc != ERR_OK)
        return session_fail(s, rc);
    code = jobs_watch(s, job);
    json_decref(job);
    return code;
}

static enum exit_code
jobs_wait_for(struct session *s)
{
    return jobs_wait(s, s->args->at[0]);
}

static enum exit_code
run_wait(const struct args *a)
{
    return session_run(a, jobs_wait_for, NULL);
}
const struct cli_verb cli_wait = {&wait_verb, run_wait};

static const char *const cancel_examples[] = {"forebay cancel k3v9q2mxabcd", NULL};
static const struct verb cancel_verb = {
    .name = "cancel",
    .summary = "cancel a job; finished work stays",
    .arguments = "JOB...",
    .least = 1,
    .most = UINT_MAX,
    .examples = cancel_examples,
    .flags = plain_flags,
};

static enum exit_code
jobs_cancel(struct session *s)
{
    enum exit_code code = EXIT_OK_;

    for (size_t i = 0; i < s->args->count; i++) {
        json_t *job;
        enum err rc = jobs_change(s, s->args->at[i], "cancel", &job);

        if (rc != ERR_OK) {
            code = session_fail(s, rc);
            continue;
        }
        if (!has_ended(job)) {
            json_decref(job);
            rc = ask_one(s, s->args->at[i], true, &job);
        }
        if (rc == ERR_OK && has_ended(job))
            put_end(s, job);
        else if (rc == ERR_OK && !s->quiet)
            printf("%s is ending\n", s->args->at[i]);
        else if (rc != ERR_OK)
            code = session_fail(s, rc);
        json_decref(job);
    }
    return code;
}

static enum exit_code
run_cancel(const struct args *a)
{
    return session_run(a, jobs_cancel, NULL);
}
const struct cli_verb cli_cancel = {&cancel_verb, run_cancel};
