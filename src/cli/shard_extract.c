/* shard extract: the members of a shard become files below a folder; each is renamed to its name when it is whole. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/files.h"
#include "cli/names.h"
#include "cli/shard_in.h"
#include "wire/json.h"
#include "wire/tar.h"

static const struct flag extract_flags[] = {
    {"member", 'm', "PATTERN", "only members whose name matches: * ? ** [a-z]", true},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false}};
static const char *const extract_examples[] = {
    "forebay shard extract s3://train/a-000000.tar samples/",
    "forebay shard extract a.tgz . -m '**/*.jpg'", NULL};
static const struct verb extract_verb = {
    .name = "shard extract",
    .summary = "extract the members of a shard into a folder",
    .arguments = "SHARD FOLDER",
    .least = 2,
    .most = 2,
    .examples = extract_examples,
    .flags = extract_flags,
    .more = "A member whose name would leave the folder ends it before anything of that "
            "member is written. Files of the same names are replaced.",
};

struct extraction {
    struct session *s;
    struct shard_walk *walk;
    const char *folder;
    uint64_t files, bytes;
};

static bool
extract_wants(const struct extraction *x, struct span name)
{
    const char *pattern;

    for (size_t i = 0; (pattern = args_nth(x->s->args, "member", i)) != NULL; i++)
        if (glob_match(span_of(pattern), name))
            return true;
    return !args_has(x->s->args, "member");
}

static enum err
extract_to(struct extraction *x, const struct shard_member *m, const char *path,
           struct errbuf *eb)
{
    struct files_target target = {.path = path, .root_len = strlen(x->folder)};
    struct files_part part;
    struct span piece = {"", 1};
    uint64_t at = 0;
    enum err rc = files_part_open(&target, false, &part, eb);

    if (rc != ERR_OK)
        return rc;
    while (rc == ERR_OK && piece.len > 0) {
        rc = shard_walk_data(x->walk, &piece, eb);
        if (rc == ERR_OK && piece.len > 0)
            rc = files_part_write(&part, at, piece.at, piece.len, eb);
        at += rc == ERR_OK ? piece.len : 0;
    }
    if (rc == ERR_OK)
        rc = files_part_keep(&part, at, MAX(m->mtime_s, 0) * 1000, eb);
    else
        files_part_remove(&part);
    files_part_close(&part);
    return rc;
}

static enum err
extract_file(struct extraction *x, const struct shard_member *m, struct errbuf *eb)
{
    char *path;
    enum err rc;

    if (!tar_path_safe(m->name) || name_problem(m->name) != NULL)
        return err_set(eb, ERR_BAD_REQUEST,
                       "member \"%.*s\" would not be a file below the folder",
                       (int)MIN(m->name.len, 200), m->name.at);
    path = xasprintf("%s/%.*s", x->folder, SPAN_ARG(m->name));
    rc = extract_to(x, m, path, eb);
    free(path);
    x->files += rc == ERR_OK;
    x->bytes += rc == ERR_OK ? m->size : 0;
    return rc;
}

static enum err
extract_members(struct extraction *x, struct errbuf *eb)
{
    struct shard_member m;
    bool end = false;
    enum err rc = ERR_OK;

    while (rc == ERR_OK) {
        rc = shard_walk_next(x->walk, &m, &end, eb);
        if (rc != ERR_OK || end)
            break;
        if (extract_wants(x, m.name))
            rc = extract_file(x, &m, eb);
        if (rc == ERR_OK && rt_cancelled())
            rc = err_set(eb, ERR_CANCELLED, "interrupted");
    }
    return rc;
}

static void
extract_tell(const struct extraction *x)
{
    char size[NUM_SIZE_TEXT];

    if (x->s->json)
        printf("{\"files\":%" PRIu64 ",\"bytes\":%" PRIu64 "}\n", x->files, x->bytes);
    else if (!x->s->quiet)
        fprintf(stderr, "%" PRIu64 " files, %s\n", x->files,
                session_size(x->s, x->bytes, size));
}

static enum exit_code
shard_extract_act(struct session *s)
{
    struct extraction x = {.s = s, .folder = s->args->at[1]};
    struct shard_in in;
    enum err rc = shard_in_open(s, s->args->at[0], &in, &s->eb);

    if (rc != ERR_OK)
        return session_fail(s, rc);
    rc = shard_walk_open(&in.in, in.format, &x.walk, &s->eb);
    if (rc == ERR_OK)
        rc = extract_members(&x, &s->eb);
    if (rc != ERR_OK)
        err_prefix(&s->eb, "\"%s\"", s->args->at[0]);
    shard_walk_close(&x.walk);
    shard_in_close(&in);
    extract_tell(&x);
    if (rc == ERR_OK && x.files == 0 && args_has(s->args, "member"))
        rc = err_set(&s->eb, ERR_NOT_FOUND, "\"%s\" has no member that matches",
                     s->args->at[0]);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
shard_extract_run(const struct args *a)
{
    return session_run(a, shard_extract_act, NULL);
}
const struct cli_verb cli_shard_extract = {&extract_verb, shard_extract_run};
