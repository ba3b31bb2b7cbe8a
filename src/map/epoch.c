/* The epoch of the map, as the embedded meta has it: docs/formats.md, section "map record". */
#include <assert.h>
#include <inttypes.h>

#include "map/map.h"
#include "wire/record.h"

#define MAP_KEY     "map"
#define STORE_TRIES 8u

enum { KIND_MAP = 51, VERSION = 1 };
enum { F_EPOCH = 1 };

bool
map_is_own_key(struct span key)
{
    return span_is(key, MAP_KEY);
}

static enum err
map_epoch_decode(struct span bytes, uint64_t *out, struct errbuf *eb)
{
    struct span value;
    struct record r;
    enum err rc = record_open(bytes, &r, eb);

    if (rc == ERR_OK && (r.kind != KIND_MAP || r.version != VERSION))
        rc = err_set(eb, ERR_NOT_IMPLEMENTED,
                     "a record of kind %u, version %u; this program reads %u, %u", r.kind,
                     r.version, KIND_MAP, VERSION);
    if (rc == ERR_OK && (!record_find(&r, F_EPOCH, &value) ||
                         record_u64(value, out) != ERR_OK || *out == 0))
        rc = err_set(eb, ERR_CORRUPT, "it has no epoch");
    if (rc != ERR_OK)
        err_prefix(eb, "key \"" MAP_KEY "\" of the node's state");
    return rc;
}

/* *epoch: 0 where there is none. */
static enum err
map_epoch_load(struct meta *m, uint64_t *epoch, uint64_t *revision, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(1), META_VALUE_MAX + KIB(8));
    struct meta_pair pair;
    enum err rc = meta_get(m, SPAN(MAP_KEY), a, &pair, eb);

    *epoch = *revision = 0;
    if (rc == ERR_OK) {
        *revision = pair.revision;
        rc = map_epoch_decode(pair.value, epoch, eb);
    } else if (rc == ERR_NOT_FOUND) {
        rc = ERR_OK;
    }
    assert(rc != ERR_OK || (*epoch == 0) == (*revision == 0));
    arena_free(&a);
    return rc;
}

enum err
map_epoch_next(struct meta *m, uint64_t *out, struct errbuf *eb)
{
    uint64_t revision;
    enum err rc = map_epoch_load(m, out, &revision, eb);

    assert(*out < UINT64_MAX);
    ++*out;
    return rc;
}

enum err
map_epoch_store(struct meta *m, uint64_t epoch, struct errbuf *eb)
{
    enum err rc = ERR_PRECONDITION;

    assert(epoch > 0);
    for (unsigned i = 0; i < STORE_TRIES && rc == ERR_PRECONDITION; i++) {
        struct meta_change change = {.key = SPAN(MAP_KEY)};
        struct record_writer w;
        struct buf bytes;
        uint64_t now;

        rc = map_epoch_load(m, &now, &change.if_revision, eb);
        if (rc != ERR_OK || now >= epoch)
            return rc;
        buf_init(&bytes, KIB(1));
        record_begin(&w, &bytes, KIND_MAP, VERSION);
        record_put_u64(&w, F_EPOCH, epoch);
        record_end(&w);
        change.value = buf_span(&bytes);
        rc = meta_apply(m, &change, 1, NULL, eb);
        buf_fini(&bytes);
    }
    return rc == ERR_PRECONDITION
               ? err_set(eb, ERR_BUSY, "the map is changed elsewhere; try again")
               : rc;
}
