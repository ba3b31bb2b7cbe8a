#include "job/names.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "wire/json_get.h"

#define MANIFEST_MAX MIB(64)

/* ---- the request ---- */

static const struct job_arg *
find_arg(const struct job_arg *known, const char *name)
{
    static const struct job_arg common[] = {{"bucket", false, 0},
                                            {"prefix", false, 0},
                                            {"manifest", false, 0},
                                            {NULL, false, 0}};

    for (const struct job_arg *a = common; a->name != NULL; a++)
        if (strcmp(a->name, name) == 0)
            return a;
    for (; known->name != NULL; known++)
        if (strcmp(known->name, name) == 0)
            return known;
    return NULL;
}

static enum err
check_args(const char *kind, const struct job_arg *known, const json_t *args,
           struct errbuf *eb)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)args, key, value)
    {
        const struct job_arg *a = find_arg(known, key);

        if (a == NULL)
            return err_set(eb, ERR_BAD_REQUEST, "a job \"%s\" has no argument \"%s\"",
                           kind, key);
        if (a->is_number ? !json_is_integer(value) || json_integer_value(value) < 0
                         : !json_is_string(value))
            return err_set(eb, ERR_BAD_REQUEST, "\"%s\" of a job \"%s\" is %s", key, kind,
                           a->is_number ? "a number from 0 on" : "a text");
        if (a->most > 0 && json_get_u64(args, key) > a->most)
            return err_set(
                eb, ERR_BAD_REQUEST, "\"%s\" is %llu, at most %llu are possible", key,
                (unsigned long long)json_get_u64(args, key), (unsigned long long)a->most);
    }
    return ERR_OK;
}

static struct span
take_line(struct span *rest)
{
    const char *end = memchr(rest->at, '\n', rest->len);
    struct span line = {rest->at, end != NULL ? (size_t)(end - rest->at) : rest->len};

    *rest = span_from(*rest, line.len + 1);
    if (line.len > 0 && line.at[line.len - 1] == '\r')
        line.len--;
    return line;
}

/* Checks every line before the job is accepted, so that it does not fail midway. */
static enum err
count_names(struct span list, uint64_t *count, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(8));
    enum err rc = ERR_OK;

    *count = 0;
    while (rc == ERR_OK && list.len > 0) {
        struct span line = take_line(&list);
        struct brace *b;

        if (line.len == 0)
            continue;
        arena_reset(a);
        rc = brace_parse(line, a, &b, eb);
        if (rc == ERR_OK)
            *count += brace_count(b);
    }
    arena_free(&a);
    return rc;
}

static enum err
names_check_bucket(struct job_service *s, const char *kind, const struct job_arg *known,
                   const json_t *args, struct span list, bool attached, struct buf *what,
                   struct errbuf *eb)
{
    const char *bucket = json_string_value(json_object_get(args, "bucket"));
    const char *prefix = json_string_value(json_object_get(args, "prefix"));
    const char *manifest = json_string_value(json_object_get(args, "manifest"));
    const struct map_bucket *b;
    uint64_t count = 0;
    enum err rc = check_args(kind, known, args, eb);

    if (rc != ERR_OK)
        return rc;
    if (bucket == NULL)
        return err_set(eb, ERR_BAD_REQUEST, "a job \"%s\" names its \"bucket\"", kind);
    if ((prefix != NULL) + (manifest != NULL) + (list.len > 0) != 1)
        return err_set(eb, ERR_BAD_REQUEST,
                       "a job \"%s\" has one of \"prefix\", \"manifest\" and a list of "
                       "names",
                       kind);
    b = map_bucket_find(map_now(s->options.map), span_of(bucket));
    if (b == NULL)
        return err_set(eb, ERR_NO_BUCKET, "there is no bucket \"%s\"", bucket);
    if (attached && !b->cached)
        return err_set(
            eb, ERR_BAD_REQUEST,
            "bucket \"%s\" is not attached to a remote: all of it is here, and "
            "only here",
            bucket);
    if (list.len > 0)
        rc = count_names(list, &count, eb);
    if (rc != ERR_OK)
        return rc;
    if (list.len > 0)
        buf_printf(what, "%llu names of s3://%s", (unsigned long long)count, bucket);
    else
        buf_printf(what, "s3://%s/%s%s", bucket, prefix != NULL ? prefix : manifest,
                   prefix != NULL ? "*" : " (a manifest)");
    return ERR_OK;
}

enum err
names_check(struct job_service *s, const char *kind, const struct job_arg *known,
            const json_t *args, struct span list, struct buf *what, struct errbuf *eb)
{
    return names_check_bucket(s, kind, known, args, list, true, what, eb);
}

enum err
names_check_any(struct job_service *s, const char *kind, const struct job_arg *known,
                const json_t *args, struct span list, struct buf *what, struct errbuf *eb)
{
    return names_check_bucket(s, kind, known, args, list, false, what, eb);
}

/* ---- the names ---- */

static enum err
read_manifest(struct names *n, const char *key, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(16), MIB(2));
    struct object_service *o = n->job->s->options.object;
    struct span piece = {"", 1};
    struct object_get *g = NULL;
    struct object_info info;
    enum err rc = object_get_begin(o, n->bucket, span_of(key), a, &info, &g, eb);

    if (rc == ERR_OK && info.size > MANIFEST_MAX)
        rc = err_set(eb, ERR_TOO_LARGE, "it has %llu bytes, %llu are possible",
                     (unsigned long long)info.size, (unsigned long long)MANIFEST_MAX);
    if (rc == ERR_OK)
        rc = object_get_range(g, 0, info.size, eb);
    while (rc == ERR_OK && piece.len > 0) {
        rc = object_get_next(g, DEADLINE_NEVER, &piece, eb);
        if (rc == ERR_OK)
            buf_put_span(&n->text, piece);
    }
    object_get_end(&g);
    arena_free(&a);
    if (rc != ERR_OK)
        err_prefix(eb, "manifest \"%s\"", key);
    return rc;
}

static enum err
next_line(struct names *n, struct errbuf *eb)
{
    struct span line;

    if (n->rest.len == 0) {
        n->ended = true;
        return ERR_OK;
    }
    line = take_line(&n->rest);
    n->line = NULL;
    if (line.len == 0)
        return ERR_OK;
    arena_reset(n->arena);
    n->line_at = 0;
    return brace_parse(line, n->arena, &n->line, eb);
}

/* Skips to the name with number `wanted`. */
static enum err
skip_to(struct names *n, uint64_t wanted, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && !n->ended && n->number < wanted) {
        uint64_t left = n->line != NULL ? brace_count(n->line) - n->line_at : 0;

        if (left == 0) {
            rc = next_line(n, eb);
        } else {
            uint64_t step = MIN(left, wanted - n->number);

            n->line_at += step;
            n->number += step;
        }
    }
    return rc;
}

static enum err
open_list(struct names *n, struct errbuf *eb)
{
    struct job *j = n->job;
    const char *manifest = json_string_value(json_object_get(j->args, "manifest"));
    uint64_t position = 0;
    enum err rc;

    buf_init(&n->text, MAX(MANIFEST_MAX, JOB_LIST_MAX));
    rc = manifest != NULL ? read_manifest(n, manifest, eb)
                          : job_read_list(j, &n->text, eb);
    if (rc == ERR_OK)
        rc = count_names(buf_span(&n->text), &j->counts.total, eb);
    n->rest = buf_span(&n->text);
    if (rc == ERR_OK && j->position != NULL &&
        num_u64(span_of(j->position), &position) == ERR_OK)
        rc = skip_to(n, position, eb);
    return rc;
}

enum err
names_open(struct names *n, struct job *j, struct errbuf *eb)
{
    const char *bucket = json_string_value(json_object_get(j->args, "bucket"));
    const struct map_bucket *b =
        map_bucket_find(map_now(j->s->options.map), span_of(bucket));

    *n = (struct names){.job = j,
                        .prefix = json_string_value(json_object_get(j->args, "prefix"))};
    if (b == NULL)
        return err_set(eb, ERR_NO_BUCKET, "there is no bucket \"%s\" any more", bucket);
    n->bucket = map_bucket_ref(b);
    n->arena = arena_new(KIB(64), MIB(16));
    return n->prefix != NULL ? ERR_OK : open_list(n, eb);
}

void
names_close(struct names *n)
{
    map_bucket_drop(&n->bucket);
    arena_free(&n->arena);
    buf_fini(&n->text);
}

enum err
names_next(struct names *n, char key[NAMES_KEY_MAX + 1], struct errbuf *eb)
{
    struct buf name;
    enum err rc = ERR_OK;

    assert(n->job != NULL);
    while (rc == ERR_OK && !n->ended &&
           (n->line == NULL || n->line_at == brace_count(n->line)))
        rc = next_line(n, eb);
    if (rc != ERR_OK || n->ended)
        return rc;
    assert(n->line != NULL);
    assert(n->line_at < brace_count(n->line));
    buf_init(&name, NAMES_KEY_MAX);
    brace_name(n->line, n->line_at++, &name);
    n->number++;
    snprintf(key, NAMES_KEY_MAX + 1, "%.*s", SPAN_ARG(buf_span(&name)));
    if (name.full)
        rc = err_set(eb, ERR_BAD_REQUEST, "name %llu is over %u bytes",
                     (unsigned long long)n->number - 1, NAMES_KEY_MAX);
    buf_fini(&name);
    return rc;
}
