/* download: objects of a native bucket come from web servers, each from a URL.
 *
 * Arguments: {"bucket": NAME, "subdir": PREFIX, "parallel": N, "description": TEXT}, and a list: "URL NAME" or "URL", one a line, with
 * braces (wire/brace.h). Without a name the object gets the last element of the URL's path, behind `subdir`. An object that came from
 * this URL and is the same by ETag and size needs no work. Each group of names ends before the position moves behind it; a broken
 * transfer continues where it broke, in the same try (cloud.h).
 *
 * Where a URL may lead: to public addresses, unless the option ais.download_private allows all but link-local ones, so that a user
 * does not reach by this server what only this server can reach.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/uri.h"
#include "job/download_url.h"
#include "job/names.h"
#include "wire/json_get.h"

#define PARALLEL_DEFAULT 8u
#define PARALLEL_MAX     32u
#define ONE_ARENA        KIB(256)
#define COPY_BYTES       KIB(256)
#define META_URL         "source-url"
#define META_ETAG        "source-etag"

struct download_work;
struct download_one {
    struct download_work *work;
    char line[NAMES_KEY_MAX + 1]; /* "URL NAME" */
    uint64_t bytes;
    bool present;
    enum err rc;
    struct errbuf eb;
};
struct download_work {
    struct job *job;
    struct names names;
    const char *subdir;
    unsigned parallel;
    struct download_one *group; /* owned */
};

/* ---- the request ---- */

static enum err
download_job_check(struct job_service *s, const json_t *args, struct span list,
                   struct buf *what, struct errbuf *eb)
{
    static const struct job_arg known[] = {{"subdir", false, 0},
                                           {"parallel", true, PARALLEL_MAX},
                                           {"description", false, 0},
                                           {NULL, false, 0}};
    const struct map_bucket *b;
    enum err rc = names_check_any(s, "download", known, args, list, what, eb);

    if (rc != ERR_OK)
        return rc;
    if (list.len == 0)
        return err_set(eb, ERR_BAD_REQUEST, "a download has a list of URLs");
    b = map_bucket_find(map_now(s->options.map),
                        span_of(json_get_text(args, "bucket", "")));
    if (b == NULL || b->cached)
        return err_set(eb, ERR_BAD_REQUEST,
                       "downloads are kept in buckets of this server, not in attached "
                       "ones");
    if (json_get_text(args, "description", "")[0] != '\0')
        buf_printf(what, ": %s", json_get_text(args, "description", ""));
    return ERR_OK;
}

/* ---- one object ---- */

/* The web server as the remote of a bucket that no map knows: it lives for one download. */
static const struct map_bucket *
download_remote(struct span origin, bool private_ok)
{
    struct map_bucket *b = xcalloc(1, sizeof *b);

    *b = (struct map_bucket){
        .refs = 1,
        .provider = MAP_HTTP,
        .ns = xstrdup(""),
        .name = xstrdup("download"),
        .uname = xstrdup("download"),
        .immutable_name = xstrdup("download"),
        .cached = true,
        .backend = {.endpoint = xmemdup0(origin.at, origin.len),
                    .bucket = xstrdup(""),
                    .credentials = xstrdup(""),
                    .path_style = true,
                    .plain_http = true,
                    .network = private_ok ? MAP_NETWORK_ANY : MAP_NETWORK_PUBLIC}};
    return b;
}

static bool
download_has_pair(const struct object_meta *m, const char *name, struct span value)
{
    for (uint32_t i = 0; i < m->user_count; i++)
        if (span_is(m->user[i].name, name))
            return span_eq(m->user[i].value, value);
    return false;
}

/* What is there came from this URL, and the server says that it is still the same. */
static bool
download_is_there(struct download_one *o, struct span url, struct span name,
                  const struct s3_object_info *from, struct arena *a)
{
    struct download_work *w = o->work;
    struct object_info info;
    struct errbuf eb = {{0}};

    return from->etag.len > 0 &&
           object_head(w->job->s->options.object, w->names.bucket, name, a, &info, &eb) ==
               ERR_OK &&
           info.size == from->size && download_has_pair(&info.meta, META_URL, url) &&
           download_has_pair(&info.meta, META_ETAG, from->etag);
}

static enum err
download_body(struct download_one *o, struct cloud_get *get, struct object_put *put,
              uint64_t size)
{
    char *piece = xmalloc(COPY_BYTES);
    size_t n = 1;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && n > 0) {
        rc = cloud_get_read(get, piece, COPY_BYTES, &n, &o->eb);
        if (rc == ERR_OK && n > 0)
            rc = object_put_write(put, piece, n, &o->eb);
        if (rc == ERR_OK)
            o->bytes += n;
    }
    free(piece);
    assert(rc != ERR_OK || o->bytes == size); /* cloud_get_read() ends at the length */
    return rc;
}

static enum err
download_store(struct download_one *o, struct span url, struct span name,
               const struct s3_object_info *from, struct cloud_get *get, struct arena *a)
{
    struct download_work *w = o->work;
    struct object_put_options options = {.size = from->size};
    struct object_pair pairs[] = {{SPAN(META_URL), url}, {SPAN(META_ETAG), from->etag}};
    struct object_meta meta = {.user = pairs, .user_count = from->etag.len > 0 ? 2 : 1};
    struct object_info out;
    struct object_put *put = NULL;
    enum err rc = object_put_begin(w->job->s->options.object, w->names.bucket, name,
                                   &options, &put, &o->eb);

    if (rc == ERR_OK)
        rc = download_body(o, get, put, from->size);
    if (rc == ERR_OK)
        rc = object_put_commit(&put, &meta, a, &out, &o->eb);
    object_put_abort(&put);
    assert(put == NULL);
    return rc;
}

/* "SUBDIR/LAST" of the path, or the name that was given. */
static enum err
download_name(const struct download_one *o, const struct download_url *u,
              struct span path, struct arena *a, struct span *out, struct errbuf *eb)
{
    const char *subdir = o->work->subdir;
    size_t last = path.len;

    while (last > 0 && path.at[last - 1] != '/')
        last--;
    *out = u->name.len > 0     ? u->name
           : subdir[0] == '\0' ? span_from(path, last)
                               : span_of(arena_printf(a, "%s/%.*s", subdir,
                                                      SPAN_ARG(span_from(path, last))));
    return out->len > 0 && out->len <= OBJECT_KEY_MAX && last < path.len
               ? ERR_OK
               : err_set(eb, ERR_BAD_REQUEST,
                         "the URL's path ends in no name of 1 to %u bytes",
                         (unsigned)OBJECT_KEY_MAX);
}

static enum err
download_fetch(struct download_one *o, struct download_url *u, struct arena *a)
{
    struct job_service *s = o->work->job->s;
    const struct map_bucket *remote;
    struct s3_object_info from;
    struct cloud_get *get = NULL;
    char *decoded = arena_alloc(a, u->path.len + 1);
    int len = uri_decode(u->path, decoded);
    struct span name, path = {decoded, len > 0 ? (size_t)len : 0};
    enum err rc = len > 0 ? download_name(o, u, path, a, &name, &o->eb)
                          : err_set(&o->eb, ERR_BAD_REQUEST,
                                    "the URL has a '%%' without two hex digits");

    if (rc == ERR_OK)
        rc = download_url_check(u, s->options.download_private, &o->eb);
    if (rc != ERR_OK)
        return rc;
    assert(name.len > 0);
    assert(name.len <= OBJECT_KEY_MAX);
    remote = download_remote(u->origin, s->options.download_private);
    assert(remote->cached);
    rc = cloud_get_begin(s->options.cloud, remote, path, 0, UINT64_MAX, SPAN(""), a,
                         &from, &get, &o->eb);
    o->present = rc == ERR_OK && download_is_there(o, u->all, name, &from, a);
    if (rc == ERR_OK && !o->present)
        rc = download_store(o, u->all, name, &from, get, a);
    cloud_get_end(&get);
    map_bucket_drop(&remote);
    return rc;
}

static void
download_do_one(void *arg)
{
    struct download_one *o = arg;
    struct arena *a = arena_new(4096, ONE_ARENA);
    struct download_url u;

    o->eb.text[0] = '\0';
    o->bytes = 0;
    o->present = false;
    o->rc = download_url_split(o->line, &u, &o->eb);
    if (o->rc == ERR_OK)
        o->rc = download_fetch(o, &u, a);
    arena_free(&a);
}

/* ---- groups ---- */

static enum err
download_count_group(struct download_work *w, unsigned n, struct errbuf *eb)
{
    struct job_counts *c = &w->job->counts;

    assert(n <= w->parallel);
    if (rt_cancelled() || w->job->s->stopping)
        return err_set(eb, ERR_CANCELLED, "the job was cancelled");
    for (unsigned i = 0; i < n; i++) {
        struct download_one *o = &w->group[i];

        if (o->rc != ERR_OK) {
            job_add_error(w->job, span_of(o->line), &o->eb);
            continue;
        }
        c->objects++;
        c->present += o->present;
        c->bytes += o->bytes;
    }
    w->job->changed = true;
    return ERR_OK;
}

static enum err
download_do_group(struct download_work *w, unsigned n, struct errbuf *eb)
{
    struct rt_group group;

    rt_group_begin(&group);
    for (unsigned i = 0; i < n; i++) {
        w->group[i].work = w;
        if (rt_group_start(&group, download_do_one, &w->group[i]) != ERR_OK)
            download_do_one(&w->group[i]);
    }
    rt_group_join(&group);
    return download_count_group(w, n, eb);
}

static enum err
download_run_groups(struct download_work *w, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && !w->names.ended) {
        char number[24];
        unsigned n = 0;

        while (rc == ERR_OK && n < w->parallel && !w->names.ended) {
            rc = names_next(&w->names, w->group[n].line, eb);
            n += rc == ERR_OK && !w->names.ended;
        }
        if (rc == ERR_OK)
            rc = download_do_group(w, n, eb);
        snprintf(number, sizeof number, "%llu", (unsigned long long)w->names.number);
        if (rc == ERR_OK)
            job_set_position(w->job, span_of(number));
    }
    return rc;
}

static enum err
download_job_run(struct job *j, struct errbuf *eb)
{
    uint64_t parallel = json_get_u64(j->args, "parallel");
    struct download_work w = {.job = j,
                              .subdir = json_get_text(j->args, "subdir", ""),
                              .parallel =
                                  parallel > 0 ? (unsigned)parallel : PARALLEL_DEFAULT};
    enum err rc = names_open(&w.names, j, eb);

    assert(w.parallel <= PARALLEL_MAX);
    assert(j->s->options.cloud != NULL);
    w.group = xcalloc(w.parallel, sizeof *w.group);
    if (rc == ERR_OK)
        rc = download_run_groups(&w, eb);
    free(w.group);
    names_close(&w.names);
    return rc;
}

const struct job_kind job_download = {.name = "download",
                                      .takes_list = true,
                                      .check = download_job_check,
                                      .run = download_job_run};
