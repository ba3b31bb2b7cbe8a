/* Templates of verified requests: what is equal from request to request is computed once. Of nine SHA-256 blocks for
 * a small request eight remain, plus a copy and a comparison. */
#include <assert.h>

#include "base/mem.h"
#include "wire/sigv4_canon.h"

#define BLOCK 64u /* of SHA-256 */

/* Behind "GET\n/path": the empty query, headers, their names, the payload. */
static bool
take_request(struct sigv4_template *k, const struct sigv4_request *req,
             struct span request)
{
    char path[SIGV4_TEMPLATE_PATH];
    size_t path_len = canon_path(req->path, path, sizeof path);
    size_t skip = req->method.len + 1 + path_len;

    if (path_len == 0 || req->method.len > sizeof k->method || request.len < skip ||
        request.len - skip > sizeof k->text)
        return false;
    k->method_len = (uint16_t)req->method.len;
    memcpy(k->method, req->method.at, req->method.len);
    k->text_len = (uint16_t)(request.len - skip);
    memcpy(k->text, request.at + skip, k->text_len);
    return true;
}

/* Hashes whole blocks now; keeps the rest of the beginning for later. */
static void
take_to_sign(struct sigv4_template *k, const struct hmac_key *key, struct span to_sign)
{
    size_t same = to_sign.len - SHA256_HEX, whole = same - same % BLOCK;

    hmac_begin(&k->to_sign, key, to_sign.at, whole);
    k->rest_len = (uint16_t)(same - whole);
    memcpy(k->rest, to_sign.at + whole, k->rest_len);
}

bool
sigv4_template_make(const struct sigv4_request *req, const struct sigv4_auth *auth,
                    const struct hmac_key *key, struct arena *a,
                    struct sigv4_template *out)
{
    const struct query none = {0};
    const struct canon c = {.req = req,
                            .q = &none,
                            .signed_headers = auth->signed_headers,
                            .payload = auth->payload_text};
    char text[SIGV4_TEXT_MAX];
    struct span request;

    assert(auth->kind == SIGV4_HEADER);
    *out = (struct sigv4_template){.date_s = auth->date_s, .skew_s = auth->skew_s};
    if (!canon_request(&c, a, &request) || !take_request(out, req, request))
        return false;
    take_to_sign(out, key, canon_string_to_sign(auth->date, auth->scope, request, text));
    /* Only requests that were signed as they are read here: not by another form of Host or another payload. */
    if (sigv4_template_verify(out, req->path, auth->signature, auth->date_s))
        return true;
    hash_wipe(out, sizeof *out);
    return false;
}

static bool
is_signature(const struct sigv4_template *k, struct span request,
             const unsigned char claimed[SHA256_LEN])
{
    unsigned char sum[SHA256_LEN];
    char rest[BLOCK + SHA256_HEX + 1];

    digest_oneshot(DIGEST_SHA256, request.at, request.len, sum);
    memcpy(rest, k->rest, k->rest_len);
    hex_encode(sum, sizeof sum, rest + k->rest_len);
    hmac_finish(&k->to_sign, rest, k->rest_len + SHA256_HEX, sum);
    return hash_same_secret(sum, claimed, sizeof sum);
}

bool
sigv4_template_verify(const struct sigv4_template *k, struct span path,
                      struct span signature, int64_t now_s)
{
    int64_t off = now_s > k->date_s ? now_s - k->date_s : k->date_s - now_s;
    char request[sizeof k->method + 1 + SIGV4_TEMPLATE_PATH + SIGV4_TEMPLATE_TEXT];
    unsigned char claimed[SHA256_LEN];
    size_t len = k->method_len, path_len;

    if (k->text_len == 0 || off > (int64_t)k->skew_s || signature.len != SHA256_HEX ||
        hex_decode(signature.at, SHA256_HEX, claimed, SHA256_LEN) != SHA256_LEN)
        return false;
    memcpy(request, k->method, len);
    request[len++] = '\n';
    path_len = canon_path(path, request + len, SIGV4_TEMPLATE_PATH);
    if (path_len == 0)
        return false;
    len += path_len;
    memcpy(request + len, k->text, k->text_len);
    return is_signature(k, (struct span){request, len + k->text_len}, claimed);
}
