#include "rt/changes.h"

#include <assert.h>
#include <errno.h>
#include <fts.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/mem.h"
#include "rt/loop.h"
#include "rt/time.h"

#define SLICE_MS 250u /* a worker waits so long at a time, so that cancelling ends it */
#define EVENTS                                                                           \
    (IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_ATTRIB |  \
     IN_DELETE_SELF | IN_MOVE_SELF)

struct changes {
    int fd;
    char *path; /* owned */
    bool follow;
    uint64_t watches;

    /* Of one trip to a worker. */
    unsigned slice_ms;
    bool any, folders; /* something changed; a folder came */
    enum err rc;
    struct errbuf eb;
};

/* ---- on a worker ---- */

/* Watches every folder below the path; those that are watched already stay so. */
static void
watch_folders(void *arg)
{
    struct changes *c = arg;
    char *roots[] = {c->path, NULL};
    FTS *fts = fts_open(
        roots, (c->follow ? FTS_LOGICAL : FTS_PHYSICAL | FTS_COMFOLLOW) | FTS_NOCHDIR,
        NULL);
    FTSENT *e;

    if (fts == NULL) {
        c->rc = err_errno(&c->eb, ERR_IO, errno, "%s", c->path);
        return;
    }
    c->watches = 0;
    while (c->rc == ERR_OK && (e = fts_read(fts)) != NULL) {
        if (e->fts_info != FTS_D)
            continue;
        if (inotify_add_watch(c->fd, e->fts_path, EVENTS | IN_ONLYDIR) >= 0)
            c->watches++;
        else if (errno == ENOSPC)
            c->rc = err_set(&c->eb, ERR_BUSY,
                            "%s has more folders than can be watched: %llu are; raise "
                            "fs.inotify.max_user_watches (sysctl)",
                            c->path, (unsigned long long)c->watches);
        else if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
            c->rc = err_errno(&c->eb, ERR_IO, errno, "watching %s", e->fts_path);
    }
    fts_close(fts);
}

static void
take_events(struct changes *c)
{
    _Alignas(struct inotify_event) char buf[4096];
    ssize_t n;

    while ((n = read(c->fd, buf, sizeof buf)) > 0)
        for (ssize_t at = 0; at < n;) {
            struct inotify_event e;

            assert((size_t)(n - at) >= sizeof e);
            memcpy(&e, buf + at, sizeof e);
            at += (ssize_t)(sizeof e + e.len);
            if ((e.mask & IN_IGNORED) != 0)
                continue;
            c->any = true;
            c->folders |= (e.mask & (IN_ISDIR | IN_Q_OVERFLOW)) != 0;
        }
}

static void
wait_slice(void *arg)
{
    struct changes *c = arg;
    struct pollfd p = {.fd = c->fd, .events = POLLIN};

    if (poll(&p, 1, (int)c->slice_ms) > 0)
        take_events(c);
}

/* ---- fibers ---- */

static enum err
changes_trip(struct changes *c, void (*work)(void *arg), struct errbuf *eb)
{
    enum err rc = rt_blocking(work, c, DEADLINE_NEVER);

    if (rc == ERR_OK)
        rc = c->rc;
    if (rc == ERR_CANCELLED)
        return err_set(eb, rc, "interrupted");
    if (rc != ERR_OK && eb != NULL)
        *eb = c->eb;
    return rc;
}

enum err
changes_open(const char *path, bool follow, struct changes **out, struct errbuf *eb)
{
    struct changes *c = xcalloc(1, sizeof *c);
    enum err rc = ERR_OK;

    *out = NULL;
    *c = (struct changes){.path = xstrdup(path), .follow = follow};
    c->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (c->fd < 0)
        rc = err_errno(eb, errno == EMFILE ? ERR_BUSY : ERR_IO, errno,
                       "watching %s (fs.inotify.max_user_instances limits watchers)",
                       path);
    if (rc == ERR_OK)
        rc = changes_trip(c, watch_folders, eb);
    if (rc == ERR_OK && c->watches == 0)
        rc = err_set(eb, ERR_NOT_FOUND, "%s is no folder", path);
    if (rc == ERR_OK)
        *out = c;
    else
        changes_close(&c);
    return rc;
}

/* Waits until the first change, then until a quiet moment. */
enum err
changes_wait(struct changes *c, uint64_t ms, bool *any, struct errbuf *eb)
{
    struct deadline until = deadline_in_ms(ms), held = DEADLINE_NEVER;
    enum err rc = ERR_OK;
    bool quiet = false;

    assert(c->fd >= 0);
    assert(c->watches > 0);
    assert(ms > 0);
    *any = false;
    while (rc == ERR_OK && !quiet && !deadline_passed(*any ? held : until)) {
        c->any = c->folders = false;
        c->slice_ms = *any ? CHANGES_QUIET_MS : SLICE_MS;
        rc = changes_trip(c, wait_slice, eb);
        quiet = *any && !c->any;
        if (c->any && !*any)
            held = deadline_in_ms(CHANGES_HELD_MS);
        *any |= c->any;
        if (rc == ERR_OK && c->folders)
            rc = changes_trip(c, watch_folders, eb);
    }
    return rc;
}

void
changes_close(struct changes **cp)
{
    struct changes *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    if (c->fd >= 0)
        close(c->fd);
    free(c->path);
    free(c);
}
