/* response_cache: the rendered heads of GETs of objects of up to 1 MiB that the block cache holds (docs/decisions/0004).
 *
 * Each loop has a table of its own, keyed by Host and raw target. A cached response records the object's index entry and the caller that it was sent to; inline_get.c checks both before it
 * serves the response. It is valid while the buckets and their settings (map_serial), the index entry and, for a signed
 * request, the users (auth_serial) are unchanged.
 *
 * Threads: any loop; each loop uses only its own table. Memory: at most 1/8 of the block cache size, touched as the tables fill.
 */
#pragma once
#include "api/internal.h"
#include "object/object.h"

#define CACHED_RESPONSE_TEXT 672u /* host, target and head */

struct cached_response {
    struct object_revalidated object; /* first: it is read first */
    uint64_t map_serial;
    uint64_t epoch; /* of the map of nodes by which the key was here; 0: no cluster */
    uint64_t users; /* auth_serial() when the response was made for `key`; 0: no key */
    const struct auth_key
        *key; /* only compared, and only while `users` is auth_serial() */
    uint16_t host_len, target_len;
    uint16_t head_len, lines_at; /* of http_template_make() */
    bool to_anonymous;           /* it was sent to an unsigned request */
    bool on_loopback;            /* that request was on loopback */
    char text[CACHED_RESPONSE_TEXT];
} __attribute__((aligned(64)));

struct response_cache;
struct response_cache *response_cache_new(
    uint64_t block_cache_bytes);                      /* NULL when that is 0 */
void response_cache_free(struct response_cache **cp); /* after the last request */

/* The response cached for this Host and target, or NULL. A NULL cache has none. */
struct cached_response *response_cache_find(struct response_cache *c,
                                            const struct http_request *http);
/* The slot for this response: its own, a free one, or that of an evicted response. NULL: no memory. */
struct cached_response *response_cache_place(struct response_cache *c,
                                             const struct http_request *http);
/* Prefetches the memory that response_cache_find() and the object lookup read, in the steps of http_handler.prefetch. */
void response_cache_prefetch(const struct api *a, struct http_request *http,
                             unsigned step);
