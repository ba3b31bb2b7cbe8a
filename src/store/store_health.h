/* store_health: the health of a disk: errors in use, scrub passes and findings, and the check of
 * a disk that is not served. Part of store.h. */
#pragma once
#include "store/store_entry.h"

struct store;

/* Whether the index is verified. After a start that did not read it as a whole, a background
 * pass does. */
enum store_index { STORE_INDEX_UNPROVEN, STORE_INDEX_PROVEN, STORE_INDEX_DAMAGED };

/* ---- health ---- */
enum store_state {
    STORE_OK,
    STORE_SLOW, /* ten times its usual latency */
    /* Until the next start: a sync or the log failed, or the file system rejects writes. */
    STORE_READ_ONLY,
    STORE_FAILED, /* until the next start: out of service; every call fails with ERR_IO */
};
const char *store_state_name(
    enum store_state s); /* "ok", "slow", "read-only", "failed" */
struct store_health {
    enum store_state state;
    uint64_t read_errors, write_errors, sync_errors, name_errors; /* since open */
    uint64_t corrupt_blocks; /* wrong sums found by reads; no reason to fail the disk */
    uint64_t slow_ops, index_faults;
    char why[128]; /* empty while the disk is healthy */
};
/* Any thread. */
void store_health(const struct store *d, struct store_health *out);
/* Only whether it is STORE_FAILED, in one load. */
bool store_has_left(const struct store *d);
/* False once the outcome of a write is reported as unknown. The disk then rejects writes until
 * the next start, and may hold more than it reports. */
bool store_accepts_writes(const struct store *d);

/* ---- scrub ---- */
struct scrub_pass {
    uint64_t number;             /* the first is 1; 0: none yet */
    uint64_t began_ms, ended_ms; /* ended 0: in progress */
    uint64_t objects, parts, bytes;
    uint64_t findings, repaired;
};
enum store_outcome {
    FINDING_OPEN,     /* no other copy exists, or repair failed */
    FINDING_REPAIRED, /* from another copy */
    FINDING_DROPPED,  /* cached: the next read fetches it again */
};
struct scrub_finding {
    uint64_t pass;
    int64_t found_ms;
    uint64_t bucket;
    uint32_t part;  /* part number, 0: none */
    uint64_t block; /* the first wrong one */
    enum store_outcome outcome;
    char what[64]; /* "a block", "the header", ... */
    char key[STORE_KEY_MAX];
    size_t key_len;
};
#define STORE_FINDINGS_MAX 256u /* only the newest are kept; all are counted */
struct scrub_status {
    bool running;                 /* or about to start */
    bool asked;                   /* this pass was requested: it runs at the full rate */
    uint64_t total_bytes;         /* approximate bytes of a pass */
    uint64_t rate;                /* current limit in bytes a second */
    int64_t next_ms;              /* when the next pass begins by itself */
    struct scrub_pass pass, last; /* the pass in progress or last ended; the one before */
    const struct scrub_finding
        *findings; /* in the arena, newest first: of the last two passes */
    uint32_t count;
};
/* Any loop. Both may switch. */
enum err store_scrub_status(struct store *d, struct arena *a, struct scrub_status *out,
                            struct errbuf *eb) MUST_CHECK;
/* Begins a pass now, from the start, at the full rate. */
enum err store_scrub_start(struct store *d, struct errbuf *eb) MUST_CHECK;
/* Repairs a damaged native version from another copy. On the owner loop; may switch.
 * ERR_NOT_FOUND: there is no other copy. */
typedef enum err store_repair_fn(void *arg, const struct store_key *k,
                                 const struct entry *entry, struct errbuf *eb);
void store_on_damage(struct store *d, store_repair_fn *fn,
                     void *arg); /* set before the disk is served; NULL: none */

/* ---- lost changes (index/suspect.h): any loop, no lock; they do not switch ---- */
/* True if acknowledged changes are lost here, so that a list of the bucket may lack keys. Bucket 0: of any bucket. */
bool store_list_lacks(const struct store *d, uint64_t bucket);
/* True if a change of this key is lost, and the next change of it ends that. False if the whole disk is in doubt. */
bool store_key_is_suspect(const struct store *d, const struct store_key *k);

/* ---- check ---- */
struct store_checked {
    uint64_t records; /* log records */
    uint64_t objects,
        parts;      /* live ones, read as a GET would read them; parts of open uploads */
    uint64_t bytes; /* of these */
    uint64_t faults, notes; /* messages of either kind */
};
/* Reads everything of a disk that is not served, and changes nothing on it: superblock, every
 * record, every live byte. Compares the index with the logs, and for that rebuilds one in a new
 * folder under `scratch`, which it removes again. Reports each finding in a message; a note is
 * unusual but harmless. Also returns ERR_OK if there are faults. ERR_EXISTS: the disk is served;
 * ERR_NOT_FOUND: no disk. Any loop. May switch. */
enum err store_check(const char *path, const char *scratch,
                     void (*say)(void *arg, bool fault, const char *sentence), void *arg,
                     struct store_checked *out, struct errbuf *eb) MUST_CHECK;
