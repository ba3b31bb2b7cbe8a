/* find: looks up one entry in the memtable and then in the index. In this order no entry on its way from one to the other is missed.
 * Any loop. All may switch while the index is not resident.
 *
 * ERR_NOT_FOUND (uploads, parts, completed ones: ERR_NO_UPLOAD); ERR_CORRUPT marks the index as bad. */
#pragma once
#include "store/index/index.h"

struct content_id;
struct done_entry;
struct entry;
struct index;
struct part_entry;
struct prepared_entry;
struct upload_entry;
struct upload_id;
struct version;

/* The current entry, as far as it is known: also of a suspect key (suspect.h). For the committer and the replay. */
enum err find_object_known(struct memtable *t, struct index *x, uint64_t bucket,
                           struct span key, bool with_tombstones, struct entry *out,
                           struct errbuf *eb) MUST_CHECK;
/* The current entry. Of a suspect key ERR_CORRUPT. Tombstones are ERR_NOT_FOUND, unless `with_tombstones` (the committer compares versions). */
enum err find_object(struct memtable *t, struct index *x, uint64_t bucket,
                     struct span key, bool with_tombstones, struct entry *out,
                     struct errbuf *eb) MUST_CHECK;
/* The same without waiting, so outside a fiber too. The caller must compare the key on the disk with its own: for a small plain object
 * *out may belong to another key, and lacks what lookup_cache_small_find() says. ERR_BUSY: *want is not in memory. */
enum err find_object_now(struct memtable *t, struct index *x, uint64_t bucket,
                         struct span key, struct index_want *want, struct entry *out,
                         struct errbuf *eb) MUST_CHECK;
enum err find_upload(struct memtable *t, struct index *x, uint64_t bucket,
                     struct span key, const struct upload_id *id,
                     struct upload_entry *out, struct errbuf *eb) MUST_CHECK;
/* Find the upload first: parts of an ended upload stay until the index has swept them. */
enum err find_part(struct memtable *t, struct index *x, const struct upload_id *id,
                   uint32_t number, struct part_entry *out, struct errbuf *eb) MUST_CHECK;
/* out->key lies in `key`, which has room for STORE_KEY_MAX bytes. */
enum err find_done(struct memtable *t, struct index *x, const struct upload_id *id,
                   char *key, struct done_entry *out, struct errbuf *eb) MUST_CHECK;
/* A prepared version. ERR_NOT_FOUND. out->key lies in `key`, which has room for STORE_KEY_MAX bytes. */
enum err find_prepared(struct memtable *t, struct index *x,
                       const struct content_id *content, char *key,
                       struct prepared_entry *out, struct errbuf *eb) MUST_CHECK;
/* An older version by the version it was born with. ERR_NOT_FOUND. */
enum err find_version(struct memtable *t, struct index *x, uint64_t bucket,
                      struct span key, const struct version *born, struct entry *out,
                      struct errbuf *eb) MUST_CHECK;
/* The null version, where it is an older one. ERR_NOT_FOUND. */
enum err find_null_version(struct memtable *t, struct index *x, uint64_t bucket,
                           struct span key, struct entry *out,
                           struct errbuf *eb) MUST_CHECK;
/* The current entry (markers too) or an older one, whichever has this content. ERR_NOT_FOUND. Where the current entry was
 * written without versioning nothing is older, and this costs one look-up. */
enum err find_content(struct memtable *t, struct index *x, uint64_t bucket,
                      struct span key, const struct content_id *content,
                      struct entry *out, struct errbuf *eb) MUST_CHECK;
