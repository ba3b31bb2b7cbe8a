/* cp, put, get: bytes between here and a server, many files at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/list_pages.h"
#include "cli/transfer.h"

#define FILES_AT_ONCE 16

static const struct flag flags[] = {
    {"recursive", 'r', NULL, "everything below", false},
    {"dry-run", 'n', NULL, "only say what would be copied", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay cp big.tar s3://train/",
    "forebay cp -r ./images s3://train/images",
    "forebay cp s3://train/big.tar .",
    "tar c images | forebay cp - s3://train/images.tar",
    NULL,
};
static const struct verb cp = {.name = "cp",
                               .summary = "copy files and objects",
                               .arguments = "SOURCE... DEST",
                               .least = 2,
                               .most = 100000,
                               .examples = examples,
                               .flags = flags};
static const char *const put_examples[] = {"forebay put big.tar s3://train/",
                                           "forebay put - s3://train/log.txt < log.txt",
                                           NULL};
static const struct verb put = {.name = "put",
                                .summary = "copy one file to a server",
                                .arguments = "FILE s3://BUCKET/[KEY]",
                                .least = 2,
                                .most = 2,
                                .examples = put_examples,
                                .flags = flags};
static const char *const get_examples[] = {
    "forebay get s3://train/big.tar", "forebay get s3://train/big.tar - | tar t", NULL};
static const struct verb get = {.name = "get",
                                .summary = "copy one object from a server",
                                .arguments = "s3://BUCKET/KEY [FILE]",
                                .least = 1,
                                .most = 2,
                                .examples = get_examples,
                                .flags = flags};

/* One thing to copy; texts are owned. */
struct item {
    char *from, *to;
    uint64_t size;
};
struct plan {
    struct session *s;
    struct item *at;
    size_t count, room, next;
    uint64_t bytes;
    struct progress progress;
    size_t failed;
    enum err rc; /* of the first that failed */
};

static void
add(struct plan *p, char *from, char *to, uint64_t size)
{
    if (p->count == p->room) {
        p->room = p->room > 0 ? p->room * 2 : 64;
        p->at = xrealloc(p->at, p->room * sizeof *p->at);
    }
    p->at[p->count++] = (struct item){from, to, size};
    p->bytes += size;
}

static const char *
base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static bool
ends_in_slash(const char *s)
{
    return s[0] != '\0' && s[strlen(s) - 1] == '/';
}

/* Where one source goes: into a folder or prefix under its own name, or to exactly this name. */
static char *
one_target(const char *to, const struct place *dest, const char *name, bool several)
{
    bool into = dest->remote ? dest->key.len == 0 || ends_in_slash(to)
                             : ends_in_slash(to) || local_is_folder(to);

    if (dest->standard || !(into || several))
        return xstrdup(to);
    return xasprintf("%s%s%s", to, ends_in_slash(to) ? "" : "/", name);
}

/* A name of a listing that would leave the folder it is copied into. */
static bool
is_safe_below(struct span name)
{
    if (name.len == 0 || name.at[0] == '/' || memchr(name.at, '\0', name.len) != NULL)
        return false;
    for (size_t i = 0; i < name.len;) {
        const char *slash = memchr(name.at + i, '/', name.len - i);
        size_t len = slash != NULL ? (size_t)(slash - name.at) - i : name.len - i;
        struct span part = {name.at + i, len};

        if (span_is(part, "..") || span_is(part, ".") || (len == 0 && slash != NULL))
            return false;
        i += len + 1;
    }
    return true;
}

struct tree {
    struct plan *plan;
    const char *from_text;
    struct place from;
    const char *to;
    struct place dest;
};

static enum err
add_listed(void *arg, const struct s3_list_entry *e)
{
    struct tree *t = arg;
    struct span name = span_from(e->key, t->from.key.len);

    while (name.len > 0 && name.at[0] == '/')
        name = span_from(name, 1);
    if (name.len == 0 || (!t->dest.remote && name.at[name.len - 1] == '/'))
        return ERR_OK; /* a folder marker */
    if (!t->dest.remote && !is_safe_below(name))
        return err_set(&t->plan->s->eb, ERR_BAD_REQUEST,
                       "the key \"%.*s\" cannot be a file below %s", SPAN_ARG(e->key),
                       t->to);
    add(t->plan, xasprintf("s3://%.*s/%.*s", SPAN_ARG(t->from.bucket), SPAN_ARG(e->key)),
        xasprintf("%s%s%.*s", t->to, ends_in_slash(t->to) ? "" : "/", SPAN_ARG(name)),
        e->size);
    return ERR_OK;
}

static enum err
plan_tree(struct plan *p, const char *from, const char *to, struct errbuf *eb)
{
    struct tree t = {.plan = p, .from_text = from, .to = to};
    struct local_list files;
    enum err rc = place_parse(from, &t.from, eb);

    if (rc == ERR_OK)
        rc = place_parse(to, &t.dest, eb);
    if (rc != ERR_OK)
        return rc;
    if (t.from.remote)
        return list_pages(p->s, t.from.bucket, t.from.key, SPAN(""), add_listed, &t, eb);
    rc = local_walk(from, &files, eb);
    if (rc != ERR_OK)
        return rc;
    for (size_t i = 0; i < files.count; i++)
        add(p, xstrdup(files.at[i].path),
            xasprintf("%s%s%s", to, ends_in_slash(to) ? "" : "/", files.at[i].name),
            files.at[i].size);
    local_list_fini(&files);
    return ERR_OK;
}

static enum err
plan_one(struct plan *p, const char *from, const char *to, bool several,
         struct errbuf *eb)
{
    struct place source, dest;
    enum err rc = place_parse(from, &source, eb);

    if (rc == ERR_OK)
        rc = place_parse(to, &dest, eb);
    if (rc != ERR_OK)
        return rc;
    if (!source.remote && !dest.remote)
        return err_set(eb, ERR_BAD_REQUEST, "neither \"%s\" nor \"%s\" is on a server",
                       from, to);
    if (source.remote && source.key.len == 0)
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\" names a bucket; -r copies all of it",
                       from);
    if (!source.remote && !source.standard && local_is_folder(from))
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\" is a folder; -r copies what is in it",
                       from);
    if (source.standard && dest.key.len == 0)
        return err_set(eb, ERR_BAD_REQUEST,
                       "standard input needs a name: s3://BUCKET/KEY");
    add(p, xstrdup(from), one_target(to, &dest, base_name(from), several), 0);
    return ERR_OK;
}

static enum err
copy(struct plan *p, const struct item *it, struct errbuf *eb)
{
    struct place from, to;
    enum err rc = place_parse(it->from, &from, eb);

    if (rc == ERR_OK)
        rc = place_parse(it->to, &to, eb);
    if (rc != ERR_OK)
        return rc;
    if (from.remote && to.remote)
        return transfer_across(p->s, &from, &to, &p->progress, eb);
    if (from.remote)
        return transfer_down(p->s, &from, it->to, &p->progress, eb);
    if (from.standard)
        return transfer_up_stdin(p->s, &to, &p->progress, eb);
    return transfer_up(p->s, it->from, &to, &p->progress, eb);
}

static void
copy_items(void *arg)
{
    struct plan *p = arg;

    while (p->next < p->count && !rt_cancelled()) {
        const struct item *it = &p->at[p->next++];
        struct errbuf eb = {{0}};
        enum err rc = copy(p, it, &eb);

        if (rc != ERR_OK) {
            if (p->failed++ == 0)
                p->rc = rc;
            progress_end(&p->progress);
            fprintf(stderr, "forebay: %s: %s\n", it->from,
                    eb.text[0] != '\0' ? eb.text : err_name(rc));
            continue;
        }
        progress_one(&p->progress);
        if (!p->s->quiet && strcmp(it->to, "-") != 0) {
            progress_end(&p->progress);
            printf("%s -> %s\n", it->from, it->to);
        }
    }
}

static void
run_plan(struct plan *p)
{
    struct rt_group group;

    progress_begin(&p->progress, "copied", p->s->quiet, p->count, p->bytes);
    rt_group_begin(&group);
    for (size_t i = 1; i < MIN(p->count, (size_t)FILES_AT_ONCE); i++)
        if (rt_group_start(&group, copy_items, p) != ERR_OK)
            break; /* fewer at once, then */
    copy_items(p);
    rt_group_join(&group);
    progress_end(&p->progress);
}

static void
plan_fini(struct plan *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->at[i].from);
        free(p->at[i].to);
    }
    free(p->at);
}

static enum exit_code
act(struct session *s)
{
    const struct args *a = s->args;
    const char *to = a->count > 1 ? a->at[a->count - 1] : ".";
    size_t sources = a->count > 1 ? a->count - 1 : 1;
    struct plan p = {.s = s};
    enum exit_code code = EXIT_OK_;
    enum err rc = ERR_OK;

    for (size_t i = 0; i < sources && rc == ERR_OK; i++)
        rc = args_has(a, "recursive") ? plan_tree(&p, a->at[i], to, &s->eb)
                                      : plan_one(&p, a->at[i], to, sources > 1, &s->eb);
    if (rc != ERR_OK) {
        code = rc == ERR_BAD_REQUEST ? cli_usage(&s->eb, a->verb) : session_fail(s, rc);
    } else if (args_has(a, "dry-run")) {
        for (size_t i = 0; i < p.count; i++)
            printf("would copy %s -> %s\n", p.at[i].from, p.at[i].to);
    } else {
        run_plan(&p);
        if (p.failed > 0)
            code = p.count == 1 ? cli_exit_of(p.rc) : EXIT_DIFFERS;
    }
    plan_fini(&p);
    return code;
}

static enum exit_code
run(const struct args *a)
{
    return session_run(a, act, NULL);
}
const struct cli_verb cli_cp = {&cp, run}, cli_put = {&put, run}, cli_get = {&get, run};
