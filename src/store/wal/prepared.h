/* prepared: versions that are prepared on this disk and neither committed nor aborted yet (two-phase commit).
 *
 * Their entries stand in the table `prepared` of memtable and index, by content id; so they outlive an index commit and a
 * restart. Their keys and ids are in memory: loaded from the index at start, then changed with each batch that is
 * published (change.c), by replay and committer alike. The committer refuses more than store_options.prepared_max.
 *
 * Owner loop, but where said. docs/formats.md, section 4.
 */
#pragma once
#include "store/core/core.h"
#include "store/store_entry.h"
#include "store/store_upload.h"

struct prepared *prepared_new(void);
void prepared_free(struct prepared **pp); /* NULL is fine */
/* What the index holds. Once, before replay. May switch. */
enum err prepared_load(struct store *d, struct errbuf *eb) MUST_CHECK;

struct prepared_who {
    struct content_id content;
    uint64_t bucket;
    struct span key;         /* borrowed; only its hash is kept */
    struct upload_id upload; /* zero: none */
};
void prepared_add(struct prepared *p, const struct prepared_who *who); /* again is fine */
void prepared_drop(struct prepared *p,
                   const struct content_id *content); /* none is fine */

/* A body or a log record with this content id lives while this holds, committed or not. */
bool prepared_has(const struct prepared *p, const struct content_id *content);
bool prepared_has_upload(const struct prepared *p, const struct upload_id *id);
uint32_t prepared_count(const struct prepared *p); /* any loop */
/* What a look-up has found, with ENTRY_PREPARED where a version of the key is; *entry is zero else where `found` is
 * ERR_NOT_FOUND. Returns `found`. Any loop; switches only where some key with a like hash is prepared. */
enum err prepared_mark(struct store *d, const struct store_key *k, enum err found,
                       struct entry *entry, struct errbuf *eb) MUST_CHECK;
