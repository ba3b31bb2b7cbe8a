/* The index written anew without its free pages: a rebuild commits in large batches, and each behind the first leaves as
 * many free pages as it replaced, so that the file is twice what it holds. Where few are free it stays as it is. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rt/fault.h"
#include "rt/sim.h"
#include "store/index/index_internal.h"

#define OLD_NAME "data.mdb"
#define NEW_NAME "data.mdb.new"

#define PATH_ROOM  4200
#define WORTH_PART 16 /* of the file: fewer free pages are left */

struct compact {
    char from[PATH_ROOM], to[PATH_ROOM];
    MDB_env *env;
    bool worth_it;
    int rc;
};

static bool
path_in(struct rt_dir *dir, const char *name, char out[PATH_ROOM])
{
    return snprintf(out, PATH_ROOM, "%s/%s", rt_dir_path(dir), name) < PATH_ROOM;
}

static int
count_free(MDB_txn *txn, uint64_t *pages)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    int rc = mdb_cursor_open(txn, INDEX_FREE_TABLE, &cursor);

    *pages = 0;
    if (rc != 0)
        return rc;
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST); rc == 0;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        size_t count;

        if (value.mv_size < sizeof count)
            break;
        memcpy(&count, value.mv_data, sizeof count);
        *pages += count;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int
compact_count_free(struct compact *c)
{
    MDB_envinfo info;
    MDB_txn *txn;
    uint64_t pages;
    int rc = mdb_env_info(c->env, &info);

    if (rc == 0)
        rc = mdb_txn_begin(c->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0)
        return rc;
    rc = count_free(txn, &pages);
    mdb_txn_abort(txn);
    c->worth_it = pages > info.me_last_pgno / WORTH_PART;
    return rc;
}

static void
copy_guarded(void *arg)
{
    struct compact *c = arg;

    c->rc =
        index_env_open(c->from, MDB_RDONLY | MDB_NOLOCK | MDB_NOSUBDIR, 0, 1, &c->env);
    if (c->rc == 0)
        c->rc = compact_count_free(c);
    if (c->rc == 0 && c->worth_it)
        c->rc = mdb_env_copy2(c->env, c->to, MDB_CP_COMPACT);
}

static void
index_copy_work(void *arg)
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

/* The copy takes the place of what it was made of. */
static enum err
compact_adopt_new(struct rt_dir *dir, struct errbuf *eb)
{
    enum err rc = sync_new(dir, eb);

    if (rc == ERR_OK)
        rc = rt_dir_rename(dir, NEW_NAME, OLD_NAME, eb);
    return rc == ERR_OK ? rt_dir_sync(dir, eb) : rc;
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
        rc = rt_blocking(index_copy_work, c, DEADLINE_NEVER);
    if (rc == ERR_OK && c->rc != 0)
        rc = err_set(eb, c->rc == ENOSPC ? ERR_NO_SPACE : ERR_IO, "index: copying: %s",
                     mdb_strerror(c->rc));
    if (rc == ERR_OK && c->worth_it)
        rc = compact_adopt_new(dir, eb);
    if (rc != ERR_OK)
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
