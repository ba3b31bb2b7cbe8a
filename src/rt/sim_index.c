/* LMDB maps its file and knows nothing of engines. So a directory in memory stands for each path of the simulated
 * disk. The index reports each durable commit, and this keeps images of the last few: a cut restores an older one,
 * or none. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rt/sim_engine.h"

#define IMAGES_KEPT 4u
#define SHADOW_NAME "forebay-sim-"

struct image {
    char *at; /* owned */
    size_t len;
};
struct index {
    struct list link;
    char *path;                       /* owned; the real directory */
    struct image images[IMAGES_KEPT]; /* the newest first */
    unsigned count;
};

static void
sim_index_fail(const char *what, const char *path)
{
    fprintf(stderr, "sim: %s %s: %s\n", what, path, strerror(errno));
    abort(); /* the host machine fails: nothing to test there */
}

static int
on_leaf(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* Locks the directory for the life of the process. -1: another process holds it, or it is gone. */
static int
sim_index_hold(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Removes what killed processes left: it occupies memory. */
static void
sim_index_sweep(const char *base)
{
    DIR *d = opendir(base);
    struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL) {
        char *path;
        int fd;

        if (strncmp(e->d_name, SHADOW_NAME, sizeof SHADOW_NAME - 1) != 0)
            continue;
        path = xasprintf("%s/%s", base, e->d_name);
        fd = sim_index_hold(path);
        if (fd >= 0) {
            (void)nftw(path, on_leaf, 16, FTW_DEPTH | FTW_PHYS);
            close(fd);
        }
        free(path);
    }
    if (d != NULL)
        closedir(d);
}

static const char *
shadow_root(struct sim *s)
{
    static unsigned count;
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    if (s->shadow == NULL && count == 0)
        sim_index_sweep(base);
    for (unsigned tries = 0; s->shadow == NULL; tries++) {
        char *path =
            xasprintf("%s/" SHADOW_NAME "%07d-%06u", base, (int)getpid(), ++count);
        bool made = mkdir(path, 0700) == 0;

        if (tries > 100 || (!made && errno != EEXIST))
            sim_index_fail("mkdir", path);
        s->shadow_fd = made ? sim_index_hold(path) : -1;
        if (s->shadow_fd >= 0 && access(path, F_OK) == 0) {
            s->shadow = path;
            break;
        }
        if (s->shadow_fd >= 0) /* removed before it was locked */
            close(s->shadow_fd);
        free(path);
    }
    return s->shadow;
}

char *
sim_shadow_path(struct sim *s, const char *path)
{
    return xasprintf("%s%s", shadow_root(s), path);
}

const char *
sim_unshadow(const struct sim *s, const char *path)
{
    size_t len = s->shadow != NULL ? strlen(s->shadow) : 0;

    if (len > 0 && strncmp(path, s->shadow, len) == 0 &&
        (path[len] == '/' || path[len] == '\0'))
        return path[len] == '\0' ? "/" : path + len;
    return path;
}

void
sim_shadow_make(struct sim *s, const char *path)
{
    char *real = sim_shadow_path(s, path);

    for (char *p = real + strlen(s->shadow) + 1; *p != '\0'; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        (void)mkdir(real, 0700);
        *p = '/';
    }
    if (mkdir(real, 0700) != 0 && errno != EEXIST)
        sim_index_fail("mkdir", real);
    free(real);
}

bool
sim_shadow_unlink(struct sim *s, const char *path)
{
    char *real = sim_shadow_path(s, path);
    bool done = remove(real) == 0;

    free(real);
    return done;
}

/* ---- images ---- */
static struct index *
index_at(struct sim *s, const char *path)
{
    struct index *x;

    LIST_EACH(&s->indexes, n)
    {
        x = LIST_ENTRY(n, struct index, link);
        if (strcmp(x->path, path) == 0)
            return x;
    }
    x = xcalloc(1, sizeof *x);
    x->path = xstrdup(path);
    list_push_back(&s->indexes, &x->link);
    return x;
}

static struct image
sim_index_load(const char *file)
{
    struct image m = {0};
    struct stat st;
    int fd = open(file, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) != 0)
        sim_index_fail("open", file);
    m.len = (size_t)st.st_size;
    m.at = xmalloc(m.len + 1);
    if (read(fd, m.at, m.len) != (ssize_t)m.len)
        sim_index_fail("read", file);
    close(fd);
    return m;
}

bool
sim_shadow_load(struct sim *s, const char *path, char **at, size_t *len)
{
    char *real = sim_shadow_path(s, path);
    struct stat st;
    bool there = stat(real, &st) == 0 && S_ISREG(st.st_mode);

    if (there) {
        struct image m = sim_index_load(real);

        *at = m.at;
        *len = m.len;
    }
    free(real);
    return there;
}

static void
sim_index_store(const char *file, const struct image *m)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, m->at, m->len) != (ssize_t)m->len)
        sim_index_fail("write", file);
    close(fd);
}

void
sim_index_committed(const char *path)
{
    struct sim *s = sim_world;
    struct index *x;
    char *file;

    if (s == NULL || s->cut)
        return;
    x = index_at(s, path);
    assert(x->count <= IMAGES_KEPT);
    if (x->count == IMAGES_KEPT)
        free(x->images[--x->count].at);
    memmove(&x->images[1], &x->images[0], x->count * sizeof x->images[0]);
    file = xasprintf("%s/data.mdb", path);
    x->images[0] = sim_index_load(file);
    x->count++;
    assert(x->count <= IMAGES_KEPT);
    free(file);
}

static void
index_restore(struct sim *s, struct index *x)
{
    char *data = xasprintf("%s/data.mdb", x->path),
         *lock = xasprintf("%s/lock.mdb", x->path);
    unsigned keep = (unsigned)(sim_rng_next(&s->shared->rng) %
                               (x->count + 1u)); /* == count: none is kept */

    if (!sim_dir_exists(s, sim_unshadow(s, x->path)))
        keep = x->count; /* its directory was lost as well */
    assert(keep <= x->count);
    sim_note(TRACE_CUT, x->count, keep);
    (void)unlink(lock);
    (void)unlink(data);
    for (unsigned i = 0; i < MIN(keep, x->count);
         i++) /* newer than what was kept: they never happened */
        free(x->images[i].at);
    x->count -= keep;
    memmove(&x->images[0], &x->images[keep], x->count * sizeof x->images[0]);
    if (x->count > 0) {
        /* A directory that was removed without a sync exists again after the cut. */
        sim_shadow_make(s, sim_unshadow(s, x->path));
        sim_index_store(data, &x->images[0]);
    }
    free(data);
    free(lock);
}

void
sim_index_cut(struct sim *s)
{
    if (!s->options.lossy)
        return;
    LIST_EACH(&s->indexes, n)
    {
        index_restore(s, LIST_ENTRY(n, struct index, link));
    }
}

void
sim_shadow_free(struct sim *s)
{
    LIST_EACH(&s->indexes, n)
    {
        struct index *x = LIST_ENTRY(n, struct index, link);

        for (unsigned i = 0; i < x->count; i++)
            free(x->images[i].at);
        free(x->path);
        free(x);
    }
    if (s->shadow == NULL)
        return;
    if (nftw(s->shadow, on_leaf, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "sim: %s stays behind: %s\n", s->shadow, strerror(errno));
    close(s->shadow_fd);
    free(s->shadow);
    s->shadow = NULL;
}
