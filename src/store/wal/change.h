/* change: what one log record does to memtable and index. The committer uses it for records it has just written,
 * recovery for records it reads: so both come to the same entries.
 *
 * A `changes` gathers the records of one commit batch. Owner loop; calls may switch where said.
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
struct changed_version { /* an older one */
    uint64_t hash, bucket;
    struct span key; /* borrowed, as above */
    struct version born;
    bool gone;
    struct entry entry;
};
#define CHANGED_SLOTS (2u * BATCH_RECORDS)
struct changes {
    struct store *disk;
    enum store_class class;
    struct run *run; /* owned */
    struct changed_object objects[BATCH_RECORDS];
    uint32_t object_count;
    uint16_t
        slots[CHANGED_SLOTS]; /* by hash, open addressing: place in `objects` + 1, or 0 */
    struct key_hashed {       /* of the key at hand */
        uint64_t bucket, hash;
        struct span key;
        struct span coded; /* its entry, while nothing has changed that; empty: none */
    } hashed;
    struct changed_object
        seen; /* the last current entry that was asked for, of no batch */
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
        [BATCH_RECORDS]; /* uploads that began in this batch: of those that compaction moved parts may follow */
    uint32_t begun_count;
    struct changed_part {
        struct upload_id upload;
        uint32_t number;
        uint64_t size;
    } parts[BATCH_RECORDS]; /* that came in this batch */
    uint32_t part_count;
    struct changed_prepared {
        struct prepared_who who; /* borrows the key as above */
        bool comes;              /* else it is committed or aborted */
    } prepared[BATCH_RECORDS];
    uint32_t prepared_count;
};
struct changes *changes_new(struct store *d, enum store_class class);
void changes_free(struct changes **cp); /* NULL is fine */

/* The hash of a key that will be asked for next: run_key_hash(). */
static inline void
changes_expect(struct changes *c, uint64_t bucket, struct span key, uint64_t hash)
{
    c->hashed = (struct key_hashed){.bucket = bucket, .hash = hash, .key = key};
}

/* The entry of a key as it will be after the batch so far, tombstones included. ERR_NOT_FOUND. May switch. */
enum err changes_current(struct changes *c, uint64_t bucket, struct span key,
                         struct entry *out, struct errbuf *eb) MUST_CHECK;
/* Is there an object in this entry: no tombstone, not only a write in doubt? */
bool entry_is_object(const struct entry *entry);
/* Was this upload ended in this batch? */
bool changes_ended(const struct changes *c, const struct upload_id *id);
/* The part, where it came in this batch: it is not visible yet, to the next of its number neither. Else NULL. */
struct changed_part *changes_part(struct changes *c, const struct upload_id *id,
                                  uint32_t number);
/* Was this body prepared, committed or aborted in this batch? */
bool changes_resolves(const struct changes *c, const struct content_id *content);

/* Takes the record's effect into the run. *out (may be NULL) is the entry of the key afterwards. May switch. */
enum err changes_apply(struct changes *c, const struct log_record *m, struct entry *out,
                       struct errbuf *eb) MUST_CHECK;
/* The same for a record of a replay that puts an object under a key that memtable and index do not have, as nearly all do: its
 * entry is all there is to do. False: nothing was done, use changes_apply(). Does not switch. */
bool changes_insert_new(struct changes *c, const struct log_record *m);
/* Makes the batch visible to every loop and forgets it. */
void changes_publish(struct changes *c);
void changes_forget(struct changes *c); /* the batch did not get into the log */
