/* What can be damaged and not show: a page that is another, or an older state of itself; a key in a branch that leads
 * searches astray; a free page that is none. So: each page says its own number and is met once, keys ascend and lie between
 * those that lead to them, and the pairs of all tables are as many, with the same sum, as the meta entry of this very state says. */
#include "store/index/index_walk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define INTEGER_KEY 8u /* a flag of the tree of free pages: its keys are numbers */
struct bounds {
    struct span from, to; /* to.at NULL: none */
};

bool
index_walk_wrong(struct index_walk *w, uint64_t page, const char *what)
{
    if (w->wrong == NULL) {
        w->wrong = what;
        w->at = page;
    }
    return false;
}

static bool
walk_take_pages(struct index_walk *w, uint64_t first, uint64_t count)
{
    if (first < FIRST_PAGE || first > w->lmdb.last_page ||
        count > w->lmdb.last_page - first + 1)
        return index_walk_wrong(w, first, "is not in the file");
    for (uint64_t p = first; w->seen != NULL && p < first + count; p++) {
        unsigned char bit = (unsigned char)(1u << (p % 8));

        if ((w->seen[p / 8] & bit) != 0)
            return index_walk_wrong(w, p, "is met twice");
        w->seen[p / 8] |= bit;
    }
    return true;
}

/* NULL: it is not what it should be. */
static const char *
walk_page(struct index_walk *w, uint64_t number, unsigned kind)
{
    const char *page = (const char *)w->x->map + number * w->page_bytes;

    if (!walk_take_pages(w, number, 1))
        return NULL;
    if (!page_is(page, number, kind)) {
        (void)index_walk_wrong(w, number, "is another page");
        return NULL;
    }
    return page;
}

static int
walk_compare(const struct index_walk *w, struct span a, struct span b)
{
    uint64_t x, y;

    if (w->now != TREE_FREE || a.len != 8 || b.len != 8)
        return span_cmp(a, b);
    x = page_u64(a.at);
    y = page_u64(b.at);
    return x < y ? -1 : x > y;
}

/* ---- what stands in a leaf ---- */

static bool
free_pages(struct index_walk *w, uint64_t page, const struct index_node *n)
{
    uint64_t count = n->size < 8 ? UINT64_MAX : page_u64(n->data);

    if (n->key.len != 8 || count > n->size / 8 - 1)
        return index_walk_wrong(w, page, "has a list of free pages that is none");
    for (uint64_t i = 0; i < count; i++)
        if (!walk_take_pages(w, page_u64(n->data + 8 + 8 * i), 1))
            return false;
    return true;
}

static bool
table_root(struct index_walk *w, uint64_t page, const struct index_node *n)
{
    if (n->flags != NODE_TABLE || n->size != sizeof *w->trees)
        return index_walk_wrong(w, page, "has a table that is none");
    for (unsigned i = 0; i < DBS_; i++)
        if (span_eq(n->key, span_of(index_db_names[i]))) {
            memcpy(&w->trees[i], n->data, sizeof w->trees[i]);
            w->has[i] = true;
            return true;
        }
    return index_walk_wrong(w, page, "names a table that is unknown");
}

static bool
walk_take_pair(struct index_walk *w, uint64_t page, struct index_node *n)
{
    MDB_val key = {n->key.len, (void *)(uintptr_t)n->key.at}, value;

    w->entries++;
    if (w->what == WALK_SOME && w->now < DBS_ &&
        index_place_is_behind(&w->place, w->now, &key))
        return true; /* counted before */
    if (w->now == TREE_MAIN)
        return table_root(w, page, n);
    if ((n->flags & ~(unsigned)NODE_BIG) != 0)
        return index_walk_wrong(w, page, "has an entry of no known kind");
    if ((n->flags & NODE_BIG) != 0) { /* it lies in pages of its own */
        uint64_t first = page_u64(n->data),
                 pages = (PAGE_HEAD - 1 + n->size) / w->page_bytes + 1;
        const char *big = walk_page(w, first, PAGE_OVERFLOW);

        if (big == NULL || !walk_take_pages(w, first + 1, pages - 1))
            return false;
        n->data = big + PAGE_HEAD;
    }
    value = (MDB_val){n->size, (void *)(uintptr_t)n->data};
    if (w->now == TREE_FREE)
        return free_pages(w, page, n);
    if (w->now == DB_META) {
        w->has_meta = index_meta_decode((struct span){n->data, n->size}, &w->meta);
        return w->has_meta ||
               index_walk_wrong(w, page, "has a meta entry with a wrong sum");
    }
    w->tally.pairs++;
    w->tally.sum += index_pair_sum(w->now, &key, &value);
    return true;
}

/* ---- trees ---- */

static bool
in_bounds(const struct index_walk *w, struct span key, const struct bounds *b)
{
    return walk_compare(w, key, b->from) >= 0 &&
           (b->to.at == NULL || walk_compare(w, key, b->to) < 0);
}

/* Whatever comes behind its bound is read next. */
static bool
leaf_is_read(struct index_walk *w, uint64_t number, const struct bounds *b)
{
    if (b->to.len > sizeof w->place.key)
        return index_walk_wrong(w, number, "stands before a key that is too long");
    w->place.db = b->to.at != NULL ? w->now : w->now + 1;
    w->place.len = b->to.len;
    if (b->to.len > 0)
        memcpy(w->place.key, b->to.at, b->to.len);
    w->full = --w->left == 0;
    return !w->full;
}

static bool
walk_leaf(struct index_walk *w, uint64_t number, const struct bounds *b)
{
    const char *page;
    unsigned count;
    struct span before = {NULL, 0};

    if (w->what == WALK_SKELETON && w->now < DBS_ && w->now != DB_META)
        return walk_take_pages(w, number, 1);
    page = walk_page(w, number, PAGE_LEAF);
    if (page == NULL)
        return false;
    if (!page_count(page, w->page_bytes, 0, &count))
        return index_walk_wrong(w, number, "has no entries");
    for (unsigned i = 0; i < count; i++) {
        struct index_node n;

        if (!page_node(page, w->page_bytes, i, true, &n))
            return index_walk_wrong(w, number, "has an entry outside of itself");
        if ((before.at != NULL && walk_compare(w, before, n.key) >= 0) ||
            !in_bounds(w, n.key, b))
            return index_walk_wrong(w, number, "has a key that no search comes to");
        before = n.key;
        if (!walk_take_pair(w, number, &n))
            return false;
    }
    return w->what != WALK_SOME || w->now >= DBS_ || leaf_is_read(w, number, b);
}

/* Does all that is between these bounds lie before the place? */
static bool
was_read(const struct index_walk *w, const struct bounds *b)
{
    MDB_val to = {b->to.len, (void *)(uintptr_t)b->to.at};

    if (w->what != WALK_SOME || w->now >= DBS_ || b->to.at == NULL)
        return false;
    return index_place_is_behind(&w->place, w->now, &to) ||
           span_eq(b->to, (struct span){(const char *)w->place.key, w->place.len});
}

/* Recursion ends with the depth that the root tells: at most DEPTH_MAX. The first key of a branch means nothing. */
static bool
walk_subtree(struct index_walk *w, uint64_t number, unsigned depth,
             const struct bounds *b)
{
    const char *page;
    struct bounds child = *b;
    unsigned count;

    if (w->stop != NULL && atomic_load_explicit(w->stop, memory_order_relaxed)) {
        w->stopped = true;
        return false;
    }
    if (depth <= 1)
        return walk_leaf(w, number, b);
    page = walk_page(w, number, PAGE_BRANCH);
    if (page == NULL)
        return false;
    if (!page_count(page, w->page_bytes, 1, &count))
        return index_walk_wrong(w, number, "has no branches");
    for (unsigned i = 0; i < count; i++) {
        struct index_node n, next;

        if (!page_node(page, w->page_bytes, i, false, &n) ||
            (i + 1 < count && !page_node(page, w->page_bytes, i + 1, false, &next)))
            return index_walk_wrong(w, number, "has a branch outside of itself");
        if (i > 0 && walk_compare(w, n.key, child.from) > 0)
            child.from = n.key;
        child.to = b->to;
        if (i + 1 < count && (b->to.at == NULL || walk_compare(w, next.key, b->to) < 0))
            child.to = next.key;
        if (i > 0 && i + 1 < count && walk_compare(w, n.key, next.key) >= 0)
            return index_walk_wrong(w, number, "has branches out of order");
        if (!was_read(w, &child) && !walk_subtree(w, n.child, depth - 1, &child))
            return false;
    }
    return true;
}

bool
index_walk_tree(struct index_walk *w, unsigned which)
{
    const struct index_tree *t = &w->trees[which];
    struct bounds all = {SPAN(""), {NULL, 0}};
    uint16_t flags = which == TREE_FREE ? INTEGER_KEY : 0;
    bool counted = w->what == WALK_ALL || which >= DBS_ || which == DB_META;

    w->now = which;
    w->entries = 0;
    if (t->flags != flags || t->depth > DEPTH_MAX ||
        (t->depth == 0) != (t->root == NO_ROOT))
        return index_walk_wrong(w, t->root, "is no root");
    if (t->root != NO_ROOT && !walk_subtree(w, t->root, t->depth, &all))
        return false;
    return !counted || w->entries == t->entries ||
           index_walk_wrong(w, t->root, "is the root of other entries");
}

/* The meta page of the state that the transaction reads: both are written in turn. */
static bool
find_meta(struct index_walk *w)
{
    for (unsigned i = 0; i < 2; i++) {
        memcpy(&w->lmdb, (const char *)w->x->map + i * w->page_bytes + PAGE_HEAD,
               sizeof w->lmdb);
        if (w->lmdb.txn == mdb_txn_id(w->txn))
            break;
    }
    if (w->lmdb.txn != mdb_txn_id(w->txn) ||
        w->lmdb.last_page >= w->x->map_len / w->page_bytes)
        return index_walk_wrong(w, 0, "is not of this state");
    w->trees[TREE_FREE] = w->lmdb.free;
    w->trees[TREE_FREE].flags &= INTEGER_KEY; /* the others are of the environment */
    w->trees[TREE_MAIN] = w->lmdb.main;
    if (w->what != WALK_SOME)
        w->seen = xcalloc(1, w->lmdb.last_page / 8 + 1);
    return true;
}

void
index_walk_refused(struct index_walk *w)
{
    w->rc = MDB_CORRUPTED;
    w->gone = !atomic_load(&w->x->faulted);
}

bool
index_walk_begin(struct index_walk *w)
{
    MDB_stat stat;

    w->rc = mdb_env_stat(w->x->env, &stat);
    w->page_bytes = stat.ms_psize;
    for (unsigned i = 0; w->rc == 0 && i < 3; i++) { /* two commits came in between */
        w->wrong = NULL;
        w->rc = mdb_txn_begin(w->x->env, NULL, MDB_RDONLY, &w->txn);
        if (w->rc != 0)
            break;
        if (find_meta(w))
            return true;
        mdb_txn_abort(w->txn);
        w->txn = NULL;
    }
    return false;
}

void
index_walk_end(struct index_walk *w)
{
    if (w->txn != NULL)
        mdb_txn_abort(w->txn);
    w->txn = NULL;
}

enum err
index_walk_told(const struct index_walk *w, struct errbuf *eb)
{
    return err_set(eb, ERR_CORRUPT, "the index is damaged: page %" PRIu64 " %s", w->at,
                   w->wrong);
}
