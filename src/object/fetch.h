/* fetch: one transfer of one object from its backend, shared by all of its readers
 * (single-flight; decision D10, promise V5).
 *
 *     STARTING --> STREAMING --> KEPT      whole, verified, on disk
 *         |            |-------> FAILED    nothing of it is kept
 *         |--------------------> FAILED
 *         |--------------------> LOCAL     the index has an entry to look up: the one that represents
 *         |                                a large object in chunks, just written; or the one of the
 *         |                                fetch before this one, which has just ended
 *         `--------------------> BYPASS    the object exists but cannot be kept: the first reader takes
 *                                          over the open answer, the others ask the backend themselves
 *
 * The last bytes are held back until length and checksum agree, so that no reader sees a whole
 * object before it is verified. Readers need not wait for the disk. A fetch that a write has
 * overtaken is not kept; it stays in memory until its readers have finished, because no other
 * source has these bytes. A fetch may be of one chunk of an object (chunks.h): a range with
 * If-Match, of which only length and ETag can be compared. All calls run on the owner loop of the
 * key; for a chunk, that of the object's key.
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
    unsigned heads;   /* readers that wait for the head of the backend's answer */
    unsigned peeking; /* readers inside disks_write_peek() */
    enum fetch_state state;
    bool keep;           /* continues without readers */
    struct pace *pace;   /* set by a prefetch: one reference; NULL: a read */
    bool urgent;         /* a reader has joined: the pace no longer applies */
    bool obsolete;       /* a write has overtaken it: not to be kept */
    bool was_chunked;    /* the entry before it is in chunks */
    bool proved;         /* length and checksum agree: readers may have the last bytes */
    bool sealed;         /* the writer is being committed: readers wait */
    struct arena *arena; /* owned: info */
    struct object_info info;
    struct span etag; /* as the backend sent it */
    struct disks_writer *writer;
    /* The writer opens while the first bytes arrive: a place on a busy disk takes as long as they do. */
    struct {
        struct rt_group fiber;
        bool begun; /* the group is to be joined */
        bool over;  /* rc and writer are there */
        enum err rc;
        struct disks_writer *writer;
        struct errbuf eb;
    } making;
    const char *first_piece; /* the first `landed` bytes, before the writer has them */
    struct cloud_get *spare; /* BYPASS: the open answer, for the first reader */
    struct version before;   /* of the entry at the start: nothing newer is overwritten */
    uint64_t begun;          /* revalidate_begin() */
    uint64_t landed;         /* bytes written */
    uint64_t admitted;       /* bytes reserved in the tier that no disk counts yet */
    struct entry entry;      /* KEPT */
    enum err rc;             /* FAILED */
    struct errbuf eb;
    struct rt_cond moved; /* state, landed or peeking changed */
};

/* Starts the transfer; the caller owns one reference. `chunk` is copied; NULL: the whole object. */
enum err fetch_start(struct object_service *s, const struct map_bucket *b,
                     struct key_slot *slot, const struct fetch_chunk *chunk,
                     struct pace *prefetch, struct fetch **out,
                     struct errbuf *eb) MUST_CHECK;
/* The nodes of the cluster changed since it began, and another one may have written the key: it is not to be kept, nor to
 * be joined. Chunks name their version. */
bool fetch_is_overtaken(const struct fetch *f);
struct fetch *fetch_ref(struct fetch *f);
void fetch_drop(struct fetch **fp);
/* One reader fewer. When the last reader leaves, a transfer that is not to be kept is cancelled. */
void fetch_reader_left(struct fetch *f);
/* The number of bytes that readers may see now. */
uint64_t fetch_visible(const struct fetch *f);
