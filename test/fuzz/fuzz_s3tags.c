/* Any bytes as tags: as the header x-amz-tagging, or as a document. What is kept of them writes a document that parses to
 * the same, and counts right. The first byte chooses. */
#include <assert.h>
#include <stdint.h>

#include "base/mem.h"
#include "wire/s3tags.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = {(const char *)data, size}, kept, back;
    struct fault f = {0};
    struct arena *a;
    struct buf doc;
    unsigned max;
    enum err rc;

    if (size < 1)
        return 0;
    a = arena_new(4096, (size_t)1 << 24);
    text = span_from(text, 1);
    max = (data[0] & 2) != 0 ? S3TAGS_OF_BUCKET : S3TAGS_OF_OBJECT;
    rc = (data[0] & 1) != 0 ? s3tags_parse_document(text, max, a, &kept, &f)
                            : s3tags_parse_header(text, max, a, &kept, &f);
    if (rc != ERR_OK) {
        assert(f.code != S3_OK);
    } else {
        assert(s3tags_count(kept) <= max);
        buf_init(&doc, (size_t)1 << 20);
        assert(s3tags_write(kept, &doc) && !doc.full);
        assert(s3tags_parse_document(buf_span(&doc), max, a, &back, &f) == ERR_OK);
        assert(span_eq(kept, back));
        buf_fini(&doc);
        assert(s3tags_parse_header(kept, max, a, &back, &f) == ERR_OK);
        assert(span_eq(kept, back));
    }
    arena_free(&a);
    return 0;
}
