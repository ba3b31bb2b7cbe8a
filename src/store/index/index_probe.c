#include "store/index/index_probe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/index/entry.h"
#include "store/index/usage.h"

#define BUCKETS  64u /* that are looked at: a start is not to take long */
#define PREPARED 256u
/* An index of so much is verified as a whole, which takes some hundredths of a second. */
#ifndef FB_TEST_HOOKS
static const
#endif
    uint64_t index_probe_all_of = MIB(32);

struct probe {
    struct index *x;
    uint64_t buckets[BUCKETS]; /* that have objects */
    uint32_t count;
};

static void
probe_on_usage(void *arg, const struct index_usage *u)
{
    struct probe *p = arg;

    if (u->objects > 0 && !usage_is_of_older(u->bucket) && p->count < BUCKETS)
        p->buckets[p->count++] = u->bucket;
}

static void
probe_on_segment(void *arg, enum store_class class, uint32_t segment,
                 const struct index_segment *seen)
{
    (void)arg;
    (void)class;
    (void)segment;
    (void)seen;
}

/* Undecided versions: all of them, a page at a time. */
static enum err
probe_prepared(struct probe *p, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(2));
    struct scan scan = {.table = TABLE_PREPARED, .inclusive = true, .max = PREPARED};
    unsigned char after[sizeof(struct content_id)];
    struct page page = {.more = true};
    enum err rc = ERR_OK;

    while (rc == ERR_OK && page.more) {
        arena_reset(a);
        rc = index_scan(p->x, &scan, a, &page, eb);
        if (rc != ERR_OK || page.count == 0)
            break;
        scan.after = page.entries[page.count - 1].key;
        if (scan.after.len > sizeof after)
            rc = err_set(eb, ERR_CORRUPT, "the index: a prepared version has no id");
        else
            memcpy(after, scan.after.at, scan.after.len);
        scan.after.at = (char *)after;
        scan.inclusive = false;
    }
    arena_free(&a);
    return rc;
}

/* Its objects are counted in one place and lie in another: there must be one, and it must be itself. */
static enum err
probe_bucket(struct probe *p, uint64_t bucket, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(2));
    struct scan scan = {
        .table = TABLE_OBJECTS, .bucket = bucket, .inclusive = true, .max = 1};
    struct page page = {0};
    struct entry entry;
    enum err rc = index_scan(p->x, &scan, a, &page, eb);

    if ((rc == ERR_OK && page.count == 0) || rc == ERR_NOT_FOUND)
        rc = err_set(eb, ERR_CORRUPT,
                     "the index counts objects of bucket %" PRIu64
                     " and has no entry of it",
                     bucket);
    if (rc == ERR_OK) {
        struct entry_key where = {TABLE_OBJECTS, bucket, page.entries[0].key};

        if (entry_decode(&where, page.entries[0].value, &entry) != ERR_OK)
            rc = err_set(eb, ERR_CORRUPT,
                         "the first entry of bucket %" PRIu64
                         " in the index has a wrong sum",
                         bucket);
    }
    arena_free(&a);
    return rc;
}

/* For a server under test: so many bytes, and no more, are verified as a whole. */
static uint64_t
all_of(void)
{
#ifdef FB_TEST_HOOKS
    const char *text = getenv("FOREBAY_TEST_INDEX_WHOLE");

    if (text != NULL)
        return strtoull(text, NULL, 10);
#endif
    return index_probe_all_of;
}

enum err
index_probe(struct index *x, struct errbuf *eb)
{
    struct probe *p = xcalloc(1, sizeof *p);
    struct index_stat stat;
    enum err rc = ERR_OK;

    p->x = x;
    index_stat(x, &stat);
    if (stat.used_bytes <= all_of())
        rc = index_verify(x, NULL, NULL, eb);
    if (rc == ERR_OK)
        rc = index_usage(x, probe_on_usage, p, eb);
    if (rc == ERR_OK)
        rc = index_segments(x, probe_on_segment, p, eb);
    if (rc == ERR_OK)
        rc = probe_prepared(p, eb);
    for (uint32_t i = 0; rc == ERR_OK && i < p->count; i++)
        rc = probe_bucket(p, p->buckets[i], eb);
    free(p);
    return rc;
}
