/* Header values: ranges, entity tags, checksums, copy sources. What parses formats back. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "wire/checksum.h"
#include "wire/etag.h"
#include "wire/s3name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
ranges(struct span text)
{
    static const uint64_t sizes[] = {0, 1, 10, 262144, UINT64_MAX};
    char out[80];
    struct range r, back;
    uint64_t size;

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        enum range_got got = range_resolve(text, sizes[i], &r);

        assert(r.first <= sizes[i]);
        assert(r.len <= sizes[i] - r.first);
        if (got != RANGE_PART)
            continue;
        assert(r.len > 0);
        snprintf(out, sizeof out, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, r.first,
                 r.first + r.len - 1, sizes[i]);
        assert(content_range_parse(span_of(out), &back, &size) == ERR_OK);
        assert(back.first == r.first && back.len == r.len && size == sizes[i]);
    }
    if (content_range_parse(text, &r, &size) == ERR_OK)
        assert(r.len > 0);
    if (copy_range_parse(text, &r, NULL) == ERR_OK)
        assert(r.len > 0);
}

static void
etags(struct span text)
{
    char out[ETAG_TEXT_MAX];
    unsigned char md5[16], back[16];
    unsigned parts, parts_back;

    if (etag_parse(text, md5, &parts)) {
        assert(etag_text(md5, parts, out) == text.len);
        assert(etag_parse(span_of(out), back, &parts_back));
        assert(memcmp(md5, back, 16) == 0 && parts == parts_back);
    }
    if (etag_in_list(text, SPAN("abc")))
        assert(text.len > 0);
    struct conditions c = {text, text, text, text};
    assert(preconditions_check(&c, SPAN("abc"), 0, 1, NULL) != ERR_INTERNAL);
    assert(if_range_holds(text, SPAN("abc"), 0) || text.at != NULL);
}

static void
checksums(struct span text)
{
    char out[CHECKSUM_TEXT_MAX];
    struct checksum_value v;

    for (enum checksum_kind k = 1; k < CHECKSUM_KIND_COUNT_; k++) {
        if (checksum_parse(k, text, &v, NULL) != ERR_OK)
            continue;
        checksum_text(&v, out);
        assert(span_is(text, out)); /* one text for each value */
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = {(const char *)data, size};
    struct arena *a = arena_new(4096, (size_t)1 << 20);
    struct s3_copy_source s;

    ranges(text);
    etags(text);
    checksums(text);
    if (s3_copy_source_parse(text, a, &s, NULL) == ERR_OK)
        assert(s.bucket.len > 0 && s.key.len > 0 && s.key.len <= S3_KEY_MAX);
    if (s3_bucket_ok(text))
        assert(size >= S3_BUCKET_MIN && size <= S3_BUCKET_MAX);
    arena_free(&a);
    return 0;
}
