/* suspect: keys of which an acknowledged change is lost, so that what the index says of them may be older, or wrong.
 *
 * A key is suspect by its hash (run_key_hash()), or because the whole disk is in doubt: then only an entry with a version
 * above a bound is believed. Look-ups of a suspect key are ERR_CORRUPT, also where it has an entry; lists of its bucket
 * too. The next change that sets the key's entry ends that. Of an upload the hash is that of its id.
 *
 * The start fills the table, before anything reads it. Afterwards only flags change. docs/formats.md, section 6.
 *
 * Threads: suspects_any() and suspects_verify(), any; the rest on the owner loop. */
#pragma once
#include "base/buf.h"
#include "store/store_entry.h"
#include <stdatomic.h>

#define SUSPECTS_MAX        100000u
#define SUSPECT_RANGES_MAX  64u
#define SUSPECT_ENTRY_BYTES 12u /* hash 8, bucket 4: LOG_RECORD_KEY_BYTES */

struct log_record;
struct upload_id;

struct suspect {
    uint64_t hash, batch; /* batch: the damaged one; later records of the key end it */
    uint32_t bucket;      /* suspect_bucket() */
    _Atomic bool resolved;
};
struct suspects {
    _Atomic bool active; /* suspects_activate() was called */
    _Atomic bool any;    /* verified: something is suspect */
    _Atomic uint32_t left;
    struct suspect *at; /* owned; by hash */
    uint32_t count, room;
    bool all; /* the disk is in doubt */
    struct version bound;
    /* Damaged native batches whose keys are in the table already, or were, or are accepted as lost. */
    struct {
        uint64_t first, last;
    } known[SUSPECT_RANGES_MAX];
    uint32_t known_count;
    bool dirty; /* changed since it was written */
};
struct suspects *suspects_new(void);
void suspects_free(struct suspects **sp); /* NULL is fine */
void suspects_check(const struct suspects *s);

uint32_t suspect_bucket(uint64_t bucket);
uint32_t suspect_bucket_of_uploads(uint64_t bucket);
uint64_t suspect_upload_hash(const struct upload_id *id);
/* The hash under which the record's change is listed in the record keys of its batch. False: it is not. */
bool suspect_of(const struct log_record *m, uint64_t key_hash, uint64_t *hash,
                uint32_t *bucket);
/* Digests: SUSPECT_ENTRY_BYTES for each change. */
void suspect_put(char *out, uint64_t hash, uint32_t bucket);
void suspect_get(const char *in, uint64_t *hash, uint32_t *bucket);

/* Before suspects_activate(). Too many: the whole disk is in doubt. */
void suspects_add(struct suspects *s, uint64_t hash, uint32_t bucket, uint64_t batch);
/* A higher bound stays. */
void suspects_bound_all(struct suspects *s, const struct version *bound);
void suspects_forget(struct suspects *s); /* all keys, and the bound */
void suspects_know(struct suspects *s, uint64_t first, uint64_t last);
bool suspects_knows(const struct suspects *s, uint64_t batch);
/* From now on look-ups are verified. */
void suspects_activate(struct suspects *s);
/* A record of that batch has set the key's entry. */
void suspects_resolve(struct suspects *s, uint64_t hash, uint64_t batch);

static inline bool
suspects_any(const struct suspects *s)
{
    return s != NULL && atomic_load_explicit(&s->any, memory_order_relaxed);
}
/* False during a start, when look-ups are not verified yet: their results are not to be remembered. */
static inline bool
suspects_active(const struct suspects *s)
{
    return s == NULL || atomic_load_explicit(&s->active, memory_order_relaxed);
}
bool suspects_has(const struct suspects *s, uint64_t hash);
/* May what was found of the key (NULL: nothing) be believed? Else ERR_CORRUPT. */
enum err suspects_verify(const struct suspects *s, uint64_t hash,
                         const struct entry *found, struct errbuf *eb);
/* A list of objects or of uploads; `bucket`: suspect_bucket() or suspect_bucket_of_uploads(). */
enum err suspects_verify_list(const struct suspects *s, uint32_t bucket,
                              struct errbuf *eb);

/* The bytes of the file `.forebay/suspect`. */
#define SUSPECT_FILE "suspect"
void suspects_encode(const struct suspects *s, struct buf *out);
enum err suspects_decode(struct span bytes, struct suspects *into,
                         struct errbuf *eb) MUST_CHECK;
