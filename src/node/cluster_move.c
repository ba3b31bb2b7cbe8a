#include "node/cluster_move.h"

#include <openssl/crypto.h>
#include <string.h>

#include "auth/auth.h"
#include "base/log.h"
#include "base/mem.h"
#include "map/map.h"
#include "wire/seal.h"

#define STATE_BYTES_MAX MIB(256)

/* NULL: the cluster does not exist. */
static enum err
read_cluster(struct node *n, struct node_map **out)
{
    struct arena *a = arena_new(4096, 4 * META_VALUE_MAX);
    struct meta_pair pair;
    enum err rc = meta_get(n->meta, SPAN("map"), a, &pair, &n->eb);

    *out = NULL;
    if (rc == ERR_OK)
        rc = node_map_decode(pair.value, out, &n->eb);
    else if (rc == ERR_NOT_FOUND)
        rc = ERR_OK;
    arena_free(&a);
    return rc;
}

/* The value that stands there for the key is this one: an earlier try wrote it. */
static enum err
move_compare(struct node *n, struct span key, struct span value)
{
    struct arena *a = arena_new(4096, 4 * META_VALUE_MAX);
    struct meta_pair there;
    enum err rc = meta_get(n->meta, key, a, &there, &n->eb);

    if (rc == ERR_OK && !auth_is_secret(key) && !span_eq(there.value, value))
        rc =
            err_set(&n->eb, ERR_DENIED,
                    "the cluster has a \"%.*s\" already, and so has %s: rename or remove "
                    "one of them",
                    SPAN_ARG(key), n->state_path);
    arena_free(&a);
    return rc;
}

static enum err
move_pair(struct node *n, const struct meta_pair *p)
{
    struct meta_change c = {.key = p->key, .value = p->value};
    struct buf sealed;
    enum err rc = ERR_OK;

    buf_init(&sealed, META_VALUE_MAX);
    if (auth_is_secret(p->key)) {
        rc = seal_under(&n->sealing, p->key, p->value, &sealed, &n->eb);
        c.value = buf_span(&sealed);
    }
    if (rc == ERR_OK)
        rc = meta_apply(n->meta, &c, 1, NULL, &n->eb);
    if (rc == ERR_PRECONDITION)
        rc = move_compare(n, c.key, c.value);
    buf_fini(&sealed);
    return rc;
}

static enum err
move_state(struct node *n)
{
    struct arena *a = arena_new(KIB(64), STATE_BYTES_MAX);
    struct meta_pair *pairs = NULL;
    struct meta *alone = NULL;
    uint64_t revision;
    uint32_t count = 0, moved = 0;
    enum err rc = meta_open_embedded(n->folders.meta, &alone, &n->eb);

    if (rc == ERR_OK)
        rc = meta_list(alone, SPAN(""), a, &pairs, &count, &revision, &n->eb);
    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        if (map_is_own_key(pairs[i].key))
            continue;
        rc = move_pair(n, &pairs[i]);
        moved++;
    }
    for (uint32_t i = 0; i < count; i++)
        OPENSSL_cleanse((void *)(uintptr_t)pairs[i].value.at, pairs[i].value.len);
    if (rc == ERR_OK)
        LOG(LOG_INFO, "node.moved_in",
            "this node ran alone: its buckets, users and jobs are the cluster's now",
            L_TEXT("cluster", n->o->cluster.name), L_U64("records", moved));
    meta_close(&alone);
    arena_free(&a);
    return rc;
}

enum err
cluster_move_in(struct node *n, bool *alone)
{
    struct node_map *map = NULL;
    enum err rc = read_cluster(n, &map);

    *alone = false;
    if (rc != ERR_OK)
        return rc;
    if (map == NULL) {
        *alone = true;
        return move_state(n);
    }
    if (memcmp(map->cluster_id, n->id.cluster_id, sizeof map->cluster_id) != 0)
        rc = err_set(
            &n->eb, ERR_DENIED,
            "%s holds the data of a node that ran alone, and cluster \"%s\" exists: only "
            "the first node of a cluster brings data along. Start this one with an empty "
            "folder, and copy the buckets with forebay sync",
            n->state_path, n->o->cluster.name);
    node_map_free(&map);
    return rc;
}
