/* Tombstones that other replicas must receive, and look-ups of keys beyond the live entries. */

#include "store/core/core.h"
#include "store/health/health.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/index/list.h"
#include "store/store_entry.h"
#include "store/store_replica.h"
#include "store/wal/commit.h"
#include "store/wal/prepared.h"

#include <assert.h>

enum err
store_lookup_any(struct store *d, const struct store_key *k, struct entry *out,
                 struct errbuf *eb)
{
    enum err rc = health_may_read(d->health, eb);

    if (rc == ERR_OK)
        rc = find_object(d->memtable, d->index, k->bucket, k->key, true, out, eb);
    /* A tombstone that is not kept exists only until the next index commit. */
    if (rc == ERR_OK && (out->flags & ENTRY_TOMBSTONE) != 0 &&
        (out->flags & (ENTRY_KEPT | ENTRY_MARKER)) == 0)
        rc = ERR_NOT_FOUND;
    if (rc == ERR_NOT_FOUND)
        *out = (struct entry){0};
    return prepared_count(d->prepared) == 0 ? rc : prepared_mark(d, k, rc, out, eb);
}

enum err
store_list_any(struct store *d, uint64_t bucket, struct span after, bool inclusive,
               uint32_t max, struct arena *a, struct store_entry **out, uint32_t *count,
               bool *more, struct errbuf *eb)
{
    enum err rc = health_may_read(d->health, eb);

    if (rc == ERR_OK)
        rc = index_lists_all(d->index, eb);
    if (rc != ERR_OK)
        return rc;
    return list_objects_any(d->memtable, d->index, bucket, after, inclusive, max, a, out,
                            count, more, eb);
}

enum err
store_delete_with(struct store *d, const struct store_key *k,
                  const struct store_delete_options *o, struct store_deleted *out,
                  struct errbuf *eb)
{
    struct object_meta stamp = {.mtime_ms = o->now_ms};
    struct commit c = {.kind =
                           o->keep_tombstone ? LOG_RECORD_TOMBSTONE : LOG_RECORD_DELETE,
                       .key = k,
                       .condition = o->condition,
                       .meta = o->keep_tombstone ? &stamp : NULL,
                       .of.tombstone.always = o->always && o->keep_tombstone};
    enum err rc;

    assert(k->key.len > 0 && k->key.len <= STORE_KEY_MAX);
    *out = (struct store_deleted){0};
    if (o->version != NULL)
        c.version = *o->version;
    rc = commit_submit(d, STORE_NATIVE, &c, eb);
    if (rc == ERR_OK)
        *out = (struct store_deleted){.existed = c.existed, .version = c.entry.version};
    return rc;
}

enum err
store_tombstone_drop(struct store *d, const struct store_key *k, const struct version *v,
                     struct errbuf *eb)
{
    struct commit c = {.kind = LOG_RECORD_TOMBSTONE_END, .key = k, .version = *v};

    assert(k->key.len > 0 && k->key.len <= STORE_KEY_MAX);
    return commit_submit(d, STORE_NATIVE, &c, eb);
}
