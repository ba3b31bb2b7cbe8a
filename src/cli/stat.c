/* stat: what is known of an object or a bucket. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/bucket.h"
#include "cli/here.h"
#include "cli/names.h"
#include "wire/json.h"
#include "wire/json_get.h"

static const struct flag stat_flags[] = {
    {"verbose", 'v', NULL,
     "show where the server stores it and how long it stays (Forebay server)", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false}};
static const char *const stat_examples[] = {"forebay stat s3://train/shard-000000.tar",
                                            "forebay stat -v s3://train/shard-000000.tar",
                                            "forebay stat s3://train --json", NULL};
static const struct verb stat_verb = {.name = "stat",
                                      .summary = "show metadata of an object or a bucket",
                                      .arguments = "s3://BUCKET[/KEY]",
                                      .least = 1,
                                      .most = 1,
                                      .examples = stat_examples,
                                      .flags = stat_flags};

/* `here`: what a Forebay server says of its copy, or "absent"; NULL: not asked. */
static void
stat_print_json(const struct place *p, const struct s3_object_info *o, const json_t *here)
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
    if (o->checksum_value.len > 0) {
        json_span(&j, "checksum_algorithm", o->checksum_name);
        json_span(&j, "checksum", o->checksum_value);
        json_span(&j, "checksum_type", o->checksum_type);
    }
    json_open_object(&j, "metadata");
    for (uint32_t i = 0; i < o->user_count; i++) {
        char name[128];

        snprintf(name, sizeof name, "%.*s", SPAN_ARG(o->user[i].name));
        json_span(&j, name, o->user[i].value);
    }
    json_end(&j);
    json_end(&j);
    if (here != NULL) { /* one more member: ours is written, theirs was read */
        char *more = json_dumps(here, JSON_COMPACT | JSON_ENCODE_ANY);

        text.len--;
        buf_printf(&text, ",\"here\":%s}", more);
        free(more);
    }
    printf("%.*s\n", (int)text.len, text.at);
    buf_fini(&text);
}

static void
stat_print_table(const struct session *s, const struct place *p,
                 const struct s3_object_info *o)
{
    char date[NUM_DATE_TEXT], size[NUM_SIZE_TEXT];
    struct arena *a = arena_new(KIB(4), MIB(1));

    date_iso(o->mtime_ms, date);
    printf("name      s3://%.*s/%.*s\n", SPAN_ARG(p->bucket),
           SPAN_ARG(name_shown(p->key, a)));
    printf("size      %s (%llu bytes)\n", session_size(s, o->size, size),
           (unsigned long long)o->size);
    printf("modified  %s\n", date);
    printf("etag      %.*s\n", SPAN_ARG(o->etag));
    printf("type      %.*s\n", SPAN_ARG(sentence_shown(o->content_type, a)));
    if (o->checksum_value.len > 0)
        printf("checksum  %.*s %.*s%s\n", SPAN_ARG(o->checksum_name),
               SPAN_ARG(sentence_shown(o->checksum_value, a)),
               span_is(o->checksum_type, "COMPOSITE") ? " (of the checksums of its parts)"
                                                      : "");
    for (uint32_t i = 0; i < o->user_count; i++)
        printf("metadata  %.*s: %.*s\n", SPAN_ARG(o->user[i].name),
               SPAN_ARG(sentence_shown(o->user[i].value, a)));
    arena_free(&a);
}

static void
print_left(const json_t *here)
{
    const json_t *left = json_object_get(here, "ttl_left_ms");

    if (json_integer_value(left) > 0)
        printf("expires   in %lld s, then it is revalidated\n",
               (long long)(json_integer_value(left) + 999) / 1000);
    else if (json_is_integer(left))
        printf("expires   revalidated at the next read\n");
    else
        printf("expires   never: the bucket has no time to live\n");
}

static void
print_here(const json_t *here)
{
    const json_t *disk = json_object_get(here, "disk"),
                 *segment = json_object_get(here, "segment"),
                 *pin = json_object_get(here, "pin");
    bool cached = strcmp(json_get_text(here, "class", ""), "cached") == 0;

    if (!json_is_object(here)) {
        printf("cached    no: the next read fetches it\n");
        return;
    }
    printf("cached    %s, on disk %s\n",
           cached ? "a copy of the remote's object" : "the object itself",
           json_get_text(disk, "path", json_get_text(disk, "id", "")));
    printf("segment   %s %llu at %llu\n", json_get_text(segment, "kind", ""),
           (unsigned long long)json_get_u64(segment, "id"),
           (unsigned long long)json_get_u64(segment, "offset"));
    printf("since     after %s, when its segment was made\n",
           json_get_text(segment, "made", "-"));
    if (json_get_u64(here, "chunks") > 0)
        printf("chunks    %llu of %llu cached, %llu bytes\n",
               (unsigned long long)json_get_u64(here, "chunks_here"),
               (unsigned long long)json_get_u64(here, "chunks"),
               (unsigned long long)json_get_u64(here, "present_bytes"));
    if (!cached) {
        printf("copies    %llu\n", (unsigned long long)json_get_u64(here, "copies"));
        printf("evicted   never: this is the only copy\n");
        return;
    }
    printf("reads     %llu recently; %.2f on average in its segment\n",
           (unsigned long long)json_get_u64(here, "reads"),
           json_number_value(json_object_get(segment, "access_freq")));
    print_left(here);
    if (json_is_string(pin))
        printf("pinned    by \"%s\"\n", json_string_value(pin));
    printf("evicted   %s: %s\n",
           strcmp(json_get_text(here, "eviction", ""), "stays") == 0  ? "not"
           : strcmp(json_get_text(here, "eviction", ""), "next") == 0 ? "among the next"
                                                                      : "later",
           json_get_text(here, "why", ""));
}

/* A copy that is not there is no failure. */
static enum err
ask_here(struct session *s, const struct place *p, json_t **out)
{
    enum err rc;

    *out = NULL;
    if (!args_has(s->args, "verbose"))
        return ERR_OK;
    rc = here_ask(s, p->bucket, p->key, out, &s->eb);
    if (rc != ERR_NOT_FOUND)
        return rc;
    *out = json_null();
    return ERR_OK;
}

static void
stat_bucket(struct session *s, struct span bucket)
{
    json_t *b = NULL;
    bool known = s->output != OUTPUT_NAME && bucket_facts(s, bucket, &b) == ERR_OK;

    if (s->json) {
        json_t *doc = known ? json_copy(b) : json_object();
        char *text;

        (void)json_object_del(doc, "name");
        (void)json_object_set_new(doc, "bucket", json_stringn(bucket.at, bucket.len));
        text = json_dumps(doc, JSON_COMPACT);
        printf("%s\n", text);
        free(text);
        json_decref(doc);
    } else {
        printf(s->output == OUTPUT_NAME ? "s3://%.*s\n" : "name      s3://%.*s\n",
               SPAN_ARG(bucket));
        if (known)
            bucket_print(b);
    }
    json_decref(b);
}

static enum exit_code
stat_one(struct session *s)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_object_info o;
    struct s3_failure f;
    json_t *here = NULL;
    struct place p;
    enum err rc = place_remote(s->args->at[0], false, &p, &s->eb);

    if (rc == ERR_OK && p.key.len == 0) {
        rc = s3_bucket_head(s->s3, p.bucket, &f, &s->eb);
        if (rc == ERR_NOT_FOUND || rc == ERR_NO_BUCKET)
            err_set(&s->eb, ERR_NO_BUCKET, "%s: there is no such bucket", p.text);
        if (rc == ERR_OK)
            stat_bucket(s, p.bucket);
    } else if (rc == ERR_OK) {
        rc = s3_head_sums(s->s3, p.bucket, p.key, a, &o, &f, &s->eb);
        if (rc == ERR_NOT_FOUND) /* HEAD has no words of its own */
            err_set(&s->eb, rc, "%s: there is no such object, or bucket", p.text);
        if (rc == ERR_OK)
            rc = ask_here(s, &p, &here);
        if (rc == ERR_OK && s->json)
            stat_print_json(&p, &o, here);
        else if (rc == ERR_OK && s->output == OUTPUT_NAME)
            printf("s3://%.*s/%.*s\n", SPAN_ARG(p.bucket), SPAN_ARG(p.key));
        else if (rc == ERR_OK)
            stat_print_table(s, &p, &o);
        if (rc == ERR_OK && s->output == OUTPUT_TABLE && here != NULL)
            print_here(here);
    }
    json_decref(here);
    arena_free(&a);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
run_stat(const struct args *a)
{
    return session_run(a, stat_one, NULL);
}
const struct cli_verb cli_stat = {&stat_verb, run_stat};
