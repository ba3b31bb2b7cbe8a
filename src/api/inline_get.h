/* inline_get: plain GETs of small objects, answered without route, gate and formatting, and mostly without a fiber.
 *
 *     plain?  no condition, range, query or unknown field: nothing in the head changes the answer
 *     rights  this caller got the cached response before; else the gate's check of rights
 *     bytes   from the block cache, if the object's index entry is unchanged (revalidated read); else one disk read (async read)
 *     head    the cached one with date and ids of this request; else made by the same functions as in a fiber
 *
 * All four are checked in this order for every such GET, and share their code. This path never rejects: it declines any unusual
 * request without effect, and a fiber serves that request from the start (decisions 0004, 0007).
 */
#pragma once
#include "api/internal.h"
#include "object/object.h"

/* Without a fiber: true: it replied or called http_defer(). Never switches. */
bool inline_get(struct api *a, struct http_request *http);
/* In a fiber: answered from the response cache. May switch. */
bool inline_get_cached(struct api *a, struct http_request *http);
/* The same for a signed request that has passed the gate; q->bucket is set. */
bool inline_get_authorized(struct request *q);
/* Call after the head of a 200 is built and before it is sent: caches the head if later GETs can use it. */
void inline_get_keep(struct request *q, const struct object_get *get);
