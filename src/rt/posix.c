/* posix: directories and files by plain system calls on the worker pool, for both real
 * engines; and the disk work of the engine that has no ring. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "rt/internal.h"
#include "rt/real.h"
#include "rt/test_io.h"

#define NAMES_MAX (4u << 20) /* of one directory */

/* One system call, made on a worker. `call` decides which fields are used. */
struct call {
    int (*call)(struct call *c); /* 0 or a positive errno */
    int at;                      /* directory */
    const char *name, *to;
    unsigned flags, mode;
    int fd;
    bool direct;
    struct stat st;
    struct statvfs space;
    struct {
        char **at; /* owned */
        size_t count, room;
    } names;
    int error;
};

static void
posix_call_work(void *arg)
{
    struct call *c = arg;

    assert(c->call != NULL);
    c->error = c->call(c);
    assert(c->error >= 0); /* 0 or a positive errno */
}

static enum err
posix_code_of(int error)
{
    switch (error) {
    case ENOENT:
        return ERR_NOT_FOUND;
    case EEXIST:
        return ERR_EXISTS;
    case ENOTEMPTY:
        return ERR_NOT_EMPTY;
    case ENOSPC:
    case EDQUOT:
        return ERR_NO_SPACE;
    case EACCES:
    case EPERM:
        return ERR_DENIED;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return ERR_BUSY;
    default: /* EROFS too: a file system turns read-only when its disk fails */
        return ERR_IO;
    }
}

static int call_sync(struct call *c);

/* Runs it and turns its result into a code and a sentence. */
static enum err
posix_on_worker(struct call *c, struct rt_observer *o, const char *doing,
                const char *name, struct errbuf *eb)
{
    struct rt_io_done d = {.kind = c->call == call_sync ? RT_IO_SYNC : RT_IO_NAME,
                           .beside = observer_begin(o)};
    int test_error = test_io_error(o, d.kind);
    enum err rc = ERR_OK;

    c->error = test_error;
    if (test_error == 0)
        rc = pool_run(POOL_WORK, posix_call_work, c, DEADLINE_NEVER);
    if (c->error != 0)
        d.where = hash_xxh3(name, strlen(name), 0);
    d.error = rc == ERR_OK ? c->error : 0; /* not done at all: not the disk's fault */
    observer_end(o, &d);
    if (rc != ERR_OK)
        return err_set(eb, rc, "%s '%s': %s", doing, name, err_name(rc));
    if (c->error != 0)
        return err_errno(eb, posix_code_of(c->error), c->error, "%s '%s'", doing, name);
    return ERR_OK;
}

/* ---- opening beneath a directory ---- */

/* What openat2() refuses, checked here where a kernel or a container has no openat2(). */
static bool
leaves_directory(const char *name)
{
    const char *p = name;

    if (*p == '/' || *p == '\0')
        return true;
    while (p != NULL) {
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0'))
            return true;
        p = strchr(p, '/');
        if (p != NULL)
            p++;
    }
    return false;
}

static int
open_beneath(int at, const char *name, int flags, unsigned mode)
{
    struct open_how how = {
        .flags = (unsigned)(flags | O_CLOEXEC),
        .mode = (flags & O_CREAT) != 0 ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    long fd;

    if (leaves_directory(name)) {
        errno = EINVAL;
        return -1;
    }
    do {
        fd = syscall(SYS_openat2, at, name, &how, sizeof how);
    } while (fd < 0 && (errno == EINTR || errno == EAGAIN));
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        fd = openat(at, name, flags | O_CLOEXEC | O_NOFOLLOW, mode);
    return (int)fd;
}

static int
call_dir_open(struct call *c)
{
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

    c->fd = c->at >= 0 ? open_beneath(c->at, c->name, flags, 0) : open(c->name, flags);
    return c->fd >= 0 ? 0 : errno;
}

enum err
real_dir_open(struct rt_dir *at, const char *path, struct rt_dir **out, struct errbuf *eb)
{
    struct call c = {.call = call_dir_open, .at = at != NULL ? at->fd : -1, .name = path};
    enum err rc = posix_on_worker(&c, at != NULL ? at->observer : NULL,
                                  "opening the directory", path, eb);

    if (rc != ERR_OK)
        return rc;
    *out = xcalloc(1, sizeof **out);
    (*out)->fd = c.fd;
    (*out)->path = at != NULL ? xasprintf("%s/%s", at->path, path) : xstrdup(path);
    return ERR_OK;
}

void
real_dir_free(struct rt_dir *d)
{
    assert(d->fd >= 0);
    close(d->fd);
    free(d->path);
    free(d);
}

static int
call_open(struct call *c)
{
    int flags = (c->flags & RT_O_WRITE) != 0 ? O_RDWR : O_RDONLY;

    if ((c->flags & RT_O_CREATE) != 0)
        flags |= O_CREAT;
    if ((c->flags & RT_O_EXCL) != 0)
        flags |= O_EXCL;
    if ((c->flags & RT_O_TRUNC) != 0)
        flags |= O_TRUNC;
    c->direct = (c->flags & RT_O_DIRECT) != 0;
    if (c->direct) {
        c->fd = open_beneath(c->at, c->name, flags | O_DIRECT, c->mode);
        c->direct = c->fd >= 0 || errno != EINVAL;
        if (c->fd < 0 && c->direct)
            return errno;
        flags &=
            ~O_EXCL; /* some file systems refuse O_DIRECT after they have made the file */
    }
    if (!c->direct)
        c->fd = open_beneath(c->at, c->name, flags, c->mode);
    if (c->fd < 0)
        return errno;
    return fstat(c->fd, &c->st) == 0 ? 0 : errno;
}

enum err
real_open_file(struct rt_dir *d, const char *name, unsigned flags, unsigned mode,
               struct rt_file **out, struct errbuf *eb)
{
    struct call c = {.call = call_open,
                     .at = d->fd,
                     .name = name,
                     .flags = flags,
                     .mode = mode,
                     .fd = -1};
    enum err rc = posix_on_worker(&c, d->observer, "opening", name, eb);
    struct rt_file *f;

    if (rc == ERR_OK && !S_ISREG(c.st.st_mode))
        rc = err_set(eb, ERR_IO, "opening '%s': not a regular file", name);
    if (rc != ERR_OK) {
        if (c.fd >= 0)
            close(c.fd);
        return rc;
    }
    f = xcalloc(1, sizeof *f);
    atomic_init(&f->refs, 1);
    f->device = c.st.st_dev;
    f->direct = c.direct;
    f->fd = c.fd;
    f->name = xstrdup(name);
    *out = f;
    return ERR_OK;
}

/* The last close of an unlinked file frees its blocks, which takes milliseconds: not on a loop. */
struct closing {
    struct rt_job job;
    int fd;
};

static void
close_work(struct rt_job *j)
{
    close(CONTAINER_OF(j, struct closing, job)->fd);
}

static void
close_done(struct rt_job *j)
{
    free(CONTAINER_OF(j, struct closing, job));
}

void
real_file_free(struct rt_file *f)
{
    assert(atomic_load(&f->busy) == 0);
    assert(atomic_load(&f->refs) == 0);
    assert(f->fd >= 0);
    if (rt_on_loop()) {
        struct closing *c = xcalloc(1, sizeof *c);

        *c = (struct closing){.job = {.work = close_work, .done = close_done},
                              .fd = f->fd};
        pool_submit_always(POOL_WORK, &c->job);
    } else {
        close(f->fd);
    }
    free(f->name);
    free(f);
}

/* ---- names ---- */

static int
call_make(struct call *c)
{
    return mkdirat(c->at, c->name, c->mode) == 0 ? 0 : errno;
}

enum err
real_dir_make(struct rt_dir *d, const char *name, unsigned mode, struct errbuf *eb)
{
    struct call c = {.call = call_make, .at = d->fd, .name = name, .mode = mode};

    if (leaves_directory(name))
        return err_set(eb, ERR_BAD_REQUEST, "'%s' is not a name inside a directory",
                       name);
    return posix_on_worker(&c, d->observer, "making the directory", name, eb);
}

static int
call_sync(struct call *c)
{
    return fsync(c->at) == 0 ? 0 : errno;
}

enum err
real_dir_sync(struct rt_dir *d, struct errbuf *eb)
{
    struct call c = {.call = call_sync, .at = d->fd};

    return posix_on_worker(&c, d->observer, "syncing the directory", d->path, eb);
}

static int
call_unlink(struct call *c)
{
    if (unlinkat(c->at, c->name, 0) == 0)
        return 0;
    if (errno != EISDIR)
        return errno;
    return unlinkat(c->at, c->name, AT_REMOVEDIR) == 0 ? 0 : errno;
}

enum err
real_dir_unlink(struct rt_dir *d, const char *name, struct errbuf *eb)
{
    struct call c = {.call = call_unlink, .at = d->fd, .name = name};

    if (leaves_directory(name))
        return err_set(eb, ERR_BAD_REQUEST, "'%s' is not a name inside a directory",
                       name);
    return posix_on_worker(&c, d->observer, "removing", name, eb);
}

static int
call_rename(struct call *c)
{
    return renameat(c->at, c->name, c->at, c->to) == 0 ? 0 : errno;
}

enum err
real_dir_rename(struct rt_dir *d, const char *from, const char *to, struct errbuf *eb)
{
    struct call c = {.call = call_rename, .at = d->fd, .name = from, .to = to};

    if (leaves_directory(from) || leaves_directory(to))
        return err_set(eb, ERR_BAD_REQUEST,
                       "'%s' or '%s' is not a name inside a directory", from, to);
    return posix_on_worker(&c, d->observer, "renaming", from, eb);
}

static int
call_stat(struct call *c)
{
    return fstatat(c->at, c->name, &c->st, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

enum err
real_dir_mode(struct rt_dir *d, const char *name, unsigned *mode, struct errbuf *eb)
{
    struct call c = {.call = call_stat, .at = d->fd, .name = name};
    enum err rc = posix_on_worker(&c, d->observer, "looking at", name, eb);

    *mode = rc == ERR_OK ? c.st.st_mode & 07777u : 0;
    return rc;
}

static int
by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
call_list(struct call *c)
{
    int fd = openat(c->at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;
    int error;

    if (dir == NULL) {
        error = errno;
        if (fd >= 0)
            close(fd);
        return error;
    }
    while (errno = 0, (e = readdir(dir)) != NULL && c->names.count < NAMES_MAX) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (c->names.count == c->names.room) {
            c->names.room = c->names.room > 0 ? c->names.room * 2 : 64;
            c->names.at = xrealloc(c->names.at, c->names.room * sizeof *c->names.at);
        }
        assert(c->names.count < c->names.room);
        c->names.at[c->names.count++] = xstrdup(e->d_name);
    }
    error = e != NULL ? E2BIG : errno;
    closedir(dir);
    if (c->names.count > 0)
        qsort(c->names.at, c->names.count, sizeof *c->names.at, by_bytes);
    return error;
}

enum err
real_dir_list(struct rt_dir *d, void (*on_name)(const char *name, void *arg), void *arg,
              struct errbuf *eb)
{
    struct call c = {.call = call_list, .at = d->fd};
    enum err rc = posix_on_worker(&c, d->observer, "listing the directory", d->path, eb);

    for (size_t i = 0; i < c.names.count; i++) {
        if (rc == ERR_OK)
            on_name(c.names.at[i], arg);
        free(c.names.at[i]);
    }
    free(c.names.at);
    return rc;
}

static int
call_space(struct call *c)
{
    return fstatvfs(c->at, &c->space) == 0 ? 0 : errno;
}

enum err
real_dir_space(struct rt_dir *d, struct rt_space *out, struct errbuf *eb)
{
    struct call c = {.call = call_space, .at = d->fd};
    enum err rc =
        posix_on_worker(&c, d->observer, "reading the free space of", d->path, eb);

    if (rc == ERR_OK) {
        *out = (struct rt_space){
            .total_bytes = (uint64_t)c.space.f_blocks * c.space.f_frsize,
            .free_bytes = (uint64_t)c.space.f_bavail * c.space.f_frsize,
            .inodes = c.space.f_files,
            .free_inodes = MIN(c.space.f_favail, c.space.f_files)};
        d->filesystem = c.space.f_fsid;
    }
    return rc;
}

static int
call_size(struct call *c)
{
    return fstat(c->fd, &c->st) == 0 ? 0 : errno;
}

enum err
real_file_size(struct rt_file *f, uint64_t *out, struct errbuf *eb)
{
    struct call c = {.call = call_size, .fd = f->fd};
    enum err rc = posix_on_worker(&c, f->observer, "reading the size of", f->name, eb);

    if (rc == ERR_OK)
        *out = (uint64_t)c.st.st_size;
    return rc;
}

/* Never waits: no worker needed. */
enum err
real_file_lock(struct rt_file *f, struct errbuf *eb)
{
    if (flock(f->fd, LOCK_EX | LOCK_NB) == 0)
        return ERR_OK;
    if (errno == EWOULDBLOCK)
        return err_set(eb, ERR_EXISTS, "'%s' is locked by another process", f->name);
    return err_errno(eb, ERR_IO, errno, "locking '%s'", f->name);
}

/* ---- disk work without a ring ---- */

/* pread() may stop early, for a signal say; only the end of the file ends a read. */
static int64_t
posix_read_all(const struct io_op *op)
{
    char *to = op->buf->at + op->at;
    uint64_t done = 0;

    assert(op->kind == IO_READ);
    assert(op->at + op->len <= op->buf->room);
    while (done < op->len) {
        ssize_t n =
            pread(op->file->fd, to + done, op->len - done, (off_t)(op->offset + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        done += (uint64_t)n;
        if (n == 0 || (op->file->direct && n % 4096 != 0))
            break;
    }
    return (int64_t)done;
}

static int64_t
posix_result_of(int64_t rc)
{
    return rc >= 0 ? rc : -errno;
}

/* Like RWF_DSYNC: the bytes written, or why they are not durable. */
static int64_t
write_durable(const struct io_op *op)
{
    int64_t n = posix_result_of(
        pwrite(op->file->fd, op->buf->at + op->at, (size_t)op->len, (off_t)op->offset));

    return n < 0 || fdatasync(op->file->fd) == 0 ? n : -errno;
}

int64_t
real_io_work(struct io_op *op)
{
    int fd = op->file->fd;

    assert(fd >= 0);
    switch (op->kind) {
    case IO_READ:
        return posix_read_all(op);
    case IO_WRITE:
        if (op->durable)
            return write_durable(op);
        return posix_result_of(
            pwrite(fd, op->buf->at + op->at, (size_t)op->len, (off_t)op->offset));
    case IO_SYNC:
        return posix_result_of(fdatasync(fd));
    case IO_ALLOCATE:
        return posix_result_of(fallocate(fd, 0, (off_t)op->offset, (off_t)op->len));
    case IO_PUNCH:
        return posix_result_of(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                         (off_t)op->offset, (off_t)op->len));
    case IO_TRUNCATE:
        return posix_result_of(ftruncate(fd, (off_t)op->offset));
    }
    abort();
}

static void
io_work(struct rt_job *j)
{
    struct io_op *op = CONTAINER_OF(j, struct io_op, job);

    op->result = real_io_work(op);
}

static void
io_work_done(struct rt_job *j)
{
    struct io_op *op = CONTAINER_OF(j, struct io_op, job);

    io_op_done(op, op->result);
}

/* Class limits bound their number. */
void
real_submit_to_pool(struct loop *l, struct io_op *op)
{
    assert(op->loop == l);
    assert(l == loop_self);
    op->job.work = io_work;
    op->job.done = io_work_done;
    pool_submit_always(POOL_WORK, &op->job);
}
