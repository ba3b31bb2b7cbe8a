/* commit: the one place where changes of a class become real. A fiber on the owner loop gathers what all loops
 * hand in, checks preconditions, appends one batch to the log, syncs once, makes it visible, answers.
 */
#pragma once
#include "rt/point.h"
#include "store/core/core.h"
#include "store/record/log_record.h"
#include "store/store_entry.h"
#include "store/store_upload.h"

struct store;
struct store_condition;

struct changes;
struct commit;
struct committer;
struct relocation; /* gc/relocate.h */

/* What the committer does with a change. */
enum verdict {
    VERDICT_WRITE,
    VERDICT_REFUSED,  /* answered: commit.rc says how */
    VERDICT_DEFERRED, /* it waits until the batch at hand is visible */
};

/* Which arm of the union in struct commit a kind uses. */
enum commit_arm { ARM_NONE, ARM_UPLOAD, ARM_VERSION, ARM_IN_DOUBT, ARM_TOMBSTONE };

/* One row for each kind of record that the committer writes (precondition.c). */
struct commit_kind {
    enum commit_arm arm;
    enum point point; /* of the tests: passed when such a record is in its batch */
    bool is_unnamed;  /* without a body: its name in tar does not have the bucket's */
    bool needs_no_version; /* others get one from the committer, unless they bring it */
    /* May it be written? `written`: records that the batch has by now. */
    enum verdict (*check)(struct changes *changes, struct commit *c, uint32_t written,
                          bool *sync);
};
const struct commit_kind *commit_kind_of(enum log_record_kind kind);

struct commit {
    /* By the caller, which keeps everything until commit_submit() returns. */
    enum log_record_kind kind;
    const struct store_key *key;
    const struct store_condition *condition; /* NULL: none */
    const struct object_meta *meta;          /* NULL: none */
    struct content_id content;
    uint64_t size;
    struct span payload;    /* of a log record */
    struct span block_sums; /* of the payload */
    struct place place;     /* of a body */
    struct upload_id upload;
    struct version version; /* as another disk committed; zero: the committer gives one */

    /* What only some kinds have: commit_kind_of(kind)->arm says which of these it is. */
    union {
        struct { /* ARM_UPLOAD */
            uint32_t part;
            bool copy; /* of an upload-begin: it copies an object */
            bool
                parts_moved; /* answer, of a manifest: it names a place that a part has left. To be made once more */
        } upload;
        struct {                         /* ARM_VERSION */
            const struct version *which; /* NULL: the null version */
            bool current; /* of meta: the current version, `which` or not */
            /* Of meta: the same as `meta`. Of version-delete: becomes `meta` where it ends a null version. */
            struct object_meta *stamped;
            struct entry was; /* answer: the version's entry before */
        } version;
        struct { /* ARM_IN_DOUBT */
            const uint32_t *
                count; /* clears only while this is the key's count of writes in doubt; NULL: always */
        } in_doubt;
        struct {         /* ARM_TOMBSTONE */
            bool always; /* also where there is nothing to delete */
        } tombstone;
    } of;

    /* Compaction writes a record of an old log once more, and sets `born`, `layout` and `old_place` too. NULL: it is new. */
    const struct relocation *relocation;
    /* Does what the relocation saw still hold? Instead of the kind's own check. */
    enum verdict (*still_holds)(struct changes *changes, struct commit *c,
                                uint32_t written);
    struct place old_place; /* of `moved` */

    /* The answer. */
    enum err rc;
    struct entry entry;       /* the current one */
    bool existed;             /* there was an object before */
    struct version committed; /* of the record */
    bool unknown;             /* the record may be in the log although rc is an error */

    /* The committer's. */
    struct version born;
    uint32_t layout;
    struct rt_msg msg;
    struct rt_waiter waiter;
    struct list in_queue;
    uint64_t key_hash; /* run_key_hash() */
    struct store *disk;
    enum store_class class;

    struct errbuf eb; /* of the answer; last: commit_init() */
};

/* Everything zero; of the sentence only its end, which spares six cache lines for each that waits. */
static inline void
commit_init(struct commit *c)
{
    memset(c, 0, offsetof(struct commit, eb));
    c->eb.text[0] = '\0';
}

static inline enum verdict
refuse(struct commit *c, enum err rc)
{
    c->rc = rc;
    return VERDICT_REFUSED;
}

/* Does it bring the version that another disk has committed? */
static inline bool
commit_has_version(const struct commit *c)
{
    return c->version.epoch != 0 || c->version.counter != 0;
}

/* The two halves of commit_submit(), to have several on their way. Owner loop; start does not wait. */
void commit_start(struct store *d, enum store_class class, struct commit *c);
enum err commit_wait(struct commit *c, struct errbuf *eb) MUST_CHECK;
/* Hands it in and waits for the answer, which is also the result. Any loop; switches; not cancelled. */
enum err commit_submit(struct store *d, enum store_class class, struct commit *c,
                       struct errbuf *eb) MUST_CHECK;

/* Owner loop. */
enum err committer_start(struct store *d, enum store_class class,
                         struct errbuf *eb) MUST_CHECK;
void committer_stop(struct store *d,
                    enum store_class class); /* after what is queued. Switches. */
void committer_free(struct committer **cp);
