/* The disks of the node: which of them holds its state, opening them all, and what they need to know of buckets. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "node/internal.h"
#include "object/chunks.h"

enum err
node_find_state(struct node *n)
{
    struct disks_folder_may may = {.be_missing = true,
                                   .have_others = n->o->dirs_not_empty};
    unsigned which = 0;
    enum err rc = ERR_OK;

    for (unsigned i = 0; rc == ERR_OK && i < n->o->dir_count; i++)
        rc = disks_folder_check(n->o->dirs[i], &may, &n->eb);
    if (rc == ERR_BAD_REQUEST)
        return rc; /* what else is wrong with a disk is said below */
    rc = disks_find_state(n->o->dirs, n->o->dir_count, &which, &n->eb);

    if (rc == ERR_OK) {
        n->state_path = n->o->dirs[which];
        return n->o->dir_count > 1 ? node_check_state_copy(n) : ERR_OK;
    }
    if (rc != ERR_NOT_FOUND)
        return rc;
    rc = node_restore_state_copy(n);
    return rc == ERR_NOT_FOUND ? ERR_DENIED : rc; /* the sentence is the first one */
}

static bool
node_has_lease(void *members)
{
    return members_lease_left_ns(members) > 0;
}

enum err
node_open_disks(struct node *n)
{
    char *state = xasprintf("%s/.forebay/node", n->state_path);
    struct disks_options o = {
        .paths = n->o->dirs,
        .count = n->o->dir_count,
        .without = n->o->without,
        .without_count = n->o->without_count,
        .state = state,
        .on_list = node_state_changed,
        .arg = n,
        .rebalance_rate = n->o->rebalance_rate,
        .disk = {.node = n->id.node,
                 .epoch = n->id.starts,
                 .segment_bytes = n->o->segment_bytes,
                 .cached_bytes = n->o->cache_budget / n->o->dir_count,
                 .memtable_bytes = n->o->memtable_bytes,
                 .index_map_bytes = n->o->index_map_bytes,
                 .index_memory_bytes = n->o->index_resident_bytes,
                 .index_interval_ms = n->o->index_interval_ms,
                 .block_cache_bytes = n->o->block_cache_bytes,
                 .limits = n->o->store_limits,
                 .scrub_rate = n->o->scrub_rate,
                 .scrub_pass_ms = n->o->scrub_pass_ms},
    };
    enum err rc = ERR_OK;

    if (n->members != NULL) {
        o.disk.map_epoch = members_map(n->members)->epoch;
        o.disk.may_order = node_has_lease;
        o.disk.may_order_arg = n->members;
    } else {
        rc = map_epoch_next(n->meta, &o.disk.map_epoch, &n->eb);
    }
    memcpy(o.disk.cluster_id, n->id.cluster_id, sizeof o.disk.cluster_id);
    if (rc == ERR_OK)
        rc = disks_open(&o, &n->disks, &n->eb);
    free(state);
    return rc;
}

/* The id behind `after` under which the disks have objects of the bucket: its own, then that of chunks; 0: none. */
static uint64_t
id_behind(const struct map_bucket *b, uint64_t after)
{
    if (b->id > after)
        return b->id;
    return b->cached && chunk_space(b->id) > after ? chunk_space(b->id) : 0;
}

/* The bucket with the smallest id behind `after`. */
static bool
node_disks_next_bucket(void *arg, uint64_t after, struct disks_bucket *out)
{
    const struct node *n = arg;
    const struct map *m = map_now(n->map);
    const struct map_bucket *best = NULL;
    uint64_t least = 0;

    for (uint32_t i = 0; i < map_bucket_count(m); i++) {
        const struct map_bucket *b = map_bucket_at(m, i);
        uint64_t id = id_behind(b, after);

        if (id != 0 && (best == NULL || id < least)) {
            best = b;
            least = id;
        }
    }
    if (best == NULL)
        return false;
    *out = (struct disks_bucket){.id = least,
                                 .copies = best->cached ? 1 : best->copies,
                                 .cached = best->cached,
                                 .owned = xstrdup(best->immutable_name)};
    out->immutable_name = span_of(out->owned);
    return true;
}

void
node_report_buckets(struct node *n)
{
    disks_buckets(n->disks, node_disks_next_bucket, n);
}
