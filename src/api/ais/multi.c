/* multi: jobs on many objects: copies of buckets and of objects, deletes, evictions, prefetches; by list, template and prefix. */
#include <string.h>

#include "api/ais/jobs.h"
#include "api/ais/ops.h"
#include "base/mem.h"
#include "shard/format.h"
#include "wire/brace.h"

#define TEMPLATE_NAMES_MAX 10000000u
#define EXTENSIONS_MAX     500u

/* ---- the selection ---- */

struct selection {
    struct buf list;    /* owned: names or a pattern, one a line; empty: by prefix */
    const char *prefix; /* NULL: a list */
    bool skip_missing;  /* names of a template need not exist */
};

/* A name that braces do not expand. */
enum err
ais_put_name(struct request *q, struct span name, struct buf *out)
{
    if (name.len == 0 || span_find(name, '\n') != NULL || span_find(name, '\r') != NULL)
        return ais_fault(
            q, 400, NULL,
            "\"objnames\": a name of a list is not empty and has no line end");
    for (size_t i = 0; i < name.len; i++) {
        if (strchr("{},\\$", name.at[i]) != NULL)
            buf_putc(out, '\\');
        buf_putc(out, name.at[i]);
    }
    buf_putc(out, '\n');
    return ERR_OK;
}

/* A range, or a prefix. */
static enum err
selection_take_template(struct request *q, struct span text, struct selection *s)
{
    struct arena *a = arena_new(4096, MIB(1));
    struct errbuf eb = {{0}};
    struct brace *b = NULL;
    uint64_t count = 1;
    enum err rc = ERR_OK;

    if (span_is(text, "*"))
        text = (struct span){"", 0};
    ais_put_template(text, &s->list);
    if (s->list.len > 0)
        rc = brace_parse(buf_span(&s->list), a, &b, &eb);
    if (rc == ERR_OK && b != NULL)
        count = brace_count(b);
    arena_free(&a);
    if (rc != ERR_OK || count > TEMPLATE_NAMES_MAX)
        return ais_fault(q, 400, NULL,
                         "template \"%.*s\": %s; at most %u names are possible",
                         (int)MIN(text.len, 100u), text.at,
                         rc != ERR_OK ? eb.text : "too many", TEMPLATE_NAMES_MAX);
    s->skip_missing = true;
    if (count > 1) {
        buf_putc(&s->list, '\n');
        return ERR_OK;
    }
    buf_clear(&s->list);
    s->prefix = arena_strdup(request_work(q), text);
    return ERR_OK;
}

static enum err
selection_take(struct request *q, const json_t *value, struct selection *s)
{
    const json_t *names = ais_member(value, "objnames");
    const char *template;
    enum err rc = ais_text(q, value, "template", &template);

    *s = (struct selection){.prefix = NULL};
    buf_init(&s->list, JOB_LIST_MAX);
    if (rc != ERR_OK)
        return rc;
    if (json_array_size(names) == 0)
        return selection_take_template(q, span_of(template), s);
    if (template[0] != '\0')
        return ais_fault(q, 400, NULL,
                         "\"objnames\" and \"template\" exclude each other");
    for (size_t i = 0; rc == ERR_OK && i < json_array_size(names); i++) {
        const json_t *n = json_array_get(names, i);

        rc = ais_put_name(q, (struct span){json_string_value(n), json_string_length(n)},
                          &s->list);
    }
    if (rc == ERR_OK && s->list.full)
        rc = ais_fault(q, 400, NULL, "the list of names has more than %u bytes",
                       JOB_LIST_MAX);
    return rc;
}

/* ---- the job ---- */

/* Starts a job of the engine, and answers with its id. Takes `args`. */
static enum err
multi_start(struct request *q, const char *kind, json_t *args, const struct selection *s)
{
    struct job_request ask = {.kind = span_of(kind),
                              .user = q->caller.name,
                              .args = args,
                              .list = buf_span(&s->list)};
    struct errbuf eb = {{0}};
    char id[JOB_ID_TEXT];
    enum err rc;

    json_object_set_new(args, "bucket", json_string(q->bucket->uname));
    if (s->prefix != NULL)
        json_object_set_new(args, "prefix", json_string(s->prefix));
    rc = job_begin(q->api->options.jobs, &ask, id, &eb);
    json_decref(args);
    if (rc == ERR_BAD_REQUEST || rc == ERR_TOO_LARGE)
        return ais_fault(q, 400, NULL, "%s", eb.text);
    return rc == ERR_OK ? ais_answer_text(q, 200, span_of(id))
                        : ais_fault_from(q, rc, &eb);
}

/* Rights on what a selection reaches: on the bucket, since a list can name anything in it. */
static enum err
multi_run(struct request *q, const char *kind, bool missing_ok, json_t *args)
{
    struct selection s;
    enum err rc = selection_take(q, q->ais->value, &s);

    if (rc == ERR_OK && missing_ok && s.skip_missing)
        json_object_set_new(args, "skip_missing", json_integer(1));
    if (rc == ERR_OK)
        rc = multi_start(q, kind, args, &s);
    else
        json_decref(args);
    buf_fini(&s.list);
    return rc;
}

enum err
ais_delete_many(struct request *q)
{
    return multi_run(q, "delete-objects", true, json_object());
}

static enum err
multi_remote(struct request *q, const char *kind)
{
    if (!q->bucket->cached)
        return ais_fault(q, 400, NULL,
                         "bucket \"%s\" is not remote: %s needs a remote one",
                         q->ais->bucket.text, q->ais->action);
    return multi_run(q, kind, false, json_object());
}

enum err
ais_evict_many(struct request *q)
{
    return multi_remote(q, "evict");
}

enum err
ais_prefetch_many(struct request *q)
{
    return multi_remote(q, "prefetch");
}

/* ---- copies ---- */

enum err
ais_bucket_to_write(struct request *q, const struct ais_bucket *to, bool make,
                    const struct map_bucket **out)
{
    struct errbuf eb = {{0}};
    enum err rc = caller_require(q, AUTH_WRITE, to->uname, (struct span){"", 0});

    *out = NULL;
    if (rc != ERR_OK)
        return rc;
    if (!make || map_bucket_find(map_now(q->api->options.map), to->uname) != NULL)
        return ais_bucket_find(q, to, out);
    if (to->provider != MAP_AIS || to->ns.len > 0 || to->elsewhere)
        return ais_no_bucket(q, to);
    rc = caller_require(q, AUTH_CREATE_BUCKET, to->uname, (struct span){"", 0});
    if (rc != ERR_OK)
        return rc;
    rc = make_bucket(q, to->uname, NULL, NULL, out, &eb);
    return rc == ERR_OK ? ERR_OK : ais_fault_from(q, rc, &eb);
}

/* bck_to of the query, or tobck of the value. */
static enum err
multi_target(struct request *q, bool make, const struct map_bucket **out)
{
    struct span uname = query_get(&q->query, "bck_to"), rest;
    const json_t *json = ais_member(q->ais->value, "tobck");
    struct ais_bucket to;
    enum err rc;

    *out = NULL;
    if (uname.len > 0)
        rc = ais_bucket_uname(q, uname, &to, &rest);
    else if (json_is_object(json))
        rc = ais_bucket_json(q, json, &to);
    else
        return ais_fault(q, 400, NULL, "bck_to: the bucket to copy to is not named");
    return rc == ERR_OK ? ais_bucket_to_write(q, &to, make, out) : rc;
}

/* {"jpg": "txt"}: "jpg:txt". A dot before a name may be written. */
static enum err
multi_extensions(struct request *q, struct buf *out)
{
    json_t *map = ais_member(q->ais->value, "ext"), *v;
    const char *key;

    if (map != NULL && !json_is_object(map))
        return ais_fault(q, 400, NULL, "\"ext\" must be an object of texts");
    json_object_foreach(map, key, v)
    {
        const char *from = key + (key[0] == '.'), *to = json_string_value(v);

        if (to == NULL || from[0] == '\0' || strpbrk(from, ":,/") != NULL ||
            strpbrk(to, ":,/") != NULL)
            return ais_fault(q, 400, NULL,
                             "\"ext\": \"%.60s\" is no extension, or its new one is none",
                             key);
        buf_printf(out, "%s%s:%s", out->len > 0 ? "," : "", from, to + (to[0] == '.'));
    }
    return out->full
               ? ais_fault(q, 400, NULL, "\"ext\" has over %u bytes", EXTENSIONS_MAX)
               : ERR_OK;
}

static enum err
multi_copy_args(struct request *q, const struct map_bucket *to, json_t **out)
{
    const char *prepend;
    bool dry_run = false;
    struct buf extensions;
    enum err rc = ais_text(q, q->ais->value, "prepend", &prepend);

    *out = NULL;
    if (rc == ERR_OK)
        rc = ais_flag(q, q->ais->value, "dry_run", &dry_run);
    buf_init(&extensions, EXTENSIONS_MAX);
    if (rc == ERR_OK)
        rc = multi_extensions(q, &extensions);
    if (rc != ERR_OK) {
        buf_fini(&extensions);
        return rc;
    }
    *out = json_object();
    if (extensions.len > 0)
        json_object_set_new(*out, "extensions",
                            json_stringn(extensions.at, extensions.len));
    buf_fini(&extensions);
    json_object_set_new(*out, "to", json_string(to->uname));
    if (prepend[0] != '\0')
        json_object_set_new(*out, "prepend", json_string(prepend));
    if (dry_run)
        json_object_set_new(*out, "dry_run", json_integer(1));
    return ERR_OK;
}

enum err
ais_copy_many(struct request *q)
{
    const struct map_bucket *to = NULL;
    json_t *args;
    enum err rc = multi_target(q, false, &to);

    if (rc == ERR_OK)
        rc = multi_copy_args(q, to, &args);
    map_bucket_drop(&to);
    return rc == ERR_OK ? multi_run(q, "copy-objects", true, args) : rc;
}

enum err
ais_copy_bucket(struct request *q)
{
    struct selection s = {.skip_missing = true};
    const struct map_bucket *to = NULL;
    const char *prefix;
    json_t *args;
    bool dry_run = false;
    enum err rc = ais_text(q, q->ais->value, "prefix", &prefix);

    s.prefix = prefix;
    if (rc == ERR_OK)
        rc = ais_flag(q, q->ais->value, "dry_run", &dry_run);
    if (rc == ERR_OK)
        rc = multi_target(q, true, &to);
    if (rc == ERR_OK)
        rc = multi_copy_args(q, to, &args);
    map_bucket_drop(&to);
    return rc == ERR_OK ? multi_start(q, "copy-bucket", args, &s) : rc;
}

/* ---- archives ---- */

static enum err
multi_archive_args(struct request *q, const struct map_bucket *to, json_t **out)
{
    static const struct {
        const char *theirs, *ours;
    } flags[] = {{"aate", "append"}, {"bnonly", "base_names"}, {"isbn", "bucket_names"}};
    const json_t *v = q->ais->value;
    const char *name, *mime;
    enum err rc = ais_text(q, v, "archname", &name);

    *out = NULL;
    if (rc == ERR_OK)
        rc = ais_text(q, v, "mime", &mime);
    if (rc == ERR_OK && name[0] == '\0')
        rc = ais_fault(q, 400, NULL, "\"archname\": the archive is not named");
    if (rc == ERR_OK && mime[0] != '\0' &&
        shard_format_of_mime(span_of(mime)) != shard_format_of_name(span_of(name)))
        rc = ais_fault(q, 400, NULL,
                       "mime \"%.60s\" is not the format of the name \"%.100s\"", mime,
                       name);
    if (rc != ERR_OK)
        return rc;
    *out = json_object();
    json_object_set_new(*out, "to", json_string(to->uname));
    json_object_set_new(*out, "shard", json_string(name));
    for (size_t i = 0; rc == ERR_OK && i < ARRAY_LEN(flags); i++) {
        bool on = false;

        rc = ais_flag(q, v, flags[i].theirs, &on);
        if (on)
            json_object_set_new(*out, flags[i].ours, json_integer(1));
    }
    if (rc != ERR_OK)
        json_decref(*out);
    return rc;
}

enum err
ais_archive_many(struct request *q)
{
    const struct map_bucket *to = NULL;
    json_t *args;
    enum err rc = ERR_OK;

    if (query_get(&q->query, "bck_to").len > 0 ||
        json_is_object(ais_member(q->ais->value, "tobck")))
        rc = multi_target(q, false, &to);
    else
        rc = ais_require(q, AIS_ON_BUCKET, AUTH_WRITE);
    if (rc == ERR_OK)
        rc = multi_archive_args(q, to != NULL ? to : q->bucket, &args);
    map_bucket_drop(&to);
    return rc == ERR_OK ? multi_run(q, "archive", true, args) : rc;
}

/* ---- what this server does by itself ---- */

enum err
ais_bucket_upkeep(struct request *q)
{
    const struct map_bucket *b = q->bucket;

    return ais_job_done(q, q->ais->action, span_of(map_provider_name(b->provider)),
                        span_of(b->name));
}
