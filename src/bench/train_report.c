/* What `bench train` tells, as text and as JSON. */
#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"
#include "bench/train.h"

#define GB            1e9
#define RUNS_WANTED   5
#define STEPS_WANTED  500 /* an epoch */
#define MEMORY_WANTED 5   /* times the clients', so much data */

static const struct {
    const char *name, *json;
    double q;
} shares[] = {{"p50", "p50_ms", 0.5},
              {"p90", "p90_ms", 0.9},
              {"p99", "p99_ms", 0.99},
              {"p99.9", "p999_ms", 0.999},
              {"max", "max_ms", 1}};

static double
bytes_s(const struct train_trial *t)
{
    return (double)t->result->bytes / MAX(t->result->seconds, 1e-9);
}

double
train_spread(const struct train_trial *trial)
{
    double least = trial->each[0].samples_s, most = least;

    for (unsigned i = 1; i < trial->runs; i++) {
        least = MIN(least, trial->each[i].samples_s);
        most = MAX(most, trial->each[i].samples_s);
    }
    return (most - least) / MAX(trial->result->samples_s, 1e-9);
}

void
train_print_trial(const struct train_trial *trial, const char *what, FILE *out)
{
    const struct train_result *r = trial->result;
    char rate[NUM_SIZE_TEXT];

    num_size_text((uint64_t)bytes_s(trial), rate);
    if (r->counted == 0)
        fprintf(out,
                "%-9s %4u accelerators  too few steps for a utilisation: %llu in %.1f s, "
                "%s/s\n",
                what, trial->accelerators, (unsigned long long)r->steps, r->seconds,
                rate);
    else
        fprintf(out,
                "%-9s %4u accelerators  AU %5.1f %%%s  %9.0f samples/s  %10s/s  wait p99 "
                "%.1f ms\n",
                what, trial->accelerators, r->au * 100,
                trial->epoch > 0 ? "" : (trial->passed ? " ok  " : " low "), r->samples_s,
                rate, (double)histogram_at(&r->wait, 0.99) / 1e6);
}

void
train_print_latency(FILE *out, const char *what, const struct histogram *h)
{
    fprintf(out, "%-13s", what);
    for (size_t i = 0; i < ARRAY_LEN(shares); i++)
        fprintf(out, "%s %.2f ms  ", shares[i].name,
                (double)histogram_at(h, shares[i].q) / 1e6);
    fputc('\n', out);
}

/* What is delivered, as a share of what the network, the way to the server and its disks would. */
static const struct {
    enum ceiling ceiling;
    const char *name, *json;
} widths[] = {{CEILING_NETWORK, "of loopback", "network"},
              {CEILING_PATH, "of the path", "path"},
              {CEILING_DISK, "of the disks", "disk"}};

static double
report_share(const struct train *t, const struct train_trial *b, enum ceiling c)
{
    double most = t->roofline.at[c].samples_s;

    return most > 0 ? b->result->samples_s / most : -1;
}

static void
print_bandwidth(const struct train *t, const struct train_trial *b, FILE *out)
{
    const char *comma = "";

    fprintf(out, "%-13s%.2f GB/s: ", "bandwidth",
            b->result->samples_s * t->roofline.sample_bytes / 1e9);
    for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
        double share = report_share(t, b, widths[i].ceiling);

        if (share < 0)
            continue;
        fprintf(out, "%s%.0f %% %s", comma, share * 100, widths[i].name);
        comma = ", ";
    }
    fputs(*comma == '\0' ? "no ceiling is known\n" : "\n", out);
}

static void
print_result(const struct train *t, const struct train_trial *b, FILE *out)
{
    char rate[NUM_SIZE_TEXT];

    num_size_text((uint64_t)(b->result->samples_s * t->roofline.sample_bytes), rate);
    fprintf(out,
            "%-13s%u accelerators at AU %.1f %% (floor %.0f %%): %.0f samples/s, %s/s\n",
            "result", b->accelerators, b->result->au * 100, t->profile.floor * 100,
            b->result->samples_s, rate);
    if (b->runs > 1)
        fprintf(out, "%-13s%s: %.1f %% between %u runs, behind one that warmed up\n",
                "spread", train_spread(b) <= TRAIN_STEADY ? "steady" : "not steady",
                train_spread(b) * 100, b->runs);
    print_bandwidth(t, b, out);
    train_print_latency(out, "batch waits", &b->result->wait);
    train_print_latency(out, "requests", &b->result->took);
    if (b->used.server_cpu_s >= 0 && b->result->bytes > 0)
        fprintf(out, "%-13s%.2f s of CPU a GB, %.2f s a 1,000 requests\n", "server",
                b->used.server_cpu_s / ((double)b->result->bytes / GB),
                b->used.server_cpu_s * 1000 / (double)MAX(b->result->requests, 1u));
    if (b->result->errors > 0)
        fprintf(out, "%-13s%llu, each tried again; the first: %s\n", "errors",
                (unsigned long long)b->result->errors, b->result->first_error.text);
}

/* The first epoch beside the second: what a fast tier before a slow source is worth. */
static bool
find_epochs(const struct train *t, const struct train_trial *out[2])
{
    out[0] = out[1] = NULL;
    for (unsigned i = 0; i < t->trial_count; i++)
        if (t->trials[i].epoch == 1 || t->trials[i].epoch == 2)
            out[t->trials[i].epoch - 1] = &t->trials[i];
    return out[0] != NULL && out[1] != NULL;
}

static void
print_epochs(const struct train *t, FILE *out)
{
    const struct train_trial *e[2];
    char rate[2][NUM_SIZE_TEXT];

    if (find_epochs(t, e))
        fprintf(out, "%-13sfirst %.1f s at %s/s, second %.1f s at %s/s: %.2fx\n",
                "epochs", e[0]->result->seconds,
                num_size_text((uint64_t)bytes_s(e[0]), rate[0]), e[1]->result->seconds,
                num_size_text((uint64_t)bytes_s(e[1]), rate[1]),
                bytes_s(e[1]) / MAX(bytes_s(e[0]), 1e-9));
}

/* Where this is less than the method asks for. */
static void
train_report_scaled(const struct train *t, struct buf *out)
{
    const struct train_trial *b = t->best != NULL ? t->best : t->reported;
    double steps = (double)t->set.samples / t->profile.batch / b->accelerators;
    double memory = look_memory();

    buf_printf(out, "%.0f steps an epoch of %u accelerators", steps, b->accelerators);
    if (steps < STEPS_WANTED)
        buf_printf(out, " (%d wanted)", STEPS_WANTED);
    if (memory > 0)
        buf_printf(out, "; data %.2gx of this machine's memory%s",
                   (double)t->set.bytes / memory,
                   (double)t->set.bytes < MEMORY_WANTED * memory ? " (5x wanted)" : "");
    if (b->runs < RUNS_WANTED)
        buf_printf(out, "; %u run%s (one to warm up and %d wanted)", b->runs,
                   b->runs > 1 ? "s" : "", RUNS_WANTED);
    buf_puts(out, b->used.local ? "; client on the server's machine" : "");
}

/* The accelerators of the result, alone and beside writers. */
static void
print_beside(const struct train *t, FILE *out)
{
    const struct train_result *r = t->beside.trial.result;
    const struct train_trial *alone = t->best != NULL ? t->best : t->reported;
    char scale[TRAIN_SCALE_TEXT];

    if (r == NULL)
        return;
    fprintf(
        out,
        "%-13s%u accelerators at AU %.1f %% instead of %.1f %% while %u of %s at %s were "
        "written at %.3f GB/s; wait p99 %.1f ms instead of %.1f ms\n",
        "beside", t->beside.trial.accelerators, r->au * 100, alone->result->au * 100,
        t->beside.checkpoints, t->beside.model->name, train_scale_text(t, scale),
        (double)t->beside.bytes / MAX(t->beside.seconds, 1e-9) / GB,
        (double)histogram_at(&r->wait, 0.99) / 1e6,
        (double)histogram_at(&alone->result->wait, 0.99) / 1e6);
}

void
train_print(const struct train *t, FILE *out)
{
    const struct profile *p = &t->profile;
    char data[NUM_SIZE_TEXT], sample[NUM_SIZE_TEXT];
    struct buf text;

    fprintf(out, "\nemulated accelerators: the method of the field's storage benchmarks, "
                 "scaled down; no result of one\n");
    fprintf(out, "%-13s%s: batch %u, %.5g ms a step, %s a sample: %.0f samples/s each\n",
            "profile", p->name, p->batch, (double)p->step_ns / 1e6,
            num_size_text((uint64_t)t->roofline.sample_bytes, sample),
            profile_samples_s(p));
    fprintf(out,
            "%-13s%u files, %s; each accelerator %u readers, %u batches ahead; %.0f "
            "s a try\n",
            "data", t->set.count, num_size_text(t->set.bytes, data), t->readers,
            t->prefetch, (double)t->duration_ms / 1000);
    buf_init(&text, KIB(64));
    train_report_scaled(t, &text);
    fprintf(out, "%-13s%.*s\n", "scaled", SPAN_ARG(buf_span(&text)));
    buf_clear(&text);
    print_epochs(t, out);
    if (t->best != NULL)
        print_result(t, t->best, out);
    else
        fprintf(out, "%-13snot even %u above the floor of %.0f %%\n", "result",
                MAX(t->accelerators, 1u), p->floor * 100);
    print_beside(t, out);
    buf_printf(&text, "\nof the run with %u accelerators:\n", t->reported->accelerators);
    roofline_text(&t->roofline, &text);
    buf_puts(&text, "\n");
    roofline_verdict(&t->roofline, &text);
    fprintf(out, "%.*s\n", SPAN_ARG(buf_span(&text)));
    buf_fini(&text);
}

/* ---- JSON ---- */

void
train_json_latency(struct json *j, const char *key, const struct histogram *h)
{
    json_open_object(j, key);
    json_f64(j, "mean_ms", histogram_mean(h) / 1e6);
    for (size_t i = 0; i < ARRAY_LEN(shares); i++)
        json_f64(j, shares[i].json, (double)histogram_at(h, shares[i].q) / 1e6);
    json_end(j);
}

static void
json_trial(struct json *j, const char *key, const struct train_trial *t)
{
    const struct train_result *r = t->result;

    json_open_object(j, key);
    json_u64(j, "accelerators", t->accelerators);
    if (t->epoch > 0)
        json_u64(j, "epoch", t->epoch);
    json_f64(j, "au", r->au);
    json_f64(j, "au_of_worst", r->au_least);
    json_bool(j, "passed", t->passed);
    if (t->runs > 1) {
        json_open_array(j, "runs");
        for (unsigned i = 0; i < t->runs; i++) {
            json_open_object(j, NULL);
            json_f64(j, "au", t->each[i].au);
            json_f64(j, "samples_per_second", t->each[i].samples_s);
            json_end(j);
        }
        json_end(j);
        json_f64(j, "spread", train_spread(t));
        json_bool(j, "steady", train_spread(t) <= TRAIN_STEADY);
    }
    json_u64(j, "steps", r->steps);
    json_u64(j, "steps_counted", r->counted);
    json_u64(j, "samples", r->samples);
    json_u64(j, "bytes", r->bytes);
    json_u64(j, "requests", r->requests);
    json_u64(j, "errors", r->errors);
    json_f64(j, "seconds", r->seconds);
    json_f64(j, "samples_per_second", r->samples_s);
    json_f64(j, "bytes_per_second", bytes_s(t));
    train_json_latency(j, "batch_wait", &r->wait);
    train_json_latency(j, "request", &r->took);
    if (t->used.server_cpu_s >= 0)
        json_f64(j, "server_cpu_seconds", t->used.server_cpu_s);
    json_f64(j, "client_cpu_seconds", t->used.client_cpu_s);
    if (t->used.disk_bytes >= 0)
        json_f64(j, "server_disk_bytes", t->used.disk_bytes);
    if (t->used.backend_bytes >= 0)
        json_f64(j, "backend_bytes", t->used.backend_bytes);
    json_end(j);
}

static void
json_profile(struct json *j, const struct profile *p)
{
    json_open_object(j, "profile");
    json_text(j, "name", p->name);
    json_u64(j, "batch", p->batch);
    json_f64(j, "step_ms", (double)p->step_ns / 1e6);
    json_u64(j, "sample_bytes", p->sample_bytes);
    json_u64(j, "samples_per_file", p->samples_per_file);
    if (p->columns > 0) {
        json_u64(j, "columns", p->columns);
        json_u64(j, "read_bytes", p->read_bytes);
    }
    json_f64(j, "floor", p->floor);
    json_end(j);
}

static void
json_more(struct json *j, const struct train *t)
{
    const struct train_trial *e[2];
    struct buf text;

    if (find_epochs(t, e))
        json_f64(j, "second_epoch_over_first", bytes_s(e[1]) / MAX(bytes_s(e[0]), 1e-9));
    if (t->beside.trial.result != NULL) {
        json_open_object(j, "beside");
        json_text(j, "checkpoint", t->beside.model->name);
        json_f64(j, "scale", t->scale);
        json_u64(j, "checkpoints", t->beside.checkpoints);
        json_u64(j, "bytes", t->beside.bytes);
        json_f64(j, "bytes_per_second",
                 (double)t->beside.bytes / MAX(t->beside.seconds, 1e-9));
        json_trial(j, "trial", &t->beside.trial);
        json_end(j);
    }
    json_open_object(j, "bandwidth_used");
    for (size_t i = 0; t->best != NULL && i < ARRAY_LEN(widths); i++)
        if (report_share(t, t->best, widths[i].ceiling) >= 0)
            json_f64(j, widths[i].json, report_share(t, t->best, widths[i].ceiling));
    json_end(j);
    buf_init(&text, KIB(4));
    train_report_scaled(t, &text);
    json_span(j, "scaled", buf_span(&text));
    buf_fini(&text);
}

void
train_print_json(const struct train *t, FILE *out)
{
    struct buf text;
    struct json j;

    buf_init(&text, MIB(4));
    json_begin(&j, &text);
    json_open_object(&j, NULL);
    json_text(&j, "test", "emulated accelerators");
    json_text(&j, "endpoint", t->s->endpoint);
    json_profile(&j, &t->profile);
    json_u64(&j, "files", t->set.count);
    json_u64(&j, "data_bytes", t->set.bytes);
    json_u64(&j, "readers", t->readers);
    json_u64(&j, "prefetch", t->prefetch);
    json_u64(&j, "loops", t->loops);
    json_u64(&j, "runs", t->runs);
    json_open_array(&j, "trials");
    for (unsigned i = 0; i < t->trial_count; i++)
        json_trial(&j, NULL, &t->trials[i]);
    json_end(&j);
    if (t->best != NULL)
        json_trial(&j, "best", t->best);
    else
        json_text(&j, "best", NULL);
    json_more(&j, t);
    roofline_json(&t->roofline, &j, "roofline");
    json_end(&j);
    fprintf(out, "%.*s\n", SPAN_ARG(buf_span(&text)));
    buf_fini(&text);
}
