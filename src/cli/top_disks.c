#include "cli/top_disks.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/names.h"

#define LABEL_MAX 1024

struct between {
    const struct samples *before, *after;
    double seconds;
    const char *disk; /* disk="..." */
};

static double
grown(const struct between *b, const char *name, const char *label)
{
    return samples_sum(b->after, name, b->disk, label) -
           samples_sum(b->before, name, b->disk, label);
}

/* Operations of a kind, and the mean time of one. */
static void
top_disks_take(const struct between *b, const char *op, double *each_second, double *ms)
{
    double count = grown(b, "forebay_disk_operations_total", op);

    *each_second = count / b->seconds;
    *ms = count > 0 ? 1000 * grown(b, "forebay_disk_io_seconds_total", op) / count : 0;
}

void
top_disks_find(const struct samples *before, const struct samples *after, double seconds,
               struct top_disks *out)
{
    struct between b = {.before = before, .after = after, .seconds = seconds};
    char label[LABEL_MAX];
    struct span name;

    *out = (struct top_disks){0};
    while (out->count < TOP_DISKS_MAX &&
           samples_label(after, "forebay_disk_full", "disk", out->count, &name)) {
        struct top_disk *d = &out->at[out->count++];

        (void)snprintf(label, sizeof label, "disk=\"%.*s\"", SPAN_ARG(name));
        b.disk = label;
        d->name = name;
        top_disks_take(&b, "op=\"read_", &d->read.each_second, &d->read.ms);
        top_disks_take(&b, "op=\"write_", &d->write.each_second, &d->write.ms);
        top_disks_take(&b, "op=\"sync", &d->sync.each_second, &d->sync.ms);
        d->errors_each_second = grown(&b, "forebay_disk_errors_total", NULL) / seconds;
        d->free_bytes =
            samples_sum(after, "forebay_capacity_bytes", label, "kind=\"free\"");
        d->ok = samples_sum(after, "forebay_disk_state", label, "state=\"ok\"") > 0;
    }
}

void
top_disks_print(const struct top_disks *d)
{
    struct arena *a = arena_new(KIB(4), MIB(1));
    char size[NUM_SIZE_TEXT];

    if (d->count > 0)
        printf("\n%-8s %7s %8s %7s %8s %7s %10s  %s\n", "reads/s", "ms", "writes/s", "ms",
               "syncs/s", "ms", "free", "disk");
    for (unsigned i = 0; i < d->count; i++) {
        const struct top_disk *at = &d->at[i];

        printf("%-8.0f %7.2f %8.0f %7.2f %8.0f %7.2f %10s  %.*s%s\n",
               at->read.each_second, at->read.ms, at->write.each_second, at->write.ms,
               at->sync.each_second, at->sync.ms,
               num_size_text((uint64_t)MAX(at->free_bytes, 0), size),
               SPAN_ARG(sentence_shown(at->name, a)), at->ok ? "" : "  NOT WELL");
    }
    arena_free(&a);
}

void
top_disks_json(const struct top_disks *d, struct json *j)
{
    json_open_array(j, "disks");
    for (unsigned i = 0; i < d->count; i++) {
        const struct top_disk *at = &d->at[i];

        json_open_object(j, NULL);
        json_span(j, "path", at->name);
        json_bool(j, "ok", at->ok);
        json_f64(j, "reads_per_second", at->read.each_second);
        json_f64(j, "read_ms", at->read.ms);
        json_f64(j, "writes_per_second", at->write.each_second);
        json_f64(j, "write_ms", at->write.ms);
        json_f64(j, "syncs_per_second", at->sync.each_second);
        json_f64(j, "sync_ms", at->sync.ms);
        json_f64(j, "errors_per_second", at->errors_each_second);
        json_f64(j, "free_bytes", at->free_bytes);
        json_end(j);
    }
    json_end(j);
}
