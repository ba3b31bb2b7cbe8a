/* find: one row, by asking the tail and then the index: the order that never misses a row on its way from one
 * to the other. Any loop. All may switch while the index is not resident.
 *
 * ERR_NOT_FOUND (uploads, parts, completed ones: ERR_NO_UPLOAD); ERR_CORRUPT marks the index as bad. */
#pragma once
#include "disk/index.h"

/* The current row. Tombstones are ERR_NOT_FOUND, unless `with_tombstones` (the committer compares versions). */
enum err find_object(struct tail *t, struct index *x, uint64_t bucket, struct span key,
                     bool with_tombstones, struct row *out, struct errbuf *eb) MUST_CHECK;
enum err find_upload(struct tail *t, struct index *x, uint64_t bucket, struct span key,
                     const struct upload_id *id, struct upload_row *out,
                     struct errbuf *eb) MUST_CHECK;
/* Ask for the upload first: parts of one that has ended may be met until the index has swept them. */
enum err find_part(struct tail *t, struct index *x, const struct upload_id *id,
                   uint32_t number, struct part_row *out, struct errbuf *eb) MUST_CHECK;
/* out->key lies in `key`, which has room for DISK_KEY_MAX bytes. */
enum err find_done(struct tail *t, struct index *x, const struct upload_id *id, char *key,
                   struct done_row *out, struct errbuf *eb) MUST_CHECK;
