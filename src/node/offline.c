#include "node/offline.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "node/cluster_file.h"
#include "node/folders.h"
#include "node/state_lost.h"

/* The folder itself, made when only it is missing. */
static enum err
offline_open_root(const char *path, struct rt_dir **out, struct errbuf *eb)
{
    struct rt_dir *parent = NULL;
    const char *name;
    enum err rc = rt_dir_open(path, out, eb);

    if (rc != ERR_NOT_FOUND)
        return rc;
    rc = rt_dir_open_of(path, &parent, &name, eb);
    if (rc == ERR_OK)
        rc = node_folder(parent, name, out, eb);
    rt_dir_close(&parent);
    return rc;
}

static enum err
offline_open_state(struct node_offline *n, const char *path, struct errbuf *eb)
{
    enum err rc = offline_open_root(path, &n->folders.root, eb);

    if (rc == ERR_OK)
        rc = node_folders_in(&n->folders, eb);
    if (rc == ERR_OK)
        rc = cluster_file_must_be_alone(n->folders.state, path, eb);
    if (rc == ERR_OK)
        rc = identity_start(n->folders.state, path, &n->id, eb);
    return rc == ERR_OK ? meta_open_embedded(n->folders.meta, &n->meta, eb) : rc;
}

enum err
node_offline_open(const char *const *paths, unsigned count, struct node_offline *out,
                  struct errbuf *eb)
{
    struct disks_options o = {.paths = paths, .count = count};
    unsigned which = 0;
    char *state = NULL;
    enum err rc;

    *out = (struct node_offline){0};
    rc = disks_find_state(paths, count, &which, eb);
    if (rc == ERR_NOT_FOUND)
        rc = ERR_DENIED; /* only a start restores a copy */
    if (rc == ERR_OK)
        rc = offline_open_state(out, paths[which], eb);
    if (rc == ERR_OK) {
        state = xasprintf("%s/.forebay/node", paths[which]);
        o.state = state;
        o.disk.node = out->id.node;
        o.disk.epoch = out->id.starts;
        memcpy(o.disk.cluster_id, out->id.cluster_id, sizeof o.disk.cluster_id);
        rc = map_epoch_next(out->meta, &o.disk.map_epoch, eb);
    }
    if (rc == ERR_OK)
        rc = disks_open(&o, &out->disks, eb);
    if (rc == ERR_OK)
        rc = state_check_lost(out->meta, out->disks, paths[which], eb);
    if (rc == ERR_OK)
        rc = map_epoch_store(out->meta, disks_map_epoch(out->disks), eb);
    free(state);
    if (rc != ERR_OK)
        node_offline_close(out);
    return rc;
}

enum err
node_offline_map(struct node_offline *n, struct errbuf *eb)
{
    return n->map != NULL ? ERR_OK : map_start(n->meta, &n->map, eb);
}

enum err
node_offline_raise(const char *const *paths, unsigned count, uint64_t epoch,
                   struct node_offline *n, struct errbuf *eb)
{
    enum err rc;

    if (disks_starts(n->disks) > epoch && disks_map_epoch(n->disks) > epoch)
        return ERR_OK;
    n->id.starts = MAX(n->id.starts, epoch);
    rc = identity_put(n->folders.state, &n->id, eb);
    if (rc == ERR_OK)
        rc = map_epoch_store(n->meta, epoch, eb);
    node_offline_close(n);
    *n = (struct node_offline){0};
    return rc == ERR_OK ? node_offline_open(paths, count, n, eb) : rc;
}

enum err
node_check_restored(struct rt_dir *dot, const char *path, struct errbuf *eb)
{
    char *text = NULL;
    size_t len = 0;
    enum err rc = rt_file_load(dot, NODE_RESTORING, NODE_RESTORING_MAX, &text, &len, eb);

    free(text);
    if (rc == ERR_NOT_FOUND) {
        rc = rt_dir_unlink(dot, NODE_RESTORED, eb);
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    }
    return err_set(
        eb, ERR_DENIED,
        "a restore into %s was broken off: go on with forebay restore --yes; to "
        "serve what it has brought, remove %s/.forebay/" NODE_RESTORING,
        path, path);
}

void
node_offline_close(struct node_offline *n)
{
    map_stop(&n->map);
    disks_close(&n->disks);
    meta_close(&n->meta);
    node_folders_close(&n->folders);
}
