/* change: applies log records to the memtable.
 *
 * The committer applies the records it has just written; recovery applies the records it reads.
 * Both paths share this code, so both produce the same entries.
 *
 * A `changes` collects the effects of one commit batch. Owner loop only. A call may switch where
 * its comment says so.
 */
#pragma once
#include "store/index/usage.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/store_entry.h"
#include "store/store_upload.h"
#include "store/wal/prepared.h"

struct run;
struct store;

struct changed_object {
    uint64_t hash, bucket;
    struct span key; /* borrowed: from the request, or from the window of the log */
    struct entry entry;
};
struct changed_version { /* an older version */
    uint64_t hash, bucket;
    struct span key; /* borrowed, as above */
    struct version born;
    bool gone;
    struct entry entry;
};
#define CHANGED_SLOTS (2u * BATCH_RECORDS)
struct changes {
    uint64_t batch; /* of the record at hand */
    struct store *disk;
    enum store_class class;
    struct run *run; /* owned */
    struct changed_object objects[BATCH_RECORDS];
    uint32_t object_count;
    uint16_t
        slots[CHANGED_SLOTS]; /* by hash, open addressing: place in `objects` + 1, or 0 */
    struct key_hashed {       /* of the current key */
        uint64_t bucket, hash;
        struct span key;
        struct span coded; /* encoded entry; empty once anything has changed it */
    } hashed;
    struct changed_object
        seen; /* the last current entry looked up, by no batch in particular */
    bool has_seen, found_seen;
    struct usage_changes usage;
    struct changed_version *versions; /* owned */
    uint32_t version_count, version_room;
    struct upload_id ended[BATCH_RECORDS]; /* uploads that ended in this batch */
    uint32_t ended_uploads_count;
    struct changed_upload {
        struct upload_id id;
        bool copy;
    } begun
        [BATCH_RECORDS]; /* uploads begun in this batch; it may also move parts into them */
    uint32_t begun_count;
    struct changed_part {
        struct upload_id upload;
        uint32_t number;
        uint64_t size;
    } parts[BATCH_RECORDS]; /* parts added in this batch */
    uint32_t part_count;
    struct changed_prepared {
        struct prepared_who who; /* borrows the key as above */
        bool comes;              /* true: prepared; false: committed or aborted */
    } prepared[BATCH_RECORDS];
    uint32_t prepared_count;
};
struct changes *changes_new(struct store *d, enum store_class class);
void changes_free(struct changes **cp); /* NULL is fine */

/* Announces a key that a look-up will need next: run_key_hash(). */
static inline void
changes_expect(struct changes *c, uint64_t bucket, struct span key, uint64_t hash)
{
    c->hashed = (struct key_hashed){.bucket = bucket, .hash = hash, .key = key};
}

/* Returns the entry of a key as it is after the batch so far, tombstones included; else
 * ERR_NOT_FOUND. May switch. */
enum err changes_current(struct changes *c, uint64_t bucket, struct span key,
                         struct entry *out, struct errbuf *eb) MUST_CHECK;
/* True if the entry holds an object: it is neither a tombstone nor only an in-doubt write. */
bool entry_is_object(const struct entry *entry);
/* True if this upload ended in this batch. */
bool changes_ended(const struct changes *c, const struct upload_id *id);
/* Returns the part if this batch added it, else NULL. Such a part is not visible to look-ups
 * yet, not even to the next part with the same number. */
struct changed_part *changes_part(struct changes *c, const struct upload_id *id,
                                  uint32_t number);
/* True if this body was prepared, committed or aborted in this batch. */
bool changes_resolves(const struct changes *c, const struct content_id *content);

/* Applies the record to the run. *out (may be NULL) receives the key's entry after the record.
 * May switch. */
enum err changes_apply(struct changes *c, const struct log_record *m, struct entry *out,
                       struct errbuf *eb) MUST_CHECK;
/* Fast path of changes_apply() for replay. It handles a record that puts an object under a key
 * that neither memtable nor index has; most records do. Returns false if it did nothing; then
 * call changes_apply(). Does not switch. */
bool changes_insert_new(struct changes *c, const struct log_record *m);
/* Makes the batch visible to every loop, then clears `c`. */
void changes_publish(struct changes *c);
void changes_forget(struct changes *c); /* drops the batch: it did not reach the log */
