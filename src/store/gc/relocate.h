/* relocate: decides what happens to a record when its log is compacted, and builds the record
 * that replaces it.
 *
 *     put, commit, moved, prepare (committed)   an entry names its body:       moved
 *     upload-complete and its like            an entry names its manifest:   moved, with UPLOAD; else the end of the upload
 *     part                                    its upload is open:         as it is; an object has it: moved, and a new manifest
 *     upload-begin, meta, in-doubt, prepare   an entry names it:             as it is
 *     delete, tombstone                       an entry is what they made:    as the entry says
 *     delete of a version that ended          older logs are there:       version-delete of the null version before it, if it had one
 *     delete, abort and other cancellations   older logs are there:       as it is; else nothing could come back: dropped
 *     bucket                                                              as it is
 *
 * The compactor classifies a record before it submits the replacement. The committer checks
 * again at the time of writing that the classification still holds (commit.still_holds), and
 * otherwise rejects it with ERR_PRECONDITION. The next pass then classifies it again.
 *
 * Owner loop; calls may switch.
 */
#pragma once
#include "store/record/log_record.h"
#include "store/store_entry.h"
#include "store/wal/commit.h"
#include "store/wal/precondition.h"

struct changes;
struct store;

enum relocate_action {
    RELOCATE_DROP,     /* no longer needed */
    RELOCATE_MOVE,     /* a body's record: as `moved` */
    RELOCATE_MANIFEST, /* the same, for a multipart object */
    RELOCATE_PART,     /* a part of an object, in a log: `moved`, and a new manifest */
    RELOCATE_KEEP,     /* as it is */
    RELOCATE_WAIT,     /* as it is, while older logs exist */
    RELOCATE_END,      /* of an upload: as upload-abort, while older logs exist */
    /* Of a delete: as version-delete of null versions, while older logs exist. */
    RELOCATE_ENDED,
    RELOCATE_STUCK, /* can't be moved now */
};
enum relocate_by {
    RELOCATE_BY_NOTHING,
    RELOCATE_BY_VERSION,
    RELOCATE_BY_META,
    RELOCATE_BY_KEY,
    RELOCATE_BY_UNVERSIONED, /* the key has no versions */
    RELOCATE_BY_GONE,        /* what it removed has not returned */
    RELOCATE_BY_UPLOAD,
    RELOCATE_BY_PART,
    RELOCATE_BY_PREPARED
};
struct relocation {
    enum relocate_action what;
    const struct log_record *m; /* borrowed */
    /* The fact on which the classification depends. */
    enum relocate_by by;
    struct entry entry;
    const struct log_record
        *meta_of; /* borrowed; NULL: m. For a body with its metadata behind it */
};
static inline uint64_t
relocate_bytes(const struct log_record *m)
{
    return m->head_len + align_up(m->payload, 512);
}

/* `oldest`: no older log of the class exists. */
enum err relocate_classify(struct store *d, enum store_class class,
                           const struct log_record *m, bool oldest,
                           struct relocation *out, struct errbuf *eb) MUST_CHECK;
/* Fills *c and *key, which borrow from the record and the arena; c->relocation is `from`. */
enum err relocate_commit(const struct relocation *from, struct arena *a,
                         struct store_key *key, struct commit *c,
                         struct errbuf *eb) MUST_CHECK;
/* The same for a body in a body segment, by its header: RELOCATE_MOVE, RELOCATE_KEEP (a part of
 * an open upload) or RELOCATE_PART (an object has it). The `moved` record names the new place. */
enum err relocate_classify_body(struct store *d, const struct log_record *m,
                                struct relocation *out, struct errbuf *eb) MUST_CHECK;
struct place relocate_old_place(const struct relocation *c);
/* True if what a delete with this version removed has been written again since. */
bool relocate_is_superseded(enum log_record_kind kind, const struct version *v,
                            const struct entry *now);
/* True if a body in a body segment is live: an entry, part, manifest or prepared version names
 * the place in its header. Ignores `generation`. */
enum err relocate_body_is_live(struct store *d, const struct log_record *m, bool *out,
                               struct errbuf *eb) MUST_CHECK;
/* Finds the multipart object, current or older, that has this part at this place. ERR_NOT_FOUND. */
enum err relocate_find_owner(struct store *d, uint64_t bucket, struct span key,
                             uint32_t segment, uint64_t offset, struct entry *out,
                             struct errbuf *eb) MUST_CHECK;
