#include "bench/train.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "bench/models.h"
#include "bench/probe.h"
#include "bench/search.h"
#include "cli/admin.h"
#include "conf/toml.h"
#include "rt/file.h"
#include "wire/json_get.h"

#define READ_ROOM   KIB(256)
#define PATH_MOST   64u /* at a time, when one object is read again and again */
#define CONNECTIONS CONNECTIONS_MAX

static const struct flag flags[] = {
    {"model", 'm', "NAME", "model and chip: retinanet-b200 unless given; docs/train.md",
     false},
    {"models", 0, "FILE", "models of your own, a table of TOML each; docs/train.md",
     false},
    {"print-models", 0, NULL, "the models there are, as such a file", false},
    {"accelerators", 'a', "N|auto", "auto: as many as storage keeps busy", false},
    {"batch", 0, "N", "samples a step, instead of the profile's", false},
    {"step", 0, "MS", "milliseconds a step computes, as 47.55", false},
    {"sample", 0, "SIZE", "bytes of a sample", false},
    {"per-file", 0, "N", "samples of a file; 1: each file is one, whatever its size",
     false},
    {"floor", 0, "PERCENT", "utilisation from which on a run passes", false},
    {"readers", 'r', "N", "requests at a time of each accelerator; 8", false},
    {"prefetch", 0, "N", "batches that readers are ahead; 2", false},
    {"request", 0, "SIZE", "of files with many samples: about so much at a time; 4MiB",
     false},
    {"duration", 'd', "TIME", "of each try; 10s", false},
    {"epochs", 'e', "N", "whole passes, before anything is searched; 2", false},
    {"runs", 0, "N", "of each try; the median counts; 1", false},
    {"most", 0, "N", "auto: no more than so many; 256", false},
    {"data", 0, "SIZE", "bytes to make; 1GiB", false},
    {"existing", 0, NULL, "read what is under the prefix; nothing is made", false},
    {"keys", 0, "FILE", "names below the prefix, one a line: for servers that don't list",
     false},
    {"files", 0, "N", "of what is there: the first N", false},
    {"keep", 0, NULL, "leave the objects that were made", false},
    {"seed", 0, "N", "the same order again", false},
    {"pid", 0, "PID", "a process of the server on this machine; may be repeated", true},
    {"disk", 0, "PATH", "the server's files on this machine, to read past the cache",
     false},
    {"probe", 0, "TIME", "of each measurement of a ceiling; 1s", false},
    {"svg", 0, "FILE", "the roofline as a picture", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay bench train s3://train --data 10GiB",
    "forebay bench train s3://train/imagenet/ --existing --model resnet50-h100 -o json",
    "forebay bench train s3://b --model unet3d-h100 --accelerators 2 --svg roof.svg",
    "forebay bench train s3://b --existing --batch 64 --step 120 --sample 150KB",
    NULL,
};
static const struct verb verb = {
    .name = "bench train",
    .summary = "how many emulated accelerators storage keeps busy, and what limits them",
    .arguments = "s3://BUCKET[/PREFIX]",
    .most = 1,
    .examples = examples,
    .flags = flags,
    .more =
        "An accelerator reads its batch, then sleeps for as long as the real chip would "
        "compute. Utilisation is time computed over time run; the result is the largest "
        "number that stays above the floor. The method is that of the field's storage "
        "benchmarks; it is not a result of one.",
};

/* ---- flags ---- */

static enum err
take_u64(struct train *t, const char *name, uint64_t least, uint64_t most, uint64_t *out)
{
    const char *text = args_value(t->s->args, name);

    if (text == NULL)
        return ERR_OK;
    if (num_u64(span_of(text), out) == ERR_OK && *out >= least && *out <= most)
        return ERR_OK;
    return err_set(&t->s->eb, ERR_BAD_REQUEST,
                   "--%s \"%s\": expected a number from %llu to %llu", name, text,
                   (unsigned long long)least, (unsigned long long)most);
}

static enum err
take_unsigned(struct train *t, const char *name, uint64_t most, unsigned *out)
{
    uint64_t n = *out;
    enum err rc = take_u64(t, name, 1, most, &n);

    *out = (unsigned)n;
    return rc;
}

static enum err
take_size(struct train *t, const char *name, uint64_t *out)
{
    const char *text = args_value(t->s->args, name);
    enum err rc = text != NULL ? num_size(span_of(text), out, &t->s->eb) : ERR_OK;

    if (rc == ERR_OK && text != NULL && *out == 0)
        rc = err_set(&t->s->eb, ERR_BAD_REQUEST, "\"%s\" is no size to read", text);
    if (rc != ERR_OK)
        err_prefix(&t->s->eb, "--%s", name);
    return rc;
}

static enum err
take_time(struct train *t, const char *name, uint64_t *out)
{
    const char *text = args_value(t->s->args, name);
    enum err rc = text != NULL ? num_duration_ms(span_of(text), out, &t->s->eb) : ERR_OK;

    if (rc == ERR_OK && (*out < 10 || *out > 86400000))
        rc = err_set(&t->s->eb, ERR_BAD_REQUEST, "--%s \"%s\": 10ms to 24h", name, text);
    return rc;
}

/* A number with a fraction. */
static enum err
take_real(struct train *t, const char *name, double least, double most, double *out)
{
    const char *text = args_value(t->s->args, name);
    char *end = NULL;
    double v;

    if (text == NULL)
        return ERR_OK;
    v = strtod(text, &end);
    if (end == text || *end != '\0' || !(v >= least && v <= most))
        return err_set(&t->s->eb, ERR_BAD_REQUEST,
                       "--%s \"%s\": expected a number from %g to %g", name, text, least,
                       most);
    *out = v;
    return ERR_OK;
}

static enum err
read_models(struct train *t, const char *path, const char *name)
{
    struct errbuf *eb = &t->s->eb;
    struct buf text;
    enum err rc = ERR_OK;
    size_t n;
    char *room;
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return err_errno(eb, ERR_BAD_REQUEST, errno, "--models \"%s\"", path);
    buf_init(&text, TOML_TEXT_MAX + KIB(4));
    while ((room = buf_reserve(&text, KIB(4))) != NULL &&
           (n = fread(room, 1, KIB(4), file)) > 0)
        text.len += n;
    if (ferror(file))
        rc = err_errno(eb, ERR_BAD_REQUEST, errno, "--models \"%s\"", path);
    fclose(file);
    if (rc == ERR_OK)
        rc = models_find(path, buf_span(&text), name, &t->profile, eb);
    buf_fini(&text);
    return rc;
}

static enum err
take_profile(struct train *t)
{
    const char *name = args_value(t->s->args, "model");
    const char *models = args_value(t->s->args, "models");
    struct profile *p = &t->profile;
    uint64_t batch, per_file;
    double step_ms, floor_percent;
    enum err rc = models != NULL ? read_models(t, models, name)
                                 : profile_find(name != NULL ? name : "retinanet-b200", p,
                                                &t->s->eb);

    batch = p->batch;
    per_file = p->samples_per_file;
    step_ms = (double)p->step_ns / 1e6;
    floor_percent = p->floor * 100;
    if (rc == ERR_OK)
        rc = take_u64(t, "batch", 1, 1000000, &batch);
    if (rc == ERR_OK)
        rc = take_u64(t, "per-file", 1, 100000000, &per_file);
    if (rc == ERR_OK)
        rc = take_real(t, "step", 0.1, 600000, &step_ms);
    if (rc == ERR_OK)
        rc = take_real(t, "floor", 1, 100, &floor_percent);
    if (rc == ERR_OK)
        rc = take_size(t, "sample", &p->sample_bytes);
    p->batch = (uint32_t)batch;
    p->samples_per_file = (uint32_t)per_file;
    p->step_ns = (uint64_t)(step_ms * 1e6);
    p->floor = floor_percent / 100;
    if (args_has(t->s->args, "sample"))
        p->spread_bytes = 0;
    return rc;
}

static enum err
take_accelerators(struct train *t)
{
    const char *text = args_value(t->s->args, "accelerators");

    if (text == NULL || strcmp(text, "auto") == 0)
        return ERR_OK;
    return take_unsigned(t, "accelerators", TRAIN_ACCELERATORS_MAX, &t->accelerators);
}

static enum err
take_numbers(struct train *t)
{
    uint64_t files = 0;
    enum err rc = take_unsigned(t, "readers", TRAIN_READERS_MAX, &t->readers);

    if (rc == ERR_OK)
        rc = take_unsigned(t, "prefetch", TRAIN_PREFETCH_MAX, &t->prefetch);
    if (rc == ERR_OK)
        rc = take_unsigned(t, "most", TRAIN_ACCELERATORS_MAX, &t->most);
    if (rc == ERR_OK)
        rc = take_unsigned(t, "runs", TRAIN_RUNS_MAX, &t->runs);
    if (rc == ERR_OK)
        rc = take_unsigned(t, "epochs", TRAIN_EPOCHS_MAX, &t->epochs);
    if (rc == ERR_OK)
        rc = take_u64(t, "seed", 1, UINT64_MAX, &t->seed);
    if (rc == ERR_OK)
        rc = take_u64(t, "files", 1, UINT32_MAX, &files);
    t->files = files;
    return rc;
}

static enum err
take_flags(struct train *t)
{
    const struct args *a = t->s->args;
    enum err rc = place_remote(a->at[0], false, &t->place, &t->s->eb);

    if (rc == ERR_OK)
        rc = take_profile(t);
    if (rc == ERR_OK)
        rc = take_accelerators(t);
    if (rc == ERR_OK)
        rc = take_numbers(t);
    if (rc == ERR_OK)
        rc = take_size(t, "request", &t->request_bytes);
    if (rc == ERR_OK)
        rc = take_size(t, "data", &t->data_bytes);
    if (rc == ERR_OK)
        rc = take_time(t, "duration", &t->duration_ms);
    if (rc == ERR_OK)
        rc = take_time(t, "probe", &t->probe_ms);
    t->svg = args_value(a, "svg");
    t->disk = args_value(a, "disk");
    t->keys = args_value(a, "keys");
    t->existing = args_has(a, "existing") || t->keys != NULL;
    t->keep = args_has(a, "keep");
    if (rc == ERR_OK && !t->existing && args_has(a, "files"))
        rc =
            err_set(&t->s->eb, ERR_BAD_REQUEST,
                    "--files is for --existing and --keys; --data says how much is made");
    if (rc == ERR_OK && t->existing && args_has(a, "data"))
        rc = err_set(&t->s->eb, ERR_BAD_REQUEST, "--data is for what is made");
    return rc;
}

/* ---- reading ---- */

/* Samples go round a piece of memory larger than caches: they have to arrive, not to stay. */
static char *
next_room(struct train *t)
{
    char *out = t->memory + t->memory_next;

    t->memory_next = (t->memory_next + READ_ROOM) % TRAIN_MEMORY;
    return out;
}

static enum err
fetch_piece(void *arg, const struct train_piece *p, uint64_t *bytes, struct errbuf *eb)
{
    struct train *t = arg;
    struct arena *a = arena_new(KIB(8), MIB(1));
    struct s3_get g = {.bucket = t->set.bucket,
                       .key = span_of(t->set.files[p->file].key),
                       .range = !p->whole,
                       .first = p->offset,
                       .last = p->offset + p->bytes - 1};
    struct s3_object_info info;
    struct s3_call *call = NULL;
    struct s3_failure f;
    size_t n = 1;
    enum err rc = s3_get_begin(t->s->s3, &g, a, &info, &call, &f, eb);

    *bytes = 0;
    while (rc == ERR_OK && n > 0) {
        rc = s3_read(call, next_room(t), READ_ROOM, &n, eb);
        *bytes += rc == ERR_OK ? n : 0;
    }
    if (rc == ERR_OK && *bytes != p->bytes)
        rc = err_set(eb, ERR_INCOMPLETE, "%llu bytes of \"%s\" came, %llu were wanted",
                     (unsigned long long)*bytes, t->set.files[p->file].key,
                     (unsigned long long)p->bytes);
    s3_end(&call);
    arena_free(&a);
    return rc;
}

/* ---- tries ---- */

static int
by_au(const void *a, const void *b)
{
    const struct train_trial *x = a, *y = b;

    return x->result->au < y->result->au ? -1 : x->result->au > y->result->au;
}

static enum err
run_once(struct train *t, unsigned accelerators, unsigned epoch, struct train_trial *out)
{
    struct train_options o = {.accelerators = accelerators,
                              .readers = t->readers,
                              .prefetch = t->prefetch,
                              .batch = t->profile.batch,
                              .step_ns = t->profile.step_ns,
                              .duration_ms = epoch > 0 ? 0 : t->duration_ms,
                              .order = &t->order,
                              .fetch = fetch_piece,
                              .arg = t};
    struct look before, after;
    double behind;
    enum err rc;

    *out = (struct train_trial){.accelerators = accelerators,
                                .epoch = epoch,
                                .result = xcalloc(1, sizeof *out->result)};
    train_order_again(&t->order, epoch > 0);
    look_now(t->s, &before);
    rc = train_run(&o, out->result, &t->s->eb);
    look_now(t->s, &after);
    look_between(&before, &after, &out->used);
    behind = out->used.backend_bytes / MAX(out->result->seconds, 1e-9);
    t->backend_best = MAX(t->backend_best, behind);
    return rc;
}

/* Keeps the median of several runs. */
static enum err
try(struct train *t, unsigned accelerators, unsigned epoch, struct train_trial **out)
{
    struct train_trial all[TRAIN_RUNS_MAX] = {{0}}, *kept = &t->trials[t->trial_count];
    unsigned runs = epoch > 0 ? 1 : t->runs, done = 0;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && done < runs)
        rc = run_once(t, accelerators, epoch, &all[done++]);
    qsort(all, done, sizeof *all, by_au);
    *kept = all[done / 2];
    kept->au_least = all[0].result->au;
    kept->au_most = all[done - 1].result->au;
    kept->passed = kept->result->au >= t->profile.floor;
    for (unsigned i = 0; i < done; i++)
        if (all[i].result != kept->result)
            free(all[i].result);
    t->trial_count++;
    *out = kept;
    if (rc == ERR_OK && !t->s->json)
        train_print_trial(kept, stdout);
    fflush(stdout);
    return rc;
}

static enum err
pass_epochs(struct train *t)
{
    enum err rc = ERR_OK;

    for (unsigned e = 1; rc == ERR_OK && e <= t->epochs; e++)
        rc = try(t, MAX(t->accelerators, 1u), e, &t->judged);
    return rc;
}

/* How many would pass, if what a run got that fell behind is all there is. */
static unsigned
hope_of(const struct train *t, const struct train_trial *trial)
{
    double each = profile_samples_s(&t->profile) * t->profile.floor;

    return (unsigned)MIN(trial->result->samples_s / each, (double)t->most);
}

static enum err
look_for_most(struct train *t)
{
    struct train_trial *trial;
    struct search search;
    enum err rc = ERR_OK;
    unsigned n;

    search_init(&search, t->most);
    while (rc == ERR_OK && t->trial_count < ARRAY_LEN(t->trials) &&
           (n = search_next(&search)) > 0) {
        rc = try(t, n, 0, &trial);
        search_told(&search, n, trial->passed, trial->passed ? 0 : hope_of(t, trial));
        if (trial->passed && n == search.good)
            t->best = trial;
        if (!trial->passed && n == search.bad)
            t->judged = trial;
        if (trial->passed && search.bad > search.most)
            t->judged = trial;
    }
    return rc;
}

/* ---- ceilings ---- */

/* Where the server has its files, when it is a Forebay on this machine. In the arena. */
static const char *
find_disk(struct train *t, struct arena *a)
{
    struct s3_request r = {.method = "GET", .path = SPAN("/_/disks")};
    struct span answer = {"", 0};
    struct errbuf before = t->s->eb;
    const char *out = t->disk;
    json_t *doc = NULL;

    if (out == NULL && t->judged->used.local && t->judged->used.forebay &&
        admin_call(t->s, &r, a, &answer) == ERR_OK) {
        doc = json_loadb(answer.at, answer.len, 0, NULL);
        out = json_get_text(json_array_get(json_object_get(doc, "disks"), 0), "path", "");
        out = out[0] != '\0' ? arena_strdup(a, span_of(out)) : NULL;
        json_decref(doc);
    }
    t->s->eb = before;
    return out;
}

static void
set_disk(struct train *t)
{
    struct roofline *r = &t->roofline;
    const struct train_trial *j = t->judged;
    struct arena *a = arena_new(KIB(64), MIB(16));
    const char *path = find_disk(t, a);
    struct errbuf eb = {{0}};
    double bytes_s = 0, share = 1;

    if (path == NULL)
        roofline_set(r, CEILING_DISK, 0,
                     "not measured: say where the server's files are with --disk");
    else if (probe_disk(path, t->probe_ms, &bytes_s, &eb) != ERR_OK)
        roofline_set(r, CEILING_DISK, 0, "not measured: %s", eb.text);
    else {
        if (j->used.disk_bytes >= 0)
            share = j->used.disk_bytes / (double)MAX(j->result->bytes, 1u);
        if (share < 0.01)
            roofline_set(r, CEILING_DISK, 0,
                         "not used: all came from memory (%.2f GB/s of random reads)",
                         bytes_s / 1e9);
        else
            roofline_set(r, CEILING_DISK, bytes_s / share / r->sample_bytes,
                         "random reads of 1 MiB, 8 at a time: %.2f GB/s%s", bytes_s / 1e9,
                         j->used.disk_bytes < 0 ? "; taken as if nothing were cached"
                                                : "");
    }
    arena_free(&a);
}

static void
set_network(struct train *t)
{
    struct roofline *r = &t->roofline;
    struct train_piece p = {
        .file = 0, .whole = t->set.files[0].samples == 1, .bytes = t->set.files[0].bytes};
    struct errbuf eb = {{0}};
    double bytes_s = 0;

    if (!t->judged->used.local)
        roofline_set(r, CEILING_NETWORK, 0,
                     "not measured: the server is on another machine; see the path");
    else if (probe_loopback(t->probe_ms, &bytes_s, &eb) == ERR_OK)
        roofline_set(r, CEILING_NETWORK, bytes_s / r->sample_bytes,
                     "one stream over loopback: %.2f GB/s", bytes_s / 1e9);
    else
        roofline_set(r, CEILING_NETWORK, 0, "not measured: %s", eb.text);
    if (!p.whole)
        p.bytes = MIN(p.bytes, align_down(t->request_bytes, t->profile.sample_bytes));
    if (!p.whole && p.bytes == 0)
        p.bytes = MIN(t->set.files[0].bytes, t->profile.sample_bytes);
    if (probe_path(&p, MIN(t->readers * t->judged->accelerators, PATH_MOST), fetch_piece,
                   t, t->probe_ms, &bytes_s, &eb) == ERR_OK)
        roofline_set(r, CEILING_PATH, bytes_s / r->sample_bytes,
                     "one object again and again: %.2f GB/s", bytes_s / 1e9);
    else
        roofline_set(r, CEILING_PATH, 0, "not measured: %s", eb.text);
}

/* Cores that there are over those that were busy. */
static void
set_cpu(struct roofline *r, enum ceiling c, const struct train_trial *j, double cores,
        double cpu_s, const char *whose)
{
    double busy = cpu_s / MAX(j->result->seconds, 1e-9);
    double samples_s =
        (double)j->result->bytes / r->sample_bytes / MAX(j->result->seconds, 1e-9);

    if (cpu_s >= 0 && cpu_s < 0.01)
        roofline_set(r, c, 0, "hardly used: less than a hundredth of a second");
    else if (cpu_s < 0 || cores <= 0)
        roofline_set(r, c, 0,
                     "not known: the server does not tell; --pid does, if it is here");
    else
        roofline_set(r, c, samples_s * cores / busy, "%s: %.2f of %.0f %s busy", whose,
                     busy, cores, cores > 1 ? "cores" : "core");
}

static void
set_in_flight(struct train *t)
{
    const struct train_trial *j = t->judged;
    double room = (double)j->accelerators * t->readers * j->result->seconds;
    double busy = (double)j->result->in_flight_ns / 1e9 / MAX(room, 1e-9);

    if (j->result->requests > 0)
        roofline_set(&t->roofline, CEILING_IN_FLIGHT,
                     j->result->samples_s / MAX(busy, 1e-9),
                     "%u readers, %.2f ms a request: %.0f %% of their time",
                     j->accelerators * t->readers, histogram_mean(&j->result->took) / 1e6,
                     busy * 100);
    else
        roofline_set(&t->roofline, CEILING_IN_FLIGHT, 0, "not known: nothing came");
}

static void
set_backend(struct train *t)
{
    const struct train_trial *j = t->judged;
    double share = j->used.backend_bytes / (double)MAX(j->result->bytes, 1u);

    if (!j->used.forebay)
        roofline_set(&t->roofline, CEILING_BACKEND, 0, "not known: no Forebay");
    else if (share < 0.01)
        roofline_set(&t->roofline, CEILING_BACKEND, 0, "not used: all was here");
    else
        roofline_set(&t->roofline, CEILING_BACKEND,
                     t->backend_best / share / t->roofline.sample_bytes,
                     "%.0f %% of the bytes came from there; %.2f GB/s at best",
                     MIN(share, 1.0) * 100, t->backend_best / 1e9);
}

/* What the judged run used, beside what there is; the probes run now. */
static void
draw_roofline(struct train *t)
{
    struct roofline *r = &t->roofline;
    const struct train_trial *j = t->judged;

    *r = (struct roofline){.profile = t->profile.name,
                           .sample_bytes = (double)t->set.bytes / (double)t->set.samples,
                           .demand = profile_samples_s(&t->profile),
                           .floor = t->profile.floor};
    for (unsigned i = 0; i < t->trial_count; i++) {
        const struct train_trial *x = &t->trials[i];
        struct roofline_run run = {x->accelerators, x->result->samples_s, x->result->au,
                                   x->passed};

        if (x->result->counted > 0 && x->epoch != 1)
            roofline_add_run(r, &run);
        if (x == j)
            r->judged = run;
    }
    if (t->profile.samples_per_file > 1)
        r->sample_bytes = (double)t->profile.sample_bytes;
    set_cpu(r, CEILING_SERVER_CPU, j, j->used.server_cores, j->used.server_cpu_s,
            "the server");
    set_cpu(r, CEILING_CLIENT_CPU, j, 1, j->used.client_cpu_s, "this client");
    if (j->used.local)
        set_cpu(r, CEILING_MACHINE_CPU, j, j->used.machine_cores, j->used.machine_busy_s,
                "everything on it");
    else
        roofline_set(r, CEILING_MACHINE_CPU, 0, "not shared");
    if (j->used.local && j->used.server_cpu_s >= 0 && j->used.machine_busy_s > 0)
        r->others =
            1 - (j->used.server_cpu_s + j->used.client_cpu_s) / j->used.machine_busy_s;
    set_in_flight(t);
    set_backend(t);
    set_disk(t);
    set_network(t);
}

static enum err
write_svg(struct train *t)
{
    struct buf text;
    FILE *out;
    bool wrong;

    if (t->svg == NULL)
        return ERR_OK;
    buf_init(&text, MIB(1));
    roofline_svg(&t->roofline, &text);
    out = fopen(t->svg, "we");
    wrong = out == NULL || fwrite(text.at, 1, text.len, out) != text.len;
    wrong = (out != NULL && fclose(out) != 0) || wrong;
    buf_fini(&text);
    return wrong ? err_set(&t->s->eb, ERR_IO, "--svg \"%s\" cannot be written", t->svg)
                 : ERR_OK;
}

/* ---- the verb ---- */

static enum err
get_files(struct train *t)
{
    uint32_t most = (uint32_t)t->files;
    enum err rc;

    if (t->keys != NULL)
        rc = dataset_read(&t->set, t->s, &t->place, &t->profile, t->keys, most);
    else if (t->existing)
        rc = dataset_list(&t->set, t->s, &t->place, &t->profile, most);
    else
        rc = dataset_make(&t->set, t->s, &t->place, &t->profile, t->data_bytes, t->seed);
    if (rc == ERR_OK)
        train_order_init(&t->order, t->set.files, t->set.count, t->profile.sample_bytes,
                         t->request_bytes, t->seed);
    return rc;
}

/* Before minutes are spent. */
static enum err
svg_may_be_written(struct train *t)
{
    FILE *out = t->svg != NULL ? fopen(t->svg, "ae") : NULL;

    if (t->svg == NULL || (out != NULL && fclose(out) == 0))
        return ERR_OK;
    return err_errno(&t->s->eb, ERR_BAD_REQUEST, errno, "--svg \"%s\"", t->svg);
}

static enum err
measure(struct train *t)
{
    enum err rc = svg_may_be_written(t);

    if (rc == ERR_OK)
        rc = get_files(t);

    if (rc == ERR_OK)
        rc = pass_epochs(t);
    if (rc == ERR_OK && t->accelerators == 0)
        rc = look_for_most(t);
    else if (rc == ERR_OK && t->judged->passed)
        t->best = t->judged;
    if (rc != ERR_OK)
        return rc;
    draw_roofline(t);
    if (t->s->json)
        train_print_json(t, stdout);
    else
        train_print(t, stdout);
    return write_svg(t);
}

static void
train_fini(struct train *t)
{
    for (unsigned i = 0; i < t->trial_count; i++)
        free(t->trials[i].result);
    train_order_fini(&t->order);
    dataset_fini(&t->set);
    free(t->memory);
    free(t);
}

static enum exit_code
act(struct session *s)
{
    struct train *t = xcalloc(1, sizeof *t);
    enum exit_code code;
    enum err rc;

    *t = (struct train){.s = s,
                        .readers = 8,
                        .prefetch = 2,
                        .most = 256,
                        .runs = 1,
                        .epochs = 2,
                        .request_bytes = MIB(4),
                        .data_bytes = GIB(1),
                        .duration_ms = 10000,
                        .probe_ms = 1000};
    rc = take_flags(t);
    if (rc != ERR_OK) {
        train_fini(t);
        return cli_usage(&s->eb, &verb);
    }
    t->memory = xmalloc(TRAIN_MEMORY);
    if (t->seed == 0)
        rt_random(&t->seed, sizeof t->seed);
    rc = measure(t);
    code = rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
    if (!t->keep && t->set.made.s != NULL &&
        made_remove(&t->set.made, &s->eb) != ERR_OK) {
        fprintf(stderr, "forebay: what was made under \"%s\" is not all gone: %s\n",
                t->set.made.prefix, s->eb.text);
        code = code == EXIT_OK_ ? EXIT_DIFFERS : code;
    }
    train_fini(t);
    return code;
}

static enum exit_code
print_models(void)
{
    struct buf text;

    buf_init(&text, KIB(16));
    for (unsigned i = 0; profile_at(i) != NULL; i++) {
        if (i > 0)
            buf_putc(&text, '\n');
        models_write(profile_at(i), &text);
    }
    printf("%.*s", SPAN_ARG(buf_span(&text)));
    buf_fini(&text);
    return EXIT_OK_;
}

static enum exit_code
run(const struct args *a)
{
    struct errbuf eb = {{0}};

    if (args_has(a, "print-models"))
        return print_models();
    if (a->count == 0) {
        err_set(&eb, ERR_BAD_REQUEST,
                "bench train: say which data: s3://BUCKET[/PREFIX]");
        return cli_usage(&eb, &verb);
    }
    return session_run_wide(a, act, 2, CONNECTIONS);
}
const struct cli_verb bench_train = {&verb, run};
