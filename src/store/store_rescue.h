/* store_rescue: operations on a disk that is not served: rebuild its index, repair damage,
 * export. store_check(), which changes nothing, is in store_health.h. Each takes the disk's
 * lock: ERR_EXISTS if it is served. Any loop; all may switch.
 *
 * docs/recovery.md tells when to use which, docs/formats.md what they read and write.
 */
#pragma once
#include "store/store_exported.h"
#include "store/store_health.h"

/* ---- rebuild ---- */
struct store_rebuild_options {
    /* Bodies that no log names become objects again, and parts become uploads in progress: the
     * last resort if logs are lost. It also restores what a lost log had deleted or replaced. */
    bool from_bodies;
    bool dry_run; /* only report */
    bool superblock_only;
    uint64_t epoch_least; /* of a rebuilt superblock; from the node's state */
    void (*say)(void *arg, const char *sentence);
    /* Called now and then with the bytes of logs, then of bodies. */
    void (*progress)(void *arg, const char *what, uint64_t done, uint64_t total);
    void *arg; /* of both */
};
struct store_rebuilt {
    bool superblock;        /* rebuilt from the headers of segments */
    bool wal_damaged;       /* changes were lost */
    uint64_t objects;       /* live after the rebuild */
    uint64_t log_bytes;     /* read */
    uint64_t bodies, parts; /* restored, or with dry_run: that would be */
};
/* Rebuilds the index of a disk that is not served from its logs. If both superblocks are damaged
 * or missing, it first rebuilds them from the segment headers. ERR_EXISTS: it is served. Any
 * loop. May switch. */
enum err store_rebuild(const char *path, const struct store_rebuild_options *o,
                       struct store_rebuilt *out, struct errbuf *eb) MUST_CHECK;

/* ---- repair ---- */
/* As store_check(), and repairs what needs no second copy: superblocks, headers of segments and
 * bodies, the index. Objects whose bytes are lost stay, and their reads fail, unless
 * `drop_damaged`; cached ones are always dropped. Also drops the bodies that were kept because a
 * log was damaged. */
enum store_says { STORE_SAYS_DAMAGED, STORE_SAYS_NOTE, STORE_SAYS_REPAIRED };
struct store_repair_options {
    const char *scratch;
    bool look_only; /* no repairs: store_check() with progress */
    bool drop_damaged;
    void (*say)(void *arg, enum store_says what, const char *sentence);
    void (*progress)(void *arg, const char *what, uint64_t done,
                     uint64_t total); /* or NULL */
    void *arg;
};
struct store_repaired {
    struct store_checked before, after; /* after: what remains */
    uint64_t mended, dropped;           /* dropped objects count as mended */
};
enum err store_repair(const char *path, const struct store_repair_options *o,
                      struct store_repaired *out, struct errbuf *eb) MUST_CHECK;

/* ---- export ---- */

/* Receives the objects: begin, data until the last byte, end. An error ends the export. All may
 * switch. */
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
    const char *scratch;        /* where to rebuild the index */
    bool dry_run;               /* reads and counts; does not call the sink */
    /* Returns the present name of a bucket; NULL: the immutable name. */
    struct span (*name_of)(void *arg, uint64_t bucket, struct span immutable_name);
    void (*say)(void *arg, const char *sentence); /* reports what is left out */
    void (*progress)(void *arg, const char *what, uint64_t done, uint64_t total);
    void *arg;
};
struct store_exported {
    uint64_t objects, bytes;
    uint64_t aside;   /* of these, written under EXPORTED_ID */
    uint64_t damaged; /* left out */
    /* Left out, each copy counted: */
    uint64_t older;      /* versions */
    uint64_t open_parts; /* of uploads in progress */
};
/* Exports exactly the live objects of the native class, current versions, and verifies each byte
 * before passing it on. It uses no index of the disks and writes nothing on them. */
enum err store_export(const struct store_export_options *o,
                      const struct store_export_sink *sink, struct store_exported *out,
                      struct errbuf *eb) MUST_CHECK;
