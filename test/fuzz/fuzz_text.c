/* The small text forms of base: what parses formats back to the same value, what is written parses. The
 * first byte chooses the form. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/uri.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Any bytes encode to what decodes to them; what decodes and is strict encodes to the text. */
static void
hex_and_base64(struct span text)
{
    char *out = xmalloc(2 * text.len + 8);
    unsigned char *back = xmalloc(text.len + 1);
    int n;

    base64_encode(text.at, text.len, out);
    n = base64_decode(out, strlen(out), back, text.len);
    assert(n >= 0 && (size_t)n == text.len &&
           span_eq(text, (struct span){(char *)back, text.len}));
    hex_encode(text.at, text.len, out);
    n = hex_decode(out, strlen(out), back, text.len);
    assert(n >= 0 && (size_t)n == text.len &&
           span_eq(text, (struct span){(char *)back, text.len}));
    n = base64_decode(text.at, text.len, back, text.len);
    if (n >= 0) {
        base64_encode(back, (size_t)n, out);
        assert(span_is(text, out)); /* strict: one spelling */
    }
    n = hex_decode(text.at, text.len, back, text.len);
    assert(n <= (int)(text.len / 2));
    free(out);
    free(back);
}

static void
uri(struct span text)
{
    char *out = xmalloc(3 * text.len + 1);
    struct buf b;
    int n;

    buf_init(&b, 3 * text.len + 1);
    uri_encode(&b, text, true);
    n = uri_decode(buf_span(&b), out);
    assert(n >= 0 && span_eq(text, (struct span){out, (size_t)n}));
    n = uri_decode(text, out);
    assert(n <= (int)text.len);
    buf_fini(&b);
    free(out);
}

static void
dates(struct span text)
{
    char out[NUM_DATE_TEXT];
    int64_t t, again;

    if (date_http_parse(text, &t) == ERR_OK) {
        date_http(t, out);
        assert(date_http_parse(span_of(out), &again) == ERR_OK && again == t);
    }
    if (date_amz_parse(text, &t) == ERR_OK) {
        date_amz(t, out);
        assert(date_amz_parse(span_of(out), &again) == ERR_OK && again == t);
    }
    if (date_iso_parse(text, &t) == ERR_OK) {
        date_iso(t, out);
        assert(date_iso_parse(span_of(out), &again) == ERR_OK && again == t);
    }
}

static void
numbers(struct span text)
{
    char out[32];
    uint64_t v, again;

    if (num_u64(text, &v) == ERR_OK) {
        snprintf(out, sizeof out, "%llu", (unsigned long long)v);
        assert(num_u64(span_of(out), &again) == ERR_OK && again == v);
        assert(num_size(text, &again, NULL) == ERR_OK && again == v);
    }
    if (num_hex64(text, &v) == ERR_OK) {
        snprintf(out, sizeof out, "%llx", (unsigned long long)v);
        assert(num_hex64(span_of(out), &again) == ERR_OK && again == v);
    }
    if (num_duration_ms(text, &v, NULL) == ERR_OK) {
        snprintf(out, sizeof out, "%llums", (unsigned long long)v);
        assert(num_duration_ms(span_of(out), &again, NULL) == ERR_OK && again == v);
    }
}

static void
utf8(struct span text)
{
    bool valid = utf8_valid(text);

    while (text.len > 0) {
        uint32_t code = 0;
        char out[4];
        size_t n = utf8_next(text, &code);

        if (n == 0) {
            assert(!valid);
            return;
        }
        assert(utf8_put(code, out) == n && memcmp(out, text.at, n) == 0);
        text = span_from(text, n);
    }
    assert(valid);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const forms[])(struct span) = {hex_and_base64, uri, dates, numbers,
                                                 utf8};

    if (size > 0)
        forms[data[0] % ARRAY_LEN(forms)](
            (struct span){(const char *)data + 1, size - 1});
    return 0;
}
