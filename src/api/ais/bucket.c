/* bucket: buckets as AIS names them, and where they are in the map.
 *
 * A bucket of the global namespace is of the flat space that S3 has, where a name exists once: the first of "ais://x" and
 * "aws://x" has it. The second, and every bucket of a namespace, is qualified: only AIS reaches it. */
#include "api/ais/ais.h"

#include "base/mem.h"
#include "base/utf8.h"

#define GLOBAL "@#"

bool
ais_provider_of(struct span text, enum map_provider *out)
{
    static const struct {
        const char *name;
        enum map_provider provider;
    } names[] = {
        {"", MAP_AIS},    {"ais", MAP_AIS}, {"aws", MAP_AWS},     {"s3", MAP_AWS},
        {"gcp", MAP_GCP}, {"gs", MAP_GCP},  {"azure", MAP_AZURE}, {"az", MAP_AZURE},
        {"oci", MAP_OCI}, {"oc", MAP_OCI},  {"ht", MAP_HTTP},     {"http", MAP_HTTP},
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (span_is(text, names[i].name)) {
            *out = names[i].provider;
            return true;
        }
    return false;
}

static bool
is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_' || c == '.';
}

static bool
is_bucket_name(struct span name)
{
    bool only_dots = true;

    if (name.len == 0 || name.len > MAP_BUCKET_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        if (!is_name_char(name.at[i]) ||
            (i > 0 && name.at[i] == '.' && name.at[i - 1] == '.'))
            return false;
        only_dots = only_dots && name.at[i] == '.';
    }
    if (name.at[0] == '.') /* reserved for buckets of the system */
        return span_is(name, ".sys-inventory") || span_is(name, ".sys-shardidx");
    return !only_dots;
}

/* "@uuid#name", "@#" and "" of a query. */
static enum err
take_namespace(struct request *q, struct span text, struct ais_bucket *out)
{
    const char *hash = span_find(text, '#');
    struct span uuid = {"", 0}, name = text;

    if (text.len > 0 && text.at[0] == '@') {
        name = hash != NULL ? span_from(text, (size_t)(hash - text.at) + 1) : SPAN("");
        uuid = (struct span){text.at + 1,
                             (hash != NULL ? (size_t)(hash - text.at) : text.len) - 1};
    }
    for (size_t i = 0; i < name.len; i++)
        if (!is_name_char(name.at[i]) || name.len > MAP_NAMESPACE_MAX)
            return ais_fault(q, 400, NULL,
                             "namespace \"%.*s\": names are up to %u letters, digits, "
                             "'-', '_' and '.'",
                             (int)MIN(text.len, 100u), text.at, MAP_NAMESPACE_MAX);
    if (uuid.len > 0) {
        struct ais_ids ids;

        ais_ids(q->api, &ids);
        out->elsewhere = !span_is(uuid, ids.cluster);
    }
    out->ns = name;
    return ERR_OK;
}

static const char *
make_text(struct arena *a, enum map_provider p, struct span ns, struct span name)
{
    return ns.len > 0
               ? arena_printf(a, "%s://@#%.*s/%.*s", map_provider_name(p), SPAN_ARG(ns),
                              SPAN_ARG(name))
               : arena_printf(a, "%s://%.*s", map_provider_name(p), SPAN_ARG(name));
}

const char *
ais_bucket_text(struct arena *a, const struct map_bucket *b)
{
    return make_text(a, b->provider, span_of(b->ns), span_of(b->name));
}

/* The name in the map: of the flat space where the name there is this bucket's, or is free and no qualified bucket is
 * this one. */
static void
find_uname(struct request *q, struct ais_bucket *b)
{
    const struct map *m = map_now(q->api->options.map);
    const struct map_bucket *flat = map_bucket_find(m, b->name);
    char text[MAP_UNAME_MAX + 1];
    struct map_bucket_id id = {
        .provider = b->provider, .ns = b->ns, .name = b->name, .qualified = true};
    struct span qualified = map_uname(&id, text);

    if (b->ns.len == 0 && (flat != NULL ? flat->provider == b->provider
                                        : map_bucket_find(m, qualified) == NULL))
        b->uname = b->name;
    else
        b->uname = arena_span(q->arena, qualified);
}

enum err
ais_bucket_name(struct request *q, struct span provider, struct span ns, struct span name,
                struct ais_bucket *out)
{
    enum err rc;

    *out = (struct ais_bucket){.name = name};
    if (!ais_provider_of(provider, &out->provider))
        return ais_fault(q, 400, NULL,
                         "provider \"%.*s\": it is one of ais, aws, gcp, azure, oci, ht",
                         (int)MIN(provider.len, 40u), provider.at);
    if (!is_bucket_name(name))
        return ais_fault(
            q, 400, NULL,
            "bucket name \"%.*s\": names are 1 to %u letters, digits, '-', '_' and '.', "
            "without \"..\" and without '.' in front",
            (int)MIN(name.len, 100u), name.at, MAP_BUCKET_NAME_MAX);
    rc = take_namespace(q, ns, out);
    if (rc != ERR_OK)
        return rc;
    out->text = make_text(q->arena, out->provider, out->ns, out->name);
    find_uname(q, out);
    return ERR_OK;
}

enum err
ais_bucket_uname(struct request *q, struct span uname, struct ais_bucket *out,
                 struct span *object)
{
    struct span part[3] = {{"", 0}, {"", 0}, {"", 0}}, rest = uname;

    for (size_t i = 0; i < ARRAY_LEN(part); i++) {
        const char *slash = span_find(rest, '/');

        if (slash == NULL && i < 2)
            return ais_fault(q, 400, NULL,
                             "bucket \"%.*s\": the form is PROVIDER/NAMESPACE/BUCKET/",
                             (int)MIN(uname.len, 100u), uname.at);
        part[i] =
            (struct span){rest.at, slash != NULL ? (size_t)(slash - rest.at) : rest.len};
        rest = span_from(rest, part[i].len + 1);
    }
    *object = rest;
    return ais_bucket_name(q, part[0], part[1], part[2], out);
}

enum err
ais_bucket_json(struct request *q, const json_t *o, struct ais_bucket *out)
{
    const char *name, *provider, *ns = "", *uuid = "";
    const json_t *space = ais_member(o, "namespace");
    enum err rc = ais_text(q, o, "name", &name);

    if (!json_is_object(o) || (space != NULL && !json_is_object(space)))
        return ais_fault(q, 400, NULL,
                         "a bucket is {\"name\", \"provider\", \"namespace\"}");
    if (rc == ERR_OK)
        rc = ais_text(q, o, "provider", &provider);
    if (rc == ERR_OK && space != NULL)
        rc = ais_text(q, space, "name", &ns);
    if (rc == ERR_OK && space != NULL)
        rc = ais_text(q, space, "uuid", &uuid);
    if (rc != ERR_OK)
        return rc;
    return ais_bucket_name(q, span_of(provider),
                           span_of(arena_printf(q->arena, "@%s#%s", uuid, ns)),
                           arena_span(q->arena, span_of(name)), out);
}

void
ais_bucket_put(struct json *j, const char *key, const struct map_bucket *b)
{
    json_open_object(j, key);
    json_text(j, "name", b->name);
    json_text(j, "provider", map_provider_name(b->provider));
    json_open_object(j, "namespace");
    json_text(j, "uuid", "");
    json_text(j, "name", b->ns);
    json_end(j);
    json_end(j);
}

enum err
ais_bucket_find(struct request *q, const struct ais_bucket *b,
                const struct map_bucket **out)
{
    const struct map_bucket *found =
        b->elsewhere ? NULL : map_bucket_find(map_now(q->api->options.map), b->uname);

    *out = NULL;
    if (found == NULL || found->provider != b->provider)
        return ais_no_bucket(q, b);
    *out = map_bucket_ref(found);
    return ERR_OK;
}

/* No element of "." or "..", no slash at the end. */
static bool
has_odd_element(struct span name)
{
    while (name.len > 0) {
        const char *slash = span_find(name, '/');
        struct span e = {name.at, slash != NULL ? (size_t)(slash - name.at) : name.len};

        if (span_is(e, ".") || span_is(e, ".."))
            return true;
        name = span_from(name, e.len + 1);
    }
    return false;
}

enum err
ais_object_check(struct request *q, struct span object)
{
    const char *why = NULL;

    if (object.len == 0 || object.len > OBJECT_KEY_MAX)
        why = "names have 1 to 1024 bytes";
    else if (object.at[object.len - 1] == '/')
        why = "a name does not end in '/'";
    else if (span_starts(object, SPAN("~/")) || has_odd_element(object))
        why = "no element is \".\" or \"..\", and no name begins with \"~/\"";
    else if (!utf8_valid(object))
        why = "a name is UTF-8";
    return why == NULL ? ERR_OK
                       : ais_fault(q, 400, NULL, "object name \"%.*s\": %s",
                                   (int)MIN(object.len, 100u), object.at, why);
}
