#include "disk/known_fill.h"

#include <stdlib.h>
#include <string.h>

#include "disk/index.h"
#include "disk/known.h"
#include "disk/row.h"
#include "disk/run.h"

#define PAGE_KEYS   512u /* some 200 us of the loop */
#define PAGES       16u  /* of one call: an index of a million keys takes two minutes */
#define KEYS_MOST   (8u << 20) /* beyond, too many keys would be taken for met */
#define ARENA_BYTES MIB(1)

struct known_fill {
    struct disk *disk;
    struct arena *arena; /* owned */
    uint64_t bucket;     /* at hand, or where the next one is looked for */
    bool in_bucket;
    uint32_t after_len;
    char after[DISK_KEY_MAX]; /* the last key that was met of it */
};

struct known_fill *
known_fill_new(struct disk *d)
{
    struct known_fill *f;

    if (d->home.known == NULL || known_is_complete(d->home.known))
        return NULL;
    f = xcalloc(1, sizeof *f);
    f->disk = d;
    f->arena = arena_new(KIB(64), ARENA_BYTES);
    return f;
}

void
known_fill_free(struct known_fill **fp)
{
    struct known_fill *f = *fp;

    *fp = NULL;
    if (f == NULL)
        return;
    arena_free(&f->arena);
    free(f);
}

static bool
is_worth_it(struct index *x)
{
    struct index_stat stat;

    index_stat(x, &stat);
    return stat.resident && stat.objects <= KEYS_MOST;
}

/* A row's sum covers its key: under a damaged one another key would be learned, and the true one never. */
static enum err
add_page(struct known_fill *f, const struct page *page)
{
    for (uint32_t i = 0; i < page->count; i++) {
        const struct entry *e = &page->entries[i];
        struct row_home home = {TABLE_OBJECTS, e->bucket, e->key};
        struct row row;

        if (row_decode(&home, e->value, &row) != ERR_OK)
            return ERR_CORRUPT;
        known_add(f->disk->home.known, run_key_hash(e->bucket, e->key));
    }
    if (page->count > 0) {
        struct span last = page->entries[page->count - 1].key;

        f->after_len = (uint32_t)last.len;
        memcpy(f->after, last.at, last.len);
    }
    return ERR_OK;
}

/* ERR_NOT_FOUND: there is no bucket more. */
static enum err
next_bucket(struct known_fill *f)
{
    enum err rc = index_bucket(f->disk->index, f->bucket, &f->bucket, NULL);

    f->in_bucket = rc == ERR_OK;
    f->after_len = 0;
    return rc;
}

/* A key that comes between two pages is added by who puts it. */
static enum err
take_page(struct known_fill *f)
{
    struct scan s = {.table = TABLE_OBJECTS,
                     .bucket = f->bucket,
                     .after = {f->after, f->after_len},
                     .max = PAGE_KEYS};
    struct page page;
    enum err rc;

    arena_reset(f->arena);
    rc = index_scan(f->disk->index, &s, f->arena, &page, NULL);
    if (rc != ERR_OK)
        return rc;
    rc = add_page(f, &page);
    if (rc == ERR_OK && !page.more) {
        f->in_bucket = false;
        f->bucket++;
    }
    return rc;
}

bool
known_fill_some(struct known_fill *f)
{
    enum err rc = ERR_OK;

    if (!is_worth_it(f->disk->index))
        return true; /* it may be later, when it is resident */
    for (unsigned i = 0; i < PAGES && rc == ERR_OK; i++) {
        rc = f->in_bucket ? take_page(f) : next_bucket(f);
        rt_yield();
    }
    if (rc == ERR_NOT_FOUND)
        known_complete(f->disk->home.known);
    return rc == ERR_OK;
}
