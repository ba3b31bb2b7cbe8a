/* The epoch of the map, as the embedded meta has it: docs/formats.md, section "map record". */
#include <assert.h>
#include <inttypes.h>

#include "map/map.h"
#include "map/node_map.h"

#define MAP_KEY     "map"
#define STORE_TRIES 8u

bool
map_is_own_key(struct span key)
{
    return span_is(key, MAP_KEY) || span_is(key, "key-proof") ||
           span_starts(key, SPAN("beat/")) || span_starts(key, SPAN("secret/"));
}

/* *out: NULL where there is none. */
static enum err
map_epoch_load(struct meta *m, struct node_map **out, uint64_t *revision,
               struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(1), META_VALUE_MAX + KIB(8));
    struct meta_pair pair;
    enum err rc = meta_get(m, SPAN(MAP_KEY), a, &pair, eb);

    *out = NULL;
    *revision = 0;
    if (rc == ERR_OK) {
        *revision = pair.revision;
        rc = node_map_decode(pair.value, out, eb);
        if (rc != ERR_OK)
            err_prefix(eb, "key \"" MAP_KEY "\" of the node's state");
    } else if (rc == ERR_NOT_FOUND) {
        rc = ERR_OK;
    }
    assert(rc != ERR_OK || (*out == NULL) == (*revision == 0));
    arena_free(&a);
    return rc;
}

enum err
map_epoch_next(struct meta *m, uint64_t *out, struct errbuf *eb)
{
    struct node_map *map;
    uint64_t revision;
    enum err rc = map_epoch_load(m, &map, &revision, eb);

    *out = 1 + (map != NULL ? map->epoch : 0);
    assert(*out > 0);
    node_map_free(&map);
    return rc;
}

enum err
map_epoch_store(struct meta *m, uint64_t epoch, struct errbuf *eb)
{
    enum err rc = ERR_PRECONDITION;

    assert(epoch > 0);
    for (unsigned i = 0; i < STORE_TRIES && rc == ERR_PRECONDITION; i++) {
        struct meta_change change = {.key = SPAN(MAP_KEY)};
        struct node_map *map;
        struct buf bytes;

        rc = map_epoch_load(m, &map, &change.if_revision, eb);
        if (rc != ERR_OK || (map != NULL && map->epoch >= epoch)) {
            node_map_free(&map);
            return rc;
        }
        if (map == NULL)
            map = node_map_new(epoch);
        map->epoch = epoch;
        buf_init(&bytes, META_VALUE_MAX);
        node_map_encode(map, &bytes);
        assert(!bytes.full);
        change.value = buf_span(&bytes);
        rc = meta_apply(m, &change, 1, NULL, eb);
        buf_fini(&bytes);
        node_map_free(&map);
    }
    return rc == ERR_PRECONDITION
               ? err_set(eb, ERR_BUSY, "the map is changed elsewhere; try again")
               : rc;
}
