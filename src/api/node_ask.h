/* node_ask: questions of one node to another that no client asks: a page of names, sums, whether a bucket is empty.
 *
 * POST /_peer/OP on the peer port, with PEER_TRUSTED: the asking node has checked its caller. The bucket stands in the field
 * `forebay-bucket`, by its uname; the rest in a small body. An answer is 200 with bytes, or an error with its code in
 * `forebay-error` and its sentence as body.
 */
#pragma once
#include "api/internal.h"

struct s3xml_delete_item;

#define NODE_BUCKET_FIELD "forebay-bucket"
#define NODE_ERROR_FIELD  "forebay-error"

/* Answers a question of another node. */
void node_ask_serve(struct request *q);
/* True if the request is one. */
bool node_ask_is_one(const struct request *q);

/* Asks another node. `out` is filled up to its limit. ERR_UNAVAILABLE: it does not answer; *stale: it has a later map. Other
 * errors are those that it has found. May switch. */
enum err node_ask(struct request *q, const struct nodes_route *to, const char *op,
                  const struct map_bucket *b, struct span body, struct buf *out,
                  uint64_t *stale, struct errbuf *eb) MUST_CHECK;
/* Deletes one key at its owner. On error `fault` says what the client gets. May switch. */
enum err node_ask_delete(struct request *q, const struct nodes_route *to,
                         const struct s3xml_delete_item *item,
                         struct object_deleted *done, struct fault *fault) MUST_CHECK;
