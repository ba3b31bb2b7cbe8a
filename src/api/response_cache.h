/* answers: the heads of hot objects of up to 1 MiB, kept rendered, so that a plain GET of one costs neither route, look-up nor
 * formatting (docs/decisions/0004-answers.md).
 *
 * Each loop keeps its own, keyed by Host and the raw target. Only a GET whose head holds nothing but boring fields (no
 * condition, no range, no unknown name) and no query is kept or served. What was kept is good while the buckets and their
 * settings stand as they stood (map_serial), the row does, and the bytes are in the block cache (object_revalidated_begin): so nobody
 * sees an old answer after anybody saw the new one. An unsigned request is served before all else only with what an unsigned
 * request was given; a signed one after gate and rights, or, when it is signed like one before (signers.h), with what that
 * key was given while users and their rights stood as they stand.
 *
 * Any loop; memory of a loop's table is touched as it fills.
 */
#pragma once
#include "api/internal.h"
#include "object/object.h"

struct answers;
struct answers *response_cache_new(
    uint64_t block_cache_bytes);               /* NULL when there is no block cache */
void response_cache_free(struct answers **ap); /* no request is left */
/* What an unsigned caller may read has changed otherwise than by a bucket's record. Any thread. */
void response_cache_forget(struct answers *a);          /* NULL is fine */
uint32_t response_cache_epoch(const struct answers *a); /* counts that; NULL is fine */

/* Before response_cache_serve(), in the steps of http_handler.ahead. */
void response_cache_prefetch(const struct api *a, struct http_request *http,
                             unsigned step);
/* True: the request was answered. May switch then, but never in the HTTP server's at_once. */
bool response_cache_serve(struct api *a, struct http_request *http);
/* The same for a request that has passed gate and rights; its bucket is found. */
bool response_cache_serve_signed(struct request *q);
/* The head of a 200 stands, nothing of it is sent: keeps it where it is worth it. */
void response_cache_keep(struct request *q, const struct object_get *get);

/* A GET whose head holds nothing that would change its answer; `signature`: but that it is signed. */
bool request_is_plain_get(const struct http_request *http, bool with_signature);

/* x-amz-request-id and x-amz-id-2: the first two lines of every answer. */
void put_request_ids(struct http_request *http);
