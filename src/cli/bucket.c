/* bucket: the bucket verb: attach, ls, set. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/admin.h"
#include "cli/jobs.h"
#include "cli/session.h"
#include "wire/json.h"
#include "wire/json_get.h"

static const struct flag bucket_flags[] = {
    {"endpoint", 0, "URL", "attach: URL of the remote; default: AWS by region", false},
    {"as", 0, "NAME", "attach: local name; default: the remote's name", false},
    {"remote-profile", 0, "NAME",
     "attach: keys for the remote from this profile of your AWS files", false},
    {"remote-region", 0, "NAME", "attach: region of the remote", false},
    {"network", 0, "public|private|any",
     "attach: networks that the endpoint may resolve to; default: the "
     "current one",
     false},
    {"store-credentials", 0, NULL,
     "attach: store your AWS keys for the remote on the server", false},
    {"anonymous", 0, NULL, "attach: the remote is read without keys", false},
    {"requester-pays", 0, NULL, "attach: accept charges for reads (requester pays)",
     false},
    {"virtual-host", 0, NULL, "attach: use BUCKET.host names at the remote", false},
    {"anonymous-read", 0, "on|off", "set: allow reading and listing without keys", false},
    {"copies", 0, "N",
     "set: number of disks that hold each object; a job copies existing "
     "objects",
     false},
    {"wait", 0, NULL, "set --copies: wait until that job has ended", false},
    {"min-copies", 0, "N", "set: number of copies that a write needs; default: all",
     false},
    {"quota-bytes", 0, "SIZE", "set: limit of its bytes, as 10GiB; none: no limit",
     false},
    {"cache-budget", 0, "SIZE",
     "set: limit of cached bytes of an attached bucket; none: only the "
     "node's budget",
     false},
    {"quota-objects", 0, "N", "set: limit of its objects; none: no limit", false},
    {"ttl", 0, "TIME",
     "set: time to live of cached objects, as 10m; always: revalidate "
     "each read; never: do not revalidate",
     false},
    {"stale", 0, "serve|fail",
     "set: when the remote cannot be asked: serve the cached copy, or fail", false},
    {"dry-run", 'n', NULL,
     "attach, set: validate everything, the remote included, and change "
     "nothing",
     false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const bucket_examples[] = {
    "forebay bucket attach s3://imagenet --store-credentials",
    "forebay bucket attach s3://train --endpoint http://10.0.0.5:8333 --as train-cache "
    "--store-credentials",
    "forebay bucket attach hts://data.example.org/imagenet --as web",
    "forebay bucket ls",
    "forebay bucket set s3://shards --anonymous-read on",
    "forebay bucket set s3://models --copies 2",
    "forebay bucket set s3://scratch --quota-bytes 10GiB --quota-objects 1000000",
    NULL,
};
static const struct verb bucket = {
    .name = "bucket",
    .summary = "attach a remote bucket, list buckets, change settings of one",
    .arguments = "attach s3://REMOTE|ht[s]://HOST/PATH | ls | set s3://BUCKET",
    .least = 1,
    .most = 2,
    .examples = bucket_examples,
    .flags = bucket_flags,
    .more = "The first read of an object of an attached bucket fetches and "
            "caches it; later reads are local. A cached version is\n"
            "served until it is written through this server or its time to "
            "live (set --ttl) is over; then the server revalidates it\n"
            "at the remote. Without --store-credentials the server uses its "
            "own AWS environment.",
};

/* ---- attach ---- */

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
    enum err rc = web_place(s, a, s->args->at[1], &p, &web);

    buf_init(&doc, KIB(64));
    if (rc == ERR_OK && web == NULL)
        rc = place_bucket(s->args->at[1], &p, &s->eb);
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

/* ---- ls ---- */

/* What its quota counts; nothing of an older server. */
static void
print_held(const json_t *b)
{
    const json_t *h = json_object_get(b, "holds");
    char live[NUM_SIZE_TEXT], more[NUM_SIZE_TEXT];

    if (h == NULL)
        return;
    printf("  %" PRIu64 " objects, %s", json_get_u64(h, "objects"),
           num_size_text(json_get_u64(h, "bytes"), live));
    if (json_get_u64(h, "older") > 0)
        printf("; %" PRIu64 " older versions, %s", json_get_u64(h, "older"),
               num_size_text(json_get_u64(h, "older_bytes"), more));
    if (json_get_u64(h, "open_parts") > 0)
        printf("; %" PRIu64 " parts of uploads in progress, %s",
               json_get_u64(h, "open_parts"),
               num_size_text(json_get_u64(h, "open_bytes"), more));
}

static enum err
print_buckets(struct session *s, struct span text)
{
    json_t *doc, *b;
    size_t i;
    enum err rc = admin_list(s, text, "buckets", &doc);

    if (rc != ERR_OK)
        return rc;
    json_array_foreach(json_object_get(doc, "buckets"), i, b)
    {
        const json_t *remote = json_object_get(b, "remote");
        const char *endpoint = json_string_value(json_object_get(remote, "endpoint"));

        if (remote == NULL) {
            printf("%s  s3://%s", json_string_value(json_object_get(b, "created")),
                   json_string_value(json_object_get(b, "name")));
            print_held(b);
            printf("\n");
        } else {
            printf("%s  s3://%s  from %s at %s\n",
                   json_string_value(json_object_get(b, "created")),
                   json_string_value(json_object_get(b, "name")),
                   json_string_value(json_object_get(remote, "bucket")),
                   endpoint != NULL ? endpoint : "AWS");
        }
    }
    json_decref(doc);
    return ERR_OK;
}

static enum exit_code
bucket_list(struct session *s)
{
    struct arena *a = arena_new(KIB(64), MIB(16));
    struct s3_request r = {.method = "GET", .path = SPAN("/_/buckets")};
    struct span answer = {"", 0};
    int status = 0;
    enum err rc = s3_request(s->s3, &r, a, &status, &answer, &s->eb);

    if (rc == ERR_OK && status != 200)
        rc = err_set(&s->eb, status == 403 ? ERR_DENIED : ERR_BACKEND, "%.*s",
                     SPAN_ARG(answer));
    if (rc == ERR_OK && s->json)
        printf("%.*s\n", SPAN_ARG(answer));
    else if (rc == ERR_OK)
        rc = print_buckets(s, answer);
    arena_free(&a);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

/* ---- set ---- */

static enum err
set_number(const struct args *a, const char *flag, const char *member, struct json *j,
           unsigned *members, struct errbuf *eb)
{
    const char *text = args_value(a, flag);
    uint64_t n = 0;

    if (text == NULL)
        return ERR_OK;
    if (num_u64(span_of(text), &n) != ERR_OK || n < 1)
        return err_set(eb, ERR_BAD_REQUEST, "--%s \"%s\": expected a number from 1 on",
                       flag, text);
    json_u64(j, member, n);
    (*members)++;
    return ERR_OK;
}

/* A size or a number; "none" is 0. */
static enum err
set_quota(const struct args *a, const char *flag, const char *member, bool size,
          struct json *j, unsigned *members, struct errbuf *eb)
{
    const char *text = args_value(a, flag);
    uint64_t n = 0;
    enum err rc = ERR_OK;

    if (text == NULL)
        return ERR_OK;
    if (strcmp(text, "none") != 0)
        rc = size ? num_size(span_of(text), &n, eb)
             : num_u64(span_of(text), &n) == ERR_OK
                 ? ERR_OK
                 : err_set(eb, ERR_BAD_REQUEST, "expected a number or none");
    if (rc != ERR_OK) {
        err_prefix(eb, "--%s \"%s\"", flag, text);
        return rc;
    }
    json_u64(j, member, n);
    (*members)++;
    return ERR_OK;
}

static enum err
set_ttl(const struct args *a, struct json *j, unsigned *members, struct errbuf *eb)
{
    const char *text = args_value(a, "ttl");
    uint64_t ms = 0;
    enum err rc = ERR_OK;

    if (text == NULL)
        return ERR_OK;
    if (strcmp(text, "always") == 0)
        ms = 1;
    else if (strcmp(text, "never") != 0)
        rc = num_duration_ms(span_of(text), &ms, eb);
    if (rc == ERR_OK && ms == 0 && strcmp(text, "never") != 0)
        rc = err_set(eb, ERR_BAD_REQUEST, "to ask each time, say always");
    if (rc != ERR_OK)
        err_prefix(eb, "--ttl \"%s\"", text);
    json_u64(j, "ttl_ms", ms);
    (*members)++;
    return rc;
}

static enum err
set_stale(const struct args *a, struct json *j, unsigned *members, struct errbuf *eb)
{
    const char *text = args_value(a, "stale");
    bool fail = text != NULL && strcmp(text, "fail") == 0;

    if (text == NULL)
        return ERR_OK;
    if (!fail && strcmp(text, "serve") != 0)
        return err_set(eb, ERR_BAD_REQUEST, "--stale \"%s\": expected serve or fail",
                       text);
    json_bool(j, "fail_stale", fail);
    (*members)++;
    return ERR_OK;
}

/* One flag is one member of the document. */
static enum err
set_document(const struct args *a, struct json *j, struct errbuf *eb)
{
    const char *anonymous = args_value(a, "anonymous-read");
    unsigned members = 0;
    enum err rc;

    json_open_object(j, NULL);
    rc = set_number(a, "copies", "copies", j, &members, eb);
    if (rc == ERR_OK)
        rc = set_number(a, "min-copies", "min_copies", j, &members, eb);
    if (rc == ERR_OK)
        rc = set_quota(a, "quota-bytes", "quota_bytes", true, j, &members, eb);
    if (rc == ERR_OK)
        rc = set_quota(a, "cache-budget", "cache_budget", true, j, &members, eb);
    if (rc == ERR_OK)
        rc = set_quota(a, "quota-objects", "quota_objects", false, j, &members, eb);
    if (rc == ERR_OK)
        rc = set_ttl(a, j, &members, eb);
    if (rc == ERR_OK)
        rc = set_stale(a, j, &members, eb);
    if (rc != ERR_OK)
        return rc;
    if (anonymous != NULL) {
        bool on = strcmp(anonymous, "on") == 0;

        if (!on && strcmp(anonymous, "off") != 0)
            return err_set(eb, ERR_BAD_REQUEST,
                           "--anonymous-read \"%s\": expected on or off", anonymous);
        json_bool(j, "anonymous_read", on);
        members++;
    }
    if (args_has(a, "dry-run"))
        json_bool(j, "dry_run", true);
    json_end(j);
    return members > 0 ? ERR_OK
                       : err_set(eb, ERR_BAD_REQUEST,
                                 "bucket set: nothing to set; --help lists the settings");
}

/* The job that brings objects where they should be now. */
static enum exit_code
tell_job(struct session *s, struct span answer)
{
    enum exit_code code = EXIT_OK_;
    json_t *doc = json_loadb(answer.at, answer.len, 0, NULL);
    const char *id = json_get_text(doc, "job", "");

    if (id[0] != '\0' && args_has(s->args, "wait")) {
        code = jobs_wait(s, id);
    } else if (s->json) {
        printf("%.*s\n", SPAN_ARG(answer));
    } else if (id[0] != '\0' && !s->quiet) {
        printf("job %s copies the objects to their disks; forebay wait %s\n", id, id);
    }
    json_decref(doc);
    return code;
}

static enum exit_code
cli_bucket_set(struct session *s)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_request r = {.method = "PATCH"};
    struct span answer;
    struct place p;
    struct buf doc;
    struct json j;
    enum exit_code code = EXIT_OK_;
    enum err rc = place_bucket(s->args->at[1], &p, &s->eb);

    buf_init(&doc, KIB(4));
    json_begin(&j, &doc);
    if (rc == ERR_OK)
        rc = set_document(s->args, &j, &s->eb);
    r.body = buf_span(&doc);
    if (rc == ERR_OK) {
        r.path = span_of(arena_printf(a, "/_/buckets/%.*s", SPAN_ARG(p.bucket)));
        rc = admin_call(s, &r, a, &answer);
    }
    if (rc == ERR_OK && !s->json && !s->quiet && args_has(s->args, "dry-run"))
        printf("would set s3://%.*s\n", SPAN_ARG(p.bucket));
    else if (rc == ERR_OK)
        code = tell_job(s, answer);
    buf_fini(&doc);
    arena_free(&a);
    return rc == ERR_OK ? code : session_fail(s, rc);
}

/* ---- the verb ---- */

static enum exit_code
run_bucket(const struct args *a)
{
    struct errbuf eb = {{0}};

    if (strcmp(a->at[0], "ls") == 0 && a->count == 1)
        return session_run(a, bucket_list, NULL);
    if (strcmp(a->at[0], "attach") == 0 && a->count == 2)
        return session_run_own_keys(a, bucket_attach, NULL);
    if (strcmp(a->at[0], "set") == 0 && a->count == 2)
        return session_run(a, cli_bucket_set, NULL);
    err_set(&eb, ERR_BAD_REQUEST,
            "bucket %s: expected attach s3://REMOTE, ls, or set s3://BUCKET", a->at[0]);
    return cli_usage(&eb, &bucket);
}
const struct cli_verb cli_bucket = {&bucket, run_bucket};
