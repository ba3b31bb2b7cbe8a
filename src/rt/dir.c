/* dir: directories, and small files that are read or replaced as a whole (rt/file.h). */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rt/internal.h"

enum { LOAD_CHUNK = 64 << 10 };
static_assert(LOAD_CHUNK <= IOBUF_MAX, "one buffer");

/* ---- whole small files ---- */

static enum err
load_bytes(struct rt_file *f, char *to, size_t len, struct iobuf *b, struct errbuf *eb)
{
    size_t at = 0;

    while (at < len) {
        uint32_t n;
        enum err rc = rt_read(f, at, b, 0, (uint32_t)MIN(len - at, (size_t)LOAD_CHUNK),
                              RT_READ, DEADLINE_NEVER, &n, eb);

        if (rc != ERR_OK)
            return rc;
        if (n == 0)
            return err_set(eb, ERR_IO, "'%s' became shorter during the read", f->name);
        assert(n <= len - at);
        memcpy(to + at, b->at, n);
        at += n;
    }
    return ERR_OK;
}

enum err
rt_file_load(struct rt_dir *d, const char *name, uint32_t limit, char **out, size_t *len,
             struct errbuf *eb)
{
    struct rt_file *f = NULL;
    struct iobuf *b = NULL;
    char *bytes = NULL;
    uint64_t size = 0;
    enum err rc;

    assert(limit < UINT32_MAX); /* room for the NUL */
    *out = NULL;
    *len = 0;
    rc = rt_open(d, name, 0, 0, &f, eb);
    if (rc == ERR_OK)
        rc = rt_file_size(f, &size, eb);
    if (rc == ERR_OK && size > limit)
        rc = err_set(eb, ERR_TOO_LARGE, "'%s' has %" PRIu64 " bytes, at most %" PRIu32,
                     name, size, limit);
    if (rc == ERR_OK)
        rc = iobuf_get(LOAD_CHUNK, &b);
    if (rc == ERR_OK) {
        bytes = xcalloc(1, (size_t)size + 1);
        rc = load_bytes(f, bytes, (size_t)size, b, eb);
    }
    if (rc == ERR_OK) {
        *out = bytes;
        *len = (size_t)size;
    } else {
        free(bytes);
    }
    iobuf_drop(&b);
    rt_file_close(&f);
    return rc;
}

enum err
rt_private_load(const char *path, uint32_t limit, char **out, size_t *len,
                struct errbuf *eb)
{
    const char *name;
    struct rt_dir *dir = NULL;
    unsigned mode = 0;
    enum err rc = rt_dir_open_of(path, &dir, &name, eb);

    *out = NULL;
    *len = 0;
    if (rc == ERR_OK)
        rc = rt_dir_mode(dir, name, &mode, eb);
    if (rc == ERR_OK && (mode & 077) != 0)
        rc = err_set(eb, ERR_DENIED,
                     "\"%s\" can be read by other users; run chmod 600 on it", path);
    if (rc == ERR_OK)
        rc = rt_file_load(dir, name, limit, out, len, eb);
    rt_dir_close(&dir);
    return rc;
}

static enum err
store_bytes(struct rt_file *f, const char *from, size_t len, struct errbuf *eb)
{
    struct iobuf *b;
    enum err rc = iobuf_get(LOAD_CHUNK, &b);

    for (size_t at = 0; rc == ERR_OK && at < len;) {
        uint32_t n = (uint32_t)MIN(len - at, (size_t)LOAD_CHUNK);

        memcpy(b->at, from + at, n);
        rc = rt_write(f, at, b, 0, n, RT_WRITE, eb);
        at += n;
    }
    iobuf_drop(&b);
    return rc == ERR_OK ? rt_sync(f, eb) : rc;
}

/* After a failure the temporary file is removed; an error of that adds nothing. */
static void
remove_quietly(struct rt_dir *d, const char *name)
{
    struct rt_shield shield;

    rt_shield_begin(&shield);
    if (rt_dir_unlink(d, name, NULL) != ERR_OK)
        (void)0;
    rt_shield_end(&shield);
}

enum err
rt_file_store(struct rt_dir *d, const char *name, const void *data, size_t len,
              unsigned mode, struct errbuf *eb)
{
    struct rt_file *f = NULL;
    uint64_t random;
    char *temporary;
    enum err rc;

    rt_random(&random, sizeof random);
    temporary = xasprintf("%s.%016" PRIx64 ".tmp", name, random);
    rc = rt_open(d, temporary, RT_O_WRITE | RT_O_CREATE | RT_O_EXCL, mode, &f, eb);
    if (rc == ERR_OK) {
        rc = store_bytes(f, data, len, eb);
        rt_file_close(&f);
        if (rc == ERR_OK)
            rc = rt_dir_rename(d, temporary, name, eb);
        if (rc != ERR_OK)
            remove_quietly(d, temporary);
    }
    if (rc == ERR_OK)
        rc = rt_dir_sync(d, eb);
    free(temporary);
    return rc;
}

void
rt_random(void *out, size_t len)
{
    assert(out != NULL);
    rt_engine_ops()->random(out, len);
}

/* ---- directories ---- */

enum err
rt_dir_open(const char *path, struct rt_dir **out, struct errbuf *eb)
{
    *out = NULL;
    return rt_engine_ops()->dir_open(NULL, path, out, eb);
}

enum err
rt_dir_open_of(const char *path, struct rt_dir **out, const char **name,
               struct errbuf *eb)
{
    const char *slash = strrchr(path, '/');
    char *in =
        slash == NULL ? xstrdup(".") : xmemdup0(path, (size_t)MAX(slash - path, 1));
    enum err rc = rt_dir_open(in, out, eb);

    *name = slash == NULL ? path : slash + 1;
    free(in);
    return rc;
}

enum err
rt_dir_open_at(struct rt_dir *d, const char *name, struct rt_dir **out, struct errbuf *eb)
{
    enum err rc = observer_may_begin(d->observer, name, eb);

    *out = NULL;
    if (rc == ERR_OK)
        rc = rt_engine_ops()->dir_open(d, name, out, eb);
    if (rc == ERR_OK) {
        assert((*out)->observer == NULL);
        (*out)->observer = observer_ref(d->observer);
    }
    return rc;
}

void
rt_dir_close(struct rt_dir **dp)
{
    struct rt_dir *d = *dp;

    *dp = NULL;
    if (d == NULL)
        return;
    rt_observer_drop(&d->observer);
    rt_engine_ops()->dir_free(d);
}

const char *
rt_dir_path(const struct rt_dir *d)
{
    return d->path;
}

enum err
rt_dir_make(struct rt_dir *d, const char *name, unsigned mode, struct errbuf *eb)
{
    enum err rc = observer_may_begin(d->observer, name, eb);

    return rc == ERR_OK ? rt_engine_ops()->dir_make(d, name, mode, eb) : rc;
}

enum err
rt_dir_sync(struct rt_dir *d, struct errbuf *eb)
{
    enum err rc = observer_may_begin(d->observer, d->path, eb);

    return rc == ERR_OK ? rt_engine_ops()->dir_sync(d, eb) : rc;
}

enum err
rt_dir_list(struct rt_dir *d, void (*on_name)(const char *name, void *arg), void *arg,
            struct errbuf *eb)
{
    enum err rc = observer_may_begin(d->observer, d->path, eb);

    return rc == ERR_OK ? rt_engine_ops()->dir_list(d, on_name, arg, eb) : rc;
}

enum err
rt_dir_unlink(struct rt_dir *d, const char *name, struct errbuf *eb)
{
    enum err rc = observer_may_begin(d->observer, name, eb);

    return rc == ERR_OK ? rt_engine_ops()->dir_unlink(d, name, eb) : rc;
}

enum err
rt_dir_rename(struct rt_dir *d, const char *from, const char *to, struct errbuf *eb)
{
    enum err rc = observer_may_begin(d->observer, from, eb);

    return rc == ERR_OK ? rt_engine_ops()->dir_rename(d, from, to, eb) : rc;
}

enum err
rt_dir_mode(struct rt_dir *d, const char *name, unsigned *mode, struct errbuf *eb)
{
    enum err rc = observer_may_begin(d->observer, name, eb);

    *mode = 0;
    return rc == ERR_OK ? rt_engine_ops()->dir_mode(d, name, mode, eb) : rc;
}

enum err
rt_dir_space(struct rt_dir *d, struct rt_space *out, struct errbuf *eb)
{
    enum err rc = observer_may_begin(d->observer, d->path, eb);

    *out = (struct rt_space){0};
    return rc == ERR_OK ? rt_engine_ops()->dir_space(d, out, eb) : rc;
}

uint64_t
rt_dir_filesystem(const struct rt_dir *d)
{
    return d->filesystem;
}

enum err
rt_open(struct rt_dir *d, const char *name, unsigned flags, unsigned mode,
        struct rt_file **out, struct errbuf *eb)
{
    enum err rc = observer_may_begin(d->observer, name, eb);

    *out = NULL;
    if (rc == ERR_OK)
        rc = rt_engine_ops()->open_file(d, name, flags, mode, out, eb);
    if (rc == ERR_OK)
        (*out)->observer = observer_ref(d->observer);
    return rc;
}
