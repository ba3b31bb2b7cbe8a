#include "api/response_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "rt/bigmem.h"
#include "rt/loop.h"

#define WAYS  8u
#define SHARE 8u /* all loops together take at most 1/SHARE of the block cache's bytes */
#define BYTES_MOST                                                                       \
    MIB(16)        /* each loop: a hit in more than that waits for memory anyway */
#define LINE  64u  /* of the CPU's cache */
#define USUAL 512u /* bytes of a cached response that each GET reads */

/* One line of the CPU's cache. */
struct set {
    uint32_t tags[WAYS]; /* 0: unused */
    uint32_t next;       /* next way to evict */
    uint32_t unused[7];
};
static_assert(sizeof(struct set) == LINE, "a look-up waits for one line");

struct table {
    struct set *sets;                /* owned */
    struct cached_response *entries; /* owned; WAYS a set */
};
struct response_cache {
    uint64_t set_mask;
    unsigned loops;
    struct table at[]; /* by rt_loop_index(); allocated at its first use */
};

/* The position of a response in the table. */
struct spot {
    struct set *set;
    struct cached_response *entries; /* of the set */
    uint32_t tag;
};

struct response_cache *
response_cache_new(uint64_t block_cache_bytes)
{
    unsigned loops = rt_loop_count();
    uint64_t most = MIN(block_cache_bytes / SHARE / loops, BYTES_MOST) /
                    (WAYS * sizeof(struct cached_response));
    struct response_cache *c;
    uint64_t sets = 1;

    if (most == 0)
        return NULL;
    while (2 * sets <= most)
        sets *= 2;
    c = xcalloc(1, sizeof *c + loops * sizeof c->at[0]);
    c->set_mask = sets - 1;
    c->loops = loops;
    return c;
}

static size_t
sets_bytes(const struct response_cache *c)
{
    return (c->set_mask + 1) * sizeof(struct set);
}

static size_t
entries_bytes(const struct response_cache *c)
{
    return (c->set_mask + 1) * WAYS * sizeof(struct cached_response);
}

void
response_cache_free(struct response_cache **cp)
{
    struct response_cache *c = *cp;

    *cp = NULL;
    for (unsigned i = 0; c != NULL && i < c->loops; i++) {
        bigmem_free(c->at[i].sets, sets_bytes(c));
        bigmem_free(c->at[i].entries, entries_bytes(c));
    }
    free(c);
}

static uint64_t
hash_name(const struct http_head *h)
{
    return hash_xxh3(h->target.at, h->target.len, hash_xxh3(h->host.at, h->host.len, 0));
}

/* False: the table of this loop is not allocated yet. */
static bool
find_spot(struct response_cache *c, const struct http_request *http, struct spot *out)
{
    struct table *t = &c->at[rt_loop_index()];
    uint64_t hash = http->handler_hash != 0 ? http->handler_hash : hash_name(http->head);

    assert((c->set_mask & (c->set_mask + 1)) == 0);
    assert((t->sets == NULL) == (t->entries == NULL));
    if (t->sets == NULL)
        return false;
    out->set = &t->sets[hash & c->set_mask];
    out->entries = &t->entries[(hash & c->set_mask) * WAYS];
    out->tag = (uint32_t)(hash >> 32) | 1;
    return true;
}

static bool
is_named(const struct cached_response *k, const struct http_head *h)
{
    return k->host_len == h->host.len && k->target_len == h->target.len &&
           memcmp(k->text, h->host.at, h->host.len) == 0 &&
           memcmp(k->text + k->host_len, h->target.at, h->target.len) == 0;
}

/* Prefetches all lines at once, so their cache misses overlap. */
static void
prefetch_response(const struct cached_response *k)
{
    for (size_t at = 0; at < USUAL; at += LINE)
        __builtin_prefetch((const char *)k + at);
}

/* The next response with that tag from `way` on; NULL: there is none. */
static struct cached_response *
next_tagged(const struct spot *at, unsigned *way)
{
    while (*way < WAYS && at->set->tags[*way] != at->tag)
        ++*way;
    return *way < WAYS ? &at->entries[(*way)++] : NULL;
}

struct cached_response *
response_cache_find(struct response_cache *c, const struct http_request *http)
{
    struct cached_response *k;
    unsigned way = 0;
    struct spot at;

    if (c == NULL || !find_spot(c, http, &at))
        return NULL;
    while ((k = next_tagged(&at, &way)) != NULL) {
        prefetch_response(k);
        if (is_named(k, http->head))
            return k;
    }
    return NULL;
}

struct cached_response *
response_cache_place(struct response_cache *c, const struct http_request *http)
{
    struct table *t = &c->at[rt_loop_index()];
    struct cached_response *k = response_cache_find(c, http);
    unsigned way = 0;
    struct spot at;

    if (k != NULL)
        return k;
    if (t->sets == NULL) {
        t->sets = bigmem_new(sets_bytes(c));
        t->entries = bigmem_new(entries_bytes(c));
    }
    if (!find_spot(c, http, &at))
        return NULL;
    while (way < WAYS && at.set->tags[way] != 0)
        way++;
    if (way == WAYS)
        way = at.set->next++ % WAYS;
    at.set->tags[way] = at.tag;
    return &at.entries[way];
}

/* Step by step: the set, the response, the object it refers to. Each step reads memory that the previous one prefetched. */
void
response_cache_prefetch(const struct api *a, struct http_request *http, unsigned step)
{
    const struct cached_response *k;
    unsigned way = 0;
    struct spot at;

    if (step == 0)
        http->handler_hash = hash_name(http->head);
    if (a->responses == NULL || !find_spot(a->responses, http, &at))
        return;
    if (step == 0)
        __builtin_prefetch(at.set);
    else if ((k = next_tagged(&at, &way)) == NULL)
        return;
    else if (step == 1)
        prefetch_response(k);
    else
        object_revalidated_prefetch(a->options.object, &k->object);
}
