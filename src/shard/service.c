/* service: open archives and their indexes, each built once for all readers of a loop; see member.h. */
#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "rt/loop.h"
#include "rt/point.h"
#include "shard/internal.h"

/* An index under construction: other readers of this loop wait for it. On the builder's stack. */
struct build {
    struct list node; /* in service->builds */
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

void
shard_stop(struct shard_service **sp)
{
    struct shard_service *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
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

/* Builds the index; readers of the same shard on this loop wait for it. */
static enum err
build_index(struct shard_service *s, const struct shard_ask *ask, struct shard_open *o,
            struct errbuf *eb)
{
    struct list *builds = &s->builds[rt_loop_index()];
    struct build mine = {.bucket = ask->bucket->id, .key = ask->key};
    enum err rc;

    assert(o->index == NULL);
    rt_cond_init(&mine.done);
    list_push_back(builds, &mine.node);
    rc = shard_index_build(&o->object.in, o->format, &o->index, eb);
    if (rc == ERR_OK)
        shard_cache_keep(s->cache, ask->bucket->id, ask->key, &o->object.version,
                         o->index);
    list_remove(&mine.node);
    rt_cond_broadcast(&mine.done);
    return rc;
}

static enum err
find_or_build_index(struct shard_service *s, const struct shard_ask *ask,
                    struct shard_open *o, struct errbuf *eb)
{
    struct list *builds = &s->builds[rt_loop_index()];

    for (;;) {
        struct build *other;
        enum err rc;

        o->index =
            shard_cache_find(s->cache, ask->bucket->id, ask->key, &o->object.version);
        if (o->index != NULL)
            return ERR_OK;
        other = build_find(builds, ask->bucket->id, ask->key);
        if (other == NULL)
            return build_index(s, ask, o, eb);
        rc = rt_cond_wait(&other->done, DEADLINE_NEVER);
        if (rc != ERR_OK)
            return err_set(eb, rc, "the index of the shard is being built");
    }
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
                 struct shard_index **out, struct errbuf *eb)
{
    struct shard_open o;
    enum err rc = shard_open_archive(s, ask, &o, eb);

    *out = NULL;
    if (rc != ERR_OK)
        return rc;
    assert(o.index != NULL);
    *out = o.index;
    o.index = NULL;
    shard_close_archive(&o);
    return ERR_OK;
}
