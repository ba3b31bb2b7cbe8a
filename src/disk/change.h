/* change: what one log record does to tail and index. The committer uses it for records it has just written,
 * recovery for records it reads: so both come to the same rows.
 *
 * A `changes` gathers the records of one commit group. Home loop; calls may switch where said.
 */
#pragma once
#include "disk/member.h"
#include "disk/prepare.h"
#include "disk/usage.h"

struct changed_object {
    uint64_t hash, bucket;
    struct span key; /* borrowed: from the request, or from the window of the log */
    struct row row;
};
struct changed_version { /* an older one */
    uint64_t hash, bucket;
    struct span key; /* borrowed, as above */
    struct version born;
    bool gone;
    struct row row;
};
#define CHANGED_SLOTS (2u * GROUP_MEMBERS)
struct changes {
    struct disk *disk;
    enum disk_class class;
    struct run *run; /* owned */
    struct changed_object objects[GROUP_MEMBERS];
    uint32_t object_count;
    uint16_t
        slots[CHANGED_SLOTS]; /* by hash, open addressing: place in `objects` + 1, or 0 */
    struct key_hashed {       /* of the key at hand */
        uint64_t bucket, hash;
        struct span key;
        struct span coded; /* its row, while nothing has changed that; empty: none */
    } hashed;
    struct changed_object seen; /* the last current row that was asked for, of no group */
    bool has_seen, found_seen;
    struct usage_changes usage;
    struct changed_version *versions; /* owned */
    uint32_t version_count, version_room;
    struct upload_id ended[GROUP_MEMBERS]; /* uploads that ended in this group */
    uint32_t ended_count;
    struct changed_upload {
        struct upload_id id;
        bool copy;
    } begun
        [GROUP_MEMBERS]; /* uploads that began in this group: of those that compaction moved parts may follow */
    uint32_t begun_count;
    struct changed_part {
        struct upload_id upload;
        uint32_t number;
        uint64_t size;
    } parts[GROUP_MEMBERS]; /* that came in this group */
    uint32_t part_count;
    struct changed_prepared {
        struct prepared_who who; /* borrows the key as above */
        bool comes;              /* else it is decided or given up */
    } prepared[GROUP_MEMBERS];
    uint32_t prepared_count;
};
struct changes *changes_new(struct disk *d, enum disk_class class);
void changes_free(struct changes **cp); /* NULL is fine */

/* The hash of a key that will be asked for next: run_key_hash(). */
static inline void
changes_expect(struct changes *c, uint64_t bucket, struct span key, uint64_t hash)
{
    c->hashed = (struct key_hashed){.bucket = bucket, .hash = hash, .key = key};
}

/* The row of a key as it will be after the group so far, tombstones included. ERR_NOT_FOUND. May switch. */
enum err changes_current(struct changes *c, uint64_t bucket, struct span key,
                         struct row *out, struct errbuf *eb) MUST_CHECK;
/* Is there an object in this row: no tombstone, not only a doubt? */
bool row_is_object(const struct row *row);
/* Was this upload ended in this group? */
bool changes_ended(const struct changes *c, const struct upload_id *id);
/* The part, where it came in this group: it is not visible yet, to the next of its number neither. Else NULL. */
struct changed_part *changes_part(struct changes *c, const struct upload_id *id,
                                  uint32_t number);
/* Was this body prepared, decided or given up in this group? */
bool changes_settles(const struct changes *c, const struct content_id *content);

/* Takes the record's effect into the run. *out (may be NULL) is the row of the key afterwards. May switch. */
enum err changes_apply(struct changes *c, const struct member *m, struct row *out,
                       struct errbuf *eb) MUST_CHECK;
/* The same for a record of a replay that puts an object under a key which nobody has ever heard of, as nearly all do: its
 * row is all there is to do. False: nothing was done, use changes_apply(). Does not switch. */
bool changes_take_new(struct changes *c, const struct member *m);
/* Makes the group visible to every loop and forgets it. */
void changes_publish(struct changes *c);
void changes_forget(struct changes *c); /* the group did not get into the log */
