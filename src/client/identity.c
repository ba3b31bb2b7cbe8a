#include "client/identity.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/num.h"
#include "client/aws_profile.h"
#include "client/sts.h"
#include "http/client.h"
#include "rt/loop.h"

#define FILE_MAX         KIB(64)
#define ANSWER_MAX       KIB(64)
#define METADATA_WAIT_MS 5000
#define CONNECT_MS                                                                       \
    2000 /* a machine without metadata does not even refuse the connection */
#define METADATA_HOST  "http://169.254.169.254"
#define CONTAINER_HOST "http://169.254.170.2"

/* From environment and files; read on a worker. */
struct settings {
    char *access_key, *secret_key, *token, *region;
    char *role_arn, *session_name, *token_file;
    char *container_relative, *container_full, *container_token, *container_token_file;
    char *metadata_endpoint, *sts_endpoint;
    bool no_metadata;
    char *profile_name;
    struct aws_profile profile, source;
    /* read in a second round */
    const char *read_path;
    char *read_text;
    size_t read_len;
};

struct finder {
    struct settings s;
    struct http_client *http;
    struct tls_context *tls;
    struct s3_identity *out;
    struct errbuf *eb;
};

/* ---- on a worker ---- */

static char *
env_dup(const char *name)
{
    const char *v = getenv(name);

    return v != NULL && v[0] != '\0' ? xstrdup(v) : NULL;
}

static void
gather_settings(void *arg)
{
    struct settings *s = arg;
    char *off = env_dup("AWS_EC2_METADATA_DISABLED");

    s->access_key = env_dup("AWS_ACCESS_KEY_ID");
    s->secret_key = env_dup("AWS_SECRET_ACCESS_KEY");
    s->token = env_dup("AWS_SESSION_TOKEN");
    s->region = env_dup("AWS_REGION");
    if (s->region == NULL)
        s->region = env_dup("AWS_DEFAULT_REGION");
    s->role_arn = env_dup("AWS_ROLE_ARN");
    s->session_name = env_dup("AWS_ROLE_SESSION_NAME");
    s->token_file = env_dup("AWS_WEB_IDENTITY_TOKEN_FILE");
    s->container_relative = env_dup("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    s->container_full = env_dup("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    s->container_token = env_dup("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    s->container_token_file = env_dup("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    s->metadata_endpoint = env_dup("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    s->sts_endpoint = env_dup("AWS_ENDPOINT_URL_STS");
    s->no_metadata = off != NULL && strcasecmp(off, "true") == 0;
    free(off);
    s->profile_name = env_dup("AWS_PROFILE");
    if (s->profile_name == NULL)
        s->profile_name = xstrdup("default");
    aws_profile_read(s->profile_name, &s->profile);
    if (s->profile.source_profile != NULL)
        aws_profile_read(s->profile.source_profile, &s->source);
    if (s->region == NULL && s->profile.region != NULL)
        s->region = xstrdup(s->profile.region);
}

static void
read_file(void *arg)
{
    struct settings *s = arg;
    FILE *f = fopen(s->read_path, "re");

    if (f == NULL)
        return;
    s->read_text = xmalloc(FILE_MAX + 1);
    s->read_len = fread(s->read_text, 1, FILE_MAX, f);
    while (s->read_len > 0 && strchr(" \t\r\n", s->read_text[s->read_len - 1]) != NULL)
        s->read_len--;
    s->read_text[s->read_len] = '\0';
    (void)fclose(f);
}

static void
wipe_text(char **text)
{
    if (*text != NULL)
        OPENSSL_cleanse(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

static void
settings_fini(struct settings *s)
{
    char **all[] = {&s->access_key,
                    &s->secret_key,
                    &s->token,
                    &s->region,
                    &s->role_arn,
                    &s->session_name,
                    &s->token_file,
                    &s->container_relative,
                    &s->container_full,
                    &s->container_token,
                    &s->container_token_file,
                    &s->metadata_endpoint,
                    &s->sts_endpoint,
                    &s->profile_name,
                    &s->read_text};

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        wipe_text(all[i]);
    aws_profile_fini(&s->profile);
    aws_profile_fini(&s->source);
}

/* Reads a file with a token into s.read_text. */
static enum err
load_token(struct finder *f, const char *path)
{
    enum err rc;

    wipe_text(&f->s.read_text);
    f->s.read_path = path;
    rc = rt_blocking(read_file, &f->s, DEADLINE_NEVER);
    if (rc != ERR_OK)
        return err_set(f->eb, rc, "reading %s was cancelled", path);
    return f->s.read_text != NULL && f->s.read_len > 0
               ? ERR_OK
               : err_set(f->eb, ERR_NOT_FOUND, "%s: there is no token in it", path);
}

/* ---- asking ---- */

static enum err
http_ask(struct finder *f, const char *method, const char *base, const char *path,
         struct fields headers, uint64_t wait_ms, int *status, struct buf *out)
{
    struct http_call_request r = {.method = method,
                                  .headers = headers,
                                  .length = HTTP_NO_BODY,
                                  .direct = true,
                                  .by = deadline_in_ms(wait_ms)};
    const char *base_path;
    char *host;
    enum err rc = endpoint_parse(base, &host, &r.port, &r.tls, &base_path, f->eb);

    if (rc != ERR_OK)
        return rc;
    r.host = host;
    r.target = span_of(path != NULL ? path : base_path);
    if (strcmp(method, "PUT") == 0)
        r.length = 0;
    rc = http_call_simple(f->http, &r, (struct span){"", 0}, status, out, NULL, NULL,
                          f->eb);
    free(host);
    return rc;
}

static char *
text_of(const json_t *o, const char *key)
{
    const char *t = json_string_value(json_object_get(o, key));

    return t != NULL && t[0] != '\0' ? xstrdup(t) : NULL;
}

/* The document that containers and instances share. */
static enum err
take_document(struct finder *f, struct buf *doc, const char *from)
{
    json_t *o = json_loadb(doc->at, doc->len, 0, NULL);
    const char *ends = json_string_value(json_object_get(o, "Expiration"));
    int64_t ms;

    f->out->keys = (struct s3_credentials){.access_key = text_of(o, "AccessKeyId"),
                                           .secret_key = text_of(o, "SecretAccessKey"),
                                           .session_token = text_of(o, "Token")};
    f->out->from = from;
    if (ends != NULL && date_iso_parse(span_of(ends), &ms) == ERR_OK)
        f->out->expires_s = ms / 1000;
    json_decref(o);
    if (doc->len > 0)
        OPENSSL_cleanse(doc->at, doc->len);
    return f->out->keys.access_key != NULL && f->out->keys.secret_key != NULL
               ? ERR_OK
               : err_set(f->eb, ERR_BACKEND, "%s gave no keys", from);
}

/* Keys may go over plain http only within the machine, or to the addresses of container credentials. */
static bool
may_be_plain(const char *host)
{
    struct in_addr v4;
    uint32_t address;

    if (strcasecmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
        strcasecmp(host, "fd00:ec2::23") == 0)
        return true;
    if (inet_pton(AF_INET, host, &v4) != 1)
        return false;
    address = ntohl(v4.s_addr);
    return address >> 24 == 127 || address == 0xA9FEAA02 || address == 0xA9FEAA17;
}

static enum err
check_container(const char *url, struct errbuf *eb)
{
    const char *path;
    uint16_t port;
    char *host;
    bool tls;
    enum err rc = endpoint_parse(url, &host, &port, &tls, &path, eb);

    if (rc == ERR_OK && !tls && !may_be_plain(host))
        rc =
            err_set(eb, ERR_DENIED,
                    "AWS_CONTAINER_CREDENTIALS_FULL_URI is http://%s: keys are asked for "
                    "in the clear on loopback and at 169.254.170.2 and .23 only",
                    host);
    free(host);
    return rc;
}

static enum err
from_container(struct finder *f)
{
    struct settings *s = &f->s;
    const char *base = s->container_relative != NULL ? CONTAINER_HOST : s->container_full;
    struct field token = {SPAN("authorization"), {NULL, 0}};
    struct buf doc;
    int status = 0;
    enum err rc = check_container(base, f->eb);

    if (rc == ERR_OK && s->container_token_file != NULL)
        rc = load_token(f, s->container_token_file);
    if (rc != ERR_OK)
        return rc;
    token.value =
        span_of(s->container_token_file != NULL ? s->read_text : s->container_token);
    buf_init(&doc, ANSWER_MAX);
    rc = http_ask(f, "GET", base, s->container_relative,
                  (struct fields){&token, token.value.len > 0 ? 1 : 0}, 5000, &status,
                  &doc);
    if (rc != ERR_OK)
        err_prefix(f->eb, "the container's keys");
    else if (status != 200)
        rc = err_set(f->eb, ERR_DENIED, "the container's keys: HTTP %d from %s", status,
                     base);
    else
        rc = take_document(f, &doc, "the container");
    buf_fini(&doc);
    return rc;
}

/* ERR_NOT_FOUND: this machine is not an instance, or has no role. */
static enum err
from_instance(struct finder *f)
{
    static const char root[] = "/latest/meta-data/iam/security-credentials/";
    const char *base =
        f->s.metadata_endpoint != NULL ? f->s.metadata_endpoint : METADATA_HOST;
    struct field ttl = {SPAN("x-aws-ec2-metadata-token-ttl-seconds"), SPAN("21600")};
    struct field token = {SPAN("x-aws-ec2-metadata-token"), {NULL, 0}};
    struct buf session, role, doc;
    char path[256];
    int status = 0;
    enum err rc;

    buf_init(&session, KIB(4));
    buf_init(&role, KIB(1));
    buf_init(&doc, ANSWER_MAX);
    rc = http_ask(f, "PUT", base, "/latest/api/token", (struct fields){&ttl, 1},
                  METADATA_WAIT_MS, &status, &session);
    token.value = buf_span(&session);
    if (rc == ERR_OK && status == 200)
        rc = http_ask(f, "GET", base, root, (struct fields){&token, 1}, METADATA_WAIT_MS,
                      &status, &role);
    if (rc != ERR_CANCELLED && (rc != ERR_OK || status != 200 || role.len == 0)) {
        rc = err_set(f->eb, ERR_NOT_FOUND,
                     "no keys, and this machine's metadata has none");
    } else if (rc == ERR_OK) {
        snprintf(path, sizeof path, "%s%.*s", root,
                 (int)MIN(strcspn(role.at, "\r\n"), MIN(role.len, 128u)), role.at);
        rc = http_ask(f, "GET", base, path, (struct fields){&token, 1}, 5000, &status,
                      &doc);
        if (rc == ERR_OK && status != 200)
            rc = err_set(f->eb, ERR_DENIED, "the instance's metadata: HTTP %d for %s",
                         status, path);
        if (rc == ERR_OK)
            rc = take_document(f, &doc, "the instance's metadata");
    }
    buf_fini(&session);
    buf_fini(&role);
    buf_fini(&doc);
    return rc;
}

static enum err
assume(struct finder *f, const char *role, const char *session, struct span web_token,
       const struct s3_credentials *role_keys)
{
    const char *region = f->s.region != NULL ? f->s.region : "us-east-1";
    char *made = xasprintf("https://sts.%s.amazonaws.com", region);
    struct sts_request a = {.endpoint =
                                f->s.sts_endpoint != NULL ? f->s.sts_endpoint : made,
                            .region = region,
                            .role_arn = role,
                            .session_name = session != NULL ? session : "forebay",
                            .external_id = f->s.profile.external_id,
                            .web_token = web_token,
                            .role_keys = role_keys};
    enum err rc = sts_assume(f->http, &a, f->out, f->eb);

    f->out->from = web_token.len > 0 ? "a web identity" : "an assumed role";
    free(made);
    return rc;
}

static enum err
from_web_identity(struct finder *f, const char *file, const char *role,
                  const char *session)
{
    enum err rc = load_token(f, file);

    return rc == ERR_OK ? assume(f, role, session,
                                 (struct span){f->s.read_text, f->s.read_len}, NULL)
                        : rc;
}

/* Finds the keys that sign the request for a role. */
static enum err
find_role_keys(struct finder *f, struct s3_identity *role_keys)
{
    const char *source = f->s.profile.credential_source;
    struct finder g = *f;

    g.out = role_keys;
    if (source == NULL || strcmp(source, "Environment") == 0)
        return err_set(f->eb, ERR_NOT_FOUND, "profile [%s]: no keys to assume %s with",
                       f->s.profile_name, f->s.profile.role_arn);
    if (strcmp(source, "EcsContainer") == 0)
        return from_container(&g);
    if (strcmp(source, "Ec2InstanceMetadata") == 0)
        return from_instance(&g);
    return err_set(f->eb, ERR_BAD_REQUEST, "profile [%s]: credential_source \"%s\"",
                   f->s.profile_name, source);
}

static enum err
from_role(struct finder *f)
{
    struct aws_profile *p = &f->s.profile;
    struct s3_identity role_keys = {0};
    const struct s3_credentials *keys = NULL;
    enum err rc = ERR_OK;

    if (p->token_file != NULL)
        return from_web_identity(f, p->token_file, p->role_arn, p->session_name);
    if (p->source_profile != NULL && f->s.source.keys.secret_key != NULL)
        keys = &f->s.source.keys;
    else if (p->source_profile != NULL)
        return err_set(f->eb, ERR_NOT_FOUND, "profile [%s]: its source [%s] has no keys",
                       f->s.profile_name, p->source_profile);
    if (keys == NULL) {
        rc = find_role_keys(f, &role_keys);
        keys = &role_keys.keys;
    }
    if (rc == ERR_OK)
        rc = assume(f, p->role_arn, p->session_name, (struct span){"", 0}, keys);
    s3_identity_fini(&role_keys);
    return rc;
}

static void
take_static(struct finder *f, struct s3_credentials *keys, const char *from)
{
    f->out->keys = *keys;
    f->out->from = from;
    *keys = (struct s3_credentials){0};
}

static enum err
from_profile(struct finder *f)
{
    struct aws_profile *p = &f->s.profile;

    if (p->role_arn != NULL)
        return from_role(f);
    if (p->keys.access_key != NULL && p->keys.secret_key == NULL)
        return err_set(f->eb, ERR_BAD_REQUEST,
                       "profile [%s] has no aws_secret_access_key", f->s.profile_name);
    if (p->keys.access_key != NULL) {
        take_static(f, &p->keys, "the profile");
        return ERR_OK;
    }
    if (p->process != NULL || p->sso_account != NULL)
        return err_set(f->eb, ERR_NOT_IMPLEMENTED,
                       "profile [%s] has its keys from %s, which is not followed: export "
                       "them (aws configure export-credentials), or use a role",
                       f->s.profile_name,
                       p->process != NULL ? "credential_process" : "SSO");
    return ERR_NOT_FOUND;
}

static enum err
find_identity(struct finder *f)
{
    struct settings *s = &f->s;
    struct s3_credentials given = {s->access_key, s->secret_key, s->token};
    enum err rc;

    if ((s->access_key != NULL) != (s->secret_key != NULL))
        return err_set(f->eb, ERR_BAD_REQUEST,
                       "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must both be set");
    if (s->access_key != NULL) {
        take_static(f, &given, "the environment");
        s->access_key = s->secret_key = s->token = NULL;
        return ERR_OK;
    }
    if (s->token_file != NULL && s->role_arn != NULL)
        return from_web_identity(f, s->token_file, s->role_arn, s->session_name);
    rc = from_profile(f);
    if (rc != ERR_NOT_FOUND || s->profile.role_arn != NULL)
        return rc;
    if (s->container_relative != NULL || s->container_full != NULL)
        return from_container(f);
    if (!s->no_metadata)
        return from_instance(f);
    return err_set(f->eb, ERR_NOT_FOUND, "no keys in the environment or in profile [%s]",
                   s->profile_name);
}

enum err
s3_identity_find(const char *ca_file, const struct proxies *proxies,
                 struct s3_identity *out, struct errbuf *eb)
{
    struct finder f = {.out = out, .eb = eb};
    struct tls_client_options t = {.ca_file = ca_file};
    struct http_client_options h = {
        .connect_ms = CONNECT_MS, .first_byte_ms = 10000, .proxies = proxies};
    enum err rc = rt_blocking(gather_settings, &f.s, DEADLINE_NEVER);

    *out = (struct s3_identity){0};
    if (rc != ERR_OK)
        err_set(eb, rc, "the search for keys was cancelled");
    if (rc == ERR_OK)
        rc = tls_client_new(&t, &f.tls, eb);
    h.tls = f.tls;
    if (rc == ERR_OK)
        rc = http_client_new(&h, &f.http, eb);
    if (rc == ERR_OK)
        rc = find_identity(&f);
    out->region = f.s.region;
    f.s.region = NULL;
    if (rc != ERR_OK)
        s3_identity_fini(out);
    if (f.http != NULL)
        http_client_free(&f.http);
    tls_context_free(&f.tls);
    settings_fini(&f.s);
    return rc;
}

void
s3_identity_fini(struct s3_identity *i)
{
    s3_credentials_fini(&i->keys);
    free(i->region);
    *i = (struct s3_identity){0};
}
