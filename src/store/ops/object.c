/* The calls of store.h that concern one entry or one record. */
#include "base/hash.h"
#include "store/core/core.h"
#include "store/health/health.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/index/list.h"
#include "store/index/run.h"
#include "store/index/suspect.h"
#include "store/record/format.h"
#include "store/store_entry.h"
#include "store/store_write.h"
#include "store/wal/change.h"
#include "store/wal/commit.h"
#include "store/wal/flush.h"
#include "store/wal/prepared.h"
#include "store/wal/wal.h"

#include <assert.h>

enum err
store_lookup(struct store *d, const struct store_key *k, struct entry *out,
             struct errbuf *eb)
{
    enum err rc = health_may_read(d->health, eb), near = ERR_OK;

    if (rc != ERR_OK)
        return rc;
    rc = find_object(d->memtable, d->index, k->bucket, k->key, false, out, eb);
    if (rc == ERR_NOT_FOUND)
        near = index_near(d->index, k->bucket, k->key, eb);
    if (near == ERR_CORRUPT) /* it may exist under a key with a flipped bit */
        rc = near;
    else if (near == ERR_EXISTS) /* it was added in between, or is a tombstone */
        rc = find_object(d->memtable, d->index, k->bucket, k->key, false, out, eb);
    return prepared_count(d->prepared) == 0 ? rc : prepared_mark(d, k, rc, out, eb);
}

enum err
store_delete(struct store *d, const struct store_key *k, enum store_class class,
             const struct store_condition *condition, bool *existed, struct errbuf *eb)
{
    struct commit c = {.kind = LOG_RECORD_DELETE, .key = k, .condition = condition};
    enum err rc = commit_submit(d, class, &c, eb);

    assert(k->key.len > 0 && k->key.len <= STORE_KEY_MAX);
    *existed = rc == ERR_OK && c.existed;
    return rc;
}

enum err
store_in_doubt_begin(struct store *d, const struct store_key *k, struct errbuf *eb)
{
    struct commit c = {.kind = LOG_RECORD_IN_DOUBT, .key = k};

    assert(k->key.len > 0 && k->key.len <= STORE_KEY_MAX);
    return commit_submit(d, STORE_CACHED, &c, eb);
}

enum err
store_in_doubt_clear(struct store *d, const struct store_key *k, struct errbuf *eb)
{
    struct commit c = {.kind = LOG_RECORD_IN_DOUBT_CLEAR, .key = k};

    assert(k->key.len > 0 && k->key.len <= STORE_KEY_MAX);
    return commit_submit(d, STORE_CACHED, &c, eb);
}

uint32_t
store_in_doubt_count(struct store *d, const struct store_key *k)
{
    return atomic_load_explicit(in_doubt_of(d, run_key_hash(k->bucket, k->key)),
                                memory_order_relaxed);
}

enum err
store_in_doubt_resolve(struct store *d, const struct store_key *k,
                       const struct version *version, uint32_t in_doubt,
                       struct errbuf *eb)
{
    struct store_condition unchanged = {.if_version = true, .version = *version};
    struct commit c = {.kind = LOG_RECORD_IN_DOUBT_CLEAR,
                       .key = k,
                       .condition = &unchanged,
                       .of.in_doubt.count = &in_doubt};

    assert(k->key.len > 0 && k->key.len <= STORE_KEY_MAX);
    return commit_submit(d, STORE_CACHED, &c, eb);
}

enum err
store_bucket_note(struct store *d, uint64_t bucket, struct span record, struct errbuf *eb)
{
    struct store_key k = {.bucket = bucket};
    struct commit c = {.kind = LOG_RECORD_BUCKET, .key = &k, .payload = record};

    assert(record.len <= BUCKET_NOTE_MAX);
    if (record.len > BUCKET_NOTE_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "a bucket record of %zu bytes, at most %u",
                       record.len, BUCKET_NOTE_MAX);
    return commit_submit(d, STORE_NATIVE, &c, eb);
}

enum err
store_list(struct store *d, uint64_t bucket, struct span after, bool inclusive,
           uint32_t max, struct arena *a, struct store_entry **out, uint32_t *count,
           bool *more, struct errbuf *eb)
{
    enum err rc = health_may_read(d->health, eb);

    if (rc == ERR_OK)
        rc = index_lists_all(d->index, eb);
    if (rc == ERR_OK && suspects_any(d->suspects))
        rc = suspects_verify_list(d->suspects, suspect_bucket(bucket), eb);
    if (rc != ERR_OK)
        return rc;
    return list_objects(d->memtable, d->index, bucket, after, inclusive, max, a, out,
                        count, more, eb);
}

bool
store_list_lacks(const struct store *d, uint64_t bucket)
{
    if (!suspects_any(d->suspects))
        return false;
    return bucket == 0 ||
           suspects_verify_list(d->suspects, suspect_bucket(bucket), NULL) != ERR_OK;
}

bool
store_key_is_suspect(const struct store *d, const struct store_key *k)
{
    assert(k->key.len > 0);
    return suspects_any(d->suspects) && !d->suspects->all &&
           suspects_has(d->suspects, run_key_hash(k->bucket, k->key));
}

enum err
store_bucket_empty(struct store *d, uint64_t bucket, bool *empty, struct errbuf *eb)
{
    enum err rc = health_may_read(d->health, eb);

    *empty = false;
    if (rc == ERR_OK)
        rc = index_lists_all(d->index, eb);
    if (rc == ERR_OK && suspects_any(d->suspects))
        rc = suspects_verify_list(d->suspects, suspect_bucket(bucket), eb);
    if (rc != ERR_OK)
        return rc;
    return list_bucket_empty(d->memtable, d->index, bucket, empty, eb);
}

struct flush_job {
    struct store *disk;
    struct errbuf *eb;
    enum err rc;
};

static void
flush_on_owner(void *arg)
{
    struct flush_job *s = arg;

    s->rc = flush_wait(s->disk, s->eb);
}

enum err
store_flush(struct store *d, struct errbuf *eb)
{
    struct flush_job s = {.disk = d, .eb = eb, .rc = ERR_CANCELLED};
    enum err rc = on_owner_loop(d, flush_on_owner, &s);

    return rc == ERR_OK ? s.rc : rc;
}
