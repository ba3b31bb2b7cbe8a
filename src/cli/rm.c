/* rm: deletes objects, many at once. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/missing.h"
#include "cli/remove.h"
#include "cli/select.h"
#include "cli/uploads.h"
#include "cli/versions.h"

static const struct flag flags[] = {
    {"recursive", 'r', NULL, "what is below the name", false},
    {"dry-run", 'n', NULL, "print what would be deleted, change nothing", false},
    {"yes", 'y', NULL, "do not ask", false},
    {"version", 0, "ID", "this version of one object, for ever", false},
    {"uploads", 0, NULL, "abort unfinished uploads, no objects", false},
    PICK_FLAGS,
    SELECT_FLAGS,
    PARALLEL_FLAG,
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay rm s3://train/old.tar",
    "forebay rm -r --yes s3://train/tmp/",
    "forebay rm --yes 's3://train/shard-*.tmp'",
    "forebay rm -r --yes s3://train/tmp/ --older-than 30d",
    "forebay rm --uploads --older-than 7d s3://train",
    "forebay find s3://b --older 30d -o name | forebay rm --yes --from-file -",
    NULL};
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
    struct arena *where;   /* owned: texts of remotes, once each */
    const char *remotes;   /* " at the remote ...", or "" */
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

    char where[ATTACHED_TEXT];
    enum err rc = only_remote(p, eb);

    r->count++;
    r->bytes += e->size;
    if (rc == ERR_OK &&
        attached_text(&r->remover.attached, r->select.s->s3, e->bucket, where)[0] !=
            '\0' &&
        strstr(r->remotes, where) == NULL)
        r->remotes = arena_printf(r->where, "%s%s%s", r->remotes,
                                  r->remotes[0] != '\0' ? " and" : "", where);
    return rc;
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

/* Names that were typed one by one are looked for first: S3 calls the deletion of a missing object done. */
#define RM_LOOKED_FOR 100

static bool
rm_looks(const struct session *s)
{
    const struct args *a = s->args;

    if (s->within || args_has(a, "recursive") || args_value(a, "from-file") != NULL ||
        a->count > RM_LOOKED_FOR)
        return false;
    for (size_t i = 0; i < a->count && !args_has(a, "literal"); i++)
        if (strchr(a->at[i], '{') != NULL)
            return false;
    return true;
}

/* ERR_NOT_FOUND, with what else could be meant. What cannot be looked at is left to the deletion, which says what is wrong. */
static enum err
must_be_there(struct session *s, const char *text, struct errbuf *eb)
{
    struct s3_object_info info;
    struct errbuf ignored = {{0}};
    struct s3_failure f;
    struct arena *a;
    struct place p;
    enum err rc = place_remote(text, true, &p, eb);

    if (rc != ERR_OK || (!args_has(s->args, "literal") && glob_is(p.key)))
        return rc;
    a = arena_new(KIB(16), MIB(1));
    rc = s3_head(s->s3, p.bucket, p.key, a, &info, &f, &ignored);
    arena_free(&a);
    return rc == ERR_NOT_FOUND
               ? missing_name(s->s3, p.bucket, p.key, false, "deletes", eb)
               : ERR_OK;
}

static enum err
rm_name(void *arg, const char *text, struct errbuf *eb)
{
    struct removal *r = arg;
    struct session *s = r->select.s;
    struct errbuf why = {{0}};
    enum err rc = rm_looks(s) ? must_be_there(s, text, &why) : ERR_OK;

    if (rc == ERR_OK)
        rc = select_walk(&r->select, text, rm_add, r, &why);
    if (rc == ERR_NOT_FOUND && s->args->count > 1) {
        flow_fail(r->remover.f, text, rc, &why);
        return ERR_OK;
    }
    if (rc != ERR_OK)
        *eb = why;
    return rc;
}

static enum err
rm_find(struct flow *f, void *arg, struct errbuf *eb)
{
    struct removal *r = CONTAINER_OF(arg, struct removal, remover);
    enum err rc = select_names(&r->select, f->s->args->count, rm_name, r, eb);

    return rc == ERR_OK ? remover_flush(&r->remover, eb) : rc;
}

/* A name that stands for many. */
static bool
rm_is_many(const struct session *s)
{
    bool many = args_has(s->args, "recursive");

    for (size_t i = 0; i < s->args->count && !args_has(s->args, "literal"); i++)
        many = many || glob_is(span_of(s->args->at[i]));
    return many;
}

static enum err
rm_agree(struct removal *r, struct session *s)
{
    char size[NUM_SIZE_TEXT], which[PICK_TEXT];
    enum err rc;

    if (args_has(s->args, "yes") || args_has(s->args, "dry-run") || !rm_is_many(s))
        return ERR_OK;
    if (args_value(s->args, "from-file") != NULL)
        return select_agreed(s, &s->eb, "delete all that --from-file names%s%s",
                             pick_text(s->args, which)[0] != '\0' ? " and that is " : "",
                             which);
    rc = select_all(&r->select, s->args->count, rm_count, r, &s->eb);
    if (rc == ERR_OK)
        rc = session_all_listed(s);
    if (rc != ERR_OK)
        return rc;
    if (r->count == 0)
        return ERR_OK;
    r->remover.attached.asked = true;
    return select_agreed(
        s, &s->eb, "delete %" PRIu64 " object%s%s%s, %s%s%s", r->count,
        r->count == 1 ? "" : "s", pick_text(s->args, which)[0] != '\0' ? " " : "", which,
        num_size_text(r->bytes, size), r->remotes[0] != '\0' ? "," : "", r->remotes);
}

static enum exit_code
rm_act(struct session *s)
{
    const struct args *a = s->args;
    bool dry = args_has(a, "dry-run");
    struct flow *f = xcalloc(1, sizeof *f);
    struct removal r = {
        .remover = {.f = f, .dry = dry, .tell = !s->quiet && s->output != OUTPUT_JSON},
        .remotes = ""};
    enum exit_code code;
    enum err rc = select_init(&r.select, s,
                              args_has(a, "recursive") ? WALK_BELOW : WALK_ONE, &s->eb);

    if (rc == ERR_OK)
        rc = select_pick(&r.select, &s->eb);
    if (rc == ERR_OK && a->count == 0 && args_value(a, "from-file") == NULL)
        rc = err_set(&s->eb, ERR_BAD_REQUEST, "rm wants s3://BUCKET/KEY");
    r.select.must = "deletes";
    if (rc == ERR_OK) {
        r.where = arena_new(KIB(4), MIB(1));
        rc = rm_agree(&r, s);
        arena_free(&r.where);
    }
    if (rc != ERR_OK) {
        remover_fini(&r.remover);
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
    remover_fini(&r.remover);
    free(f);
    return code;
}

static enum exit_code
rm_run(const struct args *a)
{
    return session_run(a,
                       args_value(a, "version") != NULL ? versions_rm
                       : args_has(a, "uploads")         ? uploads_rm
                                                        : rm_act,
                       NULL);
}
const struct cli_verb cli_rm = {&verb, rm_run};
