#include "node/folders.h"

enum err
node_folder(struct rt_dir *in, const char *name, struct rt_dir **out, struct errbuf *eb)
{
    enum err rc = rt_dir_make(in, name, 0700, eb);

    if (rc == ERR_OK)
        rc = rt_dir_sync(in, eb);
    else if (rc == ERR_EXISTS)
        rc = ERR_OK;
    return rc == ERR_OK ? rt_dir_open_at(in, name, out, eb) : rc;
}

enum err
node_folders_in(struct node_folders *f, struct errbuf *eb)
{
    enum err rc = node_folder(f->root, ".forebay", &f->dot, eb);

    if (rc == ERR_OK)
        rc = node_folder(f->dot, "node", &f->state, eb);
    if (rc == ERR_OK)
        rc = node_folder(f->state, "meta", &f->meta, eb);
    if (rc == ERR_OK)
        rc = node_folder(f->state, "secrets", &f->secrets, eb);
    if (rc == ERR_OK)
        rc = node_folder(f->state, "shards", &f->shards, eb);
    if (rc == ERR_OK)
        rc = node_folder(f->state, "spill", &f->spill, eb);
    return rc;
}

enum err
node_folders_open(const char *path, struct node_folders *out, struct errbuf *eb)
{
    enum err rc;

    *out = (struct node_folders){0};
    rc = rt_dir_open(path, &out->root, eb);
    if (rc != ERR_OK)
        return rc;
    rc = node_folders_in(out, eb);
    if (rc != ERR_OK)
        err_prefix(eb, "folder \"%s\"", path);
    return rc;
}

void
node_folders_close(struct node_folders *f)
{
    rt_dir_close(&f->spill);
    rt_dir_close(&f->shards);
    rt_dir_close(&f->secrets);
    rt_dir_close(&f->meta);
    rt_dir_close(&f->state);
    rt_dir_close(&f->dot);
    rt_dir_close(&f->root);
}
