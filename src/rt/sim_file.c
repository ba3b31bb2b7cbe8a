/* The files of the simulator: names, handles and disk operations over sim_disk. A change of names happens between
 * two delays, the first of which can be cancelled: the time before and after a worker runs. Readers see a write when
 * it is over, not earlier. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "rt/sim_engine.h"

struct sim_dir {
    struct rt_dir d;         /* d.path: the real directory that stands for it */
    struct sim_node *node;   /* owns a reference */
    char *path;              /* owned; on the simulated disk */
    struct sim_mount *mount; /* NULL: "/" itself */
};
struct sim_file {
    struct rt_file f;
    struct sim_node *node; /* owns a reference */
    struct list of_sim;    /* sim->files */
    struct sim_mount *mount;
    bool may_write;
    bool locked;
};

/* One disk operation on its way. */
struct sim_op {
    struct timer timer;
    struct list link; /* sim->ops */
    struct io_op *op;
    struct sim_change *write;
    uint64_t mark;  /* of a sync */
    int64_t result; /* of what happened at once */
    bool fail;
};

static struct sim_dir *
dir_of(struct rt_dir *d)
{
    return CONTAINER_OF(d, struct sim_dir, d);
}

static struct sim_file *
file_of(struct rt_file *f)
{
    return CONTAINER_OF(f, struct sim_file, f);
}

static enum err
power_is_off(struct errbuf *eb)
{
    return err_set(eb, ERR_CANCELLED, "the power was cut");
}

/* The delay before a worker runs the operation: can be cancelled. */
static enum err
sim_file_go(const struct sim_mount *m, enum sim_io deed, struct errbuf *eb)
{
    enum err rc = sim_world->cut ? ERR_CANCELLED : sim_pause(DEADLINE_NEVER);

    if (rc == ERR_OK && sim_mount_fails(m, deed))
        return err_errno(eb, ERR_IO, EIO, "a simulated disk error");
    return rc == ERR_OK ? ERR_OK
                        : err_set(eb, rc, "%s before it began",
                                  rc == ERR_TIMEOUT ? "timed out" : "cancelled");
}

/* The delay afterwards: the operation is done, whatever happens to the fiber. */
static enum err
come_back(enum err rc, struct errbuf *eb)
{
    sim_pause_owed();
    return sim_world->cut ? power_is_off(eb) : rc;
}

static enum err
sim_file_failed(int error, const char *doing, const char *name, struct errbuf *eb)
{
    enum err rc = error == -ENOENT      ? ERR_NOT_FOUND
                  : error == -EEXIST    ? ERR_EXISTS
                  : error == -ENOSPC    ? ERR_NO_SPACE
                  : error == -ENOTEMPTY ? ERR_NOT_EMPTY
                  : error == -EINVAL    ? ERR_BAD_REQUEST
                                        : ERR_IO;

    return err_errno(eb, rc, -error, "%s '%s'", doing, name);
}

/* The node at `path` under `at`; "" and "." are `at`. */
static struct sim_node *
sim_file_walk(struct sim_node *at, const char *path)
{
    char name[256];

    while (at != NULL) {
        size_t len;

        path += strspn(path, "/");
        len = strcspn(path, "/");
        if (len == 0)
            return at;
        if (len >= sizeof name || !sim_node_is_dir(at))
            return NULL;
        memcpy(name, path, len);
        name[len] = '\0';
        path += len;
        if (strcmp(name, ".") == 0)
            continue;
        if (strcmp(name, "..") == 0) /* a path must not leave its directory */
            return NULL;
        at = sim_dir_find(at, name);
    }
    return NULL;
}

/* Whether `name` is one component, which can be made, removed or renamed. */
static bool
sim_file_is_name(const char *name)
{
    return name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           strchr(name, '/') == NULL;
}

/* ---- directories ---- */
enum err
sim_dir_open(struct rt_dir *at, const char *path, struct rt_dir **out, struct errbuf *eb)
{
    struct sim *s = sim_world;
    struct sim_node *from = at != NULL ? dir_of(at)->node : sim_disk_root(s->disk);
    struct sim_mount *mount;
    struct sim_node *node;
    struct sim_dir *d;
    enum err rc;

    *out = NULL;
    if (at == NULL)
        path = sim_unshadow(s, path);
    mount = at != NULL ? dir_of(at)->mount : sim_mount_of(s, path); /* always exists */
    rc = sim_file_go(mount, SIM_READS, eb);
    if (rc != ERR_OK)
        return rc;
    node = sim_file_walk(from, path);
    if (node == NULL || !sim_node_is_dir(node))
        return sim_file_failed(node == NULL ? -ENOENT : -ENOTDIR, "opening the directory",
                               path, eb);
    d = xcalloc(1, sizeof *d);
    d->mount = mount;
    d->node = sim_node_ref(node);
    d->path = at != NULL ? xasprintf("%s/%s", dir_of(at)->path, path) : xstrdup(path);
    d->d.fd = -1;
    d->d.path = sim_shadow_path(s, d->path);
    sim_shadow_make(s, d->path);
    *out = &d->d;
    return ERR_OK;
}

void
sim_dir_free(struct rt_dir *d)
{
    struct sim_dir *sd = dir_of(d);

    sim_node_drop(&sd->node);
    free(sd->path);
    free(d->path);
    free(sd);
}

enum err
sim_dir_make(struct rt_dir *d, const char *name, unsigned mode, struct errbuf *eb)
{
    struct sim_node *node = dir_of(d)->node;
    struct sim_node *made;
    enum err rc = sim_file_go(dir_of(d)->mount, SIM_WRITES, eb);
    int error;

    (void)mode;
    if (rc != ERR_OK)
        return rc;
    if (!sim_file_is_name(name))
        return sim_file_failed(-EINVAL, "making the directory", name, eb);
    sim_event('m', sim_node_id(node));
    error = sim_dir_add(node, name, true, &made);
    return come_back(
        error == 0 ? ERR_OK : sim_file_failed(error, "making the directory", name, eb),
        eb);
}

enum err
sim_dir_sync(struct rt_dir *d, struct errbuf *eb)
{
    struct sim_node *node = dir_of(d)->node;
    enum err rc = sim_file_go(dir_of(d)->mount, SIM_SYNCS, eb);
    uint64_t mark;

    if (rc != ERR_OK)
        return rc;
    mark = sim_sync_begin(node);
    sim_event('s', sim_node_id(node));
    rc = come_back(ERR_OK, eb);
    if (rc == ERR_OK && !sim_mount_lies(dir_of(d)->mount))
        sim_sync_end(node, mark);
    return rc;
}

enum err
sim_dir_list(struct rt_dir *d, void (*on_name)(const char *name, void *arg), void *arg,
             struct errbuf *eb)
{
    struct sim_node *node = dir_of(d)->node;
    enum err rc = sim_file_go(dir_of(d)->mount, SIM_READS, eb);
    char **names;
    unsigned count;

    if (rc != ERR_OK)
        return rc;
    count = sim_dir_count(node);
    names = xcalloc(count + 1u, sizeof *names);
    for (unsigned i = 0; i < count; i++)
        names[i] = xstrdup(sim_dir_name(node, i));
    rc = come_back(ERR_OK, eb);
    for (unsigned i = 0; i < count;
         i++) { /* on_name may switch, and change the directory */
        if (rc == ERR_OK)
            on_name(names[i], arg);
        free(names[i]);
    }
    free(names);
    return rc;
}

enum err
sim_dir_remove(struct rt_dir *d, const char *name, struct errbuf *eb)
{
    struct sim_node *node = dir_of(d)->node;
    enum err rc = sim_file_go(dir_of(d)->mount, SIM_WRITES, eb);
    int error;

    if (rc != ERR_OK)
        return rc;
    if (!sim_file_is_name(name))
        return sim_file_failed(-EINVAL, "removing", name, eb);
    sim_event('u', sim_node_id(node));
    error = sim_dir_unlink(node, name);
    if (error == 0 || error == -ENOENT) { /* LMDB's own files are in the shadow only */
        char *path = xasprintf("%s/%s", dir_of(d)->path, name);

        if (sim_shadow_unlink(sim_world, path))
            error = 0;
        free(path);
    }
    return come_back(error == 0 ? ERR_OK : sim_file_failed(error, "removing", name, eb),
                     eb);
}

enum err
sim_dir_move(struct rt_dir *d, const char *from, const char *to, struct errbuf *eb)
{
    struct sim_node *node = dir_of(d)->node;
    enum err rc = sim_file_go(dir_of(d)->mount, SIM_WRITES, eb);
    int error;

    if (rc != ERR_OK)
        return rc;
    if (!sim_file_is_name(from) || !sim_file_is_name(to))
        return sim_file_failed(-EINVAL, "renaming", sim_file_is_name(from) ? to : from,
                               eb);
    sim_event('r', sim_node_id(node));
    error = sim_dir_rename(node, from, to);
    return come_back(error == 0 ? ERR_OK : sim_file_failed(error, "renaming", from, eb),
                     eb);
}

enum err
sim_dir_mode(struct rt_dir *d, const char *name, unsigned *mode, struct errbuf *eb)
{
    enum err rc = sim_file_go(dir_of(d)->mount, SIM_READS, eb);
    struct sim_node *node;

    if (rc != ERR_OK)
        return rc;
    node = sim_file_walk(dir_of(d)->node, name);
    if (node == NULL)
        return sim_file_failed(-ENOENT, "looking at", name, eb);
    *mode = sim_node_mode(node);
    return ERR_OK;
}

enum err
sim_dir_space(struct rt_dir *d, struct rt_space *out, struct errbuf *eb)
{
    const struct sim_node *node = dir_of(d)->node;
    enum err rc = sim_file_go(dir_of(d)->mount, SIM_READS, eb);

    out->total_bytes = sim_node_room(node);
    out->free_bytes = out->total_bytes - MIN(out->total_bytes, sim_node_used(node));
    d->filesystem = 1 + sim_mount_device(dir_of(d)->mount);
    return rc;
}

/* ---- handles ---- */
static enum err
find_or_create(struct rt_dir *d, const char *name, unsigned flags, unsigned mode,
               struct sim_node **out, struct errbuf *eb)
{
    struct sim_node *node = sim_file_walk(dir_of(d)->node, name);
    int error = 0;

    if (node == NULL && (flags & RT_O_CREATE) != 0) {
        sim_event('c', sim_node_id(dir_of(d)->node));
        error = sim_file_is_name(name) ? sim_dir_add(dir_of(d)->node, name, false, &node)
                                       : -EINVAL;
        if (error == 0)
            sim_node_set_mode(node, mode);
    } else if (node == NULL) {
        error = -ENOENT;
    } else if (sim_node_is_dir(node)) {
        error = -EISDIR;
    } else if ((flags & RT_O_EXCL) != 0) {
        error = -EEXIST;
    } else if ((flags & RT_O_TRUNC) != 0 && sim_file_size(node) > 0) {
        sim_event('t', sim_node_id(node));
        sim_file_truncate(node, 0);
    }
    *out = node;
    return error == 0 ? ERR_OK : sim_file_failed(error, "opening", name, eb);
}

/* A file that only LMDB knows, as it is now; read-only. NULL: there is none. The caller owns the reference. */
static struct sim_node *
open_shadow(struct rt_dir *d, const char *name)
{
    char *path = xasprintf("%s/%s", dir_of(d)->path, name), *bytes = NULL;
    struct sim_node *node = NULL;
    size_t len = 0;

    if (sim_file_walk(dir_of(d)->node, name) == NULL &&
        sim_shadow_load(sim_world, path, &bytes, &len))
        node = sim_disk_orphan(sim_world->disk, bytes, len);
    free(bytes);
    free(path);
    return node;
}

enum err
sim_open_file(struct rt_dir *d, const char *name, unsigned flags, unsigned mode,
              struct rt_file **out, struct errbuf *eb)
{
    struct sim_node *node = NULL;
    struct sim_file *f;
    enum err rc = sim_file_go(dir_of(d)->mount, SIM_READS, eb);

    *out = NULL;
    if (rc != ERR_OK)
        return rc;
    node = flags == 0 || flags == RT_O_DIRECT ? open_shadow(d, name) : NULL;
    if (node == NULL) {
        rc = find_or_create(d, name, flags, mode, &node, eb);
        if (rc != ERR_OK)
            return rc;
        sim_node_ref(node); /* during the delay */
    }
    rc = come_back(ERR_OK, eb);
    if (rc != ERR_OK) {
        sim_node_drop(&node);
        return rc;
    }
    f = xcalloc(1, sizeof *f);
    f->node = node;
    f->may_write = (flags & RT_O_WRITE) != 0;
    list_push_back(&sim_world->files, &f->of_sim);
    atomic_init(&f->f.refs, 1);
    f->mount = dir_of(d)->mount;
    f->f.device = sim_mount_device(f->mount);
    f->f.direct = (flags & RT_O_DIRECT) != 0;
    f->f.fd = -1;
    f->f.name = xasprintf("%s/%s", dir_of(d)->path, name);
    *out = &f->f;
    return ERR_OK;
}

void
sim_file_free(struct rt_file *f)
{
    struct sim_file *sf = file_of(f);

    assert(atomic_load(&f->busy) == 0);
    assert(atomic_load(&f->refs) == 0);
    list_remove(&sf->of_sim);
    sim_node_drop(&sf->node);
    free(f->name);
    free(sf);
}

enum err
sim_stat_size(struct rt_file *f, uint64_t *out, struct errbuf *eb)
{
    if (sim_world->cut)
        return power_is_off(eb);
    if (sim_mount_fails(file_of(f)->mount, SIM_READS))
        return sim_file_failed(-EIO, "looking at", f->name, eb);
    *out = sim_file_size(file_of(f)->node);
    return ERR_OK;
}

enum err
sim_file_lock(struct rt_file *f, struct errbuf *eb)
{
    struct sim_file *sf = file_of(f);

    if (sim_world->cut)
        return power_is_off(eb);
    LIST_EACH(&sim_world->files, n)
    {
        const struct sim_file *other = LIST_ENTRY(n, struct sim_file, of_sim);

        if (other != sf && other->locked && other->node == sf->node)
            return err_set(eb, ERR_EXISTS, "'%s' is locked by another handle", f->name);
    }
    sf->locked = true;
    return ERR_OK;
}

/* ---- disk operations ---- */
static int64_t
sim_file_finish(struct sim_op *so)
{
    struct io_op *op = so->op;
    struct sim_node *node = file_of(op->file)->node;
    char *at = op->buf != NULL ? op->buf->at + op->at : NULL;
    struct sim_lottery lottery = sim_lottery(sim_world);
    int64_t n;

    if (sim_world->cut)
        return -ECANCELED; /* a write stays in flight for the lottery */
    if (so->fail && op->kind == IO_SYNC)
        sim_sync_fail(node, so->mark, &lottery);
    if (so->fail && op->kind != IO_WRITE)
        return -EIO;
    switch (op->kind) {
    case IO_READ:
        n = (int64_t)sim_file_read(node, op->offset, at, op->len);
        assert(n <= (int64_t)op->len);
        sim_note(TRACE_READ, op->offset, hash_xxh3(at, (size_t)n, 0));
        return n;
    case IO_WRITE:
        assert(so->write != NULL);
        n = sim_write_end(so->write, at);
        assert(n <= 0); /* 0 or a negative errno */
        return so->fail ? -EIO : n == 0 ? (int64_t)op->len : n;
    case IO_SYNC:
        if (!sim_mount_lies(file_of(op->file)->mount))
            sim_sync_end(node, so->mark);
        return 0;
    case IO_ALLOCATE:
    case IO_PUNCH:
    case IO_TRUNCATE:
        return so->result;
    }
    abort();
}

static void
on_op(struct timer *t)
{
    struct sim_op *so = CONTAINER_OF(t, struct sim_op, timer);
    struct io_op *op = so->op;
    int64_t result = sim_file_finish(so);

    assert(op->loop->in_flight > 0);
    sim_note(TRACE_DONE, (uint64_t)op->kind, (uint64_t)result);
    list_remove(&so->link);
    free(so);
    op->loop->in_flight--;
    io_op_done(op, result);
}

static void
sim_file_begin(struct sim_op *so)
{
    struct io_op *op = so->op;
    struct sim_file *sf = file_of(op->file);
    char *at = op->buf != NULL ? op->buf->at + op->at : NULL;

    assert(so->write == NULL);
    assert(!so->fail);
    assert(op->kind == IO_READ || op->kind == IO_SYNC || sf->may_write);
    if (op->file->direct && at != NULL)
        assert((op->offset | op->len | (uintptr_t)at) % 4096 == 0);
    so->fail = sim_mount_fails(sf->mount, op->kind == IO_READ   ? SIM_READS
                                          : op->kind == IO_SYNC ? SIM_SYNCS
                                                                : SIM_WRITES);
    if (op->kind == IO_SYNC)
        so->mark = sim_sync_begin(sf->node);
    if (op->kind == IO_WRITE)
        so->write = sim_write_begin(sf->node, op->offset, at, op->len);
    if (op->kind != IO_READ)
        sim_event((uint64_t)op->kind << 32 | sim_node_id(sf->node),
                  at != NULL ? hash_xxh3(at, op->len, op->offset) : op->offset);
    switch (op->kind) {
    case IO_READ:
    case IO_WRITE:
    case IO_SYNC:
        break;
    case IO_ALLOCATE:
        so->result = sim_file_allocate(sf->node, op->offset, op->len);
        break;
    case IO_PUNCH:
        sim_file_punch(sf->node, op->offset, op->len);
        break;
    case IO_TRUNCATE:
        sim_file_truncate(sf->node, op->offset);
        break;
    }
}

void
sim_submit(struct loop *l, struct io_op *op)
{
    struct sim_op *so = xcalloc(1, sizeof *so);

    assert(!op->durable); /* the simulator has no durable writes */
    assert(op->loop == l);
    so->op = op;
    timer_init(&so->timer, on_op);
    list_push_back(&sim_world->ops, &so->link);
    l->in_flight++;
    if (!sim_world->cut)
        sim_file_begin(so);
    if (!sim_world->cut) {
        sim_after(&so->timer,
                  sim_delay_ns() + sim_mount_slow_ns(file_of(op->file)->mount));
        return;
    }
    LIST_EACH(&sim_world->ops, n)
    { /* all operations in flight fail now; repeating that for some does no harm */
        sim_after(&LIST_ENTRY(n, struct sim_op, link)->timer, 1);
    }
}

bool
sim_fail_op_of(struct fiber *f)
{
    LIST_EACH(&sim_world->ops, n)
    {
        struct sim_op *so = LIST_ENTRY(n, struct sim_op, link);

        if (so->op->waiter == f) {
            so->fail = true;
            return true;
        }
    }
    return false;
}

bool
sim_dir_exists(struct sim *s, const char *path)
{
    struct sim_node *node = sim_file_walk(sim_disk_root(s->disk), path);

    return node != NULL && sim_node_is_dir(node);
}

/* A file that the world left open would never free its bytes. */
void
sim_file_end(struct sim *s)
{
    LIST_EACH(&s->files, n)
    {
        fprintf(stderr, "sim: \"%s\" was not closed\n",
                LIST_ENTRY(n, struct sim_file, of_sim)->f.name);
    }
    assert(list_empty(&s->files));
    assert(list_empty(&s->ops));
}

enum err
sim_file_bytes(struct sim *s, const char *path, char **at, uint64_t *size)
{
    struct sim_node *node = sim_file_walk(sim_disk_root(s->disk), path);

    if (node == NULL || sim_node_is_dir(node))
        return ERR_NOT_FOUND;
    *at = sim_file_bytes_now(node);
    *size = sim_file_size(node);
    return ERR_OK;
}
