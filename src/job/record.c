/* record: a job's record in meta: "job/ID" is JSON (docs/formats.md), "joblist/ID/NNNN" are pieces of its list of
 * names. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "job/internal.h"
#include "rt/point.h"
#include "wire/json.h"
#include "wire/json_get.h"

#define PREFIX      "job/"
#define LIST_PREFIX "joblist/"
#define PIECE_BYTES (48u << 10)
#define LOAD_MAX    MIB(96)

/* ---- writing ---- */

static void
put_counts(struct json *j, const struct job_counts *c)
{
    json_u64(j, "total", c->total);
    json_u64(j, "objects", c->objects);
    json_u64(j, "present", c->present);
    json_u64(j, "failed", c->failed);
    json_u64(j, "bytes", c->bytes);
}

static void
encode_job(const struct job *job, const char *args, struct buf *out)
{
    struct json j;

    json_begin(&j, out);
    json_open_object(&j, NULL);
    json_text(&j, "kind", job->kind->name);
    json_text(&j, "user", job->user);
    json_text(&j, "what", job->what);
    json_text(&j, "args", args);
    json_text(&j, "state", job_state_name(job->state));
    json_u64(&j, "runner", job->runner);
    json_u64(&j, "epoch", job->epoch);
    json_i64(&j, "asked_ms", job->asked_ms);
    json_i64(&j, "begun_ms", job->begun_ms);
    json_i64(&j, "ended_ms", job->ended_ms);
    json_u64(&j, "busy_ms", job->busy_ms);
    put_counts(&j, &job->counts);
    json_u64(&j, "list_pieces", job->list_pieces);
    if (job->position != NULL)
        json_text(&j, "position", job->position);
    if (job->reason != NULL)
        json_text(&j, "reason", job->reason);
    json_open_array(&j, "errors");
    for (uint32_t i = 0; i < job->error_count; i++)
        json_text(&j, NULL, job->errors[i]);
    json_end(&j);
    json_end(&j);
}

/* A write whose outcome was unknown may have happened: then the stored record is of this runner and epoch, and this takes
 * its revision. Another runner's record fences the job. */
static enum err
take_revision(struct job *job, struct span key, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(1));
    struct meta_pair pair;
    struct job *stored = NULL;
    enum err rc = meta_get(job->s->options.meta, key, a, &pair, eb);

    if (rc == ERR_OK)
        stored = job_of_record(pair.value);
    if (stored != NULL && stored->runner == job->runner && stored->epoch == job->epoch)
        job->revision = pair.revision;
    else if (rc == ERR_OK || rc == ERR_NOT_FOUND)
        rc = err_set(eb, ERR_PRECONDITION, "job %s is not this node's any more", job->id);
    job->fenced = rc == ERR_PRECONDITION;
    job_free(&stored);
    arena_free(&a);
    return rc;
}

enum err
job_save(struct job *job, struct errbuf *eb)
{
    char key[sizeof PREFIX + JOB_ID_TEXT];
    char *args = json_dumps(job->args, JSON_COMPACT);
    struct meta_change c = {.if_revision = job->revision};
    struct meta *m = job->s->options.meta;
    struct buf text;
    enum err rc;

    assert(!job->fenced);
    assert(job->runner == job->s->options.node);
    snprintf(key, sizeof key, PREFIX "%s", job->id);
    buf_init(&text, META_VALUE_MAX);
    encode_job(job, args, &text);
    free(args);
    c.key = span_of(key);
    c.value = buf_span(&text);
    job->changed = false; /* a change during the write is written again */
    rc = text.full ? err_set(eb, ERR_TOO_LARGE, "the record of job %s is over %u bytes",
                             job->id, META_VALUE_MAX)
                   : meta_apply(m, &c, 1, &job->revision, eb);
    if (rc == ERR_PRECONDITION) {
        rc = take_revision(job, c.key, eb);
        c.if_revision = job->revision;
        if (rc == ERR_OK)
            rc = meta_apply(m, &c, 1, &job->revision, eb);
    }
    assert(rc != ERR_OK || job->revision > 0);
    buf_fini(&text);
    POINT(JOB_SAVED);
    return rc;
}

static struct span
piece_key(const struct job *j, uint32_t number, char *out, size_t room)
{
    assert(number < 10000);
    snprintf(out, room, LIST_PREFIX "%s/%04u", j->id, number);
    return span_of(out);
}

enum err
job_save_list(struct job *j, struct span list, struct errbuf *eb)
{
    char key[64];
    enum err rc = ERR_OK;

    while (rc == ERR_OK && list.len > 0) {
        struct meta_change c = {.key = piece_key(j, j->list_pieces, key, sizeof key),
                                .value = {list.at, MIN(list.len, PIECE_BYTES)},
                                .if_revision = META_ANY};

        rc = meta_apply(j->s->options.meta, &c, 1, NULL, eb);
        j->list_pieces++;
        list = span_from(list, PIECE_BYTES);
    }
    return rc;
}

enum err
job_read_list(struct job *j, struct buf *out, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(1));
    enum err rc = ERR_OK;

    for (uint32_t i = 0; i < j->list_pieces && rc == ERR_OK; i++) {
        struct meta_pair pair;
        char key[64];

        rc = meta_get(j->s->options.meta, piece_key(j, i, key, sizeof key), a, &pair, eb);
        if (rc == ERR_OK)
            buf_put_span(out, pair.value);
        arena_reset(a);
    }
    arena_free(&a);
    if (rc == ERR_OK && out->full)
        rc = err_set(eb, ERR_TOO_LARGE, "the names are over %zu bytes", out->limit);
    return rc;
}

enum err
job_erase(struct job *j, struct errbuf *eb)
{
    char key[64];
    struct meta_change c = {.remove = true, .if_revision = META_ANY};
    enum err rc = ERR_OK;

    snprintf(key, sizeof key, PREFIX "%s", j->id);
    c.key = span_of(key);
    rc = meta_apply(j->s->options.meta, &c, 1, NULL, eb);
    for (uint32_t i = 0; i < j->list_pieces && rc == ERR_OK; i++) {
        c.key = piece_key(j, i, key, sizeof key);
        rc = meta_apply(j->s->options.meta, &c, 1, NULL, eb);
    }
    return rc;
}

/* ---- reading ---- */

static char *
text_of(const json_t *o, const char *key)
{
    const char *t = json_string_value(json_object_get(o, key));

    return t != NULL ? xstrdup(t) : NULL;
}

static bool
read_state(const json_t *o, enum job_state *out)
{
    const char *name = json_string_value(json_object_get(o, "state"));

    for (int s = JOB_WAITING; name != NULL && s < JOB_STATES_; s++)
        if (strcmp(name, job_state_name((enum job_state)s)) == 0) {
            *out = (enum job_state)s;
            return true;
        }
    return false;
}

static void
read_rest(struct job *j, const json_t *o)
{
    const json_t *errors = json_object_get(o, "errors");

    j->asked_ms = (int64_t)json_get_u64(o, "asked_ms");
    j->begun_ms = (int64_t)json_get_u64(o, "begun_ms");
    if (job_is_ended(j->state))
        j->ended_ms = (int64_t)json_get_u64(o, "ended_ms");
    j->epoch = json_get_u64(o, "epoch");
    if (j->epoch != 0)
        j->runner = (uint16_t)MIN(json_get_u64(o, "runner"), UINT16_MAX);
    if (j->runner == 0)
        j->epoch = 0; /* a record of an older program: no runner */
    j->busy_ms = json_get_u64(o, "busy_ms");
    j->counts = (struct job_counts){.total = json_get_u64(o, "total"),
                                    .objects = json_get_u64(o, "objects"),
                                    .present = json_get_u64(o, "present"),
                                    .failed = json_get_u64(o, "failed"),
                                    .bytes = json_get_u64(o, "bytes")};
    j->list_pieces =
        (uint32_t)MIN(json_get_u64(o, "list_pieces"), JOB_LIST_MAX / PIECE_BYTES + 1);
    j->position = text_of(o, "position");
    if (j->state == JOB_FAILED)
        j->reason = text_of(o, "reason");
    for (size_t i = 0; i < json_array_size(errors) && i < JOB_ERRORS_MAX; i++) {
        const char *t = json_string_value(json_array_get(errors, i));

        if (t != NULL)
            j->errors[j->error_count++] = xstrdup(t);
    }
}

struct job *
job_of_record(struct span text)
{
    json_t *o = json_loadb(text.at, text.len, JSON_REJECT_DUPLICATES, NULL);
    const char *kind = json_string_value(json_object_get(o, "kind"));
    const char *args = json_string_value(json_object_get(o, "args"));
    struct job *j = job_new();

    j->kind = job_kind_find(span_of(kind));
    j->args = args != NULL ? json_loads(args, JSON_REJECT_DUPLICATES, NULL) : NULL;
    j->user = text_of(o, "user");
    j->what = text_of(o, "what");
    if (j->kind == NULL || !json_is_object(j->args) || j->user == NULL ||
        j->what == NULL || !read_state(o, &j->state))
        job_free(&j);
    else
        read_rest(j, o);
    json_decref(o);
    return j;
}

void
job_free(struct job **jp)
{
    struct job *j = *jp;

    *jp = NULL;
    if (j == NULL)
        return;
    assert(j->fiber == NULL);
    assert(j->watchers == 0);
    list_remove(&j->node);
    json_decref(j->args);
    free(j->user);
    free(j->what);
    free(j->position);
    free(j->reason);
    for (uint32_t i = 0; i < j->error_count; i++)
        free(j->errors[i]);
    free(j);
}

static void
insert_by_age(struct job_service *s, struct job *j)
{
    struct list *at = s->jobs.prev;

    while (at != &s->jobs && LIST_ENTRY(at, struct job, node)->asked_ms > j->asked_ms)
        at = at->prev;
    list_insert_(&j->node, at, at->next);
}

enum err
job_load_all(struct job_service *s, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), LOAD_MAX);
    struct meta_pair *pairs;
    uint64_t revision;
    uint32_t count = 0;
    enum err rc =
        meta_list(s->options.meta, SPAN(PREFIX), a, &pairs, &count, &revision, eb);

    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        struct span id = span_from(pairs[i].key, strlen(PREFIX));
        struct job *j = id.len == JOB_ID_TEXT - 1 ? job_of_record(pairs[i].value) : NULL;

        if (j == NULL) {
            LOG(LOG_WARN, "job.unreadable",
                "the record of a job cannot be read; it stays as it is",
                L_SPAN("key", pairs[i].key));
            continue;
        }
        memcpy(j->id, id.at, id.len);
        j->revision = pairs[i].revision;
        j->s = s;
        insert_by_age(s, j);
    }
    arena_free(&a);
    return rc;
}
