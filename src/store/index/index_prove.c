/* The index read beside whoever writes it, some pages at a time, each time in a transaction of its own: a long one would keep
 * LMDB from using free pages again, and the file would grow.
 *
 *     place    what stands before it was counted, and is kept right by every batch (index_tally_goes(), _comes());
 *              what stands behind it will be met. Pieces and batches take turns.
 *
 * At the end what was counted is what the meta entry tells, or some entry is not the one that was written last. Before it the pages
 * that lead to others, and the lists of free ones, are read as they are at one moment: a free page that is none would be
 * written over. These are a hundredth of all. */
#include <stdlib.h>

#include "base/mem.h"
#include "store/index/index_walk.h"

/* A millisecond, and as many reads of the disk where they are not in memory. */
#ifndef FB_TEST_HOOKS
static const
#endif
    uint32_t index_prove_piece = 256;

static void
skeleton_guarded(void *arg)
{
    struct index_walk *w = arg;
    bool good = index_walk_begin(w) && index_walk_tree(w, TREE_MAIN);

    for (unsigned i = 0; good && i < DBS_; i++)
        good = !w->has[i] || index_walk_tree(w, i);
    if (good)
        (void)index_walk_tree(w, TREE_FREE);
    index_walk_end(w);
}

static void
piece_guarded(void *arg)
{
    struct index_walk *w = arg;
    struct index_place *p = &w->place;
    bool good = index_walk_begin(w) && index_walk_tree(w, TREE_MAIN);

    while (good && p->db < DBS_) {
        unsigned db = p->db;

        if (db != DB_META && w->has[db])
            good = index_walk_tree(w, db);
        if (good) {
            p->db = db + 1;
            p->len = 0;
        }
    }
    index_walk_end(w);
}

static void
skeleton_work(void *arg)
{
    struct index_walk *w = arg;

    if (!index_guard(w->x, skeleton_guarded, w))
        index_walk_refused(w);
    free(w->seen);
}

static void
prove_piece_work(void *arg)
{
    struct index_walk *w = arg;

    if (!index_guard(w->x, piece_guarded, w))
        index_walk_refused(w);
}

/* Takes what a walk came to. */
static enum err
walked(struct index_walk *w, enum err rc, struct errbuf *eb)
{
    if (rc == ERR_OK && w->gone)
        return err_set(eb, ERR_IO, "index: not proven: the disk failed");
    if (rc == ERR_OK && w->rc != 0)
        return index_code(w->x, w->rc, "prove", eb);
    if (rc != ERR_OK)
        return err_set(eb, rc, "index: not proven: %s", err_name(rc));
    if (w->stopped)
        return err_set(eb, ERR_CANCELLED, "index: not proven");
    if (w->wrong == NULL)
        return ERR_OK;
    index_set_hiding(w->x);
    return index_walk_told(w, eb);
}

static uint64_t
leaves_of(const struct index_walk *w)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < DBS_; i++)
        if (w->has[i] && i != DB_META)
            sum += w->trees[i].leaves;
    return sum;
}

enum err
index_prove_begin(struct index *x, const _Atomic bool *stop, struct errbuf *eb)
{
    struct index_walk *w = xcalloc(1, sizeof *w);
    enum err rc;

    index_wait_populated(x, stop);
    w->x = x;
    w->stop = stop;
    w->what = WALK_SKELETON;
    rc = walked(w, rt_blocking(skeleton_work, w, DEADLINE_NEVER), eb);
    if (rc == ERR_OK) {
        index_turn_acquire(x);
        x->proof = (struct index_proof){.on = true};
        index_turn_release(x);
        atomic_store(&x->pages_to_prove, leaves_of(w));
        atomic_store(&x->pages_proven, 0);
    }
    free(w);
    return rc;
}

/* Was what was counted what was written? */
static enum err
conclude(struct index *x, struct errbuf *eb)
{
    const struct index_tally *is = &x->proof.counted, *should = &x->meta.tally;

    if (is->pairs == should->pairs && is->sum == should->sum) {
        index_set_proven(x, true);
        return ERR_OK;
    }
    index_set_hiding(x);
    return err_set(
        eb, ERR_CORRUPT,
        "the index is damaged: its pages lead to entries that were not written last");
}

enum err
index_prove_some(struct index *x, uint64_t *bytes, bool *over, struct errbuf *eb)
{
    struct index_walk *w = xcalloc(1, sizeof *w);
    enum err rc;

    *bytes = 0;
    *over = false;
    w->x = x;
    w->what = WALK_SOME;
    w->left = index_prove_piece;
    index_turn_acquire(x);
    w->place = x->proof.place;
    rc = walked(w, rt_blocking(prove_piece_work, w, DEADLINE_NEVER), eb);
    if (rc == ERR_OK) {
        x->proof.place = w->place;
        x->proof.counted.pairs += w->tally.pairs;
        x->proof.counted.sum += w->tally.sum;
        atomic_fetch_add(&x->pages_proven, index_prove_piece - w->left);
        *bytes = (index_prove_piece - w->left) * (uint64_t)w->page_bytes;
        *over = w->place.db == DBS_;
        if (*over)
            rc = conclude(x, eb);
    }
    index_turn_release(x);
    free(w);
    return rc;
}

void
index_prove_end(struct index *x)
{
    index_turn_acquire(x);
    x->proof.on = false;
    index_turn_release(x);
}
