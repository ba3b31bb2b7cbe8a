/* shard create, shard append: files become members of a shard, or objects of the server do, there. A shard is written beside its name
 * and takes it when it is whole; an object is replaced only if it is still the one that was read. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/table.h"
#include "cli/admin.h"
#include "cli/archive.h"
#include "cli/files.h"
#include "cli/jobs.h"
#include "cli/shard_in.h"
#include "shard/write.h"
#include "wire/json.h"

#define WRITE_PIECE   (256u << 10)
#define WRITE_BODY    MIB(9)
#define PUT_MOST      (5ull << 30)
#define WRITE_MEMBERS 4000000u

#define WRITE_FLAGS                                                                      \
    {"base-names", 0, NULL, "name members without their folders", false}, SESSION_FLAGS, \
    {                                                                                    \
        NULL, 0, NULL, NULL, false                                                       \
    }
static const struct flag create_flags[] = {
    {"overwrite", 0, NULL, "replace a shard that exists", false}, WRITE_FLAGS};
static const struct flag append_flags[] = {WRITE_FLAGS};
static const char *const create_examples[] = {
    "forebay shard create s3://train/a-000000.tar samples/",
    "forebay shard create a.tgz 1.jpg 1.cls",
    "forebay shard create s3://train/all.tar 's3://train/img/{000..999}.jpg'", NULL};
static const char *const append_examples[] = {
    "forebay shard append s3://train/a-000000.tar more/", NULL};
static const struct verb create_verb = {
    .name = "shard create",
    .summary = "make a shard of files, or of objects of its server",
    .arguments = "SHARD FILE|FOLDER|s3://BUCKET/NAMES...",
    .least = 2,
    .most = 100000,
    .examples = create_examples,
    .flags = create_flags,
    .more =
        "SHARD is s3://BUCKET/KEY or a file; its name chooses the format: .tar, .tgz, "
        ".tar.gz, .tar.lz4, .zip. Of a folder every file\nbecomes a member, named from "
        "the folder on. Objects are joined by a job of the server, which needs no "
        "transfer.",
};
static const struct verb append_verb = {
    .name = "shard append",
    .summary = "add files, or objects of its server, to a shard",
    .arguments = "SHARD FILE|FOLDER|s3://BUCKET/NAMES...",
    .least = 2,
    .most = 100000,
    .examples = append_examples,
    .flags = append_flags,
    .more =
        "The shard is read and written once as a whole. It fails when the shard changes "
        "meanwhile, or has a member of that name.",
};

struct writing {
    struct session *s;
    bool append;
    struct place place;
    struct archive_out out;
    struct shard_writer *writer;
    struct table names; /* owned keys: of the members so far */
    uint64_t members, bytes;
};

/* ---- members ---- */

static enum err
write_sink(void *arg, struct span bytes, struct errbuf *eb)
{
    struct writing *w = arg;

    return archive_put(&w->out, bytes, eb);
}

static enum err
note_name(struct writing *w, struct span name, struct errbuf *eb)
{
    char *key;

    if (name.len == 0 || name.len > TAR_PATH_MAX || !tar_path_safe(name))
        return err_set(
            eb, ERR_BAD_REQUEST,
            "\"%.*s\" is no name for a member: relative, without \"..\", UTF-8, "
            "at most %u bytes",
            (int)MIN(name.len, 200), name.at, TAR_PATH_MAX);
    if (table_get(&w->names, name) != NULL)
        return err_set(eb, ERR_EXISTS, "there are two members \"%.*s\"",
                       (int)MIN(name.len, 200), name.at);
    key = xmemdup0(name.at, name.len);
    if (table_put(&w->names, (struct span){key, name.len}, key))
        return ERR_OK;
    free(key);
    return err_set(eb, ERR_TOO_LARGE, "a shard has at most %u members", WRITE_MEMBERS);
}

static enum err
write_old(struct writing *w, struct shard_in *old, struct errbuf *eb)
{
    struct shard_walk *walk;
    struct shard_member m;
    bool end = false;
    enum err rc = shard_walk_open(&old->in, old->format, &walk, eb);

    while (rc == ERR_OK) {
        struct span piece = {"", 1};

        rc = shard_walk_next(walk, &m, &end, eb);
        if (rc != ERR_OK || end)
            break;
        if (table_get(&w->names, m.name) ==
            NULL) /* it may have two of one name already */
            rc = note_name(w, m.name, eb);
        if (rc == ERR_OK)
            rc = shard_writer_member(w->writer, m.name, m.size, m.mtime_s, eb);
        while (rc == ERR_OK && piece.len > 0) {
            rc = shard_walk_data(walk, &piece, eb);
            if (rc == ERR_OK && piece.len > 0)
                rc = shard_writer_data(w->writer, piece, eb);
        }
    }
    shard_walk_close(&walk);
    return rc;
}

static enum err
write_bytes(struct writing *w, struct files_file *f, struct errbuf *eb)
{
    char *room = xmalloc(WRITE_PIECE);
    enum err rc = ERR_OK;

    for (uint64_t at = 0; rc == ERR_OK && at < f->size;) {
        size_t n = 0, want = (size_t)MIN(f->size - at, (uint64_t)WRITE_PIECE);

        rc = files_read(f, at, room, want, &n, eb);
        if (rc == ERR_OK && n < want)
            rc = err_set(eb, ERR_INCOMPLETE, "it became shorter while it was read");
        if (rc == ERR_OK)
            rc = shard_writer_data(w->writer, (struct span){room, n}, eb);
        at += n;
    }
    free(room);
    return rc == ERR_OK ? files_unchanged(f, eb) : rc;
}

static enum err
write_file(struct writing *w, const char *path, struct span name, struct errbuf *eb)
{
    const char *slash = strrchr(name.at, '/');
    struct files_file f = {.fd = -1};
    enum err rc = files_open(path, &f, eb);

    if (slash != NULL && args_has(w->s->args, "base-names"))
        name = span_of(slash + 1);
    if (rc == ERR_OK)
        rc = note_name(w, name, eb);
    if (rc == ERR_OK)
        rc = shard_writer_member(w->writer, name, f.size, f.mtime_ns / 1000000000, eb);
    if (rc == ERR_OK)
        rc = write_bytes(w, &f, eb);
    w->members += rc == ERR_OK;
    w->bytes += rc == ERR_OK ? f.size : 0;
    files_close(&f);
    if (rc != ERR_OK)
        err_prefix(eb, "\"%s\"", path);
    if (rc == ERR_OK && rt_cancelled())
        rc = err_set(eb, ERR_CANCELLED, "interrupted");
    return rc;
}

static enum err
write_files(struct writing *w, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    for (size_t i = 1; rc == ERR_OK && i < w->s->args->count; i++) {
        const char *path = w->s->args->at[i];
        struct local_list list = {0};

        rc = local_walk(path, &list, eb);
        for (size_t k = 0; rc == ERR_OK && k < list.count; k++)
            rc = write_file(w, list.at[k].path, span_of(list.at[k].name), eb);
        local_list_fini(&list);
    }
    return rc;
}

/* ---- the shard ---- */

static enum err
write_archive(struct writing *w, struct shard_in *old, const char *path,
              enum shard_format format, struct errbuf *eb)
{
    enum err rc = archive_out_open(&w->out, path, eb);

    if (rc != ERR_OK)
        return rc;
    rc = shard_writer_new(format, (struct shard_sink){write_sink, w}, &w->writer, eb);
    if (rc == ERR_OK && old != NULL)
        rc = write_old(w, old, eb);
    if (rc == ERR_OK)
        rc = write_files(w, eb);
    if (rc == ERR_OK)
        rc = shard_writer_end(w->writer, eb);
    if (rc == ERR_OK)
        rc = archive_keep(&w->out, eb);
    shard_writer_free(&w->writer);
    archive_out_close(&w->out);
    return rc;
}

static enum err
put_archive(struct writing *w, const char *path, const char *old_etag, struct errbuf *eb)
{
    struct files_file f = {.fd = -1};
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_header headers[1];
    struct s3_put put = {
        .bucket = w->place.bucket, .key = w->place.key, .headers = headers};
    struct s3_call *call = NULL;
    struct s3_failure failure = {0};
    char *room = xmalloc(WRITE_PIECE);
    struct span etag;
    enum err rc = files_open(path, &f, eb);

    if (old_etag != NULL)
        headers[put.header_count++] = (struct s3_header){
            SPAN("if-match"), span_of(arena_printf(a, "\"%s\"", old_etag))};
    else if (!args_has(w->s->args, "overwrite"))
        headers[put.header_count++] =
            (struct s3_header){SPAN("if-none-match"), SPAN("*")};
    put.size = f.size;
    if (rc == ERR_OK && f.size > PUT_MOST)
        rc = err_set(eb, ERR_TOO_LARGE,
                     "the shard has %llu bytes, 5 GiB are possible here; make it a file, "
                     "then forebay put it",
                     (unsigned long long)f.size);
    if (rc == ERR_OK)
        rc = s3_put_begin(w->s->s3, &put, &call, eb);
    for (uint64_t at = 0; rc == ERR_OK && at < f.size;) {
        size_t n = 0;

        rc = files_read(&f, at, room, WRITE_PIECE, &n, eb);
        if (rc == ERR_OK)
            rc = s3_write(call, room, n, eb);
        at += n;
    }
    if (rc == ERR_OK)
        rc = s3_put_finish(call, a, &etag, &failure, eb);
    s3_end(&call);
    if (rc == ERR_PRECONDITION)
        rc = old_etag != NULL
                 ? err_set(eb, ERR_BUSY, "\"%s\" changed meanwhile; try again",
                           w->place.text)
                 : err_set(
                       eb, ERR_EXISTS,
                       "\"%s\" exists; --overwrite replaces it, shard append adds to it",
                       w->place.text);
    files_close(&f);
    free(room);
    arena_free(&a);
    return rc;
}

/* Built in a folder of its own, then sent. */
static enum err
write_remote(struct writing *w, struct shard_in *old, enum shard_format format,
             struct errbuf *eb)
{
    const char *tmp = getenv("TMPDIR");
    char *folder = xasprintf("%s/forebay-shard-XXXXXX", tmp != NULL ? tmp : "/tmp");
    char *path;
    struct errbuf ignored = {{0}};
    enum err rc;

    if (mkdtemp(folder) == NULL) {
        rc = err_set(eb, ERR_IO, "no folder can be made for \"%s\"; set TMPDIR", folder);
        free(folder);
        return rc;
    }
    path = xasprintf("%s/shard", folder);
    rc = write_archive(w, old, path, format, eb);
    if (rc == ERR_OK)
        rc = put_archive(w, path, old != NULL ? old->etag : NULL, eb);
    (void)!files_remove(path, &ignored); /* an error came before there was one */
    rmdir(folder);
    free(path);
    free(folder);
    return rc;
}

static enum err
write_shard(struct writing *w, struct errbuf *eb)
{
    const char *text = w->s->args->at[0];
    enum shard_format format =
        shard_format_of_name(w->place.remote ? w->place.key : span_of(text));
    struct shard_in old;
    enum err rc = ERR_OK;

    if (format == SHARD_NONE)
        return err_set(
            eb, ERR_BAD_REQUEST,
            "\"%s\" is no name of a shard: .tar, .tgz, .tar.gz, .tar.lz4 or .zip "
            "at its end",
            text);
    if (w->append)
        rc = shard_in_open(w->s, text, &old, eb);
    else if (!w->place.remote && local_exists(text) && !args_has(w->s->args, "overwrite"))
        rc = err_set(eb, ERR_EXISTS,
                     "\"%s\" exists; --overwrite replaces it, shard append adds to it",
                     text);
    if (rc != ERR_OK)
        return rc;
    rc = w->place.remote ? write_remote(w, w->append ? &old : NULL, format, eb)
                         : write_archive(w, w->append ? &old : NULL, text, format, eb);
    if (w->append)
        shard_in_close(&old);
    return rc;
}

/* ---- objects: a job of the server ---- */

static enum err
put_sources(struct writing *w, struct json *j, struct buf *names, struct errbuf *eb)
{
    struct span bucket = {NULL, 0};
    enum err rc = ERR_OK;

    for (size_t i = 1; rc == ERR_OK && i < w->s->args->count; i++) {
        struct place p;

        rc = place_remote(w->s->args->at[i], true, &p, eb);
        if (rc == ERR_OK && bucket.at != NULL && !span_eq(bucket, p.bucket))
            rc = err_set(eb, ERR_BAD_REQUEST,
                         "the objects lie in one bucket, or in files");
        if (rc != ERR_OK)
            return rc;
        bucket = p.bucket;
        buf_put_span(names, p.key);
        buf_putc(names, '\n');
    }
    json_span(j, "bucket", bucket);
    return names->full ? err_set(eb, ERR_TOO_LARGE, "the names are over 8 MiB") : rc;
}

static enum exit_code
write_by_job(struct writing *w)
{
    struct arena *a = arena_new(KIB(64), MIB(1));
    struct s3_request r = {.method = "POST", .path = SPAN("/_/jobs")};
    enum exit_code code = EXIT_OK_;
    struct session *s = w->s;
    struct buf body, names;
    struct span answer;
    json_t *job = NULL;
    struct s3_object_info info;
    struct s3_failure f;
    struct json j;
    enum err rc = ERR_OK;

    buf_init(&body, WRITE_BODY);
    buf_init(&names, MIB(8));
    if (!w->append && !args_has(s->args, "overwrite")) {
        rc = s3_head(s->s3, w->place.bucket, w->place.key, a, &info, &f, &s->eb);
        rc = rc == ERR_OK
                 ? err_set(&s->eb, ERR_EXISTS,
                           "\"%s\" exists; --overwrite replaces it, shard append "
                           "adds to it",
                           w->place.text)
             : rc == ERR_NOT_FOUND ? ERR_OK
                                   : rc;
    }
    json_begin(&j, &body);
    json_open_object(&j, NULL);
    json_text(&j, "kind", "archive");
    json_open_object(&j, "args");
    if (rc == ERR_OK)
        rc = put_sources(w, &j, &names, &s->eb);
    json_span(&j, "to", w->place.bucket);
    json_span(&j, "shard", w->place.key);
    json_u64(&j, "append", w->append);
    json_u64(&j, "base_names", args_has(s->args, "base-names"));
    json_end(&j);
    json_span(&j, "list", buf_span(&names));
    json_end(&j);
    r.body = buf_span(&body);
    if (rc == ERR_OK)
        rc = admin_call(s, &r, a, &answer);
    if (rc == ERR_OK)
        rc = jobs_parse(s, answer, &job);
    if (rc == ERR_OK)
        code = jobs_watch(s, job);
    json_decref(job);
    buf_fini(&names);
    buf_fini(&body);
    arena_free(&a);
    return rc == ERR_OK ? code : session_fail(s, rc);
}

/* ---- the verbs ---- */

static void
write_tell(const struct writing *w)
{
    char size[NUM_SIZE_TEXT];

    if (w->s->json)
        printf("{\"members\":%" PRIu64 ",\"bytes\":%" PRIu64 "}\n", w->members, w->bytes);
    else if (!w->s->quiet)
        fprintf(stderr, "%" PRIu64 " members, %s\n", w->members,
                session_size(w->s, w->bytes, size));
}

static enum exit_code
shard_write_act(struct session *s)
{
    struct writing w = {.s = s, .append = s->args->verb == &append_verb};
    struct place first;
    enum err rc = place_parse(s->args->at[0], &w.place, &s->eb);

    if (rc == ERR_OK)
        rc = place_parse(s->args->at[1], &first, &s->eb);
    if (rc == ERR_OK && first.remote && !w.place.remote)
        rc = err_set(&s->eb, ERR_BAD_REQUEST,
                     "objects become a shard at their server: s3://BUCKET/KEY instead of "
                     "\"%s\"",
                     s->args->at[0]);
    if (rc == ERR_OK && first.remote)
        return write_by_job(&w);
    table_init(&w.names, WRITE_MEMBERS);
    if (rc == ERR_OK)
        rc = write_shard(&w, &s->eb);
    TABLE_EACH(&w.names, slot)
    {
        free(slot->value);
    }
    table_fini(&w.names);
    if (rc != ERR_OK)
        return session_fail(s, rc);
    write_tell(&w);
    return EXIT_OK_;
}

static enum exit_code
shard_write_run(const struct args *a)
{
    return session_run(a, shard_write_act, NULL);
}
const struct cli_verb cli_shard_create = {&create_verb, shard_write_run};
const struct cli_verb cli_shard_append = {&append_verb, shard_write_run};
