/* head: HEAD of objects: all that is known (v1), or the properties that are asked for (v2, `props`). */
#include <string.h>

#include "api/ais/ops.h"
#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/num.h"

#define HEAD_PROP_TABLE(X)                                                               \
    X(NAME, "name")                                                                      \
    X(SIZE, "size")                                                                      \
    X(CHECKSUM, "checksum")                                                              \
    X(ATIME, "atime")                                                                    \
    X(VERSION, "version")                                                                \
    X(CUSTOM, "custom")                                                                  \
    X(LAST_MODIFIED, "last-modified")                                                    \
    X(ETAG, "etag")                                                                      \
    X(LOCATION, "location")                                                              \
    X(COPIES, "copies")                                                                  \
    X(EC, "ec")                                                                          \
    X(CHUNKED, "chunked")
enum head_prop {
#define X(id, name) HEAD_##id,
    HEAD_PROP_TABLE(X)
#undef X
        HEAD_PROPS_
};
#define BIT(prop) (1u << HEAD_##prop)
#define ALL_OF_V1                                                                        \
    (BIT(NAME) | BIT(SIZE) | BIT(CHECKSUM) | BIT(ATIME) | BIT(VERSION) | BIT(CUSTOM) |   \
     BIT(LOCATION) | BIT(COPIES))

static enum err
head_take_props(struct request *q, unsigned *out)
{
    static const char *const names[HEAD_PROPS_] = {
#define X(id, name) [HEAD_##id] = (name),
        HEAD_PROP_TABLE(X)
#undef X
    };
    struct span rest = query_get(&q->query, "props");

    *out = rest.len == 0 ? ALL_OF_V1 : 0;
    while (rest.len > 0) {
        const char *comma = span_find(rest, ',');
        size_t len = comma != NULL ? (size_t)(comma - rest.at) : rest.len;
        struct span name = span_trim((struct span){rest.at, len});
        unsigned i = 0;

        rest = span_from(rest, len + 1);
        while (i < HEAD_PROPS_ && !span_is(name, names[i]))
            i++;
        if (i == HEAD_PROPS_ && name.len > 0)
            return ais_fault(q, 400, NULL, "invalid object property \"%.*s\"",
                             (int)MIN(name.len, 64u), name.at);
        *out |= name.len > 0 ? 1u << i : 0;
    }
    return ERR_OK;
}

/* An object that was uploaded in parts. */
static enum err
head_put_chunks(struct request *q, const struct object_info *info)
{
    struct object_info *again = arena_alloc(q->arena, sizeof *again);
    struct object_part_place *parts = NULL;
    struct object_get *get = NULL;
    struct errbuf eb = {{0}};
    uint64_t largest = 0;
    uint32_t count = 0;
    enum err rc;

    if (info->meta.parts == 0 || q->bucket->cached)
        return ERR_OK;
    rc = object_get_begin(q->api->options.object, q->bucket, q->name.key, q->arena, again,
                          &get, &eb);
    if (rc == ERR_OK)
        rc = object_parts(get, request_work(q), &parts, &count, &eb);
    object_get_end(&get);
    if (rc != ERR_OK)
        return ais_fault_from(q, rc, &eb);
    for (uint32_t i = 0; i < count; i++)
        largest = MAX(largest, parts[i].size);
    if (count == 0)
        return ERR_OK;
    http_header_u64(q->http, "ais-chunks-count", count);
    http_header_u64(q->http, "ais-chunks-max-chunk-size", largest);
    return ERR_OK;
}

static void
put_identity(struct request *q)
{
    http_header(q->http, "ais-name", q->ais->object);
    http_header(q->http, "ais-bucket-name", q->ais->bucket.name);
    http_header(q->http, "ais-bucket-provider",
                span_of(map_provider_name(q->bucket->provider)));
}

static void
put_places(struct request *q, unsigned props)
{
    struct ais_ids ids;

    ais_ids(q->api, &ids);
    if ((props & BIT(LOCATION)) != 0)
        http_headerf(q->http, "ais-location", "t[%s]:mp", ids.target);
    if ((props & BIT(COPIES)) != 0) {
        http_header_u64(q->http, "ais-mirror-copies", MAX(q->bucket->copies, 1u));
        http_header(q->http, "ais-mirror-paths", SPAN("[]"));
    }
}

static enum err
put_asked(struct request *q, const struct object_info *info, unsigned props)
{
    char date[NUM_DATE_TEXT];

    if ((props & BIT(NAME)) != 0)
        put_identity(q);
    if ((props & BIT(CHECKSUM)) != 0)
        ais_put_checksum(q, info);
    if ((props & BIT(ATIME)) != 0)
        ais_put_atime(q, info);
    if ((props & BIT(VERSION)) != 0)
        ais_put_version(q, info);
    if ((props & BIT(CUSTOM)) != 0)
        ais_put_custom(q, info);
    if ((props & BIT(LAST_MODIFIED)) != 0) {
        date_http(info->mtime_ms / 1000, date);
        http_header(q->http, "last-modified", span_of(date));
    }
    if ((props & BIT(ETAG)) != 0)
        s3_put_etag(q, info->etag);
    put_places(q, props);
    return (props & BIT(CHUNKED)) != 0 ? head_put_chunks(q, info) : ERR_OK;
}

/* Is all of it here? A remote object that is not cached is not. */
static bool
object_is_here(struct request *q)
{
    struct object_present here;
    struct errbuf eb = {{0}};

    return !q->bucket->cached || (object_present(q->api->options.object, q->bucket,
                                                 q->name.key, &here, &eb) == ERR_OK &&
                                  here.here == here.size);
}

enum err
ais_head_object(struct request *q)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct errbuf eb = {{0}};
    unsigned props;
    bool present;
    enum err rc = head_take_props(q, &props);

    if (rc != ERR_OK)
        return rc;
    rc = object_head(q->api->options.object, q->bucket, q->name.key, q->arena, info, &eb);
    if (rc != ERR_OK)
        return ais_fault_from(q, rc, &eb);
    present = object_is_here(q);
    request_put_ids(q);
    rc = put_asked(q, info, props);
    if (rc != ERR_OK)
        return rc;
    http_header(q->http, "ais-present", present ? SPAN("true") : SPAN("false"));
    http_header(q->http, "accept-ranges", SPAN("bytes"));
    rc = http_reply_begin(q->http, 200, (int64_t)info->size);
    if (rc == ERR_OK)
        http_reply_end(q->http);
    return ERR_OK;
}
