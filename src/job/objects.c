/* objects: copies objects of a bucket into another one, or deletes them: by prefix, or by a list of names.
 *
 * Arguments: those of names.h; of copies {"to": BUCKET, "prepend": TEXT, "extensions": "jpg:jpeg,txt:md", "dry_run": 1};
 * {"skip_missing": 1}: a name of the list that is not there is no error. The work goes in groups of names: each group ends before the position moves behind it, so what is repeated
 * after a restart is at most one group, and a copy or a delete can be repeated. Every failure is counted and kept with its name.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/names.h"
#include "wire/json_get.h"

#define GROUP_NAMES  32u /* in flight together */
#define ONE_ARENA    (256u << 10)
#define COPY_RETRIES 8u

struct objects_work;
struct objects_one {
    struct objects_work *work;
    char key[NAMES_KEY_MAX + 1];
    uint64_t bytes;
    enum err rc;
    struct errbuf eb;
};
struct objects_work {
    struct job *job;
    struct names names;
    const struct map_bucket *to; /* of copies: one reference */
    const char *prepend, *extensions;
    bool deletes, dry_run, skip_missing;
    struct objects_one *group; /* owned */
    char after[NAMES_KEY_MAX + 1];
    bool ended;
};

/* ---- the request ---- */

static enum err
objects_check_target(struct job_service *s, const json_t *args, struct buf *what,
                     struct errbuf *eb)
{
    const char *to = json_get_text(args, "to", NULL);
    const char *from = json_get_text(args, "bucket", "");

    if (to == NULL)
        return err_set(eb, ERR_BAD_REQUEST, "a copy names the bucket \"to\" copy to");
    if (map_bucket_find(map_now(s->options.map), span_of(to)) == NULL)
        return err_set(eb, ERR_NO_BUCKET, "there is no bucket \"%s\"", to);
    if (strcmp(to, from) == 0 && json_get_text(args, "prepend", "")[0] == '\0' &&
        json_get_u64(args, "dry_run") == 0)
        return err_set(eb, ERR_BAD_REQUEST, "bucket \"%s\" cannot be copied onto itself",
                       to);
    buf_printf(what, " to s3://%s", to);
    return ERR_OK;
}

static enum err
objects_check_copy(struct job_service *s, const json_t *args, struct span list,
                   struct buf *what, struct errbuf *eb)
{
    static const struct job_arg known[] = {
        {"to", false, 0},     {"prepend", false, 0},     {"extensions", false, 0},
        {"dry_run", true, 1}, {"skip_missing", true, 1}, {NULL, false, 0}};
    enum err rc = names_check_any(s, "copy", known, args, list, what, eb);

    return rc == ERR_OK ? objects_check_target(s, args, what, eb) : rc;
}

static enum err
objects_check_delete(struct job_service *s, const json_t *args, struct span list,
                     struct buf *what, struct errbuf *eb)
{
    static const struct job_arg known[] = {{"skip_missing", true, 1}, {NULL, false, 0}};

    return names_check_any(s, "delete-objects", known, args, list, what, eb);
}

/* ---- one object ---- */

/* The extension behind `dot` as "extensions" renames it; else itself. */
static struct span
objects_extension(const struct objects_work *w, const char *dot)
{
    struct span rest = span_of(w->extensions), now = span_of(dot + 1);

    while (rest.len > 0) {
        const char *comma = span_find(rest, ',');
        size_t len = comma != NULL ? (size_t)(comma - rest.at) : rest.len;
        struct span pair = {rest.at, len};
        const char *colon = span_find(pair, ':');

        rest = span_from(rest, len + 1);
        if (colon != NULL && now.len == (size_t)(colon - pair.at) &&
            memcmp(now.at, pair.at, now.len) == 0)
            return span_from(pair, now.len + 1);
    }
    return now;
}

/* "PREPEND" "KEY", with another extension. */
static char *
objects_copy_name(const struct objects_one *o, struct arena *a)
{
    const struct objects_work *w = o->work;
    const char *dot = strrchr(o->key, '.');

    if (dot == NULL || strchr(dot, '/') != NULL)
        return arena_printf(a, "%s%s", w->prepend, o->key);
    return arena_printf(a, "%s%.*s%.*s", w->prepend, (int)(dot + 1 - o->key), o->key,
                        SPAN_ARG(objects_extension(w, dot)));
}

/* The bytes of an open object, and its metadata, under another name. *replaced: it changed meanwhile. */
static enum err
objects_copy_open(struct objects_one *o, struct object_get *get,
                  const struct object_info *info, struct arena *a, bool *replaced)
{
    struct object_service *s = o->work->job->s->options.object;
    struct object_put_options options = {
        .size = info->size, .checksum_algorithm = info->meta.checksum_algorithm};
    struct object_meta meta = info->meta;
    struct object_info out;
    struct object_put *put = NULL;
    char *name = objects_copy_name(o, a);
    enum err rc;

    assert(!o->work->dry_run);
    assert(o->work->to != NULL);
    meta.etag_text = meta.backend_version = (struct span){NULL, 0};
    meta.parts = 0;
    if (strlen(name) > OBJECT_KEY_MAX)
        return err_set(&o->eb, ERR_BAD_REQUEST,
                       "the copy's name has %zu bytes, at most %u", strlen(name),
                       (unsigned)OBJECT_KEY_MAX);
    rc = object_put_begin(s, o->work->to, span_of(name), &options, &put, &o->eb);
    if (rc == ERR_OK)
        rc = object_copy_body(get, 0, info->size, put, &o->eb);
    *replaced = rc == ERR_NOT_FOUND;
    if (rc == ERR_OK)
        rc = object_put_commit(&put, &meta, a, &out, &o->eb);
    object_put_abort(&put);
    return rc;
}

static enum err
objects_copy_one(struct objects_one *o, struct arena *a)
{
    struct object_service *s = o->work->job->s->options.object;
    bool replaced = true;
    enum err rc = ERR_BUSY;

    for (unsigned i = 0; i < COPY_RETRIES && replaced; i++) {
        struct object_get *get = NULL;
        struct object_info info;

        arena_reset(a);
        replaced = false;
        rc = object_get_begin(s, o->work->names.bucket, span_of(o->key), a, &info, &get,
                              &o->eb);
        if (rc == ERR_OK && !o->work->dry_run)
            rc = objects_copy_open(o, get, &info, a, &replaced);
        if (rc == ERR_OK)
            o->bytes = info.size;
        object_get_end(&get);
    }
    return replaced ? err_set(&o->eb, ERR_BUSY, "it was replaced again and again") : rc;
}

static void
objects_do_one(void *arg)
{
    struct objects_one *o = arg;
    struct objects_work *w = o->work;
    struct arena *a = arena_new(4096, ONE_ARENA);

    o->eb.text[0] = '\0';
    o->bytes = 0;
    o->rc = w->deletes ? object_delete(w->job->s->options.object, w->names.bucket,
                                       span_of(o->key), &o->eb)
                       : objects_copy_one(o, a);
    arena_free(&a);
}

/* ---- groups ---- */

static enum err
objects_next_page(struct objects_work *w, unsigned *n, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(16), MIB(4));
    struct object_list_options o = {.prefix = span_of(w->names.prefix),
                                    .after = span_of(w->after),
                                    .max = GROUP_NAMES};
    struct object_page page;
    enum err rc =
        object_list(w->job->s->options.object, w->names.bucket, &o, a, &page, eb);

    if (rc == ERR_OK && page.stale)
        rc = err_set(eb, ERR_BACKEND, "the remote cannot be reached: not all is listed");
    assert(rc != ERR_OK || page.count <= GROUP_NAMES);
    for (*n = 0; rc == ERR_OK && *n < page.count; ++*n)
        snprintf(w->group[*n].key, sizeof w->group[*n].key, "%.*s",
                 SPAN_ARG(page.entries[*n].name));
    if (rc == ERR_OK)
        w->ended = !page.truncated;
    if (*n > 0)
        memcpy(w->after, w->group[*n - 1].key, sizeof w->after);
    arena_free(&a);
    return rc;
}

static enum err
objects_next_names(struct objects_work *w, unsigned *n, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    for (*n = 0; rc == ERR_OK && *n < GROUP_NAMES;) {
        rc = names_next(&w->names, w->group[*n].key, eb);
        w->ended = w->names.ended;
        if (rc != ERR_OK || w->ended)
            break;
        ++*n;
    }
    return rc;
}

/* Counts what a group has done. ERR_CANCELLED: the group is to be repeated. */
static enum err
objects_count_group(struct objects_work *w, unsigned n, struct errbuf *eb)
{
    struct job_counts *c = &w->job->counts;

    assert(n <= GROUP_NAMES);
    assert(w->deletes || w->to != NULL);
    if (rt_cancelled() || w->job->s->stopping)
        return err_set(eb, ERR_CANCELLED, "the job was cancelled");
    for (unsigned i = 0; i < n; i++) {
        struct objects_one *o = &w->group[i];

        if (o->rc == ERR_OK) {
            c->objects++;
            c->bytes += o->bytes;
        } else if (o->rc == ERR_NOT_FOUND && (w->skip_missing || w->deletes)) {
            c->present++;
        } else {
            job_add_error(w->job, span_of(o->key), &o->eb);
        }
    }
    w->job->changed = true;
    return ERR_OK;
}

static enum err
objects_do_group(struct objects_work *w, unsigned n, struct errbuf *eb)
{
    struct rt_group group;

    assert(n <= GROUP_NAMES);
    rt_group_begin(&group);
    for (unsigned i = 0; i < n; i++) {
        w->group[i].work = w;
        if (rt_group_start(&group, objects_do_one, &w->group[i]) != ERR_OK)
            objects_do_one(&w->group[i]);
    }
    rt_group_join(&group);
    return objects_count_group(w, n, eb);
}

static enum err
objects_run_groups(struct objects_work *w, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && !w->ended) {
        char number[24];
        unsigned n;

        rc = w->names.prefix != NULL ? objects_next_page(w, &n, eb)
                                     : objects_next_names(w, &n, eb);
        if (rc == ERR_OK)
            rc = objects_do_group(w, n, eb);
        snprintf(number, sizeof number, "%llu", (unsigned long long)w->names.number);
        if (rc == ERR_OK)
            job_set_position(w->job,
                             span_of(w->names.prefix != NULL ? w->after : number));
    }
    return rc;
}

static enum err
objects_job_run(struct job *j, bool deletes, struct errbuf *eb)
{
    struct objects_work w = {.job = j,
                             .deletes = deletes,
                             .prepend = json_get_text(j->args, "prepend", ""),
                             .extensions = json_get_text(j->args, "extensions", ""),
                             .dry_run = json_get_u64(j->args, "dry_run") > 0,
                             .skip_missing = json_get_u64(j->args, "skip_missing") > 0};
    const struct map_bucket *to = NULL;
    enum err rc = names_open(&w.names, j, eb);

    if (rc == ERR_OK && !deletes) {
        to = map_bucket_find(map_now(j->s->options.map),
                             span_of(json_get_text(j->args, "to", "")));
        rc = to != NULL ? ERR_OK
                        : err_set(eb, ERR_NO_BUCKET, "there is no bucket \"%s\" any more",
                                  json_get_text(j->args, "to", ""));
        w.to = to != NULL ? map_bucket_ref(to) : NULL;
    }
    if (w.names.prefix != NULL && j->position != NULL)
        snprintf(w.after, sizeof w.after, "%s", j->position);
    w.group = xcalloc(GROUP_NAMES, sizeof *w.group);
    if (rc == ERR_OK)
        rc = objects_run_groups(&w, eb);
    free(w.group);
    map_bucket_drop(&w.to);
    names_close(&w.names);
    return rc;
}

static enum err
objects_run_copy(struct job *j, struct errbuf *eb)
{
    return objects_job_run(j, false, eb);
}

static enum err
objects_run_delete(struct job *j, struct errbuf *eb)
{
    return objects_job_run(j, true, eb);
}

const struct job_kind job_copy_bucket = {
    .name = "copy-bucket", .check = objects_check_copy, .run = objects_run_copy};
const struct job_kind job_copy_objects = {.name = "copy-objects",
                                          .takes_list = true,
                                          .check = objects_check_copy,
                                          .run = objects_run_copy};
const struct job_kind job_delete_objects = {.name = "delete-objects",
                                            .takes_list = true,
                                            .check = objects_check_delete,
                                            .run = objects_run_delete};
