/* carry: what becomes of a record when its log is compacted, and the record that takes its place.
 *
 *     put, commit, moved, prepare (decided)   a row names its body:       moved
 *     upload-complete and its like            a row names its manifest:   moved, with UPLOAD; else the end of the upload
 *     part                                    its upload is open:         as it is; an object has it: moved, and a new manifest
 *     upload-begin, meta, doubt, prepare      a row names it:             as it is
 *     delete, tombstone                       a row is what they made:    as the row says
 *     delete of a version that ended          older logs are there:       version-delete of the null version before it, if it had one
 *     delete, abort and what else says no     older logs are there:       as it is; else nothing could come back: dropped
 *     bucket                                                              as it is
 *
 * The compactor asks before it submits; the committer asks again in the moment of writing whether what was seen still
 * holds (carry_allowed), and refuses with ERR_PRECONDITION where it does not: then the next look will tell.
 *
 * Home loop; calls may switch.
 */
#pragma once
#include "disk/commit.h"
#include "disk/judge.h"

enum carry {
    CARRY_DROP,     /* of no use any more */
    CARRY_MOVE,     /* a body's record: as `moved` */
    CARRY_MANIFEST, /* the same, of an object of parts */
    CARRY_PART, /* a part that an object has in a log: `moved`, and its manifest anew */
    CARRY_KEEP, /* as it is */
    CARRY_WAIT, /* as it is, while older logs are there */
    CARRY_END,  /* of an upload: as upload-abort, while older logs are there */
    CARRY_ENDED, /* of a delete: as version-delete of null versions, while older logs are there */
    CARRY_STUCK, /* can't be moved now */
};
enum carry_by {
    BY_NOTHING,
    BY_VERSION,
    BY_META,
    BY_KEY,
    BY_UNVERSIONED, /* that the key has no versions */
    BY_GONE,        /* that what it took away has not come back */
    BY_UPLOAD,
    BY_PART,
    BY_PREPARED
};
struct carried {
    enum carry what;
    const struct member *m; /* borrowed */
    /* What it depends on, as it was seen. */
    enum carry_by by;
    struct row row;
    const struct member
        *meta_of; /* borrowed; NULL: m. Of a body whose metadata stands behind it */
};
static inline uint64_t
carry_bytes(const struct member *m)
{
    return m->head_len + align_up(m->payload, 512);
}

/* `oldest`: no older log of the class is there. */
enum err carry_look(struct disk *d, enum disk_class class, const struct member *m,
                    bool oldest, struct carried *out, struct errbuf *eb) MUST_CHECK;
/* Fills *c and *key, which borrow from the member and the arena; c->carried is `from`. */
enum err carry_commit(const struct carried *from, struct arena *a, struct disk_key *key,
                      struct commit *c, struct errbuf *eb) MUST_CHECK;
/* The same of a body in a body segment, by the header there: CARRY_MOVE, CARRY_KEEP (a part of an open upload) or CARRY_PART
 * (an object has it). Whoever moves it says so with the new place. */
enum err carry_look_place(struct disk *d, const struct member *m, struct carried *out,
                          struct errbuf *eb) MUST_CHECK;
struct place carry_old_place(const struct carried *c);
/* What such a delete with this version took away stands there again. */
bool carry_is_back(enum member_kind kind, const struct version *v, const struct row *now);
/* The committer's: `written` records of the group are not visible yet. */
enum verdict carry_allowed(struct changes *changes, struct commit *c, uint32_t written);

/* Does the body with this header, in a body segment, have a row, a part, a manifest or an undecided version that names
 * its place? `generation` is not looked at. */
enum err carry_place_lives(struct disk *d, const struct member *m, bool *out,
                           struct errbuf *eb) MUST_CHECK;
/* The object of parts, current or older, that has this part at this place. ERR_NOT_FOUND. */
enum err carry_owner(struct disk *d, uint64_t bucket, struct span key, uint32_t segment,
                     uint64_t offset, struct row *out, struct errbuf *eb) MUST_CHECK;
