#include "cli/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "rt/loop.h"

static enum err
of_errno(struct errbuf *eb, const char *path)
{
    return err_errno(eb,
                     errno == ENOENT                                       ? ERR_NOT_FOUND
                     : errno == EACCES || errno == EPERM || errno == EROFS ? ERR_DENIED
                     : errno == ENOSPC || errno == EDQUOT                  ? ERR_NO_SPACE
                                                                           : ERR_IO,
                     errno, "%s", path);
}

/* ---- one trip to a worker ---- */

struct job {
    enum err (*work)(struct job *j, struct errbuf *eb);
    const char *path;
    const struct files_target *target;
    struct files_file *file;
    struct files_part *part;
    void *buf;
    const void *bytes;
    uint64_t at, len;
    int64_t mtime_ms;
    unsigned char *md5;
    size_t n;
    bool keep; /* also folds_work()'s answer */
    enum err rc;
    struct errbuf *eb;
};

static void
files_run_job(void *arg)
{
    struct job *j = arg;

    j->rc = j->work(j, j->eb);
}

static enum err
on_worker(struct job *j, struct errbuf *eb)
{
    enum err rc;

    j->eb = eb;
    rc = rt_blocking(files_run_job, j, DEADLINE_NEVER);
    return rc == ERR_OK ? j->rc : err_set(eb, rc, "interrupted");
}

/* ---- reading ---- */

static enum err
read_at(int fd, uint64_t at, void *buf, size_t len, size_t *n, const char *path,
        struct errbuf *eb)
{
    *n = 0;
    while (*n < len) {
        ssize_t got = pread(fd, (char *)buf + *n, len - *n, (off_t)(at + *n));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return of_errno(eb, path);
        if (got == 0)
            break;
        *n += (size_t)got;
    }
    return ERR_OK;
}

static enum err
files_open_work(struct job *j, struct errbuf *eb)
{
    struct files_file *l = j->file;
    struct stat st;
    size_t n = 0;
    enum err rc;

    l->fd = open(j->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (l->fd < 0 || fstat(l->fd, &st) != 0)
        return of_errno(eb, j->path);
    if (!S_ISREG(st.st_mode))
        return err_set(eb, ERR_BAD_REQUEST, "%s is %s", j->path,
                       S_ISDIR(st.st_mode) ? "a folder; -r copies its contents"
                                           : "no regular file");
    l->size = (uint64_t)st.st_size;
    l->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    if (l->size > FILES_SMALL)
        return ERR_OK;
    l->bytes = xmalloc(MAX(l->size, 1u));
    rc = read_at(l->fd, 0, l->bytes, l->size, &n, j->path, eb);
    l->size = n; /* it may have shrunk meanwhile: then that is what it is */
    if (rc == ERR_OK)
        digest_oneshot(DIGEST_MD5, l->bytes, n, j->md5);
    return rc;
}

enum err
files_open(const char *path, struct files_file *out, struct errbuf *eb)
{
    unsigned char md5[DIGEST_MAX];
    struct job j = {.work = files_open_work, .path = path, .file = out, .md5 = md5};
    enum err rc;

    *out = (struct files_file){.fd = -1};
    rc = on_worker(&j, eb);
    memcpy(out->md5, md5, sizeof out->md5);
    if (rc != ERR_OK)
        files_close(out);
    return rc;
}

static enum err
files_read_work(struct job *j, struct errbuf *eb)
{
    return read_at(j->file->fd, j->at, j->buf, j->len, &j->n, "reading", eb);
}

enum err
files_read(struct files_file *l, uint64_t at, void *buf, size_t len, size_t *n,
           struct errbuf *eb)
{
    struct job j = {.work = files_read_work, .file = l, .at = at, .buf = buf, .len = len};
    enum err rc;

    if (l->bytes != NULL) {
        *n = at < l->size ? MIN(len, l->size - at) : 0;
        memcpy(buf, l->bytes + MIN(at, l->size), *n);
        return ERR_OK;
    }
    rc = on_worker(&j, eb);
    *n = j.n;
    return rc;
}

static enum err
md5_work(struct job *j, struct errbuf *eb)
{
    size_t room = MIN(MAX(j->len, 1u), KIB(256)), n = 0;
    char *buf = xmalloc(room);
    struct digest md5;
    enum err rc = ERR_OK;

    digest_init(&md5, DIGEST_MD5);
    for (uint64_t at = 0; rc == ERR_OK && at < j->len; at += n) {
        rc = read_at(j->file->fd, j->at + at, buf, MIN(room, j->len - at), &n, "reading",
                     eb);
        if (rc == ERR_OK && n == 0)
            rc = err_set(eb, ERR_INCOMPLETE, "the file has become shorter");
        if (rc == ERR_OK)
            digest_add(&md5, buf, n);
    }
    digest_end(&md5, j->md5);
    free(buf);
    return rc;
}

enum err
files_md5(struct files_file *l, uint64_t at, uint64_t len, unsigned char md5[16],
          struct errbuf *eb)
{
    unsigned char sum[DIGEST_MAX] = {0};
    struct job j = {.work = md5_work, .file = l, .at = at, .len = len, .md5 = sum};
    enum err rc = on_worker(&j, eb);

    memcpy(md5, sum, 16);
    return rc;
}

static enum err
unchanged_work(struct job *j, struct errbuf *eb)
{
    const struct files_file *l = j->file;
    struct stat st;

    if (fstat(l->fd, &st) != 0)
        return of_errno(eb, "reading");
    if ((uint64_t)st.st_size == l->size &&
        (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec == l->mtime_ns)
        return ERR_OK;
    return err_set(eb, ERR_INCOMPLETE, "the file changed while it was read");
}

enum err
files_unchanged(struct files_file *l, struct errbuf *eb)
{
    struct job j = {.work = unchanged_work, .file = l};

    return l->bytes != NULL ? ERR_OK : on_worker(&j, eb);
}

void
files_close(struct files_file *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    free(l->bytes);
    l->bytes = NULL;
}

/* ---- writing ---- */

/* The folder of a target, opened part by part below the root. *dir is owned by the caller; *name lies in the path. */
static enum err
files_open_folder(const struct files_target *t, int *dir, const char **name,
                  struct errbuf *eb)
{
    const char *slash = strrchr(t->path, '/');
    size_t folder = slash != NULL ? (size_t)(slash - t->path) : 0;
    size_t at = MIN(t->root_len, folder);
    char *root = at > 0 ? xmemdup0(t->path, at) : xstrdup(slash == t->path ? "/" : ".");

    *name = slash != NULL ? slash + 1 : t->path;
    *dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(root);
    while (*dir >= 0 && at < folder) {
        const char *end;
        char part[256];
        int next;

        while (t->path[at] == '/')
            at++;
        end = strchr(t->path + at, '/');
        if (at >= folder)
            break;
        snprintf(part, sizeof part, "%.*s", (int)(end - (t->path + at)), t->path + at);
        next = openat(*dir, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (next < 0 && errno == ENOENT &&
            (mkdirat(*dir, part, 0777) == 0 || errno == EEXIST))
            next = openat(*dir, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (next < 0 && (errno == ELOOP || errno == ENOTDIR)) {
            err_set(eb, ERR_DENIED,
                    "%.*s is %s: refusing to write through it (name it as the target "
                    "if you trust it)",
                    (int)(end - t->path), t->path,
                    errno == ELOOP ? "a symbolic link"
                                   : "not a folder, or a symbolic link");
            close(*dir);
            *dir = -1;
            return ERR_DENIED;
        }
        close(*dir);
        *dir = next;
        at = (size_t)(end - t->path);
    }
    return *dir >= 0 ? ERR_OK : of_errno(eb, t->path);
}

/* The folders that the user typed are made too. */
static enum err
make_root(const struct files_target *t, struct errbuf *eb)
{
    char *copy = xstrdup(t->path);
    enum err rc = ERR_OK;

    for (char *at = copy + 1;
         rc == ERR_OK && (at = strchr(at, '/')) != NULL && at <= copy + t->root_len;
         at++) {
        *at = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST && errno != EROFS)
            rc = of_errno(eb, copy);
        *at = '/';
    }
    free(copy);
    return rc;
}

static enum err
folds_work(struct job *j, struct errbuf *eb)
{
    char *inside = xasprintf("%s/.FOREBAY-PROBE-%08x", j->path, (unsigned)getpid());
    char *other = xasprintf(".forebay-probe-%08x", (unsigned)getpid());
    struct files_target t = {inside, strlen(inside)};
    enum err rc = make_root(&t, eb);
    struct stat st;
    const char *name;
    int dir = -1, fd;

    if (rc == ERR_OK)
        rc = files_open_folder(&t, &dir, &name, eb);
    if (rc == ERR_OK) {
        fd =
            openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        j->keep = fd >= 0 && fstatat(dir, other, &st, AT_SYMLINK_NOFOLLOW) == 0;
        if (fd >= 0) {
            (void)!unlinkat(dir, name, 0); /* best effort: it is hidden and empty */
            close(fd);
        }
        close(dir);
    }
    free(inside);
    free(other);
    return rc;
}

enum err
files_folds_case(const char *folder, bool *folds, struct errbuf *eb)
{
    struct job j = {.work = folds_work, .path = folder};
    enum err rc = on_worker(&j, eb);

    *folds = j.keep;
    return rc;
}

static enum err
folder_of(const struct files_target *t, int *dir, const char **name, struct errbuf *eb)
{
    enum err rc = files_open_folder(t, dir, name, eb);

    if (rc != ERR_NOT_FOUND)
        return rc;
    rc = make_root(t, eb);
    return rc == ERR_OK ? files_open_folder(t, dir, name, eb) : rc;
}

/* Hidden, told apart from others by a hash, and never longer than a name may be. `own`: no other process, and no other transfer of
 * this one, has the same. */
static char *
hidden_name(const char *name, bool own)
{
    static _Atomic unsigned count;
    char more[40] = "";

    if (own)
        snprintf(more, sizeof more, "-%x-%x", (unsigned)getpid(),
                 atomic_fetch_add(&count, 1u));
    return xasprintf(".%.160s.%08x%s.forebay-part", name,
                     hash_crc32c(0, name, strlen(name)), more);
}

static enum err
write_at(int fd, uint64_t at, const void *bytes, size_t len, const char *path,
         struct errbuf *eb)
{
    for (size_t done = 0; done < len;) {
        ssize_t n =
            pwrite(fd, (const char *)bytes + done, len - done, (off_t)(at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return of_errno(eb, path);
        done += (size_t)n;
    }
    return ERR_OK;
}

static void
set_mtime(int fd, int64_t mtime_ms)
{
    struct timespec t[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = mtime_ms / 1000, .tv_nsec = mtime_ms % 1000 * 1000000}};

    if (mtime_ms > 0)
        (void)!futimens(fd, t); /* a file system without times has none */
}

static enum err
give_name(int dir, const char *hidden, const char *name, const char *path,
          struct errbuf *eb)
{
    if (renameat(dir, hidden, dir, name) == 0)
        return ERR_OK;
    if (errno == EISDIR || errno == ENOTEMPTY || errno == EEXIST)
        return err_set(
            eb, ERR_EXISTS,
            "%s is a local folder; an object of that name cannot become a file", path);
    return of_errno(eb, path);
}

static enum err
store_work(struct job *j, struct errbuf *eb)
{
    const char *path = j->target->path, *name;
    char *hidden;
    int dir = -1, fd = -1;
    enum err rc = folder_of(j->target, &dir, &name, eb);

    if (rc != ERR_OK)
        return rc;
    hidden = hidden_name(name, true);
    fd = openat(dir, hidden, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        rc = of_errno(eb, path);
    if (rc == ERR_OK)
        rc = write_at(fd, 0, j->bytes, j->len, path, eb);
    if (rc == ERR_OK) {
        set_mtime(fd, j->mtime_ms);
        rc = give_name(dir, hidden, name, path, eb);
    }
    if (rc != ERR_OK && fd >= 0)
        (void)!unlinkat(dir, hidden, 0); /* best effort: it is hidden */
    if (fd >= 0)
        close(fd);
    close(dir);
    free(hidden);
    return rc;
}

enum err
files_store(const struct files_target *t, const void *bytes, size_t len, int64_t mtime_ms,
            struct errbuf *eb)
{
    struct job j = {.work = store_work,
                    .target = t,
                    .bytes = bytes,
                    .len = len,
                    .mtime_ms = mtime_ms};

    return on_worker(&j, eb);
}

/* Opens the hidden file and locks it. False with fd -1: another process has it; with errno otherwise. What was locked must still have
 * the name: who had it before may have finished with it. */
static bool
part_open_locked(struct files_part *p)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat st, now;
    int error;

    for (int tries = 0; tries < 10; tries++) {
        p->file.fd =
            openat(p->dir, p->hidden, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (p->file.fd < 0)
            return false;
        errno = EAGAIN;
        if (fcntl(p->file.fd, F_OFD_SETLK, &lock) == 0 && fstat(p->file.fd, &st) == 0 &&
            fstatat(p->dir, p->hidden, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
            now.st_ino == st.st_ino)
            return true;
        error = errno;
        close(p->file.fd);
        p->file.fd = -1;
        errno = error;
        if ((error == EAGAIN || error == EACCES) && tries > 0)
            return false;
    }
    errno = EAGAIN;
    return false;
}

static enum err
part_open_work(struct job *j, struct errbuf *eb)
{
    struct files_part *p = j->part;
    const char *name;
    struct stat st;
    enum err rc = folder_of(j->target, &p->dir, &name, eb);

    if (rc != ERR_OK)
        return rc;
    p->name = xstrdup(name);
    p->hidden = hidden_name(name, false);
    if (!part_open_locked(p) && (errno == EAGAIN || errno == EACCES)) {
        /* Another process brings the same file: a file of our own, which no later command goes on with. */
        p->own = true;
        free(p->hidden);
        p->hidden = hidden_name(name, true);
        p->file.fd = openat(p->dir, p->hidden,
                            O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    }
    if (p->file.fd < 0 || (!j->keep && ftruncate(p->file.fd, 0) != 0) ||
        fstat(p->file.fd, &st) != 0)
        return of_errno(eb, j->target->path);
    p->file.size = (uint64_t)st.st_size;
    return ERR_OK;
}

enum err
files_part_open(const struct files_target *t, bool keep, struct files_part *out,
                struct errbuf *eb)
{
    struct job j = {.work = part_open_work, .target = t, .part = out, .keep = keep};
    enum err rc;

    *out = (struct files_part){.file = {.fd = -1}, .dir = -1};
    rc = on_worker(&j, eb);
    if (rc != ERR_OK)
        files_part_close(out);
    return rc;
}

static enum err
part_write_work(struct job *j, struct errbuf *eb)
{
    return write_at(j->part->file.fd, j->at, j->bytes, j->len, j->part->name, eb);
}

enum err
files_part_write(struct files_part *p, uint64_t at, const void *buf, size_t len,
                 struct errbuf *eb)
{
    struct job j = {
        .work = part_write_work, .part = p, .at = at, .bytes = buf, .len = len};

    return on_worker(&j, eb);
}

enum err
files_part_read_now(struct files_part *p, uint64_t at, void *buf, size_t len, size_t *n,
                    struct errbuf *eb)
{
    return read_at(p->file.fd, at, buf, len, n, p->name, eb);
}

static enum err
part_keep_work(struct job *j, struct errbuf *eb)
{
    struct files_part *p = j->part;

    if (ftruncate(p->file.fd, (off_t)j->len) != 0)
        return of_errno(eb, p->name);
    set_mtime(p->file.fd, j->mtime_ms);
    return give_name(p->dir, p->hidden, p->name, p->name, eb);
}

enum err
files_part_keep(struct files_part *p, uint64_t size, int64_t mtime_ms, struct errbuf *eb)
{
    struct job j = {.work = part_keep_work, .part = p, .len = size, .mtime_ms = mtime_ms};

    return on_worker(&j, eb);
}

void
files_part_remove(struct files_part *p)
{
    if (p->dir >= 0 && p->hidden != NULL)
        (void)!unlinkat(p->dir, p->hidden, 0); /* best effort: it is hidden */
}

void
files_part_close(struct files_part *p)
{
    files_close(&p->file);
    if (p->dir >= 0)
        close(p->dir);
    free(p->name);
    free(p->hidden);
    *p = (struct files_part){.file = {.fd = -1}, .dir = -1};
}

static enum err
remove_work(struct job *j, struct errbuf *eb)
{
    return unlink(j->path) == 0 ? ERR_OK : of_errno(eb, j->path);
}

enum err
files_remove(const char *path, struct errbuf *eb)
{
    struct job j = {.work = remove_work, .path = path};

    return on_worker(&j, eb);
}
