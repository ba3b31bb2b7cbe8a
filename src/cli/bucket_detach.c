/* bucket detach: the bucket goes, with its cached copies; the remote stays as it is. */
#include <jansson.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/attached.h"
#include "cli/session.h"
#include "wire/json.h"

static const struct flag flags[] = {
    {"dry-run", 'n', NULL, "say what would be detached, change nothing", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {"forebay bucket detach s3://imagenet", NULL};
static const struct verb verb = {
    .name = "bucket detach",
    .summary =
        "remove an attached bucket and its cached copies; the remote stays as it is",
    .arguments = "s3://BUCKET",
    .least = 1,
    .most = 1,
    .examples = examples,
    .flags = flags,
    .more = "No object is deleted at the remote. Settings, pins and stored keys of the "
            "attached bucket are forgotten; bucket attach\n"
            "makes it again."};

static enum err
detach(struct session *s, const struct place *p, const struct attached_bucket *b)
{
    struct s3_failure f;

    if (p->key.len > 0)
        return err_set(&s->eb, ERR_BAD_REQUEST, "\"%s\" names an object, not a bucket",
                       p->text);
    if (b == NULL)
        return err_set(&s->eb, ERR_BAD_REQUEST,
                       "s3://%.*s is not attached: it is this server's own. forebay rb "
                       "removes it",
                       SPAN_ARG(p->bucket));
    return args_has(s->args, "dry-run") ? ERR_OK
                                        : s3_bucket_remove(s->s3, p->bucket, &f, &s->eb);
}

static void
detach_tell(const struct session *s, const struct place *p,
            const struct attached_bucket *b)
{
    struct buf text;
    struct json j;

    if (s->json) {
        buf_init(&text, KIB(16));
        json_begin(&j, &text);
        json_open_object(&j, NULL);
        json_span(&j, "detached", p->bucket);
        json_text(&j, "endpoint", b->endpoint);
        json_text(&j, "remote", b->remote);
        json_end(&j);
        printf("%.*s\n", SPAN_ARG(buf_span(&text)));
        buf_fini(&text);
    } else if (s->output == OUTPUT_NAME) {
        printf("s3://%.*s\n", SPAN_ARG(p->bucket));
    } else if (!s->quiet) {
        printf("%s s3://%.*s: its cached copies go, bucket %s at %s stays as it is\n",
               args_has(s->args, "dry-run") ? "would detach" : "detached",
               SPAN_ARG(p->bucket), b->remote, b->endpoint);
    }
}

static enum exit_code
bucket_detach(struct session *s)
{
    struct attached t = {.count = 0};
    const struct attached_bucket *b = NULL;
    struct place p;
    enum err rc = place_bucket(s->args->at[0], &p, &s->eb);

    if (rc == ERR_OK)
        rc = attached_find(&t, s->s3, p.bucket, &b, &s->eb);
    if (rc == ERR_OK)
        rc = detach(s, &p, b);
    if (rc == ERR_OK)
        detach_tell(s, &p, b);
    attached_fini(&t);
    return rc == ERR_OK            ? EXIT_OK_
           : rc == ERR_BAD_REQUEST ? cli_usage(&s->eb, &verb)
                                   : session_fail(s, rc);
}

static enum exit_code
run_detach(const struct args *a)
{
    return session_run(a, bucket_detach, NULL);
}
const struct cli_verb cli_bucket_detach = {&verb, run_detach};
