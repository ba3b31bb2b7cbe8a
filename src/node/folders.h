/* folders: those of the node's state, below the folder of the disk that holds it. */
#pragma once
#include "base/err.h"
#include "rt/file.h"

struct node_folders {
    struct rt_dir *root, *dot, *state, *meta, *secrets; /* owned; NULL: not open */
};
/* Opens them, and makes those that are missing below `path`. What was opened before an error is the caller's to close. All
 * may switch. */
enum err node_folders_open(const char *path, struct node_folders *out,
                           struct errbuf *eb) MUST_CHECK;
/* The same where `root` is open. */
enum err node_folders_in(struct node_folders *f, struct errbuf *eb) MUST_CHECK;
void node_folders_close(struct node_folders *f);
/* One folder below `in`, made when missing. */
enum err node_folder(struct rt_dir *in, const char *name, struct rt_dir **out,
                     struct errbuf *eb) MUST_CHECK;
