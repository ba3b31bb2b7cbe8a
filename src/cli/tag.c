/* tag: the tags of an object: shows them, sets some, removes some. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/uri.h"
#include "cli/names.h"
#include "cli/put_headers.h"
#include "cli/session.h"
#include "wire/json.h"
#include "wire/s3tags.h"

static const struct flag tag_flags[] = {
    {"remove", 0, "NAME", "remove this tag", true},
    {"clear", 0, NULL, "remove all tags that are not given", false},
    {"dry-run", 'n', NULL, "print what the tags would be, change nothing", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const tag_examples[] = {
    "forebay tag s3://train/labels.json",
    "forebay tag s3://train/labels.json project=resnet stage=final",
    "forebay tag s3://train/labels.json --remove stage", NULL};
static const struct verb tag_verb = {
    .name = "tag",
    .summary = "show or change the tags of an object",
    .arguments = "s3://BUCKET/KEY [NAME=VALUE...]",
    .least = 1,
    .most = 11,
    .examples = tag_examples,
    .flags = tag_flags,
    .more = "Tags that are not named stay as they are, unless --clear. At most 10."};

/* One tag after another of "a=b&c=d", still encoded. */
static bool
tag_next(struct span *rest, struct span *one)
{
    const char *and;

    if (rest->len == 0)
        return false;
    and = memchr(rest->at, '&', rest->len);
    one->at = rest->at;
    one->len = and != NULL ? (size_t)(and-rest->at) : rest->len;
    *rest = span_from(*rest, one->len + (and != NULL));
    return true;
}

/* Name and value of an encoded tag; in the arena. */
static bool
tag_split(struct span one, struct arena *a, struct span *name, struct span *value)
{
    const char *equals = memchr(one.at, '=', one.len);
    size_t len = equals != NULL ? (size_t)(equals - one.at) : one.len;

    struct span raw[2] = {{one.at, len}, span_from(one, MIN(len + 1, one.len))};
    struct span *out[2] = {name, value};

    for (int i = 0; i < 2; i++) {
        char *text = arena_alloc(a, raw[i].len + 1);
        int n = uri_decode(raw[i], text);

        if (n < 0)
            return false;
        text[n] = '\0';
        *out[i] = (struct span){text, (size_t)n};
    }
    return true;
}

static bool
tag_is_named(const struct args *a, struct span name)
{
    const char *given;

    for (size_t i = 0; (given = args_nth(a, "remove", i)) != NULL; i++)
        if (span_is(name, given))
            return true;
    for (size_t i = 1; i < a->count; i++)
        if (strncmp(a->at[i], name.at, name.len) == 0 && a->at[i][name.len] == '=')
            return true;
    return args_has(a, "clear");
}

/* Those that stay, then those that are given. */
static enum err
tag_merge(struct session *s, struct span kept, struct arena *a, struct buf *out)
{
    struct span rest = kept, one, name, value;
    enum err rc = ERR_OK;

    while (tag_next(&rest, &one))
        if (tag_split(one, a, &name, &value) && !tag_is_named(s->args, name))
            buf_printf(out, "%s%.*s", out->len > 0 ? "&" : "", SPAN_ARG(one));
    for (size_t i = 1; rc == ERR_OK && i < s->args->count; i++)
        rc = put_headers_tag(out, s->args->at[i], &s->eb);
    if (rc == ERR_OK && s3tags_count(buf_span(out)) > S3TAGS_OF_OBJECT)
        rc = err_set(&s->eb, ERR_BAD_REQUEST,
                     "that makes %u tags: an object has at most %d",
                     s3tags_count(buf_span(out)), S3TAGS_OF_OBJECT);
    return rc;
}

static void
tag_show(const struct session *s, struct span tags, struct arena *a)
{
    struct span rest = tags, one, name, value;
    struct buf text;
    struct json j;

    buf_init(&text, KIB(64));
    json_begin(&j, &text);
    json_open_object(&j, NULL);
    while (tag_next(&rest, &one)) {
        if (!tag_split(one, a, &name, &value))
            continue;
        json_span(&j, arena_printf(a, "%.*s", SPAN_ARG(name)), value);
        if (!s->json)
            printf("%.*s=%.*s\n", SPAN_ARG(name_shown(name, a)),
                   SPAN_ARG(name_shown(value, a)));
    }
    json_end(&j);
    if (s->json)
        printf("%.*s\n", SPAN_ARG(buf_span(&text)));
    buf_fini(&text);
}

static enum err
tag_change(struct session *s, const struct place *p, struct arena *a, struct span *tags)
{
    struct s3_failure f;
    struct buf merged, doc;
    enum err rc;

    buf_init(&merged, KIB(32));
    buf_init(&doc, KIB(64));
    rc = tag_merge(s, *tags, a, &merged);
    if (rc == ERR_OK && merged.len > 0 && !s3tags_write(buf_span(&merged), &doc))
        rc = err_set(&s->eb, ERR_BAD_REQUEST, "a tag that cannot be written");
    if (rc == ERR_OK && !args_has(s->args, "dry-run"))
        rc = s3_tags_set(s->s3, p->bucket, p->key, buf_span(&doc), &f, &s->eb);
    *tags = arena_span(a, buf_span(&merged));
    buf_fini(&merged);
    buf_fini(&doc);
    return rc;
}

static enum exit_code
tag_act(struct session *s)
{
    const struct args *args = s->args;
    struct arena *a = arena_new(KIB(64), MIB(4));
    struct span doc = {"", 0}, tags = {"", 0};
    struct s3_failure f = {0};
    struct fault fault = {0};
    struct place p;
    bool usage = true;
    enum err rc = place_remote(args->at[0], true, &p, &s->eb);

    if (rc == ERR_OK) {
        usage = false;
        rc = s3_tags_get(s->s3, p.bucket, p.key, a, &doc, &f, &s->eb);
        if (rc != ERR_OK && strcmp(f.code, "NoSuchTagSet") == 0)
            rc = ERR_OK;
        else if (rc == ERR_OK && doc.len > 0 &&
                 s3tags_parse_document(doc, S3TAGS_OF_BUCKET, a, &tags, &fault) != ERR_OK)
            rc = err_set(&s->eb, ERR_BACKEND, "the server's tags cannot be read: %s",
                         fault.message);
    }
    if (rc == ERR_OK &&
        (args->count > 1 || args_has(args, "clear") || args_has(args, "remove"))) {
        rc = tag_change(s, &p, a, &tags);
        usage = rc == ERR_BAD_REQUEST;
    }
    if (rc == ERR_OK && (!s->quiet || s->json))
        tag_show(s, tags, a);
    arena_free(&a);
    if (rc != ERR_OK && usage)
        return cli_usage(&s->eb, args->verb);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
tag_run(const struct args *a)
{
    return session_run(a, tag_act, NULL);
}
const struct cli_verb cli_tag = {&tag_verb, tag_run};
