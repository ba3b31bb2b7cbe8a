/* change: objects that are copied and renamed, and their custom properties; buckets that are renamed. */
#include <string.h>

#include "api/ais/jobs.h"
#include "api/ais/ops.h"
#include "api/ais/put.h"
#include "base/log.h"
#include "base/mem.h"
#include "wire/http.h"

#define CUSTOM_MAX   64u   /* pairs */
#define CUSTOM_BYTES 2048u /* of names and values */

/* ---- custom properties ---- */

struct custom {
    const json_t *value;
    bool replace;
};

static bool
is_header_text(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.at[i] < ' ' || s.at[i] == 0x7f)
            return false;
    return true;
}

/* Names and values come back in headers, here and in S3. */
static enum err
check_custom(struct request *q, const json_t *value)
{
    const char *key;
    json_t *v;
    size_t bytes = 0;

    if (!json_is_object(value))
        return ais_fault(q, 400, NULL, "custom properties are an object of texts");
    json_object_foreach((json_t *)(uintptr_t)value, key, v)
    {
        struct span text = span_of(json_string_value(v));

        if (!json_is_string(v))
            return ais_fault(q, 400, NULL, "custom property \"%.64s\" must be text", key);
        if (!http_is_token(span_of(key)) || !is_header_text(text) ||
            text.len != json_string_length(v))
            return ais_fault(q, 400, NULL,
                             "custom property \"%.64s\": a name is a token of HTTP, a "
                             "value has no control characters",
                             key);
        bytes += strlen(key) + text.len;
    }
    if (bytes > CUSTOM_BYTES || json_object_size(value) > CUSTOM_MAX)
        return ais_fault(q, 400, NULL,
                         "custom properties of %zu bytes, at most %u in %u pairs", bytes,
                         CUSTOM_BYTES, CUSTOM_MAX);
    return ERR_OK;
}

/* Sets the pair of that name, or adds one. */
static bool
set_pair(struct object_pair *pairs, uint32_t *count, struct span name, struct span value)
{
    for (uint32_t i = 0; i < *count; i++)
        if (span_eq(pairs[i].name, name)) {
            pairs[i].value = value;
            return true;
        }
    if (*count == CUSTOM_MAX)
        return false;
    pairs[(*count)++] = (struct object_pair){name, value};
    return true;
}

static enum err
edit_custom(struct object_meta *meta, void *arg, struct arena *a, struct errbuf *eb)
{
    const struct custom *c = arg;
    struct object_pair *pairs = arena_alloc(a, CUSTOM_MAX * sizeof *pairs);
    uint32_t count = 0;
    size_t bytes = 0;
    const char *key;
    bool fits = true;
    json_t *v;

    for (uint32_t i = 0; i < meta->user_count && !c->replace; i++)
        fits = fits && set_pair(pairs, &count, meta->user[i].name, meta->user[i].value);
    json_object_foreach((json_t *)(uintptr_t)c->value, key, v) fits =
        fits && set_pair(pairs, &count, arena_span(a, span_of(key)),
                         arena_span(a, span_of(json_string_value(v))));
    for (uint32_t i = 0; i < count; i++)
        bytes += pairs[i].name.len + pairs[i].value.len;
    if (!fits || bytes > CUSTOM_BYTES)
        return err_set(eb, ERR_BAD_REQUEST,
                       "custom properties of over %u bytes or %u pairs", CUSTOM_BYTES,
                       CUSTOM_MAX);
    meta->user = pairs;
    meta->user_count = count;
    return ERR_OK;
}

enum err
ais_set_custom(struct request *q)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct custom c = {.value = q->ais->value,
                       .replace = ais_query_flag(q, "set-new-custom")};
    struct errbuf eb = {{0}};
    enum err rc = check_custom(q, c.value);

    if (rc != ERR_OK)
        return rc;
    rc = object_change_meta(q->api->options.object, q->bucket, q->name.key, NULL, NULL,
                            edit_custom, &c, q->arena, info, &eb);
    return rc == ERR_OK ? ais_answer_empty(q, 200) : ais_fault_from(q, rc, &eb);
}

/* ---- copy ---- */

enum err
ais_copy_object(struct request *q, const struct map_bucket *from, struct span from_key,
                const struct map_bucket *to, struct span to_key, struct errbuf *eb)
{
    struct object_service *s = q->api->options.object;
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct object_put_options o = {.checksum_algorithm = (uint8_t)ais_stored_kind(to)};
    struct object_get *get = NULL;
    struct object_put *put = NULL;
    struct object_meta meta;
    enum err rc = object_get_begin(s, from, from_key, q->arena, info, &get, eb);

    if (rc != ERR_OK)
        return rc;
    meta = info->meta;
    meta.etag_text = meta.backend_version = (struct span){NULL, 0};
    o.size = info->size;
    rc = object_put_begin(s, to, to_key, &o, &put, eb);
    if (rc == ERR_OK)
        rc = object_copy_body(get, 0, info->size, put, eb);
    if (rc == ERR_OK)
        rc = object_next_overwrites(s, to, to_key, &meta.overwrites, eb);
    if (rc == ERR_OK)
        rc = object_put_commit(&put, &meta, q->arena, info, eb);
    object_put_abort(&put);
    object_get_end(&get);
    return rc;
}

/* PUT with object_to: the object of the path is copied to the one that is named. */
enum err
ais_copy_to(struct request *q)
{
    struct ais_bucket name;
    const struct map_bucket *to = NULL;
    struct span object;
    struct errbuf eb = {{0}};
    enum err rc = ais_bucket_uname(q, query_get(&q->query, "object_to"), &name, &object);

    if (rc == ERR_OK)
        rc = ais_object_check(q, object);
    if (rc == ERR_OK)
        rc = caller_require(q, AUTH_PUT_OBJECT, name.uname, object);
    if (rc == ERR_OK && query_get(&q->query, "etl_name").len > 0)
        rc = ais_fault(q, 501, "ErrUnsupp", "transforms (etl_name) are not implemented");
    if (rc == ERR_OK)
        rc = ais_bucket_find(q, &name, &to);
    if (rc != ERR_OK)
        return rc;
    if (to->id != q->bucket->id || !span_eq(object, q->name.key)) {
        rc = ais_copy_object(q, q->bucket, q->name.key, to, object, &eb);
    } else { /* onto itself: it has to be there */
        struct object_info *info = arena_alloc(q->arena, sizeof *info);

        rc = object_head(q->api->options.object, to, object, q->arena, info, &eb);
    }
    map_bucket_drop(&to);
    return rc == ERR_OK ? ais_answer_empty(q, 200) : ais_fault_from(q, rc, &eb);
}

enum err
ais_rename_object(struct request *q)
{
    struct span to = span_of(q->ais->name);
    struct errbuf eb = {{0}};
    enum err rc = ais_object_check(q, to);

    if (rc == ERR_OK && q->bucket->cached)
        rc = ais_fault(q, 501, "ErrUnsupp", "renaming an object of a remote bucket");
    if (rc == ERR_OK && span_eq(to, q->name.key))
        rc = ais_fault(q, 400, NULL, "object \"%.*s\": the new name is the old one",
                       (int)MIN(to.len, 100u), to.at);
    if (rc == ERR_OK)
        rc = caller_require(q, AUTH_MOVE_OBJECT, q->name.bucket, to);
    if (rc != ERR_OK)
        return rc;
    rc = ais_copy_object(q, q->bucket, q->name.key, q->bucket, to, &eb);
    if (rc == ERR_OK)
        rc = object_delete(q->api->options.object, q->bucket, q->name.key, &eb);
    AUDIT(q, "object.rename", rc == ERR_OK ? "ok" : err_name(rc),
          L_SPAN("bucket", q->name.bucket), L_SPAN("object", q->name.key),
          L_SPAN("to", to));
    return rc == ERR_OK ? ais_answer_empty(q, 200) : ais_fault_from(q, rc, &eb);
}

/* Nothing is ever locked: a read that races with an overwrite returns one whole version. */
enum err
ais_check_lock(struct request *q)
{
    return ais_answer_empty(q, 200);
}

/* ---- buckets ---- */

static enum err
move_check(struct request *q, const struct ais_bucket *to)
{
    if (q->bucket->cached || to->provider != MAP_AIS || to->elsewhere)
        return ais_fault(q, 501, "ErrUnsupp",
                         "bucket \"%s\": only buckets of this server are renamed, "
                         "within this server",
                         q->bucket->cached ? q->ais->bucket.text : to->text);
    if (span_is(to->uname, q->bucket->uname))
        return ais_fault(q, 400, NULL, "cannot move-bck bucket \"%s\" onto itself",
                         to->text);
    return caller_require(q, AUTH_MOVE_BUCKET, to->uname, SPAN(""));
}

/* Done at once: no object moves. */
enum err
ais_move_bucket(struct request *q)
{
    struct span rest;
    struct ais_bucket to;
    struct map_bucket_id id;
    struct errbuf eb = {{0}};
    enum err rc = ais_bucket_uname(q, query_get(&q->query, "bck_to"), &to, &rest);

    if (rc == ERR_OK)
        rc = move_check(q, &to);
    if (rc != ERR_OK)
        return rc;
    id = (struct map_bucket_id){.provider = to.provider,
                                .ns = to.ns,
                                .name = to.name,
                                .qualified = !span_eq(to.uname, to.name)};
    rc = rename_bucket(q, q->bucket, &id, &eb);
    if (rc == ERR_EXISTS)
        return ais_fault(q, 409, "ErrBucketAlreadyExists", "bucket \"%s\" already exists",
                         to.text);
    if (rc == ERR_BAD_REQUEST)
        return ais_fault(q, 400, NULL, "%s", eb.text);
    return rc == ERR_OK ? ais_job_done(q, "move-bck", SPAN("ais"), to.name)
                        : ais_fault_from(q, rc, &eb);
}
