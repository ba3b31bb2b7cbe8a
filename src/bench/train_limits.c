/* train_limits: what the reported run used, beside what there is: the ceilings of its roofline. */
#include <jansson.h>
#include <stdio.h>

#include "base/mem.h"
#include "bench/probe.h"
#include "bench/train.h"
#include "cli/admin.h"
#include "wire/json_get.h"

#define MEGABYTE  1e6
#define PATH_MOST 64u /* at a time, when one object is read again and again */

/* Where the server has its files, when it is a Forebay on this machine. In the arena. */
static const char *
limits_find_disk(struct train *t, struct arena *a)
{
    struct s3_request r = {.method = "GET", .path = SPAN("/_/disks")};
    struct span answer = {"", 0};
    struct errbuf before = t->s->eb;
    const char *out = t->disk;
    json_t *doc = NULL;

    if (out == NULL && t->reported->used.local && t->reported->used.forebay &&
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
    const struct train_trial *j = t->reported;
    struct arena *a = arena_new(KIB(64), MIB(16));
    const char *path = limits_find_disk(t, a);
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

/* What is written once is written once, as far as the server tells; by others, as if it were. */
static void
set_disk_of_writes(struct train *t)
{
    struct roofline *r = &t->roofline;
    const struct train_trial *j = t->reported;
    struct arena *a = arena_new(KIB(64), MIB(16));
    const char *path = limits_find_disk(t, a);
    struct errbuf eb = {{0}};
    double bytes_s = 0, share = 1;

    if (j->used.store_written >= 0)
        share = MAX(j->used.store_written / (double)MAX(j->result->bytes, 1u), 0.01);
    if (path == NULL)
        roofline_set(r, CEILING_DISK, 0,
                     "not measured: say where the server's files are with --disk");
    else if (probe_disk_writes(path, t->probe_ms, &bytes_s, &eb) != ERR_OK)
        roofline_set(r, CEILING_DISK, 0, "not measured: %s", eb.text);
    else
        roofline_set(r, CEILING_DISK, bytes_s / share / r->sample_bytes,
                     "writes of 1 MiB, 4 at a time, a sync each 32 MiB: %.2f GB/s; "
                     "%.2f bytes to disk for each",
                     bytes_s / 1e9, share);
    arena_free(&a);
}

static void
set_network(struct train *t)
{
    struct roofline *r = &t->roofline;
    struct errbuf eb = {{0}};
    double bytes_s = 0;

    if (!t->reported->used.local)
        roofline_set(r, CEILING_NETWORK, 0,
                     "not measured: the server is on another machine; see the path");
    else if (probe_loopback(t->probe_ms, &bytes_s, &eb) == ERR_OK)
        roofline_set(r, CEILING_NETWORK, bytes_s / r->sample_bytes,
                     "one stream over loopback: %.2f GB/s", bytes_s / 1e9);
    else
        roofline_set(r, CEILING_NETWORK, 0, "not measured: %s", eb.text);
}

/* With as many readers as there were, and on as many loops. */
static void
set_path(struct train *t)
{
    struct roofline *r = &t->roofline;
    struct train_order order;
    struct train_cursor cursor = {0};
    struct train_piece piece;
    struct errbuf eb = {{0}};
    unsigned loops = MIN(t->loops, t->reported->accelerators);
    unsigned readers = MIN(t->readers * t->reported->accelerators, PATH_MOST);
    double bytes_s = 0;

    train_order_init(&order, t->set.files, t->set.count, &t->order.layout, t->seed);
    if (!train_order_cut(&order, &cursor, t->profile.batch, &piece))
        return;
    if (probe_path(&piece, MAX(readers / loops, 1u), loops, train_read, t, t->probe_ms,
                   &bytes_s, &eb) == ERR_OK)
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
    const struct train_trial *j = t->reported;
    double room = (double)j->accelerators * t->readers * j->result->seconds;
    double busy = (double)j->result->in_flight_ns / 1e9 / MAX(room, 1e-9);

    if (j->result->requests > 0)
        roofline_set(&t->roofline, CEILING_IN_FLIGHT,
                     j->result->samples_s / MAX(busy, 1e-9),
                     "%u at a time, %.2f ms a request: %.0f %% of their time",
                     j->accelerators * t->readers, histogram_mean(&j->result->took) / 1e6,
                     busy * 100);
    else
        roofline_set(&t->roofline, CEILING_IN_FLIGHT, 0, "not known: nothing came");
}

static void
set_backend(struct train *t)
{
    const struct train_trial *j = t->reported;
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

/* Of the reported run; the probes run now. */
static void
limits_set(struct train *t)
{
    struct roofline *r = &t->roofline;
    const struct train_trial *j = t->reported;

    set_cpu(r, CEILING_SERVER_CPU, j, j->used.server_cores, j->used.server_cpu_s,
            "the server");
    set_cpu(r, CEILING_CLIENT_CPU, j, MIN(t->loops, j->accelerators),
            j->used.client_cpu_s, "this client");
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
    set_network(t);
}

/* What the reported run used, beside what there is; the probes run now. */
void
train_draw_roofline(struct train *t)
{
    struct roofline *r = &t->roofline;
    const struct train_trial *j = t->reported;

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
            r->reported = run;
    }
    if (t->profile.samples_per_file > 1)
        r->sample_bytes = (double)profile_read_bytes(&t->profile);
    limits_set(t);
    set_disk(t);
    set_path(t);
}

void
train_draw_limits(struct train *t, bool writes)
{
    struct roofline *r = &t->roofline;

    *r = (struct roofline){.profile = t->checkpoint->name,
                           .sample_bytes = MEGABYTE,
                           .unit = "MB",
                           .who = writes ? "ranks write" : "ranks read",
                           .reported = {.accelerators = t->reported->accelerators,
                                        .samples_s = t->reported->result->samples_s}};
    limits_set(t);
    if (writes)
        set_disk_of_writes(t);
    else
        set_disk(t);
    roofline_set(r, CEILING_PATH, 0, "not measured: see the network");
}
