/* dsort_show: jobs of dsort.c as JobInfo: one, all, aborted, removed. Phase times and counts come from the position of the job
 * "reshard"; on one node all of it belongs to one target. */
#include <string.h>

#include "api/ais/jobs.h"
#include "api/ais/ops.h"
#include "base/mem.h"
#include "job/reshard.h"
#include "rt/time.h"
#include "shard/match.h"

#define DSORT_JOBS_ARENA MIB(8)

const char *
ais_dsort_job(const char *id)
{
    size_t len = strlen(AIS_DSORT_PREFIX);

    return strncmp(id, AIS_DSORT_PREFIX, len) == 0 ? id + len : id;
}

static bool
dsort_is_aborted(const struct job_status *s)
{
    return s->state == JOB_CANCELLED || s->state == JOB_FAILED;
}

/* ---- a JobInfo ---- */

/* When each phase began and ended; 0: not yet. */
struct dsort_times {
    int64_t begun[3], ended[3];
};

static void
dsort_times_of(const struct job_status *s, const struct reshard_state *p,
               struct dsort_times *t)
{
    bool whole = job_is_ended(s->state) && !dsort_is_aborted(s);
    int64_t now = job_is_ended(s->state) ? s->ended_ms : 0;

    t->begun[0] = p->begun_ms > 0 ? (int64_t)p->begun_ms : s->begun_ms;
    t->ended[0] = t->begun[1] = (int64_t)p->sorting_ms;
    t->ended[1] = t->begun[2] = (int64_t)p->creating_ms;
    t->ended[2] = whole ? now : 0;
    for (int i = 0; whole && i < 3; i++) { /* of a plan, or the record lacks a time */
        t->begun[i] = t->begun[i] > 0 ? t->begun[i] : now;
        t->ended[i] = t->ended[i] > 0 ? t->ended[i] : now;
    }
}

static int64_t
dsort_elapsed_ns(const struct dsort_times *t, int phase)
{
    int64_t end =
        t->ended[phase] > 0 ? t->ended[phase] : (int64_t)(rt_wall_ns() / 1000000u);

    return t->begun[phase] > 0 ? MAX(end - t->begun[phase], 0) * 1000000 : 0;
}

static void
dsort_put_phase(struct json *j, const char *name, const struct dsort_times *t, int phase,
                bool active)
{
    json_open_object(j, name);
    ais_put_time(j, "started_time", t->begun[phase]);
    ais_put_time(j, "end_time", t->ended[phase]);
    json_i64(j, "elapsed",
             active || t->ended[phase] > 0 ? dsort_elapsed_ns(t, phase) : 0);
    json_bool(j, "running", active && t->begun[phase] > 0 && t->ended[phase] == 0);
    json_bool(j, "finished", t->ended[phase] > 0);
}

static void
dsort_put_metrics(struct json *j, const struct job_status *s,
                  const struct reshard_state *p, const struct dsort_times *t)
{
    bool active = !job_is_ended(s->state);

    json_open_object(j, "Metrics");
    dsort_put_phase(j, "local_extraction", t, 0, active);
    ais_put_number(j, "total_count", p->inputs);
    ais_put_number(j, "extracted_count", p->extracted);
    ais_put_number(j, "extracted_size", p->bytes);
    ais_put_number(j, "extracted_record_count", p->samples);
    ais_put_number(j, "extracted_to_disk_count", 0);
    ais_put_number(j, "extracted_to_disk_size", p->copied);
    json_end(j);
    dsort_put_phase(j, "meta_sorting", t, 1, active);
    json_end(j);
    dsort_put_phase(j, "shard_creation", t, 2, active);
    ais_put_number(j, "to_create", p->shards);
    ais_put_number(j, "created_count", p->created);
    ais_put_number(j, "moved_shard_count", 0);
    json_end(j);
    json_text(j, "description", s->note != NULL ? s->note : "");
    json_open_array(j, "warnings");
    json_end(j);
    json_open_array(j, "errors");
    if (s->reason != NULL)
        json_text(j, NULL, s->reason);
    for (uint32_t i = 0; i < s->error_count; i++)
        json_text(j, NULL, s->errors[i]);
    json_end(j);
    json_bool(j, "aborted", dsort_is_aborted(s));
    json_bool(j, "archived", !active);
    json_end(j);
}

static void
dsort_put_bucket(struct request *q, struct json *j, const char *key, const char *uname)
{
    const struct map_bucket *b =
        map_bucket_find(map_now(q->api->options.map), span_of(uname));

    if (b != NULL) {
        ais_bucket_put(j, key, b);
        return;
    }
    json_open_object(j, key); /* it was removed since */
    json_text(j, "name", uname);
    json_text(j, "provider", "ais");
    json_end(j);
}

static void
dsort_put(struct request *q, struct json *j, const char *key, const struct job_status *s)
{
    struct reshard_state p;
    struct dsort_times t;

    if (!reshard_state_of(s->position, &p))
        p = (struct reshard_state){.phase = RESHARD_LIST};
    dsort_times_of(s, &p, &t);
    json_open_object(j, key);
    json_text(j, "id", arena_printf(q->arena, AIS_DSORT_PREFIX "%s", s->id));
    dsort_put_bucket(q, j, "src-bck", s->bucket != NULL ? s->bucket : "");
    dsort_put_bucket(q, j, "dst-bck", s->to != NULL ? s->to : "");
    ais_put_time(j, "started_time", s->asked_ms);
    ais_put_time(j, "finish_time", s->ended_ms);
    json_i64(j, "started_meta_sorting", t.ended[0] > 0 ? dsort_elapsed_ns(&t, 0) : 0);
    json_i64(j, "started_shard_creation", t.ended[1] > 0 ? dsort_elapsed_ns(&t, 1) : 0);
    json_i64(j, "finished_shard_creation", t.ended[2] > 0 ? dsort_elapsed_ns(&t, 2) : 0);
    ais_put_number(j, "loc-objs", p.created);
    ais_put_number(j, "loc-bytes", p.bytes);
    dsort_put_metrics(j, s, &p, &t);
    json_bool(j, "aborted", dsort_is_aborted(s));
    json_bool(j, "archived", job_is_ended(s->state));
    json_end(j);
}

/* ---- shown ---- */

static enum err
no_such_dsort(struct request *q, const char *id)
{
    return ais_fault(q, 404, "ErrNotFound", "dsort job \"%.40s\" does not exist", id);
}

/* ERR_NOT_FOUND: there is none of this id. */
static enum err
dsort_find(struct request *q, const char *id, struct arena *a, struct job_status *s,
           struct errbuf *eb)
{
    enum err rc = job_status(q->api->options.jobs, span_of(ais_dsort_job(id)),
                             deadline_in_ms(0), a, s, eb);

    return rc == ERR_OK && strcmp(s->kind, "reshard") != 0 ? ERR_NOT_FOUND : rc;
}

static enum err
dsort_show_one(struct request *q, const char *id)
{
    struct arena *a = arena_new(4096, DSORT_JOBS_ARENA);
    struct ais_document d;
    struct errbuf eb = {{0}};
    struct job_status s;
    struct ais_ids ids;
    enum err rc = dsort_find(q, id, a, &s, &eb);

    if (rc == ERR_OK) {
        ais_ids(q->api, &ids);
        ais_document_begin(&d);
        json_open_object(&d.j, NULL);
        dsort_put(q, &d.j, ids.target, &s);
        json_end(&d.j);
    }
    arena_free(&a);
    if (rc == ERR_NOT_FOUND)
        return no_such_dsort(q, id);
    return rc == ERR_OK ? ais_document_answer(q, &d) : ais_fault_from(q, rc, &eb);
}

static enum err
dsort_is_wanted(struct shard_match *regex, bool only_active, const struct job_status *s,
                bool *yes, struct errbuf *eb)
{
    *yes = strcmp(s->kind, "reshard") == 0 && !(only_active && job_is_ended(s->state));
    return *yes && regex != NULL
               ? shard_match_test(regex, span_of(s->note != NULL ? s->note : ""), yes, eb)
               : ERR_OK;
}

static enum err
dsort_show_all(struct request *q, struct shard_match *regex)
{
    struct arena *a = arena_new(4096, DSORT_JOBS_ARENA);
    bool only_active = ais_query_flag(q, "only_active"), yes;
    struct job_status *all = NULL;
    struct ais_document d;
    struct errbuf eb = {{0}};
    uint32_t count = 0;
    enum err rc = job_list(q->api->options.jobs, a, &all, &count, &eb);

    ais_document_begin(&d);
    json_open_array(&d.j, NULL);
    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        rc = dsort_is_wanted(regex, only_active, &all[i], &yes, &eb);
        if (rc == ERR_OK && yes)
            dsort_put(q, &d.j, NULL, &all[i]);
    }
    json_end(&d.j);
    arena_free(&a);
    if (rc == ERR_OK)
        return ais_document_answer(q, &d);
    buf_fini(&d.text);
    return rc == ERR_BAD_REQUEST ? ais_fault(q, 400, NULL, "\"regex\": %s", eb.text)
                                 : ais_fault_from(q, rc, &eb);
}

static const char *
dsort_asked(struct request *q)
{
    return arena_strdup(q->arena, query_get(&q->query, "uuid"));
}

enum err
ais_dsort_show(struct request *q)
{
    const char *id = dsort_asked(q);
    struct span text = query_get(&q->query, "regex");
    struct shard_match *regex = NULL;
    struct errbuf eb = {{0}};
    enum err rc;

    if (id[0] != '\0')
        return dsort_show_one(q, id);
    if (text.len > 0 && shard_match_new(SHARD_MATCH_REGEXP, text, &regex, &eb) != ERR_OK)
        return ais_fault(q, 400, NULL, "\"regex\": %s", eb.text);
    rc = dsort_show_all(q, regex);
    shard_match_free(&regex);
    return rc;
}

/* ---- ended ---- */

typedef enum err end_dsort(struct job_service *s, struct span id, struct errbuf *eb);

/* By the user who began it, and by administrators. */
static enum err
dsort_end(struct request *q, end_dsort *end)
{
    struct arena *a = arena_new(4096, DSORT_JOBS_ARENA);
    const char *id = dsort_asked(q);
    struct errbuf eb = {{0}};
    struct job_status s;
    enum err rc = dsort_find(q, id, a, &s, &eb);
    bool others = rc == ERR_OK && !span_is(q->caller.name, s.user);

    arena_free(&a);
    if (others)
        rc = ais_require(q, AIS_ON_CLUSTER, AUTH_ADMIN);
    if (rc == ERR_DENIED)
        return rc; /* the error is set */
    if (rc == ERR_OK)
        rc = end(q->api->options.jobs, span_of(ais_dsort_job(id)), &eb);
    if (rc == ERR_NOT_FOUND)
        return id[0] != '\0' ? no_such_dsort(q, id)
                             : ais_fault(q, 400, NULL, "\"uuid\": no job is named");
    if (rc == ERR_BUSY)
        return ais_fault(q, 409, "ErrBusy", "dsort job \"%.40s\" has not ended", id);
    return rc == ERR_OK ? ais_answer_empty(q, 200) : ais_fault_from(q, rc, &eb);
}

enum err
ais_dsort_abort(struct request *q)
{
    return dsort_end(q, job_cancel);
}

enum err
ais_dsort_remove(struct request *q)
{
    return dsort_end(q, job_forget);
}
