/* jobs: long work, begun, watched and ended.
 *
 *     GET    /_/jobs               all, the latest first; ?active=true those that have not ended
 *     POST   /_/jobs               {"kind": "prefetch", "args": {..}, "list": "a line a name"}: 202 with the job
 *     GET    /_/jobs/ID            one; ?wait=SECONDS answers when it has ended, or then
 *     POST   /_/jobs/ID            {"action": "cancel"}, or "resume" for one that failed or was cancelled
 *     DELETE /_/jobs/ID            forgets one that has ended
 *
 * A caller who may do by hand what a job does may start it: the table below. A job is shown to, and changed by, who asked for
 * it and the administrators of its bucket; to others there is none.
 */
#include <string.h>

#include "api/admin/admin.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "wire/json.h"

#define ROOT       "/_/jobs"
#define BODY_MAX   (JOB_LIST_MAX + MIB(1))
#define PAGE_MAX   MIB(4)
#define ACTION_MAX KIB(4)
#define WAIT_MAX_S 5 /* so that a drain does not wait longer */

/* Rights on the prefix that a kind works on, on the whole bucket where it has a list of names; others are administrators'. */
static const struct {
    const char *kind;
    auth_rights rights;
} wants[] = {
    {"prefetch", AUTH_READ | AUTH_LIST},
    {"evict", AUTH_WRITE},
    {"reshard", AUTH_READ | AUTH_LIST},
};

static bool
may_do(const struct request *q, struct span kind, const char *bucket, const char *prefix)
{
    auth_rights rights = AUTH_ADMIN;

    if (caller_may(q, AUTH_ADMIN, SPAN(AUTH_EVERY_BUCKET), (struct span){"", 0}))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(wants); i++)
        if (span_is(kind, wants[i].kind))
            rights = wants[i].rights;
    return bucket != NULL &&
           caller_may(q, rights, span_of(bucket), span_of(prefix != NULL ? prefix : ""));
}

/* The job reads such an object for the caller, and errors quote its lines. */
static bool
may_read_named(const struct request *q, const json_t *args, const char *arg)
{
    const char *bucket = json_string_value(json_object_get(args, "bucket"));
    const json_t *key = json_object_get(args, arg);

    return !json_is_string(key) || bucket == NULL ||
           caller_may(q, AUTH_READ, span_of(bucket),
                      (struct span){json_string_value(key), json_string_length(key)});
}

/* A copy or an archive is written to another bucket, too. */
static bool
may_write_target(const struct request *q, const json_t *args)
{
    const json_t *to = json_object_get(args, "to");

    return !json_is_string(to) ||
           caller_may(q, AUTH_WRITE, span_of(json_string_value(to)),
                      (struct span){"", 0});
}

static bool
may_see(const struct request *q, const struct job_status *s)
{
    struct span none = {"", 0};

    return caller_may(q, AUTH_ADMIN, SPAN(AUTH_EVERY_BUCKET), none) ||
           (q->caller.kind == CALLER_KEY && span_is(q->caller.name, s->user)) ||
           (s->bucket != NULL && caller_may(q, AUTH_ADMIN, span_of(s->bucket), none));
}

static void
put_job(struct json *j, const struct job_status *s)
{
    json_open_object(j, NULL);
    json_text(j, "id", s->id);
    json_text(j, "kind", s->kind);
    json_text(j, "what", s->what);
    json_text(j, "state", job_state_name(s->state));
    json_text(j, "user", s->user);
    admin_put_time(j, "asked", s->asked_ms);
    admin_put_time(j, "begun", s->begun_ms);
    admin_put_time(j, "ended", s->ended_ms);
    json_u64(j, "busy_ms", s->busy_ms);
    json_u64(j, "total", s->counts.total);
    json_u64(j, "objects", s->counts.objects);
    json_u64(j, "present", s->counts.present);
    json_u64(j, "failed", s->counts.failed);
    json_u64(j, "bytes", s->counts.bytes);
    json_u64(j, "rate", s->rate);
    if (s->left_ms >= 0)
        json_i64(j, "left_ms", s->left_ms);
    else
        json_put_null(j, "left_ms");
    json_text(j, "reason", s->reason);
    json_text(j, "position", s->position);
    json_open_array(j, "errors");
    for (uint32_t i = 0; i < s->error_count; i++)
        json_text(j, NULL, s->errors[i]);
    json_end(j);
    json_end(j);
}

static enum err
admin_job_refuse(struct request *q, enum err rc, const struct errbuf *eb)
{
    if (rc == ERR_NOT_FOUND)
        return fault_set(&q->fault, S3_NoSuchKey, "%s", eb->text);
    if (rc == ERR_NO_BUCKET)
        return fault_set(&q->fault, S3_NoSuchBucket, "%s", eb->text);
    if (rc == ERR_BAD_REQUEST || rc == ERR_TOO_LARGE)
        return fault_set(&q->fault, S3_InvalidArgument, "%s", eb->text);
    return fault_from(q, rc, eb);
}

/* The job that the path names, if this caller may know of it. Answered with a fault otherwise. */
static enum err
find_job(struct request *q, struct span id, struct deadline by, struct job_status *s)
{
    struct errbuf eb = {0};
    enum err rc = job_status(q->api->options.jobs, id, by, q->arena, s, &eb);

    if (rc == ERR_OK && !may_see(q, s))
        rc = err_set(&eb, ERR_NOT_FOUND, "there is no job \"%.*s\"",
                     (int)MIN(id.len, 40u), id.at);
    return rc == ERR_OK ? rc : admin_job_refuse(q, rc, &eb);
}

static enum err
answer_one(struct request *q, int http_status, struct span id, struct deadline by)
{
    struct job_status s;
    struct admin_page page;
    enum err rc = find_job(q, id, by, &s);

    if (rc != ERR_OK)
        return rc;
    admin_page_begin(&page, PAGE_MAX);
    put_job(&page.j, &s);
    return admin_page_answer(q, &page, http_status);
}

enum err
admin_job_list(struct request *q)
{
    bool active = span_is(query_get(&q->query, "active"), "true");
    struct arena *a = request_work(q);
    struct errbuf eb = {0};
    struct job_status *list;
    struct admin_page page;
    uint32_t count;
    enum err rc = job_list(q->api->options.jobs, a, &list, &count, &eb);

    if (rc != ERR_OK)
        return admin_job_refuse(q, rc, &eb);
    admin_page_begin(&page, PAGE_MAX);
    json_open_object(&page.j, NULL);
    json_open_array(&page.j, "jobs");
    for (uint32_t i = 0; i < count; i++)
        if ((!active || !job_is_ended(list[i].state)) && may_see(q, &list[i]))
            put_job(&page.j, &list[i]);
    json_end(&page.j);
    json_end(&page.j);
    return admin_page_answer(q, &page, 200);
}

enum err
admin_job_begin(struct request *q)
{
    char id[JOB_ID_TEXT] = "";
    struct errbuf eb = {0};
    struct job_request ask = {0};
    const json_t *list = NULL;
    json_t *doc = NULL, *none = json_object();
    enum err rc = admin_read_object(q, BODY_MAX, &doc);

    if (rc == ERR_OK) {
        const json_t *args = json_object_get(doc, "args");

        list = json_object_get(doc, "list");
        ask = (struct job_request){
            .kind = span_of(json_string_value(json_object_get(doc, "kind"))),
            .user = q->caller.name,
            .args = args != NULL ? args : none,
            .list = {json_string_value(list), json_string_length(list)},
        };
        if (!may_do(q, ask.kind, json_string_value(json_object_get(ask.args, "bucket")),
                    json_string_value(json_object_get(ask.args, "prefix"))) ||
            !may_read_named(q, ask.args, "manifest") ||
            !may_read_named(q, ask.args, "order") || !may_write_target(q, ask.args))
            rc = fault_set(&q->fault, S3_AccessDenied,
                           "A job of this kind wants rights that you do not have on what "
                           "it works on");
    }
    if (rc == ERR_OK) {
        rc = json_is_object(ask.args) && (list == NULL || json_is_string(list))
                 ? job_begin(q->api->options.jobs, &ask, id, &eb)
                 : err_set(&eb, ERR_BAD_REQUEST,
                           "\"args\" is an object and \"list\" a text, a line a name");
        AUDIT_CHANGE(q, "job.begin", rc, L_TEXT("target", id), L_SPAN("kind", ask.kind));
        rc = rc == ERR_OK ? answer_one(q, 202, span_of(id), (struct deadline){0})
                          : admin_job_refuse(q, rc, &eb);
    }
    json_decref(doc);
    json_decref(none);
    return rc;
}

void
admin_job_report(struct request *q, const char *kind, json_t *args, char id[JOB_ID_TEXT])
{
    struct errbuf eb = {{0}};
    struct job_request ask = {
        .kind = span_of(kind), .user = q->caller.name, .args = args, .list = {"", 0}};

    id[0] = '\0';
    if (q->api->options.jobs == NULL) {
        json_decref(args);
        return;
    }
    if (job_begin(q->api->options.jobs, &ask, id, &eb) != ERR_OK) {
        LOG(LOG_WARN, "job.not_reported", "what the disks move is not told as a job",
            L_TEXT("kind", kind), L_TEXT("why", eb.text));
        id[0] = '\0';
    }
    json_decref(args);
}

static struct span
admin_job_id_of(const struct request *q)
{
    return span_from(q->http->head->path, strlen(ROOT "/"));
}

enum err
admin_job_show(struct request *q)
{
    struct span wait = query_get(&q->query, "wait");
    uint64_t seconds = 0;

    if (wait.len > 0 && num_u64(wait, &seconds) != ERR_OK)
        return fault_set(&q->fault, S3_InvalidArgument,
                         "wait=%.*s: a number of seconds is expected",
                         (int)MIN(wait.len, 20u), wait.at);
    return answer_one(q, 200, admin_job_id_of(q),
                      seconds > 0 ? deadline_in_ms(MIN(seconds, WAIT_MAX_S) * 1000)
                                  : (struct deadline){0});
}

enum err
admin_job_change(struct request *q)
{
    struct job_service *jobs = q->api->options.jobs;
    struct errbuf eb = {0};
    json_t *doc = NULL;
    enum err rc = admin_read_object(q, ACTION_MAX, &doc);
    struct span action = span_of(json_string_value(json_object_get(doc, "action")));
    struct job_status s;

    if (rc == ERR_OK)
        rc = find_job(q, admin_job_id_of(q), (struct deadline){0}, &s);
    if (rc == ERR_OK && span_is(action, "resume") &&
        !may_do(q, span_of(s.kind), s.bucket, s.prefix))
        rc = fault_set(&q->fault, S3_AccessDenied, NULL);
    if (rc != ERR_OK) {
        json_decref(doc);
        return rc;
    }
    if (span_is(action, "cancel"))
        rc = job_cancel(jobs, admin_job_id_of(q), &eb);
    else if (span_is(action, "resume"))
        rc = job_resume(jobs, admin_job_id_of(q), &eb);
    else
        rc = err_set(&eb, ERR_BAD_REQUEST, "\"action\" is \"cancel\" or \"resume\"");
    json_decref(doc);
    AUDIT_CHANGE(q, "job.change", rc, L_SPAN("target", admin_job_id_of(q)));
    return rc == ERR_OK ? answer_one(q, 200, admin_job_id_of(q), (struct deadline){0})
                        : admin_job_refuse(q, rc, &eb);
}

enum err
admin_job_forget(struct request *q)
{
    struct errbuf eb = {0};
    struct job_status s;
    enum err rc = find_job(q, admin_job_id_of(q), (struct deadline){0}, &s);

    if (rc != ERR_OK)
        return rc;
    rc = job_forget(q->api->options.jobs, admin_job_id_of(q), &eb);
    AUDIT_CHANGE(q, "job.forget", rc, L_SPAN("target", admin_job_id_of(q)));
    if (rc == ERR_BUSY)
        return fault_set(&q->fault, S3_OperationAborted, "%s", eb.text);
    if (rc != ERR_OK)
        return admin_job_refuse(q, rc, &eb);
    admin_answer_json(q, 200, SPAN("{}"));
    return ERR_OK;
}
