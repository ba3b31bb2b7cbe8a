/* scrub: reads everything that lives on a disk, always, slowly, and reports damage before a client meets it.
 *
 *     WAITS --(the next pass is due, or store_scrub_start)--> RUNS --(every bucket was read)--> WAITS
 *
 * A pass goes by the index: every version of every key, its metadata against the header in the log or body segment,
 * every block of its body and of its parts, then the parts of uploads in progress. Its rate is such that a pass takes
 * most of `pass_ms`; one that was asked for goes at `rate`. Reads are of the background class and bypass the block cache,
 * which would hide what lies on the disk. Where it stands, and what it found, is saved in .forebay/scrub and goes on
 * after a restart.
 *
 * Before all that, behind each start that has not read the index as a whole, and when a pass begins, the index is held against
 * what was counted when it was written, a piece at a time (index_prove_some()). Until that is over nothing of the disk is
 * given back (compact.c, recover_bodies.c): what a damaged index does not know of may live.
 *
 * What is found is looked up again first: an object, or a part, that was replaced or moved meanwhile is no finding. A damaged cached
 * version is dropped, so that the next read fetches it again; for a native one the room above repairs it from another copy
 * (store_on_damage).
 *
 * Fibers: one, on the owner loop. On disk: docs/formats.md, section "scrub".
 */
#pragma once
#include "store/core/core.h"
#include "store/store_entry.h"
#include "store/store_health.h"

struct scrub;

enum err scrub_start(struct store *d, struct errbuf *eb) MUST_CHECK;
void scrub_stop(struct store *d); /* saves its position. Home; switches. NULL is fine. */
void scrub_free(struct scrub **sp);

/* ---- what it is made of ---- */

/* Position and counts: what is saved. */
struct scrub_state {
    struct scrub_pass pass, last;
    bool running;
    bool asked;      /* a request began this pass: at the full rate */
    uint64_t bucket; /* the next version to read is behind these */
    char key[STORE_KEY_MAX];
    size_t key_len;
    struct version version;
};
#define SCRUB_STATE_MAX (1u << 20)
/* The state with its findings as one record, and back. ERR_CORRUPT: nothing of it is believed. */
void scrub_encode(const struct scrub_state *s, const struct scrub_finding *findings,
                  uint32_t count, struct buf *out);
enum err scrub_decode(struct span bytes, struct scrub_state *s,
                      struct scrub_finding *findings, uint32_t room, uint32_t *count,
                      struct errbuf *eb) MUST_CHECK;

/* Reads all of the index: ERR_CORRUPT tells why it is not believed any more. `on_bytes` and `stop` as below.
 * While the pool has no place it waits, and is where it was. */
enum err scrub_read_index(struct store *d, const _Atomic bool *stop,
                          enum err (*on_bytes)(void *arg, uint64_t bytes), void *arg,
                          struct errbuf *eb) MUST_CHECK;
/* Reads all of one version from the disk and compares. ERR_CORRUPT and ERR_IO: *out says part, block and what;
 * `on_bytes` gets the count of bytes read, may switch, and ends it by an error. */
struct scrub_read {
    enum err (*on_bytes)(void *arg, uint64_t bytes);
    void *arg;
    uint32_t part;  /* number, 0: none */
    uint64_t block; /* the first wrong one */
    const char *what;
};
enum err scrub_read_entry(struct store *d, const struct store_key *k,
                          const struct entry *entry, bool with_meta, struct scrub_read *r,
                          struct errbuf *eb) MUST_CHECK;
