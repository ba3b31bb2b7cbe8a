/* promote: files of this machine become objects.
 *
 * Arguments: {"bucket": NAME, "source": PATH, "object": NAME, "recursive": 1, "overwrite": 1, "delete": 1}. The source lies in the folder
 * of the option ais.promote_dir, as an absolute path or below it; symbolic links are not followed. A file becomes the object "object",
 * or one of the file's name; the files of a folder become "object/NAME". Without "overwrite" an object that is there stays. A restart
 * begins again: with "delete" a file goes when its object is stored.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/names.h"
#include "rt/file.h"
#include "wire/json_get.h"

#define DEPTH_MAX   32u
#define FILES_MAX   1000000u /* of one folder */
#define NAMES_BYTES MIB(64)
#define PIECE_BYTES MIB(1)
#define ONE_ARENA   KIB(256)

struct promote_work {
    struct job *job;
    const struct map_bucket *bucket; /* one reference */
    bool recursive, overwrite, deletes;
};

/* The names in a folder, each with a NUL behind. */
struct promote_names {
    struct buf text;
    uint32_t count;
};

/* ---- the request ---- */

static enum err
promote_job_check(struct job_service *s, const json_t *args, struct span list,
                  struct buf *what, struct errbuf *eb)
{
    const char *bucket = json_get_text(args, "bucket", "");
    const char *source = json_get_text(args, "source", "");
    const struct map_bucket *b =
        map_bucket_find(map_now(s->options.map), span_of(bucket));

    assert(list.len == 0);
    if (b == NULL)
        return err_set(eb, ERR_NO_BUCKET, "there is no bucket \"%s\"", bucket);
    if (s->options.promote_dir == NULL)
        return err_set(eb, ERR_BAD_REQUEST,
                       "files are promoted from the folder ais.promote_dir, which is not "
                       "set");
    if (source[0] == '\0' || strlen(source) > NAMES_KEY_MAX ||
        strlen(json_get_text(args, "object", "")) > OBJECT_KEY_MAX)
        return err_set(eb, ERR_BAD_REQUEST,
                       "a promotion names its \"source\", of at most %u bytes, as an "
                       "\"object\" of at most %u",
                       NAMES_KEY_MAX, (unsigned)OBJECT_KEY_MAX);
    buf_printf(what, "%s to s3://%s/%s", source, bucket,
               json_get_text(args, "object", ""));
    return ERR_OK;
}

/* Below the folder: "a/b"; ".": the folder itself. */
static enum err
promote_inside(const struct job *j, const char **out, struct errbuf *eb)
{
    const char *dir = j->s->options.promote_dir,
               *at = json_get_text(j->args, "source", "");
    size_t len = strlen(dir);

    while (len > 1 && dir[len - 1] == '/')
        len--;
    if (at[0] == '/') {
        if (strncmp(at, dir, len) != 0 || (at[len] != '/' && at[len] != '\0'))
            return err_set(eb, ERR_BAD_REQUEST,
                           "\"%s\" is not in the folder of ais.promote_dir, \"%s\"", at,
                           dir);
        at += len;
    }
    while (*at == '/')
        at++;
    assert(at[0] != '/'); /* rt_dir_open_at() takes no absolute path */
    *out = *at != '\0' ? at : ".";
    return ERR_OK;
}

/* ---- one file ---- */

static enum err
promote_bytes(struct rt_file *f, uint64_t size, struct object_put *put, struct errbuf *eb)
{
    struct iobuf *b;
    uint64_t at = 0;
    enum err rc = iobuf_get(PIECE_BYTES, &b);

    if (rc != ERR_OK)
        return err_set(eb, rc, "no memory for a file now");
    assert(b->room >= PIECE_BYTES);
    while (rc == ERR_OK && at < size) {
        uint32_t n = 0;

        rc = rt_read(f, at, b, 0, (uint32_t)MIN(size - at, (uint64_t)PIECE_BYTES),
                     RT_BACKGROUND, DEADLINE_NEVER, &n, eb);
        if (rc == ERR_OK && n == 0)
            rc = err_set(eb, ERR_INCOMPLETE, "the file became shorter while it was read");
        if (rc == ERR_OK)
            rc = object_put_write(put, b->at, n, eb);
        at += n;
        assert(at <= size);
    }
    iobuf_drop(&b);
    return rc;
}

static enum err
promote_store(struct promote_work *w, struct rt_file *f, struct span name,
              struct arena *a, struct errbuf *eb)
{
    struct object_put_options o = {.size = 0};
    struct object_meta meta = {0};
    struct object_info out;
    struct object_put *put = NULL;
    enum err rc = rt_file_size(f, &o.size, eb);

    if (rc == ERR_OK)
        rc = object_put_begin(w->job->s->options.object, w->bucket, name, &o, &put, eb);
    if (rc == ERR_OK)
        rc = promote_bytes(f, o.size, put, eb);
    if (rc == ERR_OK)
        rc = object_put_commit(&put, &meta, a, &out, eb);
    object_put_abort(&put);
    assert(put == NULL);
    if (rc == ERR_OK)
        w->job->counts.bytes += o.size;
    return rc;
}

static bool
promote_is_there(struct promote_work *w, struct span name, struct arena *a)
{
    struct object_info info;
    struct errbuf eb = {{0}};

    return !w->overwrite && object_head(w->job->s->options.object, w->bucket, name, a,
                                        &info, &eb) == ERR_OK;
}

/* Counts what became of it. ERR_CANCELLED ends the job, another failure only this file. */
static enum err
promote_file(struct promote_work *w, struct rt_dir *d, const char *file, struct span name,
             struct errbuf *eb)
{
    struct job_counts *c = &w->job->counts;
    struct arena *a = arena_new(4096, ONE_ARENA);
    struct rt_file *f = NULL;
    struct errbuf why = {{0}};
    bool there = promote_is_there(w, name, a);
    enum err rc = name.len == 0 || name.len > OBJECT_KEY_MAX
                      ? err_set(&why, ERR_BAD_REQUEST, "its name is too long")
                      : ERR_OK;

    if (rc == ERR_OK && !there)
        rc = rt_open(d, file, 0, 0, &f, &why);
    if (rc == ERR_OK && !there)
        rc = promote_store(w, f, name, a, &why);
    assert(!there || f == NULL);
    rt_file_close(&f);
    if (rc == ERR_OK && !there && w->deletes)
        rc = rt_dir_unlink(d, file, &why);
    arena_free(&a);
    if (rt_cancelled() || w->job->s->stopping)
        return err_set(eb, ERR_CANCELLED, "the job was cancelled");
    w->job->changed = true;
    c->objects += rc == ERR_OK;
    c->present += rc == ERR_OK && there;
    if (rc != ERR_OK)
        job_add_error(w->job, name, &why);
    return ERR_OK;
}

/* ---- folders ---- */

static void
promote_add_name(const char *name, void *arg)
{
    struct promote_names *n = arg;

    if (n->count == FILES_MAX)
        n->text.full = true;
    buf_puts(&n->text, name);
    buf_putc(&n->text, '\0');
    n->count++;
}

static enum err promote_folder(struct promote_work *w, struct rt_dir *d,
                               const char *prefix, unsigned depth, struct errbuf *eb);

static enum err
promote_entry(struct promote_work *w, struct rt_dir *d, const char *prefix,
              const char *name, unsigned depth, struct errbuf *eb)
{
    char *object = xasprintf("%s%s%s", prefix, prefix[0] != '\0' ? "/" : "", name);
    struct rt_dir *below = NULL;
    struct errbuf unused = {{0}};
    enum err rc = ERR_OK;

    if (rt_dir_open_at(d, name, &below, &unused) != ERR_OK)
        rc = promote_file(w, d, name, span_of(object), eb);
    else if (w->recursive)
        rc = promote_folder(w, below, object, depth + 1, eb);
    rt_dir_close(&below);
    free(object);
    return rc;
}

static enum err
promote_folder(struct promote_work *w, struct rt_dir *d, const char *prefix,
               unsigned depth, struct errbuf *eb)
{
    struct promote_names n = {.count = 0};
    const char *at;
    enum err rc;

    if (depth > DEPTH_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "folders nest over %u deep", DEPTH_MAX);
    buf_init(&n.text, NAMES_BYTES);
    rc = rt_dir_list(d, promote_add_name, &n, eb);
    if (rc == ERR_OK && n.text.full)
        rc = err_set(eb, ERR_TOO_LARGE, "a folder has over %u names", FILES_MAX);
    at = n.text.at;
    for (uint32_t i = 0; rc == ERR_OK && i < n.count; i++) {
        rc = promote_entry(w, d, prefix, at, depth, eb);
        at += strlen(at) + 1;
    }
    buf_fini(&n.text);
    return rc;
}

/* The source is a folder, or a file in one. */
static enum err
promote_source(struct promote_work *w, struct rt_dir *top, const char *inside,
               const char *object, struct errbuf *eb)
{
    const char *slash = strrchr(inside, '/');
    const char *file = slash != NULL ? slash + 1 : inside;
    struct rt_dir *d = NULL;
    struct errbuf unused = {{0}};
    char *folder;
    enum err rc;

    if (rt_dir_open_at(top, inside, &d, &unused) == ERR_OK) {
        rc = promote_folder(w, d, object, 0, eb);
        rt_dir_close(&d);
        return rc;
    }
    folder = xasprintf("%.*s", slash != NULL ? (int)(slash - inside) : 1,
                       slash != NULL ? inside : ".");
    rc = rt_dir_open_at(top, folder, &d, eb);
    if (rc == ERR_OK)
        rc = promote_file(w, d, file, span_of(object[0] != '\0' ? object : file), eb);
    rt_dir_close(&d);
    free(folder);
    return rc;
}

static enum err
promote_job_run(struct job *j, struct errbuf *eb)
{
    struct promote_work w = {.job = j,
                             .recursive = json_get_u64(j->args, "recursive") > 0,
                             .overwrite = json_get_u64(j->args, "overwrite") > 0,
                             .deletes = json_get_u64(j->args, "delete") > 0};
    const char *name = json_get_text(j->args, "bucket", ""), *inside = ".";
    const struct map_bucket *b =
        map_bucket_find(map_now(j->s->options.map), span_of(name));
    struct rt_dir *top = NULL;
    enum err rc;

    if (b == NULL)
        return err_set(eb, ERR_NO_BUCKET, "there is no bucket \"%s\" any more", name);
    if (j->s->options.promote_dir == NULL)
        return err_set(eb, ERR_BAD_REQUEST, "ais.promote_dir is not set");
    assert(strlen(name) > 0);
    w.bucket = map_bucket_ref(b);
    memset(&j->counts, 0, sizeof j->counts);
    rc = promote_inside(j, &inside, eb);
    if (rc == ERR_OK)
        rc = rt_dir_open(j->s->options.promote_dir, &top, eb);
    if (rc == ERR_OK)
        rc = promote_source(&w, top, inside, json_get_text(j->args, "object", ""), eb);
    rt_dir_close(&top);
    map_bucket_drop(&w.bucket);
    return rc;
}

const struct job_kind job_promote = {
    .name = "promote", .check = promote_job_check, .run = promote_job_run};
