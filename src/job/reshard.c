/* reshard: the job: its request, its phases, its temporary files; see reshard.h. */
#include "job/reshard.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "rt/loop.h"
#include "wire/json_get.h"

static enum err
reshard_check(struct job_service *s, const json_t *args, struct span list,
              struct buf *what, struct errbuf *eb)
{
    static const struct job_arg known[] = {
        {"to", false, 0},          {"name", false, 0},         {"size", true, 0},
        {"by", false, 0},          {"ext", false, 0},          {"key_type", false, 0},
        {"order", false, 0},       {"separator", false, 0},    {"seed", true, 0},
        {"descending", true, 1},   {"dry_run", true, 1},       {"overwrite", true, 1},
        {"skip_missing", true, 1}, {"skip_unlisted", true, 1}, {"note", false, 0},
        {NULL, false, 0}};
    struct reshard_spec spec;
    enum err rc = names_check_any(s, "reshard", known, args, list, what, eb);

    if (rc == ERR_OK)
        rc = reshard_spec_of(args, &spec, eb);
    if (rc == ERR_OK &&
        map_bucket_find(map_now(s->options.map), span_of(spec.to)) == NULL)
        rc = err_set(eb, ERR_NO_BUCKET, "there is no bucket \"%s\"", spec.to);
    if (rc == ERR_OK && s->options.spill == NULL)
        rc =
            err_set(eb, ERR_UNAVAILABLE, "this server has no folder for temporary files");
    if (rc != ERR_OK)
        return rc;
    buf_printf(what, " into s3://%s/%s", spec.to, spec.name);
    if (spec.dry_run)
        buf_puts(what, ", only planned");
    return ERR_OK;
}

const char *
reshard_file(const struct reshard *w, const char *what, uint64_t number,
             char out[RESHARD_FILE])
{
    snprintf(out, RESHARD_FILE, "%s-%s-%06llu", w->job->id, what,
             (unsigned long long)number);
    return out;
}

void
reshard_note(struct reshard *w)
{
    struct buf text;

    assert(w->state.extracted <= w->state.inputs);
    assert(w->state.created <= w->state.shards);
    assert(w->state.phase < RESHARD_CREATE || w->state.extracted == w->state.inputs);
    buf_init(&text, JOB_POSITION_MAX);
    reshard_state_put(&w->state, &text);
    assert(!text.full);
    job_set_position(w->job, buf_span(&text));
    buf_fini(&text);
    job_checkpoint(w->job);
}

enum err
reshard_turn(struct reshard *w, struct errbuf *eb)
{
    if (rt_others_ready())
        rt_yield();
    return rt_cancelled() || w->job->s->stopping
               ? err_set(eb, ERR_CANCELLED, "the job was cancelled")
               : ERR_OK;
}

static void
forget_inputs(struct reshard *w)
{
    for (uint64_t i = 0; w->inputs != NULL && i < w->state.inputs; i++)
        free(w->inputs[i].key);
    free(w->inputs);
    free(w->out);
    w->inputs = NULL;
    w->out = NULL;
    w->input_room = w->out_room = 0;
}

/* What the position says must be on disk. When it is not, the job begins again: the same bytes come of it. */
static void
load_state(struct reshard *w)
{
    struct errbuf eb = {{0}};
    enum err rc = ERR_OK;

    if (!reshard_state_of(w->job->position, &w->state)) {
        w->state = (struct reshard_state){.phase = RESHARD_LIST};
        return;
    }
    assert(w->inputs == NULL);
    assert(w->out == NULL);
    w->may_exist = w->state.phase == RESHARD_CREATE;
    if (w->state.phase == RESHARD_PLANNED)
        w->state.phase = RESHARD_LIST;
    if (w->state.phase != RESHARD_LIST)
        rc = reshard_load_inputs(w, &eb);
    if (rc == ERR_OK && w->state.phase == RESHARD_CREATE)
        rc = reshard_load_shards(w, &eb);
    if (rc == ERR_OK)
        return;
    LOG(LOG_WARN, "reshard.again", "temporary files are missing: a reshard begins again",
        L_TEXT("job", w->job->id), L_TEXT("why", eb.text));
    forget_inputs(w);
    w->state = (struct reshard_state){.phase = RESHARD_LIST};
}

static enum err
reshard_phases(struct reshard *w, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    if (w->state.phase == RESHARD_LIST) {
        w->state = (struct reshard_state){.phase = RESHARD_LIST};
        rc = reshard_list(w, eb);
    }
    if (rc == ERR_OK && w->state.phase == RESHARD_EXTRACT)
        rc = reshard_extract(w, eb);
    if (rc == ERR_OK && w->state.phase == RESHARD_SORT)
        rc = reshard_sort(w, eb);
    if (rc == ERR_OK && w->state.phase == RESHARD_CREATE)
        rc = reshard_create(w, eb);
    return rc;
}

static enum err
reshard_bucket(struct job *j, const char *name, const struct map_bucket **out,
               struct errbuf *eb)
{
    const struct map_bucket *b =
        map_bucket_find(map_now(j->s->options.map), span_of(name));

    if (b == NULL)
        return err_set(eb, ERR_NO_BUCKET, "there is no bucket \"%s\" any more", name);
    *out = map_bucket_ref(b);
    return ERR_OK;
}

static void
reshard_forget(struct job *j)
{
    struct errbuf eb = {{0}};

    if (j->s->options.spill != NULL &&
        spill_remove(j->s->options.spill, j->id, &eb) != ERR_OK)
        LOG(LOG_WARN, "reshard.files", "temporary files could not be removed",
            L_TEXT("job", j->id), L_TEXT("why", eb.text));
}

static enum err
reshard_run(struct job *j, struct errbuf *eb)
{
    struct reshard w = {.job = j, .dir = j->s->options.spill};
    enum err rc = reshard_spec_of(j->args, &w.spec, eb);

    if (rc == ERR_OK && w.dir == NULL)
        rc =
            err_set(eb, ERR_UNAVAILABLE, "this server has no folder for temporary files");
    if (rc == ERR_OK)
        rc = reshard_bucket(j, json_get_text(j->args, "bucket", ""), &w.from, eb);
    if (rc == ERR_OK)
        rc = reshard_bucket(j, w.spec.to, &w.to, eb);
    if (rc == ERR_OK) {
        w.shards = shard_start(j->s->options.object, 0);
        load_state(&w);
        rc = reshard_phases(&w, eb);
        forget_inputs(&w);
        reshard_order_free(&w.order);
        shard_stop(&w.shards);
    }
    map_bucket_drop(&w.from);
    map_bucket_drop(&w.to);
    if (rc == ERR_OK)
        reshard_forget(j);
    return rc;
}

const struct job_kind job_reshard = {.name = "reshard",
                                     .takes_list = true,
                                     .check = reshard_check,
                                     .run = reshard_run,
                                     .forget = reshard_forget};
