#include "cli/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/input.h"
#include "cli/missing.h"
#include "rt/loop.h"

#define NAME_MAX_ 8192

enum err
select_init(struct select *sel, struct session *s, enum walk_how how, struct errbuf *eb)
{
    const char *const flags[2] = {"exclude", "include"};
    size_t counts[2] = {0, 0};

    *sel = (struct select){.s = s};
    for (int k = 0; k < 2; k++) {
        const char *glob;

        while ((glob = args_nth(s->args, flags[k], counts[k])) != NULL) {
            if (counts[k] == ARRAY_LEN(sel->globs[k]))
                return err_set(eb, ERR_BAD_REQUEST, "--%s may be given %zu times",
                               flags[k], ARRAY_LEN(sel->globs[k]));
            sel->globs[k][counts[k]++] = glob;
        }
    }
    sel->walk = (struct walk_options){.how = how,
                                      .filter = {.exclude = sel->globs[0],
                                                 .include = sel->globs[1],
                                                 .exclude_count = counts[0],
                                                 .include_count = counts[1]},
                                      .literal = args_has(s->args, "literal")};
    return ERR_OK;
}

enum err
select_pick(struct select *sel, struct errbuf *eb)
{
    enum err rc = pick_init(&sel->pick, sel->s->args, eb);

    sel->walk.look = sel->walk.look || sel->pick.any;
    return rc;
}

struct naming {
    struct select *sel;
    select_on *on_name;
    void *arg;
};

static enum err
on_expanded(void *arg, struct span name, struct errbuf *eb)
{
    struct naming *n = arg;

    return n->on_name(n->arg, name.at, eb);
}

static enum err
one_name(struct naming *n, const char *text, struct errbuf *eb)
{
    bool remote = strncmp(text, "s3://", 5) == 0 || strncmp(text, "forebay://", 10) == 0;

    if (!remote || n->sel->walk.literal)
        return n->on_name(n->arg, text, eb);
    return names_expand(span_of(text), on_expanded, n, eb);
}

struct reading {
    FILE *in;
    char *line; /* owned by getdelim */
    size_t room;
    ssize_t len;
    int end;
};

static void
select_read_line(void *arg)
{
    struct reading *r = arg;

    r->len = getdelim(&r->line, &r->room, r->end, r->in);
}

static enum err
names_of_file(struct naming *n, const char *path, bool null, struct errbuf *eb)
{
    struct reading r = {.end = null ? '\0' : '\n'};
    enum err rc = ERR_OK;

    r.in = strcmp(path, "-") == 0 ? input_file() : fopen(path, "re");
    if (r.in == NULL)
        return err_set(eb, ERR_NOT_FOUND, "--from-file \"%s\" cannot be read", path);
    for (;;) {
        rc = rt_blocking(select_read_line, &r, DEADLINE_NEVER);
        if (rc != ERR_OK || r.len < 0)
            break;
        while (r.len > 0 &&
               (r.line[r.len - 1] == (char)r.end || (!null && r.line[r.len - 1] == '\r')))
            r.line[--r.len] = '\0';
        if (r.len == 0)
            continue;
        if (r.len > NAME_MAX_)
            rc = err_set(eb, ERR_BAD_REQUEST, "a line of \"%s\" has over %d bytes", path,
                         NAME_MAX_);
        else
            rc = one_name(n, r.line, eb);
        if (rc != ERR_OK)
            break;
    }
    free(r.line);
    if (r.in != input_file())
        fclose(r.in);
    return rc;
}

enum err
select_names(struct select *sel, size_t count, select_on *on_name, void *arg,
             struct errbuf *eb)
{
    const struct args *a = sel->s->args;
    const char *file = args_value(a, "from-file");
    struct naming n = {sel, on_name, arg};
    enum err rc = ERR_OK;

    for (size_t i = 0; rc == ERR_OK && i < count; i++)
        rc = one_name(&n, a->at[i], eb);
    if (rc == ERR_OK && file != NULL)
        rc = names_of_file(&n, file, args_has(a, "null"), eb);
    return rc;
}

enum err
select_walk(struct select *sel, const char *text, select_found *on_found, void *arg,
            struct errbuf *eb)
{
    const struct found *e = NULL;
    struct walk *w = NULL;
    struct place p;
    bool any = false;
    enum err rc = place_parse(text, &p, eb);

    if (rc == ERR_OK && p.remote && p.key.len == 0 && sel->walk.how == WALK_ONE)
        rc = err_set(eb, ERR_BAD_REQUEST, "\"%s\" names a bucket, not an object", text);
    if (rc == ERR_OK)
        rc = walk_open(sel->s, &p, &sel->walk, &w, eb);
    while (rc == ERR_OK) {
        rc = walk_next(w, &e, eb);
        if (rc != ERR_OK || e == NULL)
            break;
        any = true;
        if (pick_wants(&sel->pick, e))
            rc = on_found(arg, &p, e, eb);
    }
    if (rc == ERR_OK && !any && p.remote && !sel->walk.literal && glob_is(p.key))
        rc = err_set(eb, ERR_NOT_FOUND, "nothing matches \"%s\"", text);
    else if (rc == ERR_OK && sel->must != NULL && p.key.len > 0 && !sel->s->stale &&
             !walk_any(w))
        rc = missing_name(sel->s->s3, p.bucket, p.key, true, sel->must, eb);
    walk_close(&w);
    return rc;
}

struct all {
    struct select *sel;
    select_found *on_found;
    void *arg;
};

static enum err
walk_name(void *arg, const char *text, struct errbuf *eb)
{
    struct all *all = arg;

    return select_walk(all->sel, text, all->on_found, all->arg, eb);
}

enum err
select_all(struct select *sel, size_t count, select_found *on_found, void *arg,
           struct errbuf *eb)
{
    struct all all = {sel, on_found, arg};

    return select_names(sel, count, walk_name, &all, eb);
}

struct asking {
    char answer[16];
};

static void
select_ask(void *arg)
{
    struct asking *a = arg;

    if (fgets(a->answer, sizeof a->answer, input_file()) == NULL)
        a->answer[0] = '\0';
}

enum err
select_agreed(struct session *s, struct errbuf *eb, const char *fmt, ...)
{
    struct asking a = {""};
    char what[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    if (args_has(s->args, "yes"))
        return ERR_OK;
    if (isatty(0) != 1 || isatty(2) != 1)
        return err_set(eb, ERR_BAD_REQUEST, "%s: say --yes", what);
    fprintf(stderr, "%s? [y/N] ", what);
    if (rt_blocking(select_ask, &a, DEADLINE_NEVER) != ERR_OK)
        return err_set(eb, ERR_CANCELLED, "interrupted");
    if (a.answer[0] == 'y' || a.answer[0] == 'Y')
        return ERR_OK;
    return err_set(eb, ERR_CANCELLED, "nothing was done");
}
