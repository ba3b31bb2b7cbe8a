/* train_flags: the flags of `bench train`, and what they may be. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "bench/models.h"
#include "bench/train.h"
#include "conf/toml.h"

static const struct flag flags[] = {
    {"model", 'm', "NAME",
     "model and chip, or a checkpoint: retinanet-b200 unless given; docs/train.md",
     false},
    {"models", 0, "FILE", "models of your own, a table of TOML each; docs/train.md",
     false},
    {"print-models", 0, NULL, "print the built-in models in that format", false},
    {"accelerators", 'a', "N|auto",
     "auto: as many as storage keeps busy; of a checkpoint: ranks", false},
    {"loops", 0, "N",
     "threads of this client; as many as cores, or half of them beside "
     "the server",
     false},
    {"batch", 0, "N", "samples a step, instead of the profile's", false},
    {"step", 0, "MS", "milliseconds a step computes, as 47.55", false},
    {"sample", 0, "SIZE", "bytes of a sample", false},
    {"per-file", 0, "N", "samples of a file; 1: each file is one, whatever its size",
     false},
    {"floor", 0, "PERCENT", "utilisation from which on a run passes", false},
    {"readers", 'r', "N", "requests at a time of each accelerator, or rank; 8", false},
    {"prefetch", 0, "N", "batches that readers are ahead; 2", false},
    {"request", 0, "SIZE",
     "bytes a request for files with many samples, default 4MiB; part "
     "size of a checkpoint, default 8MiB",
     false},
    {"duration", 'd', "TIME", "duration of each trial; default 10s", false},
    {"epochs", 'e', "N", "complete passes before the search; default 2, 0 is none",
     false},
    {"runs", 0, "N",
     "runs of the result after one warm-up run, the median counts; 1 "
     "takes the trial",
     false},
    {"most", 0, "N", "auto: largest number tried; default 256", false},
    {"from", 0, "N", "auto: first number tried; default 1", false},
    {"data", 0, "SIZE", "bytes to create; default 1GiB", false},
    {"memory", 0, "SIZE",
     "read buffer of each thread; default 64MiB, larger than CPU caches", false},
    {"existing", 0, NULL, "read the objects under the prefix, create none", false},
    {"keys", 0, "FILE", "names below the prefix, one a line: for servers that don't list",
     false},
    {"files", 0, "N", "use the first N objects", false},
    {"keep", 0, NULL, "keep the objects that were created", false},
    {"seed", 0, "N", "seed of the random order", false},
    {"pid", 0, "PID", "a process of the server on this machine", true},
    {"disk", 0, "PATH", "the server's files on this machine, to read past the cache",
     false},
    {"scale", 0, "1/N|SHARE", "share of the checkpoint's bytes; default 1/1000", false},
    {"beside", 0, "NAME",
     "write this checkpoint repeatedly while the result is measured "
     "once more",
     false},
    {"probe", 0, "TIME", "duration of each ceiling measurement; default 1s", false},
    {"svg", 0, "FILE", "write the roofline as a picture", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay bench train s3://train --data 10GiB",
    "forebay bench train s3://train/imagenet/ --existing --model resnet50-h100 -o json",
    "forebay bench train s3://data --model unet3d-h100 --accelerators 2 --svg roof.svg",
    "forebay bench train s3://data --existing --batch 64 --step 120 --sample 150KB",
    "forebay bench train s3://data --model checkpoint-8b --scale 1/100",
    NULL,
};
const struct verb train_verb = {
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
        "benchmarks; it is not a result of one. A checkpoint (checkpoint-8b, -70b, "
        "-405b, "
        "-1t) is written by its ranks, each an object, and read back and compared.",
};

static enum err
flags_take_u64(struct train *t, const char *name, uint64_t least, uint64_t most,
               uint64_t *out)
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
    enum err rc = flags_take_u64(t, name, 1, most, &n);

    *out = (unsigned)n;
    return rc;
}

static enum err
flags_take_size(struct train *t, const char *name, uint64_t *out)
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
take_memory(struct train *t)
{
    enum err rc = flags_take_size(t, "memory", &t->memory_bytes);

    if (rc == ERR_OK && (t->memory_bytes < TRAIN_READ || t->memory_bytes > GIB(16)))
        rc = err_set(&t->s->eb, ERR_BAD_REQUEST, "--memory \"%s\": 256KiB to 16GiB",
                     args_value(t->s->args, "memory"));
    t->memory_bytes = align_down(t->memory_bytes, TRAIN_READ);
    return rc;
}

static enum err
train_flags_take_time(struct train *t, const char *name, uint64_t *out)
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
        rc = flags_take_u64(t, "batch", 1, 1000000, &batch);
    if (rc == ERR_OK)
        rc = flags_take_u64(t, "per-file", 1, 100000000, &per_file);
    if (rc == ERR_OK)
        rc = take_real(t, "step", 0.01, 600000, &step_ms);
    if (rc == ERR_OK)
        rc = take_real(t, "floor", 1, 100, &floor_percent);
    if (rc == ERR_OK)
        rc = flags_take_size(t, "sample", &p->sample_bytes);
    p->batch = (uint32_t)batch;
    p->samples_per_file = (uint32_t)per_file;
    p->step_ns = (uint64_t)(step_ms * 1e6);
    p->floor = floor_percent / 100;
    if (args_has(t->s->args, "sample"))
        p->spread_bytes = 0;
    if (rc == ERR_OK && p->read_bytes > p->sample_bytes)
        rc = err_set(&t->s->eb, ERR_BAD_REQUEST,
                     "--sample: %llu bytes of each are read of this model",
                     (unsigned long long)p->read_bytes);
    return rc;
}

/* "1/1000", "0.01". */
static enum err
take_scale(struct train *t)
{
    const char *text = args_value(t->s->args, "scale");
    double of = 1, share;
    char *end = NULL;

    if (text == NULL)
        return ERR_OK;
    share = strtod(text, &end);
    if (end != text && *end == '/') {
        const char *from = end + 1;

        of = strtod(from, &end);
        end = end == from ? NULL : end;
    }
    if (end == NULL || end == text || *end != '\0' || !(of >= 1) ||
        !(share / of > 0 && share / of <= 1))
        return err_set(&t->s->eb, ERR_BAD_REQUEST,
                       "--scale \"%s\": expected a share, as 1/1000 or 0.001, at most 1",
                       text);
    t->scale = share / of;
    return ERR_OK;
}

/* A checkpoint has flags of its own; others would do nothing. */
static enum err
take_checkpoint(struct train *t)
{
    static const char *const others[] = {
        "models",   "batch",    "step",     "sample", "per-file", "floor",
        "prefetch", "duration", "epochs",   "most",   "from",     "memory",
        "beside",   "data",     "existing", "keys",   "files",    "svg"};
    const struct args *a = t->s->args;
    const char *name = args_value(a, "model");

    const char *beside = args_value(a, "beside");

    t->beside.model = beside != NULL ? checkpoint_find(beside) : NULL;
    if (beside != NULL && t->beside.model == NULL)
        return err_set(&t->s->eb, ERR_BAD_REQUEST,
                       "--beside \"%s\": there are checkpoint-8b, -70b, -405b, -1t",
                       beside);
    t->checkpoint = name != NULL && !args_has(a, "models") ? checkpoint_find(name) : NULL;
    if (t->checkpoint == NULL)
        return beside == NULL && args_has(a, "scale")
                   ? err_set(&t->s->eb, ERR_BAD_REQUEST,
                             "--scale is for checkpoints: --model checkpoint-8b")
                   : take_scale(t);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (args_has(a, others[i]))
            return err_set(&t->s->eb, ERR_BAD_REQUEST, "--%s is not for a checkpoint",
                           others[i]);
    t->request_bytes = MIB(8);
    return take_scale(t);
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
    uint64_t files = 0, epochs = t->epochs;
    enum err rc = take_unsigned(t, "readers", TRAIN_READERS_MAX, &t->readers);

    if (rc == ERR_OK)
        rc = take_unsigned(t, "prefetch", TRAIN_PREFETCH_MAX, &t->prefetch);
    if (rc == ERR_OK)
        rc = take_unsigned(t, "most", TRAIN_ACCELERATORS_MAX, &t->most);
    if (rc == ERR_OK)
        rc = take_unsigned(t, "from", t->most, &t->from);
    if (rc == ERR_OK)
        rc = take_unsigned(t, "runs", TRAIN_RUNS_MAX, &t->runs);
    if (rc == ERR_OK)
        rc = flags_take_u64(t, "epochs", 0, TRAIN_EPOCHS_MAX, &epochs);
    if (rc == ERR_OK)
        rc = take_unsigned(t, "loops", TRAIN_LOOPS_MAX, &t->loops);
    if (rc == ERR_OK)
        rc = flags_take_u64(t, "seed", 1, UINT64_MAX, &t->seed);
    if (rc == ERR_OK)
        rc = flags_take_u64(t, "files", 1, UINT32_MAX, &files);
    t->files = files;
    t->epochs = (unsigned)epochs;
    return rc;
}

enum err
train_take_flags(struct train *t)
{
    const struct args *a = t->s->args;
    enum err rc = place_remote(a->at[0], false, &t->place, &t->s->eb);

    if (rc == ERR_OK)
        rc = take_checkpoint(t);
    if (rc == ERR_OK && t->checkpoint == NULL)
        rc = take_profile(t);
    if (rc == ERR_OK)
        rc = take_accelerators(t);
    if (rc == ERR_OK)
        rc = take_numbers(t);
    if (rc == ERR_OK)
        rc = flags_take_size(t, "request", &t->request_bytes);
    if (rc == ERR_OK)
        rc = flags_take_size(t, "data", &t->data_bytes);
    if (rc == ERR_OK)
        rc = take_memory(t);
    if (rc == ERR_OK)
        rc = train_flags_take_time(t, "duration", &t->duration_ms);
    if (rc == ERR_OK)
        rc = train_flags_take_time(t, "probe", &t->probe_ms);
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
