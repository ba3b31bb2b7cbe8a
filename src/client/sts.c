#include "client/sts.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/uri.h"
#include "rt/time.h"
#include "wire/xml.h"

#define ANSWER_MAX KIB(64)
#define BODY_MAX   KIB(64)

enum err
endpoint_parse(const char *url, char **host, uint16_t *port, bool *tls, const char **path,
               struct errbuf *eb)
{
    const char *at = url, *end, *colon;
    uint64_t number = 0;

    *host = NULL;
    *tls = strncmp(url, "https://", 8) == 0;
    if (!*tls && strncmp(url, "http://", 7) != 0)
        return err_set(eb, ERR_BAD_REQUEST, "\"%.200s\": http:// or https:// is expected",
                       url);
    at += *tls ? 8 : 7;
    end = at + strcspn(at, "/?");
    *path = *end == '/' ? end : "/";
    colon = at[0] == '[' ? memchr(at, ']', (size_t)(end - at)) : at;
    colon = colon != NULL ? memchr(colon, ':', (size_t)(end - colon)) : NULL;
    if (colon != NULL && at[0] != '[' && memchr(at, ':', (size_t)(end - at)) != colon)
        colon = NULL;
    number = *tls ? 443 : 80;
    if ((colon != NULL && num_u64((struct span){colon + 1, (size_t)(end - colon - 1)},
                                  &number) != ERR_OK) ||
        number == 0 || number > 65535 || end == at || colon == at)
        return err_set(eb, ERR_BAD_REQUEST, "\"%.200s\": expected http[s]://HOST[:PORT]",
                       url);
    *port = (uint16_t)number;
    if (colon == NULL)
        colon = end;
    if (at[0] == '[') /* an IPv6 address goes without its brackets */
        *host = xmemdup0(at + 1, strcspn(at, "]") - 1);
    else
        *host = xmemdup0(at, (size_t)(colon - at));
    return ERR_OK;
}

/* ---- the request ---- */

static void
put_form_pair(struct buf *out, const char *name, struct span value)
{
    buf_printf(out, "%s%s=", out->len > 0 ? "&" : "", name);
    uri_encode(out, value, false);
}

static void
put_body(const struct sts_request *ask, struct buf *out)
{
    bool web = ask->web_token.len > 0;

    put_form_pair(out, "Action",
                  web ? SPAN("AssumeRoleWithWebIdentity") : SPAN("AssumeRole"));
    put_form_pair(out, "Version", SPAN("2011-06-15"));
    put_form_pair(out, "RoleArn", span_of(ask->role_arn));
    put_form_pair(out, "RoleSessionName", span_of(ask->session_name));
    if (ask->external_id != NULL)
        put_form_pair(out, "ExternalId", span_of(ask->external_id));
    if (web)
        put_form_pair(out, "WebIdentityToken", ask->web_token);
}

/* SigV4 for the service "sts", for one form of request only: a POST of a form to "/". */
static void
sign_sts(const struct sts_request *ask, struct span host, struct span body, char date[17],
         struct buf *authorization)
{
    const struct s3_credentials *k = ask->role_keys;
    unsigned char key[32], sum[DIGEST_MAX];
    char hex[65], scope[128], first[300];
    bool token = k->session_token != NULL;
    const char *names = token ? "content-type;host;x-amz-date;x-amz-security-token"
                              : "content-type;host;x-amz-date";
    struct buf text;
    int n;

    date_amz((int64_t)(rt_wall_ns() / 1000000000), first);
    snprintf(date, 17, "%.16s", first);
    snprintf(scope, sizeof scope, "%.8s/%.60s/sts/aws4_request", date, ask->region);
    digest_oneshot(DIGEST_SHA256, body.at, body.len, sum);
    hex_encode(sum, 32, hex);
    buf_init(&text, KIB(32));
    buf_printf(&text,
               "POST\n/\n\ncontent-type:application/x-www-form-urlencoded\nhost:%.*s\n"
               "x-amz-date:%s\n",
               SPAN_ARG(host), date);
    if (token)
        buf_printf(&text, "x-amz-security-token:%s\n", k->session_token);
    buf_printf(&text, "\n%s\n%s", names, hex);
    digest_oneshot(DIGEST_SHA256, text.at, text.len, sum);
    hex_encode(sum, 32, hex);
    buf_clear(&text);
    buf_printf(&text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, scope, hex);
    n = snprintf(first, sizeof first, "AWS4%s", k->secret_key);
    hash_hmac_sha256(first, MIN((size_t)n, sizeof first - 1), date, 8, key);
    hash_hmac_sha256(key, 32, ask->region, strlen(ask->region), key);
    hash_hmac_sha256(key, 32, "sts", 3, key);
    hash_hmac_sha256(key, 32, "aws4_request", 12, key);
    hash_hmac_sha256(key, 32, text.at, text.len, sum);
    hex_encode(sum, 32, hex);
    buf_printf(authorization,
               "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s",
               k->access_key, scope, names, hex);
    hash_wipe(key, sizeof key);
    hash_wipe(first, sizeof first);
    buf_fini(&text);
}

/* ---- the answer ---- */

struct answer {
    struct s3_identity *out;
    char message[256];
};

static enum err
on_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct answer *a = arg;
    struct s3_identity *o = a->out;
    int64_t ms;

    (void)depth;
    if (span_is(name, "AccessKeyId") && o->keys.access_key == NULL)
        o->keys.access_key = xmemdup0(text.at, text.len);
    else if (span_is(name, "SecretAccessKey") && o->keys.secret_key == NULL)
        o->keys.secret_key = xmemdup0(text.at, text.len);
    else if (span_is(name, "SessionToken") && o->keys.session_token == NULL)
        o->keys.session_token = xmemdup0(text.at, text.len);
    else if (span_is(name, "Expiration") && date_iso_parse(text, &ms) == ERR_OK)
        o->expires_s = ms / 1000;
    else if (span_is(name, "Message"))
        snprintf(a->message, sizeof a->message, "%.*s", SPAN_ARG(text));
    return ERR_OK;
}

static enum err
check_answer(const struct sts_request *ask, int status, struct span doc,
             struct s3_identity *out, struct errbuf *eb)
{
    struct answer a = {.out = out};
    struct xml_handler h = {.on_close = on_close, .arg = &a};
    enum err rc = xml_read(doc, &h, eb);

    if (rc != ERR_OK || status / 100 != 2)
        return err_set(eb, ERR_DENIED, "%s refused role %s: HTTP %d %s", ask->endpoint,
                       ask->role_arn, status, a.message);
    if (out->keys.access_key == NULL || out->keys.secret_key == NULL ||
        out->expires_s == 0)
        return err_set(eb, ERR_BACKEND, "%s gave no keys for role %s", ask->endpoint,
                       ask->role_arn);
    return ERR_OK;
}

enum err
sts_assume(struct http_client *c, const struct sts_request *ask, struct s3_identity *out,
           struct errbuf *eb)
{
    struct buf body, answer, authorization, host_text;
    struct field fields[4] = {
        {SPAN("content-type"), SPAN("application/x-www-form-urlencoded")}};
    struct http_call_request r = {.method = "POST",
                                  .target = SPAN("/"),
                                  .headers = {fields, 1},
                                  .by = deadline_in_ms(20000)};
    char *host, date[17];
    const char *path;
    int status = 0;
    enum err rc = endpoint_parse(ask->endpoint, &host, &r.port, &r.tls, &path, eb);

    if (rc != ERR_OK)
        return rc;
    buf_init(&body, BODY_MAX);
    buf_init(&answer, ANSWER_MAX);
    buf_init(&authorization, KIB(4));
    buf_init(&host_text, KIB(1));
    r.host = host;
    buf_puts(&host_text, host);
    if (r.port != (r.tls ? 443 : 80))
        buf_printf(&host_text, ":%u", r.port);
    r.host_header = buf_span(&host_text);
    put_body(ask, &body);
    r.length = (int64_t)body.len;
    if (ask->web_token.len == 0) {
        sign_sts(ask, r.host_header, buf_span(&body), date, &authorization);
        fields[1] = (struct field){SPAN("x-amz-date"), span_of(date)};
        fields[2] = (struct field){SPAN("authorization"), buf_span(&authorization)};
        r.headers.count = 3;
        if (ask->role_keys->session_token != NULL)
            fields[r.headers.count++] = (struct field){
                SPAN("x-amz-security-token"), span_of(ask->role_keys->session_token)};
    }
    rc = body.full || authorization.full
             ? err_set(eb, ERR_TOO_LARGE, "the request to %s is over %u bytes",
                       ask->endpoint, (unsigned)BODY_MAX)
             : http_call_simple(c, &r, buf_span(&body), &status, &answer, NULL, NULL, eb);
    if (rc == ERR_OK)
        rc = check_answer(ask, status, buf_span(&answer), out, eb);
    else
        err_prefix(eb, "%s", ask->endpoint);
    if (answer.len > 0)
        OPENSSL_cleanse(answer.at, answer.len);
    if (body.len > 0)
        OPENSSL_cleanse(body.at, body.len);
    buf_fini(&body);
    buf_fini(&answer);
    buf_fini(&authorization);
    buf_fini(&host_text);
    free(host);
    return rc;
}
