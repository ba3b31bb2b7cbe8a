/* stat: what is known of an object or a bucket. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/session.h"
#include "wire/json.h"

static const struct flag stat_flags[] = {SESSION_FLAGS, {NULL, 0, NULL, NULL, false}};
static const char *const stat_examples[] = {"forebay stat s3://train/shard-000000.tar",
                                            "forebay stat s3://train --json", NULL};
static const struct verb stat_verb = {.name = "stat",
                                      .summary =
                                          "say what is known of an object or a bucket",
                                      .arguments = "s3://BUCKET[/KEY]",
                                      .least = 1,
                                      .most = 1,
                                      .examples = stat_examples,
                                      .flags = stat_flags};

static void
print_json(const struct place *p, const struct s3_object_info *o)
{
    char date[NUM_DATE_TEXT];
    struct buf text;
    struct json j;

    date_iso(o->mtime_ms, date);
    buf_init(&text, MIB(1));
    json_begin(&j, &text);
    json_open_object(&j, NULL);
    json_span(&j, "bucket", p->bucket);
    json_span(&j, "key", p->key);
    json_u64(&j, "size", o->size);
    json_span(&j, "etag", o->etag);
    json_text(&j, "modified", date);
    json_span(&j, "content_type", o->content_type);
    json_open_object(&j, "metadata");
    for (uint32_t i = 0; i < o->user_count; i++) {
        char name[128];

        snprintf(name, sizeof name, "%.*s", SPAN_ARG(o->user[i].name));
        json_span(&j, name, o->user[i].value);
    }
    json_end(&j);
    json_end(&j);
    printf("%.*s\n", (int)text.len, text.at);
    buf_fini(&text);
}

static void
print_table(const struct place *p, const struct s3_object_info *o)
{
    char date[NUM_DATE_TEXT], size[NUM_SIZE_TEXT];

    date_iso(o->mtime_ms, date);
    printf("name      s3://%.*s/%.*s\n", SPAN_ARG(p->bucket), SPAN_ARG(p->key));
    printf("size      %s (%llu bytes)\n", num_size_text(o->size, size),
           (unsigned long long)o->size);
    printf("modified  %s\n", date);
    printf("etag      %.*s\n", SPAN_ARG(o->etag));
    printf("type      %.*s\n", SPAN_ARG(o->content_type));
    for (uint32_t i = 0; i < o->user_count; i++)
        printf("metadata  %.*s: %.*s\n", SPAN_ARG(o->user[i].name),
               SPAN_ARG(o->user[i].value));
}

static enum exit_code
stat_one(struct session *s)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_object_info o;
    struct s3_failure f;
    struct place p;
    enum err rc = place_remote(s->args->at[0], false, &p, &s->eb);

    if (rc == ERR_OK && p.key.len == 0) {
        rc = s3_bucket_head(s->s3, p.bucket, &f, &s->eb);
        if (rc == ERR_OK)
            printf(s->json ? "{\"bucket\":\"%.*s\"}\n" : "name      s3://%.*s\n",
                   SPAN_ARG(p.bucket));
    } else if (rc == ERR_OK) {
        rc = s3_head(s->s3, p.bucket, p.key, a, &o, &f, &s->eb);
        if (rc == ERR_OK && s->json)
            print_json(&p, &o);
        else if (rc == ERR_OK)
            print_table(&p, &o);
    }
    arena_free(&a);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
run_stat(const struct args *a)
{
    return session_run(a, stat_one, NULL);
}
const struct cli_verb cli_stat = {&stat_verb, run_stat};
