/* rm: deletes objects, many at once. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/remove.h"
#include "cli/select.h"

static const struct flag flags[] = {
    {"recursive", 'r', NULL, "what is below the name", false},
    {"dry-run", 'n', NULL, "print what would be deleted, change nothing", false},
    {"yes", 'y', NULL, "do not ask", false},
    SELECT_FLAGS,
    PARALLEL_FLAG,
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay rm s3://train/old.tar", "forebay rm -r --yes s3://train/tmp/",
    "forebay rm --yes 's3://train/shard-*.tmp'",
    "forebay find s3://b --older 30d -o name | forebay rm --yes --from-file -", NULL};
static const struct verb verb = {
    .name = "rm",
    .summary = "delete objects",
    .arguments = "s3://BUCKET/KEY...",
    .least = 0,
    .most = 1000000,
    .examples = examples,
    .flags = flags,
    .more = "With -r or a pattern it first counts, and asks; without a terminal it "
            "wants --yes."};

struct removal {
    struct select select;
    struct remover remover;
    uint64_t count, bytes; /* of what would go */
    bool many;
};

static enum err
only_remote(const struct place *p, struct errbuf *eb)
{
    return p->remote ? ERR_OK
                     : err_set(eb, ERR_BAD_REQUEST, "\"%s\": expected s3://BUCKET/KEY",
                               p->text);
}

static enum err
rm_count(void *arg, const struct place *p, const struct found *e, struct errbuf *eb)
{
    struct removal *r = arg;

    r->count++;
    r->bytes += e->size;
    return only_remote(p, eb);
}

static enum err
rm_add(void *arg, const struct place *p, const struct found *e, struct errbuf *eb)
{
    struct removal *r = arg;
    enum err rc = only_remote(p, eb);

    return rc == ERR_OK
               ? remover_add(&r->remover, e->bucket, span_of(e->path), e->size, eb)
               : rc;
}

static enum err
rm_find(struct flow *f, void *arg, struct errbuf *eb)
{
    struct removal *r = CONTAINER_OF(arg, struct removal, remover);
    enum err rc = select_all(&r->select, f->s->args->count, rm_add, r, eb);

    return rc == ERR_OK ? remover_flush(&r->remover, eb) : rc;
}

/* A name that stands for many. */
static bool
is_many(const struct session *s)
{
    bool many = args_has(s->args, "recursive");

    for (size_t i = 0; i < s->args->count && !args_has(s->args, "literal"); i++)
        many = many || glob_is(span_of(s->args->at[i]));
    return many;
}

static enum err
rm_agree(struct removal *r, struct session *s)
{
    char size[NUM_SIZE_TEXT];
    enum err rc;

    if (args_has(s->args, "yes") || args_has(s->args, "dry-run") || !is_many(s))
        return ERR_OK;
    if (args_value(s->args, "from-file") != NULL)
        return select_agreed(s, &s->eb, "delete all that --from-file names");
    rc = select_all(&r->select, s->args->count, rm_count, r, &s->eb);
    if (rc == ERR_OK)
        rc = session_all_listed(s);
    if (rc != ERR_OK)
        return rc;
    if (r->count == 0)
        return ERR_OK;
    return select_agreed(s, &s->eb, "delete %" PRIu64 " objects, %s", r->count,
                         num_size_text(r->bytes, size));
}

/* One name that was typed and that nothing has is a mistake, though S3 would call it deleted. ERR_NOT_FOUND. */
static enum err
must_be_there(struct session *s)
{
    const char *text = s->args->at[0];
    struct arena *a;
    struct s3_object_info info;
    struct s3_list_page page = {0};
    struct s3_failure f;
    struct errbuf eb = {{0}};
    struct place p;
    enum err rc = place_remote(text, true, &p, &s->eb);

    if (rc != ERR_OK)
        return rc;
    a = arena_new(KIB(16), MIB(1));
    rc = s3_head(s->s3, p.bucket, p.key, a, &info, &f, &eb);
    if (rc == ERR_NOT_FOUND) {
        struct s3_list below = {.bucket = p.bucket, .max_keys = 1};

        below.prefix = span_of(arena_printf(a, "%.*s/", SPAN_ARG(p.key)));
        if (s3_list_objects(s->s3, &below, a, &page, &f, &eb) != ERR_OK)
            rc = ERR_OK; /* deleting says what is wrong */
        else
            err_set(&s->eb, rc, "there is no object %s%s", text,
                    page.count > 0 ? "; -r deletes what is below that name" : "");
    } else {
        rc = ERR_OK;
    }
    arena_free(&a);
    return rc;
}

static bool
is_one_name(const struct session *s)
{
    const struct args *a = s->args;

    return a->count == 1 && !is_many(s) && args_value(a, "from-file") == NULL &&
           !s->within && (args_has(a, "literal") || strchr(a->at[0], '{') == NULL);
}

static enum exit_code
rm_act(struct session *s)
{
    const struct args *a = s->args;
    bool dry = args_has(a, "dry-run");
    struct flow *f = xcalloc(1, sizeof *f);
    struct removal r = {.remover = {.f = f, .dry = dry, .tell = !s->quiet && !s->json}};
    enum exit_code code;
    enum err rc = select_init(&r.select, s,
                              args_has(a, "recursive") ? WALK_BELOW : WALK_ONE, &s->eb);

    if (rc == ERR_OK && a->count == 0 && args_value(a, "from-file") == NULL)
        rc = err_set(&s->eb, ERR_BAD_REQUEST, "rm wants s3://BUCKET/KEY");
    if (rc == ERR_OK && is_one_name(s))
        rc = must_be_there(s);
    if (rc == ERR_OK)
        rc = rm_agree(&r, s);
    if (rc != ERR_OK) {
        free(f);
        return rc == ERR_BAD_REQUEST ? cli_usage(&s->eb, &verb) : session_fail(s, rc);
    }
    *f = (struct flow){.s = s,
                       .did = dry ? "would delete" : "deleted",
                       .find = rm_find,
                       .act = remover_act,
                       .drop = remover_drop,
                       .arg = &r.remover,
                       .parallel = s->connections > 0 ? s->connections : 8,
                       .silent = true,
                       .dry = dry};
    code = flow_run(f);
    if (r.remover.open != NULL)
        remover_drop(r.remover.open);
    free(f);
    return code;
}

static enum exit_code
rm_run(const struct args *a)
{
    return session_run(a, rm_act, NULL);
}
const struct cli_verb cli_rm = {&verb, rm_run};
