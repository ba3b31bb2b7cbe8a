/* bucket: the group of verbs on buckets; and bucket ls. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/admin.h"
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
