/* relocate_action: what becomes of a record when its log is compacted, and the record that takes its place.
 *
 *     put, commit, moved, prepare (committed)   an entry names its body:       moved
 *     upload-complete and its like            an entry names its manifest:   moved, with UPLOAD; else the end of the upload
 *     part                                    its upload is open:         as it is; an object has it: moved, and a new manifest
 *     upload-begin, meta, in-doubt, prepare   an entry names it:             as it is
 *     delete, tombstone                       an entry is what they made:    as the entry says
 *     delete of a version that ended          older logs are there:       version-delete of the null version before it, if it had one
 *     delete, abort and what else says no     older logs are there:       as it is; else nothing could come back: dropped
 *     bucket                                                              as it is
 *
 * The compactor asks before it submits; the committer asks again in the moment of writing whether what was seen still
 * holds (commit.still_holds), and refuses with ERR_PRECONDITION where it does not: then the next look will tell.
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
    RELOCATE_DROP,     /* of no use any more */
    RELOCATE_MOVE,     /* a body's record: as `moved` */
    RELOCATE_MANIFEST, /* the same, of an object of parts */
    RELOCATE_PART, /* a part that an object has in a log: `moved`, and its manifest again */
    RELOCATE_KEEP, /* as it is */
    RELOCATE_WAIT, /* as it is, while older logs are there */
    RELOCATE_END,  /* of an upload: as upload-abort, while older logs are there */
    RELOCATE_ENDED, /* of a delete: as version-delete of null versions, while older logs are there */
    RELOCATE_STUCK, /* can't be moved now */
};
enum relocate_by {
    RELOCATE_BY_NOTHING,
    RELOCATE_BY_VERSION,
    RELOCATE_BY_META,
    RELOCATE_BY_KEY,
    RELOCATE_BY_UNVERSIONED, /* that the key has no versions */
    RELOCATE_BY_GONE,        /* that what it took away has not come back */
    RELOCATE_BY_UPLOAD,
    RELOCATE_BY_PART,
    RELOCATE_BY_PREPARED
};
struct relocation {
    enum relocate_action what;
    const struct log_record *m; /* borrowed */
    /* What it depends on, as it was seen. */
    enum relocate_by by;
    struct entry entry;
    const struct log_record
        *meta_of; /* borrowed; NULL: m. Of a body whose metadata stands behind it */
};
static inline uint64_t
relocate_bytes(const struct log_record *m)
{
    return m->head_len + align_up(m->payload, 512);
}

/* `oldest`: no older log of the class is there. */
enum err relocate_classify(struct store *d, enum store_class class,
                           const struct log_record *m, bool oldest,
                           struct relocation *out, struct errbuf *eb) MUST_CHECK;
/* Fills *c and *key, which borrow from the log_record and the arena; c->relocation is `from`. */
enum err relocate_commit(const struct relocation *from, struct arena *a,
                         struct store_key *key, struct commit *c,
                         struct errbuf *eb) MUST_CHECK;
/* The same of a body in a body segment, by the header there: RELOCATE_MOVE, RELOCATE_KEEP (a part of an open upload) or RELOCATE_PART
 * (an object has it). The record of its move names the new place. */
enum err relocate_classify_body(struct store *d, const struct log_record *m,
                                struct relocation *out, struct errbuf *eb) MUST_CHECK;
struct place relocate_old_place(const struct relocation *c);
/* What such a delete with this version took away stands there again. */
bool relocate_is_superseded(enum log_record_kind kind, const struct version *v,
                            const struct entry *now);
/* Does the body with this header, in a body segment, have an entry, a part, a manifest or a prepared version that names
 * its place? `generation` is not looked at. */
enum err relocate_body_is_live(struct store *d, const struct log_record *m, bool *out,
                               struct errbuf *eb) MUST_CHECK;
/* The object of parts, current or older, that has this part at this place. ERR_NOT_FOUND. */
enum err relocate_find_owner(struct store *d, uint64_t bucket, struct span key,
                             uint32_t segment, uint64_t offset, struct entry *out,
                             struct errbuf *eb) MUST_CHECK;
