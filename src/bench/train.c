#include "bench/train.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "bench/models.h"
#include "bench/search.h"
#include "rt/file.h"
#include "rt/loop.h"

/* ---- tries ---- */

enum err
train_once(struct train *t, unsigned accelerators, unsigned epoch,
           struct train_trial *out)
{
    struct train_options o = {.accelerators = accelerators,
                              .readers = t->readers,
                              .prefetch = t->prefetch,
                              .loops = t->loops,
                              .batch = t->profile.batch,
                              .step_ns = t->profile.step_ns,
                              .duration_ms = epoch > 0 ? 0 : t->duration_ms,
                              .order = &t->order,
                              .fetch = train_read,
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

static int
by_au(const void *a, const void *b)
{
    const struct train_trial *x = a, *y = b;

    return x->result->au < y->result->au ? -1 : x->result->au > y->result->au;
}

static void
print_trial(const struct train *t, const struct train_trial *trial, const char *what)
{
    if (t->s->json)
        return;
    train_print_trial(trial, what, stdout);
    fflush(stdout);
}

/* A run that counts for nothing: connections, caches, and what the one before left behind. */
static enum err
warm_up(struct train *t, unsigned accelerators)
{
    struct train_trial trial;
    enum err rc = train_once(t, accelerators, 0, &trial);

    if (rc == ERR_OK)
        print_trial(t, &trial, "warm-up");
    free(trial.result);
    return rc;
}

/* Keeps the median of several runs. */
static enum err
try(struct train *t, unsigned accelerators, unsigned epoch, unsigned runs,
    struct train_trial **out)
{
    struct train_trial *all = xcalloc(runs, sizeof *all);
    struct train_trial *kept = &t->trials[t->trial_count];
    unsigned done = 0;
    char what[32] = "try";
    enum err rc = ERR_OK;

    if (epoch > 0)
        snprintf(what, sizeof what, "epoch %u", epoch);
    while (rc == ERR_OK && done < runs) {
        if (runs > 1)
            snprintf(what, sizeof what, "run %u", done + 1);
        rc = train_once(t, accelerators, epoch, &all[done]);
        all[done].runs = 1;
        all[done].passed = all[done].result->au >= t->profile.floor;
        if (rc == ERR_OK)
            print_trial(t, &all[done], what);
        kept->each[done].au = all[done].result->au;
        kept->each[done].samples_s = all[done].result->samples_s;
        done++;
    }
    qsort(all, done, sizeof *all, by_au);
    memcpy(all[done / 2].each, kept->each, sizeof kept->each);
    *kept = all[done / 2];
    kept->runs = done;
    for (unsigned i = 0; i < done; i++)
        if (all[i].result != kept->result)
            free(all[i].result);
    free(all);
    t->trial_count++;
    *out = kept;
    return rc;
}

static enum err
pass_epochs(struct train *t)
{
    enum err rc = ERR_OK;

    for (unsigned e = 1; rc == ERR_OK && e <= t->epochs; e++)
        rc = try(t, MAX(t->accelerators, 1u), e, 1, &t->reported);
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

    search_init(&search, t->most, t->from);
    while (rc == ERR_OK && t->trial_count < TRAIN_TRIED_MAX &&
           (n = search_next(&search)) > 0) {
        rc = try(t, n, 0, 1, &trial);
        search_told(&search, n, trial->passed, trial->passed ? 0 : hope_of(t, trial));
        if (trial->passed && n == search.good)
            t->best = trial;
        if (!trial->passed && n == search.bad)
            t->reported = trial;
        if (trial->passed && search.bad > search.most)
            t->reported = trial;
    }
    return rc;
}

/* What a try found, or what was asked for: one run to warm up, then those that count. Where their median does not pass after all, fewer
 * accelerators; a number that the user said stays. */
static enum err
measure_well(struct train *t, unsigned accelerators)
{
    enum err rc = ERR_OK;
    unsigned n = accelerators;

    t->best = NULL;
    while (rc == ERR_OK && n > 0 && t->best == NULL &&
           t->trial_count < ARRAY_LEN(t->trials)) {
        struct train_trial *trial;

        if (t->runs > 1)
            rc = warm_up(t, n);
        if (rc == ERR_OK)
            rc = try(t, n, 0, t->runs, &trial);
        if (rc != ERR_OK)
            break;
        if (trial->passed)
            t->best = trial;
        if (!trial->passed || t->accelerators > 0)
            t->reported = trial;
        n = t->accelerators > 0 ? 0 : MIN(n - 1, MAX(hope_of(t, trial), 1u));
    }
    return rc;
}

static enum err
measure_all(struct train *t)
{
    enum err rc = pass_epochs(t);

    if (rc == ERR_OK && t->accelerators == 0)
        rc = look_for_most(t);
    else if (rc == ERR_OK && t->reported != NULL && t->reported->passed)
        t->best = t->reported;
    if (rc == ERR_OK && t->accelerators > 0 && (t->runs > 1 || t->reported == NULL))
        rc = measure_well(t, t->accelerators);
    else if (rc == ERR_OK && t->runs > 1 && t->best != NULL)
        rc = measure_well(t, t->best->accelerators);
    if (rc == ERR_OK && t->beside.model != NULL)
        rc = train_beside(t);
    return rc;
}

/* ---- the verb ---- */

static enum err
get_files(struct train *t)
{
    struct train_layout layout = {.sample_bytes = t->profile.sample_bytes,
                                  .request_bytes = t->request_bytes,
                                  .columns = t->profile.columns,
                                  .read_bytes = t->profile.read_bytes,
                                  .batch = t->profile.batch};
    uint32_t most = (uint32_t)t->files;
    enum err rc;

    if (t->keys != NULL)
        rc = dataset_read(&t->set, t->s, &t->place, &t->profile, t->keys, most);
    else if (t->existing)
        rc = dataset_list(&t->set, t->s, &t->place, &t->profile, most);
    else
        rc = dataset_make(&t->set, t->s, &t->place, &t->profile, t->data_bytes, t->seed);
    if (rc == ERR_OK)
        train_order_init(&t->order, t->set.files, t->set.count, &layout, t->seed);
    return rc;
}

/* Before minutes are spent. */
static enum err
svg_may_be_written(struct train *t)
{
    bool was_there = t->svg == NULL || access(t->svg, F_OK) == 0;
    FILE *out = t->svg != NULL ? fopen(t->svg, "ae") : NULL;

    if (t->svg == NULL || (out != NULL && fclose(out) == 0)) {
        if (!was_there)
            (void)unlink(t->svg); /* a run that fails leaves no empty one */
        return ERR_OK;
    }
    return err_errno(&t->s->eb, ERR_BAD_REQUEST, errno, "--svg \"%s\"", t->svg);
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

static enum err
train_measure(struct train *t)
{
    enum err rc = svg_may_be_written(t);

    if (rc == ERR_OK)
        rc = get_files(t);
    if (rc == ERR_OK)
        rc = measure_all(t);
    if (rc != ERR_OK)
        return rc;
    train_draw_roofline(t);
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
    free(t->beside.trial.result);
    dataset_fini(&t->set);
    for (unsigned i = 0; t->memory != NULL && i < rt_loop_count(); i++)
        free(t->memory[i].at);
    free(t->memory);
    free(t);
}

/* So many threads has this client: all cores it may use, but for half of them where the server is on the same machine. */
static unsigned
loops_of(const struct train *t)
{
    unsigned cores = look_cores();

    if (t->loops > 0)
        return t->loops;
    return MIN(look_is_local(t->s->endpoint) ? MAX(cores / 2, 1u) : cores,
               rt_loop_count());
}

static enum exit_code
train_act(struct session *s)
{
    struct train *t = xcalloc(1, sizeof *t);
    enum exit_code code;
    enum err rc;

    *t = (struct train){.s = s,
                        .from = 1,
                        .scale = 0.001,
                        .readers = 8,
                        .prefetch = 2,
                        .most = 256,
                        .runs = 1,
                        .epochs = 2,
                        .request_bytes = MIB(4),
                        .data_bytes = GIB(1),
                        .memory_bytes = TRAIN_MEMORY,
                        .duration_ms = 10000,
                        .probe_ms = 1000};
    rc = train_take_flags(t);
    if (rc != ERR_OK) {
        train_fini(t);
        return cli_usage(&s->eb, &train_verb);
    }
    t->loops = loops_of(t);
    t->memory = xcalloc(rt_loop_count(), sizeof *t->memory);
    for (unsigned i = 0; i < rt_loop_count(); i++)
        t->memory[i].at = xmalloc(t->memory_bytes);
    if (t->seed == 0)
        rt_random(&t->seed, sizeof t->seed);
    rc = t->checkpoint != NULL ? train_checkpoint(t) : train_measure(t);
    code = rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
    if (!t->keep && t->set.made.s != NULL &&
        made_remove(&t->set.made, &s->eb) != ERR_OK) {
        fprintf(stderr,
                "forebay: some objects created under \"%s\" could not be deleted: %s\n",
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
bench_train_run(const struct args *a)
{
    struct errbuf eb = {{0}};
    const char *loops = args_value(a, "loops");
    uint64_t wanted = look_cores();

    if (args_has(a, "print-models"))
        return print_models();
    if (a->count == 0) {
        err_set(&eb, ERR_BAD_REQUEST,
                "bench train: say which data: s3://BUCKET[/PREFIX]");
        return cli_usage(&eb, &train_verb);
    }
    if (loops != NULL && num_u64(span_of(loops), &wanted) != ERR_OK)
        wanted = 1;                                 /* act() says what is wrong */
    wanted = MIN(MAX(wanted, 2u), TRAIN_LOOPS_MAX); /* loopback is measured by two */
    return session_run_wide(a, train_act, (unsigned)wanted, CONNECTIONS_MAX);
}
const struct cli_verb bench_train = {&train_verb, bench_train_run};
