/* fetch: one transfer of one object from its backend, shared by all who wait for it (decision D10, promise V5).
 *
 *     STARTING --> STREAMING --> KEPT      whole, verified, on disk
 *         |            |-------> FAILED    nothing of it is kept
 *         |--------------------> FAILED
 *         |--------------------> HERE      there is a entry to look at: it is so large that it is kept in chunks, and the one that
 *         |                                stands for them was written; or the fetch before this one has just ended
 *         `--------------------> BYPASS    known, but cannot be kept: the first reader takes over the answer that is
 *                                          open, the others go to the backend themselves
 *
 * The last bytes are held back until length and sum agree, so that no reader has seen a whole object before it was
 * verified. They need not wait until it is on the disk. Where a write overtook it, it is not kept, and stays until those who read it have
 * finished: nobody else has its bytes. A fetch may be of one chunk of an object (chunks.h): a range, by
 * If-Match, of which length and ETag are all that can be compared. All calls run on the key's owner loop; that of a chunk is the
 * object's.
 */
#pragma once
#include "object/chunks.h"
#include "object/keys.h"

enum fetch_state {
    FETCH_STARTING,
    FETCH_STREAMING,
    FETCH_KEPT,
    FETCH_FAILED,
    FETCH_BYPASS,
    FETCH_LOCAL
};

/* One chunk. */
struct fetch_chunk {
    struct span key; /* of the object */
    struct chunked of;
    uint32_t number;
};
struct fetch {
    struct object_service *s;
    const struct map_bucket *bucket; /* one reference */
    struct key_slot *slot;           /* one reference */
    struct list all;                 /* of its table */
    struct span key;                 /* in the slot's name */
    struct fetch_chunk *chunk;       /* owned, with its key; NULL: a whole object */
    struct fiber *fiber;             /* of the transfer; NULL before and after */
    unsigned refs;                   /* readers, and the transfer itself */
    unsigned readers;
    unsigned heads;   /* readers that wait for what the backend says of it */
    unsigned peeking; /* readers inside disks_write_peek() */
    enum fetch_state state;
    bool keep;           /* goes on without readers */
    struct pace *pace;   /* it is prefetch: one reference; NULL: somebody reads it */
    bool urgent;         /* somebody reads it: no pace is kept any more */
    bool obsolete;       /* a write overtook it: not to be kept */
    bool was_chunked;    /* what stands there before is in chunks */
    bool proved;         /* length and sum agree: readers may have the last bytes */
    bool sealed;         /* the writer is being committed: readers wait */
    struct arena *arena; /* owned: info */
    struct object_info info;
    struct span etag; /* as the backend wrote it */
    struct disks_writer *writer;
    /* The writer is made beside the first bytes: its place on a busy disk takes as long as they do. */
    struct {
        struct rt_group fiber;
        bool begun; /* the group is to be joined */
        bool over;  /* rc and writer are there */
        enum err rc;
        struct disks_writer *writer;
        struct errbuf eb;
    } making;
    const char
        *first_piece; /* the first `landed` bytes, while they are not in the writer */
    struct cloud_get *spare; /* BYPASS: the backend's open answer, for the first reader */
    struct version before; /* of the entry when it began: nothing newer is overwritten */
    uint64_t landed;       /* bytes written */
    uint64_t admitted;     /* by the tier, and not counted by a disk yet */
    struct entry entry;    /* KEPT */
    enum err rc;           /* FAILED */
    struct errbuf eb;
    struct rt_cond moved; /* state, landed or peeking changed */
};

/* Starts the transfer; the caller has one reference. `chunk` is copied; NULL: the whole object. */
enum err fetch_start(struct object_service *s, const struct map_bucket *b,
                     struct key_slot *slot, const struct fetch_chunk *chunk,
                     struct pace *prefetch, struct fetch **out,
                     struct errbuf *eb) MUST_CHECK;
struct fetch *fetch_ref(struct fetch *f);
void fetch_drop(struct fetch **fp);
/* One reader less: the last one ends a transfer that nobody else wants. */
void fetch_reader_left(struct fetch *f);
/* Bytes that readers may see now. */
uint64_t fetch_visible(const struct fetch *f);
