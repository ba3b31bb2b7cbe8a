/* The calls of store_version.h. */
#include "base/log.h"
#include "store/core/core.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/index/list.h"
#include "store/index/suspect.h"
#include "store/record/format.h"
#include "store/record/manifest.h"
#include "store/segment/read.h"
#include "store/store_entry.h"
#include "store/store_read.h"
#include "store/wal/change.h"
#include "store/wal/change_version.h"
#include "store/wal/commit.h"
#include "store/wal/precondition_version.h"

#include <assert.h>

enum err
store_version_find(struct store *d, const struct store_key *k, const struct version *born,
                   struct entry *out, bool *current, struct errbuf *eb)
{
    enum err rc = find_object(d->memtable, d->index, k->bucket, k->key, true, out, eb);
    struct version now;

    *current = false;
    if (rc != ERR_OK)
        return rc;
    now = entry_born(out);
    *current = entry_is_version(out) &&
               (born != NULL ? version_cmp(&now, born) == 0 : entry_is_null_version(out));
    if (*current)
        return ERR_OK;
    if (born != NULL)
        return find_version(d->memtable, d->index, k->bucket, k->key, born, out, eb);
    return find_null_version(d->memtable, d->index, k->bucket, k->key, out, eb);
}

enum err
store_condition_check(const struct store_condition *c, const struct entry *entry,
                      struct errbuf *eb)
{
    return precondition_check_condition(c, entry_is_object(entry), entry, eb);
}

static enum err
version_submit(struct store *d, struct commit *c, const struct version *as,
               struct errbuf *eb)
{
    if (as != NULL)
        c->version = *as;
    return commit_submit(d, STORE_NATIVE, c, eb);
}

enum err
store_version_delete(struct store *d, const struct store_key *k,
                     const struct version *born, const struct store_condition *condition,
                     const struct version *as, struct entry *was,
                     struct version *committed, struct errbuf *eb)
{
    struct object_meta stamped = {0};
    struct commit c = {.kind = LOG_RECORD_VERSION_DELETE,
                       .key = k,
                       .condition = condition,
                       .of.version = {.which = born, .stamped = &stamped}};
    enum err rc = version_submit(d, &c, as, eb);

    assert(k->key.len > 0 && k->key.len <= STORE_KEY_MAX);
    if (rc == ERR_OK && was != NULL)
        *was = c.of.version.was;
    if (rc == ERR_OK && committed != NULL)
        *committed = c.committed;
    return rc;
}

enum err
store_version_list(struct store *d, uint64_t bucket, struct span after_key,
                   bool inclusive, const struct version *after, uint32_t max,
                   struct arena *a, struct store_version **out, uint32_t *count,
                   bool *more, struct errbuf *eb)
{
    enum err rc = index_lists_all(d->index, eb);

    if (rc == ERR_OK && suspects_any(d->suspects))
        rc = suspects_verify_list(d->suspects, suspect_bucket(bucket), eb);
    if (rc != ERR_OK)
        return rc;
    return list_versions(d->memtable, d->index, bucket, after_key, inclusive, after, max,
                         a, out, count, more, eb);
}

static enum err
version_mark(struct store *d, struct commit *c, const struct version *as,
             struct entry *marker, struct errbuf *eb)
{
    enum err rc = version_submit(d, c, as, eb);

    if (rc == ERR_OK && marker != NULL)
        *marker = c->entry;
    return rc;
}

enum err
store_delete_mark(struct store *d, const struct store_key *k,
                  enum store_versioning versioning,
                  const struct store_condition *condition, const struct version *as,
                  struct entry *marker, struct errbuf *eb)
{
    struct object_meta stamp = {.mtime_ms = (int64_t)(rt_wall_ns() / 1000000),
                                .versioning = (uint8_t)versioning};
    struct commit c = {
        .kind = LOG_RECORD_DELETE, .key = k, .condition = condition, .meta = &stamp};

    assert(k->key.len > 0 && k->key.len <= STORE_KEY_MAX);
    if (as != NULL && marker != NULL && (marker->flags & ENTRY_MARKER) != 0) {
        stamp.mtime_ms = marker->mtime_ms;
        c.born = marker->born;
    }
    return version_mark(d, &c, as, marker, eb);
}

enum err
store_set_meta(struct store *d, const struct store_key *k, const struct version *born,
               const struct object_meta *meta, const struct store_condition *condition,
               const struct version *as, struct entry *out, struct errbuf *eb)
{
    struct object_meta stamped = *meta;
    struct commit c = {
        .kind = LOG_RECORD_META,
        .key = k,
        .condition = condition,
        .meta = &stamped,
        .of.version = {.which = born, .current = born == NULL, .stamped = &stamped}};
    enum err rc = meta_check(meta, eb);

    assert(k->key.len > 0 && k->key.len <= STORE_KEY_MAX);
    if (rc == ERR_OK)
        rc = version_submit(d, &c, as, eb);
    if (rc == ERR_OK && out != NULL)
        *out = c.entry;
    return rc;
}

static struct span
sum_in(struct arena *a, const struct manifest *m, uint32_t index)
{
    struct span sum = manifest_sum(m, index);
    char *copy = sum.len > 0 ? arena_try(a, sum.len) : NULL;

    if (copy == NULL)
        return (struct span){"", 0}; /* treated as unknown */
    memcpy(copy, sum.at, sum.len);
    return (struct span){copy, sum.len};
}

enum err
store_object_parts(struct store *d, const struct entry *entry, struct arena *a,
                   struct store_object_part **out, uint32_t *count, struct errbuf *eb)
{
    struct manifest m;
    enum err rc = manifest_load(d, entry, &m, eb);

    *count = 0;
    if (rc != ERR_OK)
        return rc;
    *out = arena_try(a, m.count * sizeof **out);
    if (*out == NULL)
        rc = err_set(eb, ERR_BUSY, "no memory to list %u parts", m.count);
    for (uint32_t i = 0; rc == ERR_OK && i < m.count; i++) {
        struct store_object_part *p = &(*out)[(*count)++];

        *p = (struct store_object_part){.number = m.entries[i].number,
                                        .offset = m.entries[i].at,
                                        .size = m.entries[i].size,
                                        .content = m.entries[i].content,
                                        .checksum_algorithm = m.sum_algorithm,
                                        .checksum = sum_in(a, &m, i)};
        memcpy(p->md5, m.entries[i].md5, sizeof p->md5);
    }
    manifest_fini(&m);
    return rc;
}
