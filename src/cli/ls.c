/* ls: buckets, or what is in one. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/list_pages.h"
#include "wire/json.h"

static const struct flag flags[] = {
    {"recursive", 'r', NULL, "all keys, not one level", false},
    {"human", 'h', NULL, "sizes for people", false},
    {"summarize", 0, NULL, "count and total at the end", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {"forebay ls", "forebay ls s3://train/images/",
                                       "forebay ls -r s3://train --json", NULL};
static const struct verb verb = {.name = "ls",
                                 .summary = "list buckets, or the objects of one",
                                 .arguments = "[s3://BUCKET[/PREFIX]]",
                                 .least = 0,
                                 .most = 1,
                                 .examples = examples,
                                 .flags = flags};

struct listing {
    struct session *s;
    uint64_t count, bytes;
    bool human;
    struct json json;
    struct buf text;
};

static enum err
print_entry(void *arg, const struct s3_list_entry *e)
{
    struct listing *l = arg;
    char date[NUM_DATE_TEXT], size[NUM_SIZE_TEXT];

    l->count += !e->is_prefix;
    l->bytes += e->size;
    if (l->s->json) {
        json_open_object(&l->json, NULL);
        json_span(&l->json, e->is_prefix ? "prefix" : "key", e->key);
        if (!e->is_prefix) {
            date_iso(e->mtime_ms, date);
            json_u64(&l->json, "size", e->size);
            json_span(&l->json, "etag", e->etag);
            json_text(&l->json, "modified", date);
        }
        json_end(&l->json);
        fwrite(l->text.at, 1, l->text.len, stdout);
        buf_clear(&l->text);
        return ERR_OK;
    }
    if (e->is_prefix) {
        printf("%24s %12s %.*s\n", "", "PRE", SPAN_ARG(e->key));
        return ERR_OK;
    }
    date_iso(e->mtime_ms, date);
    if (l->human)
        printf("%24s %12s %.*s\n", date, num_size_text(e->size, size), SPAN_ARG(e->key));
    else
        printf("%24s %12llu %.*s\n", date, (unsigned long long)e->size, SPAN_ARG(e->key));
    return ERR_OK;
}

static enum err
list_buckets(struct listing *l)
{
    struct session *s = l->s;
    struct arena *a = arena_new(KIB(64), MIB(16));
    struct s3_bucket_entry *b = NULL;
    struct s3_failure f;
    char date[NUM_DATE_TEXT];
    uint32_t count = 0;
    enum err rc = s3_list_buckets(s->s3, a, &b, &count, &f, &s->eb);

    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        date_iso(b[i].created_ms, date);
        if (s->json) {
            json_open_object(&l->json, NULL);
            json_span(&l->json, "bucket", b[i].name);
            json_text(&l->json, "created", date);
            json_end(&l->json);
        } else {
            printf("%24s %.*s\n", date, SPAN_ARG(b[i].name));
        }
    }
    arena_free(&a);
    return rc;
}

static enum err
list_place(struct listing *l)
{
    struct session *s = l->s;
    struct place p;
    enum err rc = place_remote(s->args->at[0], false, &p, &s->eb);

    if (rc != ERR_OK)
        return rc;
    return list_pages(s, p.bucket, p.key,
                      args_has(s->args, "recursive") ? SPAN("") : SPAN("/"), print_entry,
                      l, &s->eb);
}

static enum exit_code
act(struct session *s)
{
    struct listing l = {.s = s, .human = args_has(s->args, "human")};
    char size[NUM_SIZE_TEXT];
    enum err rc;

    buf_init(&l.text, MIB(16));
    if (s->json) {
        json_begin(&l.json, &l.text);
        json_open_array(&l.json, NULL);
    }
    rc = s->args->count == 0 ? list_buckets(&l) : list_place(&l);
    if (s->json && rc == ERR_OK) {
        json_end(&l.json);
        fwrite(l.text.at, 1, l.text.len, stdout);
        putchar('\n');
    }
    if (rc == ERR_OK && args_has(s->args, "summarize") && !s->json)
        printf("%llu objects, %s (%llu bytes)\n", (unsigned long long)l.count,
               num_size_text(l.bytes, size), (unsigned long long)l.bytes);
    buf_fini(&l.text);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
run(const struct args *a)
{
    return session_run(a, act, NULL);
}
const struct cli_verb cli_ls = {&verb, run};
