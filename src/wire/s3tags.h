/* s3tags: tags of objects and buckets: as a document, as the header x-amz-tagging, and as we keep them.
 *
 * Kept as "name=value&name=value", percent-encoded, in the order given; empty: none. Pure functions; memory: the arena
 * given.
 */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/span.h"
#include "wire/fault.h"

#define S3TAGS_OF_OBJECT 10
#define S3TAGS_OF_BUCKET 50
#define S3TAGS_NAME_MAX  128 /* characters */
#define S3TAGS_VALUE_MAX 256

/* <Tagging><TagSet><Tag><Key/><Value/>…: MalformedXML, InvalidTag, BadRequest for more than `max`. */
enum err s3tags_parse_document(struct span doc, unsigned max, struct arena *a,
                               struct span *out, struct fault *f) MUST_CHECK;
/* The header, a query string: InvalidArgument, InvalidTag, BadRequest. */
enum err s3tags_parse_header(struct span text, unsigned max, struct arena *a,
                             struct span *out, struct fault *f) MUST_CHECK;
unsigned s3tags_count(struct span kept);
/* The value of a tag, of what is kept or of the header. False: there is no such tag, or the text is malformed. */
bool s3tags_find(struct span kept, struct span name, struct arena *a, struct span *value);
/* The document of what is kept. False: it is none of ours. */
bool s3tags_write(struct span kept, struct buf *out);
