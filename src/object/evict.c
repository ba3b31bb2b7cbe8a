#include "object/evict.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "object/chunks.h"
#include "object/internal.h"
#include "object/tier.h"
#include "rt/fiber.h"
#include "rt/point.h"

#define PAGE  256u
#define HANDS 16u /* fibers at a time, so that they share a sync */

struct page {
    struct object_service *s;
    const struct map_bucket *bucket;
    uint64_t space; /* the bucket's id, or that of its chunks */
    struct object_evicting *e;
    struct store_entry *entries;
    uint32_t count, next;
    enum err rc;
    struct errbuf *eb;
};

static bool
is_retained(const struct page *p, const struct store_entry *e)
{
    return (e->entry.flags & ENTRY_CACHED) == 0 ||
           (e->entry.flags & ENTRY_IN_DOUBT) != 0 || tier_is_pinned(p->bucket, e->key);
}

static void
evict_worker(void *arg)
{
    struct page *p = arg;

    while (p->rc == ERR_OK && p->next < p->count) {
        const struct store_entry *e = &p->entries[p->next++];
        struct errbuf eb = {{0}};
        enum err rc;

        if (is_retained(p, e)) {
            p->e->kept += !p->e->chunks;
            continue;
        }
        rc = disks_evict_one(p->s->options.disks, p->space, e->key, &e->entry, &eb);
        if (rc == ERR_OK) {
            p->e->objects += !p->e->chunks;
            p->e->bytes += e->entry.size;
            if ((e->entry.flags & ENTRY_CHUNKS) != 0)
                tier_sweep(p->s);
        } else if (p->rc == ERR_OK) {
            p->rc = rc;
            *p->eb = eb;
        }
    }
}

/* The number of entries with the prefix: the list is in order. */
static uint32_t
count_with_prefix(const struct page *p)
{
    struct span prefix = p->e->prefix;
    uint32_t n = 0;

    assert(p->count <= PAGE);
    while (n < p->count && p->entries[n].key.len >= prefix.len &&
           memcmp(p->entries[n].key.at, prefix.at, prefix.len) == 0)
        n++;
    return n;
}

static enum err
evict_run(struct page *p)
{
    struct rt_group group;

    assert(p->count <= MAX(PAGE, OBJECT_EVICT_NAMES));
    assert(p->next == 0);
    rt_group_begin(&group);
    for (unsigned i = 1; i < HANDS && i < p->count; i++)
        if (rt_group_start(&group, evict_worker, p) != ERR_OK)
            break; /* fewer fibers do the same work */
    evict_worker(p);
    rt_group_join(&group);
    return p->rc;
}

enum err
object_evict_page(struct object_service *s, const struct map_bucket *b,
                  struct object_evicting *e, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    struct page p = {.s = s,
                     .bucket = b,
                     .space = e->chunks ? chunk_space(b->id) : b->id,
                     .e = e,
                     .rc = ERR_OK,
                     .eb = eb};
    struct span after = e->begun ? (struct span){e->after, e->after_len} : e->prefix;
    uint32_t listed;
    bool more = false;

    assert(!e->over);
    assert(e->after_len <= sizeof e->after);
    assert(b->cached);
    p.rc = disks_list(s->options.disks, p.space, 1, after, !e->begun, PAGE, a, &p.entries,
                      &p.count, &more, eb);
    e->begun = true;
    if (p.rc == ERR_OK) {
        listed = p.count;
        p.count = count_with_prefix(&p);
        e->over = !more || p.count < listed;
        (void)!evict_run(&p);
        POINT(EVICT_PAGE);
    }
    if (p.rc == ERR_OK && p.count > 0) {
        struct span last = p.entries[p.count - 1].key;

        assert(last.len <= sizeof e->after);
        memcpy(e->after, last.at, last.len);
        e->after_len = last.len;
    }
    if (p.rc == ERR_OK && e->over && !e->chunks) {
        e->chunks = true;
        e->begun = e->over = false;
    }
    arena_free(&a);
    return p.rc;
}

enum err
object_evict_names(struct object_service *s, const struct map_bucket *b,
                   const struct span *keys, uint32_t count, struct object_evicting *e,
                   struct errbuf *eb)
{
    struct page p = {.s = s, .bucket = b, .space = b->id, .e = e, .rc = ERR_OK, .eb = eb};

    assert(b->cached);
    assert(count <= OBJECT_EVICT_NAMES);
    p.entries = xcalloc(count + 1, sizeof *p.entries);
    for (uint32_t i = 0; p.rc == ERR_OK && i < count; i++) {
        struct store_entry *to = &p.entries[p.count];
        struct disks_key k = object_disk_key(b, keys[i]);

        if (keys[i].len == 0 || keys[i].len > STORE_KEY_MAX) {
            e->absent++;
            continue;
        }
        p.rc = disks_lookup(s->options.disks, &k, &to->entry, eb);
        to->key = keys[i];
        p.count += p.rc == ERR_OK;
        if (p.rc == ERR_NOT_FOUND) {
            p.rc = ERR_OK;
            e->absent++;
        }
    }
    if (p.rc == ERR_OK && p.count > 0)
        (void)!evict_run(&p);
    POINT(EVICT_PAGE);
    free(p.entries);
    return p.rc;
}
