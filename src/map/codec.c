#include "map/codec.h"

#include <stdlib.h>
#include <string.h>

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
    F_COPIES = 6,
    F_VERSIONING = 7,
    F_ANONYMOUS_READ = 8,
    F_CORS = 9,
    F_TAGS = 10,
    F_MIN_COPIES = 11,
    F_QUOTA_BYTES = 12,
    F_QUOTA_OBJECTS = 13,
    F_CACHE_BUDGET = 14,
    F_TTL_MS = 15,
    F_ENDPOINT = 16,
    F_REGION = 17,
    F_REMOTE = 18,
    F_CREDENTIALS = 19,
    F_PATH_STYLE = 20,
    F_FAIL_STALE = 21,
    F_PIN = 22,
    F_PLAIN_HTTP = 24,
    F_REQUESTER_PAYS = 25,
    F_NETWORK = 26,
};

static void
put_text(struct record_writer *w, uint8_t id, const char *text)
{
    if (text != NULL)
        record_put_span(w, id, span_of(text));
}

/* Zero is what an absent number reads as. */
static void
put_number(struct record_writer *w, uint8_t id, uint64_t n)
{
    if (n != 0)
        record_put_u64(w, id, n);
}

void
map_bucket_encode(const struct map_bucket *b, struct buf *out)
{
    struct record_writer w;

    record_begin(&w, out, KIND_BUCKET, VERSION);
    record_put_u64(&w, F_ID, b->id);
    put_text(&w, F_NAME, b->name);
    put_text(&w, F_BIRTH_NAME, b->immutable_name);
    record_put_u64(&w, F_CREATED_MS, (uint64_t)b->created_ms);
    if (b->cached)
        record_put_u64(&w, F_CACHED, 1);
    put_number(&w, F_COPIES, b->copies);
    put_number(&w, F_VERSIONING, b->versioning);
    put_number(&w, F_ANONYMOUS_READ, b->anonymous_read);
    put_text(&w, F_CORS, b->cors);
    put_text(&w, F_TAGS, b->tags);
    put_number(&w, F_MIN_COPIES, b->min_copies);
    put_number(&w, F_QUOTA_BYTES, b->quota_bytes);
    put_number(&w, F_QUOTA_OBJECTS, b->quota_objects);
    put_number(&w, F_CACHE_BUDGET, b->cache_budget);
    put_number(&w, F_TTL_MS, b->ttl_ms);
    if (b->cached) {
        put_text(&w, F_ENDPOINT, b->backend.endpoint);
        put_text(&w, F_REGION, b->backend.region);
        put_text(&w, F_REMOTE, b->backend.bucket);
        put_text(&w, F_CREDENTIALS, b->backend.credentials);
        record_put_u64(&w, F_PATH_STYLE, b->backend.path_style);
    }
    put_number(&w, F_FAIL_STALE, b->fail_stale);
    for (unsigned i = 0; i < b->pin_count; i++)
        put_text(&w, F_PIN, b->pins[i]);
    if (b->cached) { /* fields stand in the order of their numbers */
        put_number(&w, F_PLAIN_HTTP, b->backend.plain_http);
        put_number(&w, F_REQUESTER_PAYS, b->backend.requester_pays);
        put_number(&w, F_NETWORK, b->backend.network);
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

static enum err
get_pins(struct record *r, struct map_bucket *b)
{
    struct span field;
    size_t bytes = 0;
    uint8_t id;

    while (record_next(r, &id, &field)) {
        if (id != F_PIN)
            continue;
        bytes += field.len;
        if (b->pin_count == MAP_PINS_MAX || bytes > MAP_PIN_BYTES ||
            memchr(field.at, '\0', field.len) != NULL)
            return ERR_CORRUPT;
        if (b->pins == NULL)
            b->pins = xcalloc(MAP_PINS_MAX, sizeof *b->pins);
        b->pins[b->pin_count++] = xmemdup0(field.at, field.len);
    }
    return ERR_OK;
}

/* ERR_CORRUPT when a setting has a value that nobody wrote. */
static enum err
get_settings(const struct record *r, struct map_bucket *b)
{
    uint64_t copies, min_copies, versioning, anonymous_read, fail_stale;

    b->cors = get_text(r, F_CORS);
    b->tags = get_text(r, F_TAGS);
    if (get_u64(r, F_COPIES, &copies) != ERR_OK || copies > UINT16_MAX ||
        get_u64(r, F_MIN_COPIES, &min_copies) != ERR_OK || min_copies > MAX(copies, 1u) ||
        get_u64(r, F_VERSIONING, &versioning) != ERR_OK || versioning > MAP_SUSPENDED ||
        get_u64(r, F_ANONYMOUS_READ, &anonymous_read) != ERR_OK || anonymous_read > 1 ||
        get_u64(r, F_QUOTA_BYTES, &b->quota_bytes) != ERR_OK ||
        get_u64(r, F_QUOTA_OBJECTS, &b->quota_objects) != ERR_OK ||
        get_u64(r, F_CACHE_BUDGET, &b->cache_budget) != ERR_OK ||
        get_u64(r, F_TTL_MS, &b->ttl_ms) != ERR_OK ||
        get_u64(r, F_FAIL_STALE, &fail_stale) != ERR_OK || fail_stale > 1)
        return ERR_CORRUPT;
    b->copies = (unsigned)copies;
    b->min_copies = (unsigned)min_copies;
    b->versioning = (enum map_versioning)versioning;
    b->anonymous_read = anonymous_read != 0;
    b->fail_stale = fail_stale != 0;
    return ERR_OK;
}

enum err
map_bucket_decode(struct span bytes, struct map_bucket **out, struct errbuf *eb)
{
    struct record r;
    struct map_bucket *b;
    uint64_t created = 0, cached = 0, path_style = 0, plain = 0, pays = 0, network = 0;
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
        get_u64(&r, F_PATH_STYLE, &path_style) != ERR_OK ||
        get_u64(&r, F_PLAIN_HTTP, &plain) != ERR_OK ||
        get_u64(&r, F_REQUESTER_PAYS, &pays) != ERR_OK ||
        get_u64(&r, F_NETWORK, &network) != ERR_OK || network > MAP_NETWORK_ANY ||
        get_settings(&r, b) != ERR_OK || get_pins(&r, b) != ERR_OK)
        rc = ERR_CORRUPT;
    b->created_ms = (int64_t)created;
    b->cached = cached != 0;
    b->name = get_text(&r, F_NAME);
    b->immutable_name = get_text(&r, F_BIRTH_NAME);
    b->backend = (struct map_backend){
        .endpoint = get_text(&r, F_ENDPOINT),
        .region = get_text(&r, F_REGION),
        .bucket = get_text(&r, F_REMOTE),
        .credentials = get_text(&r, F_CREDENTIALS),
        .path_style = path_style != 0,
        .plain_http = plain != 0,
        .requester_pays = pays != 0,
        .network = (enum map_network)network,
    };
    if (rc != ERR_OK || b->id == 0 || b->name == NULL || b->immutable_name == NULL ||
        (b->cached && b->backend.bucket == NULL)) {
        map_bucket_drop((const struct map_bucket **)&b);
        return err_set(eb, ERR_CORRUPT,
                       "a bucket record lacks its id, its names or its remote, or a "
                       "setting is out of range");
    }
    *out = b;
    return ERR_OK;
}
