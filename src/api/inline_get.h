/* inline_get: plain GETs of small objects, answered without route, gate and formatting, and mostly without a fiber.
 *
 *     plain?  no condition, range, query or unknown field: nothing in the head changes the answer
 *     rights  this caller was given the cached response before; else the rights that the gate knows
 *     bytes   from the block cache, while the object's entry is the same (revalidated); else one read of the disk (async)
 *     head    the cached one with date and ids of this request; else made by the same functions as in a fiber
 *
 * All four are checked in this order for every such GET, and share their code. It only ever says yes: whatever is unusual
 * is declined, nothing of it has happened then, and a fiber answers the request from its beginning (decisions 0004, 0007).
 */
#pragma once
#include "api/internal.h"
#include "object/object.h"

/* Without a fiber: answered, or http_defer() has been called. Never switches. */
bool inline_get(struct api *a, struct http_request *http);
/* In a fiber: answered from the response cache. May switch. */
bool inline_get_cached(struct api *a, struct http_request *http);
/* The same for a signed request that has passed the gate; its bucket is found. */
bool inline_get_authorized(struct request *q);
/* The head of a 200 is built, nothing of it is sent: caches it where the next GET can be served with it. */
void inline_get_keep(struct request *q, const struct object_get *get);
