/* object: get, put, delete, list and multipart over disks and backends. Speaks no HTTP.
 *
 * Native buckets live on the disk only. Cached buckets mirror a remote one (decision D10): the first read fetches and
 * keeps, one fetch for all who wait; writes go through, with an in-doubt record before the backend hears of them.
 *
 * Fibers of any loop; everything may switch. Buckets are held by reference for the length of a call.
 */
#pragma once
#include "base/arena.h"
#include "cloud/cloud.h"
#include "disks/disks.h"
#include "map/map.h"

struct object_service;

struct object_options {
    struct disks *disks;
    struct map_service *map;
    struct cloud *cloud;
    uint64_t
        cache_budget; /* cached bytes; beyond it cold GETs pass through (until eviction is built); 0: no limit */
    uint16_t node;
};
enum err object_start(const struct object_options *o, struct object_service **out,
                      struct errbuf *eb) MUST_CHECK;
/* Fails every fetch in flight and lets none begin: who waits for a slow backend is answered now. Before the server of
 * the requests is stopped: a reader on another loop than its fetch's cannot be cancelled. May switch. */
void object_end_fetches(struct object_service *s);
/* Ends fetches in flight and joins them. No request may be left. May switch. */
void object_stop(struct object_service **sp);

/* ---- what is known of an object ---- */
enum object_source { OBJECT_LOCAL, OBJECT_COLD, OBJECT_JOINED, OBJECT_BYPASS };
struct object_info {
    uint64_t size;
    int64_t mtime_ms;
    char etag[160];          /* without quotes: hex, hex-N, or the backend's own */
    bool plain;              /* `meta` is empty: all defaults */
    struct object_meta meta; /* in the arena given */
    enum object_source source;
};

/* ---- reading ---- */
struct object_get;
/* Finds the object and says what is known; the body follows on demand. On a cached bucket this joins or starts the
 * fetch. ERR_NOT_FOUND, ERR_BACKEND. On ERR_OK the caller ends *out with object_get_end(). */
enum err object_get_begin(struct object_service *s, const struct map_bucket *b,
                          struct span key, struct arena *a, struct object_info *info,
                          struct object_get **out, struct errbuf *eb) MUST_CHECK;
/* Chooses the bytes; once, before the first object_get_next(). [first, first+len) lies inside the object. ERR_NOT_FOUND,
 * here or from the first object_get_next(): the object was replaced since; begin again. */
enum err object_get_range(struct object_get *g, uint64_t first, uint64_t len,
                          struct errbuf *eb) MUST_CHECK;
/* The next piece, verified, valid until the next call; len 0 at the end. */
enum err object_get_next(struct object_get *g, struct deadline by, struct span *piece,
                         struct errbuf *eb) MUST_CHECK;
void object_get_end(struct object_get **gp);
/* Once more: a small object that was just read whole from memory is read again without looking for it (disk.h). Nothing
 * switches. */
struct object_again {
    struct disks_again at;
    bool cached; /* of a cached bucket: counted as a hit */
};
/* While the first piece is at hand. False: not of this object. */
bool object_again_keep(const struct object_get *g, struct object_again *out);
/* False: get it as usual. True: *bytes stay until object_again_end(), over switches too. */
bool object_again_begin(struct object_service *s, const struct object_again *a,
                        struct disk_held *held, struct span *bytes);
void object_again_end(struct disk_held *held);
/* The same without a body: no fetch is started. */
enum err object_head(struct object_service *s, const struct map_bucket *b,
                     struct span key, struct arena *a, struct object_info *info,
                     struct errbuf *eb) MUST_CHECK;

/* ---- writing ---- */
struct object_put;
/* size: DISK_SIZE_UNKNOWN where no length was given. MD5 and the sums asked for are computed here, in slices with
 * a yield between them. */
struct object_put_options {
    uint64_t size;
    uint8_t checksum_algorithm; /* wire/checksum.h: to compute and keep; 0: none */
};
enum err object_put_begin(struct object_service *s, const struct map_bucket *b,
                          struct span key, const struct object_put_options *o,
                          struct object_put **out, struct errbuf *eb) MUST_CHECK;
enum err object_put_write(struct object_put *p, const void *data, size_t len,
                          struct errbuf *eb) MUST_CHECK;
/* After the last byte, before commit: the sums of what came. */
struct object_sums {
    uint8_t md5[16];
    uint8_t checksum[32];
    size_t checksum_len;
    uint64_t size;
};
enum err object_put_sums(struct object_put *p, struct object_sums *out,
                         struct errbuf *eb) MUST_CHECK;
/* Takes the put. `meta` without md5, checksum and mtime, which are filled in here. */
enum err object_put_commit(struct object_put **pp, const struct object_meta *meta,
                           struct arena *a, struct object_info *out,
                           struct errbuf *eb) MUST_CHECK;
void object_put_abort(struct object_put **pp); /* NULL is fine */
/* ERR_OK whether or not there was one. */
enum err object_delete(struct object_service *s, const struct map_bucket *b,
                       struct span key, struct errbuf *eb) MUST_CHECK;

/* ---- listing ---- */
struct object_list_options {
    struct span prefix, delimiter;
    struct span after; /* key > after; a common prefix given here skips its group */
    uint32_t max;      /* at most 1,000 */
};
struct object_entry {
    struct span name; /* key, or common prefix */
    bool is_prefix;
    uint64_t size;
    int64_t mtime_ms;
    char etag[160];
};
struct object_page {
    struct object_entry *entries; /* in the arena, byte order, prefixes among them */
    uint32_t count;
    bool truncated;
    struct span next_after; /* `after` of the next page */
    bool stale;             /* the backend is down: what is here of a cached bucket */
};
enum err object_list(struct object_service *s, const struct map_bucket *b,
                     const struct object_list_options *o, struct arena *a,
                     struct object_page *out, struct errbuf *eb) MUST_CHECK;
/* ERR_NOT_EMPTY or ERR_OK; native buckets and cached ones (whose remote stays as it is: always ERR_OK). */
enum err object_bucket_may_go(struct object_service *s, const struct map_bucket *b,
                              struct errbuf *eb) MUST_CHECK;

/* ---- multipart: ids are opaque text of at most 1,024 bytes ---- */
enum err object_upload_begin(struct object_service *s, const struct map_bucket *b,
                             struct span key, const struct object_meta *meta,
                             struct arena *a, struct span *upload_id,
                             struct errbuf *eb) MUST_CHECK;
enum err object_part_begin(struct object_service *s, const struct map_bucket *b,
                           struct span key, struct span upload_id, uint32_t number,
                           const struct object_put_options *o, struct object_put **out,
                           struct errbuf *eb)
    MUST_CHECK; /* ends by object_put_commit or _abort */
struct object_part {
    uint32_t number;
    uint64_t size;
    char etag[160];
    int64_t mtime_ms;
    uint8_t checksum_algorithm;
    struct span checksum;
};
enum err object_part_list(struct object_service *s, const struct map_bucket *b,
                          struct span key, struct span upload_id, uint32_t after,
                          uint32_t max, struct arena *a, struct object_part **out,
                          uint32_t *count, bool *more, struct errbuf *eb) MUST_CHECK;
struct object_complete_part {
    uint32_t number;
    struct span etag;           /* without quotes */
    uint8_t checksum_algorithm; /* 0: none was named */
    uint8_t checksum[32];
};
#define OBJECT_ANY_SIZE UINT64_MAX
struct object_complete {
    const struct object_complete_part *parts; /* ascending */
    uint32_t count;
    uint64_t want_size; /* of the object, or OBJECT_ANY_SIZE */
};
/* What is wrong with the list; `bad_number` is the part's. Nothing has changed then. */
enum object_complete_why {
    COMPLETE_OK,
    COMPLETE_BAD_PART,
    COMPLETE_TOO_SMALL,
    COMPLETE_WRONG_SIZE,
    COMPLETE_OTHER
};
enum err object_upload_complete(struct object_service *s, const struct map_bucket *b,
                                struct span key, struct span upload_id,
                                const struct object_complete *what, struct arena *a,
                                struct object_info *out, enum object_complete_why *why,
                                uint32_t *bad_number, struct errbuf *eb) MUST_CHECK;
enum err object_upload_abort(struct object_service *s, const struct map_bucket *b,
                             struct span key, struct span upload_id,
                             struct errbuf *eb) MUST_CHECK;
struct object_upload {
    struct span key, upload_id;
    int64_t begun_ms;
};
enum err object_upload_list(struct object_service *s, const struct map_bucket *b,
                            struct span prefix, struct span after_key,
                            struct span after_id, uint32_t max, struct arena *a,
                            struct object_upload **out, uint32_t *count, bool *more,
                            struct errbuf *eb) MUST_CHECK;
