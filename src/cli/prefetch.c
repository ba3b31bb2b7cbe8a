/* prefetch, evict: asks a server to fetch objects of an attached bucket before they are read, or to evict them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/admin.h"
#include "cli/input.h"
#include "cli/job_plan.h"
#include "cli/jobs.h"
#include "cli/shards.h"
#include "rt/loop.h"
#include "wire/json.h"

#define BODY_MAX   MIB(9)
#define LIST_MAX   MIB(8)
#define ANSWER_MAX MIB(1)

#define NAMES_FLAGS                                                                      \
    {"from-file", 0, "FILE", "names, a line each, braces as below; - is stdin", false},  \
        {"manifest", 0, "KEY", "the same in an object of the bucket", false},            \
        {"dry-run", 'n', NULL, "only say which objects the job would move", false},      \
    {                                                                                    \
        "no-wait", 0, NULL, "print the job's id and leave it to the server", false       \
    }

static const struct flag flags[] = {
    NAMES_FLAGS,
    {"rate", 0, "SIZE", "bytes a second, at most: 100MB", false},
    {"parallel", 'p', "N", "objects at a time; 16", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay prefetch s3://imagenet/train/",
    "forebay prefetch 's3://imagenet/shard-{000..999}.tar' --rate 200MB",
    "forebay prefetch 'pipe:aws s3 cp s3://imagenet/a-{000..099}.tar -'",
    "forebay prefetch s3://imagenet --from-file epoch1.txt --no-wait",
    NULL,
};
static const struct verb verb = {
    .name = "prefetch",
    .summary = "fetch objects from a bucket's remote before they are read",
    .arguments = "s3://BUCKET[/PREFIX|/NAMES]",
    .least = 1,
    .most = 1,
    .examples = examples,
    .flags = flags,
    .more =
        "PREFIX means every key that begins with it; with braces the names are those "
        "they stand for, as a shell expands them.\nShards as WebDataset has them will "
        "do: "
        "lists joined by ::, pipe: commands that name s3://BUCKET/KEY, http:// of this "
        "server.\nThe work is the server's: it makes "
        "way for readers, goes on after a restart, and Ctrl-C here does not end it. "
        "forebay jobs\nshows it, forebay cancel ends it.",
};

static const struct flag evict_flags[] = {
    NAMES_FLAGS, SESSION_FLAGS, {NULL, 0, NULL, NULL, false}};
static const char *const evict_examples[] = {
    "forebay evict s3://train/old/",
    "forebay evict 's3://train/shard-{000..499}.tar'",
    "forebay evict s3://train --from-file done.txt --no-wait",
    NULL,
};
static const struct verb evict_verb = {
    .name = "evict",
    .summary = "evict cached objects; the remote keeps them",
    .arguments = "s3://BUCKET[/PREFIX|/NAMES]",
    .least = 1,
    .most = 1,
    .examples = evict_examples,
    .flags = evict_flags,
    .more =
        "PREFIX means every key that begins with it; with braces the names are those "
        "they "
        "stand for.\nThe remote keeps its objects, and the next read fetches them again. "
        "What is pinned stays. The work is the server's: it goes on after a restart, and "
        "Ctrl-C here\ndoes not end it. forebay jobs shows it, forebay cancel ends it.",
};

static enum err
read_names(const char *path, struct buf *out, struct errbuf *eb)
{
    FILE *f = strcmp(path, "-") == 0 ? input_file() : fopen(path, "re");
    char piece[4096];
    size_t n;
    enum err rc = ERR_OK;

    if (f == NULL)
        return err_set(eb, ERR_NOT_FOUND, "%s: cannot be opened", path);
    while ((n = fread(piece, 1, sizeof piece, f)) > 0)
        buf_put(out, piece, n);
    if (ferror(f) != 0)
        rc = err_set(eb, ERR_IO, "%s: cannot be read", path);
    if (f != input_file())
        (void)fclose(f);
    if (rc == ERR_OK && out->full)
        rc =
            err_set(eb, ERR_TOO_LARGE,
                    "%s is over %llu bytes: put it into an object of the bucket and name "
                    "it with --manifest",
                    path, (unsigned long long)LIST_MAX);
    if (rc == ERR_OK && out->len == 0)
        rc = err_set(eb, ERR_BAD_REQUEST, "%s holds no names", path);
    return rc;
}

struct names_job {
    const char *path;
    struct buf *out;
    enum err rc;
    struct errbuf *eb;
};

static void
names_work(void *arg)
{
    struct names_job *j = arg;

    j->rc = read_names(j->path, j->out, j->eb);
}

static enum err
names_of_file(const char *path, struct buf *out, struct errbuf *eb)
{
    struct names_job j = {.path = path, .out = out, .eb = eb};
    enum err rc = rt_blocking(names_work, &j, DEADLINE_NEVER);

    if (rc == ERR_OK && rt_cancelled())
        rc = ERR_CANCELLED;
    return rc == ERR_OK ? j.rc : err_set(eb, rc, "interrupted");
}

static enum err
prefetch_put_number(struct session *s, struct json *j, const char *flag, bool is_size)
{
    const char *given = args_value(s->args, flag);
    uint64_t n = 0;
    enum err rc;

    if (given == NULL)
        return ERR_OK;
    rc = is_size ? num_size(span_of(given), &n, &s->eb) : num_u64(span_of(given), &n);
    if (rc != ERR_OK && !is_size)
        return err_set(&s->eb, rc, "--%s \"%s\": a number is expected", flag, given);
    if (rc != ERR_OK)
        err_prefix(&s->eb, "--%s", flag);
    json_u64(j, flag, n);
    return rc;
}

/* What the argument names; `names` has the keys of a list. */
static enum err
read_place(struct session *s, struct place *p, struct buf *names)
{
    const char *text = s->args->at[0];

    if (!shards_are(text))
        return place_remote(text, false, p, &s->eb);
    if (args_value(s->args, "from-file") != NULL ||
        args_value(s->args, "manifest") != NULL)
        return err_set(&s->eb, ERR_BAD_REQUEST,
                       "%s: with --from-file or --manifest only the bucket is named",
                       text);
    return shards_read(text, s->endpoint, p, names, &s->eb);
}

/* `names` may have some already. */
static enum err
put_what(struct session *s, const struct place *p, struct json *j, struct buf *names)
{
    const char *file = args_value(s->args, "from-file"),
               *manifest = args_value(s->args, "manifest");
    enum err rc = ERR_OK;

    if ((file != NULL || manifest != NULL) && p->key.len > 0)
        return err_set(&s->eb, ERR_BAD_REQUEST,
                       "%s: with --from-file or --manifest only the bucket is named",
                       p->text);
    if (file != NULL && manifest != NULL)
        return err_set(&s->eb, ERR_BAD_REQUEST,
                       "--from-file and --manifest exclude each other");
    if (names->len > 0)
        return ERR_OK;
    if (file != NULL)
        return names_of_file(file, names, &s->eb);
    if (manifest != NULL)
        json_text(j, "manifest", manifest);
    else if (p->key.len > 0 && memchr(p->key.at, '{', p->key.len) != NULL)
        buf_put_span(names, p->key);
    else
        json_span(j, "prefix", p->key);
    return rc;
}

static enum err
make_body(struct session *s, const struct place *p, struct buf *names, struct buf *out)
{
    bool is_evict = s->args->verb == &evict_verb;
    struct json j;
    enum err rc;

    json_begin(&j, out);
    json_open_object(&j, NULL);
    json_text(&j, "kind", is_evict ? "evict" : "prefetch");
    json_open_object(&j, "args");
    json_span(&j, "bucket", p->bucket);
    rc = put_what(s, p, &j, names);
    if (rc == ERR_OK && !is_evict)
        rc = prefetch_put_number(s, &j, "rate", true);
    if (rc == ERR_OK && !is_evict)
        rc = prefetch_put_number(s, &j, "parallel", false);
    json_end(&j);
    if (names->len > 0)
        json_span(&j, "list", buf_span(names));
    json_end(&j);
    if (rc == ERR_OK && out->full)
        rc = err_set(&s->eb, ERR_TOO_LARGE, "the names are over %llu bytes",
                     (unsigned long long)LIST_MAX);
    return rc;
}

static enum exit_code
only_plan(struct session *s)
{
    enum exit_code code = EXIT_OK_;
    struct buf names, rest;
    struct place p;
    struct json j;
    enum err rc;

    buf_init(&names, LIST_MAX);
    rc = read_place(s, &p, &names);
    buf_init(&rest, BODY_MAX);
    json_begin(&j, &rest);
    json_open_object(&j, NULL);
    if (rc == ERR_OK && args_value(s->args, "manifest") != NULL)
        rc = err_set(&s->eb, ERR_BAD_REQUEST,
                     "--dry-run reads no --manifest: forebay cat it into --from-file -");
    if (rc == ERR_OK)
        rc = put_what(s, &p, &j, &names);
    if (rc == ERR_OK)
        code = job_plan(s, &p, s->args->verb == &evict_verb, buf_span(&names));
    buf_fini(&names);
    buf_fini(&rest);
    return rc == ERR_OK ? code : session_fail(s, rc);
}

static enum exit_code
prefetch_ask(struct session *s)
{
    struct arena *a = arena_new(KIB(64), ANSWER_MAX);
    struct s3_request r = {.method = "POST", .path = SPAN("/_/jobs")};
    enum exit_code code = EXIT_OK_;
    struct span answer;
    json_t *job = NULL;
    struct place p;
    struct buf names, body;
    enum err rc;

    buf_init(&names, LIST_MAX);
    rc = read_place(s, &p, &names);
    buf_init(&body, BODY_MAX);
    if (rc == ERR_OK)
        rc = make_body(s, &p, &names, &body);
    buf_fini(&names);
    r.body = buf_span(&body);
    if (rc == ERR_OK)
        rc = admin_call(s, &r, a, &answer);
    if (rc == ERR_OK)
        rc = jobs_parse(s, answer, &job);
    if (rc == ERR_OK && !args_has(s->args, "no-wait"))
        code = jobs_watch(s, job);
    else if (rc == ERR_OK && s->json)
        printf("%.*s\n", SPAN_ARG(answer));
    else if (rc == ERR_OK)
        printf("%s\n", json_string_value(json_object_get(job, "id")));
    json_decref(job);
    buf_fini(&body);
    arena_free(&a);
    return rc == ERR_OK ? code : session_fail(s, rc);
}

static enum exit_code
prefetch_run(const struct args *a)
{
    return session_run(a, args_has(a, "dry-run") ? only_plan : prefetch_ask, NULL);
}

const struct cli_verb cli_prefetch = {&verb, prefetch_run};
const struct cli_verb cli_evict = {&evict_verb, prefetch_run};
