/* job: the registry. One fiber, the host, owns the group in which jobs run and begins them as their turn comes. */
#include "job/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "job/internal.h"
#include "rt/file.h"
#include "rt/loop.h"

#define RUNNING_DEFAULT 4
#define TICK_MS         1000
#define SAVE_SECONDS    5

const char *
job_state_name(enum job_state s)
{
    static const char *const names[] = {[JOB_WAITING] = "waiting",
                                        [JOB_RUNNING] = "running",
                                        [JOB_DONE] = "done",
                                        [JOB_FAILED] = "failed",
                                        [JOB_CANCELLED] = "cancelled"};

    return names[s];
}

static int64_t
wall_ms(void)
{
    return (int64_t)(rt_wall_ns() / 1000000);
}

/* ---- one job ---- */

void
job_fail_one(struct job *j, struct span name, const struct errbuf *eb)
{
    char text[JOB_ERROR_TEXT];

    j->counts.failed++;
    j->changed = true;
    if (j->error_count == JOB_ERRORS_MAX)
        return;
    snprintf(text, sizeof text, "%.*s: %.150s", (int)MIN(name.len, 160u), name.at,
             eb->text);
    j->errors[j->error_count++] = xstrdup(text);
}

void
job_place(struct job *j, struct span position)
{
    if (j->position != NULL && span_is(position, j->position))
        return;
    free(j->position);
    j->position = xmemdup0(position.at, position.len);
    j->changed = true;
}

/* Not a failure of the job: it goes on, and is told again when it ends. */
static void
save(struct job *j)
{
    struct errbuf eb = {0};

    if (j->saving)
        return;
    j->saving = true;
    if (job_save(j, &eb) != ERR_OK)
        LOG(LOG_WARN, "job.unsaved", "how far a job is could not be stored",
            L_TEXT("job", j->id), L_TEXT("why", eb.text));
    j->saving = false;
}

static void
measure(struct job *j)
{
    uint64_t now = rt_now_ns(), bytes = j->counts.bytes;
    double span_s = (double)(now - j->rate_ns) / 1e9;
    double latest = span_s > 0 ? (double)(bytes - j->rate_bytes) / span_s : 0;

    j->rate = j->rate == 0 ? (uint64_t)latest
                           : (uint64_t)(0.7 * (double)j->rate + 0.3 * latest);
    j->busy_ms += (now - j->ran_from_ns) / 1000000;
    j->ran_from_ns = now;
    j->rate_ns = now;
    j->rate_bytes = bytes;
}

static void
tick(void *arg)
{
    struct job *j = arg;
    struct rt_shield shield;
    unsigned n = 0;

    while (rt_sleep_ms(TICK_MS) == ERR_OK) {
        measure(j);
        if (++n % SAVE_SECONDS != 0 || !j->changed)
            continue;
        rt_shield_begin(&shield); /* a write that was begun is seen to its end */
        save(j);
        rt_shield_end(&shield);
    }
}

static void
end_of(struct job *j, enum err rc, const struct errbuf *eb)
{
    if (rc == ERR_OK)
        j->state = JOB_DONE;
    else if (j->cancelled)
        j->state = JOB_CANCELLED;
    else if (j->s->stopping)
        return; /* still RUNNING: the next start goes on */
    else
        j->state = JOB_FAILED;
    free(j->reason);
    j->reason = j->state == JOB_FAILED ? xstrdup(eb->text) : NULL;
    j->ended_ms = wall_ms();
    j->s->ended_count++;
    LOG(j->state == JOB_FAILED ? LOG_WARN : LOG_INFO, "job.ended",
        job_state_name(j->state), L_TEXT("job", j->id), L_TEXT("kind", j->kind->name),
        L_TEXT("what", j->what), L_U64("objects", j->counts.objects),
        L_U64("failed", j->counts.failed), L_U64("bytes", j->counts.bytes),
        L_TEXT("why", j->reason));
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

    j->fiber = rt_self();
    j->ran_from_ns = j->rate_ns = rt_now_ns();
    j->rate_bytes = j->counts.bytes;
    j->rate = 0;
    save(j);
    rt_group_begin(&ticking);
    if (rt_group_start(&ticking, tick, j) != ERR_OK)
        LOG(LOG_WARN, "job.no_tick", "no fiber to watch a job", L_TEXT("job", j->id));
    rc = j->cancelled ? ERR_CANCELLED : j->kind->run(j, &eb);
    rt_group_cancel(&ticking);
    rt_group_join(&ticking);
    rt_shield_begin(&shield);
    measure(j);
    j->rate = 0;
    end_of(j, rc, &eb);
    save(j);
    rt_shield_end(&shield);
    j->fiber = NULL;
    atomic_fetch_sub(&s->running, 1);
    rt_cond_broadcast(&j->ended);
    rt_cond_broadcast(&s->stirred);
}

/* ---- the host ---- */

static struct job *
next_waiting(struct job_service *s)
{
    LIST_EACH(&s->jobs, n)
    {
        struct job *j = LIST_ENTRY(n, struct job, node);

        if (j->state == JOB_WAITING)
            return j;
    }
    return NULL;
}

static bool
begin_next(struct job_service *s)
{
    struct job *j =
        atomic_load(&s->running) < s->options.running_max ? next_waiting(s) : NULL;

    if (j == NULL)
        return false;
    j->state = JOB_RUNNING;
    atomic_fetch_sub(&s->waiting, 1);
    atomic_fetch_add(&s->running, 1);
    if (j->begun_ms == 0)
        j->begun_ms = wall_ms();
    if (rt_group_start(&s->group, run_job, j) == ERR_OK)
        return true;
    j->state = JOB_WAITING; /* out of stacks: later */
    atomic_fetch_add(&s->waiting, 1);
    atomic_fetch_sub(&s->running, 1);
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

static enum err
forget(struct job *j, struct errbuf *eb)
{
    enum err rc;

    list_remove(&j->node); /* nobody finds it any more */
    rc = job_erase(j, eb);
    j->s->ended_count--;
    job_free(&j);
    return rc;
}

static void
prune(struct job_service *s)
{
    struct errbuf eb = {0};
    struct job *j;

    while (s->ended_count > JOB_HISTORY_MAX && (j = oldest_ended(s)) != NULL)
        if (forget(j, &eb) != ERR_OK)
            LOG(LOG_WARN, "job.not_forgotten", "an old job could not be removed",
                L_TEXT("why", eb.text));
}

static void
host(void *arg)
{
    struct job_service *s = arg;

    s->host = rt_self();
    rt_group_begin(&s->group);
    while (!s->stopping) {
        while (begin_next(s))
            ;
        prune(s);
        if (!s->stopping &&
            rt_cond_wait(&s->stirred, deadline_in_ms(TICK_MS)) == ERR_CANCELLED)
            break;
    }
    s->stopping = true;
    rt_group_cancel(&s->group);
    rt_group_join(&s->group);
    s->host_ended = true;
    rt_cond_broadcast(&s->gone);
}

static void
count_loaded(struct job_service *s)
{
    LIST_EACH(&s->jobs, n)
    {
        struct job *j = LIST_ENTRY(n, struct job, node);

        if (job_is_ended(j->state)) {
            s->ended_count++;
        } else {
            j->state = JOB_WAITING; /* it goes on where it was */
            atomic_fetch_add(&s->waiting, 1);
        }
    }
}

static void
collect(struct buf *out, void *arg)
{
    unsigned waiting, running;

    job_unended(arg, &waiting, &running);
    buf_printf(out,
               "# HELP forebay_jobs long work that has not ended\n"
               "# TYPE forebay_jobs gauge\n"
               "forebay_jobs{state=\"waiting\"} %u\n"
               "forebay_jobs{state=\"running\"} %u\n",
               waiting, running);
}

enum err
job_start(const struct job_options *o, struct job_service **out, struct errbuf *eb)
{
    struct job_service *s = xcalloc(1, sizeof *s);
    enum err rc;

    *out = NULL;
    s->options = *o;
    if (s->options.running_max == 0)
        s->options.running_max = RUNNING_DEFAULT;
    list_init(&s->jobs);
    rt_cond_init(&s->stirred);
    rt_cond_init(&s->gone);
    rc = job_load_all(s, eb);
    count_loaded(s);
    if (rc == ERR_OK && rt_spawn(host, s) != ERR_OK)
        rc = err_set(eb, ERR_BUSY, "no fiber is free for jobs");
    if (rc != ERR_OK) {
        s->host_ended = true;
        job_stop(&s);
        return rc;
    }
    metrics_register(collect, s);
    *out = s;
    return ERR_OK;
}

void
job_halt(struct job_service *s)
{
    struct rt_shield shield;

    if (s == NULL)
        return;
    s->stopping = true;
    rt_cond_broadcast(&s->stirred);
    rt_shield_begin(&shield);
    while (!s->host_ended)
        (void)!rt_cond_wait(&s->gone, DEADLINE_NEVER);
    rt_shield_end(&shield);
}

void
job_stop(struct job_service **sp)
{
    struct job_service *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    job_halt(s);
    metrics_unregister(s);
    LIST_EACH(&s->jobs, n)
    {
        struct job *j = LIST_ENTRY(n, struct job, node);

        job_free(&j);
    }
    free(s);
}

/* ---- calls, each as a fiber on loop 0 ---- */

struct call {
    struct job_service *s;
    const struct job_ask *ask;
    struct span id;
    char *new_id;
    struct deadline by;
    struct arena *arena;
    struct job_status *status, **list;
    uint32_t *count;
    enum err rc;
    struct errbuf *eb;
};

static struct job *
find(struct job_service *s, struct span id)
{
    LIST_EACH(&s->jobs, n)
    {
        struct job *j = LIST_ENTRY(n, struct job, node);

        if (span_is(id, j->id))
            return j;
    }
    return NULL;
}

static struct job *
find_or_say(struct call *c)
{
    struct job *j = find(c->s, c->id);

    c->rc = j != NULL ? ERR_OK
                      : err_set(c->eb, ERR_NOT_FOUND, "there is no job \"%.*s\"",
                                (int)MIN(c->id.len, 40u), c->id.at);
    return j;
}

static enum err
call(struct call *c, fiber_fn *fn)
{
    enum err rc = rt_call(0, fn, c);

    return rc == ERR_OK ? c->rc : err_set(c->eb, rc, "no fiber is free for a job");
}

static void
new_id(char out[JOB_ID_TEXT])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned char bytes[JOB_ID_TEXT - 1];

    rt_random(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        out[i] = letters[bytes[i] % 32];
    out[sizeof bytes] = '\0';
}

static enum err
judge(struct call *c, const struct job_kind *kind, struct buf *what)
{
    const struct job_ask *ask = c->ask;
    unsigned unended = atomic_load(&c->s->waiting) + atomic_load(&c->s->running);

    if (kind == NULL)
        return err_set(c->eb, ERR_BAD_REQUEST, "there is no kind of job \"%.*s\"",
                       (int)MIN(ask->kind.len, 40u), ask->kind.at);
    if (unended >= JOB_UNENDED_MAX)
        return err_set(c->eb, ERR_BUSY, "%u jobs are waiting or running, the limit",
                       unended);
    if (ask->list.len > JOB_LIST_MAX)
        return err_set(c->eb, ERR_TOO_LARGE,
                       "the list of names has %zu bytes, %u are possible; put it into an "
                       "object and name that as the manifest",
                       ask->list.len, JOB_LIST_MAX);
    if (ask->list.len > 0 && !kind->takes_list)
        return err_set(c->eb, ERR_BAD_REQUEST, "a %s takes no list of names", kind->name);
    return kind->check(c->s, ask->args, ask->list, what, c->eb);
}

static void
begin(void *arg)
{
    struct call *c = arg;
    const struct job_kind *kind = job_kind_find(c->ask->kind);
    struct job *j;
    struct buf what;

    buf_init(&what, KIB(4));
    c->rc = judge(c, kind, &what);
    if (c->rc != ERR_OK) {
        buf_fini(&what);
        return;
    }
    j = xcalloc(1, sizeof *j);
    j->s = c->s;
    j->kind = kind;
    j->user = xmemdup0(c->ask->user.at, c->ask->user.len);
    j->what = xmemdup0(what.at, what.len);
    j->args = json_deep_copy(c->ask->args);
    j->asked_ms = wall_ms();
    list_init(&j->node);
    rt_cond_init(&j->ended);
    new_id(j->id);
    buf_fini(&what);
    c->rc = job_save_list(j, c->ask->list, c->eb); /* before the record that needs it */
    if (c->rc == ERR_OK)
        c->rc = job_save(j, c->eb);
    if (c->rc != ERR_OK) {
        struct errbuf unused = {0};

        (void)!job_erase(j, &unused); /* what is left of it is found by nobody */
        job_free(&j);
        return;
    }
    memcpy(c->new_id, j->id, sizeof j->id);
    list_push_back(&c->s->jobs, &j->node);
    atomic_fetch_add(&c->s->waiting, 1);
    rt_cond_broadcast(&c->s->stirred);
}

enum err
job_begin(struct job_service *s, const struct job_ask *ask, char id[JOB_ID_TEXT],
          struct errbuf *eb)
{
    struct call c = {.s = s, .ask = ask, .new_id = id, .eb = eb};

    return call(&c, begin);
}

static void
cancel(void *arg)
{
    struct call *c = arg;
    struct job *j = find_or_say(c);

    if (j == NULL || job_is_ended(j->state))
        return;
    j->cancelled = true;
    if (j->state == JOB_RUNNING) {
        if (j->fiber != NULL)
            rt_cancel(j->fiber);
        return;
    }
    j->state = JOB_CANCELLED;
    j->ended_ms = wall_ms();
    c->s->ended_count++;
    atomic_fetch_sub(&c->s->waiting, 1);
    j->watchers++;
    c->rc = job_save(j, c->eb);
    j->watchers--;
    rt_cond_broadcast(&j->ended);
}

enum err
job_cancel(struct job_service *s, struct span id, struct errbuf *eb)
{
    struct call c = {.s = s, .id = id, .eb = eb};

    return call(&c, cancel);
}

static void
resume(void *arg)
{
    struct call *c = arg;
    struct job *j = find_or_say(c);

    if (j == NULL)
        return;
    if ((j->state != JOB_FAILED && j->state != JOB_CANCELLED) || j->fiber != NULL) {
        c->rc = err_set(c->eb, ERR_BAD_REQUEST,
                        "job %s is %s; only one that failed or was cancelled goes on",
                        j->id, job_state_name(j->state));
        return;
    }
    j->cancelled = false;
    j->state = JOB_WAITING;
    j->ended_ms = 0;
    c->s->ended_count--;
    atomic_fetch_add(&c->s->waiting, 1);
    c->rc = job_save(j, c->eb);
    rt_cond_broadcast(&c->s->stirred);
}

enum err
job_resume(struct job_service *s, struct span id, struct errbuf *eb)
{
    struct call c = {.s = s, .id = id, .eb = eb};

    return call(&c, resume);
}

static void
forget_call(void *arg)
{
    struct call *c = arg;
    struct job *j = find_or_say(c);

    if (j == NULL)
        return;
    if (!job_is_ended(j->state) || j->fiber != NULL || j->watchers > 0)
        c->rc = err_set(c->eb, ERR_BUSY, "job %s is %s: cancel it first", j->id,
                        job_state_name(j->state));
    else
        c->rc = forget(j, c->eb);
}

enum err
job_forget(struct job_service *s, struct span id, struct errbuf *eb)
{
    struct call c = {.s = s, .id = id, .eb = eb};

    return call(&c, forget_call);
}

/* ---- showing ---- */

/* From the share that is done and the time it took; things where the total is known. */
static int64_t
time_left(const struct job *j)
{
    uint64_t done = j->counts.objects + j->counts.failed;
    uint64_t busy = j->busy_ms + (rt_now_ns() - j->ran_from_ns) / 1000000;

    if (j->state != JOB_RUNNING || j->counts.total == 0 || done == 0 ||
        done > j->counts.total)
        return -1;
    return (int64_t)((double)busy * (double)(j->counts.total - done) / (double)done);
}

static bool
show(const struct job *j, struct arena *a, struct job_status *out)
{
    *out = (struct job_status){.kind = j->kind->name,
                               .user = arena_strdup(a, span_of(j->user)),
                               .what = arena_strdup(a, span_of(j->what)),
                               .state = j->state,
                               .asked_ms = j->asked_ms,
                               .begun_ms = j->begun_ms,
                               .ended_ms = j->ended_ms,
                               .busy_ms = j->busy_ms,
                               .counts = j->counts,
                               .rate = j->rate,
                               .left_ms = time_left(j),
                               .error_count = j->error_count};
    memcpy(out->id, j->id, sizeof out->id);
    if (j->reason != NULL)
        out->reason = arena_strdup(a, span_of(j->reason));
    for (uint32_t i = 0; i < j->error_count; i++)
        out->errors[i] = arena_strdup(a, span_of(j->errors[i]));
    return true;
}

static void
status(void *arg)
{
    struct call *c = arg;
    struct job *j = find_or_say(c);

    if (j == NULL)
        return;
    j->watchers++;
    while (!job_is_ended(j->state) && !c->s->stopping)
        if (rt_cond_wait(&j->ended, c->by) != ERR_OK)
            break;
    j->watchers--;
    (void)show(j, c->arena, c->status);
}

enum err
job_status(struct job_service *s, struct span id, struct deadline by, struct arena *a,
           struct job_status *out, struct errbuf *eb)
{
    struct call c = {.s = s, .id = id, .by = by, .arena = a, .status = out, .eb = eb};

    return call(&c, status);
}

static void
list_all(void *arg)
{
    struct call *c = arg;
    uint32_t n = 0, room = 0;

    LIST_EACH(&c->s->jobs, counted)
    room += counted != NULL;
    *c->list = arena_try(c->arena, (room + 1) * sizeof **c->list);
    if (*c->list == NULL) {
        c->rc = err_set(c->eb, ERR_TOO_LARGE, "%u jobs are too many for one page", room);
        return;
    }
    for (struct list *at = c->s->jobs.prev; at != &c->s->jobs; at = at->prev)
        (void)show(LIST_ENTRY(at, struct job, node), c->arena, &(*c->list)[n++]);
    *c->count = n;
}

enum err
job_list(struct job_service *s, struct arena *a, struct job_status **out, uint32_t *count,
         struct errbuf *eb)
{
    struct call c = {.s = s, .arena = a, .list = out, .count = count, .eb = eb};

    *count = 0;
    return call(&c, list_all);
}

void
job_unended(const struct job_service *s, unsigned *waiting, unsigned *running)
{
    *waiting = atomic_load(&s->waiting);
    *running = atomic_load(&s->running);
}
