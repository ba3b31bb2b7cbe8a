/* props: the properties of a bucket, shown and changed. What this program does not do itself is kept as a property of the
 * bucket and shown again. */
#include <stdlib.h>
#include <string.h>

#include "api/ais/checksum.h"
#include "api/ais/documents.h"
#include "api/ais/ops.h"
#include "base/mem.h"
#include "base/num.h"

#define ALL_ACCESS "18446744073709551615"

/* ---- shown ---- */

static void
put_backend(struct json *j, const struct map_bucket *b)
{
    bool behind = b->cached && b->provider == MAP_AIS; /* named by backend_bck */

    json_open_object(j, "backend_bck");
    json_text(j, "name", behind ? b->backend.bucket : "");
    json_text(j, "provider", !behind ? "" : b->backend.plain_http ? "ht" : "aws");
    json_open_object(j, "namespace");
    json_text(j, "uuid", "");
    json_text(j, "name", "");
    json_end(j);
    json_end(j);
    json_open_object(j, "extra");
    if (b->cached && !b->backend.plain_http) {
        json_open_object(j, behind ? "aws" : map_provider_name(b->provider));
        json_text(j, "endpoint", b->backend.endpoint != NULL ? b->backend.endpoint : "");
        json_text(j, "cloud_region", b->backend.region != NULL ? b->backend.region : "");
        json_end(j);
    }
    json_end(j);
}

void
ais_put_props(struct request *q, struct json *j, const char *key,
              const struct map_bucket *b)
{
    const char *access = map_bucket_property(b, "access");
    const char *features = map_bucket_property(b, "features");

    (void)q;
    json_open_object(j, key);
    put_backend(j, b);
    json_text(j, "provider", map_provider_name(b->provider));
    json_text(j, "Renamed", "");
    ais_put_bucket_sections(j, b);
    json_text(j, "access", access != NULL ? access : ALL_ACCESS);
    json_text(j, "features", features != NULL ? features : "0");
    ais_put_number(j, "bid", b->id);
    ais_put_number(j, "created", (uint64_t)b->created_ms * 1000000u);
    json_end(j);
}

auth_rights
ais_bucket_access(const struct map_bucket *b)
{
    const char *text = b->property_count > 0 ? map_bucket_property(b, "access") : NULL;
    uint64_t bits;

    return text == NULL || num_u64(span_of(text), &bits) != ERR_OK
               ? AUTH_ALL
               : (auth_rights)(bits & AUTH_ALL);
}

/* ---- changed ---- */

/* One "name=value" for each member that is kept. */
struct changes {
    char *at[MAP_PROPERTIES_MAX]; /* in the arena */
    unsigned count;
};

static const struct ais_setting *
setting_of(const char *name)
{
    char text[AIS_SETTING_NAME];

    for (const struct ais_setting *s = ais_settings; s->section != NULL; s++) {
        ais_setting_name(s, text);
        if (strcasecmp(text, name) == 0)
            return s;
    }
    return NULL;
}

static enum err
add_change(struct request *q, struct changes *c, const char *name, const char *value)
{
    if (c->count == MAP_PROPERTIES_MAX || strlen(value) > 512)
        return ais_fault(q, 400, NULL,
                         "bucket property \"%s\": at most %u of up to 512 bytes", name,
                         MAP_PROPERTIES_MAX);
    c->at[c->count++] = arena_printf(q->arena, "%s=%s", name, value);
    return ERR_OK;
}

static enum err
wrong_type(struct request *q, const char *name, char type)
{
    return ais_fault(q, 400, NULL, "bucket property \"%.64s\" must be %s", name,
                     type == 'b'   ? "true or false"
                     : type == 'n' ? "a whole number"
                                   : "text");
}

/* A number, or one in quotes; 64 bits without a sign. */
static enum err
add_bits(struct request *q, struct changes *c, const char *name, const json_t *v)
{
    uint64_t bits = 0;

    if (json_is_integer(v) && json_integer_value(v) >= 0)
        bits = (uint64_t)json_integer_value(v);
    else if (!json_is_string(v) ||
             num_u64(span_of(json_string_value(v)), &bits) != ERR_OK)
        return wrong_type(q, name, 'n');
    return add_change(q, c, name,
                      arena_printf(q->arena, "%llu", (unsigned long long)bits));
}

static enum err
add_setting(struct request *q, struct changes *c, const struct ais_setting *s,
            const char *name, const json_t *v)
{
    enum ais_checksum type;

    if (s->type == 'b' && json_is_boolean(v))
        return add_change(q, c, name, json_is_true(v) ? "true" : "false");
    if (s->type == 'n' && json_is_integer(v) && json_integer_value(v) >= 0)
        return add_change(
            q, c, name, arena_printf(q->arena, "%lld", (long long)json_integer_value(v)));
    if (s->type != 's' || !json_is_string(v))
        return wrong_type(q, name, s->type);
    if (strcmp(name, "checksum.type") == 0 &&
        !ais_checksum_parse(span_of(json_string_value(v)), &type))
        return ais_fault(q, 400, NULL,
                         "checksum type \"%.32s\": it is one of none, xxhash, xxhash2, "
                         "md5, crc32c, sha256, sha512",
                         json_string_value(v));
    return add_change(q, c, name, json_string_value(v));
}

/* Members that are read, not set: a client may send back what it was shown. */
static bool
is_fixed(const char *name)
{
    static const char *const fixed[] = {"provider", "Renamed", "bid",
                                        "created",  "force",   "extra"};

    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        if (strcasecmp(name, fixed[i]) == 0)
            return true;
    return false;
}

/* The remote bucket behind one of ours: it is said when the bucket is made (make.c), and not changed. */
static enum err
check_backend(struct request *q, const json_t *v)
{
    struct ais_bucket b;
    const char *name;
    enum err rc = ais_text(q, v, "name", &name);

    if (rc != ERR_OK || name[0] == '\0')
        return rc;
    rc = ais_bucket_json(q, v, &b);
    if (rc == ERR_OK && b.provider == MAP_AIS)
        rc = ais_fault(q, 400, NULL, "backend bucket \"%s\" must be remote", b.text);
    if (rc != ERR_OK || q->bucket == NULL ||
        (q->bucket->cached && strcmp(name, q->bucket->backend.bucket) == 0))
        return rc;
    return ais_fault(
        q, 501, "ErrUnsupp",
        "backend_bck is said when a bucket is made: destroy \"%s\" and make it "
        "with backend_bck",
        q->ais->bucket.text);
}

/* The object `v`, whose members are at `path`. At most three levels of settings exist. */
static enum err
collect_changes(struct request *q, const json_t *v, const char *path, struct changes *c)
{
    const char *key;
    json_t *member;

    json_object_foreach((json_t *)(uintptr_t)v, key, member)
    {
        const char *name = path[0] != '\0' ? arena_printf(q->arena, "%s.%.64s", path, key)
                                           : arena_printf(q->arena, "%.64s", key);
        const struct ais_setting *s = setting_of(name);
        enum err rc = ERR_OK;
        char own[AIS_SETTING_NAME];

        if (json_is_null(member) || (path[0] == '\0' && is_fixed(name)))
            continue;
        if (strcasecmp(name, "access") == 0 || strcasecmp(name, "features") == 0) {
            rc = add_bits(q, c, strcasecmp(name, "access") == 0 ? "access" : "features",
                          member);
        } else if (strcasecmp(name, "backend_bck") == 0) {
            rc = check_backend(q, member);
        } else if (s != NULL) {
            ais_setting_name(s, own);
            rc = add_setting(q, c, s, own, member);
        } else if (json_is_object(member) && strlen(name) < AIS_SETTING_NAME) {
            rc = collect_changes(q, member, name, c);
        } else {
            rc = ais_fault(q, 400, NULL, "unknown bucket property \"%.64s\"", name);
        }
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

enum err
ais_check_props(struct request *q, const json_t *value)
{
    struct changes *c = arena_alloc(q->arena, sizeof *c);

    if (value != NULL && !json_is_object(value))
        return ais_fault(q, 400, NULL, "bucket properties are an object");
    return value != NULL ? collect_changes(q, value, "", c) : ERR_OK;
}

/* Is it a property of ours? */
static bool
is_ais_property(const char *pair)
{
    const char *equals = strchr(pair, '=');
    char name[AIS_SETTING_NAME];

    if (equals == NULL || (size_t)(equals - pair) >= sizeof name)
        return false;
    memcpy(name, pair, (size_t)(equals - pair));
    name[equals - pair] = '\0';
    return setting_of(name) != NULL || strcmp(name, "access") == 0 ||
           strcmp(name, "features") == 0;
}

static void
drop_property(struct map_bucket *b, unsigned index)
{
    free(b->properties[index]);
    b->properties[index] = b->properties[--b->property_count];
}

static enum err
set_property(struct map_bucket *b, const char *pair, struct errbuf *eb)
{
    size_t name = (size_t)(strchr(pair, '=') - pair) + 1;

    for (unsigned i = b->property_count; i > 0; i--)
        if (strncmp(b->properties[i - 1], pair, name) == 0)
            drop_property(b, i - 1);
    if (b->property_count == MAP_PROPERTIES_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "a bucket has at most %u properties",
                       MAP_PROPERTIES_MAX);
    if (b->properties == NULL)
        b->properties = xcalloc(MAP_PROPERTIES_MAX, sizeof *b->properties);
    b->properties[b->property_count++] = xstrdup(pair);
    return ERR_OK;
}

static enum err
edit_set(struct map_bucket *b, void *arg, struct errbuf *eb)
{
    const struct changes *c = arg;
    enum err rc = ERR_OK;

    for (unsigned i = 0; i < c->count && rc == ERR_OK; i++)
        rc = set_property(b, c->at[i], eb);
    return rc;
}

static enum err
edit_reset(struct map_bucket *b, void *arg, struct errbuf *eb)
{
    (void)arg;
    (void)eb;
    for (unsigned i = b->property_count; i > 0; i--)
        if (is_ais_property(b->properties[i - 1]))
            drop_property(b, i - 1);
    return ERR_OK;
}

enum err
ais_set_props(struct request *q, const json_t *value)
{
    struct changes *c = arena_alloc(q->arena, sizeof *c);
    struct errbuf eb = {{0}};
    enum err rc;

    if (!json_is_object(value))
        return ais_fault(q, 400, NULL, "bucket properties are an object");
    rc = collect_changes(q, value, "", c);
    if (rc == ERR_OK && ais_member(value, "access") != NULL)
        rc = ais_require(q, AIS_ON_BUCKET, AUTH_SET_BUCKET_ACL);
    if (rc != ERR_OK || c->count == 0)
        return rc;
    rc = change_bucket(q, q->bucket, edit_set, c, &eb);
    return rc == ERR_OK ? ERR_OK : ais_fault_from(q, rc, &eb);
}

enum err
ais_patch_bucket(struct request *q)
{
    enum err rc = ais_set_props(q, q->ais->value);

    return rc == ERR_OK ? ais_answer_empty(q, 200) : rc;
}

enum err
ais_reset_bucket(struct request *q)
{
    struct errbuf eb = {{0}};
    enum err rc = change_bucket(q, q->bucket, edit_reset, NULL, &eb);

    return rc == ERR_OK ? ais_answer_empty(q, 200) : ais_fault_from(q, rc, &eb);
}
