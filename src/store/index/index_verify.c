/* The whole index as it was at one moment: every page once, the lists of free ones, every pair. */
#include <stdlib.h>

#include "base/mem.h"
#include "store/index/index_walk.h"

struct verify {
    struct index_walk walk;
    bool readable;
};

static bool
walk_all(struct index_walk *w)
{
    bool good = index_walk_tree(w, TREE_MAIN);

    for (unsigned i = 0; good && i < DBS_; i++)
        good = !w->has[i] || index_walk_tree(w, i);
    return good && index_walk_tree(w, TREE_FREE);
}

static void
verify_guarded(void *arg)
{
    struct verify *v = arg;
    struct index_walk *w = &v->walk;

    if (!index_walk_begin(w))
        return;
    v->readable = walk_all(w);
    if (v->readable && (!w->has_meta || w->meta.tally.pairs != w->tally.pairs ||
                        w->meta.tally.sum != w->tally.sum))
        (void)index_walk_wrong(w, w->trees[TREE_MAIN].root,
                               "leads to entries that were not written last");
    index_walk_end(w);
}

static void
index_verify_work(void *arg)
{
    struct verify *v = arg;

    if (!index_guard(v->walk.x, verify_guarded, v))
        index_walk_refused(&v->walk);
    free(v->walk.seen);
}

enum err
index_verify(struct index *x, const _Atomic bool *stop, bool *readable, struct errbuf *eb)
{
    struct verify *v = xcalloc(1, sizeof *v);
    struct index_walk *w = &v->walk;
    enum err rc;

    w->x = x;
    w->stop = stop;
    rc = rt_blocking(index_verify_work, v, DEADLINE_NEVER);
    if (rc == ERR_OK && w->gone)
        rc = err_set(eb, ERR_IO, "index: not verified: the disk failed");
    else if (rc == ERR_OK && w->rc != 0)
        rc = index_code(x, w->rc, "verify", eb);
    else if (rc != ERR_OK || w->stopped)
        rc = err_set(eb, rc == ERR_OK ? ERR_CANCELLED : rc, "index: not verified");
    else if (w->wrong != NULL) {
        index_set_hiding(x);
        rc = index_walk_told(w, eb);
    } else {
        index_set_proven(x, true);
    }
    if (readable != NULL)
        *readable = v->readable;
    free(v);
    return rc;
}
