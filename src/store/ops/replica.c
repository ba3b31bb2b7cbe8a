/* Writes and removes this disk's copy of a version that was committed elsewhere. */
#include "store/core/core.h"
#include "store/index/list.h"
#include "store/ops/writer.h"
#include "store/record/format.h"
#include "store/store_entry.h"
#include "store/store_replica.h"
#include "store/wal/commit.h"
#include <assert.h>

enum err
store_commit_replica(struct store_writer **wp, const struct object_meta *meta,
                     const struct entry *entry, struct errbuf *eb)
{
    struct commit c = {.version = entry->version, .born = entry->born};

    assert(*wp != NULL);
    assert(content_eq(store_writer_content(*wp), &entry->content));
    return writer_submit(wp, meta, &c, eb);
}

enum err
store_drop_replica(struct store *d, const struct store_key *k, const struct version *v,
                   struct errbuf *eb)
{
    struct commit c = {.kind = LOG_RECORD_OBSOLETE, .key = k, .version = *v};

    assert(k->key.len > 0 && k->key.len <= STORE_KEY_MAX);
    return commit_submit(d, STORE_NATIVE, &c, eb);
}

/* ---- prepared versions ---- */

enum err
store_prepare(struct store_writer **wp, const struct object_meta *meta,
              const struct coordinator *by, struct errbuf *eb)
{
    struct commit c = {.kind = LOG_RECORD_PREPARE};

    if (by != NULL)
        c.of.upload.coordinator = *by;

    assert(*wp != NULL);
    assert(meta != NULL);
    return writer_submit(wp, meta, &c, eb);
}

enum err
store_commit_prepared(struct store *d, const struct store_key *k,
                      const struct content_id *content, const struct version *v,
                      struct errbuf *eb)
{
    struct commit c = {
        .kind = LOG_RECORD_COMMIT_PREPARED, .key = k, .content = *content, .version = *v};

    assert(k->key.len > 0 && k->key.len <= STORE_KEY_MAX);
    return commit_submit(d, STORE_NATIVE, &c, eb);
}

enum err
store_abort_prepared(struct store *d, const struct store_key *k,
                     const struct content_id *content, struct errbuf *eb)
{
    struct commit c = {.kind = LOG_RECORD_ABORT_PREPARED, .key = k, .content = *content};

    assert(k->key.len > 0 && k->key.len <= STORE_KEY_MAX);
    return commit_submit(d, STORE_NATIVE, &c, eb);
}

enum err
store_prepared(struct store *d, const struct content_id *after, uint32_t max,
               struct arena *a, struct store_prepared **out, uint32_t *count, bool *more,
               struct errbuf *eb)
{
    return list_prepared(d->memtable, d->index, after, max, a, out, count, more, eb);
}
