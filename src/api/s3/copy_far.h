/* copy_far: the source of a copy whose key another node owns: its metadata by HEAD and its bytes by GET, as a request of this
 * node (PEER_TRUSTED): the rights of the caller are checked here. */
#pragma once
#include "api/internal.h"

/* Tags of the object, in answers to nodes. */
#define FAR_TAGS_FIELD "forebay-tags"

struct far_source {
    struct nodes_route to; /* its address lives as long as the request */
    const struct map_bucket *bucket;
    struct span key, version; /* version: the text of its id; empty: the current one */
};
/* Fills `info` as object_get_begin_version() does, without ACL and parts. ERR_NOT_FOUND with info->is_marker: a delete
 * marker. ERR_UNAVAILABLE: the node does not answer. May switch. */
enum err far_source_info(struct request *q, const struct far_source *s,
                         struct object_info *info, struct errbuf *eb) MUST_CHECK;
/* Copies [first, first + len) into `put`, of the version that `info` is of. ERR_NOT_FOUND: it was replaced. May switch. */
enum err far_source_copy(struct request *q, const struct far_source *s,
                         const struct object_info *info, uint64_t first, uint64_t len,
                         struct object_put *put, struct errbuf *eb) MUST_CHECK;
/* Of an answer to another node: what no header of S3 says. */
void far_source_put_headers(struct request *q, const struct object_info *info);
