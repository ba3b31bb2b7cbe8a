/* service: open archives and their indexes, each built once for all readers of a loop; see member.h. */
#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "rt/loop.h"
#include "rt/point.h"
#include "shard/internal.h"

/* An index under construction, on the stack of its builder. Each shard has an owner loop, where its index is loaded or built: once,
 * whatever loops its readers are on. */
struct build {
    struct list node; /* in service->builds of the owner loop */
    uint64_t bucket;
    struct span key;
    struct rt_cond done;
};

struct shard_service *
shard_start(struct object_service *o, size_t cache_bytes)
{
    struct shard_service *s = xcalloc(1, sizeof *s);

    s->object = o;
    s->cache = shard_cache_new(cache_bytes);
    s->builds = xcalloc(rt_loop_count(), sizeof *s->builds);
    for (unsigned i = 0; i < rt_loop_count(); i++)
        list_init(&s->builds[i]);
    return s;
}

enum err
shard_keep_in(struct shard_service *s, struct rt_dir *dir, uint64_t limit,
              struct errbuf *eb)
{
    assert(s->files == NULL);
    return shard_files_open(dir, limit, &s->files, eb);
}

void
shard_forget(struct shard_service *s, uint64_t bucket, struct span key)
{
    if (s->files != NULL && shard_format_is_indexed(shard_format_of_name(key)))
        shard_files_drop(s->files, bucket, key);
}

void
shard_stop(struct shard_service **sp)
{
    struct shard_service *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    shard_files_close(&s->files);
    shard_cache_free(&s->cache);
    free(s->builds);
    free(s);
}

struct shard_cache *
shard_cache_of(struct shard_service *s)
{
    return s->cache;
}

static struct build *
build_find(struct list *builds, uint64_t bucket, struct span key)
{
    LIST_EACH(builds, n)
    {
        struct build *b = LIST_ENTRY(n, struct build, node);

        if (b->bucket == bucket && span_eq(b->key, key))
            return b;
    }
    return NULL;
}

/* A reader's question, answered on the owner loop. */
struct index_call {
    struct shard_service *s;
    const struct shard_ask *ask;
    enum shard_format format;
    const struct shard_version *version; /* that the reader has open */
    struct shard_object *open; /* on the reader's loop: its archive; else NULL */
    struct shard_index *index; /* the answer: one reference */
    enum err rc;
    struct errbuf *eb;
};

static bool
ask_is_kept(const struct shard_ask *ask)
{
    /* An archive by another format than that of its name is kept in memory only: shard_forget() knows the name alone. */
    return shard_format_is_indexed(shard_format_of_name(ask->key));
}

/* Reads the shard, in the version that the reader has. */
static enum err
scan_shard(struct index_call *c)
{
    struct shard_object own;
    enum err rc;

    if (c->open != NULL)
        return shard_index_build(&c->open->in, c->format, &c->index, c->eb);
    rc = shard_object_open(&own, c->s->object, c->ask->bucket, c->ask->key, c->eb);
    if (rc != ERR_OK)
        return rc;
    if (shard_version_eq(&own.version, c->version))
        rc = shard_index_build(&own.in, c->format, &c->index, c->eb);
    else
        rc = err_set(c->eb, ERR_NOT_FOUND, "the shard was replaced");
    shard_object_close(&own);
    return rc;
}

/* Loads or builds the index; other readers of the same shard wait for it. */
static enum err
build_index(struct index_call *c)
{
    struct list *builds = &c->s->builds[rt_loop_index()];
    uint64_t bucket = c->ask->bucket->id;
    struct build mine = {.bucket = bucket, .key = c->ask->key};
    bool keep = c->s->files != NULL && ask_is_kept(c->ask);
    enum err rc = ERR_OK;

    assert(c->index == NULL);
    assert(build_find(builds, bucket, c->ask->key) == NULL);
    rt_cond_init(&mine.done);
    list_push_back(builds, &mine.node);
    if (keep)
        c->index = shard_files_load(c->s->files, bucket, c->ask->key, c->version);
    if (c->index != NULL && c->index->format != c->format)
        shard_index_drop(&c->index);
    if (c->index != NULL)
        metric_add(M_SHARD_INDEXES, 0, 1);
    if (c->index == NULL) {
        metric_add(M_SHARD_INDEXES, 1, 1);
        rc = scan_shard(c);
        if (rc == ERR_OK && keep)
            shard_files_keep(c->s->files, bucket, c->ask->key, c->version, c->index);
    }
    assert((rc == ERR_OK) == (c->index != NULL));
    if (rc == ERR_OK)
        shard_cache_keep(c->s->cache, bucket, c->ask->key, c->version, c->index);
    list_remove(&mine.node);
    rt_cond_broadcast(&mine.done);
    return rc;
}

static void
index_call_run(void *arg)
{
    struct index_call *c = arg;
    struct list *builds = &c->s->builds[rt_loop_index()];
    uint64_t bucket = c->ask->bucket->id;

    for (;;) {
        struct build *other = build_find(builds, bucket, c->ask->key);

        c->index = shard_cache_find(c->s->cache, bucket, c->ask->key, c->version);
        c->rc = ERR_OK;
        if (c->index != NULL)
            return;
        if (other == NULL) {
            c->rc = build_index(c);
            return;
        }
        if (rt_cond_wait(&other->done, DEADLINE_NEVER) != ERR_OK) {
            c->rc =
                err_set(c->eb, ERR_CANCELLED, "the index of the shard is being built");
            return;
        }
    }
}

static enum err
find_or_build_index(struct shard_service *s, const struct shard_ask *ask,
                    struct shard_open *o, struct errbuf *eb)
{
    unsigned owner = (unsigned)(hash_xxh3(ask->key.at, ask->key.len, ask->bucket->id) %
                                rt_loop_count());
    struct index_call c = {
        .s = s, .ask = ask, .format = o->format, .version = &o->object.version, .eb = eb};
    enum err rc = ERR_OK;

    o->index = shard_cache_find(s->cache, ask->bucket->id, ask->key, &o->object.version);
    if (o->index != NULL)
        return ERR_OK;
    if (owner == rt_loop_index()) {
        c.open = &o->object;
        index_call_run(&c);
    } else {
        rc = rt_call_cancellable(owner, index_call_run, &c);
    }
    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber is free for the index of a shard");
    o->index = c.index;
    return c.rc;
}

static enum err
check_version(const struct shard_ask *ask, const struct shard_object *o,
              struct errbuf *eb)
{
    if (ask->version == NULL || shard_version_eq(&o->version, ask->version))
        return ERR_OK;
    return err_set(eb, ERR_NOT_FOUND, "the shard \"%.*s\" was replaced",
                   (int)MIN(ask->key.len, 200), ask->key.at);
}

enum err
shard_open_archive(struct shard_service *s, const struct shard_ask *ask,
                   struct shard_open *out, struct errbuf *eb)
{
    struct rt_retries retries;
    bool replaced;
    enum err rc;

    *out = (struct shard_open){.format = ask->format != SHARD_NONE
                                             ? ask->format
                                             : shard_format_of_name(ask->key)};
    if (out->format == SHARD_NONE)
        return err_set(eb, ERR_BAD_REQUEST,
                       "object \"%.*s\" is no archive by its name; its name must end in "
                       ".tar, .tgz, .tar.gz, .tar.lz4 or .zip",
                       (int)MIN(ask->key.len, 150), ask->key.at);
    rt_retries_begin(&retries);
    do {
        replaced = false;
        rc = shard_object_open(&out->object, s->object, ask->bucket, ask->key, eb);
        if (rc != ERR_OK)
            break;
        rc = check_version(ask, &out->object, eb);
        if (rc == ERR_OK && shard_format_is_indexed(out->format))
            rc = find_or_build_index(s, ask, out, eb);
        replaced = rc == ERR_NOT_FOUND && ask->version == NULL;
        if (rc != ERR_OK)
            shard_close_archive(out);
    } while (replaced && rt_retry());
    rt_retries_end(&retries);
    if (replaced)
        rc = ERR_BUSY;
    if (rc == ERR_BAD_REQUEST)
        err_prefix(eb, "archive \"%.*s\"", (int)MIN(ask->key.len, 150), ask->key.at);
    if (rc == ERR_OK)
        POINT(SHARD_OPENED);
    return rc;
}

void
shard_close_archive(struct shard_open *o)
{
    shard_index_drop(&o->index);
    shard_object_close(&o->object);
}

enum err
shard_index_open(struct shard_service *s, const struct shard_ask *ask,
                 struct shard_open **out, struct errbuf *eb)
{
    struct shard_open *o = xcalloc(1, sizeof *o);
    enum err rc = shard_open_archive(s, ask, o, eb);

    if (rc == ERR_OK && o->index == NULL)
        rc = err_set(
            eb, ERR_BAD_REQUEST,
            "members of a %s are not read one by one, so it has no index; tar and "
            "zip have",
            shard_format_extension(o->format) + 1);
    if (rc != ERR_OK)
        shard_index_close(&o);
    *out = o;
    return rc;
}

const struct shard_index *
shard_index_of(const struct shard_open *o)
{
    assert(o->index != NULL);
    return o->index;
}

const struct object_info *
shard_index_archive(const struct shard_open *o)
{
    return &o->object.info;
}

void
shard_index_close(struct shard_open **op)
{
    struct shard_open *o = *op;

    *op = NULL;
    if (o == NULL)
        return;
    shard_close_archive(o);
    free(o);
}
