/* relay: passes a client's request on to the node that owns its key, as it came: request line, headers, signature, body.
 *
 *     client --- gateway (this node) === owner: its gate, its preconditions, its rows
 *
 * The owner checks the caller. Both bodies stream through one buffer. The gateway asks for the client's body only when the
 * owner has (100 Continue), so an early refusal costs no transfer. A client that leaves ends the owner's request; an answer
 * that breaks off resets the client's connection. An owner with a later map answers with its epoch: the gateway fetches that
 * map and tries once more, while not a byte of the body has been read. A relayed request is never relayed again.
 */
#pragma once
#include "api/internal.h"
#include "nodes/nodes.h"

/* Decides where the request is served, by bucket and key. *answered: another node has answered it. Otherwise it is served
 * here; at once on a node that is alone. On error the fault is set: ERR_UNAVAILABLE (503), or what the client's body did.
 * May switch. */
enum err relay_to_owner(struct request *q, const struct map_bucket *b, struct span key,
                        bool *answered) MUST_CHECK;
/* The same by the bucket and key of the request's name. Without a bucket of that name the request is served here. */
enum err relay_route(struct request *q, bool *answered) MUST_CHECK;
/* Before an answer that needs this node's rows, or its view of buckets and users, leaves: true if the node may still give
 * it. http_handler.may_answer. */
bool relay_may_answer(struct http_request *http, void *arg);
