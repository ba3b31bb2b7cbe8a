/* The index written anew without its free pages: a rebuild commits in large batches, and each leaves as many free pages
 * as it replaced, so that the file is twice what it holds. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "disk/index_internal.h"
#include "rt/fault.h"
#include "rt/sim.h"

#define OLD_NAME "data.mdb"
#define NEW_NAME "data.mdb.new"

#define PATH_ROOM 4200

struct compact {
    char from[PATH_ROOM], to[PATH_ROOM];
    MDB_env *env;
    int rc;
};

static bool
path_in(struct rt_dir *dir, const char *name, char out[PATH_ROOM])
{
    return snprintf(out, PATH_ROOM, "%s/%s", rt_dir_path(dir), name) < PATH_ROOM;
}

static void
copy_guarded(void *arg)
{
    struct compact *c = arg;

    c->rc = mdb_env_create(&c->env);
    if (c->rc == 0)
        c->rc = mdb_env_set_maxdbs(c->env, DBS_);
    if (c->rc == 0)
        c->rc =
            mdb_env_open(c->env, c->from, MDB_RDONLY | MDB_NOLOCK | MDB_NOSUBDIR, 0600);
    if (c->rc == 0)
        c->rc = mdb_env_copy2(c->env, c->to, MDB_CP_COMPACT);
}

static void
copy_work(void *arg)
{
    struct compact *c = arg;

    if (!rt_guard(NULL, SIZE_MAX, copy_guarded, c))
        c->rc = EIO;
    mdb_env_close(c->env); /* NULL is fine */
}

static enum err
sync_new(struct rt_dir *dir, struct errbuf *eb)
{
    struct rt_file *f = NULL;
    enum err rc = rt_open(dir, NEW_NAME, RT_O_WRITE, 0, &f, eb);

    if (rc == ERR_OK)
        rc = rt_sync(f, eb);
    rt_file_close(&f);
    return rc;
}

static enum err
compact_in(struct rt_dir *dir, struct errbuf *eb)
{
    struct compact *c = xcalloc(1, sizeof *c);
    enum err rc = rt_dir_unlink(dir, NEW_NAME, eb); /* of a try that was cut off */

    if (rc == ERR_NOT_FOUND)
        rc = ERR_OK;
    if (rc == ERR_OK &&
        (!path_in(dir, OLD_NAME, c->from) || !path_in(dir, NEW_NAME, c->to)))
        rc = err_set(eb, ERR_BAD_REQUEST, "index: the path of the disk is too long");
    if (rc == ERR_OK)
        rc = rt_blocking(copy_work, c, DEADLINE_NEVER);
    if (rc == ERR_OK && c->rc != 0)
        rc = err_set(eb, c->rc == ENOSPC ? ERR_NO_SPACE : ERR_IO, "index: copying: %s",
                     mdb_strerror(c->rc));
    if (rc == ERR_OK)
        rc = sync_new(dir, eb);
    if (rc == ERR_OK)
        rc = rt_dir_rename(dir, NEW_NAME, OLD_NAME, eb);
    if (rc == ERR_OK)
        rc = rt_dir_sync(dir, eb);
    else
        (void)!rt_dir_unlink(dir, NEW_NAME, NULL);
    free(c);
    return rc;
}

enum err
index_compact(struct rt_dir *disk, struct errbuf *eb)
{
    struct rt_dir *dir = NULL;
    enum err rc;

    if (rt_engine_now() == RT_SIM) /* its disk is not where LMDB's files are */
        return ERR_OK;
    rc = rt_dir_open_at(disk, INDEX_FOLDER, &dir, eb);
    if (rc == ERR_OK)
        rc = compact_in(dir, eb);
    rt_dir_close(&dir);
    return rc;
}
