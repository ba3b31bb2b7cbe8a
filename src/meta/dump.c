#include "meta/dump.h"

#include <openssl/crypto.h>
#include <stdlib.h>

#include "base/mem.h"
#include "wire/record.h"

#define FILE_MAX     MIB(1)
#define DUMP_KIND    49
#define DUMP_VERSION 1
enum { F_KEY = 1, F_VALUE = 2 };

void
meta_dump_put(struct buf *out, struct span key, struct span value)
{
    struct record_writer w;

    record_begin(&w, out, DUMP_KIND, DUMP_VERSION);
    record_put_span(&w, F_KEY, key);
    record_put_span(&w, F_VALUE, value);
    record_end(&w);
}

enum err
meta_dump_file(struct buf *out, struct rt_dir *dir, const char *prefix, const char *name,
               struct errbuf *eb)
{
    char *bytes = NULL, *key;
    size_t len;
    enum err rc = rt_file_load(dir, name, FILE_MAX, &bytes, &len, eb);

    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    key = xasprintf("file:%s%s", prefix, name);
    meta_dump_put(out, span_of(key), (struct span){bytes, len});
    OPENSSL_cleanse(bytes, len);
    free(bytes);
    free(key);
    return ERR_OK;
}

struct dumping {
    struct buf *out;
    struct rt_dir *dir;
    const char *prefix;
    struct errbuf *eb;
    enum err rc;
};

static void
dump_one(const char *name, void *arg)
{
    struct dumping *d = arg;

    if (d->rc == ERR_OK)
        d->rc = meta_dump_file(d->out, d->dir, d->prefix, name, d->eb);
}

enum err
meta_dump_files(struct buf *out, struct rt_dir *dir, const char *prefix,
                struct errbuf *eb)
{
    struct dumping d = {.out = out, .dir = dir, .prefix = prefix, .eb = eb, .rc = ERR_OK};
    enum err rc = rt_dir_list(dir, dump_one, &d, eb);

    return rc == ERR_OK ? d.rc : rc;
}

enum err
meta_dump_next(struct span *dump, struct span *key, struct span *value, struct errbuf *eb)
{
    struct record r;
    enum err rc;

    if (dump->len == 0)
        return ERR_NOT_FOUND;
    rc = record_open(*dump, &r, eb);
    if (rc != ERR_OK)
        return rc;
    if (r.kind != DUMP_KIND || r.version != DUMP_VERSION)
        return err_set(eb, ERR_CORRUPT, "a record of kind %u, version %u; wanted %u, %u",
                       r.kind, r.version, DUMP_KIND, DUMP_VERSION);
    if (!record_find(&r, F_KEY, key) || !record_find(&r, F_VALUE, value) || key->len == 0)
        return err_set(eb, ERR_CORRUPT, "a record without key or value");
    *dump = span_from(*dump, r.len);
    return ERR_OK;
}
