/* store_rescue: what can be done to a disk that is not served: rebuild its index, repair damage. store_check(), which changes
 * nothing, stands in store_health.h. Each takes the disk's lock: ERR_EXISTS when it is served. Any loop; all may switch.
 *
 * docs/recovery.md says when to use which; docs/formats.md what is read and written.
 */
#pragma once
#include "store/store_exported.h"
#include "store/store_health.h"

/* ---- rebuild ---- */
struct store_rebuild_options {
    /* Bodies that no log knows become objects again, and parts become uploads in progress: the last resort, when logs
     * are gone. What was deleted or replaced in a lost log comes back with them. */
    bool from_bodies;
    bool dry_run; /* says what it would do */
    bool superblock_only;
    uint64_t
        epoch_least; /* of the superblock, where it has to be made again; what the node's state says */
    void (*say)(void *arg, const char *sentence);
    /* Of the bytes of logs, then of bodies; now and then. */
    void (*progress)(void *arg, const char *what, uint64_t done, uint64_t total);
    void *arg; /* of both */
};
struct store_rebuilt {
    bool superblock;        /* it was made again from the headers of segments */
    bool wal_damaged;       /* changes are lost */
    uint64_t objects;       /* living now */
    uint64_t log_bytes;     /* read */
    uint64_t bodies, parts; /* taken back, or with dry_run: that would be */
};
/* Rebuilds the index of a disk that is not served from its logs; before that, where both are damaged or gone, the
 * superblock, from the headers of its segments. ERR_EXISTS: it is served. Any loop. May switch. */
enum err store_rebuild(const char *path, const struct store_rebuild_options *o,
                       struct store_rebuilt *out, struct errbuf *eb) MUST_CHECK;

/* ---- repair ---- */
/* As store_check(), and mends what can be mended without a second copy: superblocks, headers of segments and bodies, the index.
 * Objects whose bytes are gone stay, and answer errors, unless `drop_damaged`; cached ones are always dropped. Also given
 * up then: bodies that were kept because a log was damaged. */
enum store_says { STORE_SAYS_DAMAGED, STORE_SAYS_NOTE, STORE_SAYS_REPAIRED };
struct store_repair_options {
    const char *scratch;
    bool look_only; /* mends nothing: store_check() with progress */
    bool drop_damaged;
    void (*say)(void *arg, enum store_says what, const char *sentence);
    void (*progress)(void *arg, const char *what, uint64_t done,
                     uint64_t total); /* or NULL */
    void *arg;
};
struct store_repaired {
    struct store_checked before, after; /* after: what is left */
    uint64_t mended, dropped;           /* objects dropped count as mended */
};
enum err store_repair(const char *path, const struct store_repair_options *o,
                      struct store_repaired *out, struct errbuf *eb) MUST_CHECK;

/* ---- export ---- */

/* Takes the objects: begin, data until all bytes are there, end. An error ends the export. All may switch. */
struct store_export_sink {
    enum err (*begin)(void *arg, const struct exported *e, bool aside, struct errbuf *eb);
    enum err (*data)(void *arg, struct span piece, struct errbuf *eb);
    enum err (*end)(void *arg, struct errbuf *eb);
    void *arg;
};
struct store_export_options {
    const char *const *paths; /* the disks of one node */
    unsigned count;
    struct span bucket, prefix; /* empty: all */
    const char *scratch;        /* where the index is rebuilt */
    bool dry_run;               /* reads and counts; the sink is not called */
    /* The name of a bucket, which may not be the one it was born with; NULL: that one. */
    struct span (*name_of)(void *arg, uint64_t bucket, struct span immutable_name);
    void (*say)(void *arg, const char *sentence); /* what is left out */
    void (*progress)(void *arg, const char *what, uint64_t done, uint64_t total);
    void *arg;
};
struct store_exported {
    uint64_t objects, bytes;
    uint64_t aside;   /* of these, under EXPORTED_ID */
    uint64_t damaged; /* left out */
    /* On these disks, each copy counted: left out. */
    uint64_t older;      /* versions */
    uint64_t open_parts; /* of uploads in progress */
};
/* Exactly the living objects of the native class, current versions, each byte compared with its sums before it is given
 * out. No index is asked, and nothing is written on the disks. */
enum err store_export(const struct store_export_options *o,
                      const struct store_export_sink *sink, struct store_exported *out,
                      struct errbuf *eb) MUST_CHECK;
