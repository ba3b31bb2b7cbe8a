/* The client's side: headers that sign a request, and presigned URLs. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "wire/sigv4_canon.h"

#define DEFAULT_REGION SPAN("us-east-1")

/* All of them in a row, in the arena; empty when it is full. No printf: this is done for
 * every request that leaves. */
static struct span
sigv4_join(struct arena *a, const struct span *part, size_t count)
{
    size_t len = 0;
    char *start, *at;

    for (size_t i = 0; i < count; i++)
        len += part[i].len;
    start = at = arena_try(a, len);
    if (start == NULL)
        return (struct span){"", 0};
    for (size_t i = 0; i < count; i++) {
        if (part[i].len > 0)
            memcpy(at, part[i].at, part[i].len);
        at += part[i].len;
    }
    return (struct span){start, len};
}
#define JOIN(a, ...)                                                                     \
    sigv4_join((a), (const struct span[]){__VA_ARGS__},                                  \
               sizeof((const struct span[]){__VA_ARGS__}) / sizeof(struct span))

/* Google's front end rewrites accept-encoding, proxies others: only what carries meaning. */
static bool
sigv4_is_signed(struct span name)
{
    static const char *const names[] = {"host", "range", "content-type", "content-md5"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (span_case_is(name, names[i]))
            return true;
    }
    return name.len > 6 && strncasecmp(name.at, "x-amz-", 6) == 0;
}

static int
name_cmp(struct span a, struct span b)
{
    int c = strncasecmp(a.at, b.at, MIN(a.len, b.len));

    return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}

/* The sorted list of names, in lower case, each once. */
static bool
list_names(struct fields headers, bool all, struct arena *a, struct span *out)
{
    struct span sorted[SIGV4_SIGNED_HEADERS_MAX];
    size_t count = 0, room = 0;
    char *at;

    for (size_t i = 0; i < headers.count; i++) {
        struct span name = headers.at[i].name;
        size_t k = 0, end;

        if (!all && !sigv4_is_signed(name))
            continue;
        while (k < count && name_cmp(sorted[k], name) < 0)
            k++;
        if (k < count && name_cmp(sorted[k], name) == 0)
            continue;
        if (count == SIGV4_SIGNED_HEADERS_MAX)
            return false;
        for (end = count; end > k; end--)
            sorted[end] = sorted[end - 1];
        sorted[k] = name;
        count++;
        room += name.len + 1;
    }
    at = arena_try(a, room + 1);
    if (at == NULL)
        return false;
    *out = (struct span){at, room > 0 ? room - 1 : 0};
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < sorted[i].len; k++) {
            char c = sorted[i].at[k];

            *at++ = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
        }
        *at++ = ';';
    }
    return true;
}

/* req's headers and those added, in one list. */
static bool
join_fields(struct fields headers, const struct field *add, size_t add_count,
            struct arena *a, struct fields *out)
{
    struct field *all = arena_try(a, (headers.count + add_count) * sizeof *all);

    if (all == NULL)
        return false;
    if (headers.count > 0)
        memcpy(all, headers.at, headers.count * sizeof *all);
    if (add_count > 0)
        memcpy(all + headers.count, add, add_count * sizeof *all);
    *out = (struct fields){all, headers.count + add_count};
    return true;
}

static struct span
scope_of(const struct sigv4_creds *creds, const char *date, struct arena *a)
{
    struct span region = creds->region.len > 0 ? creds->region : DEFAULT_REGION;

    return JOIN(a, (struct span){date, 8}, SPAN("/"), region, SPAN("/s3/aws4_request"));
}

/* The signature of a canonical request. */
static bool
sign_canon(const struct canon *c, const struct sigv4_creds *creds,
           struct sigv4_cache *cache, const char *date, struct span scope,
           struct arena *a, char signature[SHA256_HEX + 1])
{
    struct span region = creds->region.len > 0 ? creds->region : DEFAULT_REGION;
    struct span request;
    struct hmac_key key;
    char text[SIGV4_TEXT_MAX];

    if (region.len > SIGV4_REGION_MAX || !canon_request(c, a, &request))
        return false;
    sigv4_key(cache, creds->secret, (struct span){date, 8}, region, &key);
    sigv4_hex(&key, canon_string_to_sign(date, scope, request, text), signature);
    hash_wipe(&key, sizeof key);
    return true;
}

static void
set_date(int64_t now_s, char date[17])
{
    char text[NUM_DATE_TEXT];

    date_amz(now_s, text);
    snprintf(date, 17, "%.16s", text);
}

static void
add_field(struct sigv4_signed *s, struct span name, struct span value)
{
    assert(s->add_count < SIGV4_ADDED_MAX);
    s->add[s->add_count++] = (struct field){name, value};
}

enum err
sigv4_sign(const struct sigv4_request *req, const struct query *q,
           const struct sigv4_creds *creds, struct span payload,
           struct sigv4_cache *cache, int64_t now_s, struct arena *a,
           struct sigv4_signed *out)
{
    struct sigv4_request whole = *req;
    struct canon c = {.req = &whole, .q = q, .payload = payload};
    char signature[SHA256_HEX + 1];
    struct span header;

    *out = (struct sigv4_signed){0};
    set_date(now_s, out->date);
    out->scope = scope_of(creds, out->date, a);
    add_field(out, SPAN("x-amz-date"), JOIN(a, span_of(out->date)));
    add_field(out, SPAN("x-amz-content-sha256"), payload);
    if (creds->token.len > 0)
        add_field(out, SPAN("x-amz-security-token"), creds->token);
    if (!join_fields(req->headers, out->add, out->add_count, a, &whole.headers) ||
        !list_names(whole.headers, false, a, &c.signed_headers) ||
        !sign_canon(&c, creds, cache, out->date, out->scope, a, signature))
        return ERR_TOO_LARGE;

    out->signature = JOIN(a, span_of(signature));
    header = JOIN(a, SPAN("AWS4-HMAC-SHA256 Credential="), creds->access_key, SPAN("/"),
                  out->scope, SPAN(", SignedHeaders="), c.signed_headers,
                  SPAN(", Signature="), out->signature);
    if (header.len == 0 || out->signature.len == 0 || out->scope.len == 0)
        return ERR_TOO_LARGE;
    add_field(out, SPAN("authorization"), header);
    return ERR_OK;
}

enum err
sigv4_presign(const struct sigv4_request *req, const struct query *q,
              const struct sigv4_creds *creds, uint64_t expires_s,
              struct sigv4_cache *cache, int64_t now_s, struct arena *a,
              struct span *query_out)
{
    struct param *params = arena_try(a, (q->count + 6) * sizeof *params);
    struct query all = {params, q->count};
    struct canon c = {.req = req, .q = &all, .payload = SPAN("UNSIGNED-PAYLOAD")};
    char date[17], expires[24], signature[SHA256_HEX + 1];
    struct span scope, text;

    set_date(now_s, date);
    snprintf(expires, sizeof expires, "%" PRIu64, expires_s);
    scope = scope_of(creds, date, a);
    *query_out = (struct span){"", 0};
    if (params == NULL || scope.len == 0 || q->count + 6 > QUERY_PARAMS_MAX ||
        !list_names(req->headers, true, a, &c.signed_headers))
        return ERR_TOO_LARGE;
    if (q->count > 0)
        memcpy(params, q->at, q->count * sizeof *params);
    params[all.count++] =
        (struct param){SPAN("X-Amz-Algorithm"), SPAN("AWS4-HMAC-SHA256")};
    params[all.count++] = (struct param){SPAN("X-Amz-Credential"),
                                         JOIN(a, creds->access_key, SPAN("/"), scope)};
    params[all.count++] = (struct param){SPAN("X-Amz-Date"), JOIN(a, span_of(date))};
    params[all.count++] =
        (struct param){SPAN("X-Amz-Expires"), JOIN(a, span_of(expires))};
    params[all.count++] = (struct param){SPAN("X-Amz-SignedHeaders"), c.signed_headers};
    if (creds->token.len > 0)
        params[all.count++] = (struct param){SPAN("X-Amz-Security-Token"), creds->token};

    if (!sign_canon(&c, creds, cache, date, scope, a, signature) ||
        !canon_query(&all, a, &text))
        return ERR_TOO_LARGE;
    *query_out = JOIN(a, text, SPAN("&X-Amz-Signature="), span_of(signature));
    return query_out->len > 0 ? ERR_OK : ERR_TOO_LARGE;
}
