/* job: the registry and its calls. scheduler.c runs the jobs. */
#include "job/job.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "job/internal.h"
#include "rt/file.h"
#include "rt/loop.h"

#define RUNNING_DEFAULT 4

/* ---- kinds and states ---- */

static const struct job_kind *const kinds[] = {
    &job_prefetch, &job_evict,       &job_copies,       &job_drain,
    &job_fill,     &job_copy_bucket, &job_copy_objects, &job_delete_objects,
    &job_archive,  &job_download,    &job_promote,      &job_reshard};

const struct job_kind *
job_kind_find(struct span name)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (span_is(name, kinds[i]->name))
            return kinds[i];
    return NULL;
}

#define TO(state) (1u << JOB_##state)
#define ENDS      (TO(DONE) | TO(IN_PART) | TO(FAILED) | TO(CANCELLED))

static const struct {
    const char *name;
    unsigned next; /* the states this one may move to */
} states[JOB_STATES_] = {
    [JOB_WAITING] = {"waiting", TO(RUNNING) | TO(CANCELLED)},
    [JOB_RUNNING] = {"running", TO(IDLE) | TO(WAITING) | ENDS},
    [JOB_IDLE] = {"idle", TO(RUNNING) | ENDS},
    [JOB_DONE] = {"done", 0},
    [JOB_IN_PART] = {"failed-in-part", TO(WAITING)},
    [JOB_FAILED] = {"failed", TO(WAITING)},
    [JOB_CANCELLED] = {"cancelled", TO(WAITING)},
};

const char *
job_state_name(enum job_state s)
{
    assert(s < JOB_STATES_);
    return states[s].name;
}

/* Adds `by`, 1 or -1, to the counters of the job's state. */
static void
count_state(struct job *j, int by)
{
    struct job_service *s = j->s;

    assert(by == 1 || by == -1);
    switch (j->state) {
    case JOB_WAITING:
        atomic_fetch_add(&s->waiting, (unsigned)by);
        break;
    case JOB_RUNNING:
        s->at_work += j->kind->watches ? 0 : (unsigned)by;
        atomic_fetch_add(&s->running, (unsigned)by);
        break;
    case JOB_IDLE:
        atomic_fetch_add(&s->running, (unsigned)by);
        break;
    case JOB_DONE:
    case JOB_IN_PART:
    case JOB_FAILED:
    case JOB_CANCELLED:
        s->ended_count += (unsigned)by;
        break;
    case JOB_STATES_:
        assert(false);
    }
}

void
job_check(const struct job *j)
{
    assert(j->state < JOB_STATES_);
    assert(j->kind != NULL);
    assert(j->args != NULL);
    assert(j->user != NULL);
    assert(j->what != NULL);
    assert(j->error_count <= JOB_ERRORS_MAX);
    assert(j->list_pieces == 0 || j->kind->takes_list);
    assert(j->reason == NULL || j->state == JOB_FAILED);
    assert(j->state != JOB_IN_PART || j->counts.failed > 0);
    assert(j->fiber == NULL || j->state != JOB_WAITING);
    assert(j->ended_ms == 0 || job_is_ended(j->state));
    assert((j->runner == 0) == (j->epoch == 0));
}

void
job_move(struct job *j, enum job_state to)
{
    assert(to < JOB_STATES_);
    assert((states[j->state].next & (1u << to)) != 0);
    count_state(j, -1);
    j->state = to;
    count_state(j, 1);
    if (job_is_ended(to)) {
        j->ended_ms = job_wall_ms();
    } else if (to == JOB_WAITING) {
        j->ended_ms = 0;
        free(j->reason);
        j->reason = NULL;
    }
    j->changed = true;
    job_check(j);
}

void
job_set_idle(struct job *j, bool idle)
{
    assert(j->state == JOB_RUNNING || j->state == JOB_IDLE);
    if (idle == (j->state == JOB_IDLE))
        return;
    job_move(j, idle ? JOB_IDLE : JOB_RUNNING);
    rt_cond_broadcast(&j->s->wake); /* a place may be free */
}

struct job *
job_new(void)
{
    struct job *j = xcalloc(1, sizeof *j);

    list_init(&j->node);
    rt_cond_init(&j->ended);
    return j;
}

/* ---- start and stop ---- */

/* A node of a cluster continues its own jobs: each has one runner, also while that one is away. */
static void
leave_to_others(struct job_service *s)
{
    struct list *n = s->jobs.next;

    while (n != &s->jobs) {
        struct job *j = LIST_ENTRY(n, struct job, node);

        n = n->next;
        if (j->runner != 0 && j->runner != s->options.node)
            job_free(&j);
    }
}

/* A node that is alone takes every job that has not ended: one of another runner was restored from a copy of this node's
 * state. */
static void
adopt_loaded(struct job_service *s)
{
    if (s->options.one_of_many)
        leave_to_others(s);
    LIST_EACH(&s->jobs, n)
    {
        struct job *j = LIST_ENTRY(n, struct job, node);

        if (!job_is_ended(j->state)) {
            j->state = JOB_WAITING; /* it continues where it was */
            j->runner = s->options.node;
            j->epoch = s->options.epoch;
        }
        count_state(j, 1);
        job_check(j);
    }
}

static void
collect_jobs(struct buf *out, void *arg)
{
    unsigned waiting, running;

    job_unended(arg, &waiting, &running);
    buf_printf(out,
               "# HELP forebay_jobs long work that has not ended\n"
               "# TYPE forebay_jobs gauge\n"
               "forebay_jobs{state=\"waiting\"} %u\n"
               "forebay_jobs{state=\"running\"} %u\n",
               waiting, running); /* idle ones run, too */
}

enum err
job_start(const struct job_options *o, struct job_service **out, struct errbuf *eb)
{
    struct job_service *s = xcalloc(1, sizeof *s);
    enum err rc;

    assert(o->node > 0);
    assert(o->epoch > 0);
    *out = NULL;
    s->options = *o;
    if (s->options.running_max == 0)
        s->options.running_max = RUNNING_DEFAULT;
    list_init(&s->jobs);
    rt_cond_init(&s->wake);
    rt_cond_init(&s->gone);
    rc = job_load_all(s, eb);
    adopt_loaded(s);
    if (rc == ERR_OK && rt_spawn(job_scheduler_run, s) != ERR_OK)
        rc = err_set(eb, ERR_BUSY, "no fiber is free for jobs");
    if (rc != ERR_OK) {
        s->scheduler_ended = true;
        job_stop(&s);
        return rc;
    }
    metrics_register(collect_jobs, s);
    *out = s;
    return ERR_OK;
}

void
job_halt(struct job_service *s)
{
    if (s == NULL)
        return;
    s->stopping = true;
    rt_cond_broadcast(&s->wake);
}

void
job_stop(struct job_service **sp)
{
    struct job_service *s = *sp;
    struct rt_shield shield;

    *sp = NULL;
    if (s == NULL)
        return;
    job_halt(s);
    rt_shield_begin(&shield);
    while (!s->scheduler_ended)
        (void)!rt_cond_wait(&s->gone, DEADLINE_NEVER);
    rt_shield_end(&shield);
    metrics_unregister(s);
    LIST_EACH(&s->jobs, n)
    {
        struct job *j = LIST_ENTRY(n, struct job, node);

        job_free(&j);
    }
    assert(s->at_work == 0);
    free(s);
}

/* ---- calls, each as a fiber on loop 0 ---- */

struct call {
    struct job_service *s;
    const struct job_request *ask;
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
find_job(struct job_service *s, struct span id)
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
find_job_or_fail(struct call *c)
{
    struct job *j = find_job(c->s, c->id);

    c->rc = j != NULL ? ERR_OK
                      : err_set(c->eb, ERR_NOT_FOUND, "there is no job \"%.*s\"",
                                (int)MIN(c->id.len, 40u), c->id.at);
    return j;
}

static enum err
call_loop0(struct call *c, fiber_fn *fn)
{
    enum err rc = rt_call(0, fn, c);

    return rc == ERR_OK ? c->rc : err_set(c->eb, rc, "no fiber is free for a job");
}

static void
make_job_id(char out[JOB_ID_TEXT])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned char bytes[JOB_ID_TEXT - 1];

    rt_random(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        out[i] = letters[bytes[i] % 32];
    out[sizeof bytes] = '\0';
}

static enum err
check_request(struct call *c, const struct job_kind *kind, struct buf *what)
{
    const struct job_request *ask = c->ask;
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
job_begin_call(void *arg)
{
    struct call *c = arg;
    const struct job_kind *kind = job_kind_find(c->ask->kind);
    struct job *j;
    struct buf what;

    buf_init(&what, KIB(4));
    c->rc = check_request(c, kind, &what);
    if (c->rc == ERR_OK && c->s->options.may_begin != NULL && !kind->watches)
        c->rc = c->s->options.may_begin(c->s->options.arg, c->eb);
    if (c->rc != ERR_OK) {
        buf_fini(&what);
        return;
    }
    j = job_new();
    j->s = c->s;
    j->kind = kind;
    j->runner = c->s->options.node;
    j->epoch = c->s->options.epoch;
    j->user = xmemdup0(c->ask->user.at, c->ask->user.len);
    j->what = xmemdup0(what.at, what.len);
    j->args = json_deep_copy(c->ask->args);
    j->asked_ms = job_wall_ms();
    make_job_id(j->id);
    job_check(j);
    buf_fini(&what);
    c->rc = job_save_list(j, c->ask->list, c->eb); /* before the record that needs it */
    if (c->rc == ERR_OK)
        c->rc = job_save(j, c->eb);
    if (c->rc != ERR_OK) {
        struct errbuf unused = {0};

        (void)!job_erase(j, &unused); /* no record refers to what may be left of it */
        job_free(&j);
        return;
    }
    memcpy(c->new_id, j->id, sizeof j->id);
    list_push_back(&c->s->jobs, &j->node);
    count_state(j, 1);
    rt_cond_broadcast(&c->s->wake);
}

enum err
job_begin(struct job_service *s, const struct job_request *ask, char id[JOB_ID_TEXT],
          struct errbuf *eb)
{
    struct call c = {.s = s, .ask = ask, .new_id = id, .eb = eb};

    return call_loop0(&c, job_begin_call);
}

static void
job_cancel_call(void *arg)
{
    struct call *c = arg;
    struct job *j = find_job_or_fail(c);

    if (j == NULL || job_is_ended(j->state))
        return;
    if (j->kind->watches) {
        c->rc = err_set(c->eb, ERR_BAD_REQUEST,
                        "job %s reports what the disks do and cannot be cancelled; undo "
                        "the change instead: bucket set --copies, disk drain --undo",
                        j->id);
        return;
    }
    j->cancelled = true;
    if (j->state != JOB_WAITING) {
        if (j->fiber != NULL)
            rt_cancel(j->fiber);
        return;
    }
    job_move(j, JOB_CANCELLED);
    j->watchers++;
    c->rc = job_save(j, c->eb);
    j->watchers--;
    rt_cond_broadcast(&j->ended);
}

enum err
job_cancel(struct job_service *s, struct span id, struct errbuf *eb)
{
    struct call c = {.s = s, .id = id, .eb = eb};

    return call_loop0(&c, job_cancel_call);
}

/* An ended job is shown as ended before its last record is stored: waits for that. May switch. */
static void
await_runner(struct job *j)
{
    j->watchers++;
    while (job_is_ended(j->state) && j->fiber != NULL)
        if (rt_cond_wait(&j->ended, DEADLINE_NEVER) != ERR_OK)
            break;
    j->watchers--;
}

/* What failed lies anywhere: the names are tried from the first one; what was done needs no work. */
static void
job_begin_again(struct job *j)
{
    assert(j->fiber == NULL);
    assert(job_is_ended(j->state));
    free(j->position);
    j->position = NULL;
    for (unsigned i = 0; i < j->error_count; i++)
        free(j->errors[i]);
    j->error_count = 0;
    j->counts = (struct job_counts){.total = j->counts.total, .bytes = j->counts.bytes};
}

static void
job_resume_call(void *arg)
{
    struct call *c = arg;
    struct job *j = find_job_or_fail(c);

    if (j == NULL)
        return;
    await_runner(j);
    if ((j->state != JOB_IN_PART && j->state != JOB_FAILED &&
         j->state != JOB_CANCELLED) ||
        j->fiber != NULL) {
        c->rc = err_set(c->eb, ERR_BAD_REQUEST,
                        "job %s is %s; only a job that failed, failed in part or was "
                        "cancelled can be resumed",
                        j->id, job_state_name(j->state));
        return;
    }
    if (j->state == JOB_IN_PART)
        job_begin_again(j);
    j->cancelled = false;
    job_move(j, JOB_WAITING);
    j->runner = c->s->options.node;
    j->epoch = c->s->options.epoch;
    c->rc = job_save(j, c->eb);
    rt_cond_broadcast(&c->s->wake);
}

enum err
job_resume(struct job_service *s, struct span id, struct errbuf *eb)
{
    struct call c = {.s = s, .id = id, .eb = eb};

    return call_loop0(&c, job_resume_call);
}

static void
job_forget_call(void *arg)
{
    struct call *c = arg;
    struct job *j = find_job_or_fail(c);

    if (j == NULL)
        return;
    await_runner(j);
    if (!job_is_ended(j->state) || j->fiber != NULL || j->watchers > 0)
        c->rc = err_set(c->eb, ERR_BUSY, "job %s is %s: cancel it first", j->id,
                        job_state_name(j->state));
    else
        c->rc = job_forget_ended(j, c->eb);
}

enum err
job_forget(struct job_service *s, struct span id, struct errbuf *eb)
{
    struct call c = {.s = s, .id = id, .eb = eb};

    return call_loop0(&c, job_forget_call);
}

/* ---- showing ---- */

/* Estimated from the completed share and the time it took; -1 without a total. */
static int64_t
time_left(const struct job *j)
{
    uint64_t done = j->counts.objects + j->counts.failed;
    uint64_t busy = j->busy_ms + (rt_now_ns() - j->ran_from_ns) / 1000000;

    if ((j->state != JOB_RUNNING && j->state != JOB_IDLE) || j->counts.total == 0 ||
        done == 0 || done > j->counts.total)
        return -1;
    return (int64_t)((double)busy * (double)(j->counts.total - done) / (double)done);
}

static const char *
text_arg(const struct job *j, struct arena *a, const char *name)
{
    const char *text = json_string_value(json_object_get(j->args, name));

    return text != NULL ? arena_strdup(a, span_of(text)) : NULL;
}

static void
show_job(const struct job *j, struct arena *a, struct job_status *out)
{
    *out = (struct job_status){.kind = j->kind->name,
                               .user = arena_strdup(a, span_of(j->user)),
                               .what = arena_strdup(a, span_of(j->what)),
                               .state = j->state,
                               .runner = j->runner,
                               .epoch = j->epoch,
                               .asked_ms = j->asked_ms,
                               .begun_ms = j->begun_ms,
                               .ended_ms = j->ended_ms,
                               .busy_ms = j->busy_ms,
                               .counts = j->counts,
                               .rate = j->rate,
                               .left_ms = time_left(j),
                               .error_count = j->error_count};
    memcpy(out->id, j->id, sizeof out->id);
    if (j->position != NULL)
        out->position = arena_strdup(a, span_of(j->position));
    out->bucket = text_arg(j, a, "bucket");
    out->prefix = text_arg(j, a, "prefix");
    out->to = text_arg(j, a, "to");
    out->note = text_arg(j, a, "note");
    if (out->bucket != NULL && out->prefix == NULL)
        out->prefix = "";
    if (j->reason != NULL)
        out->reason = arena_strdup(a, span_of(j->reason));
    for (uint32_t i = 0; i < j->error_count; i++)
        out->errors[i] = arena_strdup(a, span_of(j->errors[i]));
}

static void
job_status_call(void *arg)
{
    struct call *c = arg;
    struct job *j = find_job_or_fail(c);

    if (j == NULL)
        return;
    j->watchers++;
    while (!job_is_ended(j->state) && !c->s->stopping)
        if (rt_cond_wait(&j->ended, c->by) != ERR_OK)
            break;
    j->watchers--;
    show_job(j, c->arena, c->status);
}

enum err
job_status(struct job_service *s, struct span id, struct deadline by, struct arena *a,
           struct job_status *out, struct errbuf *eb)
{
    struct call c = {.s = s, .id = id, .by = by, .arena = a, .status = out, .eb = eb};

    return call_loop0(&c, job_status_call);
}

static void
job_list_call(void *arg)
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
        show_job(LIST_ENTRY(at, struct job, node), c->arena, &(*c->list)[n++]);
    *c->count = n;
}

enum err
job_list(struct job_service *s, struct arena *a, struct job_status **out, uint32_t *count,
         struct errbuf *eb)
{
    struct call c = {.s = s, .arena = a, .list = out, .count = count, .eb = eb};

    *count = 0;
    return call_loop0(&c, job_list_call);
}

void
job_unended(const struct job_service *s, unsigned *waiting, unsigned *running)
{
    *waiting = atomic_load(&s->waiting);
    *running = atomic_load(&s->running);
}
