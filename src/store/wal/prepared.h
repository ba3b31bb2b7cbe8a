/* prepared: versions prepared on this disk and not yet committed or aborted (two-phase commit).
 *
 * Their entries are in the table `prepared` of memtable and index, by content id, so they
 * survive an index commit and a restart. Memory holds their keys and ids: loaded from the index
 * at start, then updated with each published batch (change.c), both by replay and by the
 * committer. The committer rejects more than store_options.prepared_max.
 *
 * Owner loop, except where said. docs/formats.md, section 4.
 */
#pragma once
#include "store/core/core.h"
#include "store/store_entry.h"
#include "store/store_upload.h"

struct prepared *prepared_new(void);
void prepared_free(struct prepared **pp); /* NULL is fine */
/* Loads the prepared versions of the index. Once, before replay. May switch. */
enum err prepared_load(struct store *d, struct errbuf *eb) MUST_CHECK;

struct prepared_who {
    struct content_id content;
    uint64_t bucket;
    struct span key;         /* borrowed; only its hash is kept */
    struct upload_id upload; /* zero: none */
};
void prepared_add(struct prepared *p, const struct prepared_who *who); /* idempotent */
void prepared_drop(struct prepared *p,
                   const struct content_id *content); /* no effect if absent */

/* True if the version is prepared. While it is, the body or log record with this content id is
 * live. */
bool prepared_has(const struct prepared *p, const struct content_id *content);
bool prepared_has_upload(const struct prepared *p, const struct upload_id *id);
uint32_t prepared_count(const struct prepared *p); /* any loop */
/* Completes a look-up: sets ENTRY_PREPARED if the key has a prepared version. `found` is the
 * result of the look-up; if it is ERR_NOT_FOUND, the other fields of *entry are zeroed. Returns
 * `found`. Any loop; switches only if a key with a similar hash is prepared. */
enum err prepared_mark(struct store *d, const struct store_key *k, enum err found,
                       struct entry *entry, struct errbuf *eb) MUST_CHECK;
