/* Any bytes: a body decoded whole and in pieces gives the same bytes and the same verdict. The
 * first byte is the form, the second the size of a piece, the third the announced length. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "wire/awschunked.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct verdict {
    enum s3_code code;
    uint64_t decoded, sum;
    size_t trailers;
};

static struct verdict
decode(enum payload_kind kind, const char *length, bool trailer, struct span body,
       size_t piece)
{
    static const char seed[] =
        "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
    struct sigv4_auth auth = {.scope = SPAN("20130524/us-east-1/s3/aws4_request"),
                              .signature = SPAN(seed),
                              .date = "20130524T000000Z"};
    struct field fs[2] = {{SPAN("x-amz-decoded-content-length"), span_of(length)},
                          {SPAN("x-amz-trailer"), SPAN("x-amz-checksum-crc32")}};
    struct awschunked *d = xmalloc(sizeof *d);
    struct verdict v = {0};
    struct hmac_key key;
    struct fault f = {0};
    enum awschunked_got got = AWSCHUNKED_MORE;

    hmac_key_init(&key, "key", 3);
    if (awschunked_init(d, kind, &auth, &key, (struct fields){fs, trailer ? 2 : 1}, &f) !=
        ERR_OK)
        abort();
    while (body.len > 0 && got != AWSCHUNKED_BAD) {
        struct span in = {body.at, MIN(piece, body.len)}, out;

        body = span_from(body, in.len);
        while ((got = awschunked_next(d, &in, &out)) == AWSCHUNKED_DATA) {
            assert(out.len > 0);
            for (size_t i = 0; i < out.len; i++)
                v.sum = v.sum * 31 + (unsigned char)out.at[i];
            v.decoded += out.len;
        }
        assert(got == AWSCHUNKED_BAD || in.len == 0);
    }
    if (awschunked_finish(d, &f) == ERR_OK)
        assert(v.decoded == strtoull(length, NULL, 10));
    else
        assert(f.code != S3_OK);
    v.code = f.code;
    v.trailers = awschunked_trailers(d).count;
    awschunked_fini(d);
    free(d);
    return v;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span body = {(const char *)data, size};
    struct verdict whole, pieces;
    enum payload_kind kind;
    char length[4];

    if (size < 3)
        return 0;
    kind = (enum payload_kind)(PAYLOAD_CHUNKED_UNSIGNED_TRAILER + data[0] % 3);
    snprintf(length, sizeof length, "%u", data[2]);
    body = span_from(body, 3);
    whole = decode(kind, length, data[0] & 4, body, SIZE_MAX);
    pieces = decode(kind, length, data[0] & 4, body, (size_t)data[1] + 1);
    assert(whole.code == pieces.code);
    assert(whole.trailers == pieces.trailers);
    /* Of a bad body more may have been handed out in one reading than in the other. */
    assert(whole.code != S3_OK || whole.sum == pieces.sum);
    return 0;
}
