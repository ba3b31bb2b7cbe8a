/* The calls of disk.h that are one row or one record. */
#include "base/hash.h"
#include "disk/change.h"
#include "disk/commit.h"
#include "disk/flush.h"
#include "disk/health.h"
#include "disk/index.h"
#include "disk/list.h"
#include "disk/prepare.h"

enum err
disk_lookup(struct disk *d, const struct disk_key *k, struct row *out, struct errbuf *eb)
{
    enum err rc = health_may_read(d->health, eb), near = ERR_OK;

    if (rc != ERR_OK)
        return rc;
    rc = find_object(d->tail, d->index, k->bucket, k->key, false, out, eb);
    if (rc == ERR_NOT_FOUND)
        near = index_near(d->index, k->bucket, k->key, eb);
    if (near == ERR_CORRUPT) /* it may be there, under a key of which a bit changed */
        rc = near;
    else if (near == ERR_EXISTS) /* it came in between, or is a tombstone */
        rc = find_object(d->tail, d->index, k->bucket, k->key, false, out, eb);
    return prepared_count(d->prepared) == 0 ? rc : prepared_mark(d, k, rc, out, eb);
}

enum err
disk_delete(struct disk *d, const struct disk_key *k, enum disk_class class,
            const struct disk_condition *condition, bool *existed, struct errbuf *eb)
{
    struct commit c = {.kind = MEMBER_DELETE, .key = k, .condition = condition};
    enum err rc = commit_submit(d, class, &c, eb);

    *existed = rc == ERR_OK && c.existed;
    return rc;
}

enum err
disk_doubt(struct disk *d, const struct disk_key *k, struct errbuf *eb)
{
    struct commit c = {.kind = MEMBER_DOUBT, .key = k};

    return commit_submit(d, DISK_CACHED, &c, eb);
}

enum err
disk_doubt_clear(struct disk *d, const struct disk_key *k, struct errbuf *eb)
{
    struct commit c = {.kind = MEMBER_DOUBT_CLEAR, .key = k};

    return commit_submit(d, DISK_CACHED, &c, eb);
}

uint32_t
disk_doubts(struct disk *d, const struct disk_key *k)
{
    return atomic_load_explicit(doubts_of(d, run_key_hash(k->bucket, k->key)),
                                memory_order_relaxed);
}

enum err
disk_doubt_settle(struct disk *d, const struct disk_key *k, const struct version *version,
                  uint32_t doubts, struct errbuf *eb)
{
    struct disk_condition unchanged = {.if_version = true, .version = *version};
    struct commit c = {
        .kind = MEMBER_DOUBT_CLEAR, .key = k, .condition = &unchanged, .doubts = &doubts};

    return commit_submit(d, DISK_CACHED, &c, eb);
}

enum err
disk_bucket_note(struct disk *d, uint64_t bucket, struct span record, struct errbuf *eb)
{
    struct disk_key k = {.bucket = bucket};
    struct commit c = {.kind = MEMBER_BUCKET, .key = &k, .payload = record};

    if (record.len > BUCKET_NOTE_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "a bucket record of %zu bytes, at most %u",
                       record.len, BUCKET_NOTE_MAX);
    return commit_submit(d, DISK_NATIVE, &c, eb);
}

enum err
disk_list(struct disk *d, uint64_t bucket, struct span after, bool inclusive,
          uint32_t max, struct arena *a, struct disk_entry **out, uint32_t *count,
          bool *more, struct errbuf *eb)
{
    enum err rc = health_may_read(d->health, eb);

    if (rc == ERR_OK)
        rc = index_lists_all(d->index, eb);
    if (rc != ERR_OK)
        return rc;
    return list_objects(d->tail, d->index, bucket, after, inclusive, max, a, out, count,
                        more, eb);
}

enum err
disk_bucket_empty(struct disk *d, uint64_t bucket, bool *empty, struct errbuf *eb)
{
    enum err rc = health_may_read(d->health, eb);

    *empty = false;
    if (rc == ERR_OK)
        rc = index_lists_all(d->index, eb);
    if (rc != ERR_OK)
        return rc;
    return list_bucket_empty(d->tail, d->index, bucket, empty, eb);
}

struct settle {
    struct disk *disk;
    struct errbuf *eb;
    enum err rc;
};

static void
settle_on_home(void *arg)
{
    struct settle *s = arg;

    s->rc = flush_wait(s->disk, s->eb);
}

enum err
disk_settle(struct disk *d, struct errbuf *eb)
{
    struct settle s = {.disk = d, .eb = eb, .rc = ERR_CANCELLED};
    enum err rc = on_home(d, settle_on_home, &s);

    return rc == ERR_OK ? s.rc : rc;
}
