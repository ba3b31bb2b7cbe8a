/* scheduler: one fiber owns the group of running jobs and starts each job when its turn comes. */
#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "job/internal.h"
#include "rt/loop.h"

#define TICK_MS      1000
#define SAVE_SECONDS 5

int64_t
job_wall_ms(void)
{
    return (int64_t)(rt_wall_ns() / 1000000);
}

/* ---- one job ---- */

void
job_add_error(struct job *j, struct span name, const struct errbuf *eb)
{
    char text[JOB_ERROR_TEXT];

    assert(j->error_count <= JOB_ERRORS_MAX);
    j->counts.failed++;
    j->changed = true;
    if (j->error_count == JOB_ERRORS_MAX)
        return;
    snprintf(text, sizeof text, "%.*s: %.150s", (int)MIN(name.len, 160u), name.at,
             eb->text[0] != '\0' ? eb->text : "it failed without a reason");
    j->errors[j->error_count++] = xstrdup(text);
}

void
job_set_position(struct job *j, struct span position)
{
    assert(position.len <= JOB_POSITION_MAX);
    if (j->position != NULL && span_is(position, j->position))
        return;
    free(j->position);
    j->position = xmemdup0(position.at, position.len);
    j->changed = true;
}

void
job_checkpoint(struct job *j)
{
    struct errbuf eb = {0};

    if (j->saving || j->fenced)
        return;
    job_check(j);
    j->saving = true;
    if (job_save(j, &eb) != ERR_OK)
        LOG(LOG_WARN, "job.unsaved", "the progress of a job could not be stored",
            L_TEXT("job", j->id), L_TEXT("why", eb.text));
    j->saving = false;
    if (j->fenced && j->fiber != NULL)
        rt_cancel(j->fiber);
}

static void
measure_rate(struct job *j)
{
    uint64_t now = rt_now_ns(), bytes = j->counts.bytes;
    double span_s = (double)(now - j->rate_ns) / 1e9;
    double latest = span_s > 0 ? (double)(bytes - j->rate_bytes) / span_s : 0;

    assert(now >= j->ran_from_ns);
    j->rate = j->rate == 0 ? (uint64_t)latest
                           : (uint64_t)(0.7 * (double)j->rate + 0.3 * latest);
    j->busy_ms += (now - j->ran_from_ns) / 1000000;
    j->ran_from_ns = now;
    j->rate_ns = now;
    j->rate_bytes = bytes;
}

static void
job_tick(void *arg)
{
    struct job *j = arg;
    struct rt_shield shield;
    unsigned n = 0;

    while (rt_sleep_ms(TICK_MS) == ERR_OK) {
        measure_rate(j);
        if (++n % SAVE_SECONDS != 0 || !j->changed)
            continue;
        rt_shield_begin(&shield); /* completes a write that has begun */
        job_checkpoint(j);
        rt_shield_end(&shield);
    }
}

static void
end_job(struct job *j, enum err rc, const struct errbuf *eb)
{
    if (rc != ERR_OK && !j->cancelled && j->s->stopping)
        return; /* still RUNNING: the next start continues it */
    assert(j->reason == NULL);
    job_move(j, rc == ERR_OK && j->counts.failed > 0 ? JOB_IN_PART
                : rc == ERR_OK                       ? JOB_DONE
                : j->cancelled                       ? JOB_CANCELLED
                                                     : JOB_FAILED);
    if (j->state == JOB_FAILED)
        j->reason = xstrdup(j->fenced             ? "another node has taken the job"
                            : eb->text[0] != '\0' ? eb->text
                                                  : err_name(rc));
    LOG(j->state == JOB_FAILED || j->state == JOB_IN_PART ? LOG_WARN : LOG_INFO,
        "job.ended", job_state_name(j->state), L_TEXT("job", j->id),
        L_TEXT("kind", j->kind->name), L_TEXT("what", j->what),
        L_U64("objects", j->counts.objects), L_U64("failed", j->counts.failed),
        L_U64("bytes", j->counts.bytes),
        L_TEXT("why", j->reason != NULL    ? j->reason
                      : j->error_count > 0 ? j->errors[0]
                                           : ""));
}

static void
run_job(void *arg)
{
    struct job *j = arg;
    struct job_service *s = j->s;
    struct errbuf eb = {0};
    struct rt_shield shield;
    struct rt_group ticking;
    enum err rc;

    assert(j->state == JOB_RUNNING);
    assert(j->fiber == NULL);
    j->fiber = rt_self();
    j->ran_from_ns = j->rate_ns = rt_now_ns();
    j->rate_bytes = j->counts.bytes;
    j->rate = 0;
    job_checkpoint(j);
    rt_group_begin(&ticking);
    if (rt_group_start(&ticking, job_tick, j) != ERR_OK)
        LOG(LOG_WARN, "job.no_tick", "no fiber to watch a job", L_TEXT("job", j->id));
    rc = j->cancelled ? ERR_CANCELLED : j->kind->run(j, &eb);
    job_set_idle(j, false);
    rt_group_cancel(&ticking);
    rt_group_join(&ticking);
    rt_shield_begin(&shield);
    measure_rate(j);
    j->rate = 0;
    end_job(j, rc, &eb);
    job_checkpoint(j);
    rt_shield_end(&shield);
    j->fiber = NULL;
    if (!job_is_ended(j->state))
        s->at_work -= !j->kind->watches; /* the node stops: the record stays RUNNING */
    rt_cond_broadcast(&j->ended);
    rt_cond_broadcast(&s->wake);
}

/* ---- the host ---- */

static struct job *
next_waiting(struct job_service *s)
{
    bool place = s->at_work < s->options.running_max;

    LIST_EACH(&s->jobs, n)
    {
        struct job *j = LIST_ENTRY(n, struct job, node);

        assert(j->s == s);
        if (j->state == JOB_WAITING && (place || j->kind->watches))
            return j;
    }
    return NULL;
}

static bool
start_next(struct job_service *s)
{
    struct job *j = next_waiting(s);

    if (j == NULL)
        return false;
    assert(!s->stopping);
    job_move(j, JOB_RUNNING);
    if (j->begun_ms == 0)
        j->begun_ms = job_wall_ms();
    if (rt_group_start(&s->group, run_job, j) == ERR_OK)
        return true;
    job_move(j, JOB_WAITING); /* no stack is free: later */
    return false;
}

static struct job *
oldest_ended(struct job_service *s)
{
    LIST_EACH(&s->jobs, n)
    {
        struct job *j = LIST_ENTRY(n, struct job, node);

        if (job_is_ended(j->state) && j->fiber == NULL && j->watchers == 0)
            return j;
    }
    return NULL;
}

enum err
job_forget_ended(struct job *j, struct errbuf *eb)
{
    enum err rc;

    assert(job_is_ended(j->state));
    assert(j->fiber == NULL);
    assert(j->watchers == 0);
    assert(j->s->ended_count > 0);
    list_remove(&j->node); /* no call finds it from now on */
    j->s->ended_count--;
    if (j->kind->forget != NULL)
        j->kind->forget(j);
    rc = job_erase(j, eb);
    job_free(&j);
    return rc;
}

static void
prune_history(struct job_service *s)
{
    struct errbuf eb = {0};
    struct job *j;

    while (s->ended_count > JOB_HISTORY_MAX && (j = oldest_ended(s)) != NULL)
        if (job_forget_ended(j, &eb) != ERR_OK)
            LOG(LOG_WARN, "job.not_forgotten", "an old job could not be removed",
                L_TEXT("why", eb.text));
}

void
job_scheduler_run(void *arg)
{
    struct job_service *s = arg;

    s->scheduler = rt_self();
    rt_group_begin(&s->group);
    while (!s->stopping) {
        while (start_next(s))
            ;
        prune_history(s);
        if (!s->stopping &&
            rt_cond_wait(&s->wake, deadline_in_ms(TICK_MS)) == ERR_CANCELLED)
            break;
    }
    s->stopping = true;
    rt_group_cancel(&s->group);
    rt_group_join(&s->group);
    assert(s->stopping);
    s->scheduler_ended = true;
    rt_cond_broadcast(&s->gone);
}
