/* Which pages will a search touch? LMDB does not say, so its pages are read here as data format 1 lays them out, in the order of
 * this machine's bytes. Nothing is read before it is known to lie within its page.
 *
 *     page   u64 number | u16 - | u16 flags | u16 end of the places, u16 begin of the nodes (or u32 pages) | u16 places
 *     node   u16, u16 size of the data, low and high (branch: with the flags, the child) | u16 flags | u16 size of the key | key | data
 */

#include "store/index/index_resident.h"

#include <assert.h>
#include <string.h>

#include "rt/fault.h"
#include "store/index/index_internal.h"

/* ---- pages ---- */

#define PAGE_HEAD  16u
#define NODE_HEAD  8u
#define DEPTH_MAX  32u /* LMDB's */
#define FIRST_PAGE 2u  /* behind both metas */
enum { PAGE_BRANCH = 1, PAGE_LEAF = 2, PAGE_KINDS = 0x6f };
enum { NODE_TABLE = 2 };
#define NO_ROOT UINT64_MAX

/* A root as it lies in a meta page and in the entries of the main tree. */
struct index_tree {
    uint32_t unused;
    uint16_t flags, depth;
    uint64_t branches, leaves, overflows, entries, root;
};
struct index_lmdb {
    uint32_t magic, version;
    uint64_t address, map_bytes;
    struct index_tree free, main;
    uint64_t last_page, txn;
};
static_assert(sizeof(struct index_tree) == 48, "as LMDB lays it out");
static_assert(sizeof(struct index_lmdb) == 136, "as LMDB lays it out");

struct index_node {
    unsigned flags;
    struct span key;
    uint64_t size, child;
    const char *data; /* as far as the page is known to have it */
};

static uint16_t
page_u16(const char *at)
{
    uint16_t out;

    memcpy(&out, at, sizeof out);
    return out;
}

static uint64_t
page_u64(const char *at)
{
    uint64_t out;

    memcpy(&out, at, sizeof out);
    return out;
}

static bool
page_is(const char *page, uint64_t number, unsigned kind)
{
    return page_u64(page) == number && (page_u16(page + 10) & PAGE_KINDS) == kind;
}

/* False: it has no nodes, or more than fit into it. */
static bool
page_count(const char *page, size_t page_bytes, unsigned *out)
{
    unsigned end = page_u16(page + 12);

    *out = end < PAGE_HEAD ? 0 : (end - PAGE_HEAD) / 2u;
    return end >= PAGE_HEAD && end <= page_bytes && *out > 0;
}

static bool
page_node(const char *page, size_t page_bytes, unsigned i, bool leaf,
          struct index_node *out)
{
    size_t at = page_u16(page + PAGE_HEAD + 2 * (size_t)i), key_len;
    const char *n = page + at;

    if (at < page_u16(page + 12) || at + NODE_HEAD > page_bytes)
        return false;
    key_len = page_u16(n + 6);
    out->flags = page_u16(n + 4);
    out->size = page_u16(n) | (uint64_t)page_u16(n + 2) << 16;
    out->child = out->size | (uint64_t)out->flags << 32;
    out->key = (struct span){n + NODE_HEAD, key_len};
    out->data = n + NODE_HEAD + key_len;
    at += NODE_HEAD + key_len;
    if (leaf)
        at += out->size;
    return at <= page_bytes;
}

/* ---- searches ---- */

/* What searches touch all the time does not leave memory so soon; and an hour-glass is cheaper than a system call. */
#define HERE_NS (100 * UINT64_C(1000000))

struct path {
    struct index *x;
    uint64_t last_page;
    uint64_t came; /* it is in memory */
    uint64_t away; /* it is not */
};

#ifdef FB_TEST_HOOKS
bool (*index_resident_hook)(uint64_t page);
#endif

static bool
is_here(const struct index *x, uint64_t page)
{
#ifdef FB_TEST_HOOKS
    if (index_resident_hook != NULL)
        return !index_resident_hook(page);
#endif
    return rt_map_is_here((const char *)x->map + page * x->page_bytes, x->page_bytes);
}

/* One that many searches touch. */
static bool
was_here(struct index *x, uint64_t page)
{
    struct index_reader *mine = &x->readers[rt_loop_index()];
    uint64_t now_ns = rt_turn_ns();
    unsigned at = (unsigned)(page % HERE_CACHE);

    if (mine->here[at].page == page && now_ns < mine->here[at].until_ns)
        return true;
    if (!is_here(x, page))
        return false;
    mine->here[at].page = page;
    mine->here[at].until_ns = now_ns + HERE_NS;
    return true;
}

static enum index_resident
look_page(struct path *p, uint64_t number, unsigned kind, const char **out)
{
    bool here;

    *out = (const char *)p->x->map + number * p->x->page_bytes;
    if (number < FIRST_PAGE || number > p->last_page)
        return INDEX_PAGE_UNREADABLE;
    if (number == p->came)
        here = true;
    else
        here = kind == PAGE_BRANCH ? was_here(p->x, number) : is_here(p->x, number);
    p->away = number;
    if (!here)
        return INDEX_PAGE_ABSENT;
    return page_is(*out, number, kind) ? INDEX_PAGE_RESIDENT : INDEX_PAGE_UNREADABLE;
}

/* The last node whose key is not behind `key`: of a branch, of which the first key means nothing, that which leads to it. False: there is
 * none, or it lies outside of its page. */
static bool
node_before(const struct path *p, const char *page, bool leaf, struct span key,
            struct index_node *out)
{
    unsigned low = leaf ? 0 : 1, high;

    if (!page_count(page, p->x->page_bytes, &high))
        return false;
    while (low <
           high) { /* what is before `low` is not behind, what is from `high` on is */
        unsigned middle = low + (high - low) / 2;

        if (!page_node(page, p->x->page_bytes, middle, leaf, out))
            return false;
        if (span_cmp(out->key, key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && page_node(page, p->x->page_bytes, low - 1, leaf, out);
}

/* To the leaf where the key stands, or would. *leaf is NULL: the tree is empty. */
static enum index_resident
look_follow(struct path *p, const struct index_tree *t, struct span key,
            const char **leaf)
{
    uint64_t number = t->root;
    enum index_resident look = INDEX_PAGE_RESIDENT;

    *leaf = NULL;
    if (t->flags != 0 || t->depth > DEPTH_MAX || (t->depth == 0) != (t->root == NO_ROOT))
        return INDEX_PAGE_UNREADABLE;
    for (unsigned depth = t->depth; depth > 0 && look == INDEX_PAGE_RESIDENT; depth--) {
        struct index_node n;

        look = look_page(p, number, depth > 1 ? PAGE_BRANCH : PAGE_LEAF, leaf);
        if (look == INDEX_PAGE_RESIDENT && depth > 1) {
            if (!node_before(p, *leaf, false, key, &n))
                return INDEX_PAGE_UNREADABLE;
            number = n.child;
        }
    }
    return look;
}

/* The root of a table, from the state that the transaction reads: both metas are written in turn. */
static enum index_resident
find_root(struct path *p, MDB_txn *txn, unsigned db, struct index_tree *out)
{
    struct span name = span_of(index_db_names[db]);
    struct index_lmdb lmdb;
    struct index_node n;
    const char *leaf;
    enum index_resident look;

    memcpy(&lmdb,
           (const char *)p->x->map + (mdb_txn_id(txn) & 1) * p->x->page_bytes + PAGE_HEAD,
           sizeof lmdb);
    if (lmdb.txn != mdb_txn_id(txn) || lmdb.last_page >= p->x->map_len / p->x->page_bytes)
        return INDEX_PAGE_UNREADABLE;
    p->last_page = lmdb.last_page;
    look = look_follow(p, &lmdb.main, name, &leaf);
    if (look != INDEX_PAGE_RESIDENT)
        return look;
    if (leaf == NULL || !node_before(p, leaf, true, name, &n) || !span_eq(n.key, name) ||
        n.flags != NODE_TABLE || n.size != sizeof *out)
        return INDEX_PAGE_UNREADABLE;
    memcpy(out, n.data, sizeof *out);
    return INDEX_PAGE_RESIDENT;
}

enum index_resident
index_resident(struct index *x, MDB_txn *txn, unsigned db, const MDB_val *key,
               uint64_t *page)
{
    struct path p = {.x = x, .came = *page};
    struct index_tree tree;
    const char *leaf;
    enum index_resident look = find_root(&p, txn, db, &tree);

    assert(rt_on_loop() && db < DBS_);
    if (look == INDEX_PAGE_RESIDENT)
        look = look_follow(&p, &tree, (struct span){key->mv_data, key->mv_size}, &leaf);
    *page = p.away;
    return look;
}

enum index_resident
index_resident_begin(struct index *x, uint64_t *page)
{
    for (uint64_t meta = 0; meta < FIRST_PAGE; meta++)
        if (meta != *page && !was_here(x, meta)) {
            *page = meta;
            return INDEX_PAGE_ABSENT;
        }
    return INDEX_PAGE_RESIDENT;
}
