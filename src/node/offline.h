/* offline: opens the state and the disks of a stopped node for a tool: import, restore. It counts as a start of the node. Writes
 * take the usual path: placement, log, durable. On loop 0; may switch. */
#pragma once
#include "disks/disks.h"
#include "map/map.h"
#include "meta/meta.h"
#include "node/folders.h"
#include "node/identity.h"

/* Owns all of it. */
struct node_offline {
    struct node_folders folders;
    struct identity id;
    struct meta *meta;
    struct disks *disks;
    struct map_service *map;
};
/* `paths`: all disks of the node, in any order; a new folder becomes a new node. On an error *out is closed. */
enum err node_offline_open(const char *const *paths, unsigned count,
                           struct node_offline *out, struct errbuf *eb) MUST_CHECK;
/* Opens the map; separate, so that a tool can fill meta first. */
enum err node_offline_map(struct node_offline *n, struct errbuf *eb) MUST_CHECK;
/* Raises the epoch, so that later writes have newer versions than all of `epoch`. Before disks or map are used. On an error *n is closed. */
enum err node_offline_raise(const char *const *paths, unsigned count, uint64_t epoch,
                            struct node_offline *n, struct errbuf *eb) MUST_CHECK;
/* A restore into this node is under way, or was broken off: `dot`/NODE_RESTORING holds what the backup says of itself, and
 * while it is there the node does not start. NODE_RESTORED is the same of one that came to its end, until the first start. */
#define NODE_RESTORING     "restoring"
#define NODE_RESTORED      "restored"
#define NODE_RESTORING_MAX 4096u
/* Call before serving. */
enum err node_check_restored(struct rt_dir *dot, const char *path,
                             struct errbuf *eb) MUST_CHECK;
void node_offline_close(struct node_offline *n);
