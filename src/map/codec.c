#include "map/codec.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "wire/record.h"

/* docs/formats.md, section "bucket record". */
enum { KIND_BUCKET = 32, VERSION = 1 };
enum {
    F_ID = 1,
    F_NAME = 2,
    F_BIRTH_NAME = 3,
    F_CREATED_MS = 4,
    F_CACHED = 5,
    F_COPIES = 6,
    F_VERSIONING = 7,
    F_ANONYMOUS_READ = 8,
    F_CORS = 9,
    F_TAGS = 10,
    F_MIN_COPIES = 11,
    F_QUOTA_BYTES = 12,
    F_QUOTA_OBJECTS = 13,
    F_CACHE_BUDGET = 14,
    F_TTL_MS = 15,
    F_ENDPOINT = 16,
    F_REGION = 17,
    F_REMOTE = 18,
    F_CREDENTIALS = 19,
    F_PATH_STYLE = 20,
    F_FAIL_STALE = 21,
    F_PIN = 22,
    F_PLAIN_HTTP = 24,
    F_REQUESTER_PAYS = 25,
    F_NETWORK = 26,
    F_PROVIDER = 27,
    F_NAMESPACE = 28,
    F_QUALIFIED = 29,
    F_CLOSING = 30,
    F_PROPERTY = 31,
    F_OWNER = 40,
    F_ACL = 41,
    F_POLICY = 42,
    F_OWNERSHIP = 43,
    F_PUBLIC_BLOCK = 44,
    F_UPLOAD_TTL_MS = 45,
};
static_assert(MAP_AIS == 0 && MAP_HTTP == 4 && MAP_OCI == 5,
              "providers are stored as numbers");

struct span
map_uname(const struct map_bucket_id *id, char out[MAP_UNAME_MAX + 1])
{
    int n = id->qualified ? snprintf(out, MAP_UNAME_MAX + 1, "%s@%.*s@%.*s",
                                     map_provider_name(id->provider), SPAN_ARG(id->ns),
                                     SPAN_ARG(id->name))
                          : snprintf(out, MAP_UNAME_MAX + 1, "%.*s", SPAN_ARG(id->name));

    assert(id->provider < MAP_PROVIDERS_);
    assert(id->name.len <= MAP_BUCKET_NAME_MAX);
    assert(id->ns.len <= MAP_NAMESPACE_MAX);
    assert(n >= 0);
    assert(n <= (int)MAP_UNAME_MAX);
    return (struct span){out, (size_t)MIN(n, MAP_UNAME_MAX)};
}

enum map_provider
map_provider_of(const struct map_backend *backend)
{
    return backend == NULL ? MAP_AIS : backend->plain_http ? MAP_HTTP : MAP_AWS;
}

static void
put_text(struct record_writer *w, uint8_t id, const char *text)
{
    if (text != NULL)
        record_put_span(w, id, span_of(text));
}

/* Zero is what an absent number reads as. */
static void
put_number(struct record_writer *w, uint8_t id, uint64_t n)
{
    if (n != 0)
        record_put_u64(w, id, n);
}

void
map_bucket_encode(const struct map_bucket *b, struct buf *out)
{
    struct record_writer w;

    assert(b->id > 0);
    assert(b->pin_count <= MAP_PINS_MAX);
    assert(b->property_count <= MAP_PROPERTIES_MAX);
    record_begin(&w, out, KIND_BUCKET, VERSION);
    record_put_u64(&w, F_ID, b->id);
    put_text(&w, F_NAME, b->name);
    put_text(&w, F_BIRTH_NAME, b->immutable_name);
    record_put_u64(&w, F_CREATED_MS, (uint64_t)b->created_ms);
    if (b->cached)
        record_put_u64(&w, F_CACHED, 1);
    put_number(&w, F_COPIES, b->copies);
    put_number(&w, F_VERSIONING, b->versioning);
    put_number(&w, F_ANONYMOUS_READ, b->anonymous_read);
    put_text(&w, F_CORS, b->cors);
    put_text(&w, F_TAGS, b->tags);
    put_number(&w, F_MIN_COPIES, b->min_copies);
    put_number(&w, F_QUOTA_BYTES, b->quota_bytes);
    put_number(&w, F_QUOTA_OBJECTS, b->quota_objects);
    put_number(&w, F_CACHE_BUDGET, b->cache_budget);
    put_number(&w, F_TTL_MS, b->ttl_ms);
    if (b->cached) {
        put_text(&w, F_ENDPOINT, b->backend.endpoint);
        put_text(&w, F_REGION, b->backend.region);
        put_text(&w, F_REMOTE, b->backend.bucket);
        put_text(&w, F_CREDENTIALS, b->backend.credentials);
        record_put_u64(&w, F_PATH_STYLE, b->backend.path_style);
    }
    put_number(&w, F_FAIL_STALE, b->fail_stale);
    for (unsigned i = 0; i < b->pin_count; i++)
        put_text(&w, F_PIN, b->pins[i]);
    if (b->cached) { /* fields stand in the order of their numbers */
        put_number(&w, F_PLAIN_HTTP, b->backend.plain_http);
        put_number(&w, F_REQUESTER_PAYS, b->backend.requester_pays);
        put_number(&w, F_NETWORK, b->backend.network);
    }
    if (b->provider != map_provider_of(b->cached ? &b->backend : NULL))
        record_put_u64(&w, F_PROVIDER, b->provider);
    if (b->ns != NULL && b->ns[0] != '\0')
        put_text(&w, F_NAMESPACE, b->ns);
    put_number(&w, F_QUALIFIED, b->qualified);
    put_number(&w, F_CLOSING, b->closing);
    for (unsigned i = 0; i < b->property_count; i++)
        put_text(&w, F_PROPERTY, b->properties[i]);
    put_text(&w, F_OWNER, b->owner);
    put_text(&w, F_ACL, b->acl);
    put_text(&w, F_POLICY, b->policy);
    put_number(&w, F_OWNERSHIP, b->ownership);
    put_number(&w, F_PUBLIC_BLOCK, b->public_block);
    put_number(&w, F_UPLOAD_TTL_MS, b->upload_ttl_ms);
    record_end(&w);
}

static char *
get_text(const struct record *r, uint8_t id)
{
    struct span s;

    return record_find(r, id, &s) ? xmemdup0(s.at, s.len) : NULL;
}

static enum err
get_u64(const struct record *r, uint8_t id, uint64_t *out)
{
    struct span s;

    *out = 0;
    return record_find(r, id, &s) ? record_u64(s, out) : ERR_OK;
}

/* The texts of a repeated field. */
static enum err
get_texts(struct record r, uint8_t wanted, unsigned max, size_t bytes_max, char ***out,
          unsigned *count)
{
    struct span field;
    size_t bytes = 0;
    uint8_t id;

    while (record_next(&r, &id, &field)) {
        if (id != wanted)
            continue;
        bytes += field.len;
        if (*count == max || bytes > bytes_max ||
            memchr(field.at, '\0', field.len) != NULL)
            return ERR_CORRUPT;
        if (*out == NULL)
            *out = xcalloc(max, sizeof **out);
        (*out)[(*count)++] = xmemdup0(field.at, field.len);
    }
    return ERR_OK;
}

/* Who the bucket is. A record without these fields is of the flat space. */
static enum err
get_identity(const struct record *r, struct map_bucket *b)
{
    uint64_t provider = map_provider_of(b->cached ? &b->backend : NULL), qualified;
    struct span field;
    char uname[MAP_UNAME_MAX + 1];
    struct map_bucket_id id;

    if ((record_find(r, F_PROVIDER, &field) && record_u64(field, &provider) != ERR_OK) ||
        provider >= MAP_PROVIDERS_ || get_u64(r, F_QUALIFIED, &qualified) != ERR_OK ||
        qualified > 1)
        return ERR_CORRUPT;
    b->provider = (enum map_provider)provider;
    b->qualified = qualified != 0;
    b->ns = get_text(r, F_NAMESPACE);
    if (b->ns == NULL)
        b->ns = xstrdup("");
    if (b->name == NULL || strlen(b->name) > MAP_BUCKET_NAME_MAX ||
        strlen(b->ns) > MAP_NAMESPACE_MAX || (b->ns[0] != '\0' && !b->qualified))
        return ERR_CORRUPT;
    id = (struct map_bucket_id){.provider = b->provider,
                                .ns = span_of(b->ns),
                                .name = span_of(b->name),
                                .qualified = b->qualified};
    (void)map_uname(&id, uname);
    b->uname = xstrdup(uname);
    return ERR_OK;
}

/* Who owns the bucket, and who may do what in it. A policy that this program cannot read is an error: without it a Deny would
 * be lost. */
static enum err
get_access(const struct record *r, struct map_bucket *b, struct errbuf *eb)
{
    uint64_t ownership, block;
    struct span policy;

    b->owner = get_text(r, F_OWNER);
    b->acl = get_text(r, F_ACL);
    if (get_u64(r, F_OWNERSHIP, &ownership) != ERR_OK ||
        ownership > MAP_BUCKET_OWNER_ENFORCED ||
        get_u64(r, F_PUBLIC_BLOCK, &block) != ERR_OK || block >= 2 * MAP_BLOCK_SET)
        return ERR_CORRUPT;
    b->ownership = (enum map_ownership)ownership;
    b->public_block = (unsigned)block;
    if (!record_find(r, F_POLICY, &policy))
        return ERR_OK;
    return map_bucket_set_policy(b, policy, eb) == ERR_OK ? ERR_OK : ERR_CORRUPT;
}

enum err
map_bucket_set_policy(struct map_bucket *b, struct span json, struct errbuf *eb)
{
    struct s3policy *parsed = NULL;
    enum err rc = ERR_OK;

    assert(b->name != NULL);
    if (json.len > 0)
        rc = s3policy_parse(json, span_of(b->name), &parsed, eb);
    if (rc != ERR_OK)
        return rc;
    s3policy_free((struct s3policy **)&b->parsed_policy);
    free(b->policy);
    b->parsed_policy = parsed;
    b->policy = json.len > 0 ? xmemdup0(json.at, json.len) : NULL;
    assert((b->policy != NULL) == (b->parsed_policy != NULL));
    return ERR_OK;
}

/* ERR_CORRUPT when a setting is out of range. */
static enum err
get_settings(const struct record *r, struct map_bucket *b)
{
    uint64_t copies, min_copies, versioning, anonymous_read, fail_stale, closing;

    b->cors = get_text(r, F_CORS);
    b->tags = get_text(r, F_TAGS);
    if (get_u64(r, F_COPIES, &copies) != ERR_OK || copies > UINT16_MAX ||
        get_u64(r, F_MIN_COPIES, &min_copies) != ERR_OK || min_copies > MAX(copies, 1u) ||
        get_u64(r, F_VERSIONING, &versioning) != ERR_OK || versioning > MAP_SUSPENDED ||
        get_u64(r, F_ANONYMOUS_READ, &anonymous_read) != ERR_OK || anonymous_read > 1 ||
        get_u64(r, F_QUOTA_BYTES, &b->quota_bytes) != ERR_OK ||
        get_u64(r, F_QUOTA_OBJECTS, &b->quota_objects) != ERR_OK ||
        get_u64(r, F_CACHE_BUDGET, &b->cache_budget) != ERR_OK ||
        get_u64(r, F_TTL_MS, &b->ttl_ms) != ERR_OK ||
        get_u64(r, F_UPLOAD_TTL_MS, &b->upload_ttl_ms) != ERR_OK ||
        get_u64(r, F_FAIL_STALE, &fail_stale) != ERR_OK || fail_stale > 1 ||
        get_u64(r, F_CLOSING, &closing) != ERR_OK || closing > 1)
        return ERR_CORRUPT;
    b->copies = (unsigned)copies;
    b->min_copies = (unsigned)min_copies;
    b->versioning = (enum map_versioning)versioning;
    b->anonymous_read = anonymous_read != 0;
    b->fail_stale = fail_stale != 0;
    b->closing = closing != 0;
    return ERR_OK;
}

enum err
map_bucket_decode(struct span bytes, struct map_bucket **out, struct errbuf *eb)
{
    struct record r;
    struct map_bucket *b;
    uint64_t created = 0, cached = 0, path_style = 0, plain = 0, pays = 0, network = 0;
    enum err rc = record_open(bytes, &r, eb);

    *out = NULL;
    if (rc != ERR_OK)
        return rc;
    if (r.kind != KIND_BUCKET || r.version != VERSION)
        return err_set(
            eb, ERR_CORRUPT,
            "a bucket record of kind %u, version %u; this program reads %u, %u", r.kind,
            r.version, KIND_BUCKET, VERSION);
    b = xcalloc(1, sizeof *b);
    b->refs = 1;
    if (get_u64(&r, F_ID, &b->id) != ERR_OK ||
        get_u64(&r, F_CREATED_MS, &created) != ERR_OK ||
        get_u64(&r, F_CACHED, &cached) != ERR_OK ||
        get_u64(&r, F_PATH_STYLE, &path_style) != ERR_OK ||
        get_u64(&r, F_PLAIN_HTTP, &plain) != ERR_OK ||
        get_u64(&r, F_REQUESTER_PAYS, &pays) != ERR_OK ||
        get_u64(&r, F_NETWORK, &network) != ERR_OK || network > MAP_NETWORK_ANY ||
        get_settings(&r, b) != ERR_OK ||
        get_texts(r, F_PIN, MAP_PINS_MAX, MAP_PIN_BYTES, &b->pins, &b->pin_count) !=
            ERR_OK ||
        get_texts(r, F_PROPERTY, MAP_PROPERTIES_MAX, MAP_PROPERTY_BYTES_MAX,
                  &b->properties, &b->property_count) != ERR_OK)
        rc = ERR_CORRUPT;
    b->created_ms = (int64_t)created;
    b->cached = cached != 0;
    b->name = get_text(&r, F_NAME);
    b->immutable_name = get_text(&r, F_BIRTH_NAME);
    b->backend = (struct map_backend){
        .endpoint = get_text(&r, F_ENDPOINT),
        .region = get_text(&r, F_REGION),
        .bucket = get_text(&r, F_REMOTE),
        .credentials = get_text(&r, F_CREDENTIALS),
        .path_style = path_style != 0,
        .plain_http = plain != 0,
        .requester_pays = pays != 0,
        .network = (enum map_network)network,
    };
    if (rc == ERR_OK)
        rc = get_identity(&r, b);
    if (rc == ERR_OK)
        rc = get_access(&r, b, eb);
    if (rc != ERR_OK || b->id == 0 || b->uname == NULL || b->immutable_name == NULL ||
        (b->cached && b->backend.bucket == NULL)) {
        map_bucket_drop((const struct map_bucket **)&b);
        return err_set(eb, ERR_CORRUPT,
                       "a bucket record lacks its id, its names or its remote, or a "
                       "setting is out of range");
    }
    assert(b->refs == 1);
    *out = b;
    return ERR_OK;
}
