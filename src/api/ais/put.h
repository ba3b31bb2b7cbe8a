/* put: what the writes of objects share. */
#pragma once
#include "api/ais/checksum.h"
#include "api/s3/s3.h"

/* The checksum that a client sent; NONE: none. */
struct ais_given {
    enum ais_checksum type;
    struct span value; /* hex, in the request */
};
enum err ais_given_take(struct request *q, struct ais_given *out) MUST_CHECK;
/* ERR_BAD_DIGEST, with the error set, unless it is `computed`. */
enum err ais_given_check(struct request *q, const struct ais_given *g,
                         const char *computed) MUST_CHECK;
/* Streams the body into `put`, which computes `stored`, and checks what the client sent. */
enum err ais_body_to_put(struct request *q, struct s3_body *body,
                         const struct ais_given *given, enum checksum_kind stored,
                         struct object_put *put) MUST_CHECK;
/* The checksum that objects of this bucket are stored with. */
enum checksum_kind ais_stored_kind(const struct map_bucket *b);
enum err ais_answer_put(struct request *q, const struct object_info *info);
/* Copies an object: bytes and metadata. `to` may be in another bucket. May switch. */
enum err ais_copy_object(struct request *q, const struct map_bucket *from,
                         struct span from_key, const struct map_bucket *to,
                         struct span to_key, struct errbuf *eb) MUST_CHECK;
