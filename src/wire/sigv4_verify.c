/* Verifies the signature and its time. Signing keys and their cache. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "wire/sigv4_canon.h"

/* ---- signing keys ---- */

#define CACHE_SLOTS 64

struct slot {
    struct hmac_key key;
    size_t secret_len; /* 0: empty */
    size_t region_len;
    char secret[128]; /* longer ones are not kept */
    char region[SIGV4_REGION_MAX];
    char day[8];
};
struct sigv4_cache {
    struct slot slots[CACHE_SLOTS];
};

struct sigv4_cache *
sigv4_cache_new(void)
{
    return xcalloc(1, sizeof(struct sigv4_cache));
}

void
sigv4_cache_free(struct sigv4_cache **cp)
{
    if (*cp != NULL)
        hash_wipe(*cp, sizeof **cp);
    free(*cp);
    *cp = NULL;
}

static void
sigv4_derive(struct span secret, struct span day, struct span region,
             struct hmac_key *out)
{
    char *start = xmalloc(4 + secret.len); /* once a day and key: see the cache */
    unsigned char k[SHA256_LEN];

    memcpy(start, "AWS4", 4);
    if (secret.len > 0)
        memcpy(start + 4, secret.at, secret.len);
    hash_hmac_sha256(start, 4 + secret.len, day.at, day.len, k);
    hash_hmac_sha256(k, sizeof k, region.at, region.len, k);
    hash_hmac_sha256(k, sizeof k, "s3", 2, k);
    hash_hmac_sha256(k, sizeof k, "aws4_request", 12, k);
    hmac_key_init(out, k, sizeof k);
    hash_wipe(start, 4 + secret.len);
    hash_wipe(k, sizeof k);
    free(start);
}

static bool
slot_is(const struct slot *s, struct span secret, struct span day, struct span region)
{
    return s->secret_len == secret.len && s->region_len == region.len &&
           memcmp(s->day, day.at, sizeof s->day) == 0 &&
           hash_same_secret(s->secret, secret.at, secret.len) &&
           memcmp(s->region, region.at, region.len) == 0;
}

void
sigv4_key(struct sigv4_cache *cache, struct span secret, struct span day,
          struct span region, struct hmac_key *out)
{
    struct slot *s;

    if (cache == NULL || secret.len == 0 || secret.len > sizeof s->secret ||
        region.len > sizeof s->region || day.len != sizeof s->day) {
        sigv4_derive(secret, day, region, out);
        return;
    }
    s = &cache->slots[hash_xxh3(secret.at, secret.len,
                                (uint64_t)(unsigned char)day.at[7] ^ region.len) %
                      CACHE_SLOTS];
    if (!slot_is(s, secret, day, region)) {
        sigv4_derive(secret, day, region, &s->key);
        memcpy(s->secret, secret.at, secret.len);
        memcpy(s->region, region.at, region.len);
        memcpy(s->day, day.at, sizeof s->day);
        s->secret_len = secret.len;
        s->region_len = region.len;
    }
    *out = s->key;
}

void
sigv4_hex(const struct hmac_key *key, struct span string_to_sign,
          char out[SHA256_HEX + 1])
{
    unsigned char mac[SHA256_LEN];

    hmac_key_sign(key, string_to_sign.at, string_to_sign.len, mac);
    hex_encode(mac, sizeof mac, out);
}

/* ---- the time ---- */

static struct span
arena_date(struct arena *a, int64_t unix_s)
{
    char *text = arena_try(a, NUM_DATE_TEXT);

    if (text == NULL)
        return SPAN("");
    date_iso(unix_s * 1000, text);
    return span_of(text);
}

static struct span
arena_number(struct arena *a, uint64_t n)
{
    char *text = arena_try(a, 24);

    if (text == NULL)
        return SPAN("");
    snprintf(text, 24, "%" PRIu64, n);
    return span_of(text);
}

static enum err
check_header_time(const struct sigv4_auth *auth, int64_t now_s, struct arena *a,
                  struct fault *f)
{
    int64_t off = now_s > auth->date_s ? now_s - auth->date_s : auth->date_s - now_s;

    if (off <= (int64_t)auth->skew_s)
        return ERR_OK;
    fault_set(f, S3_RequestTimeTooSkewed, NULL);
    fault_add(f, "RequestTime", arena_date(a, auth->date_s));
    fault_add(f, "ServerTime", arena_date(a, now_s));
    fault_add(f, "MaxAllowedSkewMilliseconds", arena_number(a, auth->skew_s * 1000));
    return ERR_DENIED;
}

static enum err
check_query_time(const struct sigv4_auth *auth, int64_t now_s, struct arena *a,
                 struct fault *f)
{
    int64_t end_s = auth->date_s + (int64_t)auth->expires_s;

    if (auth->date_s - now_s > (int64_t)auth->skew_s)
        return fault_set(f, S3_AccessDenied, "Request is not valid yet");
    if (now_s < end_s)
        return ERR_OK;
    fault_set(f, S3_AccessDenied, "Request has expired");
    fault_add(f, "X-Amz-Expires", arena_number(a, auth->expires_s));
    fault_add(f, "Expires", arena_date(a, end_s));
    fault_add(f, "ServerTime", arena_date(a, now_s));
    return ERR_DENIED;
}

/* ---- the signed headers ---- */

static bool
must_be_signed(struct span name)
{
    return name.len > 6 && strncasecmp(name.at, "x-amz-", 6) == 0;
}

static void
sigv4_add_name(char *text, size_t room, struct span name)
{
    size_t len = strlen(text);

    snprintf(text + len, room - len, "%s%.*s", len > 0 ? ", " : "",
             (int)MIN(name.len, 99), name.at);
}

static enum err
check_all_signed(const struct sigv4_request *req, const struct sigv4_auth *auth,
                 struct arena *a, struct fault *f)
{
    char names[512] = "";

    if (!canon_list_has(auth->signed_headers, SPAN("host")))
        sigv4_add_name(names, sizeof names, SPAN("host"));
    for (size_t i = 0; i < req->headers.count; i++) {
        struct span name = req->headers.at[i].name;

        if (must_be_signed(name) && !canon_list_has(auth->signed_headers, name))
            sigv4_add_name(names, sizeof names, name);
    }
    if (names[0] == '\0')
        return ERR_OK;
    fault_set(f, S3_AccessDenied,
              "There were headers present in the request which were not signed");
    char *kept = arena_try(a, sizeof names);
    if (kept != NULL) {
        memcpy(kept, names, sizeof names);
        fault_add(f, "HeadersNotSigned", span_of(kept));
    }
    return ERR_DENIED;
}

/* ---- the signature ---- */

/* "41 57 53": the bytes of a text, for users who compare. */
static struct span
arena_bytes(struct arena *a, struct span text)
{
    char *out = arena_try(a, 3 * text.len + 1);

    if (out == NULL)
        return SPAN("");
    for (size_t i = 0; i < text.len; i++) {
        hex_encode(text.at + i, 1, out + 3 * i);
        out[3 * i + 2] = ' ';
    }
    return (struct span){out, text.len > 0 ? 3 * text.len - 1 : 0};
}

static enum err
sigv4_mismatch(const struct sigv4_auth *auth, struct span to_sign, struct span request,
               struct arena *a, struct fault *f)
{
    char *kept = arena_try(a, to_sign.len);
    struct span text = {kept, to_sign.len};

    fault_set(f, S3_SignatureDoesNotMatch, NULL);
    fault_add(f, "AWSAccessKeyId", auth->access_key);
    if (kept != NULL) {
        memcpy(kept, to_sign.at, to_sign.len);
        fault_add(f, "StringToSign", text);
        fault_add(f, "SignatureProvided", auth->signature);
        fault_add(f, "StringToSignBytes", arena_bytes(a, text));
        fault_add(f, "CanonicalRequest", request);
        fault_add(f, "CanonicalRequestBytes", arena_bytes(a, request));
    }
    return ERR_DENIED;
}

/* The forms of Host a client may have signed: as received, with the scheme's port taken off or put
 * on, and what a trusted proxy says it was. */
static size_t
host_forms(const struct sigv4_request *req, struct arena *a, struct span form[3])
{
    struct span host = fields_get(req->headers, "host");
    struct span port = req->tls ? SPAN(":443") : SPAN(":80");
    size_t count = 0;
    bool has_port;
    char *longer;

    form[count++] = (struct span){NULL, 0};
    if (host.len > 0) {
        has_port = host.at[host.len - 1] != ']' && span_find(host, ':') != NULL;
        if (host.len > port.len && span_eq(span_from(host, host.len - port.len), port)) {
            form[count++] = (struct span){host.at, host.len - port.len};
        } else if (!has_port) {
            longer = arena_try(a, host.len + port.len);
            if (longer != NULL) {
                memcpy(longer, host.at, host.len);
                memcpy(longer + host.len, port.at, port.len);
                form[count++] = (struct span){longer, host.len + port.len};
            }
        }
    }
    if (req->forwarded_host.len > 0)
        form[count++] = req->forwarded_host;
    return count;
}

static bool
sigv4_matches(const struct canon *c, const struct sigv4_auth *auth,
              const struct hmac_key *key, const unsigned char claimed[SHA256_LEN],
              char text[SIGV4_TEXT_MAX], struct arena *a, struct span *to_sign,
              struct span *request)
{
    unsigned char mac[SHA256_LEN];

    if (!canon_request(c, a, request))
        return false;
    *to_sign = canon_string_to_sign(auth->date, auth->scope, *request, text);
    hmac_key_sign(key, to_sign->at, to_sign->len, mac);
    return hash_same_secret(mac, claimed, sizeof mac);
}

/* Other texts that the client may have signed, tried after the plain reading has failed. */
static bool
matches_otherwise(struct canon *c, const struct sigv4_auth *auth,
                  const struct hmac_key *key, const unsigned char claimed[SHA256_LEN],
                  struct arena *a)
{
    struct span form[3], to_sign, request;
    size_t forms = host_forms(c->req, a, form);
    char text[SIGV4_TEXT_MAX];

    /* curl 7.88 says nothing about the body; with -T it signs the hash of an empty one. */
    for (unsigned payload = 0; payload < (auth->payload_absent ? 2 : 1); payload++) {
        for (size_t i = payload == 0 ? 1 : 0; i < forms; i++) {
            c->host = form[i];
            c->payload = payload == 0 ? auth->payload_text : SPAN(EMPTY_SHA256);
            if (sigv4_matches(c, auth, key, claimed, text, a, &to_sign, &request))
                return true;
        }
    }
    return false;
}

static enum err
sigv4_check_signature(const struct sigv4_request *req, const struct query *q,
                      const struct sigv4_auth *auth, const struct hmac_key *key,
                      struct arena *a, struct fault *f)
{
    struct canon c = {.req = req,
                      .q = q,
                      .signed_headers = auth->signed_headers,
                      .payload = auth->payload_text};
    struct span to_sign = {"", 0}, request = {"", 0};
    unsigned char claimed[SHA256_LEN] = {0};
    char text[SIGV4_TEXT_MAX];
    bool well_formed =
        auth->signature.len == SHA256_HEX &&
        hex_decode(auth->signature.at, SHA256_HEX, claimed, SHA256_LEN) == SHA256_LEN;

    if (sigv4_matches(&c, auth, key, claimed, text, a, &to_sign, &request) && well_formed)
        return ERR_OK;
    if (request.len == 0)
        return fault_set(f, S3_RequestHeaderSectionTooLarge, NULL);
    if (well_formed && matches_otherwise(&c, auth, key, claimed, a))
        return ERR_OK;
    return sigv4_mismatch(auth, to_sign, request, a, f);
}

enum err
sigv4_unknown_key(const struct sigv4_auth *auth, struct fault *f)
{
    fault_set(f, S3_InvalidAccessKeyId, NULL);
    fault_add(f, "AWSAccessKeyId", auth->access_key);
    return ERR_DENIED;
}

enum err
sigv4_verify(const struct sigv4_request *req, const struct query *q,
             const struct sigv4_auth *auth, struct span secret, struct sigv4_cache *cache,
             int64_t now_s, struct arena *a, struct hmac_key *key_out, struct fault *f)
{
    struct hmac_key key;
    enum err rc;

    assert(auth->kind != SIGV4_ANONYMOUS);
    if (auth->kind == SIGV4_HEADER)
        rc = check_header_time(auth, now_s, a, f);
    else
        rc = check_query_time(auth, now_s, a, f);
    if (rc == ERR_OK)
        rc = check_all_signed(req, auth, a, f);
    if (rc != ERR_OK)
        return rc;
    sigv4_key(cache, secret, auth->day, auth->region, &key);
    rc = sigv4_check_signature(req, q, auth, &key, a, f);
    if (rc == ERR_OK && key_out != NULL)
        *key_out = key;
    hash_wipe(&key, sizeof key);
    return rc;
}
