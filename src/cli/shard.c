/* shard: what a shard holds: ls, cat, index; the group of the verbs `shard`. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/names.h"
#include "cli/output.h"
#include "cli/shard_in.h"
#include "cli/transfer.h"
#include "shard/index_text.h"
#include "wire/json.h"
#include "wire/json_get.h"

#define INDEX_MAX MIB(256)

static const struct verb shard_verb = {
    .name = "shard",
    .summary = "archives of samples: list, read, extract, create, append, index",
    .arguments = "VERB",
};
static const struct cli_verb *const shard_verbs[] = {
    &cli_shard_ls,
    &cli_shard_cat,
    &cli_shard_extract,
    &cli_shard_create,
    &cli_shard_append,
    &cli_shard_index,
    NULL,
};
const struct cli_group cli_shard_group = {&shard_verb, shard_verbs};

static const struct flag ls_flags[] = {SESSION_FLAGS, {NULL, 0, NULL, NULL, false}};
static const char *const ls_examples[] = {"forebay shard ls s3://train/a-000000.tar",
                                          "forebay shard ls a.zip -o json", NULL};
static const struct verb ls_verb = {
    .name = "shard ls",
    .summary = "list the members of shards",
    .arguments = "SHARD...",
    .least = 1,
    .most = 100000,
    .examples = ls_examples,
    .flags = ls_flags,
    .more =
        "SHARD is s3://BUCKET/KEY or a file: .tar, .tgz, .tar.gz, .tar.lz4, .zip. Of a "
        "tar or zip the server's index is asked; others are read.",
};
static const struct flag cat_flags[] = {SESSION_FLAGS, {NULL, 0, NULL, NULL, false}};
static const char *const cat_examples[] = {
    "forebay shard cat s3://train/a-000000.tar 000017.jpg > 17.jpg", NULL};
static const struct verb cat_verb = {
    .name = "shard cat",
    .summary = "write members of a shard to standard output",
    .arguments = "SHARD MEMBER...",
    .least = 2,
    .most = 100000,
    .examples = cat_examples,
    .flags = cat_flags,
};
static const struct flag index_flags[] = {
    {"format", 0, "wids|dali|json", "wids unless given", false},
    {"base", 0, "URL", "wids: put before the name of each shard instead of its URL",
     false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false}};
static const char *const index_examples[] = {
    "forebay shard index 's3://train/a-{000..099}.tar' > train.json",
    "forebay shard index s3://train/a-000.tar --format dali > a-000.idx", NULL};
static const struct verb index_verb = {
    .name = "shard index",
    .summary = "write the index of shards for WebDataset (wids) or DALI",
    .arguments = "SHARD...",
    .least = 1,
    .most = 100000,
    .examples = index_examples,
    .flags = index_flags,
    .more =
        "Braces open up. wids has one index for many shards; dali and json have one for "
        "each.",
};

/* ---- ls ---- */

struct listing {
    struct session *s;
    const char *shard;
    struct arena *arena;
    bool any; /* something of a JSON array stands there */
};

static enum err
print_member(struct listing *l, struct span name, uint64_t size, int64_t mtime_s,
             const uint64_t *offset, struct errbuf *eb)
{
    struct buf text;
    struct json j;

    if (output_is_over())
        return ERR_NOT_MODIFIED;
    if (l->s->output == OUTPUT_NAME) {
        printf("%.*s\n", SPAN_ARG(name));
        return output_check(eb);
    }
    if (!l->s->json) {
        char shown[NUM_SIZE_TEXT];

        arena_reset(l->arena);
        printf("%10s  %.*s\n", session_size(l->s, size, shown),
               SPAN_ARG(name_shown(name, l->arena)));
        return output_check(eb);
    }
    buf_init(&text, KIB(64));
    json_begin(&j, &text);
    json_open_object(&j, NULL);
    json_text(&j, "shard", l->shard);
    json_span(&j, "name", name);
    json_u64(&j, "size", size);
    if (offset != NULL)
        json_u64(&j, "offset", *offset);
    json_i64(&j, "mtime", mtime_s);
    json_end(&j);
    if (l->s->output == OUTPUT_JSON)
        fputs(l->any ? ",\n " : "[", stdout);
    printf("%.*s%s", SPAN_ARG(buf_span(&text)), l->s->output == OUTPUT_JSON ? "" : "\n");
    l->any = true;
    buf_fini(&text);
    return output_check(eb);
}

static enum err
list_by_index(struct listing *l, const json_t *doc, struct errbuf *eb)
{
    const json_t *m;
    size_t i;
    enum err rc = ERR_OK;

    json_array_foreach(json_object_get(doc, "members"), i, m)
    {
        uint64_t offset = json_get_u64(m, "offset");

        rc = print_member(l, span_of(json_get_text(m, "name", "")),
                          json_get_u64(m, "size"),
                          json_integer_value(json_object_get(m, "mtime")),
                          json_object_get(m, "offset") != NULL ? &offset : NULL, eb);
        if (rc != ERR_OK)
            break;
    }
    return rc;
}

static enum err
list_by_walk(struct listing *l, struct shard_in *in, struct errbuf *eb)
{
    struct shard_walk *w;
    struct shard_member m;
    bool end = false;
    enum err rc = shard_walk_open(&in->in, in->format, &w, eb);

    while (rc == ERR_OK) {
        rc = shard_walk_next(w, &m, &end, eb);
        if (rc != ERR_OK || end)
            break;
        rc = print_member(l, m.name, m.size, m.mtime_s,
                          in->format == SHARD_TAR ? &m.offset : NULL, eb);
    }
    shard_walk_close(&w);
    return rc;
}

/* The index that the server has of the version that is open; NULL: none. */
static json_t *
index_of_server(struct shard_in *in)
{
    struct arena *a = arena_new(KIB(64), INDEX_MAX);
    struct errbuf eb = {{0}};
    struct span text;
    json_t *doc = NULL;

    if (shard_in_index(in, "json", a, &text, &eb) == ERR_OK)
        doc = json_loadb(text.at, text.len, 0, NULL);
    if (!json_is_array(json_object_get(doc, "members")) ||
        strcmp(json_get_text(doc, "etag", ""), in->etag) != 0) {
        json_decref(doc);
        doc = NULL;
    }
    arena_free(&a);
    return doc;
}

static enum err
list_shard(struct listing *l, const char *text, struct errbuf *eb)
{
    struct shard_in in;
    json_t *doc;
    enum err rc = shard_in_open(l->s, text, &in, eb);

    if (rc != ERR_OK)
        return rc;
    l->shard = text;
    doc = in.place.remote ? index_of_server(&in) : NULL;
    rc = doc != NULL ? list_by_index(l, doc, eb) : list_by_walk(l, &in, eb);
    json_decref(doc);
    shard_in_close(&in);
    if (rc == ERR_BAD_REQUEST || rc == ERR_INCOMPLETE)
        err_prefix(eb, "\"%s\"", text);
    return rc;
}

static enum err
on_shard_name(void *arg, struct span name, struct errbuf *eb)
{
    return list_shard(arg, name.at, eb);
}

static enum exit_code
shard_ls_act(struct session *s)
{
    struct listing l = {.s = s, .arena = arena_new(KIB(16), MIB(1))};
    enum err rc = ERR_OK;

    for (size_t i = 0; rc == ERR_OK && i < s->args->count; i++)
        rc = names_expand(span_of(s->args->at[i]), on_shard_name, &l, &s->eb);
    if (s->output == OUTPUT_JSON && (rc == ERR_OK || l.any))
        puts(l.any ? "]" : "[]");
    arena_free(&l.arena);
    return rc == ERR_OK || rc == ERR_NOT_MODIFIED ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
shard_ls_run(const struct args *a)
{
    return session_run(a, shard_ls_act, NULL);
}
const struct cli_verb cli_shard_ls = {&ls_verb, shard_ls_run};

/* ---- cat ---- */

static enum err
cat_range(struct shard_in *in, uint64_t first, uint64_t len, struct errbuf *eb)
{
    struct span piece = {"", 1};
    enum err rc = first <= in->in.size && len <= in->in.size - first
                      ? in->in.begin(&in->in, first, len, eb)
                      : err_set(eb, ERR_BACKEND, "the server's index does not fit");

    while (rc == ERR_OK && piece.len > 0) {
        rc = in->in.next(&in->in, &piece, eb);
        if (rc == ERR_OK && piece.len > 0)
            rc = transfer_to_stdout(NULL, piece.at, piece.len, eb);
    }
    return rc;
}

static enum err
no_such_member(const struct shard_in *in, const char *name, struct errbuf *eb)
{
    return err_set(eb, ERR_NOT_FOUND,
                   "\"%s\" has no member \"%s\"; forebay shard ls lists them",
                   in->place.text, name);
}

static enum err
cat_by_walk(struct shard_in *in, const char *name, struct errbuf *eb)
{
    struct shard_walk *w;
    struct shard_member m;
    struct span piece = {"", 1};
    bool end = false;
    enum err rc = shard_walk_open(&in->in, in->format, &w, eb);

    while (rc == ERR_OK) {
        rc = shard_walk_next(w, &m, &end, eb);
        if (rc == ERR_OK && end)
            rc = no_such_member(in, name, eb);
        if (rc == ERR_OK && span_is(m.name, name))
            break;
    }
    while (rc == ERR_OK && piece.len > 0) {
        rc = shard_walk_data(w, &piece, eb);
        if (rc == ERR_OK && piece.len > 0)
            rc = transfer_to_stdout(NULL, piece.at, piece.len, eb);
    }
    shard_walk_close(&w);
    return rc;
}

static enum err
cat_by_index(struct shard_in *in, const json_t *doc, const char *name, struct errbuf *eb)
{
    const json_t *m;
    size_t i;

    json_array_foreach(json_object_get(doc, "members"), i, m)
    {
        if (strcmp(json_get_text(m, "name", ""), name) == 0)
            return cat_range(in, json_get_u64(m, "offset"), json_get_u64(m, "size"), eb);
    }
    return cat_by_walk(in, name, eb); /* a name that JSON cannot say */
}

static enum exit_code
shard_cat_act(struct session *s)
{
    struct shard_in in;
    json_t *doc;
    enum err rc = shard_in_open(s, s->args->at[0], &in, &s->eb);

    if (rc != ERR_OK)
        return session_fail(s, rc);
    doc = in.place.remote && in.format == SHARD_TAR ? index_of_server(&in) : NULL;
    for (size_t i = 1; rc == ERR_OK && i < s->args->count; i++)
        rc = doc != NULL ? cat_by_index(&in, doc, s->args->at[i], &s->eb)
                         : cat_by_walk(&in, s->args->at[i], &s->eb);
    json_decref(doc);
    shard_in_close(&in);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
shard_cat_run(const struct args *a)
{
    return session_run(a, shard_cat_act, NULL);
}
const struct cli_verb cli_shard_cat = {&cat_verb, shard_cat_run};

/* ---- index ---- */

struct indexing {
    struct session *s;
    enum shard_text form;
    const char *form_name, *base;
    json_t *list; /* of wids */
    unsigned shards;
};

static enum err
index_append(void *arg, struct span bytes, struct errbuf *eb)
{
    struct buf *out = arg;

    buf_put_span(out, bytes);
    return out->full ? err_set(eb, ERR_TOO_LARGE, "the index is over %llu MiB",
                               (unsigned long long)(INDEX_MAX >> 20))
                     : ERR_OK;
}

static enum err
index_of_file(struct indexing *x, struct shard_in *in, struct buf *out, struct errbuf *eb)
{
    struct shard_about about = {.name = span_of(in->place.text),
                                .url = span_of(in->place.text),
                                .etag = SPAN(""),
                                .size = in->in.size};
    struct shard_index *index = NULL;
    enum err rc;

    if (!shard_format_is_indexed(in->format))
        return err_set(eb, ERR_BAD_REQUEST,
                       "members of a %s are not read one by one, so it has no index; tar "
                       "and zip have",
                       shard_format_extension(in->format) + 1);
    rc = shard_index_build(&in->in, in->format, &index, eb);
    if (rc == ERR_OK)
        rc = shard_index_text(index, x->form, &about,
                              (struct shard_sink){index_append, out}, eb);
    shard_index_drop(&index);
    return rc;
}

/* The last component of the shard's name behind --base. */
static void
index_rename(const struct indexing *x, json_t *shard, const char *text)
{
    const char *slash = strrchr(text, '/');
    struct buf url;

    if (x->base == NULL)
        return;
    buf_init(&url, KIB(8));
    buf_printf(&url, "%s%s", x->base, slash != NULL ? slash + 1 : text);
    json_object_set_new(shard, "url", json_stringn(url.at, url.len));
    buf_fini(&url);
}

static enum err
index_take(struct indexing *x, const char *text, struct span index, struct errbuf *eb)
{
    json_t *doc, *shard;

    if (x->form != SHARD_TEXT_WIDS) {
        if (x->shards > 1 && x->form == SHARD_TEXT_DALI)
            return err_set(eb, ERR_BAD_REQUEST,
                           "an index of DALI is of one shard: one command for each");
        return transfer_to_stdout(NULL, index.at, index.len, eb);
    }
    doc = json_loadb(index.at, index.len, 0, NULL);
    shard = json_array_get(json_object_get(doc, "shardlist"), 0);
    if (!json_is_object(shard)) {
        json_decref(doc);
        return err_set(eb, ERR_BACKEND, "\"%s\": the server has no such index", text);
    }
    index_rename(x, shard, text);
    json_array_append(x->list, shard);
    json_decref(doc);
    return ERR_OK;
}

static enum err
index_shard(void *arg, struct span name, struct errbuf *eb)
{
    struct indexing *x = arg;
    struct arena *a = arena_new(KIB(64), INDEX_MAX);
    struct shard_in in;
    struct span index = {"", 0};
    struct buf own;
    enum err rc = shard_in_open(x->s, name.at, &in, eb);

    buf_init(&own, INDEX_MAX);
    if (rc == ERR_OK) {
        if (in.place.remote && shard_format_is_indexed(in.format))
            rc = shard_in_index(&in, x->form_name, a, &index, eb);
        else
            rc = index_of_file(x, &in, &own, eb);
        if (rc == ERR_OK && own.len > 0)
            index = buf_span(&own);
        shard_in_close(&in);
    }
    x->shards++;
    if (rc == ERR_OK)
        rc = index_take(x, name.at, index, eb);
    else
        err_prefix(eb, "\"%s\"", name.at);
    buf_fini(&own);
    arena_free(&a);
    return rc;
}

static enum exit_code
shard_index_act(struct session *s)
{
    const char *form = args_value(s->args, "format");
    struct indexing x = {.s = s, .form_name = form != NULL ? form : "wids"};
    json_t *doc;
    char *text;
    enum err rc = ERR_OK;

    x.base = args_value(s->args, "base");
    if (!shard_text_of(span_of(x.form_name), &x.form)) {
        err_set(&s->eb, ERR_BAD_REQUEST, "--format \"%s\": wids, dali or json",
                x.form_name);
        return cli_usage(&s->eb, s->args->verb);
    }
    x.list = json_array();
    for (size_t i = 0; rc == ERR_OK && i < s->args->count; i++)
        rc = names_expand(span_of(s->args->at[i]), index_shard, &x, &s->eb);
    if (rc == ERR_OK && x.form == SHARD_TEXT_WIDS) {
        doc = json_pack("{s:s, s:i, s:O}", "__kind__", "wids-shard-index-v1",
                        "wids_version", 1, "shardlist", x.list);
        text = json_dumps(doc, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
        printf("%s\n", text);
        free(text);
        json_decref(doc);
    }
    json_decref(x.list);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
shard_index_run(const struct args *a)
{
    return session_run(a, shard_index_act, NULL);
}
const struct cli_verb cli_shard_index = {&index_verb, shard_index_run};
