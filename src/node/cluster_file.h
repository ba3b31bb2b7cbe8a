/* cluster_file: which cluster, and which node of it, a folder belongs to: `.forebay/node/cluster` (docs/formats.md, section
 * "node state"). Without this file the folder is that of a node that runs alone.
 */
#pragma once
#include "base/err.h"
#include "base/span.h"
#include "map/node_map.h"
#include "rt/file.h"

#define CLUSTER_FILE "cluster"

struct cluster_file {
    char cluster[MAP_NODE_NAME_MAX + 1]; /* "": the folder belongs to none */
    char node[MAP_NODE_NAME_MAX + 1];
};
/* No file: ERR_OK, with empty names. May switch. */
enum err cluster_file_load(struct rt_dir *dir, struct cluster_file *out,
                           struct errbuf *eb) MUST_CHECK;
enum err cluster_file_store(struct rt_dir *dir, const struct cluster_file *f,
                            struct errbuf *eb) MUST_CHECK;
/* ERR_DENIED where the folder belongs to a cluster: what opens it alone calls this first. `path`: of the folder. */
enum err cluster_file_must_be_alone(struct rt_dir *dir, const char *path,
                                    struct errbuf *eb) MUST_CHECK;
