/* list: memtable and index as one ordered list, page by page. Nothing is held between pages or over a switch: a
 * page is copied out of the memtable, then out of the index, then merged as far as both reach. To skip a group of keys (a
 * delimiter) the caller seeks: it passes the first key behind the group, inclusive.
 *
 * Any loop. All may switch. Results lie in the arena; ERR_BUSY at its limit. */
#pragma once
#include "store/index/entry.h"
#include "store/index/index.h"
#include "store/store.h"

struct content_id;
struct entry;
struct index;
struct store_prepared;
struct store_upload;
struct store_version;
struct upload_id;
struct version;

/* Living entries of a bucket, at most `max`; *more: another may follow. As store_list(). */
enum err list_objects(struct memtable *t, struct index *x, uint64_t bucket,
                      struct span after, bool inclusive, uint32_t max, struct arena *a,
                      struct store_entry **out, uint32_t *count, bool *more,
                      struct errbuf *eb) MUST_CHECK;
/* The same with markers and the tombstones that replicas need. As store_list_any(). */
enum err list_objects_any(struct memtable *t, struct index *x, uint64_t bucket,
                          struct span after, bool inclusive, uint32_t max,
                          struct arena *a, struct store_entry **out, uint32_t *count,
                          bool *more, struct errbuf *eb) MUST_CHECK;
/* Prepared versions, by content id; `after` NULL: from the first. As store_prepared(). */
enum err list_prepared(struct memtable *t, struct index *x,
                       const struct content_id *after, uint32_t max, struct arena *a,
                       struct store_prepared **out, uint32_t *count, bool *more,
                       struct errbuf *eb) MUST_CHECK;
enum list_which {
    LIST_ALL,
    LIST_UPLOADS, /* without those that copy an object of another disk */
    LIST_COPIES,  /* only these */
};
/* Uploads in progress, by key, then begin; those after (after_key, after_id); after_id NULL: after all of
 * after_key (an empty one: from the first). As store_upload_list(). */
enum err list_uploads(struct memtable *t, struct index *x, uint64_t bucket,
                      enum list_which which, struct span after_key,
                      const struct upload_id *after_id, uint32_t max, struct arena *a,
                      struct store_upload **out, uint32_t *count, bool *more,
                      struct errbuf *eb) MUST_CHECK;
/* Parts of an upload with number > after. The caller has found the upload. */
struct list_part {
    uint32_t number;
    struct part_entry part;
};
enum err list_parts(struct memtable *t, struct index *x, const struct upload_id *id,
                    uint32_t after, uint32_t max, struct arena *a, struct list_part **out,
                    uint32_t *count, bool *more, struct errbuf *eb) MUST_CHECK;
/* Versions of one key older than `after`, newest first, at most `max`; the current one is not among them. */
enum err list_older(struct memtable *t, struct index *x, uint64_t bucket, struct span key,
                    const struct version *after, uint32_t max, struct arena *a,
                    struct entry **out, uint32_t *count, bool *more,
                    struct errbuf *eb) MUST_CHECK;
/* All versions of a bucket behind (after_key, after): by key, the newest first, delete markers too. `after` NULL: all
 * versions of keys > after_key (>= when inclusive). As store_version_list(). */
enum err list_versions(struct memtable *t, struct index *x, uint64_t bucket,
                       struct span after_key, bool inclusive, const struct version *after,
                       uint32_t max, struct arena *a, struct store_version **out,
                       uint32_t *count, bool *more, struct errbuf *eb) MUST_CHECK;
/* ---- all of them, one by one: list_each.c ----
 * The arguments of `fn` are valid until it returns; it may switch. Its first error ends the walk and is the result. A page of `page`
 * items is read at a time, so later items may be outdated: use small pages where `fn` takes long. */
typedef enum err list_upload_fn(void *arg, const struct store_upload *u,
                                struct errbuf *eb);
enum err list_each_upload(struct memtable *t, struct index *x, uint64_t bucket,
                          enum list_which which, uint32_t page, list_upload_fn *fn,
                          void *arg, struct errbuf *eb) MUST_CHECK;
typedef enum err list_part_fn(void *arg, const struct list_part *p, struct errbuf *eb);
enum err list_each_part(struct memtable *t, struct index *x, const struct upload_id *id,
                        uint32_t page, list_part_fn *fn, void *arg,
                        struct errbuf *eb) MUST_CHECK;

/* No object, version or delete marker in it? Uploads in progress do not count: the removal of a bucket aborts them. */
enum err list_bucket_empty(struct memtable *t, struct index *x, uint64_t bucket,
                           bool *empty, struct errbuf *eb) MUST_CHECK;
