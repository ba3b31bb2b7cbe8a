/* ls: buckets, or what is in one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/here.h"
#include "cli/output.h"
#include "cli/select.h"
#include "cli/uploads.h"
#include "cli/versions.h"
#include "wire/json.h"

static const struct flag flags[] = {
    {"recursive", 'r', NULL, "all keys, not one level", false},
    {"long", 'l', NULL, "with ETags", false},
    {"tree", 't', NULL, "as a tree", false},
    {"human", 'h', NULL, "sizes for people", false},
    {"cached", 'c', NULL, "show which objects are cached (Forebay server)", false},
    {"summarize", 0, NULL, "count and total at the end", false},
    {"versions", 0, NULL, "every version, with its id", false},
    {"uploads", 0, NULL, "unfinished uploads in parts", false},
    PICK_FLAGS,
    SELECT_FLAGS,
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay ls",
    "forebay ls s3://train/images/",
    "forebay ls -r s3://train --json",
    "forebay ls -rc s3://train",
    "forebay ls --tree -h s3://train",
    "forebay ls 's3://train/shard-00*.tar'",
    "forebay ls -r s3://train --larger 1GiB --older-than 30d",
    "forebay ls --versions s3://train/labels.json",
    "forebay ls --uploads s3://train",
    NULL};
static const struct verb verb = {
    .name = "ls",
    .summary = "list buckets, or the objects of one",
    .arguments = "[s3://BUCKET[/PREFIX]...]",
    .least = 0,
    .most = 1000000,
    .examples = examples,
    .flags = flags,
    .more =
        "s3://B/PREFIX lists what begins so, up to the next slash; -o name gives whole "
        "names, one a line.\n-c tells of each object: cached (a copy is here; cached "
        "10/48: of a large one so many chunks), pinned\n(and stays), in-doubt (the "
        "outcome "
        "of a write at the remote is not known), - (not here); native: it is only here."};

struct listing {
    struct session *s;
    struct select select;
    uint64_t count, bytes;
    uint64_t here_count, here_bytes;
    struct here *here;         /* owned; NULL: not asked for */
    const char *state;         /* of the entry at hand */
    struct here_chunks chunks; /* of it */
    bool human, all, tree;
    char *last; /* owned; of a tree: the name before */
    struct arena *a;
    struct json json;
    struct buf text;
};

/* ---- JSON ---- */

static void
open_json(struct listing *l)
{
    if (l->s->output == OUTPUT_JSONL)
        json_begin(&l->json, &l->text);
    json_open_object(&l->json, NULL);
}

static void
end_json(struct listing *l)
{
    json_end(&l->json);
    fwrite(l->text.at, 1, l->text.len, stdout);
    if (l->s->output == OUTPUT_JSONL)
        putchar('\n');
    buf_clear(&l->text);
}

static void
entry_json(struct listing *l, const struct found *e)
{
    char date[NUM_DATE_TEXT];

    open_json(l);
    json_text(&l->json, e->is_prefix ? "prefix" : "key", e->path);
    if (!e->is_prefix) {
        date_iso(e->mtime_ms, date);
        json_u64(&l->json, "size", e->size);
        json_span(&l->json, "etag", e->etag);
        json_text(&l->json, "modified", date);
        if (l->here != NULL)
            json_text(&l->json, "cached", l->state);
        if (l->here != NULL && l->chunks.count > 0) {
            json_u64(&l->json, "chunks", l->chunks.count);
            json_u64(&l->json, "chunks_here", l->chunks.here);
        }
    }
    end_json(l);
}

/* ---- for people ---- */

static void
put_size(const struct listing *l, uint64_t bytes)
{
    char size[NUM_SIZE_TEXT];

    if (l->human)
        printf(" %12s", session_size(l->s, bytes, size));
    else
        printf(" %12" PRIu64, bytes);
}

/* "cached", or "cached 10/48": of a large object only some chunks may be here. */
static const char *
state_text(const struct listing *l, char out[64])
{
    if (l->chunks.count == 0 || l->chunks.here == l->chunks.count)
        return l->state;
    snprintf(out, 64, "%s %" PRIu64 "/%" PRIu64, l->state, l->chunks.here,
             l->chunks.count);
    return out;
}

static void
entry_line(struct listing *l, const struct found *e)
{
    char state[64];
    struct span name = name_shown(span_of(e->path), l->a);
    char date[NUM_DATE_TEXT];

    if (e->is_prefix) {
        printf("%24s %12s", "", "PRE");
        if (l->all)
            printf(" %-34s", "");
        if (l->here != NULL)
            printf(" %-12s", "");
    } else {
        date_iso(e->mtime_ms, date);
        printf("%24s", date);
        put_size(l, e->size);
        if (l->all)
            printf(" %-34.*s", SPAN_ARG(e->etag));
        if (l->here != NULL)
            printf(" %-12s", state_text(l, state));
    }
    if (e->is_prefix)
        printf(" %s%.*s%s\n", cli_paint(stdout, PAINT_PLACE), SPAN_ARG(name),
               cli_paint(stdout, PAINT_OFF));
    else
        printf(" %.*s\n", SPAN_ARG(name));
}

/* Only the parts of the name that the one before did not have. */
static void
entry_tree(struct listing *l, const struct found *e)
{
    const char *name = e->name.at;
    size_t same = 0, at = 0;
    char size[NUM_SIZE_TEXT];
    unsigned depth = 0;

    for (size_t i = 0; l->last != NULL && i < e->name.len && l->last[i] == name[i]; i++)
        if (name[i] == '/')
            same = i + 1;
    while (at < e->name.len) {
        const char *slash = memchr(name + at, '/', e->name.len - at);
        size_t len = slash != NULL ? (size_t)(slash - name) + 1 - at : e->name.len - at;
        struct span part = {name + at, len};

        if (at >= same) {
            printf("%*s%.*s", (int)(2 * depth), "", SPAN_ARG(name_shown(part, l->a)));
            if (slash == NULL && l->human)
                printf("  %s", session_size(l->s, e->size, size));
            putchar('\n');
        }
        depth++;
        at += len;
    }
    free(l->last);
    l->last = xmemdup0(name, e->name.len);
}

static enum err
ls_on_found(void *arg, const struct place *p, const struct found *e, struct errbuf *eb)
{
    struct listing *l = arg;

    if (!p->remote)
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\": expected s3://BUCKET", p->text);
    arena_reset(l->a);
    if (l->here != NULL && !e->is_prefix) {
        enum err rc = here_state(l->here, p, span_of(e->path), &l->state, eb);
        bool is_here = rc == ERR_OK && strcmp(l->state, "-") != 0;

        if (rc != ERR_OK)
            return rc;
        l->chunks = here_chunks(l->here);
        l->here_count += is_here && l->chunks.here == l->chunks.count;
        l->here_bytes += !is_here ? 0 : l->chunks.count > 0 ? l->chunks.bytes : e->size;
    }
    l->count += !e->is_prefix;
    l->bytes += e->size;
    if (l->s->json)
        entry_json(l, e);
    else if (l->s->output == OUTPUT_NAME)
        printf("s3://%.*s/%s\n", SPAN_ARG(e->bucket), e->path);
    else if (l->tree)
        entry_tree(l, e);
    else
        entry_line(l, e);
    return output_check(eb);
}

static enum err
list_buckets(struct listing *l)
{
    struct session *s = l->s;
    struct arena *a = arena_new(KIB(64), MIB(16));
    struct s3_bucket_entry *b = NULL;
    struct s3_failure f;
    char date[NUM_DATE_TEXT];
    uint32_t count = 0;
    enum err rc = s3_list_buckets(s->s3, a, &b, &count, &f, &s->eb);

    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        date_iso(b[i].created_ms, date);
        if (s->json) {
            open_json(l);
            json_span(&l->json, "bucket", b[i].name);
            json_text(&l->json, "created", date);
            end_json(l);
        } else if (s->output == OUTPUT_NAME) {
            printf("s3://%.*s\n", SPAN_ARG(b[i].name));
        } else {
            printf("%24s %.*s\n", date, SPAN_ARG(b[i].name));
        }
    }
    arena_free(&a);
    return rc;
}

static void
summarize(const struct listing *l)
{
    char size[NUM_SIZE_TEXT];

    printf("%" PRIu64 " objects, %s (%" PRIu64 " bytes)\n", l->count,
           session_size(l->s, l->bytes, size), l->bytes);
    if (l->here != NULL)
        printf("%" PRIu64 " of them here, %s (%" PRIu64 " bytes)\n", l->here_count,
               session_size(l->s, l->here_bytes, size), l->here_bytes);
}

/* "ls train": a bucket's bare name, or a folder of this machine? */
static enum err
check_names(const struct args *a, struct errbuf *eb)
{
    for (size_t i = 0; i < a->count; i++) {
        struct place p;
        enum err rc = place_parse(a->at[i], &p, eb);

        if (rc == ERR_OK && !p.remote)
            rc = err_set(eb, ERR_BAD_REQUEST,
                         "\"%s\": expected s3://BUCKET[/PREFIX]; ls shows what is at a "
                         "server",
                         a->at[i]);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

static enum exit_code
ls_act(struct session *s)
{
    const struct args *a = s->args;
    struct listing l = {.s = s,
                        .human = args_has(a, "human") || args_value(a, "units") != NULL,
                        .all = args_has(a, "long"),
                        .tree = args_has(a, "tree")};
    enum err rc = select_init(
        &l.select, s, args_has(a, "recursive") || l.tree ? WALK_BEGINS : WALK_LEVEL,
        &s->eb);

    if (rc == ERR_OK)
        rc = select_pick(&l.select, &s->eb);
    if (rc == ERR_OK)
        rc = check_names(a, &s->eb);
    if (rc != ERR_OK)
        return cli_usage(&s->eb, a->verb);
    buf_init(&l.text, MIB(16));
    l.a = arena_new(KIB(16), MIB(1));
    if (args_has(a, "cached"))
        l.here = here_new(s);
    if (s->output == OUTPUT_JSON) {
        json_begin(&l.json, &l.text);
        json_open_array(&l.json, NULL);
    }
    rc = a->count == 0 && args_value(a, "from-file") == NULL
             ? list_buckets(&l)
             : select_all(&l.select, a->count, ls_on_found, &l, &s->eb);
    if (s->output == OUTPUT_JSON && rc == ERR_OK) {
        json_end(&l.json);
        printf("%.*s\n", SPAN_ARG(buf_span(&l.text)));
    }
    if (rc == ERR_OK && args_has(a, "summarize") && !s->json)
        summarize(&l);
    here_free(&l.here);
    buf_fini(&l.text);
    arena_free(&l.a);
    free(l.last);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
ls_run(const struct args *a)
{
    return session_run(a,
                       args_has(a, "versions")  ? versions_ls
                       : args_has(a, "uploads") ? uploads_ls
                                                : ls_act,
                       NULL);
}
const struct cli_verb cli_ls = {&verb, ls_run};
