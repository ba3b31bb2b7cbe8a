/* index_page: how LMDB lays out pages (data format 1, in the order of this machine's bytes). Inside of index*.c.
 *
 *     page   u64 number | u16 - | u16 flags | u16 end of the places, u16 begin of the nodes (or u32 pages) | u16 places
 *     node   u16, u16 size of the data, low and high (branch: with the flags, the child) | u16 flags | u16 size of the key | key | data
 *
 * Nothing is read before it is known to lie within its page.
 */
#pragma once
#include <assert.h>
#include <string.h>

#include "store/index/index_internal.h"

#define PAGE_HEAD  16u
#define NODE_HEAD  8u
#define DEPTH_MAX  32u /* LMDB's */
#define FIRST_PAGE 2u  /* behind both metas */
enum { PAGE_BRANCH = 1, PAGE_LEAF = 2, PAGE_OVERFLOW = 4, PAGE_KINDS = 0x6f };
enum { NODE_BIG = 1, NODE_TABLE = 2 };
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

static inline uint16_t
page_u16(const char *at)
{
    uint16_t out;

    memcpy(&out, at, sizeof out);
    return out;
}

static inline uint64_t
page_u64(const char *at)
{
    uint64_t out;

    memcpy(&out, at, sizeof out);
    return out;
}

static inline bool
page_is(const char *page, uint64_t number, unsigned kind)
{
    return page_u64(page) == number && (page_u16(page + 10) & PAGE_KINDS) == kind;
}

/* False: it has fewer than `least` nodes, or more than fit into it. */
static inline bool
page_count(const char *page, size_t page_bytes, unsigned least, unsigned *out)
{
    unsigned end = page_u16(page + 12);

    *out = end < PAGE_HEAD ? 0 : (end - PAGE_HEAD) / 2u;
    return end >= PAGE_HEAD && end <= page_bytes && *out >= least;
}

static inline bool
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
        at += (out->flags & NODE_BIG) != 0 ? 8 : out->size;
    return at <= page_bytes;
}
