/* bucket attach: a bucket that stands for one at a remote. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/session.h"
#include "wire/json.h"

static const struct flag flags[] = {
    {"endpoint", 0, "URL", "URL of the remote; default: AWS by region", false},
    {"as", 0, "NAME", "local name; default: the remote's name", false},
    {"remote-profile", 0, "NAME",
     "keys for the remote from this profile of your AWS files", false},
    {"remote-region", 0, "NAME", "region of the remote", false},
    {"network", 0, "public|private|any",
     "networks that the endpoint may resolve to; default: the current one", false},
    {"store-credentials", 0, NULL, "store your AWS keys for the remote on the server",
     false},
    {"anonymous", 0, NULL, "the remote is read without keys", false},
    {"requester-pays", 0, NULL, "accept charges for reads (requester pays)", false},
    {"virtual-host", 0, NULL, "use BUCKET.host names at the remote", false},
    {"dry-run", 'n', NULL, "validate everything, the remote included, and change nothing",
     false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay bucket attach s3://imagenet --store-credentials",
    "forebay bucket attach s3://train --endpoint http://10.0.0.5:8333 --as train-cache "
    "--store-credentials",
    "forebay bucket attach hts://data.example.org/imagenet --as web", NULL};
static const struct verb verb = {
    .name = "bucket attach",
    .summary = "make a bucket that caches one at a remote",
    .arguments = "s3://REMOTE | ht[s]://HOST/PATH",
    .least = 1,
    .most = 1,
    .examples = examples,
    .flags = flags,
    .more = "The first read of an object of an attached bucket fetches and caches it; "
            "later reads are local. A cached version is\n"
            "served until it is written through this server or its time to live (bucket "
            "set --ttl) is over; then the server\n"
            "revalidates it at the remote. Without --store-credentials the server uses "
            "its own AWS environment."};

static void
bucket_put_keys(struct json *j, const struct s3_credentials *c)
{
    json_open_object(j, "credentials");
    json_text(j, "access_key", c->access_key);
    json_text(j, "secret_key", c->secret_key);
    if (c->session_token != NULL)
        json_text(j, "session_token", c->session_token);
    json_end(j);
}

static enum err
attach_document(struct session *s, const struct place *p, const char *as, const char *web,
                struct buf *out)
{
    struct s3_credentials keys = {0};
    char *region = NULL;
    const char *given = args_value(s->args, "remote-region");
    struct json j;
    enum err rc = ERR_OK;

    if (args_has(s->args, "store-credentials") ||
        args_value(s->args, "remote-profile") != NULL)
        rc = s3_credentials_chain(args_value(s->args, "remote-profile"), &keys, &region,
                                  &s->eb);
    if (rc == ERR_NOT_FOUND)
        err_prefix(&s->eb, "--store-credentials found no keys for the remote");
    json_begin(&j, out);
    json_open_object(&j, NULL);
    json_text(&j, "name", as);
    json_span(&j, "bucket", p->bucket);
    if (web != NULL) {
        json_text(&j, "endpoint", web);
        json_bool(&j, "plain_http", true);
    } else if (args_value(s->args, "endpoint") != NULL) {
        json_text(&j, "endpoint", args_value(s->args, "endpoint"));
    }
    if (args_has(s->args, "dry-run"))
        json_bool(&j, "dry_run", true);
    json_bool(&j, "requester_pays", args_has(s->args, "requester-pays"));
    if (args_value(s->args, "network") != NULL)
        json_text(&j, "network", args_value(s->args, "network"));
    if (given != NULL || region != NULL)
        json_text(&j, "region", given != NULL ? given : region);
    json_bool(&j, "path_style", !args_has(s->args, "virtual-host"));
    if (keys.access_key != NULL)
        bucket_put_keys(&j, &keys);
    else if (args_has(s->args, "anonymous"))
        json_text(&j, "credentials", "anonymous");
    json_end(&j);
    s3_credentials_fini(&keys);
    free(region);
    return rc;
}

/* "ht://host[:port]/path" and "hts://": where a plain web server is, and the path below which names are. *web is NULL for
 * other texts. */
static enum err
web_place(struct session *s, struct arena *a, const char *text, struct place *p,
          const char **web)
{
    bool tls = strncmp(text, "hts://", 6) == 0;
    const char *host = text + (tls ? 6 : 5), *path;

    *web = NULL;
    if (!tls && strncmp(text, "ht://", 5) != 0)
        return ERR_OK;
    if (args_value(s->args, "as") == NULL)
        return err_set(&s->eb, ERR_BAD_REQUEST, "\"%s\" needs a name here: --as NAME",
                       text);
    if (args_value(s->args, "endpoint") != NULL ||
        args_has(s->args, "store-credentials") || strpbrk(text, "?#@") != NULL)
        return err_set(&s->eb, ERR_BAD_REQUEST,
                       "\"%s\": a plain web server has no --endpoint, no keys and no "
                       "query",
                       text);
    path = host + strcspn(host, "/");
    *web = arena_printf(a, "%s://%.*s", tls ? "https" : "http", (int)(path - host), host);
    while (*path == '/')
        path++;
    *p = (struct place){.remote = true, .bucket = span_of(path), .text = text};
    while (p->bucket.len > 0 && path[p->bucket.len - 1] == '/')
        p->bucket.len--;
    return host[0] != '\0' && host[0] != '/'
               ? ERR_OK
               : err_set(&s->eb, ERR_BAD_REQUEST, "\"%s\" names no host", text);
}

static enum exit_code
bucket_attach(struct session *s)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_request r = {.method = "POST", .path = SPAN("/_/buckets")};
    const char *as = args_value(s->args, "as");
    struct span answer = {"", 0};
    struct place p;
    struct buf doc;
    int status = 0;
    const char *web;
    enum err rc = web_place(s, a, s->args->at[0], &p, &web);

    buf_init(&doc, KIB(64));
    if (rc == ERR_OK && web == NULL)
        rc = place_bucket(s->args->at[0], &p, &s->eb);
    if (rc == ERR_OK && as == NULL)
        as = arena_strdup(a, p.bucket);
    if (rc == ERR_OK)
        rc = attach_document(s, &p, as, web, &doc);
    r.body = buf_span(&doc);
    if (rc == ERR_OK)
        rc = s3_request(s->s3, &r, a, &status, &answer, &s->eb);
    if (rc == ERR_OK && status != 200)
        rc = err_set(&s->eb,
                     status == 409   ? ERR_EXISTS
                     : status == 403 ? ERR_DENIED
                     : status == 404 ? ERR_NO_BUCKET
                     : status >= 500 ? ERR_BACKEND
                                     : ERR_BAD_REQUEST,
                     "%.*s", SPAN_ARG(answer));
    if (rc == ERR_OK && s->json)
        printf("%.*s\n", SPAN_ARG(answer));
    else if (rc == ERR_OK && !s->quiet)
        printf("%s s3://%s: remote %s %.*s at %s\n",
               args_has(s->args, "dry-run") ? "would attach" : "attached", as,
               web != NULL ? "path" : "bucket", SPAN_ARG(p.bucket),
               web != NULL                               ? web
               : args_value(s->args, "endpoint") != NULL ? args_value(s->args, "endpoint")
                                                         : "AWS");
    if (doc.len > 0)
        explicit_bzero(doc.at, doc.len);
    buf_fini(&doc);
    arena_free(&a);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
run_attach(const struct args *a)
{
    return session_run_own_keys(a, bucket_attach, NULL);
}
const struct cli_verb cli_bucket_attach = {&verb, run_attach};
