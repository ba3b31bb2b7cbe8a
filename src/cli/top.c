/* top: the load of a node from two reads of /_/metrics, and its clients from /_/trace. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/admin.h"
#include "cli/output.h"
#include "cli/samples.h"
#include "cli/terminal.h"
#include "cli/top_disks.h"
#include "cli/traffic.h"
#include "rt/fiber.h"
#include "rt/time.h"
#include "wire/json.h"

static const struct flag flags[] = {
    {"interval", 'i', "TIME", "interval; default 2s", false},
    {"once", '1', NULL, "print one interval and exit", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {"forebay top", "forebay top --once -o json",
                                       "forebay top -i 10s > log", NULL};
static const struct verb verb = {
    .name = "top",
    .summary = "show the current load of a node",
    .arguments = "",
    .examples = examples,
    .flags = flags,
    .more = "On a terminal the page is redrawn each interval; otherwise pages "
            "follow each other. -o jsonl prints one line each."};

struct page {
    struct samples *samples; /* owned */
    uint64_t at_ns;
};

static enum err
top_look(struct session *s, struct page *out)
{
    struct arena *a = arena_new(KIB(64), MIB(16));
    struct s3_request r = {.method = "GET", .path = SPAN("/_/metrics")};
    struct span answer = {"", 0};
    enum err rc = admin_call(s, &r, a, &answer);

    out->at_ns = rt_now_ns();
    if (rc == ERR_OK)
        rc = samples_parse(answer, &out->samples, &s->eb);
    if (rc == ERR_OK &&
        samples_sum(out->samples, "forebay_build_info", NULL, NULL) != 1) {
        samples_free(&out->samples);
        rc = err_set(&s->eb, ERR_BACKEND, "%s is no Forebay: it has no /_/metrics",
                     s->endpoint);
    }
    arena_free(&a);
    return rc;
}

/* The figures of one interval. */
static const char *const ops[] = {"get", "head", "put", "delete", "list", "mpu", "admin"};
struct view {
    double seconds, cpu; /* cores */
    double requests, errors, in, out, hit, backend_in, disk_read, store_write, syncs;
    double connections, memory, block_cache, block_target;
    double block_hit, block_gain; /* shares of the reads; gain: with twice the size */
    bool has_hit;
    struct {
        double requests, p50, p99, bytes_in, bytes_out;
    } op[ARRAY_LEN(ops)];
};

static double
top_rate(const struct page *a, const struct page *b, const char *name, const char *label)
{
    return (samples_sum(b->samples, name, label, NULL) -
            samples_sum(a->samples, name, label, NULL)) /
           ((double)(b->at_ns - a->at_ns) / 1e9);
}

static void
by_op(const struct page *a, const struct page *b, struct view *v)
{
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        char label[32];

        snprintf(label, sizeof label, "op=\"%s\"", ops[i]);
        v->op[i].requests = top_rate(a, b, "forebay_requests_total", label);
        v->op[i].bytes_in = top_rate(a, b, "forebay_request_bytes_total", label);
        v->op[i].bytes_out = top_rate(a, b, "forebay_response_bytes_total", label);
        v->op[i].p50 =
            samples_quantile(a->samples, b->samples,
                             "forebay_request_duration_seconds_bucket", label, 0.5);
        v->op[i].p99 =
            samples_quantile(a->samples, b->samples,
                             "forebay_request_duration_seconds_bucket", label, 0.99);
    }
}

static void
compare_block_cache(const struct page *a, const struct page *b, struct view *v)
{
    double reads = top_rate(a, b, "forebay_block_cache_requests_total", NULL);
    double hits =
        top_rate(a, b, "forebay_block_cache_requests_total", "where=\"memory\"");
    double gain = top_rate(a, b, "forebay_block_cache_rereads_total", "size=\"twice\"");

    v->block_cache =
        samples_sum(b->samples, "forebay_block_cache_held_bytes", NULL, NULL);
    v->block_target =
        samples_sum(b->samples, "forebay_block_cache_target_bytes", NULL, NULL);
    v->block_hit = reads > 0 ? hits / reads : 0;
    v->block_gain = reads > 0 ? MIN(gain / reads, 1) : 0;
}

static void
top_compare(const struct page *a, const struct page *b, struct view *v)
{
    double hits = top_rate(a, b, "forebay_cache_requests_total", "result=\"hit\"");
    double reads = top_rate(a, b, "forebay_cache_requests_total", NULL);

    *v = (struct view){
        .seconds = (double)(b->at_ns - a->at_ns) / 1e9,
        .cpu = top_rate(a, b, "process_cpu_seconds_total", NULL),
        .requests = top_rate(a, b, "forebay_requests_total", NULL),
        .errors = top_rate(a, b, "forebay_requests_total", "code=\"5"),
        .in = top_rate(a, b, "forebay_request_bytes_total", NULL),
        .out = top_rate(a, b, "forebay_response_bytes_total", NULL),
        .hit = reads > 0 ? hits / reads : 0,
        .has_hit = reads > 0,
        .backend_in = top_rate(a, b, "forebay_backend_bytes_total", "direction=\"in\""),
        .disk_read = top_rate(a, b, "forebay_disk_io_bytes_total", "direction=\"read\""),
        .store_write =
            top_rate(a, b, "forebay_disk_io_bytes_total", "direction=\"write\""),
        .syncs = top_rate(a, b, "forebay_disk_syncs_total", NULL),
        .connections = samples_sum(b->samples, "forebay_connections", NULL, NULL),
        .memory = samples_sum(b->samples, "process_resident_memory_bytes", NULL, NULL),
    };
    compare_block_cache(a, b, v);
    by_op(a, b, v);
}

static const char *
size(double bytes, char out[NUM_SIZE_TEXT])
{
    return num_size_text(bytes > 0 ? (uint64_t)bytes : 0, out);
}

static void
print_view(const struct session *s, const struct view *v)
{
    char a[NUM_SIZE_TEXT], b[NUM_SIZE_TEXT], c[NUM_SIZE_TEXT], date[NUM_DATE_TEXT];

    date_iso((int64_t)(rt_wall_ns() / 1000000u), date);
    printf("%s  %s  %.0f connections\n", s->endpoint, date, v->connections);
    printf("requests  %.0f/s, %.1f/s failed; %s/s out, %s/s in\n", v->requests, v->errors,
           size(v->out, a), size(v->in, b));
    printf("server    %.2f cores, %s of memory, %s of it block cache\n", v->cpu,
           size(v->memory, a), size(v->block_cache, b));
    printf("memory    block cache of up to %s now, %.1f %% of reads from it; twice the "
           "size: %.1f %%\n",
           size(v->block_target, a), 100 * v->block_hit,
           100 * MIN(v->block_hit + v->block_gain, 1));
    printf("disks     %s/s read, %s/s written, %.0f syncs/s\n", size(v->disk_read, a),
           size(v->store_write, b), v->syncs);
    if (v->has_hit)
        printf("cache     %.1f %% hits, %s/s from backends\n", 100 * v->hit,
               size(v->backend_in, c));
    printf("\n%-8s %10s %10s %10s %12s %12s\n", "", "requests/s", "p50 ms", "p99 ms",
           "out/s", "in/s");
    for (size_t i = 0; i < ARRAY_LEN(ops); i++)
        if (v->op[i].requests > 0)
            printf("%-8s %10.0f %10.2f %10.2f %12s %12s\n", ops[i], v->op[i].requests,
                   v->op[i].p50 * 1000, v->op[i].p99 * 1000, size(v->op[i].bytes_out, a),
                   size(v->op[i].bytes_in, b));
}

#define SHOWN 8 /* buckets, clients */

/* Of buckets and of clients each: as many as the rest of a terminal's page has room for. */
static unsigned
room_for_shares(const struct view *v, const struct top_disks *d)
{
    unsigned used = 9 + d->count + 2 + 2 * 3, rows = terminal_rows();

    for (size_t i = 0; i < ARRAY_LEN(ops); i++)
        used += v->op[i].requests > 0;
    return rows > used + 2 ? MIN((rows - used) / 2, SHOWN) : 1;
}

static void
print_shares(const char *title, const struct traffic_kind *k, double each, unsigned most)
{
    char a[NUM_SIZE_TEXT], b[NUM_SIZE_TEXT];

    if (k->count > 0)
        printf("\n%-32s %10s %12s %12s\n", title, "requests/s", "out/s", "in/s");
    for (unsigned i = 0; i < MIN(k->count, most); i++)
        printf("%-32s %10.0f %12s %12s\n", k->at[i].name, k->at[i].requests * each,
               size(k->at[i].out * each, a), size(k->at[i].in * each, b));
    if (k->count > most)
        printf("... and %u more\n", k->count - most);
}

static void
json_shares(struct json *j, const char *name, const struct traffic_kind *k, double each)
{
    json_open_array(j, name);
    for (unsigned i = 0; i < k->count; i++) {
        json_open_object(j, NULL);
        json_text(j, "name", k->at[i].name);
        json_f64(j, "requests_per_second", k->at[i].requests * each);
        json_f64(j, "bytes_out_per_second", k->at[i].out * each);
        json_f64(j, "bytes_in_per_second", k->at[i].in * each);
        json_end(j);
    }
    json_end(j);
}

static void
top_print_json(const struct session *s, const struct view *v, const struct top_disks *d,
               const struct traffic *t, double each)
{
    struct buf text;
    struct json j;

    buf_init(&text, KIB(256));
    json_begin(&j, &text);
    json_open_object(&j, NULL);
    json_text(&j, "endpoint", s->endpoint);
    json_f64(&j, "seconds", v->seconds);
    json_f64(&j, "requests_per_second", v->requests);
    json_f64(&j, "failed_per_second", v->errors);
    json_f64(&j, "bytes_out_per_second", v->out);
    json_f64(&j, "bytes_in_per_second", v->in);
    json_f64(&j, "cores", v->cpu);
    json_f64(&j, "resident_bytes", v->memory);
    json_f64(&j, "connections", v->connections);
    json_f64(&j, "disk_read_per_second", v->disk_read);
    json_f64(&j, "disk_written_per_second", v->store_write);
    json_f64(&j, "syncs_per_second", v->syncs);
    if (v->has_hit)
        json_f64(&j, "hit_ratio", v->hit);
    json_f64(&j, "block_cache_bytes", v->block_cache);
    json_f64(&j, "block_cache_target_bytes", v->block_target);
    json_f64(&j, "block_cache_hit_ratio", v->block_hit);
    json_f64(&j, "block_cache_gain_of_twice", v->block_gain);
    json_open_object(&j, "operations");
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        json_open_object(&j, ops[i]);
        json_f64(&j, "requests_per_second", v->op[i].requests);
        json_f64(&j, "p50_ms", v->op[i].p50 * 1000);
        json_f64(&j, "p99_ms", v->op[i].p99 * 1000);
        json_end(&j);
    }
    json_end(&j);
    top_disks_json(d, &j);
    json_shares(&j, "buckets", &t->buckets, each);
    json_shares(&j, "clients", &t->clients, each);
    json_end(&j);
    printf("%.*s\n", SPAN_ARG(buf_span(&text)));
    buf_fini(&text);
}

/* An interval, with looks at the requests often enough that the server goes on keeping them. */
static enum err
pass_time(struct session *s, uint64_t ms, struct traffic *t)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && ms > 0) {
        uint64_t step = MIN(ms, 1000u);

        rc = rt_sleep_ms(step);
        if (rc == ERR_OK && !t->silent)
            rc = traffic_look(s, t);
        ms -= step;
    }
    return rc;
}

static void
print_page(const struct session *s, const struct page *before, const struct page *now,
           struct traffic *t, bool once)
{
    bool again = terminal_is(stdout) && !once && !s->json;
    struct top_disks disks;
    struct view v;
    double each;
    unsigned most;

    top_compare(before, now, &v);
    top_disks_find(before->samples, now->samples, v.seconds, &disks);
    each = traffic_sort(t) / v.seconds;
    most = again ? room_for_shares(&v, &disks) : SHOWN;
    if (again)
        fputs("\033[H\033[2J\033[?7l", stdout); /* lines too long are cut meanwhile */
    if (s->json) {
        top_print_json(s, &v, &disks, t, each);
    } else {
        print_view(s, &v);
        top_disks_print(&disks);
        print_shares("bucket", &t->buckets, each, most);
        print_shares("client", &t->clients, each, most);
    }
    if (again)
        fputs("\033[?7h", stdout);
    fflush(stdout);
    traffic_clear(t);
}

static enum err
top_watch(struct session *s, uint64_t interval_ms, bool once)
{
    struct traffic *t = xcalloc(1, sizeof *t); /* too large for a fiber's stack */
    struct page before = {0}, now = {0};
    enum err rc = top_look(s, &before);

    if (rc == ERR_OK)
        rc = traffic_look(s, t);
    while (rc == ERR_OK) {
        if (pass_time(s, interval_ms, t) != ERR_OK)
            break;
        rc = top_look(s, &now);
        if (rc != ERR_OK)
            break;
        print_page(s, &before, &now, t, once);
        rc = output_check(&s->eb);
        samples_free(&before.samples);
        before = now;
        now.samples = NULL;
        if (once)
            break;
    }
    samples_free(&before.samples);
    samples_free(&now.samples);
    free(t);
    return rc;
}

static enum exit_code
top_act(struct session *s)
{
    const char *text = args_value(s->args, "interval");
    uint64_t interval_ms = 2000;
    enum err rc = ERR_OK;

    if (text != NULL)
        rc = num_duration_ms(span_of(text), &interval_ms, &s->eb);
    if (rc == ERR_OK && (interval_ms < 100 || interval_ms > 3600000))
        rc = err_set(&s->eb, ERR_BAD_REQUEST, "--interval \"%s\": 100ms to 1h", text);
    if (rc != ERR_OK)
        return cli_usage(&s->eb, &verb);
    s->endless = !args_has(s->args, "once");
    rc = top_watch(s, interval_ms, args_has(s->args, "once"));
    return rc == ERR_OK || rt_cancelled() ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
top_run(const struct args *a)
{
    return session_run(a, top_act, NULL);
}
const struct cli_verb cli_top = {&verb, top_run};
