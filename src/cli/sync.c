/* sync: makes one place like the contents of another. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/claims.h"
#include "cli/files.h"
#include "cli/missing.h"
#include "cli/pairs.h"
#include "cli/remove.h"
#include "cli/sync.h"
#include "cli/transfer.h"

static const struct flag flags[] = {
    {"dry-run", 'n', NULL, "print what would be done, change nothing", false},
    SYNC_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay sync ./images s3://train/images",
    "forebay sync s3://train/images /data/images --delete --dry-run",
    "forebay sync s3://train s3://backup/train --exclude 'tmp/**'",
    "forebay sync s3://train s3://train --to-endpoint-url https://other:9000", NULL};
static const struct verb verb = {
    .name = "sync",
    .summary = "make one place like the contents of another",
    .arguments = "SOURCE DEST",
    .least = 2,
    .most = 2,
    .examples = examples,
    .flags = flags,
    .more =
        "Other size, other object. The same size: up, the object is not older than the "
        "file; down, the file has the object's\ntime; else the MD5 of the file decides, "
        "so no time alone makes a copy. What --exclude leaves out is neither copied\nnor "
        "removed. Repeat an interrupted command to resume it."};

enum kind { COPY, CHECK };

struct syncing {
    struct session *s;
    struct flow *f;
    struct select select;
    enum pairs_by by;
    const char *from, *to;
    char *bucket[2]; /* owned; of either side, NULL: local */
    char *base;      /* owned: what names of DEST begin with */
    bool dry, del;
    struct claims
        claims; /* names of SOURCE, where DEST does not tell case apart; else empty */
    bool probed;
    /* What is to be removed: names, each with a NUL behind it. */
    FILE *gone;
    struct attached attached;
    uint64_t gone_count, gone_bytes, unchanged;
};

static char *
dup_span(struct span s)
{
    return xmemdup0(s.at, s.len);
}

static enum err
sync_add(struct syncing *y, const struct pair *p, enum kind kind, struct errbuf *eb)
{
    const struct found *l = p->left;
    const struct found *tagged = y->bucket[0] != NULL ? l : p->right;
    char *name = dup_span(l->name);
    char *to = xasprintf("%s%s", y->base, name);
    char *etag = tagged != NULL && tagged->etag.len > 0 ? dup_span(tagged->etag) : NULL;
    struct item it = {.from_bucket = y->bucket[0],
                      .from = l->path,
                      .to_bucket = y->bucket[1],
                      .to = to,
                      .to_root = strlen(y->base),
                      .etag = etag,
                      .size = l->size,
                      .mtime_ms = l->mtime_ms,
                      .kind = kind,
                      .known = true};
    enum err rc = ERR_OK;

    if (y->bucket[1] == NULL && name_problem(l->name) != NULL) {
        struct errbuf why = {{0}};

        err_set(&why, ERR_BAD_REQUEST, "it cannot be a file below %s: %s", y->to,
                name_problem(l->name));
        flow_fail(y->f, l->path, ERR_BAD_REQUEST, &why);
    } else {
        rc = flow_add(y->f, &it, eb);
    }
    free(name);
    free(to);
    free(etag);
    return rc;
}

static enum err
remember_gone(struct syncing *y, const struct found *r, struct errbuf *eb)
{
    y->gone_count++;
    y->gone_bytes += r->size;
    if (fwrite(r->path, 1, strlen(r->path) + 1, y->gone) != strlen(r->path) + 1)
        return err_set(eb, ERR_NO_SPACE,
                       "the list of what is to be removed finds no space");
    return ERR_OK;
}

/* Every name of SOURCE, also of what is there already: on a file system that does not tell case apart the second of two such
 * names would replace the first. ERR_EXISTS, told. */
static enum err
sync_claim(struct syncing *y, const struct pair *p, struct errbuf *eb)
{
    struct errbuf why = {{0}};

    if (y->bucket[1] != NULL || p->left == NULL || y->dry)
        return ERR_OK;
    if (!y->probed && claims_probe(&y->claims, y->to, eb) != ERR_OK)
        return ERR_CANCELLED;
    y->probed = true;
    if (!y->claims.folds ||
        claims_take(&y->claims, p->left->name, p->left->name) == CLAIM_NEW)
        return ERR_OK;
    flow_fail(y->f, p->left->path, claims_refuse(&y->claims, y->to, &why), &why);
    return ERR_EXISTS;
}

static enum err
on_pair(struct syncing *y, const struct pairs *pairs, const struct pair *p,
        struct errbuf *eb)
{
    enum pairs_same same;
    enum err rc = sync_claim(y, p, eb);

    if (rc != ERR_OK)
        return rc == ERR_EXISTS ? ERR_OK : rc;
    if (p->left == NULL)
        return y->del ? remember_gone(y, p->right, eb) : ERR_OK;
    if (p->left->problem != NULL && p->left->odd) {
        flow_notice(y->f, p->left->path, p->left->problem);
        return ERR_OK;
    }
    if (p->left->problem != NULL) {
        struct errbuf why = {{0}};

        err_set(&why, ERR_IO, "%s", p->left->problem);
        flow_fail(y->f, p->left->path, ERR_IO, &why);
        return ERR_OK;
    }
    if (p->right == NULL)
        return sync_add(y, p, COPY, eb);
    same = pairs_compare(pairs, p, y->by);
    if (same == PAIRS_SAME) {
        y->f->unchanged++;
        return ERR_OK;
    }
    return sync_add(y, p, same == PAIRS_ASK ? CHECK : COPY, eb);
}

static enum err
sync_find(struct flow *f, void *arg, struct errbuf *eb)
{
    struct syncing *y = arg;
    struct pairs *pairs = NULL;
    struct pair p;
    const struct place *to;
    enum err rc = pairs_open(&y->select, y->from, y->to, &pairs, eb);

    (void)f;
    if (rc != ERR_OK)
        return rc;
    to = pairs_place(pairs, true);
    for (int i = 0; i < 2; i++)
        if (pairs_place(pairs, i)->remote)
            y->bucket[i] = dup_span(pairs_place(pairs, i)->bucket);
    if (y->bucket[0] == NULL && y->bucket[1] == NULL)
        rc = err_set(eb, ERR_BAD_REQUEST, "neither \"%s\" nor \"%s\" is on a server",
                     y->from, y->to);
    if (y->s->to != y->s->s3 && (y->bucket[0] == NULL || y->bucket[1] == NULL))
        rc = err_set(eb, ERR_BAD_REQUEST,
                     "--to-endpoint-url and --to-profile are for two buckets; "
                     "--endpoint-url names the server of one");
    y->base = to->remote ? dup_span(to->key) : xstrdup(y->to);
    if (y->base[0] != '\0' && y->base[strlen(y->base) - 1] != '/') {
        char *longer = xasprintf("%s/", y->base);

        free(y->base);
        y->base = longer;
    }
    while (rc == ERR_OK) {
        rc = pairs_next(pairs, &p, eb);
        if (rc != ERR_OK || (p.left == NULL && p.right == NULL))
            break;
        rc = on_pair(y, pairs, &p, eb);
    }
    if (rc == ERR_OK && !y->s->stale && pairs_left_missing(pairs))
        rc = missing_name(y->s->s3, pairs_place(pairs, false)->bucket,
                          pairs_place(pairs, false)->key, true, "cp copies", eb);
    pairs_close(&pairs);
    return rc;
}

static enum err
act_on(struct flow *f, const struct item *it, void *arg, struct errbuf *eb)
{
    struct syncing *y = arg;
    bool up = it->from_bucket == NULL, same = false;
    enum err rc = ERR_OK;

    if (it->kind == CHECK && it->etag != NULL)
        rc = pairs_file_is(y->s, up ? it->from : it->to,
                           span_of(up ? it->to_bucket : it->from_bucket),
                           span_of(up ? it->to : it->from), span_of(it->etag), &same, eb);
    if (rc != ERR_OK)
        return rc;
    if (same)
        return ERR_NOT_MODIFIED;
    return y->dry ? ERR_OK : transfer_item(f, it, NULL, eb);
}

/* ---- removing ---- */

static enum err
each_gone(struct syncing *y, struct errbuf *eb,
          enum err (*fn)(struct syncing *y, void *arg, const char *name,
                         struct errbuf *eb),
          void *arg)
{
    char *line = NULL;
    size_t room = 0;
    enum err rc = ERR_OK;

    rewind(y->gone);
    while (rc == ERR_OK && getdelim(&line, &room, '\0', y->gone) > 0)
        rc = fn(y, arg, line, eb);
    free(line);
    return rc;
}

static enum err
remove_object(struct syncing *y, void *arg, const char *name, struct errbuf *eb)
{
    return remover_add(arg, span_of(y->bucket[1]), span_of(name), 0, eb);
}

struct sweep {
    struct syncing *y;
    struct remover remover;
};

static enum err
find_objects(struct flow *f, void *arg, struct errbuf *eb)
{
    struct sweep *w = CONTAINER_OF(arg, struct sweep, remover);
    enum err rc = each_gone(w->y, eb, remove_object, &w->remover);

    (void)f;
    return rc == ERR_OK ? remover_flush(&w->remover, eb) : rc;
}

static enum err
remove_file(struct syncing *y, void *arg, const char *name, struct errbuf *eb)
{
    struct item it = {.from = name};
    const char *below = name + MIN(strlen(y->to), strlen(name));

    while (*below == '/')
        below++;
    /* SOURCE has it by another case. */
    return claims_has(&y->claims, span_of(below)) ? ERR_OK : flow_add(arg, &it, eb);
}

static enum err
find_files(struct flow *f, void *arg, struct errbuf *eb)
{
    return each_gone(arg, eb, remove_file, f);
}

static enum err
unlink_file(struct flow *f, const struct item *it, void *arg, struct errbuf *eb)
{
    (void)arg;
    return f->dry ? ERR_OK : files_remove(it->from, eb);
}

static enum exit_code
remove_gone(struct syncing *y)
{
    struct flow *f = xcalloc(1, sizeof *f);
    struct sweep w = {.y = y,
                      .remover = {.f = f,
                                  .s3 = y->s->to,
                                  .dry = y->dry,
                                  .tell = !y->s->quiet && y->s->output != OUTPUT_JSON,
                                  .attached = y->attached}};
    bool remote = y->bucket[1] != NULL;
    enum exit_code code;

    *f = (struct flow){.s = y->s,
                       .did = y->dry ? "would delete" : "deleted",
                       .find = remote ? find_objects : find_files,
                       .act = remote ? remover_act : unlink_file,
                       .drop = remote ? remover_drop : NULL,
                       .arg = remote ? (void *)&w.remover : y,
                       .parallel = 8,
                       .silent = remote,
                       .dry = y->dry};
    y->attached = (struct attached){.count = 0}; /* the remover's now */
    code = flow_run(f);
    remover_fini(&w.remover);
    free(f);
    return code;
}

static enum exit_code
maybe_remove(struct syncing *y, enum exit_code code)
{
    const char *most = args_value(y->s->args, "max-delete");
    char size[NUM_SIZE_TEXT], where[ATTACHED_TEXT] = "";
    uint64_t limit = UINT64_MAX;
    enum err rc = ERR_OK;

    if (y->gone_count == 0)
        return code;
    if (y->s->stale) { /* what SOURCE does not have may well be at its remote */
        fprintf(stderr,
                "forebay: the listing came without the remote, so nothing is deleted: "
                "%" PRIu64 " objects would have been\n",
                y->gone_count);
        return code != EXIT_OK_ ? code : EXIT_DIFFERS;
    }
    if (code != EXIT_OK_) {
        fprintf(stderr,
                "forebay: something failed, so nothing is deleted: %" PRIu64
                " objects would have been\n",
                y->gone_count);
        return code;
    }
    if (most != NULL && num_u64(span_of(most), &limit) == ERR_OK && y->gone_count > limit)
        rc = err_set(&y->s->eb, ERR_TOO_LARGE,
                     "%" PRIu64 " would be deleted, --max-delete allows %" PRIu64
                     ": nothing was deleted",
                     y->gone_count, limit);
    if (rc == ERR_OK && !y->dry && !args_has(y->s->args, "yes")) {
        if (y->bucket[1] != NULL)
            (void)attached_text(&y->attached, y->s->to, span_of(y->bucket[1]), where);
        y->attached.asked = true;
        rc = select_agreed(y->s, &y->s->eb, "delete %" PRIu64 ", %s, from %s%s%s",
                           y->gone_count, num_size_text(y->gone_bytes, size), y->to,
                           where[0] != '\0' ? "," : "", where);
    }
    if (rc != ERR_OK) {
        fprintf(stderr, "forebay: %s\n", y->s->eb.text);
        return EXIT_DIFFERS;
    }
    return remove_gone(y);
}

static enum err
sync_take_flags(struct syncing *y)
{
    const struct args *a = y->s->args;
    const char *most = args_value(a, "max-delete");
    uint64_t n;
    enum err rc = select_init(&y->select, y->s, WALK_BELOW, &y->s->eb);

    y->from = a->at[0];
    y->to = a->at[1];
    y->by = args_has(a, "checksum")    ? PAIRS_CHECKSUM
            : args_has(a, "size-only") ? PAIRS_SIZE
                                       : PAIRS_USUAL;
    y->del = args_has(a, "delete");
    y->select.walk.no_follow = args_has(a, "no-follow");
    if (args_value(a, "from-file") != NULL)
        rc = err_set(&y->s->eb, ERR_BAD_REQUEST, "sync knows no --from-file; cp does");
    if (rc == ERR_OK && most != NULL && num_u64(span_of(most), &n) != ERR_OK)
        rc = err_set(&y->s->eb, ERR_BAD_REQUEST, "--max-delete \"%s\": expected a number",
                     most);
    if (rc == ERR_OK && y->del && (y->gone = tmpfile()) == NULL)
        rc = err_set(&y->s->eb, ERR_IO, "no temporary file can be made");
    return rc;
}

enum exit_code
sync_round(struct session *s, bool dry)
{
    struct syncing y = {.s = s, .dry = dry};
    enum exit_code code;

    if (sync_take_flags(&y) != ERR_OK)
        return cli_usage(&s->eb, s->args->verb);
    y.f = xcalloc(1, sizeof *y.f);
    *y.f = (struct flow){.s = s,
                         .did = y.dry ? "would copy" : "copied",
                         .find = sync_find,
                         .act = act_on,
                         .arg = &y,
                         .parallel = s->connections,
                         .dry = y.dry,
                         .restart = args_has(s->args, "restart"),
                         .tags = args_has(s->args, "no-tags") ? FLOW_TAGS_NONE
                                                              : FLOW_TAGS_TOO,
                         .again = "repeat the command to resume"};
    if (flow_limit_rate(y.f, &s->eb) != ERR_OK)
        code = cli_usage(&s->eb, s->args->verb);
    else
        code = flow_run(y.f);
    pace_drop(&y.f->pace);
    if (y.del && code != EXIT_USAGE)
        code = maybe_remove(&y, code);
    if (y.gone != NULL)
        fclose(y.gone);
    claims_fini(&y.claims);
    attached_fini(&y.attached);
    free(y.f);
    free(y.bucket[0]);
    free(y.bucket[1]);
    free(y.base);
    return code;
}

static enum exit_code
sync_act(struct session *s)
{
    return sync_round(s, args_has(s->args, "dry-run"));
}

static enum exit_code
sync_run(const struct args *a)
{
    return session_run(a, sync_act, NULL);
}
const struct cli_verb cli_sync = {&verb, sync_run};
