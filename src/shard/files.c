/* files: indexes in a folder; see files.h. */
#include "shard/files.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/table.h"

#define FILE_ID    32u /* hex digits */
#define FILE_NAME_ (FILE_ID + 18u)
#define FILES_MAX  1000000u
#define TEMPORARY  "tmp-"

/* An index that is there. Its name is ID-SIZE, so that a listing says how large it is. */
struct index_file {
    struct list by_use; /* the most recently used first */
    char id[FILE_ID + 1];
    uint64_t size;
};

struct shard_files {
    struct rt_dir *dir; /* borrowed */
    uint64_t limit;
    _Atomic uint64_t next_temporary;
    struct lock lock; /* protects what follows */
    struct table by_id;
    struct list by_use;
    uint64_t bytes;
};

static void
make_file_id(uint64_t bucket, struct span key, char id[FILE_ID + 1])
{
    snprintf(id, FILE_ID + 1, "%016llx%016llx",
             (unsigned long long)hash_xxh3(key.at, key.len, bucket),
             (unsigned long long)hash_xxh3(key.at, key.len, ~bucket));
}

static void
make_file_name(const char *id, uint64_t size, char name[FILE_NAME_])
{
    snprintf(name, FILE_NAME_, "%s-%llx", id, (unsigned long long)size);
}

static void
remove_index_file(struct shard_files *f, const char *id, uint64_t size)
{
    char name[FILE_NAME_];
    struct errbuf eb = {{0}};
    enum err rc;

    make_file_name(id, size, name);
    rc = rt_dir_unlink(f->dir, name, &eb);
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        LOG(LOG_WARN, "shard.index_file", "an index of a shard could not be removed",
            L_TEXT("file", name), L_TEXT("why", eb.text));
}

/* ---- the table; all under the lock ---- */

static struct index_file *
forget_file(struct shard_files *f, const char *id)
{
    struct index_file *file;

    assert(lock_held(&f->lock));
    file = table_erase(&f->by_id, span_of(id));
    if (file == NULL)
        return NULL;
    assert(f->bytes >= file->size);
    f->bytes -= file->size;
    list_remove(&file->by_use);
    return file;
}

/* Notes a file; the one that it replaces, whose name differs, is returned. */
static struct index_file *
note_file(struct shard_files *f, const char *id, uint64_t size)
{
    struct index_file *file = xcalloc(1, sizeof *file), *old = forget_file(f, id);

    memcpy(file->id, id, sizeof file->id);
    file->size = size;
    if (!table_put(&f->by_id, span_of(file->id), file)) {
        assert(old == NULL);
        return file; /* too many: this one leaves at once */
    }
    list_push_front(&f->by_use, &file->by_use);
    f->bytes += size;
    if (old != NULL && old->size == size) {
        free(old);
        old = NULL;
    }
    return old;
}

/* The size of a file that is there. */
static bool
use_file(struct shard_files *f, const char *id, uint64_t *size)
{
    struct index_file *file;

    lock_acquire(&f->lock);
    file = table_get(&f->by_id, span_of(id));
    if (file != NULL) {
        list_remove(&file->by_use);
        list_push_front(&f->by_use, &file->by_use);
        *size = file->size;
    }
    lock_release(&f->lock);
    return file != NULL;
}

/* Down to the limit. May switch. */
static void
remove_unused(struct shard_files *f)
{
    for (;;) {
        struct index_file *file = NULL;

        lock_acquire(&f->lock);
        if (f->bytes > f->limit) {
            assert(!list_empty(&f->by_use));
            file =
                forget_file(f, LIST_ENTRY(f->by_use.prev, struct index_file, by_use)->id);
        }
        lock_release(&f->lock);
        if (file == NULL)
            return;
        remove_index_file(f, file->id, file->size);
        free(file);
    }
}

/* ---- open and close ---- */

struct index_names {
    struct shard_files *files;
    struct buf strange; /* names to remove, a NUL behind each */
};

static void
on_index_name(const char *name, void *arg)
{
    struct index_names *n = arg;
    struct index_file *old = NULL;
    char id[FILE_ID + 1];
    unsigned long long size = 0;
    int used = 0;

    if (strlen(name) > FILE_ID + 1 && name[FILE_ID] == '-' &&
        sscanf(name + FILE_ID + 1, "%16llx%n", &size, &used) == 1 &&
        name[FILE_ID + 1 + (size_t)used] == '\0' && size <= SHARD_CODE_MAX) {
        snprintf(id, sizeof id, "%.*s", (int)FILE_ID, name);
        lock_acquire(&n->files->lock);
        old = note_file(n->files, id, size);
        lock_release(&n->files->lock);
    } else {
        buf_put(&n->strange, name, strlen(name) + 1);
    }
    if (old != NULL) { /* two of one shard: a crash came between two steps */
        char other[FILE_NAME_];

        make_file_name(old->id, old->size, other);
        buf_put(&n->strange, other, strlen(other) + 1);
        free(old);
    }
}

enum err
shard_files_open(struct rt_dir *dir, uint64_t limit, struct shard_files **out,
                 struct errbuf *eb)
{
    struct shard_files *f = xcalloc(1, sizeof *f);
    struct index_names names = {.files = f};
    enum err rc;

    f->dir = dir;
    f->limit = limit;
    lock_init(&f->lock, LOCK_SHARD_FILES);
    table_init(&f->by_id, FILES_MAX);
    list_init(&f->by_use);
    buf_init(&names.strange, MIB(1));
    rc = rt_dir_list(dir, on_index_name, &names, eb);
    for (size_t at = 0; rc == ERR_OK && at < names.strange.len;) {
        const char *name = names.strange.at + at;

        rc = rt_dir_unlink(dir, name, eb);
        at += strlen(name) + 1;
    }
    buf_fini(&names.strange);
    if (rc != ERR_OK) {
        shard_files_close(&f);
        return rc;
    }
    remove_unused(f);
    *out = f;
    return ERR_OK;
}

void
shard_files_close(struct shard_files **fp)
{
    struct shard_files *f = *fp;

    *fp = NULL;
    if (f == NULL)
        return;
    LIST_EACH(&f->by_use, n)
    {
        free(LIST_ENTRY(n, struct index_file, by_use));
    }
    table_fini(&f->by_id);
    lock_fini(&f->lock);
    free(f);
}

void
shard_files_stats(struct shard_files *f, struct shard_files_stats *out)
{
    lock_acquire(&f->lock);
    *out = (struct shard_files_stats){.bytes = f->bytes, .count = f->by_id.count};
    lock_release(&f->lock);
}

/* ---- one index ---- */

void
shard_files_drop(struct shard_files *f, uint64_t bucket, struct span key)
{
    struct index_file *file;
    char id[FILE_ID + 1];

    make_file_id(bucket, key, id);
    lock_acquire(&f->lock);
    file = forget_file(f, id);
    lock_release(&f->lock);
    if (file == NULL)
        return;
    remove_index_file(f, file->id, file->size);
    free(file);
}

struct shard_index *
shard_files_load(struct shard_files *f, uint64_t bucket, struct span key,
                 const struct shard_version *v)
{
    struct shard_index *x = NULL;
    char id[FILE_ID + 1], name[FILE_NAME_];
    struct errbuf eb = {{0}};
    uint64_t size = 0;
    size_t len = 0;
    char *bytes = NULL;
    enum err rc;

    make_file_id(bucket, key, id);
    if (!use_file(f, id, &size))
        return NULL;
    make_file_name(id, size, name);
    rc = rt_file_load(f->dir, name, SHARD_CODE_MAX, &bytes, &len, &eb);
    if (rc == ERR_OK)
        rc = shard_index_parse((struct span){bytes, len}, bucket, key, v, &x, &eb);
    free(bytes);
    assert((rc == ERR_OK) == (x != NULL));
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        LOG(LOG_INFO, "shard.index_file", "an index of a shard is made again",
            L_TEXT("file", name), L_TEXT("why", eb.text));
    if (rc != ERR_OK)
        shard_files_drop(f, bucket, key);
    return x;
}

static enum err
write_index(struct rt_file *file, struct span bytes, struct errbuf *eb)
{
    struct iobuf *b = NULL;
    enum err rc = iobuf_get((uint32_t)MIN(bytes.len, (size_t)MIB(1)), &b);

    if (rc != ERR_OK)
        return err_set(eb, rc, "no buffer");
    for (size_t at = 0; rc == ERR_OK && at < bytes.len;) {
        uint32_t n = (uint32_t)MIN(bytes.len - at, (size_t)b->room);

        memcpy(b->at, bytes.at + at, n);
        rc = rt_write(file, at, b, 0, n, RT_BACKGROUND, eb);
        at += n;
    }
    iobuf_drop(&b);
    return rc;
}

/* Written beside, then renamed: a name always has all bytes, unless the power went. */
static enum err
put_index_file(struct shard_files *f, const char *name, struct span bytes,
               struct errbuf *eb)
{
    char temporary[sizeof TEMPORARY + 24];
    struct rt_file *file = NULL;
    enum err rc;

    snprintf(temporary, sizeof temporary, TEMPORARY "%llu",
             (unsigned long long)atomic_fetch_add(&f->next_temporary, 1));
    rc = rt_open(f->dir, temporary, RT_O_WRITE | RT_O_CREATE | RT_O_TRUNC, 0600, &file,
                 eb);
    if (rc == ERR_OK)
        rc = write_index(file, bytes, eb);
    rt_file_close(&file);
    if (rc == ERR_OK)
        rc = rt_dir_rename(f->dir, temporary, name, eb);
    if (rc != ERR_OK) {
        struct errbuf ignored = {{0}};

        (void)!rt_dir_unlink(f->dir, temporary, &ignored); /* the next start removes it */
    }
    return rc;
}

void
shard_files_keep(struct shard_files *f, uint64_t bucket, struct span key,
                 const struct shard_version *v, const struct shard_index *x)
{
    struct index_file *old = NULL;
    char id[FILE_ID + 1], name[FILE_NAME_];
    struct errbuf eb = {{0}};
    struct buf bytes;
    enum err rc;

    buf_init(&bytes, (size_t)MIN((uint64_t)SHARD_CODE_MAX, f->limit));
    shard_index_encode(x, bucket, key, v, &bytes);
    if (bytes.full) { /* a shard with millions of members is read again after a start */
        buf_fini(&bytes);
        return;
    }
    make_file_id(bucket, key, id);
    make_file_name(id, bytes.len, name);
    rc = put_index_file(f, name, buf_span(&bytes), &eb);
    if (rc == ERR_OK) {
        lock_acquire(&f->lock);
        old = note_file(f, id, bytes.len);
        lock_release(&f->lock);
    } else {
        LOG(LOG_WARN, "shard.index_file", "an index of a shard could not be kept",
            L_TEXT("file", name), L_TEXT("why", eb.text));
    }
    if (old != NULL)
        remove_index_file(f, old->id, old->size);
    free(old);
    buf_fini(&bytes);
    remove_unused(f);
}
