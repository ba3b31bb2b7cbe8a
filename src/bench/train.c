#include "bench/train.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "bench/models.h"
#include "bench/search.h"
#include "rt/file.h"

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
    rc = train_take_flags(t);
    if (rc != ERR_OK) {
        train_fini(t);
        return cli_usage(&s->eb, &train_verb);
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
        return cli_usage(&eb, &train_verb);
    }
    return session_run_wide(a, act, 2, CONNECTIONS_MAX);
}
const struct cli_verb bench_train = {&train_verb, run};
