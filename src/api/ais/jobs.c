/* jobs: jobs as AIS shows and steers them: queries (status, status_all, qryxstats, running_all), start and stop. Two kinds of jobs are
 * shown as one: those of the room job, and those that live in memory (xact.h). */
#include <string.h>

#include "api/ais/jobs.h"
#include "api/ais/ops.h"
#include "api/ais/xact.h"
#include "base/mem.h"
#include "rt/time.h"

/* Clients wait for some kinds until they are idle: these are shown so for a while after their end. */
#define IDLE_MS 10000

static const struct kind {
    const char *action, *display;
    const char *engine; /* of the room job; NULL: in memory */
    bool idles;
    bool starts; /* by "start": done at once, here */
} kinds[] = {
    {"copy-bck", "copy-bucket", "copy-bucket", false, false},
    {"move-bck", "rename-bucket", NULL, false, false},
    {"copy-listrange", "copy-objects", "copy-objects", true, false},
    {"delete-listrange", "delete-objects", "delete-objects", false, false},
    {"evict-listrange", "evict-objects", "evict", false, false},
    {"prefetch-listrange", "prefetch-objects", "prefetch", false, false},
    {"archive", "archive", "archive", true, false},
    {"get-batch", "get-batch", NULL, true, false},
    {"list", "list", NULL, true, false},
    {"download", "download", "download", true, false},
    {"dsort", "dsort", "reshard", false, false},
    {"blob-download", "blob-download", NULL, false, false},
    {"summary-bck", "summary", NULL, false, false},
    {"promote", "promote-files", "promote", false, false},
    {"evict-remote-bck", "evict-remote-bucket", NULL, false, false},
    {"rebalance", "rebalance", NULL, false, true},
    {"resilver", "resilver", NULL, false, true},
    {"lru", "lru-eviction", NULL, false, true},
    {"cleanup-store", "cleanup", NULL, false, true},
    {"rechunk", "rechunk", NULL, false, true},
    {"ec-encode", "ec-bucket", NULL, false, false},
    {"make-n-copies", "mirror", "copies", false, false},
    {"load-lom-cache", "warm-up-metadata", NULL, false, true},
    {"index-shard", "shard-index", NULL, false, true},
};

static const struct kind *
kind_of(struct span name)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (span_is(name, kinds[i].action) || span_is(name, kinds[i].display))
            return &kinds[i];
    return NULL;
}

static const struct kind *
kind_of_engine(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (kinds[i].engine != NULL && strcmp(kinds[i].engine, name) == 0)
            return &kinds[i];
    return NULL;
}

/* ---- one form for both ---- */

struct shown {
    char id[XACT_ID_TEXT];
    const char *kind; /* as an action */
    const char *provider, *bucket, *error;
    int64_t begun_ms, ended_ms;
    uint64_t objects, bytes;
    bool aborted, idle;
};
struct query_for {
    const char *id, *kind;
    const char *bucket;
    bool only_running, only_ended;
};

/* An idle kind that has just ended is shown as running and idle. */
static void
shown_idle(struct shown *s, const struct kind *k)
{
    int64_t now = (int64_t)(rt_wall_ns() / 1000000u);

    s->idle = s->ended_ms != 0;
    if (k != NULL && k->idles && !s->aborted && s->ended_ms != 0 &&
        now - s->ended_ms < IDLE_MS)
        s->ended_ms = 0;
}

static bool
shown_wanted(const struct shown *s, const struct query_for *f)
{
    const struct kind *k = kind_of(span_of(f->kind));

    if (f->id[0] != '\0' && strcmp(f->id, s->id) != 0)
        return false;
    if (f->id[0] == '\0' && f->kind[0] != '\0' &&
        strcmp(k != NULL ? k->action : f->kind, s->kind) != 0)
        return false;
    if (f->id[0] == '\0' && f->bucket[0] != '\0' && strcmp(f->bucket, s->bucket) != 0)
        return false;
    return !(f->only_running && s->ended_ms != 0) && !(f->only_ended && s->ended_ms == 0);
}

typedef void show_one(struct json *j, const struct shown *s);

static unsigned
show_engine_jobs(struct request *q, const struct query_for *f, show_one *show,
                 struct json *j)
{
    struct arena *a = arena_new(4096, 8u << 20);
    struct job_status *all = NULL;
    struct errbuf eb = {{0}};
    uint32_t count = 0;
    unsigned shown = 0;

    if (q->api->options.jobs == NULL ||
        job_list(q->api->options.jobs, a, &all, &count, &eb) != ERR_OK)
        count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct kind *k = kind_of_engine(all[i].kind);
        struct shown s = {.kind = k != NULL ? k->action : all[i].kind,
                          .provider = "ais",
                          .bucket = all[i].bucket != NULL ? all[i].bucket : "",
                          .error = all[i].reason != NULL    ? all[i].reason
                                   : all[i].error_count > 0 ? all[i].errors[0]
                                                            : "",
                          .begun_ms = all[i].asked_ms,
                          .ended_ms = all[i].ended_ms,
                          .objects = all[i].counts.objects,
                          .bytes = all[i].counts.bytes,
                          .aborted = all[i].state == JOB_CANCELLED};

        snprintf(s.id, sizeof s.id, "%s", all[i].id);
        shown_idle(&s, k);
        if (!shown_wanted(&s, f))
            continue;
        show(j, &s);
        shown++;
    }
    arena_free(&a);
    return shown;
}

static unsigned
show_xacts(struct request *q, const struct query_for *f, show_one *show, struct json *j)
{
    struct xact_view v;
    unsigned shown = 0;

    for (unsigned i = 0; xacts_view(q->api->xacts, i, &v); i++) {
        struct shown s = {.kind = v.kind,
                          .provider = v.provider,
                          .bucket = v.bucket,
                          .error = v.error,
                          .begun_ms = v.begun_ms,
                          .ended_ms = v.ended_ms,
                          .objects = v.objects,
                          .bytes = v.bytes,
                          .aborted = v.aborted};

        memcpy(s.id, v.id, sizeof s.id);
        shown_idle(&s, kind_of(span_of(v.kind)));
        if (!shown_wanted(&s, f))
            continue;
        show(j, &s);
        shown++;
    }
    return shown;
}

static unsigned
show_jobs(struct request *q, const struct query_for *f, show_one *show, struct json *j)
{
    return show_xacts(q, f, show, j) + show_engine_jobs(q, f, show, j);
}

/* ---- the documents ---- */

static void
show_bucket(struct json *j, const char *key, const struct shown *s)
{
    json_open_object(j, key);
    json_text(j, "name", s->bucket);
    json_text(j, "provider", s->bucket[0] != '\0' ? s->provider : "");
    json_open_object(j, "namespace");
    json_text(j, "uuid", "");
    json_text(j, "name", "");
    json_end(j);
    json_end(j);
}

static void
show_snapshot(struct json *j, const struct shown *s)
{
    static const char *const others[] = {"out-objs", "out-bytes", "in-objs", "in-bytes"};

    json_open_object(j, NULL);
    json_text(j, "id", s->id);
    json_text(j, "kind", s->kind);
    show_bucket(j, "bck", s);
    show_bucket(j, "src-bck", s);
    ais_put_time(j, "start-time", s->begun_ms);
    ais_put_time(j, "end-time", s->ended_ms);
    json_text(j, "abort-err", s->aborted ? "aborted by request" : "");
    json_text(j, "err", s->error);
    json_text(j, "ctlmsg", "");
    ais_put_number(j, "glob.id", 0);
    json_bool(j, "aborted", s->aborted);
    json_bool(j, "is_idle", s->idle);
    json_put_null(j, "ext");
    json_open_object(j, "stats");
    ais_put_number(j, "loc-objs", s->objects);
    ais_put_number(j, "loc-bytes", s->bytes);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        ais_put_number(j, others[i], 0);
    json_end(j);
    json_end(j);
}

static void
show_status(struct json *j, const struct shown *s)
{
    json_open_object(j, NULL);
    json_text(j, "kind", s->kind);
    json_text(j, "uuid", s->id);
    json_text(j, "err", s->error);
    json_i64(j, "end_time", s->ended_ms * 1000000);
    json_bool(j, "aborted", s->aborted);
    json_bool(j, "is_idle", s->idle);
    json_end(j);
}

static void
show_running(struct json *j, const struct shown *s)
{
    char text[80];

    snprintf(text, sizeof text, "%s[%s]", s->kind, s->id);
    json_text(j, NULL, text);
}

/* ---- queries ---- */

static enum err
take_query(struct request *q, struct query_for *f)
{
    const json_t *m, *bucket, *active;
    enum err rc = ais_read_message(q);

    *f = (struct query_for){.id = "", .kind = "", .bucket = ""};
    m = q->ais->message;
    if (rc != ERR_OK || m == NULL)
        return rc;
    rc = ais_text(q, m, "id", &f->id);
    if (rc == ERR_OK && f->id[0] == '\0')
        rc = ais_text(q, m, "uuid", &f->id);
    if (strncmp(f->id, AIS_DOWNLOAD_PREFIX, strlen(AIS_DOWNLOAD_PREFIX)) == 0)
        f->id += strlen(AIS_DOWNLOAD_PREFIX);
    f->id = ais_dsort_job(f->id);
    if (rc == ERR_OK)
        rc = ais_text(q, m, "kind", &f->kind);
    bucket = ais_member(m, "bck");
    if (rc == ERR_OK && json_is_object(bucket))
        rc = ais_text(q, bucket, "name", &f->bucket);
    active = ais_member(m, "show_active");
    f->only_running = json_is_true(active);
    f->only_ended = json_is_false(active);
    return rc;
}

static enum err
no_such_job(struct request *q, const char *id)
{
    return ais_fault(q, 404, "ErrXactNotFound", "job \"%.40s\" not found", id);
}

enum err
ais_job_status(struct request *q)
{
    struct ais_document d;
    struct query_for f;
    struct buf all;
    struct json list;
    unsigned count;
    enum err rc = take_query(q, &f);

    if (rc != ERR_OK)
        return rc;
    buf_init(&all, AIS_DOCUMENT_MAX);
    json_begin(&list, &all);
    json_open_array(&list, NULL);
    count = show_jobs(q, &f, show_status, &list);
    json_end(&list);
    if (count == 0) {
        buf_fini(&all);
        return no_such_job(q, f.id[0] != '\0' ? f.id : f.kind);
    }
    ais_document_begin(&d); /* the newest one: the first of the array */
    if (!all.full) {
        struct span text = buf_span(&all);
        const char *end = strchr(text.at, '}');

        buf_put(&d.text, text.at + 1, (size_t)(end - text.at));
    }
    buf_fini(&all);
    return ais_document_answer(q, &d);
}

static enum err
answer_list(struct request *q, show_one *show, bool running)
{
    struct ais_document d;
    struct query_for f;
    enum err rc = take_query(q, &f);

    if (rc != ERR_OK)
        return rc;
    f.only_running = f.only_running || running;
    ais_document_begin(&d);
    json_open_array(&d.j, NULL);
    (void)show_jobs(q, &f, show, &d.j);
    json_end(&d.j);
    return ais_document_answer(q, &d);
}

enum err
ais_job_status_all(struct request *q)
{
    return answer_list(q, show_status, false);
}

enum err
ais_jobs_running(struct request *q)
{
    return answer_list(q, show_running, true);
}

enum err
ais_job_snapshots(struct request *q)
{
    struct ais_document d;
    struct query_for f;
    struct ais_ids ids;
    unsigned count;
    enum err rc = take_query(q, &f);

    if (rc != ERR_OK)
        return rc;
    ais_ids(q->api, &ids);
    ais_document_begin(&d);
    json_open_object(&d.j, NULL);
    json_open_array(&d.j, ids.target);
    count = show_jobs(q, &f, show_snapshot, &d.j);
    json_end(&d.j);
    json_end(&d.j);
    if (count == 0 && f.id[0] != '\0') {
        buf_fini(&d.text);
        return no_such_job(q, f.id);
    }
    return ais_document_answer(q, &d);
}

/* ---- start and stop ---- */

enum err
ais_job_done(struct request *q, const char *kind, struct span provider,
             struct span bucket)
{
    struct xact *x = xact_begin(q->api->xacts, kind, provider, bucket, "");
    char id[XACT_ID_TEXT];

    if (x == NULL)
        return ais_fault(q, 503, NULL, "too many jobs are running");
    snprintf(id, sizeof id, "%s", xact_id(x));
    xact_end(q->api->xacts, &x, NULL);
    return ais_answer_text(q, 200, span_of(id));
}

enum err
ais_job_start(struct request *q)
{
    const json_t *bucket = ais_member(q->ais->value, "bck");
    const char *kind, *name = "", *provider = "";
    const struct kind *k;
    enum err rc = ais_text(q, q->ais->value, "kind", &kind);

    if (rc == ERR_OK && json_is_object(bucket))
        rc = ais_text(q, bucket, "name", &name);
    if (rc == ERR_OK && json_is_object(bucket))
        rc = ais_text(q, bucket, "provider", &provider);
    if (rc != ERR_OK)
        return rc;
    k = kind_of(span_of(kind));
    if (k == NULL)
        return ais_fault(q, 400, NULL, "job kind \"%.60s\" is not known", kind);
    if (!k->starts)
        return ais_fault(
            q, 501, "ErrUnsupp",
            "a job of kind \"%.60s\" is not started by this request: use the "
            "request of its own",
            kind);
    return ais_job_done(q, k->action, span_of(provider), span_of(name));
}

/* Those of a kind: at most as many as can run. */
static enum err
stop_engine_jobs(struct request *q, const struct kind *k, unsigned *stopped)
{
    struct arena *a = arena_new(4096, 8u << 20);
    struct job_status *all = NULL;
    struct errbuf eb = {{0}};
    uint32_t count = 0;
    enum err rc = job_list(q->api->options.jobs, a, &all, &count, &eb);

    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        if (kind_of_engine(all[i].kind) != k || job_is_ended(all[i].state))
            continue;
        rc = job_cancel(q->api->options.jobs, span_of(all[i].id), &eb);
        *stopped += 1;
    }
    arena_free(&a);
    return rc == ERR_OK ? ERR_OK : ais_fault_from(q, rc, &eb);
}

enum err
ais_job_stop(struct request *q)
{
    const struct kind *k;
    const char *id, *kind;
    struct errbuf eb = {{0}};
    unsigned stopped;
    enum err rc = ais_text(q, q->ais->value, "id", &id);

    if (rc == ERR_OK)
        rc = ais_text(q, q->ais->value, "kind", &kind);
    if (rc != ERR_OK)
        return rc;
    if (id[0] == '\0' && kind[0] == '\0')
        return ais_fault(q, 400, NULL, "stop: an id or a kind is wanted");
    k = kind_of(span_of(kind));
    stopped =
        xacts_abort(q->api->xacts, span_of(id), span_of(k != NULL ? k->action : kind));
    if (stopped == 0 && id[0] != '\0') {
        rc = job_cancel(q->api->options.jobs, span_of(id), &eb);
        if (rc == ERR_NOT_FOUND)
            return no_such_job(q, id);
        if (rc != ERR_OK)
            return ais_fault_from(q, rc, &eb);
    } else if (id[0] == '\0' && k != NULL && k->engine != NULL) {
        rc = stop_engine_jobs(q, k, &stopped);
    }
    return rc == ERR_OK ? ais_answer_empty(q, 200) : rc;
}
