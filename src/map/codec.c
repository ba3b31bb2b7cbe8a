#include "map/codec.h"

#include <stdlib.h>

#include "base/mem.h"
#include "wire/record.h"

/* docs/formats.md, section "bucket record". */
enum { KIND_BUCKET = 32, VERSION = 1 };
enum {
    F_ID = 1,
    F_NAME = 2,
    F_BIRTH_NAME = 3,
    F_CREATED_MS = 4,
    F_CACHED = 5,
    F_ENDPOINT = 16,
    F_REGION = 17,
    F_REMOTE = 18,
    F_CREDENTIALS = 19,
    F_PATH_STYLE = 20,
};

static void
put_text(struct record_writer *w, uint8_t id, const char *text)
{
    if (text != NULL)
        record_put_span(w, id, span_of(text));
}

void
map_bucket_encode(const struct map_bucket *b, struct buf *out)
{
    struct record_writer w;

    record_begin(&w, out, KIND_BUCKET, VERSION);
    record_put_u64(&w, F_ID, b->id);
    put_text(&w, F_NAME, b->name);
    put_text(&w, F_BIRTH_NAME, b->birth_name);
    record_put_u64(&w, F_CREATED_MS, (uint64_t)b->created_ms);
    if (b->cached) {
        record_put_u64(&w, F_CACHED, 1);
        put_text(&w, F_ENDPOINT, b->backend.endpoint);
        put_text(&w, F_REGION, b->backend.region);
        put_text(&w, F_REMOTE, b->backend.bucket);
        put_text(&w, F_CREDENTIALS, b->backend.credentials);
        record_put_u64(&w, F_PATH_STYLE, b->backend.path_style);
    }
    record_end(&w);
}

static char *
get_text(const struct record *r, uint8_t id)
{
    struct span s;

    return record_find(r, id, &s) ? xmemdup0(s.at, s.len) : NULL;
}

static enum err
get_u64(const struct record *r, uint8_t id, uint64_t *out)
{
    struct span s;

    *out = 0;
    return record_find(r, id, &s) ? record_u64(s, out) : ERR_OK;
}

enum err
map_bucket_decode(struct span bytes, struct map_bucket **out, struct errbuf *eb)
{
    struct record r;
    struct map_bucket *b;
    uint64_t created = 0, cached = 0, path_style = 0;
    enum err rc = record_open(bytes, &r, eb);

    *out = NULL;
    if (rc != ERR_OK)
        return rc;
    if (r.kind != KIND_BUCKET || r.version != VERSION)
        return err_set(
            eb, ERR_CORRUPT,
            "a bucket record of kind %u, version %u; this program reads %u, %u", r.kind,
            r.version, KIND_BUCKET, VERSION);
    b = xcalloc(1, sizeof *b);
    b->refs = 1;
    if (get_u64(&r, F_ID, &b->id) != ERR_OK ||
        get_u64(&r, F_CREATED_MS, &created) != ERR_OK ||
        get_u64(&r, F_CACHED, &cached) != ERR_OK ||
        get_u64(&r, F_PATH_STYLE, &path_style) != ERR_OK)
        rc = ERR_CORRUPT;
    b->created_ms = (int64_t)created;
    b->cached = cached != 0;
    b->name = get_text(&r, F_NAME);
    b->birth_name = get_text(&r, F_BIRTH_NAME);
    b->backend = (struct map_backend){
        .endpoint = get_text(&r, F_ENDPOINT),
        .region = get_text(&r, F_REGION),
        .bucket = get_text(&r, F_REMOTE),
        .credentials = get_text(&r, F_CREDENTIALS),
        .path_style = path_style != 0,
    };
    if (rc != ERR_OK || b->id == 0 || b->name == NULL || b->birth_name == NULL ||
        (b->cached && b->backend.bucket == NULL)) {
        map_bucket_drop((const struct map_bucket **)&b);
        return err_set(eb, ERR_CORRUPT,
                       "a bucket record lacks its id, its names or its remote");
    }
    *out = b;
    return ERR_OK;
}
