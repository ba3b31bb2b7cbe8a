/* commit: the one place where changes of a class become real. A fiber on the owner loop gathers what all loops
 * hand in, judges conditions, appends one batch to the log, syncs once, makes it visible, answers.
 */
#pragma once
#include "store/core/core.h"
#include "store/record/log_record.h"
#include "store/store_entry.h"
#include "store/store_upload.h"

struct store;
struct store_condition;

struct relocation;
struct committer; /* carry.h */

struct commit {
    /* By the caller, who lends everything until commit_submit() returns. */
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
    uint32_t part;
    /* Of version-delete and meta: which version; NULL: the null version. */
    const struct version *which;
    bool current_version; /* of meta: the current one, whichever it is */
    /* Of meta: the same as `meta`. Of version-delete: becomes `meta` where it ends a null version. */
    struct object_meta *stamped;
    struct version version; /* as another disk committed; zero: the committer gives one */
    bool copy;              /* of an upload-begin: it copies an object */
    bool always;            /* of a tombstone: also where there is nothing to delete */
    const uint32_t *in_doubt; /* of a doubt-clear: none came since; NULL: whatever came */
    /* Compaction writes a record of an old log again (carry.h), which sets `born` and `layout` too. NULL: it is new. */
    const struct relocation *relocation;

    /* The answer. */
    enum err rc;
    struct entry entry;       /* as it stands now */
    bool existed;             /* there was an object before */
    struct version committed; /* of the record */
    struct entry was;         /* of version-delete and meta: the version's entry before */
    bool
        parts_moved; /* of a manifest: it names a place that a part has left. To be made anew */
    bool unknown; /* the record may be in the log although rc is an error */

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

/* Does it bring the version that another disk has committed? */
static inline bool
commit_has_version(const struct commit *c)
{
    return c->version.epoch != 0 || c->version.counter != 0;
}

/* The two halves of commit_submit(), to have several on their way. Home; start does not wait. */
void commit_start(struct store *d, enum store_class class, struct commit *c);
enum err commit_wait(struct commit *c, struct errbuf *eb) MUST_CHECK;
/* Hands it in and waits for the answer, which is also the result. Any loop; switches; not cancelled. */
enum err commit_submit(struct store *d, enum store_class class, struct commit *c,
                       struct errbuf *eb) MUST_CHECK;

/* Home. */
enum err committer_start(struct store *d, enum store_class class,
                         struct errbuf *eb) MUST_CHECK;
void committer_stop(struct store *d,
                    enum store_class class); /* after what is queued. Switches. */
void committer_free(struct committer **cp);
