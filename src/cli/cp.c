/* cp, mv, put, get: files and objects, many at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/attached.h"
#include "cli/claims.h"
#include "cli/get_batch.h"
#include "cli/local.h"
#include "cli/missing.h"
#include "cli/select.h"
#include "cli/transfer.h"

#define COPY_FLAGS                                                                       \
    {"recursive", 'r', NULL, "copy everything below the source", false},                 \
        {"dry-run", 'n', NULL, "print what would be done, change nothing", false},       \
        {"restart", 0, NULL, "start large transfers from the beginning", false},         \
        {"no-follow", 0, NULL, "skip symbolic links of a local source", false},          \
        {"latest", 0, NULL, "attached buckets: revalidate at the remote first", false},  \
        TO_FLAGS, PUT_HEADER_FLAGS, RATE_FLAG, PICK_FLAGS, SELECT_FLAGS, PARALLEL_FLAG,  \
        SESSION_FLAGS,                                                                   \
    {                                                                                    \
        NULL, 0, NULL, NULL, false                                                       \
    }
static const struct flag flags[] = {COPY_FLAGS};
static const char more[] = "With -r everything below a source is copied into DEST. Large "
                           "objects are copied in parts; repeat the command to resume\n"
                           "an interrupted one. docs/cli.md, \"Transfers\".";
static const char *const examples[] = {
    "forebay cp big.tar s3://train/",
    "forebay cp labels.json s3://train/ --metadata run=7 --tag stage=final",
    "forebay cp -r s3://logs ./logs --newer-than 7d --bwlimit 20MiB",
    "forebay cp -r ./images s3://train/images",
    "forebay cp 's3://train/shard-{000..099}.tar' .",
    "forebay cp 's3://train/**.jpg' /data/ --exclude 'tmp*'",
    "tar c images | forebay cp - s3://train/images.tar",
    "forebay cp -r s3://train s3://train --to-profile backup",
    NULL,
};
static const struct verb cp = {.name = "cp",
                               .summary = "copy files and objects",
                               .arguments = "SOURCE... DEST",
                               .least = 1,
                               .most = 1000000,
                               .examples = examples,
                               .flags = flags,
                               .more = more};
static const char *const mv_examples[] = {
    "forebay mv s3://train/a.tar s3://train/old/a.tar",
    "forebay mv -r ./done s3://archive/done", NULL};
static const struct verb mv = {
    .name = "mv",
    .summary = "move files and objects: copy, verify, then remove the source",
    .arguments = "SOURCE... DEST",
    .least = 1,
    .most = 1000000,
    .examples = mv_examples,
    .flags = flags,
    .more = more};
static const char *const put_examples[] = {"forebay put big.tar s3://train/",
                                           "forebay put - s3://train/log.txt < log.txt",
                                           NULL};
static const struct verb put = {.name = "put",
                                .summary = "copy one file to a server",
                                .arguments = "FILE s3://BUCKET/[KEY]",
                                .least = 2,
                                .most = 2,
                                .examples = put_examples,
                                .flags = flags,
                                .more = more};
static const char *const get_examples[] = {
    "forebay get s3://train/big.tar", "forebay get s3://train/big.tar - | tar t",
    "forebay get --batch samples.txt s3://train batch.tar", NULL};
static const struct flag get_flags[] = {
    {"batch", 0, "FILE",
     "many objects as one archive, in order: a name, SHARD/MEMBER, or either, a tab and "
     "FIRST-LAST, a line; or JSON; -: standard input",
     false},
    {"format", 0, "tar|tgz|tar.lz4|zip|frames", "of a batch; tar", false},
    {"fail-on-missing", 0, NULL,
     "a batch with a missing item is an error; else it is an empty member __404__/NAME",
     false},
    COPY_FLAGS};
static const struct verb get = {.name = "get",
                                .summary =
                                    "copy one object from a server, or a batch of them",
                                .arguments = "s3://BUCKET/KEY|s3://BUCKET [FILE]",
                                .least = 1,
                                .most = 2,
                                .examples = get_examples,
                                .flags = get_flags,
                                .more = more};

struct plan {
    struct flow *f;
    struct select select;
    const char *to;
    struct place dest;
    size_t sources;
    bool recursive, moves;
    bool into;            /* DEST is a folder or prefix */
    struct claims claims; /* of `to`; empty unless `claims_on` */
    bool many, claims_on, probed;
    char *dest_bucket; /* owned */
    struct attached attached;
    struct put_headers headers; /* owned */
};

static bool
ends_in_slash(const char *s)
{
    return s[0] != '\0' && s[strlen(s) - 1] == '/';
}

/* Into a folder or prefix under its own name, or to exactly this name. */
static bool
goes_into(const struct plan *p)
{
    const char *file = args_value(p->f->s->args, "from-file");

    if (p->dest.standard)
        return false;
    if (p->recursive || p->sources > 1 || file != NULL)
        return true;
    return p->dest.remote ? p->dest.key.len == 0 || ends_in_slash(p->to)
                          : ends_in_slash(p->to) || local_is_folder(p->to);
}

/* Could two names of this command become one? */
static bool
is_many(const struct plan *p)
{
    const struct args *a = p->f->s->args;
    bool many = p->sources > 1 || args_value(a, "from-file") != NULL;

    for (size_t i = 0; i < p->sources; i++)
        many = many || strchr(a->at[i], '{') != NULL;
    return many;
}

/* Claims the target. ERR_EXISTS: another source has it; ERR_NOT_MODIFIED: the same source, named twice. */
static enum err
cp_claim(struct plan *p, const struct item *it, struct errbuf *eb)
{
    enum claim what = CLAIM_NEW;
    char *to, *from;

    if (!p->probed) {
        p->probed = true;
        if (!p->dest.remote && !p->f->dry &&
            claims_probe(&p->claims, p->to, eb) != ERR_OK)
            return ERR_CANCELLED;
        p->claims_on = p->many || p->claims.folds;
    }
    if (!p->claims_on)
        return ERR_OK;
    to = xasprintf("%s/%s", it->to_bucket != NULL ? it->to_bucket : "", it->to);
    from = xasprintf("%s/%s", it->from_bucket != NULL ? it->from_bucket : "", it->from);
    what = claims_take(&p->claims, span_of(to), span_of(from));
    free(to);
    free(from);
    if (what != CLAIM_TAKEN)
        return what == CLAIM_NEW ? ERR_OK : ERR_NOT_MODIFIED;
    return claims_refuse(&p->claims, it->to, eb);
}

/* To the flow, or told why not. */
static enum err
cp_give(struct plan *p, struct item *it, struct errbuf *eb)
{
    struct errbuf why = {{0}};
    enum err rc = p->many || p->recursive || it->known ? cp_claim(p, it, &why) : ERR_OK;

    if (rc == ERR_EXISTS) {
        char *what = it->from_bucket != NULL
                         ? xasprintf("s3://%s/%s", it->from_bucket, it->from)
                         : xstrdup(it->from);

        flow_fail(p->f, what, rc, &why);
        free(what);
        return ERR_OK;
    }
    if (rc == ERR_NOT_MODIFIED) {
        flow_notice(p->f, it->from, "it is named twice");
        return ERR_OK;
    }
    if (rc != ERR_OK)
        *eb = why;
    return rc == ERR_OK ? flow_add(p->f, it, eb) : rc;
}

static enum err
cp_add(struct plan *p, struct item *it, struct span name, bool into, struct errbuf *eb)
{
    char *base =
        p->dest.remote ? xmemdup0(p->dest.key.at, p->dest.key.len) : xstrdup(p->to);
    char *to;
    enum err rc;

    if (into && !p->dest.remote && name_problem(name) != NULL) {
        struct errbuf why = {{0}};

        err_set(&why, ERR_BAD_REQUEST, "it cannot be a file below %s: %s", p->to,
                name_problem(name));
        flow_fail(p->f, it->from, ERR_BAD_REQUEST, &why);
        free(base);
        return ERR_OK;
    }
    to = into ? xasprintf("%s%s%.*s", base,
                          base[0] == '\0' || ends_in_slash(base) ? "" : "/",
                          SPAN_ARG(name))
              : xstrdup(base);
    it->to_bucket = p->dest.remote ? p->dest_bucket : NULL;
    it->to = to;
    it->to_root = into ? strlen(base) : strlen(to);
    rc = cp_give(p, it, eb);
    free(to);
    free(base);
    return rc;
}

static enum err
cp_on_found(void *arg, const struct place *from, const struct found *e, struct errbuf *eb)
{
    struct plan *p = arg;
    char *bucket, *etag;
    struct item it = {.from = e->path, .size = e->size, .mtime_ms = e->mtime_ms};
    bool pattern = from->remote && !p->select.walk.literal && glob_is(from->key);
    enum err rc;

    if (e->problem != NULL && e->odd) {
        flow_notice(p->f, e->path, e->problem);
        return ERR_OK;
    }
    if (e->problem != NULL) {
        struct errbuf why = {{0}};

        err_set(&why, ERR_IO, "%s", e->problem);
        flow_fail(p->f, e->path, ERR_IO, &why);
        return ERR_OK;
    }
    /* A folder marker is no file. */
    if (from->remote && !p->dest.remote && e->name.len > 0 &&
        e->name.at[e->name.len - 1] == '/' && e->size == 0)
        return ERR_OK;
    if (e->name.len == 0 && !p->recursive && !pattern)
        return missing_name(p->f->s->s3, e->bucket, span_of(e->path), false,
                            p->moves ? "moves" : "copies", eb);
    if (e->name.len == 0)
        return ERR_OK;
    if (p->moves && from->remote) {
        progress_clear(&p->f->progress);
        attached_note(&p->attached, p->f->s, p->f->s->s3, e->bucket);
    }
    bucket = from->remote ? xmemdup0(e->bucket.at, e->bucket.len) : NULL;
    etag = e->etag.len > 0 ? xmemdup0(e->etag.at, e->etag.len) : NULL;
    it.from_bucket = bucket;
    it.etag = etag;
    it.known = p->recursive || pattern;
    rc = cp_add(p, &it, e->name, p->into || pattern, eb);
    free(bucket);
    free(etag);
    return rc;
}

/* A file, or standard input, as it was typed. */
static enum err
one_file(struct plan *p, const char *text, struct errbuf *eb)
{
    const char *slash = strrchr(text, '/');
    struct item it = {.from = text};

    if (strcmp(text, "-") == 0 && (p->into || p->dest.key.len == 0))
        return err_set(eb, ERR_BAD_REQUEST,
                       "standard input needs a name: s3://BUCKET/KEY");
    if (strcmp(text, "-") != 0 && local_is_folder(text))
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\" is a folder; -r copies what is in it",
                       text);
    return cp_add(p, &it, span_of(slash != NULL ? slash + 1 : text), p->into, eb);
}

static enum err
cp_one_name(struct plan *p, const char *text, struct errbuf *eb)
{
    struct place from;
    enum err rc = place_parse(text, &from, eb);

    if (rc != ERR_OK)
        return rc;
    if (!from.remote && !p->dest.remote)
        return err_set(eb, ERR_BAD_REQUEST, "neither \"%s\" nor \"%s\" is on a server",
                       text, p->to);
    if (p->f->s->to != p->f->s->s3 && !(from.remote && p->dest.remote))
        return err_set(eb, ERR_BAD_REQUEST,
                       "--to-endpoint-url and --to-profile are for copies from server to "
                       "server; --endpoint-url names the one of \"%s\"",
                       from.remote ? text : p->to);
    if (p->headers.count > 0 && from.remote)
        return err_set(
            eb, ERR_BAD_REQUEST,
            "\"%s\": --content-type, --metadata and --tag are for files that go "
            "up; forebay tag changes the tags of an object",
            text);
    if (p->select.pick.any && !from.remote && !p->recursive)
        return err_set(
            eb, ERR_BAD_REQUEST,
            "\"%s\": --newer-than, --older-than, --larger and --smaller choose "
            "among what -r or a pattern finds",
            text);
    if (from.remote && from.key.len == 0 && !p->recursive)
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\" names a bucket; -r copies all of it",
                       text);
    if (!from.remote && !p->recursive)
        return one_file(p, text, eb);
    return select_walk(&p->select, text, cp_on_found, p, eb);
}

/* A name that stands for nothing is a failure of its own: the others go on. */
static enum err
cp_on_name(void *arg, const char *text, struct errbuf *eb)
{
    struct plan *p = arg;
    struct errbuf why = {{0}};
    enum err rc = cp_one_name(p, text, &why);

    if (rc == ERR_NOT_FOUND && p->many) {
        flow_fail(p->f, text, rc, &why);
        return ERR_OK;
    }
    if (rc != ERR_OK)
        *eb = why;
    return rc;
}

static enum err
cp_find(struct flow *f, void *arg, struct errbuf *eb)
{
    struct plan *p = arg;
    enum err rc = place_parse(p->to, &p->dest, eb);

    (void)f;
    if (rc != ERR_OK)
        return rc;
    if (p->dest.standard && p->moves)
        return err_set(eb, ERR_BAD_REQUEST,
                       "mv to standard output cannot verify the copy; use cat, then rm");
    p->dest_bucket = xmemdup0(p->dest.bucket.at, p->dest.bucket.len);
    p->into = goes_into(p);
    p->many = is_many(p);
    return select_names(&p->select, p->sources, cp_on_name, p, eb);
}

/* Of a source that was copied. */
struct removing {
    struct flow *f;
    const struct item *it;
    const char *match; /* its ETag in quotes; NULL: there is none */
};

/* A server that knows no conditions here says so (501), and is asked without. */
static enum err
remove_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct removing *r = arg;
    struct s3_client *s3 = r->f->s->s3;
    struct span bucket = span_of(r->it->from_bucket), key = span_of(r->it->from);
    struct s3_header match = {SPAN("if-match"),
                              span_of(r->match != NULL ? r->match : "")};
    enum err rc = ERR_NOT_IMPLEMENTED;

    if (r->match != NULL)
        rc = s3_delete_if(s3, bucket, key, &match, 1, f, eb);
    return rc == ERR_NOT_IMPLEMENTED ? s3_delete(s3, bucket, key, f, eb) : rc;
}

static enum err
look_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct removing *r = arg;
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_object_info info;
    enum err rc = s3_head(r->f->s->s3, span_of(r->it->from_bucket), span_of(r->it->from),
                          a, &info, f, eb);

    arena_free(&a);
    return rc;
}

/* Removes only the version that was copied: a newer version, here or at a remote that does not respond, stays. */
static enum err
remove_copied(struct flow *f, const struct item *it, const struct transfer_seen *seen,
              struct errbuf *eb)
{
    char *match = seen->etag != NULL ? xasprintf("\"%s\"", seen->etag) : NULL;
    struct removing r = {f, it, match};
    enum err rc;

    if (seen->stale || f->s->stale) {
        free(match);
        return err_set(
            eb, ERR_PRECONDITION,
            "the remote of s3://%s does not respond, and may have a newer version",
            it->from_bucket);
    }
    rc = flow_try(f, remove_attempt, &r, eb);
    if (rc == ERR_PRECONDITION) {
        /* Of a try that was repeated perhaps only the answer was lost: then it is gone. */
        rc = flow_try(f, look_attempt, &r, eb);
        if (rc == ERR_OK)
            rc = err_set(eb, ERR_PRECONDITION, "it changed meanwhile");
    }
    free(match);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* Of a name that was typed. */
static enum err
cp_explain(struct flow *f, const struct item *it, enum err rc, bool moves,
           struct errbuf *eb)
{
    return rc != ERR_NOT_FOUND || it->from_bucket == NULL || it->known || f->s->within
               ? rc
               : missing_name(f->s->s3, span_of(it->from_bucket), span_of(it->from),
                              false, moves ? "moves" : "copies", eb);
}

static enum err
cp_copy(struct flow *f, const struct item *it, void *arg, struct errbuf *eb)
{
    (void)arg;
    return cp_explain(f, it, transfer_item(f, it, NULL, eb), false, eb);
}

static enum err
cp_move(struct flow *f, const struct item *it, void *arg, struct errbuf *eb)
{
    struct transfer_seen seen = {0};
    enum err rc = cp_explain(f, it, transfer_item(f, it, &seen, eb), true, eb);

    (void)arg;
    if (rc == ERR_OK) {
        rc = it->from_bucket != NULL ? remove_copied(f, it, &seen, eb)
                                     : files_remove(it->from, eb);
        if (rc != ERR_OK)
            err_prefix(eb, "copied, but the source is still there");
    }
    free(seen.etag);
    return rc;
}

static enum err
nothing(struct flow *f, const struct item *it, void *arg, struct errbuf *eb)
{
    (void)f;
    (void)it;
    (void)arg;
    (void)eb;
    return ERR_OK;
}

static enum exit_code
cp_act(struct session *s)
{
    const struct args *a = s->args;
    bool moves = a->verb == &mv, dry = args_has(a, "dry-run");
    bool one = a->count == 1 && args_value(a, "from-file") == NULL;
    struct flow *f = xcalloc(1, sizeof *f);
    struct plan p = {.f = f,
                     .to = a->verb == &get && one ? "." : a->at[a->count - 1],
                     .sources = a->verb == &get && one ? 1 : a->count - 1,
                     .recursive = args_has(a, "recursive"),
                     .moves = moves};
    enum exit_code code;

    s3_client_want_latest(s->s3, args_has(a, "latest"));
    if (a->verb != &get && one) {
        err_set(&s->eb, ERR_BAD_REQUEST, "%s needs a source and a target", a->verb->name);
        free(f);
        return cli_usage(&s->eb, a->verb);
    }
    *f = (struct flow){
        .s = s,
        .did = dry ? (moves ? "would move" : "would copy") : (moves ? "moved" : "copied"),
        .find = cp_find,
        .act = dry     ? nothing
               : moves ? cp_move
                       : cp_copy,
        .arg = &p,
        .parallel = s->connections,
        .dry = dry,
        .restart = args_has(a, "restart"),
        .tags = args_has(a, "no-tags") ? FLOW_TAGS_NONE : FLOW_TAGS_TOO,
        .again = "repeat the command to resume large transfers; forebay sync skips "
                 "what is already there"};
    if (select_init(&p.select, s, p.recursive ? WALK_BELOW : WALK_ONE, &s->eb) !=
            ERR_OK ||
        select_pick(&p.select, &s->eb) != ERR_OK ||
        put_headers_init(&p.headers, a, &s->eb) != ERR_OK ||
        flow_limit_rate(f, &s->eb) != ERR_OK) {
        put_headers_fini(&p.headers);
        free(f);
        return cli_usage(&s->eb, a->verb);
    }
    f->put_headers = &p.headers;
    p.select.walk.no_follow = args_has(a, "no-follow");
    p.select.must = moves ? "moves" : "copies";
    code = flow_run(f);
    claims_fini(&p.claims);
    attached_fini(&p.attached);
    put_headers_fini(&p.headers);
    pace_drop(&f->pace);
    free(p.dest_bucket);
    free(f);
    return code;
}

static enum exit_code
cp_run(const struct args *a)
{
    return session_run(a, cp_act, NULL);
}
/* With --batch it is another command. */
static enum exit_code
get_run(const struct args *a)
{
    return args_has(a, "batch") ? get_batch_run(a) : cp_run(a);
}
const struct cli_verb cli_cp = {&cp, cp_run}, cli_mv = {&mv, cp_run},
                      cli_put = {&put, cp_run}, cli_get = {&get, get_run};
