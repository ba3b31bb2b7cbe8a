#include "store/index/key_filter_fill.h"

#include "store/core/core.h"
#include "store/index/entry.h"
#include "store/index/index.h"
#include "store/index/key_filter.h"
#include "store/index/memtable.h"
#include "store/index/run.h"
#include "store/record/keys.h"
#include "store/store_entry.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_KEYS   512u /* some 200 us of the loop */
#define PAGES       16u  /* of one call: an index of a million keys takes two minutes */
#define KEYS_MOST   (8u << 20) /* beyond, too many keys would be taken for met */
#define ARENA_BYTES MIB(1)

struct key_filter_fill {
    struct store *disk;
    struct arena *arena; /* owned */
    uint64_t bucket;     /* at hand, or where the next one is looked for */
    bool in_bucket;
    uint32_t after_len;
    char after[STORE_KEY_MAX]; /* the last key that was met of it */
};

struct key_filter_fill *
key_filter_fill_new(struct store *d)
{
    struct key_filter_fill *f;

    if (d->key_filter == NULL || key_filter_is_complete(d->key_filter))
        return NULL;
    f = xcalloc(1, sizeof *f);
    f->disk = d;
    f->arena = arena_new(KIB(64), ARENA_BYTES);
    return f;
}

void
key_filter_fill_free(struct key_filter_fill **fp)
{
    struct key_filter_fill *f = *fp;

    *fp = NULL;
    if (f == NULL)
        return;
    arena_free(&f->arena);
    free(f);
}

static bool
fill_is_worth_it(struct index *x)
{
    struct index_stat stat;

    index_stat(x, &stat);
    return stat.resident && stat.objects <= KEYS_MOST;
}

/* An entry's sum covers its key: under a damaged one another key would be learned, and the true one never. */
static enum err
fill_add_page(struct key_filter_fill *f, const struct page *page)
{
    for (uint32_t i = 0; i < page->count; i++) {
        const struct coded_entry *e = &page->entries[i];
        struct entry_key where = {TABLE_OBJECTS, e->bucket, e->key};
        struct entry entry;

        if (entry_decode(&where, e->value, &entry) != ERR_OK)
            return ERR_CORRUPT;
        key_filter_add(f->disk->key_filter, run_key_hash(e->bucket, e->key));
    }
    assert(page->count <= PAGE_KEYS);
    if (page->count > 0) {
        struct span last = page->entries[page->count - 1].key;

        assert(last.len <= sizeof f->after);
        f->after_len = (uint32_t)last.len;
        memcpy(f->after, last.at, last.len);
    }
    return ERR_OK;
}

/* ERR_NOT_FOUND: there is no bucket more. */
static enum err
fill_next_bucket(struct key_filter_fill *f)
{
    enum err rc = index_bucket(f->disk->index, f->bucket, &f->bucket, NULL);

    f->in_bucket = rc == ERR_OK;
    f->after_len = 0;
    return rc;
}

/* A key that comes between two pages is added by who puts it. */
static enum err
fill_take_page(struct key_filter_fill *f)
{
    struct scan s = {.table = TABLE_OBJECTS,
                     .bucket = f->bucket,
                     .after = {f->after, f->after_len},
                     .max = PAGE_KEYS};
    struct page page;
    enum err rc;

    assert(f->in_bucket);
    arena_reset(f->arena);
    rc = index_scan(f->disk->index, &s, f->arena, &page, NULL);
    if (rc != ERR_OK)
        return rc;
    rc = fill_add_page(f, &page);
    if (rc == ERR_OK && !page.more) {
        f->in_bucket = false;
        f->bucket++;
    }
    return rc;
}

bool
key_filter_fill_some(struct key_filter_fill *f)
{
    enum err rc = ERR_OK;

    if (!fill_is_worth_it(f->disk->index))
        return true; /* it may be later, when it is resident */
    for (unsigned i = 0; i < PAGES && rc == ERR_OK; i++) {
        rc = f->in_bucket ? fill_take_page(f) : fill_next_bucket(f);
        rt_yield();
    }
    if (rc == ERR_NOT_FOUND)
        key_filter_complete(f->disk->key_filter);
    return rc == ERR_OK;
}
