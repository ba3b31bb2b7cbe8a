/* x-amz-content-sha256: what it says about the body. Declared in sigv4.h. */
#include "base/mem.h"
#include "wire/sigv4.h"

static const struct {
    const char *text;
    enum payload_kind kind;
} kinds[] = {
    {"UNSIGNED-PAYLOAD", PAYLOAD_UNSIGNED},
    {"STREAMING-UNSIGNED-PAYLOAD-TRAILER", PAYLOAD_CHUNKED_UNSIGNED_TRAILER},
    {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", PAYLOAD_CHUNKED_SIGNED},
    {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", PAYLOAD_CHUNKED_SIGNED_TRAILER},
};

enum err
payload_parse(struct span value, struct payload *out, struct fault *f)
{
    *out = (struct payload){.kind = PAYLOAD_UNSIGNED};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (span_is(value, kinds[i].text)) {
            out->kind = kinds[i].kind;
            return ERR_OK;
        }
    }
    if (value.len == SHA256_HEX &&
        hex_decode(value.at, value.len, out->sha256, SHA256_LEN) == SHA256_LEN) {
        out->kind = PAYLOAD_SHA256;
        return ERR_OK;
    }
    if (span_starts(value, SPAN("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"))) {
        fault_set(f, S3_NotImplemented, NULL);
        fault_add(f, "Header", SPAN("x-amz-content-sha256"));
        return ERR_NOT_IMPLEMENTED;
    }
    return fault_argument(f, "x-amz-content-sha256", value,
                          "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, a known "
                          "STREAMING value, or a valid sha256 value.");
}

enum err
payload_check(const struct payload *p, const unsigned char got[SHA256_LEN],
              struct arena *a, struct fault *f)
{
    char *text;

    if (p->kind != PAYLOAD_SHA256 || memcmp(p->sha256, got, SHA256_LEN) == 0)
        return ERR_OK;
    fault_set(f, S3_XAmzContentSHA256Mismatch, NULL);
    text = arena_try(a, (size_t)2 * (SHA256_HEX + 1));
    if (text != NULL) {
        hex_encode(p->sha256, SHA256_LEN, text);
        hex_encode(got, SHA256_LEN, text + SHA256_HEX + 1);
        fault_add(f, "ClientComputedContentSHA256", span_of(text));
        fault_add(f, "S3ComputedContentSHA256", span_of(text + SHA256_HEX + 1));
    }
    return ERR_BAD_DIGEST;
}
