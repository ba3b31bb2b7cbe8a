/* What a batch changes in the index's counts: the tally of its pairs, living and dead bytes of segments, objects of buckets. */
#include <assert.h>

#include "base/mem.h"
#include "store/index/entry.h"
#include "store/index/index.h"
#include "store/index/index_internal.h"
#include "store/index/index_writer.h"
#include "store/index/run.h"
#include "store/store_entry.h"

/* ---- the tally, and pairs by their key ---- */

int
index_put_pair(struct index_writer *w, unsigned db, MDB_val *key, const MDB_val *before,
               MDB_val *value)
{
    assert(db < DBS_ && db != DB_META);
    assert(w->x->dbi[db] != NO_DBI);
    if (before != NULL)
        index_tally_goes(w, db, key, index_pair_sum(db, key, before));
    index_tally_comes(w, db, key, index_pair_sum(db, key, value));
    return mdb_put(w->txn, w->x->dbi[db], key, value, 0);
}

int
index_del_pair(struct index_writer *w, unsigned db, MDB_val *key, const MDB_val *before)
{
    index_tally_goes(w, db, key, index_pair_sum(db, key, before));
    return mdb_del(w->txn, w->x->dbi[db], key, NULL);
}

int
index_del_at(struct index_writer *w, unsigned db, MDB_cursor *cursor, const MDB_val *key,
             const MDB_val *value)
{
    index_tally_goes(w, db, key, index_pair_sum(db, key, value));
    return mdb_cursor_del(cursor, 0);
}

/* ---- segments: living and dead bytes ---- */

void
index_count_segment(struct index_writer *w, enum store_class class, uint32_t segment,
                    int64_t living, int64_t dead)
{
    uint32_t *met = &w->segment_at[(STORE_CLASSES_ * segment + class) % SEGMENT_SLOTS];
    uint32_t i = *met - 1; /* never met: larger than all */

    if (i >= w->segment_count || w->segments[i].segment != segment ||
        w->segments[i].class != class)
        for (i = 0; i < w->segment_count; i++)
            if (w->segments[i].segment == segment && w->segments[i].class == class)
                break;
    if (i == w->segment_count) {
        if (w->segment_count == w->segment_room) {
            w->segment_room = MAX(16u, 2 * w->segment_room);
            w->segments = xrealloc(w->segments, w->segment_room * sizeof *w->segments);
        }
        w->segments[w->segment_count++] =
            (struct run_segment){.class = class, .segment = segment};
    }
    assert(i < w->segment_count && w->segment_count <= w->segment_room);
    assert(w->segments[i].segment == segment && w->segments[i].class == class);
    *met = i + 1;
    w->segments[i].living += living;
    w->segments[i].dead += dead;
}

/* A record of metadata holds its log. */
static void
count_apart(struct index_writer *w, const struct entry *entry, enum store_class class,
            int64_t by)
{
    if ((entry->flags & ENTRY_META_APART) != 0)
        index_count_segment(w, class, entry->place.meta_segment, by, 0);
}

static void
count_entry(struct index_writer *w, const struct entry *entry, bool comes)
{
    enum store_class class = index_class_of(entry);
    int64_t size = entry_weight(entry);

    if ((entry->flags & ENTRY_TOMBSTONE) == 0)
        w->meta.objects += comes ? 1 : UINT64_MAX;
    if (index_has_place(entry))
        index_count_segment(w, class, entry->place.segment, comes ? size : -size,
                            comes ? 0 : size);
    count_apart(w, entry, class, comes ? RECORD_WEIGHT : -RECORD_WEIGHT);
}

/* An older version. The bytes of one that comes were counted as dead when another took its place in `objects`. */
void
index_count_older(struct index_writer *w, const struct entry *entry, bool comes)
{
    enum store_class class = index_class_of(entry);
    int64_t size = entry_weight(entry);

    if (index_has_place(entry))
        index_count_segment(w, class, entry->place.segment, comes ? size : -size,
                            comes ? -size : size);
    count_apart(w, entry, class, comes ? RECORD_WEIGHT : -RECORD_WEIGHT);
}

/* `before` NULL: there was none. An entry that only changed its flags or metadata stays where it is. */
void
index_count_change(struct index_writer *w, const struct entry *before,
                   const struct entry *after)
{
    if (before != NULL && after != NULL && index_has_place(before) &&
        index_has_place(after) && before->place.segment == after->place.segment &&
        before->place.offset == after->place.offset &&
        ((before->flags | after->flags) & ENTRY_META_APART) == 0)
        return;
    if (before != NULL)
        count_entry(w, before, false);
    if (after != NULL)
        count_entry(w, after, true);
}

int
index_write_segments(struct index_writer *w)
{
    MDB_dbi dbi = w->x->dbi[DB_SEGMENTS];

    for (uint32_t i = 0; i < w->segment_count; i++) {
        const struct run_segment *change = &w->segments[i];
        unsigned char coded[INDEX_SEGMENT_KEY], bytes[INDEX_SEGMENT_BYTES];
        MDB_val key = {sizeof coded, coded}, value, old;
        struct index_segment now = {0};
        bool had;
        int rc;

        index_segment_key(change->class, change->segment, coded);
        rc = mdb_get(w->txn, dbi, &key, &old);
        if (rc != 0 && rc != MDB_NOTFOUND)
            return rc;
        had = rc == 0;
        if (had && !index_segment_decode(coded, &old, &now))
            return MDB_CORRUPTED;
        now.living += change->living;
        now.dead = MAX(now.dead + change->dead, 0);
        index_segment_encode(coded, &now, bytes);
        value = (MDB_val){sizeof bytes, bytes};
        rc = index_put_pair(w, DB_SEGMENTS, &key, had ? &old : NULL, &value);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* ---- buckets: living objects and their bytes; older versions as a bucket of their own ---- */

/* Changes come in order of buckets: the last one is the one, or there is none yet. */
void
index_count_usage(struct index_writer *w, uint64_t bucket, const struct entry *before,
                  const struct entry *after)
{
    struct index_usage *u;

    if (w->usage_count == 0 || w->usage[w->usage_count - 1].bucket != bucket) {
        if (w->usage_count == w->usage_room) {
            w->usage_room = MAX(16u, 2 * w->usage_room);
            w->usage = xrealloc(w->usage, w->usage_room * sizeof *w->usage);
        }
        w->usage[w->usage_count++] = (struct index_usage){.bucket = bucket};
    }
    u = &w->usage[w->usage_count - 1];
    assert(u->bucket == bucket && w->usage_count <= w->usage_room);
    if (before != NULL && entry_has_object(before)) {
        u->objects--;
        u->bytes -= (int64_t)before->size;
    }
    if (after != NULL && entry_has_object(after)) {
        u->objects++;
        u->bytes += (int64_t)after->size;
    }
}

int
index_write_usage(struct index_writer *w)
{
    MDB_dbi dbi = w->x->dbi[DB_BUCKETS];

    for (uint32_t i = 0; i < w->usage_count; i++) {
        struct index_usage now = w->usage[i], before;
        unsigned char coded[8], bytes[INDEX_USAGE_BYTES];
        MDB_val key = {sizeof coded, coded}, value, old;
        bool had;
        int rc;

        index_usage_key(now.bucket, coded);
        rc = mdb_get(w->txn, dbi, &key, &old);
        if (rc != 0 && rc != MDB_NOTFOUND)
            return rc;
        had = rc == 0;
        if (had) {
            if (!index_usage_decode(coded, &old, &before))
                return MDB_CORRUPTED;
            now.objects += before.objects;
            now.bytes += before.bytes;
        }
        index_usage_encode(coded, &now, bytes);
        value = (MDB_val){sizeof bytes, bytes};
        if (now.objects == 0 && now.bytes == 0)
            rc = had ? index_del_pair(w, DB_BUCKETS, &key, &old) : 0;
        else
            rc = index_put_pair(w, DB_BUCKETS, &key, had ? &old : NULL, &value);
        if (rc != 0)
            return rc;
    }
    return 0;
}
