/* One version of an object, read from the disk never from the block cache. */

#include <assert.h>

#include "store/core/core.h"
#include "store/record/block.h"
#include "store/record/format.h"
#include "store/record/manifest.h"
#include "store/scrub/scrub.h"
#include "store/segment/read.h"
#include "store/store_entry.h"
#include "store/store_read.h"

#define STEP MIB(1)

static_assert(STEP % BLOCK_BYTES == 0, "a step is whole blocks");

/* A record of a log: header, block sums, content; the key too, where an entry says whose it is. */
static enum err
read_record(struct store *d, const struct store_key *k, const struct entry *entry,
            struct scrub_read *r, struct errbuf *eb)
{
    struct loaded l;
    enum err rc = read_log_record(d, entry, true, &l, eb);

    r->what = "a member of the log";
    if (rc == ERR_OK && (l.m.payload != entry->size || l.m.bucket != k->bucket ||
                         !span_eq(l.m.key, k->key))) {
        r->what = "the index entry names another object's place";
        rc = read_damage(d, entry, 0, eb);
    }
    if (rc == ERR_OK)
        rc = r->on_bytes(r->arg, l.m.head_len + l.m.payload);
    loaded_fini(&l);
    return rc;
}

/* Blocks [first, first + count) of an open body. */
static enum err
read_blocks(struct store *d, struct rt_file *f, const struct entry *entry, uint64_t first,
            uint64_t count, struct sums *sums, struct scrub_read *r, struct errbuf *eb)
{
    uint64_t from = first * BLOCK_BYTES,
             len = MIN(entry->size - from, count * BLOCK_BYTES), have;
    struct iobuf *b = NULL;
    const char *want;
    uint32_t skip;
    enum err rc = sums_get(f, entry, first, count, sums, &want, eb);

    assert(count > 0);
    assert(from < entry->size);
    assert(count * BLOCK_BYTES <= STEP);
    r->block = first;
    r->what = "block sums";
    if (rc != ERR_OK)
        return rc;
    r->what = "a block";
    rc = read_span(f, body_payload(entry) + from, len, DEADLINE_NEVER, &b, &skip, &have,
                   eb);
    if (rc == ERR_OK && have < len)
        rc = ERR_CORRUPT;
    if (rc == ERR_OK)
        rc = block_check(block_seed(d->cluster_sum, &entry->content, 0), first,
                         b->at + skip, len, want, &r->block);
    iobuf_drop(&b);
    return rc == ERR_OK ? r->on_bytes(r->arg, len) : rc;
}

static enum err
read_body(struct store *d, const struct entry *entry, struct scrub_read *r,
          struct errbuf *eb)
{
    uint64_t blocks = block_count(entry->size), step = STEP / BLOCK_BYTES;
    struct sums sums = {0};
    struct read_file f;
    enum err rc = read_file_open(d, entry, &f, eb);

    r->what = "the file of the body";
    if (rc != ERR_OK)
        return rc;
    for (uint64_t first = 0; rc == ERR_OK && first < blocks; first += step)
        rc = read_blocks(d, read_file_of(&f), entry, first, MIN(step, blocks - first),
                         &sums, r, eb);
    sums_fini(&sums);
    read_file_close(&f);
    return rc == ERR_CORRUPT ? read_damage(d, entry, r->block, eb) : rc;
}

static enum err
read_parts(struct store *d, const struct store_key *k, const struct entry *entry,
           struct scrub_read *r, struct errbuf *eb)
{
    struct manifest m = {0};
    enum err rc = manifest_load(d, entry, &m, eb);

    assert((entry->flags & ENTRY_PARTS) != 0);
    r->what = "the list of parts";
    for (uint32_t i = 0; rc == ERR_OK && i < m.count; i++) {
        const struct manifest_entry *e = &m.entries[i];
        struct entry part = {.flags = (entry->flags & ENTRY_CACHED) |
                                      (e->in_log ? ENTRY_INLINE : 0),
                             .content = e->content,
                             .size = e->size,
                             .place.segment = e->segment,
                             .place.offset = e->offset};

        r->part = e->number;
        rc = scrub_read_entry(d, k, &part, false, r, eb);
    }
    manifest_fini(&m);
    return rc;
}

enum err
scrub_read_entry(struct store *d, const struct store_key *k, const struct entry *entry,
                 bool with_meta, struct scrub_read *r, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(r->on_bytes != NULL);
    r->block = 0;
    if (with_meta) {
        struct arena *a = arena_new(KIB(4), MIB(1));
        struct object_meta meta;

        r->what = "the header";
        rc = store_meta(d, k, entry, a, &meta, eb);
        if (rc == ERR_OK)
            rc = r->on_bytes(r->arg, BODY_HEAD);
        arena_free(&a);
    }
    if (rc != ERR_OK)
        return rc;
    if ((entry->flags & ENTRY_PARTS) != 0)
        return read_parts(d, k, entry, r, eb);
    return (entry->flags & ENTRY_INLINE) != 0 ? read_record(d, k, entry, r, eb)
                                              : read_body(d, entry, r, eb);
}
