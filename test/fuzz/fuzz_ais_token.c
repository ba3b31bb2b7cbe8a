/* Any bytes as a bearer token: it is refused with a reason, or carries rights of a user. The first byte chooses whether the
 * bytes are signed here, so that claims are reached. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/ais/token.h"
#include "base/hash.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t
put_part(const void *data, size_t len, char *out)
{
    size_t n = base64_encode(data, len, out);

    while (n > 0 && out[n - 1] == '=')
        n--;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(out[i] == '+' ? '-' : out[i] == '/' ? '_' : out[i]);
    return n;
}

/* header.CLAIMS.signature */
static struct span
sign_claims(struct arena *a, const uint8_t *data, size_t size, struct span key)
{
    static const char header[] = "{\"alg\":\"HS256\"}";
    char *text = arena_alloc(a, 2 * size + 256);
    unsigned char mac[32];
    size_t n = put_part(header, sizeof header - 1, text);

    text[n++] = '.';
    n += put_part(data, size, text + n);
    hash_hmac_sha256(key.at, key.len, text, n, mac);
    text[n++] = '.';
    n += put_part(mac, sizeof mac, text + n);
    return (struct span){text, n};
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct token_options o = {
        .key = SPAN("a key of the fuzzer"), .cluster = "abc", .now_s = 1000};
    struct arena *a = arena_new(4096, MIB(4));
    struct span text = {(const char *)data, size};
    struct token t;

    if (size > 0 && size < 8192 && data[0] == '{')
        text = sign_claims(a, data, size, o.key);
    if (token_verify(text, &o, a, &t) == NULL &&
        (t.user.len == 0 || t.rights == NULL || t.rights->count > TOKEN_RIGHT_MAX))
        abort();
    arena_free(&a);
    return 0;
}
