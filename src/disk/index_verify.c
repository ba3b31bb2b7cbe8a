/* Every page of the index, read as LMDB lays them out (data format 1, in the order of this machine's bytes) and not through
 * LMDB, which believes them. Nothing here is read before it is known to lie within its page.
 *
 *     page   u64 number | u16 - | u16 flags | u16 end of the places, u16 begin of the nodes (or u32 pages) | u16 places
 *     node   u16, u16 size of the data, low and high (branch: with the flags, the child) | u16 flags | u16 size of the key | key | data
 *
 * What can be damaged and not show: a page that is another, or an older state of itself; a key in a branch that leads
 * searches astray; a free page that is none. So: each page says its own number and is met once, keys ascend and lie between
 * those that lead to them, and the pairs of all tables are as many, with the same sum, as the meta row of this very state says. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "disk/index_internal.h"

#define HEAD       16u
#define NODE_HEAD  8u
#define DEPTH_MAX  32u /* LMDB's */
#define FIRST_PAGE 2u  /* behind both metas */
enum { PAGE_BRANCH = 1, PAGE_LEAF = 2, PAGE_OVERFLOW = 4, PAGE_KINDS = 0x6f };
enum { NODE_BIG = 1, NODE_TABLE = 2 };
enum { TREE_FREE = DBS_, TREE_MAIN, TREES_ };

/* A root as it lies in a meta page and in the rows of the main tree. */
struct tree {
    uint32_t unused;
    uint16_t flags, depth;
    uint64_t branches, leaves, overflows, entries, root;
};
#define NO_ROOT     UINT64_MAX
#define INTEGER_KEY 8u /* a flag of the tree of free pages: its keys are numbers */

struct lmdb_meta {
    uint32_t magic, version;
    uint64_t address, map_bytes;
    struct tree free, main;
    uint64_t last_page, txn;
};
static_assert(sizeof(struct tree) == 48, "as LMDB lays it out");
static_assert(sizeof(struct lmdb_meta) == 136, "as LMDB lays it out");

struct verify {
    struct index *x;
    const _Atomic bool *stop; /* NULL is fine */
    MDB_txn *txn;
    size_t page_bytes;
    struct lmdb_meta lmdb;
    struct tree trees[TREES_];
    bool has[TREES_];
    struct index_meta meta;
    bool has_meta;
    unsigned now; /* the tree at hand */
    uint64_t entries;
    struct index_tally tally;
    unsigned char *seen; /* owned: a bit for each page */
    const char *wrong;   /* NULL: nothing so far */
    uint64_t at;         /* which page */
    bool stopped, readable;
    int rc;
};

struct node {
    unsigned flags;
    struct span key;
    uint64_t size, child;
    const char *data; /* as far as the page is known to have it */
};
struct bounds {
    struct span from, to; /* to.at NULL: none */
};

static bool
bad(struct verify *v, uint64_t page, const char *what)
{
    if (v->wrong == NULL) {
        v->wrong = what;
        v->at = page;
    }
    return false;
}

static uint16_t
u16_at(const char *at)
{
    uint16_t out;

    memcpy(&out, at, sizeof out);
    return out;
}

static uint64_t
u64_at(const char *at)
{
    uint64_t out;

    memcpy(&out, at, sizeof out);
    return out;
}

static bool
take_pages(struct verify *v, uint64_t first, uint64_t count)
{
    if (first < FIRST_PAGE || first > v->lmdb.last_page ||
        count > v->lmdb.last_page - first + 1)
        return bad(v, first, "is not in the file");
    for (uint64_t p = first; p < first + count; p++) {
        unsigned char bit = (unsigned char)(1u << (p % 8));

        if ((v->seen[p / 8] & bit) != 0)
            return bad(v, p, "is met twice");
        v->seen[p / 8] |= bit;
    }
    return true;
}

/* NULL: it is not what it should be. */
static const char *
page_of(struct verify *v, uint64_t number, unsigned kind)
{
    const char *page = (const char *)v->x->map + number * v->page_bytes;

    if (!take_pages(v, number, 1))
        return NULL;
    if (u64_at(page) != number || (u16_at(page + 10) & PAGE_KINDS) != kind) {
        (void)bad(v, number, "is another page");
        return NULL;
    }
    return page;
}

static bool
node_of(struct verify *v, const char *page, unsigned i, bool leaf, struct node *out)
{
    size_t at = u16_at(page + HEAD + 2 * (size_t)i), key_len;
    const char *n = page + at;

    if (at < u16_at(page + 12) || at + NODE_HEAD > v->page_bytes)
        return false;
    key_len = u16_at(n + 6);
    out->flags = u16_at(n + 4);
    out->size = u16_at(n) | (uint64_t)u16_at(n + 2) << 16;
    out->child = out->size | (uint64_t)out->flags << 32;
    out->key = (struct span){n + NODE_HEAD, key_len};
    out->data = n + NODE_HEAD + key_len;
    at += NODE_HEAD + key_len;
    if (leaf)
        at += (out->flags & NODE_BIG) != 0 ? 8 : out->size;
    return at <= v->page_bytes;
}

static int
compare(const struct verify *v, struct span a, struct span b)
{
    uint64_t x, y;

    if (v->now != TREE_FREE || a.len != 8 || b.len != 8)
        return span_cmp(a, b);
    x = u64_at(a.at);
    y = u64_at(b.at);
    return x < y ? -1 : x > y;
}

/* ---- what stands in a leaf ---- */

static bool
free_pages(struct verify *v, uint64_t page, const struct node *n)
{
    uint64_t count = n->size < 8 ? UINT64_MAX : u64_at(n->data);

    if (n->key.len != 8 || count > n->size / 8 - 1)
        return bad(v, page, "has a list of free pages that is none");
    for (uint64_t i = 0; i < count; i++)
        if (!take_pages(v, u64_at(n->data + 8 + 8 * i), 1))
            return false;
    return true;
}

static bool
table_root(struct verify *v, uint64_t page, const struct node *n)
{
    if (n->flags != NODE_TABLE || n->size != sizeof *v->trees)
        return bad(v, page, "has a table that is none");
    for (unsigned i = 0; i < DBS_; i++)
        if (span_eq(n->key, span_of(index_db_names[i]))) {
            memcpy(&v->trees[i], n->data, sizeof v->trees[i]);
            v->has[i] = true;
            return true;
        }
    return bad(v, page, "names a table that is unknown");
}

static bool
take_entry(struct verify *v, uint64_t page, struct node *n)
{
    MDB_val key = {n->key.len, (void *)(uintptr_t)n->key.at}, value;

    v->entries++;
    if (v->now == TREE_MAIN)
        return table_root(v, page, n);
    if ((n->flags & ~(unsigned)NODE_BIG) != 0)
        return bad(v, page, "has a row of no known kind");
    if ((n->flags & NODE_BIG) != 0) { /* it lies in pages of its own */
        uint64_t first = u64_at(n->data),
                 pages = (HEAD - 1 + n->size) / v->page_bytes + 1;
        const char *big = page_of(v, first, PAGE_OVERFLOW);

        if (big == NULL || !take_pages(v, first + 1, pages - 1))
            return false;
        n->data = big + HEAD;
    }
    value = (MDB_val){n->size, (void *)(uintptr_t)n->data};
    if (v->now == TREE_FREE)
        return free_pages(v, page, n);
    if (v->now == DB_META) {
        v->has_meta = index_meta_decode((struct span){n->data, n->size}, &v->meta);
        return v->has_meta || bad(v, page, "has a meta row with a wrong sum");
    }
    v->tally.pairs++;
    v->tally.sum += index_pair_sum(v->now, &key, &value);
    return true;
}

/* ---- trees ---- */

static bool
in_bounds(const struct verify *v, struct span key, const struct bounds *b)
{
    return compare(v, key, b->from) >= 0 &&
           (b->to.at == NULL || compare(v, key, b->to) < 0);
}

static bool
walk_leaf(struct verify *v, uint64_t number, const struct bounds *b)
{
    const char *page = page_of(v, number, PAGE_LEAF);
    unsigned count = page == NULL ? 0 : (u16_at(page + 12) - HEAD) / 2u;
    struct span before = {NULL, 0};

    if (page == NULL)
        return false;
    if (u16_at(page + 12) < HEAD || u16_at(page + 12) > v->page_bytes)
        return bad(v, number, "has no rows");
    for (unsigned i = 0; i < count; i++) {
        struct node n;

        if (!node_of(v, page, i, true, &n))
            return bad(v, number, "has a row outside of itself");
        if ((before.at != NULL && compare(v, before, n.key) >= 0) ||
            !in_bounds(v, n.key, b))
            return bad(v, number, "has a key that no search comes to");
        before = n.key;
        if (!take_entry(v, number, &n))
            return false;
    }
    return true;
}

/* Recursion ends with the depth that the root tells: at most DEPTH_MAX. The first key of a branch means nothing. */
static bool
walk(struct verify *v, uint64_t number, unsigned depth, const struct bounds *b)
{
    const char *page;
    struct bounds child = *b;
    unsigned count;

    if (v->stop != NULL && atomic_load_explicit(v->stop, memory_order_relaxed)) {
        v->stopped = true;
        return false;
    }
    if (depth <= 1)
        return walk_leaf(v, number, b);
    page = page_of(v, number, PAGE_BRANCH);
    if (page == NULL)
        return false;
    if (u16_at(page + 12) <= HEAD || u16_at(page + 12) > v->page_bytes)
        return bad(v, number, "has no branches");
    count = (u16_at(page + 12) - HEAD) / 2u;
    for (unsigned i = 0; i < count; i++) {
        struct node n, next;

        if (!node_of(v, page, i, false, &n) ||
            (i + 1 < count && !node_of(v, page, i + 1, false, &next)))
            return bad(v, number, "has a branch outside of itself");
        if (i > 0 && compare(v, n.key, child.from) > 0)
            child.from = n.key;
        child.to = b->to;
        if (i + 1 < count && (b->to.at == NULL || compare(v, next.key, b->to) < 0))
            child.to = next.key;
        if (i > 0 && i + 1 < count && compare(v, n.key, next.key) >= 0)
            return bad(v, number, "has branches out of order");
        if (!walk(v, n.child, depth - 1, &child))
            return false;
    }
    return true;
}

static bool
walk_tree(struct verify *v, unsigned which)
{
    const struct tree *t = &v->trees[which];
    struct bounds all = {SPAN(""), {NULL, 0}};
    uint16_t flags = which == TREE_FREE ? INTEGER_KEY : 0;

    v->now = which;
    v->entries = 0;
    if (t->flags != flags || t->depth > DEPTH_MAX ||
        (t->depth == 0) != (t->root == NO_ROOT))
        return bad(v, t->root, "is no root");
    if (t->root != NO_ROOT && !walk(v, t->root, t->depth, &all))
        return false;
    return v->entries == t->entries || bad(v, t->root, "is the root of other rows");
}

/* The meta page of the state that the transaction reads: both are written in turn. */
static bool
find_meta(struct verify *v)
{
    for (unsigned i = 0; i < 2; i++) {
        memcpy(&v->lmdb, (const char *)v->x->map + i * v->page_bytes + HEAD,
               sizeof v->lmdb);
        if (v->lmdb.txn == mdb_txn_id(v->txn))
            break;
    }
    if (v->lmdb.txn != mdb_txn_id(v->txn) ||
        v->lmdb.last_page >= v->x->map_len / v->page_bytes)
        return bad(v, 0, "is not of this state");
    v->trees[TREE_FREE] = v->lmdb.free;
    v->trees[TREE_FREE].flags &= INTEGER_KEY; /* the others are of the environment */
    v->trees[TREE_MAIN] = v->lmdb.main;
    return true;
}

static void
verify_all(struct verify *v)
{
    bool good;

    v->seen = xcalloc(1, v->lmdb.last_page / 8 + 1);
    good = walk_tree(v, TREE_MAIN);
    for (unsigned i = 0; good && i < DBS_; i++)
        good = !v->has[i] || walk_tree(v, i);
    if (good)
        good = walk_tree(v, TREE_FREE);
    v->readable = good;
    if (good && (!v->has_meta || v->meta.tally.pairs != v->tally.pairs ||
                 v->meta.tally.sum != v->tally.sum))
        (void)bad(v, v->trees[TREE_MAIN].root,
                  "leads to rows that were not written last");
}

static void
verify_guarded(void *arg)
{
    struct verify *v = arg;
    MDB_stat stat;

    v->rc = mdb_env_stat(v->x->env, &stat);
    v->page_bytes = stat.ms_psize;
    for (unsigned i = 0; v->rc == 0 && i < 3; i++) { /* two commits came in between */
        v->wrong = NULL;
        v->rc = mdb_txn_begin(v->x->env, NULL, MDB_RDONLY, &v->txn);
        if (v->rc != 0)
            break;
        if (find_meta(v)) {
            verify_all(v);
            i = 3;
        }
        mdb_txn_abort(v->txn);
    }
}

static void
verify_work(void *arg)
{
    struct verify *v = arg;

    if (!index_guard(v->x, verify_guarded, v))
        v->rc = MDB_CORRUPTED;
    free(v->seen);
}

enum err
index_verify(struct index *x, const _Atomic bool *stop, bool *readable, struct errbuf *eb)
{
    struct verify *v = xcalloc(1, sizeof *v);
    enum err rc;

    v->x = x;
    v->stop = stop;
    rc = rt_blocking(verify_work, v, DEADLINE_NEVER);
    if (rc == ERR_OK && v->rc != 0)
        rc = index_code(x, v->rc, "verify", eb);
    else if (rc != ERR_OK || v->stopped)
        rc = err_set(eb, rc == ERR_OK ? ERR_CANCELLED : rc, "index: not verified");
    else if (v->wrong != NULL) {
        index_set_hiding(x);
        rc = err_set(eb, ERR_CORRUPT, "the index is damaged: page %" PRIu64 " %s", v->at,
                     v->wrong);
    }
    if (readable != NULL)
        *readable = v->readable;
    free(v);
    return rc;
}
