/* build: a new version of a shard; see build.h. */
#include "shard/build.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rt/point.h"
#include "shard/internal.h"
#include "wire/etag.h"

#define BUILD_ARENA_BYTES (512u << 10)

struct shard_build {
    struct shard_service *s;
    struct shard_ask ask;
    enum shard_format format;
    struct arena *arena, *of_object; /* owned */
    struct object_info old;          /* in `arena` */
    bool had;                        /* there was a shard, whose members were copied */
    struct object_condition condition;
    struct md5_etag etag;
    struct object_put *put; /* owned */
    struct shard_writer *writer;
};

static enum err
build_sink(void *arg, struct span bytes, struct errbuf *eb)
{
    struct shard_build *b = arg;

    return object_put_write(b->put, bytes.at, bytes.len, eb);
}

/* What the commit demands: the version whose members are copied, or none. */
static void
build_set_condition(struct shard_build *b)
{
    if (!b->had) {
        b->condition.disk.if_absent = true;
        b->condition.if_none_match = SPAN("*");
        return;
    }
    memcpy(b->etag.md5, b->old.meta.md5, sizeof b->etag.md5);
    b->etag.parts = b->old.meta.parts;
    b->condition.disk.if_exists = true;
    b->condition.disk.etags = &b->etag;
    b->condition.disk.etag_count = 1;
    b->condition.if_match = span_of(b->old.etag);
}

static enum err
build_find_old(struct shard_build *b, enum shard_build_how how, struct errbuf *eb)
{
    enum err rc;

    if (how == SHARD_BUILD_NEW)
        return ERR_OK;
    rc = object_head(b->s->object, b->ask.bucket, b->ask.key, b->arena, &b->old, eb);
    b->had = rc == ERR_OK;
    if (rc == ERR_NOT_FOUND && how == SHARD_BUILD_EITHER)
        rc = ERR_OK;
    if (rc == ERR_OK)
        build_set_condition(b);
    return rc;
}

static enum err
build_copy_member(struct shard_build *b, struct shard_scan *scan,
                  const struct shard_member *m, struct errbuf *eb)
{
    struct span piece = {"", 1};
    enum err rc = shard_build_member(b, m->name, m->size, m->mtime_s, eb);

    while (rc == ERR_OK && piece.len > 0) {
        rc = shard_scan_data(scan, &piece, eb);
        if (rc == ERR_OK)
            rc = shard_build_data(b, piece, eb);
    }
    return rc;
}

/* Another one replaced or deleted the shard while this one added to it. */
static enum err
build_lost_race(const struct shard_build *b, struct errbuf *eb)
{
    return err_set(eb, ERR_PRECONDITION,
                   "the shard \"%.*s\" was changed while members were added to it",
                   (int)MIN(b->ask.key.len, 200), b->ask.key.at);
}

/* The members that it has, in their order. ERR_PRECONDITION: they are another version's now. */
static enum err
build_copy_old(struct shard_build *b, struct errbuf *eb)
{
    struct shard_match *all = NULL;
    struct shard_scan *scan = NULL;
    struct shard_member m;
    struct shard_version old;
    struct shard_ask ask = b->ask;
    bool end = false;
    enum err rc = shard_match_new(SHARD_MATCH_PREFIX, SPAN(""), &all, eb);

    assert(b->had);
    shard_version_of(&b->old, b->ask.bucket->cached, &old);
    ask.version = &old;
    POINT(SHARD_FOUND);
    if (rc == ERR_OK)
        rc = shard_scan_open(b->s, &ask, all, &scan, eb);
    while (rc == ERR_OK) {
        rc = shard_scan_next(scan, &m, &end, eb);
        if (rc != ERR_OK || end)
            break;
        rc = build_copy_member(b, scan, &m, eb);
    }
    shard_scan_close(&scan);
    shard_match_free(&all);
    return rc == ERR_NOT_FOUND ? build_lost_race(b, eb) : rc;
}

enum err
shard_build_begin(struct shard_service *s, const struct shard_ask *ask,
                  enum shard_build_how how, struct shard_build **out, struct errbuf *eb)
{
    struct shard_build *b = xcalloc(1, sizeof *b);
    struct object_put_options o = {.size = OBJECT_SIZE_UNKNOWN};
    enum err rc = ERR_OK;

    b->s = s;
    b->ask = *ask;
    b->format = ask->format != SHARD_NONE ? ask->format : shard_format_of_name(ask->key);
    b->ask.format = b->format;
    b->arena = arena_new(4096, BUILD_ARENA_BYTES);
    b->of_object = arena_new(4096, BUILD_ARENA_BYTES);
    if (b->format == SHARD_NONE)
        rc = err_set(
            eb, ERR_BAD_REQUEST,
            "\"%.*s\" is no archive by its name; its name must end in .tar, .tgz, "
            ".tar.gz, .tar.lz4 or .zip",
            (int)MIN(ask->key.len, 150), ask->key.at);
    if (rc == ERR_OK)
        rc = build_find_old(b, how, eb);
    if (rc == ERR_OK && how != SHARD_BUILD_NEW)
        o.condition = &b->condition;
    if (rc == ERR_OK)
        rc = object_put_begin(s->object, ask->bucket, ask->key, &o, &b->put, eb);
    if (rc == ERR_OK)
        rc = shard_writer_new(b->format, (struct shard_sink){build_sink, b}, &b->writer,
                              eb);
    if (rc == ERR_OK && b->had)
        rc = build_copy_old(b, eb);
    if (rc != ERR_OK)
        shard_build_abort(&b);
    *out = b;
    return rc;
}

enum err
shard_build_member(struct shard_build *b, struct span name, uint64_t size,
                   int64_t mtime_s, struct errbuf *eb)
{
    if (name.len == 0 || name.len > TAR_PATH_MAX || !tar_path_safe(name))
        return err_set(eb, ERR_BAD_REQUEST,
                       "member \"%.*s\": not a name that an archive may hold: relative, "
                       "without \"..\" and \"//\", 1 to %u bytes of UTF-8",
                       (int)MIN(name.len, 100), name.at, TAR_PATH_MAX);
    return shard_writer_member(b->writer, name, size, mtime_s, eb);
}

enum err
shard_build_data(struct shard_build *b, struct span bytes, struct errbuf *eb)
{
    return shard_writer_data(b->writer, bytes, eb);
}

enum err
shard_build_object(struct shard_build *b, const struct map_bucket *bucket,
                   struct span key, struct span name, uint64_t *bytes, struct errbuf *eb)
{
    struct object_get *get = NULL;
    struct object_info info;
    struct span piece = {"", 0};
    enum err rc;

    arena_reset(b->of_object);
    rc = object_get_begin(b->s->object, bucket, key, b->of_object, &info, &get, eb);
    if (rc == ERR_OK)
        rc = object_get_range(get, 0, info.size, eb);
    if (rc == ERR_OK)
        rc = object_get_next(get, DEADLINE_NEVER, &piece, eb);
    if (rc == ERR_OK)
        rc = shard_build_member(b, name, info.size, info.mtime_ms / 1000, eb);
    if (rc != ERR_OK) { /* nothing of it is in the archive */
        object_get_end(&get);
        return rc;
    }
    while (rc == ERR_OK && piece.len > 0) {
        rc = shard_build_data(b, piece, eb);
        if (rc == ERR_OK)
            rc = object_get_next(get, DEADLINE_NEVER, &piece, eb);
    }
    if (rc == ERR_NOT_FOUND) /* a part of it is: the shard cannot be completed */
        rc = ERR_BUSY;
    if (rc == ERR_OK)
        *bytes += info.size;
    object_get_end(&get);
    return rc;
}

enum err
shard_build_commit(struct shard_build **bp, struct errbuf *eb)
{
    struct shard_build *b = *bp;
    struct object_meta meta = {0};
    struct object_info out;
    enum err rc = shard_writer_end(b->writer, eb);

    if (rc == ERR_OK && b->had) {
        meta = b->old.meta;
        meta.etag_text = meta.backend_version = (struct span){NULL, 0};
        meta.parts = 0;
    }
    if (rc == ERR_OK)
        rc = object_put_commit(&b->put, &meta, b->arena, &out, eb);
    if (rc == ERR_NOT_FOUND && b->had) /* it was deleted */
        rc = build_lost_race(b, eb);
    shard_build_abort(bp);
    return rc;
}

void
shard_build_abort(struct shard_build **bp)
{
    struct shard_build *b = *bp;

    *bp = NULL;
    if (b == NULL)
        return;
    shard_writer_free(&b->writer);
    object_put_abort(&b->put);
    arena_free(&b->of_object);
    arena_free(&b->arena);
    free(b);
}
