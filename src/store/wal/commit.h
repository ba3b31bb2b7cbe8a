/* commit: the committer, which applies all changes of a class.
 *
 * The committer is a fiber on the owner loop. It gathers the changes that all loops submit,
 * checks preconditions, appends one commit batch to the log, syncs once, publishes the batch and
 * answers.
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
    VERDICT_REFUSED,  /* answered; commit.rc has the result */
    VERDICT_DEFERRED, /* checked again once the current batch is visible */
};

/* The arm of the union in struct commit that a kind uses. */
enum commit_arm { ARM_NONE, ARM_UPLOAD, ARM_VERSION, ARM_IN_DOUBT, ARM_TOMBSTONE };

/* One row for each record kind that the committer writes (precondition.c). */
struct commit_kind {
    enum commit_arm arm;
    enum point point; /* test point, passed when such a record is in its batch */
    bool is_unnamed;  /* without a body: its tar name omits the bucket name */
    /* Else the committer assigns a version, unless the change has one. */
    bool needs_no_version;
    /* Checks whether the change may be written. `written`: records in the batch so far. */
    enum verdict (*check)(struct changes *changes, struct commit *c, uint32_t written,
                          bool *sync);
};
const struct commit_kind *commit_kind_of(enum log_record_kind kind);

struct commit {
    /* Set by the caller, which keeps everything alive until commit_submit() returns. */
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
    /* Version committed by another disk; zero: the committer assigns one. */
    struct version version;

    /* Fields of some kinds only; commit_kind_of(kind)->arm selects the arm. */
    union {
        struct { /* ARM_UPLOAD */
            uint32_t part;
            bool copy; /* of an upload-begin: the upload copies an object */
            struct coordinator
                coordinator; /* of a prepare; node 0: this node, under the map of now */
            bool
                parts_moved; /* result for a manifest: a part has moved; build it again */
        } upload;
        struct {                         /* ARM_VERSION */
            const struct version *which; /* NULL: the null version */
            bool current; /* of meta: the current version, whether or not it is `which` */
            /* For meta: equal to `meta`. For version-delete: becomes `meta` if it ends a null
             * version. */
            struct object_meta *stamped;
            struct entry was; /* result: the version's entry before the change */
        } version;
        struct { /* ARM_IN_DOUBT */
            const uint32_t *
                count; /* only while the key has this many in-doubt writes; NULL: always */
        } in_doubt;
        struct {         /* ARM_TOMBSTONE */
            bool always; /* even if there is nothing to delete */
        } tombstone;
    } of;

    /* Set if compaction writes a record of an old log again; it then also sets `born`, `layout`
     * and `old_place`. NULL: a new record. */
    const struct relocation *relocation;
    /* Checks that what the relocation read is still true. Replaces the kind's own check. */
    enum verdict (*still_holds)(struct changes *changes, struct commit *c,
                                uint32_t written);
    struct place old_place; /* of `moved` */

    /* The result. */
    enum err rc;
    struct entry entry;       /* the current entry */
    bool existed;             /* the key had an object before */
    struct version committed; /* version of the record */
    bool unknown;             /* the record may be in the log although rc is an error */
    /* Refused: the key has versions, which the change, begun before the bucket had them, does not say. */
    bool late;

    /* Internal to the committer. */
    struct version born;
    uint32_t layout;
    struct rt_msg msg;
    struct rt_waiter waiter;
    struct list in_queue;
    uint64_t key_hash; /* run_key_hash() */
    struct store *disk;
    enum store_class class;

    struct errbuf eb; /* of the result; last: see commit_init() */
};

/* Zeroes everything except the text of `eb`, of which only the end is set. That saves writing
 * six cache lines per waiting change. */
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

/* True if the change carries a version that another disk committed. */
static inline bool
commit_has_version(const struct commit *c)
{
    return c->version.epoch != 0 || c->version.counter != 0;
}

/* The two halves of commit_submit(), for a caller with several changes in flight. Owner loop.
 * commit_start() does not wait. */
void commit_start(struct store *d, enum store_class class, struct commit *c);
enum err commit_wait(struct commit *c, struct errbuf *eb) MUST_CHECK;
/* Submits a change and waits for its result. Any loop. Switches; cannot be cancelled. */
enum err commit_submit(struct store *d, enum store_class class, struct commit *c,
                       struct errbuf *eb) MUST_CHECK;

/* Owner loop. */
enum err committer_start(struct store *d, enum store_class class,
                         struct errbuf *eb) MUST_CHECK;
void committer_stop(struct store *d,
                    enum store_class class); /* finishes the queue first. Switches. */
void committer_free(struct committer **cp);
