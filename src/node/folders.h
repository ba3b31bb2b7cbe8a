/* folders: the directories of the node's state, on the disk that holds it. */
#pragma once
#include "base/err.h"
#include "rt/file.h"

struct node_folders {
    struct rt_dir *root, *dot, *state, *meta, *secrets, *shards,
        *spill; /* owned; NULL: not open */
};
/* Opens the folders, and creates missing ones below `path`. After an error the caller closes those already opened. All may
 * switch. */
enum err node_folders_open(const char *path, struct node_folders *out,
                           struct errbuf *eb) MUST_CHECK;
/* The same with `root` already open. */
enum err node_folders_in(struct node_folders *f, struct errbuf *eb) MUST_CHECK;
void node_folders_close(struct node_folders *f);
/* Opens one folder below `in`; creates it if missing. */
enum err node_folder(struct rt_dir *in, const char *name, struct rt_dir **out,
                     struct errbuf *eb) MUST_CHECK;
