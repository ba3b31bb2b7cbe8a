/* store_health: is the disk well? What went wrong while it was used, what a scrub reads and finds, and the check of a disk
 * that is not served. Part of store.h. */
#pragma once
#include "store/store_entry.h"

struct store;

/* Does the index say what was written last? What a start has not read as a whole is read behind it. */
enum store_index { STORE_INDEX_UNPROVEN, STORE_INDEX_PROVEN, STORE_INDEX_DAMAGED };

/* ---- health ---- */
enum store_state {
    STORE_OK,
    STORE_SLOW, /* ten times its own usual */
    STORE_READ_ONLY, /* until the next start: a sync or the log failed, or the file system takes no writes */
    STORE_FAILED, /* until the next start: has left; everything is ERR_IO at once */
};
const char *store_state_name(
    enum store_state s); /* "ok", "slow", "read-only", "failed" */
struct store_health {
    enum store_state state;
    uint64_t read_errors, write_errors, sync_errors,
        name_errors;         /* since it was opened */
    uint64_t corrupt_blocks; /* sums that were wrong when read: no reason to leave */
    uint64_t slow_ops, index_faults;
    char why[128]; /* empty while it is well */
};
/* Any thread. */
void store_health(const struct store *d, struct store_health *out);
/* The same in one load: has it left? */
bool store_has_left(const struct store *d);
/* False from the moment on at which a write of unknown outcome is answered: until the next start this disk takes no
 * write, and may hold more than it reports. */
bool store_accepts_writes(const struct store *d);

/* ---- scrub ---- */
struct scrub_pass {
    uint64_t number;             /* the first is 1; 0: none yet */
    uint64_t began_ms, ended_ms; /* ended 0: under way */
    uint64_t objects, parts, bytes;
    uint64_t findings, repaired;
};
enum store_outcome {
    FINDING_OPEN,     /* there is no other copy, or it could not be brought here */
    FINDING_REPAIRED, /* from another copy */
    FINDING_DROPPED,  /* cached: the next read fetches it again */
};
struct scrub_finding {
    uint64_t pass;
    int64_t found_ms;
    uint64_t bucket;
    uint32_t part;  /* number, 0: none */
    uint64_t block; /* the first wrong one */
    enum store_outcome outcome;
    char what[64]; /* "a block", "the header", ... */
    char key[STORE_KEY_MAX];
    size_t key_len;
};
#define STORE_FINDINGS_MAX 256u /* the newest; those beyond are counted only */
struct scrub_status {
    bool running;                 /* or about to: it was asked for */
    bool asked;                   /* for this pass: it goes at the full rate */
    uint64_t total_bytes;         /* what a pass reads, about */
    uint64_t rate;                /* bytes a second at most, now */
    int64_t next_ms;              /* when the next pass begins by itself */
    struct scrub_pass pass, last; /* the one under way or ended; the one before */
    const struct scrub_finding
        *findings; /* in the arena, newest first: of the last two passes */
    uint32_t count;
};
/* Any loop. Both may switch. */
enum err store_scrub_status(struct store *d, struct arena *a, struct scrub_status *out,
                            struct errbuf *eb) MUST_CHECK;
/* Begins a pass now, from the start, at the full rate. */
enum err store_scrub_start(struct store *d, struct errbuf *eb) MUST_CHECK;
/* Repairs a damaged native version from another copy. On the owner loop; may switch. ERR_NOT_FOUND: there is none. */
typedef enum err store_repair_fn(void *arg, const struct store_key *k,
                                 const struct entry *entry, struct errbuf *eb);
void store_on_damage(struct store *d, store_repair_fn *fn,
                     void *arg); /* before it is served; NULL: none */

/* ---- check ---- */
struct store_checked {
    uint64_t records; /* of logs */
    uint64_t objects,
        parts; /* living ones, read as a GET would read them; parts of open uploads */
    uint64_t bytes;         /* of these */
    uint64_t faults, notes; /* sentences of either kind */
};
/* Reads everything of a disk that is not served, and changes nothing on it: superblock, every record, every living
 * byte, the index against the logs (rebuilt for it in a new folder under `scratch`, which is removed again). Says
 * each finding in a sentence; a note is odd but harmless. ERR_OK also where there are faults; ERR_EXISTS: the disk is
 * served; ERR_NOT_FOUND: no disk. Any loop. May switch. */
enum err store_check(const char *path, const char *scratch,
                     void (*say)(void *arg, bool fault, const char *sentence), void *arg,
                     struct store_checked *out, struct errbuf *eb) MUST_CHECK;
