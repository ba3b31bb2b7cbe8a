/* files_walk: the files below a folder, in the order of keys. */
#include <errno.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/mem.h"
#include "cli/files.h"
#include "cli/local.h"
#include "rt/loop.h"

#define BATCH 512 /* entries in one trip to a worker */

struct files_walk {
    FTS *fts;
    size_t skip;         /* bytes of a path that are the root's */
    struct arena *arena; /* of the batch */
    struct files_entry *at;
    size_t count, next;
    bool over;
    enum err rc;
    struct errbuf eb;
};

static struct span
with_slash(const FTSENT *e, char room[260])
{
    size_t len = MIN((size_t)e->fts_namelen, (size_t)256);

    if (e->fts_info != FTS_D)
        return (struct span){e->fts_name, e->fts_namelen};
    memcpy(room, e->fts_name, len);
    room[len] = '/';
    return (struct span){room, len + 1};
}

/* "a.b" stands before "a/c", so a folder is compared with its slash. */
static int
files_walk_by_key(const FTSENT **a, const FTSENT **b)
{
    char x[260], y[260];

    return span_cmp(with_slash(*a, x), with_slash(*b, y));
}

static const char *
problem_of(const FTSENT *e, bool *odd)
{
    *odd = true;
    switch (e->fts_info) {
    case FTS_F:
        return NULL;
    case FTS_DC:
        return "a loop of symbolic links";
    case FTS_SLNONE:
        return "a symbolic link that leads nowhere";
    case FTS_SL:
        return "a symbolic link";
    case FTS_DEFAULT:
        return "no regular file";
    default:
        *odd = false;
        return strerrordesc_np(e->fts_errno);
    }
}

static void
files_walk_take(struct files_walk *w, const FTSENT *e)
{
    struct files_entry *to = &w->at[w->count++];
    size_t skip = MIN(w->skip, (size_t)e->fts_pathlen);
    char *path = arena_strdup(w->arena, (struct span){e->fts_path, e->fts_pathlen});

    *to = (struct files_entry){.path = path, .name = path + skip};
    while (*to->name == '/')
        to->name++;
    if (e->fts_level == 0) {
        const char *slash = strrchr(path, '/');

        to->name = slash != NULL ? slash + 1 : path;
    }
    to->problem = problem_of(e, &to->odd);
    if (to->problem == NULL) {
        to->size = (uint64_t)e->fts_statp->st_size;
        to->mtime_ms = (int64_t)e->fts_statp->st_mtim.tv_sec * 1000 +
                       e->fts_statp->st_mtim.tv_nsec / 1000000;
    }
}

static void
batch_work(void *arg)
{
    struct files_walk *w = arg;
    FTSENT *e;

    arena_reset(w->arena);
    w->at = arena_alloc(w->arena, BATCH * sizeof *w->at);
    w->count = w->next = 0;
    while (w->count < BATCH) {
        errno = 0;
        e = fts_read(w->fts);
        if (e == NULL) {
            w->over = true;
            if (errno != 0)
                w->rc = err_errno(&w->eb, ERR_IO, errno, "walking");
            return;
        }
        /* Hidden parts of downloads are no files of the user. */
        if (e->fts_info == FTS_D || e->fts_info == FTS_DP || e->fts_info == FTS_DOT)
            continue;
        if (e->fts_namelen > 13 && e->fts_name[0] == '.' &&
            strcmp(e->fts_name + e->fts_namelen - 13, ".forebay-part") == 0)
            continue;
        files_walk_take(w, e);
    }
}

enum err
files_walk_open(const char *path, bool follow, struct files_walk **out, struct errbuf *eb)
{
    char *roots[] = {(char *)(uintptr_t)path, NULL};
    struct files_walk *w;

    *out = NULL;
    if (!local_exists(path))
        return err_errno(eb, errno == EACCES ? ERR_DENIED : ERR_NOT_FOUND, errno, "%s",
                         path);
    w = xcalloc(1, sizeof *w);
    w->fts = fts_open(roots,
                      (follow ? FTS_LOGICAL : FTS_PHYSICAL | FTS_COMFOLLOW) | FTS_NOCHDIR,
                      files_walk_by_key);
    w->arena = arena_new(KIB(64), MIB(16));
    w->skip = strlen(path);
    while (w->skip > 1 && path[w->skip - 1] == '/')
        w->skip--;
    *out = w;
    if (w->fts == NULL) {
        files_walk_close(out);
        return err_errno(eb, ERR_IO, errno, "%s", path);
    }
    return ERR_OK;
}

enum err
files_walk_next(struct files_walk *w, const struct files_entry **out, struct errbuf *eb)
{
    *out = NULL;
    while (w->next == w->count && !w->over) {
        enum err rc = rt_blocking(batch_work, w, DEADLINE_NEVER);

        if (rc != ERR_OK)
            return err_set(eb, rc, "interrupted");
    }
    if (w->next < w->count)
        *out = &w->at[w->next++];
    else if (w->rc != ERR_OK)
        return err_set(eb, w->rc, "%s", w->eb.text);
    return ERR_OK;
}

void
files_walk_close(struct files_walk **wp)
{
    struct files_walk *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    if (w->fts != NULL)
        fts_close(w->fts);
    arena_free(&w->arena);
    free(w);
}
