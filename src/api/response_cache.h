/* response_cache: the rendered heads of GETs of objects of up to 1 MiB that the block cache holds (docs/decisions/0004).
 *
 * Each loop has a table of its own, keyed by Host and raw target. A cached response says which entry of the object it was
 * made of and which caller it was given to; inline_get.c checks both before it serves it. It is good while the buckets and their
 * settings (map_serial), the object's entry and, for a signed one, the users (auth_serial) are the same.
 *
 * Threads: any loop; a table is its loop's alone. Memory: at most 1/8 of the block cache's, touched as the tables fill.
 */
#pragma once
#include "api/internal.h"
#include "object/object.h"

#define CACHED_RESPONSE_TEXT 672u /* host, target and head */

struct cached_response {
    struct object_revalidated object; /* what is looked at first is in front */
    uint64_t map_serial;
    uint64_t
        users; /* auth_serial() when the response was made for `key`; 0: it was for none */
    const struct auth_key
        *key; /* only compared, and only while `users` is auth_serial() */
    uint16_t host_len, target_len;
    uint16_t head_len, lines_at; /* of http_template_make() */
    bool to_anonymous;           /* an unsigned request was given it */
    bool on_loopback;            /* which came from there */
    char text[CACHED_RESPONSE_TEXT];
} __attribute__((aligned(64)));

struct response_cache;
struct response_cache *response_cache_new(
    uint64_t block_cache_bytes);                      /* NULL when that is 0 */
void response_cache_free(struct response_cache **cp); /* no request is left */

/* The response cached for this Host and target, or NULL. A NULL cache has none. */
struct cached_response *response_cache_find(struct response_cache *c,
                                            const struct http_request *http);
/* The place for it: the one it has, an unused one, or that of another response. NULL: no memory. */
struct cached_response *response_cache_place(struct response_cache *c,
                                             const struct http_request *http);
/* Prefetches what response_cache_find() and the look at the object read, in the steps of http_handler.prefetch. */
void response_cache_prefetch(const struct api *a, struct http_request *http,
                             unsigned step);
