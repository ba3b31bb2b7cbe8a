#include "meta/dump.h"

#include "wire/record.h"

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
meta_dump_take(struct span *dump, struct span *key, struct span *value, struct errbuf *eb)
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
