/* find, du: what there is below a place. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/output.h"
#include "cli/select.h"
#include "wire/json.h"

/* ---- find ---- */

static const struct flag find_flags[] = {
    {"name", 0, "GLOB", "the last part of the name matches", false},
    {"path", 0, "GLOB", "the name below the place matches", false},
    PICK_FLAGS,
    {"older", 0, "TIME", "the same as --older-than", false},
    {"newer", 0, "TIME", "the same as --newer-than", false},
    {"print0", 0, NULL, "names end in a NUL, for xargs -0", false},
    {"long", 'l', NULL, "with time and size", false},
    SELECT_FLAGS,
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const find_examples[] = {
    "forebay find s3://train --name '*.jpg' --larger 1MiB",
    "forebay find s3://logs --older 30d -o name | forebay rm --yes --from-file -", NULL};
static const struct verb find_verb = {.name = "find",
                                      .summary = "find objects by name, size and age",
                                      .arguments = "PLACE...",
                                      .least = 0,
                                      .most = 1000000,
                                      .examples = find_examples,
                                      .flags = find_flags};

struct finding {
    struct session *s;
    struct select select;
    const char *name, *path;
    bool null, all;
    uint64_t count;
    struct arena *a;
    struct buf text;
    struct json json;
};

static bool
is_wanted(const struct finding *x, const struct found *e)
{
    const char *slash = e->name.len > 0 ? memrchr(e->name.at, '/', e->name.len) : NULL;
    struct span base =
        slash != NULL ? span_from(e->name, (size_t)(slash - e->name.at) + 1) : e->name;

    return (x->name == NULL || glob_match(span_of(x->name), base)) &&
           (x->path == NULL || glob_match(span_of(x->path), e->name));
}

static void
put_json(struct finding *x, const char *full, const struct found *e)
{
    char date[NUM_DATE_TEXT];

    date_iso(e->mtime_ms, date);
    if (x->s->output == OUTPUT_JSONL)
        json_begin(&x->json, &x->text);
    json_open_object(&x->json, NULL);
    json_text(&x->json, "name", full);
    json_u64(&x->json, "size", e->size);
    json_text(&x->json, "modified", date);
    if (e->etag.len > 0)
        json_span(&x->json, "etag", e->etag);
    json_end(&x->json);
    fwrite(x->text.at, 1, x->text.len, stdout);
    if (x->s->output == OUTPUT_JSONL)
        putchar('\n');
    buf_clear(&x->text);
}

static enum err
find_on_found(void *arg, const struct place *p, const struct found *e, struct errbuf *eb)
{
    struct finding *x = arg;
    char *full, date[NUM_DATE_TEXT];

    if (e->problem != NULL) {
        fprintf(stderr, "forebay: left out: %s: %s\n", e->path, e->problem);
        return ERR_OK;
    }
    if (!is_wanted(x, e))
        return ERR_OK;
    x->count++;
    full = p->remote ? xasprintf("s3://%.*s/%s", SPAN_ARG(e->bucket), e->path)
                     : xstrdup(e->path);
    arena_reset(x->a);
    if (x->s->json) {
        put_json(x, full, e);
    } else if (x->null) {
        fwrite(full, 1, strlen(full) + 1, stdout);
    } else if (x->s->output == OUTPUT_NAME) {
        puts(full);
    } else {
        if (x->all) {
            date_iso(e->mtime_ms, date);
            printf("%24s %12" PRIu64 " ", date, e->size);
        }
        printf("%.*s\n", SPAN_ARG(name_shown(span_of(full), x->a)));
    }
    free(full);
    return output_check(eb);
}

static enum exit_code
find_find(struct session *s)
{
    const struct args *a = s->args;
    struct finding x = {.s = s,
                        .name = args_value(a, "name"),
                        .path = args_value(a, "path"),
                        .null = args_has(a, "print0"),
                        .all = args_has(a, "long")};
    enum err rc = select_init(&x.select, s, WALK_BELOW, &s->eb);

    if (rc == ERR_OK)
        rc = select_pick(&x.select, &s->eb);
    if (rc == ERR_OK && a->count == 0 && args_value(a, "from-file") == NULL)
        rc = err_set(&s->eb, ERR_BAD_REQUEST, "find needs a place: s3://BUCKET");
    if (rc != ERR_OK)
        return cli_usage(&s->eb, a->verb);
    x.a = arena_new(KIB(16), MIB(1));
    buf_init(&x.text, MIB(1));
    if (s->output == OUTPUT_JSON) {
        json_begin(&x.json, &x.text);
        json_open_array(&x.json, NULL);
    }
    rc = select_all(&x.select, a->count, find_on_found, &x, &s->eb);
    if (rc == ERR_OK && s->output == OUTPUT_JSON) {
        json_end(&x.json);
        printf("%.*s\n", SPAN_ARG(buf_span(&x.text)));
    }
    buf_fini(&x.text);
    arena_free(&x.a);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
run_find(const struct args *a)
{
    return session_run(a, find_find, NULL);
}
const struct cli_verb cli_find = {&find_verb, run_find};

/* ---- du ---- */

static const struct flag du_flags[] = {
    {"depth", 'd', "N", "a line for each folder so deep; 0 unless given", false},
    {"human", 'h', NULL, "sizes for people", false},
    PICK_FLAGS,
    SELECT_FLAGS,
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const du_examples[] = {
    "forebay du s3://train", "forebay du -h -d 1 s3://train s3://logs", NULL};
static const struct verb du_verb = {.name = "du",
                                    .summary = "count objects and bytes",
                                    .arguments = "PLACE...",
                                    .least = 1,
                                    .most = 1000000,
                                    .examples = du_examples,
                                    .flags = du_flags};

struct counting {
    struct session *s;
    struct select select;
    uint64_t depth;
    char *folder; /* owned: of the sum under way; names come in order */
    uint64_t count, bytes, all_count, all_bytes;
    struct buf text;
    struct json json;
};

static void
find_put_sum(struct counting *c, const char *name, uint64_t count, uint64_t bytes)
{
    char size[NUM_SIZE_TEXT];

    if (c->s->json) {
        if (c->s->output == OUTPUT_JSONL)
            json_begin(&c->json, &c->text);
        json_open_object(&c->json, NULL);
        json_text(&c->json, "name", name);
        json_u64(&c->json, "objects", count);
        json_u64(&c->json, "bytes", bytes);
        json_end(&c->json);
        fwrite(c->text.at, 1, c->text.len, stdout);
        if (c->s->output == OUTPUT_JSONL)
            putchar('\n');
        buf_clear(&c->text);
    } else if (c->s->output == OUTPUT_NAME) {
        puts(name);
    } else {
        struct arena *a = arena_new(KIB(4), MIB(1));
        struct span shown = name_shown(span_of(name), a);

        if (args_has(c->s->args, "human") || args_value(c->s->args, "units") != NULL)
            printf("%12s %10" PRIu64 " %.*s\n", session_size(c->s, bytes, size), count,
                   SPAN_ARG(shown));
        else
            printf("%15" PRIu64 " %10" PRIu64 " %.*s\n", bytes, count, SPAN_ARG(shown));
        arena_free(&a);
    }
}

static void
end_folder(struct counting *c)
{
    if (c->folder != NULL)
        find_put_sum(c, c->folder, c->count, c->bytes);
    free(c->folder);
    c->folder = NULL;
    c->count = c->bytes = 0;
}

/* "a/b/" of "a/b/c/d" at depth 2; what lies higher is summed under where it lies. */
static struct span
folder_of(struct span name, uint64_t depth)
{
    size_t len = 0;

    for (size_t i = 0; i < name.len && depth > 0; i++)
        if (name.at[i] == '/') {
            len = i + 1;
            depth--;
        }
    return (struct span){name.at, len};
}

static enum err
count_one(void *arg, const struct place *p, const struct found *e, struct errbuf *eb)
{
    struct counting *c = arg;
    char *folder;

    (void)eb;
    if (e->problem != NULL)
        return ERR_OK;
    c->all_count++;
    c->all_bytes += e->size;
    if (c->depth == 0 || folder_of(e->name, c->depth).len == 0)
        return ERR_OK; /* what lies at the top is in the sum of all */
    folder =
        xasprintf("%s%s%.*s", p->text,
                  p->text[0] != '\0' && p->text[strlen(p->text) - 1] == '/' ? "" : "/",
                  SPAN_ARG(folder_of(e->name, c->depth)));
    if (c->folder == NULL || strcmp(c->folder, folder) != 0) {
        end_folder(c);
        c->folder = folder;
    } else {
        free(folder);
    }
    c->count++;
    c->bytes += e->size;
    return ERR_OK;
}

static enum err
count_name(void *arg, const char *text, struct errbuf *eb)
{
    struct counting *c = arg;
    enum err rc;

    c->all_count = c->all_bytes = 0;
    rc = select_walk(&c->select, text, count_one, c, eb);
    end_folder(c);
    if (rc == ERR_OK)
        find_put_sum(c, text, c->all_count, c->all_bytes);
    return rc;
}

static enum exit_code
du(struct session *s)
{
    const char *depth = args_value(s->args, "depth");
    struct counting c = {.s = s};
    enum err rc = select_init(&c.select, s, WALK_BELOW, &s->eb);

    if (rc == ERR_OK)
        rc = select_pick(&c.select, &s->eb);
    if (rc == ERR_OK && depth != NULL && num_u64(span_of(depth), &c.depth) != ERR_OK)
        rc = err_set(&s->eb, ERR_BAD_REQUEST, "--depth \"%s\": expected a number", depth);
    if (rc != ERR_OK)
        return cli_usage(&s->eb, s->args->verb);
    buf_init(&c.text, MIB(1));
    if (s->output == OUTPUT_JSON) {
        json_begin(&c.json, &c.text);
        json_open_array(&c.json, NULL);
    }
    rc = select_names(&c.select, s->args->count, count_name, &c, &s->eb);
    if (rc == ERR_OK && s->output == OUTPUT_JSON) {
        json_end(&c.json);
        printf("%.*s\n", SPAN_ARG(buf_span(&c.text)));
    }
    buf_fini(&c.text);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
run_du(const struct args *a)
{
    return session_run(a, du, NULL);
}
const struct cli_verb cli_du = {&du_verb, run_du};
