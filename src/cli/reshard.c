/* reshard: the samples of shards become new shards, in another order: a job of the server. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/admin.h"
#include "cli/jobs.h"
#include "cli/shards.h"
#include "wire/json.h"
#include "wire/json_get.h"

#define RESHARD_BODY   MIB(9)
#define RESHARD_NAMES  MIB(8)
#define RESHARD_ANSWER MIB(1)

static const struct flag reshard_flags[] = {
    {"size", 0, "SIZE", "bytes of a new shard; 256MiB unless given", false},
    {"by", 0, "ORDER",
     "none, name, size, content, checksum, md5, shuffle, list; none unless given", false},
    {"shuffle", 0, NULL, "the same as --by shuffle", false},
    {"seed", 0, "N", "of the shuffle; 0 unless given", false},
    {"descending", 0, NULL, "the other direction", false},
    {"key", 0, "EXT", "by content: the member of a sample that has the key, as .cls",
     false},
    {"key-type", 0, "string|int|float", "how keys compare", false},
    {"order", 0, "s3://BUCKET/KEY",
     "which sample goes into which shard: lines SAMPLE, tab, SHARD", false},
    {"name", 0, "TEMPLATE", "of the new shards: shard-%06d.tar unless given", false},
    {"overwrite", 0, NULL, "replace shards that exist", false},
    {"skip-missing", 0, NULL, "go on without shards and samples that are missing", false},
    {"skip-unlisted", 0, NULL, "leave out samples that the order does not name", false},
    {"dry-run", 'n', NULL, "read the heads of all members, and say what there is to do",
     false},
    {"no-wait", 0, NULL, "print the job's id and leave it to the server", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const reshard_examples[] = {
    "forebay reshard 's3://in/{000..999}.tar' s3://out/ --size 256MiB --shuffle --seed 7",
    "forebay reshard s3://in/ s3://out/sorted- --by content --key .cls --key-type int",
    "forebay reshard s3://in/ s3://out/ --order s3://in/order.tsv --dry-run", NULL};
static const struct verb reshard_verb = {
    .name = "reshard",
    .summary = "write the samples of shards into new shards, in another order",
    .arguments = "s3://BUCKET/PREFIX|NAMES s3://BUCKET/PREFIX",
    .least = 2,
    .most = 2,
    .examples = reshard_examples,
    .flags = reshard_flags,
    .more =
        "PREFIX means every shard whose key begins with it; with braces the names are "
        "those they stand for. Members of one sample,\nthose of one name up to its first "
        "dot, stay together. The shards that are read are never changed. The work is "
        "the server's: it goes\non after a restart, and Ctrl-C here does not end it.",
};

static enum err
reshard_put_size(struct session *s, struct json *j)
{
    const char *given = args_value(s->args, "size");
    uint64_t size = MIB(256);
    enum err rc = given != NULL ? num_size(span_of(given), &size, &s->eb) : ERR_OK;

    if (rc != ERR_OK)
        err_prefix(&s->eb, "--size");
    if (rc == ERR_OK && (given != NULL || args_value(s->args, "order") == NULL))
        json_u64(j, "size", size);
    return rc;
}

static enum err
put_order(struct session *s, const struct place *from, struct json *j)
{
    const char *order = args_value(s->args, "order"), *by = args_value(s->args, "by");
    const char *seed = args_value(s->args, "seed");
    struct place p;
    uint64_t n = 0;
    enum err rc;

    if (args_has(s->args, "shuffle") && by == NULL)
        by = "shuffle";
    if (order != NULL && by == NULL)
        by = "list";
    if (by != NULL)
        json_text(j, "by", by);
    if (seed != NULL && num_u64(span_of(seed), &n) != ERR_OK)
        return err_set(&s->eb, ERR_BAD_REQUEST, "--seed \"%s\": a number is expected",
                       seed);
    if (seed != NULL)
        json_u64(j, "seed", n);
    if (order == NULL)
        return ERR_OK;
    rc = place_remote(order, true, &p, &s->eb);
    if (rc == ERR_OK && !span_eq(p.bucket, from->bucket))
        rc = err_set(&s->eb, ERR_BAD_REQUEST,
                     "--order \"%s\": it lies in the bucket of the shards", order);
    if (rc == ERR_OK)
        json_span(j, "order", p.key);
    return rc;
}

static void
put_names(struct session *s, const struct place *to, struct json *j)
{
    static const char *const switches[][2] = {{"descending", "descending"},
                                              {"overwrite", "overwrite"},
                                              {"skip-missing", "skip_missing"},
                                              {"skip-unlisted", "skip_unlisted"},
                                              {"dry-run", "dry_run"}};
    const char *name = args_value(s->args, "name");
    struct buf full;

    buf_init(&full, KIB(4));
    buf_put_span(&full, to->key);
    if (name != NULL)
        buf_puts(&full, name);
    else if (args_value(s->args, "order") == NULL)
        buf_puts(&full, "shard-%06d.tar");
    json_span(j, "to", to->bucket);
    json_span(j, "name", buf_span(&full));
    buf_fini(&full);
    if (args_value(s->args, "key") != NULL)
        json_text(j, "ext", args_value(s->args, "key"));
    if (args_value(s->args, "key-type") != NULL)
        json_text(j, "key_type", args_value(s->args, "key-type"));
    for (size_t i = 0; i < ARRAY_LEN(switches); i++)
        if (args_has(s->args, switches[i][0]))
            json_u64(j, switches[i][1], 1);
}

static enum err
put_inputs(struct session *s, struct place *p, struct json *j, struct buf *names)
{
    const char *text = s->args->at[0];
    enum err rc = shards_are(text) ? shards_read(text, s->endpoint, p, names, &s->eb)
                                   : place_remote(text, false, p, &s->eb);

    if (rc != ERR_OK)
        return rc;
    json_span(j, "bucket", p->bucket);
    if (names->len == 0 && span_find(p->key, '{') != NULL)
        buf_put_span(names, p->key);
    if (names->len == 0)
        json_span(j, "prefix", p->key);
    return ERR_OK;
}

static enum err
make_request(struct session *s, struct buf *body)
{
    struct place from, to;
    struct buf names;
    struct json j;
    enum err rc = place_remote(s->args->at[1], false, &to, &s->eb);

    buf_init(&names, RESHARD_NAMES);
    json_begin(&j, body);
    json_open_object(&j, NULL);
    json_text(&j, "kind", "reshard");
    json_open_object(&j, "args");
    if (rc == ERR_OK)
        rc = put_inputs(s, &from, &j, &names);
    if (rc == ERR_OK)
        rc = reshard_put_size(s, &j);
    if (rc == ERR_OK)
        rc = put_order(s, &from, &j);
    if (rc == ERR_OK)
        put_names(s, &to, &j);
    json_end(&j);
    if (names.len > 0)
        json_span(&j, "list", buf_span(&names));
    json_end(&j);
    buf_fini(&names);
    if (rc == ERR_OK && body->full)
        rc = err_set(&s->eb, ERR_TOO_LARGE, "the names are over %llu bytes",
                     (unsigned long long)RESHARD_NAMES);
    return rc;
}

/* What the plan says, for people. */
static void
tell_plan(struct session *s, const json_t *job)
{
    json_t *plan = json_loads(json_get_text(job, "position", ""), 0, NULL);
    char bytes[NUM_SIZE_TEXT], written[NUM_SIZE_TEXT], copied[NUM_SIZE_TEXT];

    if (plan != NULL)
        printf("%" PRIu64 " samples of %" PRIu64 " members, %s, in %" PRIu64
               " shards\nwould become %" PRIu64 " shards: reads %s, writes %s\n",
               json_get_u64(plan, "samples"), json_get_u64(plan, "members"),
               session_size(s, json_get_u64(plan, "bytes"), bytes),
               json_get_u64(plan, "inputs"), json_get_u64(plan, "shards"),
               session_size(s, json_get_u64(plan, "bytes"), copied),
               session_size(s, json_get_u64(plan, "shard_bytes"), written));
    json_decref(plan);
}

static enum exit_code
show_end(struct session *s, const json_t *first)
{
    struct arena *a = arena_new(KIB(64), RESHARD_ANSWER);
    struct s3_request r = {.method = "GET"};
    enum exit_code code = jobs_watch(s, first);
    struct span answer;
    json_t *job = NULL;

    r.path = span_of(arena_printf(a, "/_/jobs/%s", json_get_text(first, "id", "")));
    if (code == EXIT_OK_ && args_has(s->args, "dry-run") && s->output == OUTPUT_TABLE &&
        admin_call(s, &r, a, &answer) == ERR_OK && jobs_parse(s, answer, &job) == ERR_OK)
        tell_plan(s, job);
    json_decref(job);
    arena_free(&a);
    return code;
}

static enum exit_code
reshard_act(struct session *s)
{
    struct arena *a = arena_new(KIB(64), RESHARD_ANSWER);
    struct s3_request r = {.method = "POST", .path = SPAN("/_/jobs")};
    enum exit_code code = EXIT_OK_;
    struct span answer;
    json_t *job = NULL;
    struct buf body;
    enum err rc;

    buf_init(&body, RESHARD_BODY);
    rc = make_request(s, &body);
    r.body = buf_span(&body);
    if (rc == ERR_OK)
        rc = admin_call(s, &r, a, &answer);
    if (rc == ERR_OK)
        rc = jobs_parse(s, answer, &job);
    if (rc == ERR_OK && !args_has(s->args, "no-wait"))
        code = show_end(s, job);
    else if (rc == ERR_OK && s->json)
        printf("%.*s\n", SPAN_ARG(answer));
    else if (rc == ERR_OK)
        printf("%s\n", json_get_text(job, "id", ""));
    json_decref(job);
    buf_fini(&body);
    arena_free(&a);
    return rc == ERR_OK ? code : session_fail(s, rc);
}

static enum exit_code
reshard_verb_run(const struct args *a)
{
    return session_run(a, reshard_act, NULL);
}
const struct cli_verb cli_reshard = {&reshard_verb, reshard_verb_run};
