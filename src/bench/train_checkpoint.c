/* train_checkpoint: `bench train --model checkpoint-8b`: checkpoints are written one after the other, then all are read back. The first of
 * each warms up and does not count. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "bench/train.h"

#define RUNS       10u
#define SPACE_MOST GIB(16) /* unless runs are asked for */
#define BLOCK      KIB(256)
#define REQUESTS   1024u /* of all ranks at a time */
#define GB         1e9

/* All writes, or all reads. */
struct phase {
    const char *name, *json; /* "written", "write" */
    bool writes;
    double seconds[TRAIN_RUNS_MAX]; /* of each run that counts */
    unsigned runs;
    double median, least, most;  /* bytes a second */
    struct checkpoint_pass *sum; /* owned: of those that count */
    struct look used;            /* by them */
    struct roofline roofline;
    uint64_t verified; /* bytes, with those of the first */
};

static double
checkpoint_rate(const struct checkpoint *c, double seconds)
{
    return (double)(c->share_bytes * c->ranks) / MAX(seconds, 1e-9);
}

/* ---- runs ---- */

static void
print_run(const struct train *t, const struct checkpoint *c, const struct phase *p,
          unsigned run, double seconds)
{
    if (t->s->json)
        return;
    printf("%-6s%3u%s  %8.3f s  %7.3f GB/s\n", p->json, run,
           run == 0 ? " (warm-up)" : "          ", seconds,
           checkpoint_rate(c, seconds) / GB);
    fflush(stdout);
}

static enum err
run_one(struct train *t, struct checkpoint *c, struct phase *p, unsigned run,
        struct checkpoint_pass *out)
{
    double before = out->seconds;
    enum err rc = p->writes ? checkpoint_write(c, run, out, &t->s->eb)
                            : checkpoint_read(c, run, out, &t->s->eb);

    if (rc == ERR_OK)
        print_run(t, c, p, run, out->seconds - before);
    return rc;
}

static int
checkpoint_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void
checkpoint_sum(const struct checkpoint *c, struct phase *p)
{
    double sorted[TRAIN_RUNS_MAX];

    for (unsigned i = 0; i < p->runs; i++)
        sorted[i] = checkpoint_rate(c, p->seconds[i]);
    qsort(sorted, p->runs, sizeof *sorted, checkpoint_by_value);
    p->median = sorted[p->runs / 2];
    p->least = sorted[0];
    p->most = sorted[p->runs - 1];
}

static enum err
run_phase(struct train *t, struct checkpoint *c, struct phase *p)
{
    struct checkpoint_pass *warm = xcalloc(1, sizeof *warm);
    struct look before, after;
    enum err rc = run_one(t, c, p, 0, warm);

    p->verified = warm->bytes;
    free(warm);
    look_now(t->s, &before);
    while (rc == ERR_OK && p->runs < t->runs) {
        double so_far = p->sum->seconds;

        rc = run_one(t, c, p, p->runs + 1, p->sum);
        p->seconds[p->runs++] = p->sum->seconds - so_far;
    }
    look_now(t->s, &after);
    look_between(&before, &after, &p->used);
    p->verified += p->sum->bytes;
    if (rc == ERR_OK)
        checkpoint_sum(c, p);
    return rc;
}

/* As if it were a number of accelerators that take megabytes. */
static void
train_checkpoint_draw(struct train *t, const struct checkpoint *c, struct phase *p)
{
    struct train_trial trial = {.accelerators = c->ranks, .used = p->used};
    struct train_result *r = xcalloc(1, sizeof *r);
    unsigned parts = (unsigned)((c->share_bytes + c->part_bytes - 1) / c->part_bytes);
    unsigned readers = t->readers;

    histogram_merge(&r->took, &p->sum->took);
    r->bytes = p->sum->bytes;
    r->requests = p->sum->requests;
    r->in_flight_ns = p->sum->in_flight_ns;
    r->seconds = p->sum->seconds;
    r->samples_s = (double)r->bytes / 1e6 / MAX(r->seconds, 1e-9);
    trial.result = r;
    t->reported = &trial;
    t->readers = MIN(c->concurrency, parts);
    train_draw_limits(t, p->writes);
    t->readers = readers;
    t->reported = NULL;
    p->roofline = t->roofline;
    free(r);
}

/* ---- the report ---- */

static double
spread_of(const struct phase *p)
{
    return (p->most - p->least) / MAX(p->median, 1e-9);
}

static double
cpu_per_gb(const struct phase *p)
{
    return p->used.server_cpu_s / ((double)MAX(p->sum->bytes, 1u) / GB);
}

static void
print_phase(const struct checkpoint *c, const struct phase *p, FILE *out)
{
    struct buf text;

    fprintf(out, "\n%-13s%.3f GB/s (%.3f to %.3f), %.3f s a checkpoint\n", p->name,
            p->median / GB, p->least / GB, p->most / GB,
            (double)(c->share_bytes * c->ranks) / p->median);
    fprintf(out, "%-13s%s: %.1f %% between %u runs, behind one that warmed up\n",
            "spread", spread_of(p) <= TRAIN_STEADY ? "steady" : "not steady",
            spread_of(p) * 100, p->runs);
    train_print_latency(out, "requests", &p->sum->took);
    train_print_latency(out, "ranks", &p->sum->share);
    if (p->used.server_cpu_s >= 0)
        fprintf(out, "%-13s%.2f s of CPU a GB\n", "server", cpu_per_gb(p));
    if (p->sum->errors > 0)
        fprintf(out, "%-13s%llu, each tried again; the first: %s\n", "errors",
                (unsigned long long)p->sum->errors, p->sum->first_error.text);
    buf_init(&text, KIB(64));
    roofline_text(&p->roofline, &text);
    roofline_verdict(&p->roofline, &text);
    fprintf(out, "%.*s\n", SPAN_ARG(buf_span(&text)));
    buf_fini(&text);
}

static void
train_checkpoint_print(const struct train *t, const struct checkpoint *c,
                       const struct phase phases[2])
{
    char whole[NUM_SIZE_TEXT], model[NUM_SIZE_TEXT];

    for (unsigned i = 0; i < 2; i++)
        print_phase(c, &phases[i], stdout);
    printf("\n"
           "%-13s%s read back unchanged\n",
           "content", num_size_text(phases[1].verified, whole));
    printf("%-13s%s of %s, %u of %u ranks, %u of %u runs%s; no result of the field's "
           "benchmark\n",
           "scaled", num_size_text(c->share_bytes * c->ranks, whole),
           num_size_text(t->checkpoint->bytes, model), c->ranks, t->checkpoint->ranks,
           t->runs, RUNS,
           look_is_local(t->s->endpoint) ? ", client on the server's machine" : "");
}

static void
json_phase(struct json *j, const struct checkpoint *c, const struct phase *p)
{
    json_open_object(j, p->json);
    json_f64(j, "bytes_per_second", p->median);
    json_f64(j, "seconds", (double)(c->share_bytes * c->ranks) / p->median);
    json_f64(j, "spread", spread_of(p));
    json_bool(j, "steady", spread_of(p) <= TRAIN_STEADY);
    json_open_array(j, "runs");
    for (unsigned i = 0; i < p->runs; i++) {
        json_open_object(j, NULL);
        json_f64(j, "seconds", p->seconds[i]);
        json_f64(j, "bytes_per_second", checkpoint_rate(c, p->seconds[i]));
        json_end(j);
    }
    json_end(j);
    json_u64(j, "bytes", p->sum->bytes);
    json_u64(j, "requests", p->sum->requests);
    json_u64(j, "errors", p->sum->errors);
    train_json_latency(j, "request", &p->sum->took);
    train_json_latency(j, "rank", &p->sum->share);
    if (p->used.server_cpu_s >= 0) {
        json_f64(j, "server_cpu_seconds", p->used.server_cpu_s);
        json_f64(j, "server_cpu_seconds_per_gb", cpu_per_gb(p));
    }
    json_f64(j, "client_cpu_seconds", p->used.client_cpu_s);
    if (!p->writes)
        json_u64(j, "verified_bytes", p->verified);
    roofline_json(&p->roofline, j, "roofline");
    json_end(j);
}

static void
train_checkpoint_print_json(const struct train *t, const struct checkpoint *c,
                            const struct phase phases[2])
{
    struct buf text;
    struct json j;

    buf_init(&text, MIB(1));
    json_begin(&j, &text);
    json_open_object(&j, NULL);
    json_text(&j, "test", "checkpoint");
    json_text(&j, "endpoint", t->s->endpoint);
    json_open_object(&j, "profile");
    json_text(&j, "name", t->checkpoint->name);
    json_u64(&j, "bytes", t->checkpoint->bytes);
    json_u64(&j, "ranks", t->checkpoint->ranks);
    json_end(&j);
    json_f64(&j, "scale", t->scale);
    json_u64(&j, "checkpoint_bytes", c->share_bytes * c->ranks);
    json_u64(&j, "ranks", c->ranks);
    json_u64(&j, "share_bytes", c->share_bytes);
    json_u64(&j, "part_bytes", c->part_bytes);
    json_u64(&j, "readers", c->concurrency);
    json_u64(&j, "loops", c->loops);
    json_u64(&j, "runs", t->runs);
    for (unsigned i = 0; i < 2; i++)
        json_phase(&j, c, &phases[i]);
    json_end(&j);
    printf("%.*s\n", SPAN_ARG(buf_span(&text)));
    buf_fini(&text);
}

/* ---- all of it ---- */

enum err
train_plan(struct train *t, const struct checkpoint_model *m, unsigned ranks,
           uint64_t part_bytes, struct checkpoint *c)
{
    c->ranks = ranks > 0 ? ranks : m->ranks;
    c->loops = MIN(t->loops, c->ranks);
    c->concurrency = MIN(t->readers, MAX(REQUESTS / c->ranks, 1u));
    c->share_bytes = (uint64_t)((double)m->bytes * t->scale / m->ranks);
    c->part_bytes = align_down(part_bytes, BLOCK);
    if (c->share_bytes == 0)
        return err_set(&t->s->eb, ERR_BAD_REQUEST,
                       "--scale leaves nothing of %llu bytes over %u ranks",
                       (unsigned long long)m->bytes, m->ranks);
    if (part_bytes < CHECKPOINT_PART_LEAST)
        return err_set(&t->s->eb, ERR_BAD_REQUEST,
                       "--request: parts of %llu bytes; S3 wants 5 MiB at least",
                       (unsigned long long)part_bytes);
    while ((c->share_bytes + c->part_bytes - 1) / c->part_bytes > CHECKPOINT_PARTS_MOST)
        c->part_bytes *= 2;
    return ERR_OK;
}

/* The field's ten, as long as they take no more space than this: all are there at once. */
static unsigned
runs_of(const struct train *t, const struct checkpoint *c)
{
    uint64_t fit = MAX(SPACE_MOST / (c->share_bytes * c->ranks), 2u) - 1;

    return args_has(t->s->args, "runs") ? t->runs : (unsigned)MIN(fit, RUNS);
}

const char *
train_scale_text(const struct train *t, char out[TRAIN_SCALE_TEXT])
{
    double of = 1 / t->scale;

    if (of < 1e7 && fabs(of - round(of)) < 1e-6)
        snprintf(out, TRAIN_SCALE_TEXT, "1/%.0f", of);
    else
        snprintf(out, TRAIN_SCALE_TEXT, "%g", t->scale);
    return out;
}

static void
print_head(const struct train *t, const struct checkpoint *c)
{
    char share[NUM_SIZE_TEXT], part[NUM_SIZE_TEXT], whole[NUM_SIZE_TEXT];
    char scale[TRAIN_SCALE_TEXT];

    if (t->s->json)
        return;
    printf("%s at %s of its size: %u ranks write %s each, in parts of %s, %u at a time; "
           "%u checkpoints of %s\n",
           t->checkpoint->name, train_scale_text(t, scale), c->ranks,
           num_size_text(c->share_bytes, share), num_size_text(c->part_bytes, part),
           c->concurrency, t->runs + 1, num_size_text(c->share_bytes * c->ranks, whole));
}

void
train_remove(const struct train *t, struct checkpoint *c)
{
    struct errbuf eb = {{0}};

    if (t->keep || made_remove(&c->made, &eb) == ERR_OK)
        return;
    fprintf(stderr,
            "forebay: some objects created under \"%s\" could not be deleted: %s\n",
            c->made.prefix, eb.text);
}

enum err
train_checkpoint(struct train *t)
{
    struct checkpoint c = {0};
    struct phase *phases = xcalloc(2, sizeof *phases);
    enum err rc = train_plan(t, t->checkpoint, t->accelerators, t->request_bytes, &c);

    phases[0] = (struct phase){.name = "written", .json = "write", .writes = true};
    phases[1] = (struct phase){.name = "read back", .json = "read"};
    for (unsigned i = 0; i < 2; i++)
        phases[i].sum = xcalloc(1, sizeof *phases[i].sum);
    if (rc == ERR_OK) {
        t->runs = runs_of(t, &c);
        checkpoint_init(&c, t->s, &t->place, t->runs + 1, t->seed);
        print_head(t, &c);
        for (unsigned i = 0; i < 2 && rc == ERR_OK; i++)
            rc = run_phase(t, &c, &phases[i]);
        for (unsigned i = 0; i < 2 && rc == ERR_OK; i++)
            train_checkpoint_draw(t, &c, &phases[i]);
        train_remove(t, &c);
    }
    if (rc == ERR_OK && t->s->json)
        train_checkpoint_print_json(t, &c, phases);
    else if (rc == ERR_OK)
        train_checkpoint_print(t, &c, phases);
    for (unsigned i = 0; i < 2; i++)
        free(phases[i].sum);
    free(phases);
    checkpoint_fini(&c);
    return rc;
}
