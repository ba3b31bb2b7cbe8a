#include "cli/ping.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"
#include "rt/fiber.h"
#include "rt/time.h"

#define ANSWER_MAX MIB(1)
#define AGAIN_MS   200 /* ready --wait asks so often */
#define PING_MS    1000
#define COUNT_MAX  1000000

enum err
ping_ask(struct session *s, const char *path, int *status)
{
    struct arena *a = arena_new(KIB(16), ANSWER_MAX);
    struct s3_request r = {.method = "GET", .path = span_of(path)};
    struct span answer;
    enum err rc = s3_request(s->s3, &r, a, status, &answer, &s->eb);

    arena_free(&a);
    return rc;
}

/* ---- ping ---- */

static const struct flag ping_flags[] = {
    {"count", 'n', "N", "number of requests; default 4", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false}};
static const char *const ping_examples[] = {
    "forebay ping", "forebay ping -n 1 --endpoint-url http://node7:9000 -q", NULL};
static const struct verb ping_verb = {
    .name = "ping",
    .summary = "measure the response time of a server",
    .arguments = "",
    .examples = ping_examples,
    .flags = ping_flags,
    .more = "Works with any S3 server. The first time includes the connection. "
            "Exit code 5 without a response."};

static void
print_times(const struct session *s, uint64_t count, uint64_t least, uint64_t most,
            uint64_t sum)
{
    double mean = (double)sum / (double)count / 1e6;

    if (s->json)
        printf("{\"endpoint\":\"%s\",\"answers\":%" PRIu64
               ",\"least_ms\":%.3f,\"mean_ms\":%.3f,\"most_ms\":%.3f}\n",
               s->endpoint, count, (double)least / 1e6, mean, (double)most / 1e6);
    else if (!s->quiet)
        printf("%" PRIu64 " answers: least %.2f ms, mean %.2f ms, most %.2f ms\n", count,
               (double)least / 1e6, mean, (double)most / 1e6);
}

static enum exit_code
ping(struct session *s)
{
    const char *given = args_value(s->args, "count");
    uint64_t count = 4, least = UINT64_MAX, most = 0, sum = 0;

    if (given != NULL &&
        (num_u64(span_of(given), &count) != ERR_OK || count < 1 || count > COUNT_MAX)) {
        err_set(&s->eb, ERR_BAD_REQUEST, "--count \"%s\": expected a number from 1 to %d",
                given, COUNT_MAX);
        return cli_usage(&s->eb, s->args->verb);
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t began, took;
        int status = 0;
        enum err rc = i > 0 ? rt_sleep_ms(PING_MS) : ERR_OK;

        began = rt_now_ns();
        if (rc == ERR_OK)
            rc = ping_ask(s, "/_/livez", &status);
        took = rt_now_ns() - began;
        if (rc != ERR_OK)
            return session_fail(s, rc);
        least = MIN(least, took);
        most = MAX(most, took);
        sum += took;
        if (!s->quiet && !s->json) {
            printf("%s answers in %.2f ms%s\n", s->endpoint, (double)took / 1e6,
                   status == 200 ? "" : ", and is no Forebay");
            fflush(stdout);
        }
    }
    print_times(s, count, least, most, sum);
    return EXIT_OK_;
}

static enum exit_code
run_ping(const struct args *a)
{
    return session_run(a, ping, NULL);
}
const struct cli_verb cli_ping = {&ping_verb, run_ping};

/* ---- ready ---- */

static const struct flag ready_flags[] = {
    {"wait", 0, "TIME", "wait until it is ready, at most this long: 30s", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false}};
static const char *const ready_examples[] = {
    "forebay ready", "forebay ready --wait 30s && forebay sync ./data s3://train", NULL};
static const struct verb ready_verb = {
    .name = "ready",
    .summary = "check whether a Forebay server is ready",
    .arguments = "",
    .examples = ready_examples,
    .flags = ready_flags,
    .more = "Exit code 0 when it is ready, 5 when it is not."};

enum err
ping_ready(struct session *s)
{
    int status = 0;
    enum err rc = ping_ask(s, "/_/readyz", &status);

    if (rc != ERR_OK || status == 200)
        return rc;
    if (status == 503)
        return err_set(&s->eb, ERR_UNAVAILABLE,
                       "%s answers, and is not ready: it is starting or draining",
                       s->endpoint);
    return err_set(&s->eb, ERR_NOT_IMPLEMENTED,
                   "%s answers, and does not say whether it is ready: it is no Forebay",
                   s->endpoint);
}

static enum exit_code
ready(struct session *s)
{
    const char *given = args_value(s->args, "wait");
    uint64_t wait_ms = 0, until;
    enum err rc =
        given != NULL ? num_duration_ms(span_of(given), &wait_ms, &s->eb) : ERR_OK;

    if (rc != ERR_OK)
        return cli_usage(&s->eb, s->args->verb);
    until = rt_now_ns() + wait_ms * 1000000;
    rc = ping_ready(s);
    while (rc != ERR_OK && rc != ERR_NOT_IMPLEMENTED && rc != ERR_CANCELLED &&
           rt_now_ns() < until && rt_sleep_ms(AGAIN_MS) == ERR_OK)
        rc = ping_ready(s);
    if (rc != ERR_OK)
        return session_fail(s, rc);
    if (s->json)
        printf("{\"endpoint\":\"%s\",\"ready\":true}\n", s->endpoint);
    else if (!s->quiet)
        printf("%s is ready\n", s->endpoint);
    return EXIT_OK_;
}

static enum exit_code
run_ready(const struct args *a)
{
    return session_run(a, ready, NULL);
}
const struct cli_verb cli_ready = {&ready_verb, run_ready};
