/* store_upload: multipart uploads and their parts. Part of store.h. */
#pragma once
#include "store/store_write.h"

struct upload_id {
    struct content_id id;
};
enum err store_upload_begin(struct store *d, const struct store_key *k,
                            enum store_class class, const struct object_meta *meta,
                            struct upload_id *out, struct errbuf *eb) MUST_CHECK;
/* Begins a part. A part is a body: write it with the writer and end it with store_part_commit().
 * The same number again replaces it. */
enum err store_part_begin(struct store *d, const struct store_key *k,
                          const struct upload_id *u, uint32_t number, uint64_t size,
                          struct store_writer **out, struct errbuf *eb) MUST_CHECK;
enum err store_part_commit(struct store_writer **wp, const struct object_meta *meta,
                           struct errbuf *eb) MUST_CHECK;
struct store_part {
    uint32_t number;
    uint64_t size;
    uint8_t md5[16];
    int64_t mtime_ms;
    struct content_id content;
    uint8_t checksum_algorithm;
    struct span checksum; /* in the arena */
};
enum err store_part_list(struct store *d, const struct store_key *k,
                         const struct upload_id *u, uint32_t after, uint32_t max,
                         struct arena *a, struct store_part **out, uint32_t *count,
                         bool *more, struct errbuf *eb) MUST_CHECK; /* ERR_NO_UPLOAD */
/* The present place of a part, for store_read_begin(). Compaction may move the part until that
 * call has opened it. ERR_NO_UPLOAD: no part of this number, or no such upload. */
enum err store_part_find(struct store *d, const struct store_key *k,
                         const struct upload_id *u, uint32_t number, struct entry *out,
                         struct errbuf *eb) MUST_CHECK;
/* Returns the metadata given at begin. */
enum err store_upload_meta(struct store *d, const struct store_key *k,
                           const struct upload_id *u, struct arena *a,
                           struct object_meta *out, struct errbuf *eb) MUST_CHECK;
/* Completes an upload: one record, one entry. The named parts (ascending) become the object, the
 * others are dropped. For 7 days a repeat with the same upload id returns the same entry. */
enum err store_upload_complete(struct store *d, const struct store_key *k,
                               const struct upload_id *u, const struct store_part *parts,
                               uint32_t count, const struct object_meta *meta,
                               const struct store_condition *c, struct entry *out,
                               struct errbuf *eb) MUST_CHECK;
enum err store_upload_abort(struct store *d, const struct store_key *k,
                            const struct upload_id *u, struct errbuf *eb) MUST_CHECK;
struct store_upload {
    struct span key; /* in the arena */
    struct upload_id id;
    int64_t begun_ms;
};
/* Uploads in progress of a bucket, by key, then time of begin. */
enum err store_upload_list(struct store *d, uint64_t bucket, struct span after_key,
                           const struct upload_id *after_id, uint32_t max,
                           struct arena *a, struct store_upload **out, uint32_t *count,
                           bool *more, struct errbuf *eb) MUST_CHECK;
