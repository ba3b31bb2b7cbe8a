/* bucket: the group of verbs on buckets; and bucket ls. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/admin.h"
#include "cli/bucket.h"
#include "cli/session.h"
#include "wire/json_get.h"

static const struct flag flags[] = {SESSION_FLAGS, {NULL, 0, NULL, NULL, false}};
static const char *const examples[] = {"forebay bucket ls", "forebay bucket ls -o json",
                                       NULL};
static const struct verb verb = {.name = "bucket ls",
                                 .summary =
                                     "list buckets, what they hold and their settings",
                                 .arguments = "",
                                 .examples = examples,
                                 .flags = flags};

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

static const char *
ttl_text(uint64_t ms, char out[32])
{

    if (ms == 0)
        return "never";
    if (ms == 1)
        return "always";
    if (ms % 86400000 == 0)
        snprintf(out, 32, "%" PRIu64 "d", ms / 86400000);
    else if (ms % 3600000 == 0)
        snprintf(out, 32, "%" PRIu64 "h", ms / 3600000);
    else if (ms % 60000 == 0)
        snprintf(out, 32, "%" PRIu64 "m", ms / 60000);
    else if (ms % 1000 == 0)
        snprintf(out, 32, "%" PRIu64 "s", ms / 1000);
    else
        snprintf(out, 32, "%" PRIu64 "ms", ms);
    return out;
}

/* Of an attached bucket: what is cached, and the settings that decide how long it stays. */
static void
print_cached(const json_t *b)
{
    char size[NUM_SIZE_TEXT], budget[NUM_SIZE_TEXT], ttl[32];
    const json_t *pins = json_object_get(b, "pins");

    printf("  %s cached", num_size_text(json_get_u64(b, "cached_bytes"), size));
    if (json_get_u64(b, "cache_budget") > 0)
        printf(" of %s", num_size_text(json_get_u64(b, "cache_budget"), budget));
    printf("; ttl %s", ttl_text(json_get_u64(b, "ttl_ms"), ttl));
    for (size_t i = 0; i < json_array_size(pins); i++)
        printf("%s%s", i == 0 ? "; pinned " : ", ",
               json_string_value(json_array_get(pins, i)));
}

void
bucket_print(const json_t *b)
{
    const json_t *remote = json_object_get(b, "remote");
    char size[NUM_SIZE_TEXT], ttl[32];
    size_t i;
    json_t *pin;

    printf("created   %s\n", json_get_text(b, "created", ""));
    if (json_get_u64(b, "quota_bytes") > 0)
        printf("quota     %s\n", num_size_text(json_get_u64(b, "quota_bytes"), size));
    if (json_get_u64(b, "quota_objects") > 0)
        printf("quota     %" PRIu64 " objects\n", json_get_u64(b, "quota_objects"));
    if (json_get_u64(b, "upload_ttl_ms") > 0)
        printf("uploads   aborted after %s\n",
               ttl_text(json_get_u64(b, "upload_ttl_ms"), ttl));
    if (remote == NULL) {
        printf("copies    %" PRIu64 "\nholds   ", json_get_u64(b, "copies"));
        print_held(b);
        printf("\n");
        return;
    }
    printf("remote    bucket %s at %s\n", json_get_text(remote, "bucket", ""),
           json_get_text(remote, "endpoint", "AWS"));
    printf("ttl       %s\n", ttl_text(json_get_u64(b, "ttl_ms"), ttl));
    printf("cached    %s, %" PRIu64 " objects\n",
           num_size_text(json_get_u64(b, "cached_bytes"), size),
           json_get_u64(b, "cached_objects"));
    printf("budget    %s\n", json_get_u64(b, "cache_budget") > 0
                                 ? num_size_text(json_get_u64(b, "cache_budget"), size)
                                 : "none of its own: cache.budget of the node");
    json_array_foreach(json_object_get(b, "pins"), i, pin)
        printf("pinned    %s\n", json_string_value(pin));
}

enum err
bucket_facts(struct session *s, struct span bucket, json_t **out)
{
    struct arena *a = arena_new(KIB(64), MIB(16));
    struct s3_request r = {.method = "GET", .path = SPAN("/_/buckets")};
    struct errbuf ignored = {{0}};
    struct span answer = {"", 0};
    json_t *doc, *b;
    int status = 0;
    size_t i;
    enum err rc = s3_request(s->s3, &r, a, &status, &answer, &ignored);

    *out = NULL;
    doc =
        rc == ERR_OK && status == 200 ? json_loadb(answer.at, answer.len, 0, NULL) : NULL;
    json_array_foreach(json_object_get(doc, "buckets"), i,
                       b) if (span_is(bucket, json_get_text(b, "name", ""))) *out =
        json_incref(b);
    json_decref(doc);
    arena_free(&a);
    return *out != NULL ? ERR_OK : ERR_NOT_FOUND;
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
            printf("%s  s3://%s  from %s at %s",
                   json_string_value(json_object_get(b, "created")),
                   json_string_value(json_object_get(b, "name")),
                   json_string_value(json_object_get(remote, "bucket")),
                   endpoint != NULL ? endpoint : "AWS");
            print_cached(b);
            printf("\n");
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
    if (rc == ERR_OK && !admin_print(s, answer, "buckets", "s3://", "name"))
        rc = print_buckets(s, answer);
    arena_free(&a);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
run_list(const struct args *a)
{
    return session_run(a, bucket_list, NULL);
}
static const struct cli_verb cli_bucket_ls = {&verb, run_list};

static const struct verb group = {
    .name = "bucket",
    .summary = "attach and detach remote buckets, list buckets, change settings of one"};
static const struct cli_verb *const verbs[] = {
    &cli_bucket_attach, &cli_bucket_detach, &cli_bucket_ls, &cli_bucket_set_verb, NULL};
const struct cli_group cli_bucket_group = {&group, verbs};
