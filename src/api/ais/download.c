/* download: objects from web servers as jobs of the room job: begun, shown, aborted, removed. What is downloaded of a remote bucket is a
 * prefetch. The id of a download is "dnl-" and the id of its job. */
#include <string.h>

#include "api/ais/jobs.h"
#include "api/ais/ops.h"
#include "base/mem.h"
#include "shard/match.h"

#define CONNECTIONS_MAX 32u
#define JOBS_ARENA      MIB(8)

/* ---- begun ---- */

struct downloading {
    struct buf list; /* owned: "URL NAME", one a line */
    json_t *args;    /* owned */
};

typedef enum err take_download(struct request *q, struct downloading *d);

static enum err
download_put_text(struct request *q, const json_t *text, const char *what,
                  struct buf *out)
{
    struct span s = {json_string_value(text), json_string_length(text)};

    if (s.at == NULL || s.len == 0 || span_find(s, '\n') != NULL ||
        span_find(s, '\r') != NULL || strlen(s.at) != s.len)
        return ais_fault(q, 400, NULL, "%s: a text of one line is wanted", what);
    for (size_t i = 0; i < s.len; i++) {
        if (strchr("{},\\$", s.at[i]) != NULL)
            buf_putc(out, '\\');
        buf_putc(out, s.at[i]);
    }
    return ERR_OK;
}

static enum err
download_put_link(struct request *q, const json_t *link, struct buf *out)
{
    const char *text = json_string_value(link);

    if (text == NULL || strchr(text, ' ') != NULL ||
        (strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0))
        return ais_fault(q, 400, NULL,
                         "link \"%.100s\": it begins with http:// or https:// and has no "
                         "space",
                         text != NULL ? text : "");
    return download_put_text(q, link, "link", out);
}

/* `name` NULL: the object is called as the URL's path ends. */
static enum err
download_put_line(struct request *q, const json_t *link, const char *name,
                  struct buf *out)
{
    enum err rc = download_put_link(q, link, out);

    if (rc == ERR_OK && name != NULL && name[0] != '\0') {
        json_t *text = json_string(name);

        buf_putc(out, ' ');
        rc = ais_object_check(q, span_of(name));
        if (rc == ERR_OK)
            rc = download_put_text(q, text, "object name", out);
        json_decref(text);
    }
    buf_putc(out, '\n');
    return rc;
}

static enum err
download_take_single(struct request *q, struct downloading *d)
{
    const json_t *m = q->ais->message;
    const char *name;
    bool remote = false;
    enum err rc = ais_text(q, m, "object_name", &name);

    if (rc == ERR_OK)
        rc = ais_flag(q, m, "from_remote", &remote);
    if (rc == ERR_OK && remote)
        return ais_fault(q, 501, "ErrUnsupp", "\"from_remote\": use a prefetch");
    return rc == ERR_OK ? download_put_line(q, ais_member(m, "link"), name, &d->list)
                        : rc;
}

static enum err
download_take_range(struct request *q, struct downloading *d)
{
    const char *template, *subdir;
    enum err rc = ais_text(q, q->ais->message, "template", &template);

    if (rc == ERR_OK)
        rc = ais_text(q, q->ais->message, "subdir", &subdir);
    if (rc == ERR_OK &&
        (strncmp(template, "http://", 7) != 0 && strncmp(template, "https://", 8) != 0))
        rc = ais_fault(q, 400, NULL,
                       "template \"%.100s\": it begins with http:// or https://",
                       template);
    if (rc == ERR_OK && strpbrk(template, " \r\n") != NULL)
        rc = ais_fault(q, 400, NULL, "template: a URL has no space and no line end");
    if (rc == ERR_OK && subdir[0] != '\0')
        rc = ais_object_check(q, span_of(subdir));
    if (rc != ERR_OK)
        return rc;
    ais_put_template(span_of(template), &d->list);
    buf_putc(&d->list, '\n');
    json_object_set_new(d->args, "subdir", json_string(subdir));
    return ERR_OK;
}

static enum err
download_take_multi(struct request *q, struct downloading *d)
{
    json_t *objects = ais_member(q->ais->message, "objects"), *v;
    const char *name;
    enum err rc = ERR_OK;

    for (size_t i = 0; rc == ERR_OK && i < json_array_size(objects); i++)
        rc = download_put_line(q, json_array_get(objects, i), NULL, &d->list);
    json_object_foreach(objects, name, v)
    {
        if (rc == ERR_OK)
            rc = download_put_line(q, v, name, &d->list);
    }
    if (rc == ERR_OK && d->list.len == 0)
        rc = ais_fault(q, 400, NULL,
                       "\"objects\": an object of names and links, or an array of links, "
                       "is wanted");
    return rc;
}

/* What a client may ask of all types. */
static enum err
download_take_limits(struct request *q, struct downloading *d)
{
    const json_t *m = q->ais->message, *limits = ais_member(m, "limits");
    const char *description, *etl;
    uint64_t connections = 0, rate = 0;
    enum err rc = ais_text(q, m, "description", &description);

    if (rc == ERR_OK)
        rc = ais_text(q, m, "etl_name", &etl);
    if (rc == ERR_OK)
        rc = ais_number(q, limits, "connections", &connections);
    if (rc == ERR_OK)
        rc = ais_number(q, limits, "bytes_per_hour", &rate);
    if (rc == ERR_OK &&
        (etl[0] != '\0' || rate > 0 || json_object_size(ais_member(m, "headers")) > 0))
        rc = ais_fault(q, 501, "ErrUnsupp",
                       "a download has no \"etl_name\", \"headers\" and "
                       "\"limits.bytes_per_hour\" here");
    if (rc != ERR_OK)
        return rc;
    if (connections > 0)
        json_object_set_new(d->args, "parallel",
                            json_integer((json_int_t)MIN(connections, CONNECTIONS_MAX)));
    json_object_set_new(d->args, "description",
                        json_stringn(description, MIN(strlen(description), 200u)));
    return ERR_OK;
}

/* A job, and its id as the answer. */
static enum err
download_begin_job(struct request *q, const char *kind, const struct map_bucket *b,
                   struct downloading *d)
{
    struct job_request ask = {.kind = span_of(kind),
                              .user = q->caller.name,
                              .args = d->args,
                              .list = buf_span(&d->list)};
    struct ais_document answer;
    struct errbuf eb = {{0}};
    char id[JOB_ID_TEXT];
    enum err rc;

    json_object_set_new(d->args, "bucket", json_string(b->uname));
    if (d->list.full)
        return ais_fault(q, 400, NULL, "the list of links has over %u bytes",
                         JOB_LIST_MAX);
    rc = job_begin(q->api->options.jobs, &ask, id, &eb);
    if (rc == ERR_BAD_REQUEST || rc == ERR_TOO_LARGE)
        return ais_fault(q, 400, NULL, "%s", eb.text);
    if (rc != ERR_OK)
        return ais_fault_from(q, rc, &eb);
    ais_document_begin(&answer);
    json_open_object(&answer.j, NULL);
    json_text(&answer.j, "id", arena_printf(q->arena, AIS_DOWNLOAD_PREFIX "%s", id));
    json_end(&answer.j);
    return ais_document_answer(q, &answer);
}

static enum err
download_from_web(struct request *q, take_download *take, struct downloading *d)
{
    const struct map_bucket *b = NULL;
    struct ais_bucket to;
    enum err rc = ais_bucket_json(q, ais_member(q->ais->message, "bucket"), &to);

    if (rc == ERR_OK)
        rc = take(q, d);
    if (rc == ERR_OK)
        rc = download_take_limits(q, d);
    if (rc == ERR_OK)
        rc = ais_bucket_to_write(q, &to, true, &b);
    if (rc == ERR_OK)
        rc = download_begin_job(q, "download", b, d);
    map_bucket_drop(&b);
    return rc;
}

/* All of a remote bucket, or what has a prefix, is fetched. */
static enum err
download_from_backend(struct request *q, struct downloading *d)
{
    const struct map_bucket *b = NULL;
    struct ais_bucket from;
    const char *prefix, *suffix;
    enum err rc = ais_bucket_json(q, ais_member(q->ais->message, "bucket"), &from);

    if (rc == ERR_OK)
        rc = ais_text(q, q->ais->message, "prefix", &prefix);
    if (rc == ERR_OK)
        rc = ais_text(q, q->ais->message, "suffix", &suffix);
    if (rc == ERR_OK && suffix[0] != '\0')
        rc = ais_fault(q, 501, "ErrUnsupp", "\"suffix\": a prefix is possible only");
    if (rc == ERR_OK)
        rc = caller_require(q, AUTH_READ | AUTH_LIST, from.uname, span_of(prefix));
    if (rc == ERR_OK)
        rc = ais_bucket_find(q, &from, &b);
    if (rc != ERR_OK)
        return rc;
    json_object_set_new(d->args, "prefix", json_string(prefix));
    rc = b->cached ? download_begin_job(q, "prefetch", b, d)
                   : ais_fault(q, 400, NULL, "bucket \"%s\" is not remote", from.text);
    map_bucket_drop(&b);
    return rc;
}

enum err
ais_download_start(struct request *q)
{
    static const struct {
        const char *type;
        take_download *take;
    } types[] = {{"single", download_take_single},
                 {"range", download_take_range},
                 {"multi", download_take_multi}};
    struct downloading d = {.args = NULL};
    const char *type = "";
    enum err rc = ais_read_message(q);

    if (rc == ERR_OK)
        rc = ais_text(q, q->ais->message, "type", &type);
    if (rc != ERR_OK)
        return rc;
    rc =
        ais_fault(q, 400, NULL,
                  "download type \"%.40s\": it is single, range, multi or backend", type);
    buf_init(&d.list, JOB_LIST_MAX);
    d.args = json_object();
    if (strcmp(type, "backend") == 0)
        rc = download_from_backend(q, &d);
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (strcmp(type, types[i].type) == 0)
            rc = download_from_web(q, types[i].take, &d);
    json_decref(d.args);
    buf_fini(&d.list);
    return rc;
}

/* ---- shown ---- */

struct download_query {
    const char *id; /* of the job; "": all */
    struct shard_match *regex;
    bool only_active;
};

struct span
ais_download_job(const char *id)
{
    return span_of(strncmp(id, AIS_DOWNLOAD_PREFIX, strlen(AIS_DOWNLOAD_PREFIX)) == 0
                       ? id + strlen(AIS_DOWNLOAD_PREFIX)
                       : id);
}

static void
download_put_errors(struct json *j, const struct job_status *s)
{
    json_open_array(j, "download_errors");
    for (uint32_t i = 0; i < s->error_count; i++) {
        const char *colon = strstr(s->errors[i], ": ");
        size_t len = colon != NULL ? (size_t)(colon - s->errors[i]) : 0;

        json_open_object(j, NULL);
        json_span(j, "name", (struct span){s->errors[i], len});
        json_text(j, "error", colon != NULL ? colon + 2 : s->errors[i]);
        json_end(j);
    }
    json_end(j);
}

static void
download_put(struct request *q, struct json *j, const struct job_status *s, bool whole)
{
    const struct job_counts *c = &s->counts;
    uint64_t done = c->objects + c->failed;

    json_open_object(j, NULL);
    json_text(j, "id", arena_printf(q->arena, AIS_DOWNLOAD_PREFIX "%s", s->id));
    json_text(j, "xaction_id", s->id);
    json_text(j, "description", s->what);
    ais_put_time(j, "started_time", s->asked_ms);
    ais_put_time(j, "finished_time", s->ended_ms);
    json_u64(j, "finished_cnt", c->objects);
    json_u64(j, "scheduled_cnt", c->total > 0 ? c->total : done);
    json_u64(j, "skipped_cnt", c->present);
    json_u64(j, "error_cnt", c->failed);
    json_i64(j, "total", c->total > 0 ? (int64_t)c->total : -1);
    json_bool(j, "all_dispatched", job_is_ended(s->state) || done == c->total);
    json_bool(j, "aborted", s->state == JOB_CANCELLED || s->state == JOB_FAILED);
    if (whole) {
        json_open_array(j, "current_tasks");
        json_end(j);
        json_open_array(j, "finished_tasks");
        json_end(j);
        download_put_errors(j, s);
    }
    json_end(j);
}

static enum err
download_show_one(struct request *q, const char *id)
{
    struct arena *a = arena_new(4096, JOBS_ARENA);
    struct job_status s;
    struct ais_document d;
    struct errbuf eb = {{0}};
    enum err rc = job_status(q->api->options.jobs, ais_download_job(id),
                             deadline_in_ms(0), a, &s, &eb);

    if (rc == ERR_NOT_FOUND || (rc == ERR_OK && strcmp(s.kind, "download") != 0 &&
                                strcmp(s.kind, "prefetch") != 0))
        rc =
            ais_fault(q, 404, "ErrNotFound", "download job \"%.40s\" does not exist", id);
    else if (rc != ERR_OK)
        rc = ais_fault_from(q, rc, &eb);
    if (rc == ERR_OK) {
        ais_document_begin(&d);
        download_put(q, &d.j, &s, true);
        rc = ais_document_answer(q, &d);
    }
    arena_free(&a);
    return rc;
}

static enum err
download_is_wanted(const struct download_query *w, const struct job_status *s, bool *yes,
                   struct errbuf *eb)
{
    *yes =
        strcmp(s->kind, "download") == 0 && !(w->only_active && job_is_ended(s->state));
    return *yes && w->regex != NULL
               ? shard_match_test(w->regex, span_of(s->what), yes, eb)
               : ERR_OK;
}

static enum err
download_show_all(struct request *q, const struct download_query *w)
{
    struct arena *a = arena_new(4096, JOBS_ARENA);
    struct job_status *all = NULL;
    struct ais_document d;
    struct errbuf eb = {{0}};
    uint32_t count = 0;
    bool yes;
    enum err rc = job_list(q->api->options.jobs, a, &all, &count, &eb);

    ais_document_begin(&d);
    json_open_array(&d.j, NULL);
    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        rc = download_is_wanted(w, &all[i], &yes, &eb);
        if (rc == ERR_OK && yes)
            download_put(q, &d.j, &all[i], false);
    }
    json_end(&d.j);
    arena_free(&a);
    if (rc == ERR_OK)
        return ais_document_answer(q, &d);
    buf_fini(&d.text);
    return rc == ERR_BAD_REQUEST ? ais_fault(q, 400, NULL, "%s", eb.text)
                                 : ais_fault_from(q, rc, &eb);
}

enum err
ais_download_show(struct request *q)
{
    struct download_query w = {.id = ""};
    struct errbuf eb = {{0}};
    const char *regex = "";
    enum err rc = ais_read_message(q);

    if (rc == ERR_OK)
        rc = ais_text(q, q->ais->message, "id", &w.id);
    if (rc == ERR_OK)
        rc = ais_text(q, q->ais->message, "regex", &regex);
    if (rc == ERR_OK)
        rc = ais_flag(q, q->ais->message, "only_active_tasks", &w.only_active);
    if (rc != ERR_OK)
        return rc;
    if (w.id[0] != '\0')
        return download_show_one(q, w.id);
    if (regex[0] != '\0' &&
        shard_match_new(SHARD_MATCH_REGEXP, span_of(regex), &w.regex, &eb) != ERR_OK)
        return ais_fault(q, 400, NULL, "%s", eb.text);
    rc = download_show_all(q, &w);
    shard_match_free(&w.regex);
    return rc;
}

/* ---- ended ---- */

typedef enum err end_download(struct job_service *s, struct span id, struct errbuf *eb);

/* By the user who began it, and by administrators. */
static enum err
download_may_end(struct request *q, struct span id, struct errbuf *eb)
{
    struct arena *a = arena_new(4096, JOBS_ARENA);
    struct job_status s;
    enum err rc = job_status(q->api->options.jobs, id, deadline_in_ms(0), a, &s, eb);

    if (rc == ERR_OK && strcmp(s.kind, "download") != 0)
        rc = ERR_NOT_FOUND;
    else if (rc == ERR_OK && !span_is(q->caller.name, s.user))
        rc = ais_require(q, AIS_ON_CLUSTER, AUTH_ADMIN);
    arena_free(&a);
    return rc;
}

static enum err
download_end(struct request *q, end_download *end)
{
    struct errbuf eb = {{0}};
    const char *id = "";
    struct span job;
    enum err rc = ais_read_message(q);

    if (rc == ERR_OK)
        rc = ais_text(q, q->ais->message, "id", &id);
    if (rc != ERR_OK)
        return rc;
    job = ais_download_job(id);
    rc = download_may_end(q, job, &eb);
    if (rc == ERR_DENIED)
        return rc; /* the error is set */
    if (rc == ERR_OK)
        rc = end(q->api->options.jobs, job, &eb);
    if (rc == ERR_NOT_FOUND)
        return ais_fault(q, 404, "ErrNotFound", "download job \"%.40s\" does not exist",
                         id);
    if (rc == ERR_BUSY)
        return ais_fault(q, 409, "ErrBusy", "download job \"%.40s\" has not ended", id);
    return rc == ERR_OK ? ais_answer_empty(q, 200) : ais_fault_from(q, rc, &eb);
}

enum err
ais_download_abort(struct request *q)
{
    return download_end(q, job_cancel);
}

enum err
ais_download_remove(struct request *q)
{
    return download_end(q, job_forget);
}
