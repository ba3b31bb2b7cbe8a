/* rebuild: a disk whose superblock, index or logs are damaged or gone, made one that serves again. The index comes from
 * the logs by the replay of every start; here is only what stands around it. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "rt/memory.h"
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/offline/scan_bodies.h"
#include "store/record/superblock.h"
#include "store/recover/recover.h"
#include "store/recover/recovery.h"
#include "store/store.h"
#include "store/store_options.h"
#include "store/store_rescue.h"

struct rebuild {
    const struct store_rebuild_options *o;
    struct store_rebuilt *out;
    const char *path;
    struct rt_dir *root, *state;
    struct rt_file *lock;
    struct superblock super;
};

static void PRINTF(2, 3) say(const struct rebuild *r, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (r->o->say == NULL)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    r->o->say(r->o->arg, text);
}

/* ---- superblock ---- */

static enum err
take_lock(struct rebuild *r, struct errbuf *eb)
{
    enum err rc = rt_open(r->state, "superblock", RT_O_WRITE | RT_O_CREATE | RT_O_DIRECT,
                          0600, &r->lock, eb);

    if (rc == ERR_OK)
        rc = rt_file_lock(r->lock, eb);
    return rc == ERR_EXISTS ? err_set(eb, rc, "a process serves this disk: stop it first")
                            : rc;
}

static enum err
remake_superblock(struct rebuild *r, const struct errbuf *why, struct errbuf *eb)
{
    struct rt_dir *node = NULL;
    unsigned mode;
    enum err rc = superblock_from_segments(r->root, &r->super, eb);

    assert(r->lock != NULL);
    if (rc == ERR_NOT_FOUND)
        return err_set(
            eb, rc,
            "\"%s\" is no disk: it has no good superblock and no segment whose "
            "header can be read",
            r->path);
    if (rc != ERR_OK)
        return rc;
    r->super.epoch = MAX(r->super.epoch, r->o->epoch_least);
    r->super.generation = 1;
    r->super.flags |= SUPERBLOCK_REBUILT;
    if (rt_dir_open_at(r->state, "node", &node, NULL) == ERR_OK &&
        rt_dir_mode(node, "identity", &mode, NULL) == ERR_OK)
        r->super.flags |= SUPERBLOCK_NODE_STATE;
    rt_dir_close(&node);
    r->out->superblock = true;
    say(r,
        "both superblocks are of no use (%s): rebuilt from the headers of segments, "
        "epoch %" PRIu64,
        why->text, r->super.epoch);
    return r->o->dry_run ? ERR_OK : superblock_save(r->state, r->lock, &r->super, eb);
}

/* Opens the folder, takes its lock, and has a superblock in r->super. */
static enum err
find_disk(struct rebuild *r, struct errbuf *eb)
{
    struct errbuf why = {0};
    enum err rc = rt_dir_open(r->path, &r->root, eb);

    if (rc != ERR_OK)
        return rc;
    rc = rt_dir_open_at(r->root, ".forebay", &r->state, eb);
    if (rc == ERR_NOT_FOUND) { /* perhaps only this folder is gone */
        struct superblock unused;

        rc = superblock_from_segments(r->root, &unused, eb);
        if (rc == ERR_NOT_FOUND)
            return err_set(eb, rc,
                           "\"%s\" is no disk: it has neither .forebay nor segments",
                           r->path);
        if (rc == ERR_OK)
            rc = rt_dir_make(r->root, ".forebay", 0700, eb);
        if (rc == ERR_OK)
            rc = rt_dir_open_at(r->root, ".forebay", &r->state, eb);
    }
    if (rc == ERR_OK)
        rc = take_lock(r, eb);
    if (rc != ERR_OK)
        return rc;
    rc = superblock_load(r->state, &r->super, &why);
    if (rc == ERR_CORRUPT || rc == ERR_NOT_FOUND)
        return remake_superblock(r, &why, eb);
    if (rc != ERR_OK)
        *eb = why;
    return rc;
}

static void
close_folders(struct rebuild *r)
{
    assert(r->path != NULL);
    rt_dir_close(&r->state);
    rt_dir_close(&r->root);
    rt_file_close(&r->lock);
}

/* ---- the rest ---- */

static void
on_replay(void *arg, uint64_t done, uint64_t total)
{
    struct rebuild *r = arg;

    r->out->log_bytes = done;
    if (r->o->progress != NULL)
        r->o->progress(r->o->arg, "logs", done, total);
}

struct bodies_job {
    struct rebuild *rebuild;
    struct store *disk;
    struct errbuf *eb;
    enum err rc;
};

static void
bodies_on_owner(void *arg)
{
    struct bodies_job *j = arg;
    struct rebuild *r = j->rebuild;
    struct body_scan_options o = {.dry_run = r->o->dry_run,
                                  .say = r->o->say,
                                  .progress = r->o->progress,
                                  .arg = r->o->arg};
    struct body_scan_result found;

    j->rc = scan_bodies(j->disk, &o, &found, j->eb);
    r->out->bodies = found.bodies;
    r->out->parts = found.parts;
}

static enum err
take_bodies(struct rebuild *r, struct store *d, struct errbuf *eb)
{
    struct bodies_job j = {r, d, eb, ERR_CANCELLED};
    enum err rc = on_owner_loop(d, bodies_on_owner, &j);

    if (rc == ERR_OK)
        rc = j.rc;
    if (rc == ERR_OK)
        rc = store_flush(d, eb);
    if (rc != ERR_OK || r->o->dry_run)
        return rc;
    rc = rt_dir_unlink(d->state, RECOVER_ORPHANS, eb); /* nothing is left to bring back */
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* Rows wait in memory and go into the index sorted: the more at once, the fewer pages are written again and again. With
 * ten million objects in batches of 64 MiB nearly every batch writes nearly every page. A server that rebuilds at its
 * start keeps to the usual limit. */
static uint64_t
memtable_for_rebuild(void)
{
    return MIN(MAX(rt_memory_max() / 8, MIB(64)), GIB(1));
}

static enum err
rebuild_index(struct rebuild *r, struct errbuf *eb)
{
    struct store_options o = {.node = 1,
                              .rebuild = true,
                              .on_replay = on_replay,
                              .on_replay_arg = r,
                              .memtable_bytes = memtable_for_rebuild(),
                              .owner_loop = rt_loop_index()};
    struct store_stat stat;
    struct store *d;
    enum err rc;

    assert(!r->o->superblock_only);
    memcpy(o.cluster_id, r->super.cluster_id, sizeof o.cluster_id);
    rc = store_open(r->path, &o, &d, eb);
    if (rc != ERR_OK)
        return rc;
    r->out->log_bytes = d->recovery->replayed;
    r->out->wal_damaged = d->recovery->wal_lost;
    if (r->o->from_bodies)
        rc = take_bodies(r, d, eb);
    store_stat(d, &stat);
    r->out->objects = stat.objects;
    store_close(&d);
    return rc;
}

enum err
store_rebuild(const char *path, const struct store_rebuild_options *o,
              struct store_rebuilt *out, struct errbuf *eb)
{
    struct rebuild r = {.o = o, .out = out, .path = path};
    enum err rc;

    *out = (struct store_rebuilt){0};
    rc = find_disk(&r, eb);
    close_folders(&r); /* store_open() takes the lock itself */
    if (rc == ERR_OK && !o->superblock_only && !(o->dry_run && !o->from_bodies))
        rc = rebuild_index(&r, eb);
    if (rc != ERR_OK)
        err_prefix(eb, "rebuild of \"%s\"", path);
    return rc;
}
