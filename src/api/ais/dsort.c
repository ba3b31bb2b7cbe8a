/* dsort: the samples of shards into new shards, in another order, as AIS asks for it: a job "reshard" of the room job. A spec
 * becomes the job's arguments; the job's position becomes a JobInfo. The id of a dsort is "srt-" and the id of its job. */
#include <string.h>

#include "api/ais/jobs.h"
#include "api/ais/ops.h"
#include "base/mem.h"
#include "base/num.h"
#include "job/reshard.h"
#include "rt/time.h"
#include "shard/format.h"
#include "wire/brace.h"

#define DSORT_NOTE 200u /* bytes that are kept of a description */

/* ---- the spec ---- */

struct dsort_spec {
    struct ais_bucket from, to;
    struct buf list; /* owned: names with braces, one a line; empty: by prefix */
    const char *input_ext;
    json_t *args; /* owned: of the job */
};

static void
dsort_set(struct dsort_spec *d, const char *arg, uint64_t value)
{
    json_object_set_new(d->args, arg, json_integer((json_int_t)value));
}

static enum err
dsort_line_check(struct request *q, const char *field, const char *text)
{
    return strpbrk(text, "\r\n") == NULL
               ? ERR_OK
               : ais_fault(q, 400, NULL, "\"%s\": a name has no line end", field);
}

static bool
dsort_ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), more = strlen(end);

    return len >= more && strcmp(text + len - more, end) == 0;
}

/* What would change the result and has no counterpart here. */
static enum err
dsort_refuse_fields(struct request *q)
{
    static const struct {
        const char *field, *allowed; /* values, between commas; "": none */
    } rows[] = {{"ekm_file", ""},
                {"ekm_file_sep", ""},
                {"duplicated_records", ",ignore,warn,"},
                {"ekm_malformed_line", ",abort,"},
                {"ekm_missing_key", ",abort,"}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *value, *word;
        enum err rc = ais_text(q, q->ais->message, rows[i].field, &value);

        if (rc != ERR_OK)
            return rc;
        if (value[0] == '\0')
            continue;
        word = arena_printf(q->arena, ",%.40s,", value);
        if (strstr(rows[i].allowed, word) == NULL)
            return ais_fault(q, 501, "ErrUnsupp",
                             "\"%s\": \"%.40s\" is not supported here", rows[i].field,
                             value);
    }
    return ERR_OK;
}

static enum err
dsort_take_missing(struct request *q, struct dsort_spec *d)
{
    const char *text;
    enum err rc = ais_text(q, q->ais->message, "missing_shards", &text);

    if (rc != ERR_OK)
        return rc;
    if (text[0] == '\0' || strcmp(text, "ignore") == 0 || strcmp(text, "warn") == 0)
        dsort_set(d, "skip_missing", 1);
    else if (strcmp(text, "abort") != 0)
        return ais_fault(q, 400, NULL,
                         "\"missing_shards\": \"%.40s\": it is ignore, warn or abort",
                         text);
    return ERR_OK;
}

/* ---- which shards ---- */

static enum err
dsort_take_names(struct request *q, const json_t *names, struct dsort_spec *d)
{
    struct buf whole;
    enum err rc = ERR_OK;

    buf_init(&whole, KIB(8));
    for (size_t i = 0; rc == ERR_OK && !d->list.full && i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));

        buf_clear(&whole);
        if (name != NULL)
            buf_puts(&whole, name);
        if (name != NULL && !dsort_ends_with(name, d->input_ext))
            buf_puts(&whole, d->input_ext);
        if (name == NULL || name[0] == '\0' || whole.full || whole.len > OBJECT_KEY_MAX)
            rc = ais_fault(q, 400, NULL,
                           "\"input_format.objnames\": name %zu is no text of 1 to %u "
                           "bytes with its extension",
                           i, (unsigned)OBJECT_KEY_MAX);
        else
            rc = ais_put_name(q, buf_span(&whole), &d->list);
    }
    buf_fini(&whole);
    return rc;
}

static enum err
dsort_take_template(struct request *q, const char *template, struct dsort_spec *d)
{
    struct arena *a = arena_new(4096, MIB(1));
    struct errbuf eb = {{0}};
    struct brace *b = NULL;
    enum err rc = dsort_line_check(q, "input_format.template", template);
    bool range = false;

    if (rc == ERR_OK && strcmp(template, "*") != 0 && template[0] != '\0') {
        ais_put_template(span_of(template), &d->list);
        if (!dsort_ends_with(template, d->input_ext))
            buf_puts(&d->list, d->input_ext);
        rc = brace_parse(buf_span(&d->list), a, &b, &eb);
        range = rc == ERR_OK && brace_count(b) > 1;
        if (rc != ERR_OK)
            rc = ais_fault(q, 400, NULL, "\"input_format.template\": %s", eb.text);
    }
    arena_free(&a);
    if (rc != ERR_OK || range)
        return rc;
    buf_clear(&d->list);
    if (d->input_ext[0] != '\0' && !dsort_ends_with(template, d->input_ext))
        return ais_fault(q, 501, "ErrUnsupp",
                         "\"input_extension\": a template without a range is a prefix, "
                         "of which all shards are read; leave it out, or write a range");
    json_object_set_new(d->args, "prefix",
                        json_string(strcmp(template, "*") == 0 ? "" : template));
    return ERR_OK;
}

static enum err
dsort_take_input(struct request *q, struct dsort_spec *d)
{
    const json_t *format = ais_member(q->ais->message, "input_format");
    const json_t *names = ais_member(format, "objnames");
    const char *template;
    enum err rc = ais_text(q, q->ais->message, "input_extension", &d->input_ext);

    if (rc == ERR_OK)
        rc = dsort_line_check(q, "input_extension", d->input_ext);
    if (rc == ERR_OK && !json_is_object(format))
        rc = ais_fault(q, 400, NULL,
                       "\"input_format\": an object with \"template\" or \"objnames\" is "
                       "wanted");
    if (rc == ERR_OK)
        rc = ais_text(q, format, "template", &template);
    if (rc != ERR_OK)
        return rc;
    if (names != NULL && (!json_is_array(names) || template[0] != '\0'))
        return ais_fault(q, 400, NULL,
                         "\"input_format.objnames\": it is an array of names, and "
                         "excludes \"template\"");
    rc = json_array_size(names) > 0 ? dsort_take_names(q, names, d)
                                    : dsort_take_template(q, template, d);
    if (rc == ERR_OK && d->list.full)
        rc = ais_fault(q, 400, NULL, "\"input_format\": the names have over %u bytes",
                       JOB_LIST_MAX);
    return rc;
}

/* ---- the new shards ---- */

static enum err
dsort_name_check(struct request *q, const char *name)
{
    struct errbuf eb = {{0}};
    struct buf first;
    enum err rc;

    buf_init(&first, KIB(8));
    rc = reshard_name(name, 0, &first, &eb);
    if (rc != ERR_OK)
        rc = ais_fault(q, 400, NULL, "\"output_format\": %s", eb.text);
    else if (first.full || first.len > OBJECT_KEY_MAX)
        rc = ais_fault(q, 400, NULL, "\"output_format\": a name has at most %u bytes",
                       (unsigned)OBJECT_KEY_MAX);
    else if (shard_format_of_name(buf_span(&first)) == SHARD_NONE)
        rc = ais_fault(q, 400, NULL,
                       "\"output_extension\": \"%.100s\" is no name of a shard: .tar, "
                       ".tgz, .tar.gz, .tar.lz4 or .zip at its end",
                       name);
    buf_fini(&first);
    return rc;
}

static enum err
dsort_take_size(struct request *q, struct dsort_spec *d)
{
    const json_t *v = ais_member(q->ais->message, "output_shard_size");
    const char *text = json_string_value(v);
    struct errbuf eb = {{0}};
    uint64_t size = 0;

    if (json_is_integer(v) && json_integer_value(v) > 0)
        size = (uint64_t)json_integer_value(v);
    else if (text == NULL || num_size(span_of(text), &size, &eb) != ERR_OK)
        return ais_fault(q, 400, NULL,
                         "\"output_shard_size\": a size is wanted, for example "
                         "\"256MiB\"");
    if (size < RESHARD_SIZE_MIN || size > INT64_MAX)
        return ais_fault(q, 400, NULL, "\"output_shard_size\": at least %llu bytes",
                         (unsigned long long)RESHARD_SIZE_MIN);
    dsort_set(d, "size", size);
    return ERR_OK;
}

static enum err
dsort_take_output(struct request *q, struct dsort_spec *d)
{
    const char *template, *ext;
    struct buf name;
    enum err rc = ais_text(q, q->ais->message, "output_format", &template);

    if (rc == ERR_OK)
        rc = ais_text(q, q->ais->message, "output_extension", &ext);
    if (rc == ERR_OK)
        rc = dsort_line_check(q, "output_format", template);
    if (rc != ERR_OK)
        return rc;
    if (ext[0] == '\0')
        ext = d->input_ext;
    buf_init(&name, KIB(8));
    ais_put_template(span_of(template), &name);
    if (!dsort_ends_with(template, ext))
        buf_puts(&name, ext);
    rc = name.full ? ais_fault(q, 400, NULL, "\"output_format\": over %u bytes",
                               (unsigned)KIB(8))
                   : dsort_name_check(q, arena_strdup(q->arena, buf_span(&name)));
    if (rc == ERR_OK)
        json_object_set_new(d->args, "name", json_stringn(name.at, name.len));
    buf_fini(&name);
    return rc == ERR_OK ? dsort_take_size(q, d) : rc;
}

/* ---- the order ---- */

/* Text of a number; none: another order each time, as AIS does it. */
static enum err
dsort_take_seed(struct request *q, const json_t *algorithm, struct dsort_spec *d)
{
    const json_t *v = ais_member(algorithm, "seed");
    uint64_t seed = 0;
    enum err rc = ais_number(q, algorithm, "seed", &seed);

    if (rc == ERR_OK && (v == NULL || (json_is_string(v) && json_string_length(v) == 0)))
        seed = rt_wall_ns() / 1000;
    if (rc == ERR_OK && seed > INT64_MAX)
        rc = ais_fault(q, 400, NULL, "\"algorithm.seed\": at most %lld",
                       (long long)INT64_MAX);
    if (rc == ERR_OK)
        dsort_set(d, "seed", seed);
    return rc;
}

static enum err
dsort_take_key(struct request *q, const json_t *algorithm, struct dsort_spec *d)
{
    const char *ext, *type;
    enum err rc = ais_text(q, algorithm, "extension", &ext);

    if (rc == ERR_OK)
        rc = ais_text(q, algorithm, "content_key_type", &type);
    if (rc == ERR_OK && ext[0] == '\0')
        rc = ais_fault(q, 400, NULL,
                       "\"algorithm.extension\": the member that has the key is not "
                       "named");
    if (rc == ERR_OK && type[0] != '\0' && strcmp(type, "int") != 0 &&
        strcmp(type, "float") != 0 && strcmp(type, "string") != 0)
        rc = ais_fault(q, 400, NULL,
                       "\"algorithm.content_key_type\": \"%.40s\": it is int, float or "
                       "string",
                       type);
    if (rc != ERR_OK)
        return rc;
    json_object_set_new(d->args, "ext", json_string(ext));
    json_object_set_new(d->args, "key_type", json_string(type[0] ? type : "string"));
    return ERR_OK;
}

static enum err
dsort_take_algorithm(struct request *q, struct dsort_spec *d)
{
    static const struct {
        const char *kind, *by;
    } orders[] = {{"", "name"},   {"alphanumeric", "name"}, {"none", "none"},
                  {"md5", "md5"}, {"shuffle", "shuffle"},   {"content", "content"}};
    const json_t *algorithm = ais_member(q->ais->message, "algorithm");
    const char *kind, *by = NULL;
    bool decreasing = false;
    enum err rc = ais_text(q, algorithm, "kind", &kind);

    if (rc == ERR_OK && algorithm != NULL && !json_is_object(algorithm))
        rc = ais_fault(q, 400, NULL, "\"algorithm\" must be an object");
    if (rc == ERR_OK)
        rc = ais_flag(q, algorithm, "decreasing", &decreasing);
    if (rc != ERR_OK)
        return rc;
    for (size_t i = 0; i < ARRAY_LEN(orders); i++)
        if (strcmp(kind, orders[i].kind) == 0)
            by = orders[i].by;
    if (by == NULL)
        return ais_fault(q, 400, NULL,
                         "\"algorithm.kind\": \"%.40s\": it is none, alphanumeric, md5, "
                         "shuffle or content",
                         kind);
    if (decreasing && strcmp(by, "none") == 0)
        return ais_fault(q, 400, NULL,
                         "\"algorithm.decreasing\": kind none has no direction");
    json_object_set_new(d->args, "by", json_string(by));
    if (decreasing)
        dsort_set(d, "descending", 1);
    if (strcmp(by, "shuffle") == 0)
        return dsort_take_seed(q, algorithm, d);
    return strcmp(by, "content") == 0 ? dsort_take_key(q, algorithm, d) : ERR_OK;
}

/* ---- begun ---- */

static enum err
dsort_take_buckets(struct request *q, struct dsort_spec *d)
{
    const json_t *from = ais_member(q->ais->message, "input_bck");
    const json_t *to = ais_member(q->ais->message, "output_bck");
    const char *name = "";
    enum err rc;

    if (!json_is_object(from))
        return ais_fault(q, 400, NULL, "\"input_bck\": a bucket is wanted");
    if (to != NULL && !json_is_object(to))
        return ais_fault(q, 400, NULL, "\"output_bck\" must be an object");
    rc = ais_bucket_json(q, from, &d->from);
    d->to = d->from;
    if (rc == ERR_OK)
        rc = ais_text(q, to, "name", &name);
    return rc == ERR_OK && name[0] != '\0' ? ais_bucket_json(q, to, &d->to) : rc;
}

static enum err
dsort_take(struct request *q, struct dsort_spec *d)
{
    const char *note;
    bool dry_run = false;
    enum err rc = dsort_refuse_fields(q);

    if (rc == ERR_OK)
        rc = dsort_take_buckets(q, d);
    if (rc == ERR_OK)
        rc = dsort_take_input(q, d);
    if (rc == ERR_OK)
        rc = dsort_take_output(q, d);
    if (rc == ERR_OK)
        rc = dsort_take_algorithm(q, d);
    if (rc == ERR_OK)
        rc = dsort_take_missing(q, d);
    if (rc == ERR_OK)
        rc = ais_text(q, q->ais->message, "description", &note);
    if (rc == ERR_OK)
        rc = ais_flag(q, q->ais->message, "dry_run", &dry_run);
    if (rc != ERR_OK)
        return rc;
    if (strlen(note) > DSORT_NOTE)
        return ais_fault(q, 400, NULL, "\"description\": at most %u bytes", DSORT_NOTE);
    json_object_set_new(d->args, "note", json_string(note));
    if (dry_run)
        dsort_set(d, "dry_run", 1);
    return ERR_OK;
}

static enum err
dsort_begin(struct request *q, struct dsort_spec *d)
{
    const struct map_bucket *from = NULL, *to = NULL;
    struct job_request ask = {.kind = SPAN("reshard"),
                              .user = q->caller.name,
                              .args = d->args,
                              .list = buf_span(&d->list)};
    struct errbuf eb = {{0}};
    char id[JOB_ID_TEXT];
    enum err rc =
        caller_require(q, AUTH_READ | AUTH_LIST, d->from.uname, (struct span){"", 0});

    if (rc == ERR_OK)
        rc = ais_bucket_find(q, &d->from, &from);
    if (rc == ERR_OK)
        rc = ais_bucket_to_write(q, &d->to, true, &to);
    if (rc == ERR_OK) {
        json_object_set_new(d->args, "bucket", json_string(from->uname));
        json_object_set_new(d->args, "to", json_string(to->uname));
    }
    map_bucket_drop(&from);
    map_bucket_drop(&to);
    if (rc != ERR_OK)
        return rc;
    rc = job_begin(q->api->options.jobs, &ask, id, &eb);
    if (rc == ERR_BAD_REQUEST || rc == ERR_TOO_LARGE)
        return ais_fault(q, 400, NULL, "%s", eb.text);
    return rc == ERR_OK
               ? ais_answer_text(
                     q, 200, span_of(arena_printf(q->arena, AIS_DSORT_PREFIX "%s", id)))
               : ais_fault_from(q, rc, &eb);
}

enum err
ais_dsort_start(struct request *q)
{
    struct dsort_spec d = {.input_ext = ""};
    enum err rc = ais_read_message(q);

    if (rc != ERR_OK)
        return rc;
    buf_init(&d.list, JOB_LIST_MAX);
    d.args = json_object();
    rc = dsort_take(q, &d);
    if (rc == ERR_OK)
        rc = dsort_begin(q, &d);
    json_decref(d.args);
    buf_fini(&d.list);
    return rc;
}
