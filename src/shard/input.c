/* input: the bytes of an archive; see input.h. */
#include "shard/input.h"

#include <assert.h>

#include "base/mem.h"

#define READ_ARENA_BYTES (256u << 10) /* of one open read: metadata and names */

/* ---- memory ---- */

static enum err
memory_begin(struct shard_input *in, uint64_t first, uint64_t len, struct errbuf *eb)
{
    struct shard_memory *m = CONTAINER_OF(in, struct shard_memory, in);

    (void)eb;
    assert(first <= m->all.len);
    assert(len <= m->all.len - first);
    m->left = span_from(m->all, (size_t)first);
    m->left.len = (size_t)len;
    return ERR_OK;
}

static enum err
memory_next(struct shard_input *in, struct span *piece, struct errbuf *eb)
{
    struct shard_memory *m = CONTAINER_OF(in, struct shard_memory, in);

    (void)eb;
    *piece = m->left;
    piece->len = MIN(piece->len, KIB(64));
    m->left = span_from(m->left, piece->len);
    return ERR_OK;
}

void
shard_memory_init(struct shard_memory *m, struct span bytes)
{
    *m = (struct shard_memory){
        .in = {.size = bytes.len, .begin = memory_begin, .next = memory_next},
        .all = bytes};
}

/* ---- an object ---- */

/* Of a cached object the ETag counts: while it is fetched it has no version here, and its time may be rounded. */
void
shard_version_of(const struct object_info *info, bool cached, struct shard_version *out)
{
    *out = (struct shard_version){.size = info->size};
    memcpy(out->etag, info->etag, sizeof out->etag);
    if (!cached)
        out->version = info->version;
    else if (info->etag[0] == '\0')
        out->mtime_s = info->mtime_ms / 1000;
}

bool
shard_version_eq(const struct shard_version *a, const struct shard_version *b)
{
    return a->size == b->size && a->mtime_s == b->mtime_s &&
           a->version.null == b->version.null &&
           a->version.born.epoch == b->version.born.epoch &&
           a->version.born.counter == b->version.born.counter &&
           strncmp(a->etag, b->etag, sizeof a->etag) == 0;
}

/* Opens a read of the current version; `first`: it is the version from now on. */
static enum err
object_input_reopen(struct shard_object *o, bool first, struct errbuf *eb)
{
    struct shard_version now;
    enum err rc;

    object_get_end(&o->get);
    arena_reset(o->arena);
    o->chosen = false;
    rc = object_get_begin(o->service, o->bucket, o->key, o->arena, &o->info, &o->get, eb);
    if (rc != ERR_OK)
        return rc;
    shard_version_of(&o->info, o->bucket->cached, &now);
    if (first)
        o->version = now;
    else if (!shard_version_eq(&now, &o->version))
        return err_set(eb, ERR_NOT_FOUND,
                       "the shard \"%.*s\" was replaced while it was read",
                       (int)MIN(o->key.len, 200), o->key.at);
    return ERR_OK;
}

static enum err
object_input_begin(struct shard_input *in, uint64_t first, uint64_t len,
                   struct errbuf *eb)
{
    struct shard_object *o = CONTAINER_OF(in, struct shard_object, in);
    enum err rc = ERR_OK;

    assert(first <= o->in.size);
    assert(len <= o->in.size - first);
    if (o->chosen || o->get == NULL)
        rc = object_input_reopen(o, false, eb);
    if (rc != ERR_OK)
        return rc;
    o->chosen = true;
    return object_get_range(o->get, first, len, eb);
}

static enum err
object_input_next(struct shard_input *in, struct span *piece, struct errbuf *eb)
{
    struct shard_object *o = CONTAINER_OF(in, struct shard_object, in);

    assert(o->chosen);
    return object_get_next(o->get, DEADLINE_NEVER, piece, eb);
}

enum err
shard_object_open(struct shard_object *o, struct object_service *s,
                  const struct map_bucket *b, struct span key, struct errbuf *eb)
{
    enum err rc;

    *o = (struct shard_object){
        .in = {.begin = object_input_begin, .next = object_input_next},
        .service = s,
        .bucket = b,
        .key = key,
        .arena = arena_new(4096, READ_ARENA_BYTES)};
    rc = object_input_reopen(o, true, eb);
    if (rc != ERR_OK) {
        shard_object_close(o);
        return rc;
    }
    o->in.size = o->info.size;
    return ERR_OK;
}

void
shard_object_close(struct shard_object *o)
{
    object_get_end(&o->get);
    arena_free(&o->arena);
}
