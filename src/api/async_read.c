/* once: GETs of small objects that no memory holds, answered without a fiber: looked up and read as the request comes,
 * answered as the disk does. The head is made by the same functions as any; whatever is unusual goes the long way. */
#include "api/response_cache.h"
#include "api/s3/s3.h"
#include "rt/loop.h"

struct once {
    struct object_async_read get;
    struct request q;
    struct object_info info;
};

static void
async_read_end(struct once *o)
{
    object_async_read_end(&o->get);
    map_bucket_drop(&o->q.bucket);
}

static void
async_read_release(void *once)
{
    async_read_end(once);
}

static bool
reply(struct once *o, struct span body)
{
    struct http_request *http = o->q.http;

    object_async_read_info(&o->get, &o->info);
    s3_put_found_headers(&o->q, &o->info);
    http_reply_headroom(
        http, (size_t)(body.at - o->get.at.at.buf->at)); /* verified, and read */
    return http_reply_zero_copy(http, 200, &body, 1, async_read_release, o) == ERR_OK;
}

static void
async_read_on_done(struct store_async_read *read, bool good)
{
    struct once *o = CONTAINER_OF(read, struct once, get.at.at);
    struct http_request *http = o->q.http;

    if (good) {
        good = reply(o, read->bytes); /* what could not be sent was given back */
    } else {
        async_read_end(o);
    }
    http_deferred_done(http, good);
}

/* A disk that does not answer holds up neither the end of a server nor that of a connection. */
static void
on_abandon(struct http_request *http)
{
    struct once *o = CONTAINER_OF((struct request *)http->user, struct once, q);

    store_async_read_abandon(&o->get.at.at);
    async_read_end(o);
}

static bool
async_read_find(struct once *o)
{
    struct request *q = &o->q;
    const struct map_bucket *b;

    if (request_split_name(q) != ERR_OK || !q->front->serves_objects ||
        q->name.key.len == 0 || !gate_may_read(q))
        return false;
    b = map_bucket_find(map_now(q->api->options.map), q->name.bucket);
    if (b == NULL)
        return false;
    q->bucket = map_bucket_ref(b);
    if (object_async_read_begin(q->api->options.object, b, q->name.key, &o->get))
        return true;
    map_bucket_drop(&q->bucket);
    return false;
}

bool
async_read_begin(struct api *a, struct http_request *http)
{
    bool is_signed = http_get(http->head, HTTP_AUTHORIZATION).at != NULL;
    struct once *o;

    if (!request_is_plain_get(http, is_signed))
        return false;
    o = arena_alloc(http->arena, sizeof *o);
    o->q = (struct request){.api = a, .http = http, .arena = http->arena, .op = OP_get};
    o->get.at.at.on_done = async_read_on_done;
    if (!async_read_find(o))
        return false;
    http->user = &o->q;
    http_defer(http, on_abandon);
    return true;
}
