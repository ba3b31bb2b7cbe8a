/* object: get, put, delete, list and multipart over disks and backends. Speaks no HTTP.
 *
 * Native buckets live on the disks only. Cached buckets mirror a remote one (decision D10): the first read fetches
 * and keeps the object, one fetch for all waiting readers; writes go through to the backend, after an in-doubt record
 * in the write-ahead log.
 *
 * Fibers of any loop; everything may switch. Callers hold buckets by reference during a call.
 */
#pragma once
#include "base/arena.h"
#include "base/hash.h"
#include "base/pace.h"
#include "cloud/cloud.h"
#include "disks/disks.h"
#include "map/map.h"
#include "nodes/nodes.h"

/* Limits, and a size that the client has not given. */
enum {
    OBJECT_PARTS_MAX = STORE_PARTS_MAX,
    OBJECT_KEY_MAX = STORE_KEY_MAX,
    OBJECT_READ_MORE = STORE_READ_MORE, /* of object_get_more() */
};
#define OBJECT_SIZE_UNKNOWN STORE_SIZE_UNKNOWN

struct object_service;

struct object_options {
    struct disks *disks;
    struct map_service *map;
    struct cloud *cloud;
    uint64_t cache_budget;          /* cached bytes; 0: no limit but the disks */
    unsigned cache_high, cache_low; /* percent of it; 0: 97 and 95 */
    uint64_t large_bytes; /* larger objects of attached buckets are kept in chunks ... */
    uint32_t chunk_bytes; /* ... of this size; 0: 64 and 16 MiB */
    unsigned readahead;   /* objects fetched ahead of a sequential reader; 0: none */
    uint16_t node;
    struct nodes *nodes; /* borrowed; NULL: this node is alone */
};
enum err object_start(const struct object_options *o, struct object_service **out,
                      struct errbuf *eb) MUST_CHECK;
/* Fails every fetch in flight and lets none begin, so that readers of a slow backend get an answer now. Call it
 * before the request server stops: a reader on another loop than its fetch cannot be cancelled. May switch. */
void object_end_fetches(struct object_service *s);
/* Ends and joins the fetches in flight. No request may be left. May switch. */
void object_stop(struct object_service **sp);

/* Called behind every write, completed upload and delete of a key that succeeded, in its fiber, before the answer. May switch. */
typedef void object_on_change(void *arg, uint64_t bucket, struct span key);
/* One watcher, set before requests are served; NULL: none from now on. */
void object_watch(struct object_service *s, object_on_change *on_change, void *arg);

/* ---- which version, and what must hold ---- */
/* One version of a key: S3's `versionId`. */
struct object_version {
    bool null; /* the null version */
    struct version born;
};
#define OBJECT_VERSION_TEXT 33 /* 32 hex or "null", NUL */
/* False: not an id that this node issued. */
bool object_version_parse(struct span text, struct object_version *out);
void object_version_text(const struct object_version *v, char out[OBJECT_VERSION_TEXT]);
/* Checked in one step with the change. */
struct object_condition {
    struct store_condition disk;
    struct span if_match,
        if_none_match; /* as the client sent them: forwarded to a backend; empty: none */
};

/* ---- what is known of an object ---- */
enum object_source { OBJECT_LOCAL, OBJECT_FETCHED, OBJECT_JOINED, OBJECT_BYPASS };
struct object_info {
    uint64_t size;
    int64_t mtime_ms;
    char etag[160];          /* without quotes: hex, hex-N, or the backend's own */
    struct object_meta meta; /* in the arena given */
    enum object_source source;
    bool
        stale; /* a cached version, served while the remote is down: it may be outdated */
    struct object_version version; /* of native buckets */
    bool is_marker;       /* with ERR_NOT_FOUND: the current version is a delete marker */
    uint32_t chunk_bytes; /* the size of its chunks; 0: kept whole */
    bool etag_is_md5;     /* of a remote's answer: the ETag is an MD5 of all bytes */
    uint32_t overwrites;  /* earlier writes of the key, as far as they were counted */
};

/* ---- reading ---- */
struct object_get;
/* Finds the object and fills `info`; the body follows on demand. In a cached bucket this joins or starts the
 * fetch. ERR_NOT_FOUND, ERR_BACKEND. On ERR_OK the caller ends *out with object_get_end(). */
enum err object_get_begin(struct object_service *s, const struct map_bucket *b,
                          struct span key, struct arena *a, struct object_info *info,
                          struct object_get **out, struct errbuf *eb) MUST_CHECK;
/* Chooses the range; once, before the first object_get_next(). [first, first+len) lies inside the object.
 * ERR_NOT_FOUND, here or from the first object_get_next(): the object was replaced; begin again. */
enum err object_get_range(struct object_get *g, uint64_t first, uint64_t len,
                          struct errbuf *eb) MUST_CHECK;
/* The next piece, verified, valid until the next call; len 0 at the end. */
enum err object_get_next(struct object_get *g, struct deadline by, struct span *piece,
                         struct errbuf *eb) MUST_CHECK;
/* The pieces that follow in memory already: store_read_more(). */
unsigned object_get_more(struct object_get *g, struct span *pieces, unsigned max);
void object_get_end(struct object_get **gp);
/* Where the bytes come from; for an object in chunks known with the first piece. */
enum object_source object_get_source(const struct object_get *g);
/* After the first piece: why these bytes of a remote are not compared with its checksum before the reader has all of them
 * (the value of x-forebay-unverified); NULL: they are, or come from the disk. */
const char *object_get_unverified(const struct object_get *g);
/* What is kept of a small object that was read whole from the block cache, to read it again without a lookup. */
struct object_revalidated {
    struct disks_revalidated at;
    bool cached;    /* of a cached bucket: counted as a hit */
    uint32_t reads; /* since it was kept */
    /* Of a cached object, for its access frequency. */
    struct entry_place place;
    uint32_t size;
    bool in_log;
};
/* Called while the first piece is at hand. False: not possible for this object. */
bool object_revalidated_keep(const struct object_get *g, struct object_revalidated *out);
/* Prefetches the cache lines that object_inline_revalidate() reads. */
void object_revalidated_prefetch(struct object_service *s,
                                 const struct object_revalidated *a);

/* Inline read: a whole small object, read without a fiber. Nothing switches. False always means that nothing has happened,
 * and that an ordinary read answers. */
struct object_inline {
    /* Given for object_inline_begin(): called once, outside any fiber. `good`: the bytes are here, verified. Else an
     * ordinary read finds out what is wrong. */
    void (*on_done)(struct object_inline *o, bool good);
    /* The bytes, until object_inline_end(), also across switches. */
    struct span pieces[1 + STORE_READ_MORE];
    unsigned count;
    size_t headroom; /* so many bytes before the first piece may be overwritten */
    /* The room's own. */
    bool revalidated;
    struct object_service *s;
    const struct map_bucket *bucket; /* borrowed until object_inline_end() */
    struct span key;                 /* likewise */
    union {
        struct store_pinned pinned;    /* revalidated */
        struct disks_async_read async; /* not */
    };
};
/* From the block cache, where its index entry is the one that was kept: the bytes are here. */
bool object_inline_revalidate(struct object_service *s, struct object_revalidated *a,
                              struct object_inline *o);
/* By key, with one read of the disk: on_done follows. */
bool object_inline_begin(struct object_service *s, const struct map_bucket *b,
                         struct span key, struct object_inline *o);
/* In on_done, when the bytes are good: the information for the answer's head. Counts the read. */
void object_inline_info(struct object_inline *o, struct object_info *out);
/* Instead of waiting for on_done any longer. object_inline_end() follows. */
void object_inline_abandon(struct object_inline *o);
void object_inline_end(struct object_inline *o);
/* The same for one version; `v` NULL: the current one. ERR_NOT_FOUND with info->is_marker: `version` and
 * `mtime_ms` are those of the delete marker. */
enum err object_get_begin_version(struct object_service *s, const struct map_bucket *b,
                                  struct span key, const struct object_version *v,
                                  struct arena *a, struct object_info *info,
                                  struct object_get **out, struct errbuf *eb) MUST_CHECK;
enum err object_head_version(struct object_service *s, const struct map_bucket *b,
                             struct span key, const struct object_version *v,
                             struct arena *a, struct object_info *info,
                             struct errbuf *eb) MUST_CHECK;
/* Reads the object's own checksum into info->meta, in the arena, where the entry does not have it (most entries do
 * not). For answers that show or compare it. ERR_NOT_FOUND: replaced, begin again. May switch. */
enum err object_get_checksum(struct object_get *g, struct arena *a,
                             struct object_info *info, struct errbuf *eb) MUST_CHECK;
/* The parts of an object that was uploaded in parts; none for other objects and for objects of backends. */
struct object_part_place {
    uint64_t offset, size;
    uint8_t checksum_algorithm; /* 0: none is known */
    struct span checksum;       /* binary, in the arena */
};
enum err object_parts(struct object_get *g, struct arena *a,
                      struct object_part_place **out, uint32_t *count,
                      struct errbuf *eb) MUST_CHECK;
/* The same without a body: starts no fetch. */
enum err object_head(struct object_service *s, const struct map_bucket *b,
                     struct span key, struct arena *a, struct object_info *info,
                     struct errbuf *eb) MUST_CHECK;

/* ---- bringing here, for readers to come ---- */
enum object_prefetched {
    PREFETCHED_BEFORE, /* it was local before */
    PREFETCHED_NOW,
    PREFETCHED_NO_ROOM, /* the cache has no room for it */
};
/* Fetches an object unless it is local, or joins its fetch, and waits until it is kept. `pace` limits the transfer
 * until a reader joins. *bytes: how many were transferred. ERR_NOT_FOUND, ERR_BACKEND. */
enum err object_prefetch(struct object_service *s, const struct map_bucket *b,
                         struct span key, struct pace *pace, enum object_prefetched *how,
                         uint64_t *bytes, struct errbuf *eb) MUST_CHECK;
/* Configured bytes of the cache; 0: no limit. Any thread. */
uint64_t object_cache_budget(const struct object_service *s);
/* Asks the remote of an attached bucket whether the cached version of a key is current; ends it if not. ERR_OK
 * also when nothing is cached. ERR_BACKEND: the remote could not be asked. */
enum err object_revalidate(struct object_service *s, const struct map_bucket *b,
                           struct span key, struct arena *a,
                           struct errbuf *eb) MUST_CHECK;
/* How much of an object is here. ERR_NOT_FOUND: nothing; the remote is not asked. May switch. */
struct object_present {
    uint64_t size, here;          /* bytes */
    uint32_t chunks, chunks_here; /* chunks; 0: it is kept whole */
};
enum err object_present(struct object_service *s, const struct map_bucket *b,
                        struct span key, struct object_present *out,
                        struct errbuf *eb) MUST_CHECK;
/* The number of readers that wait for a backend now: prefetches give way to them. Any thread. */
unsigned object_readers_waiting(const struct object_service *s);

/* ---- writing ---- */
/* The overwrites that a write of this key has now, for its metadata: one more than the object that is there. Writers
 * that do not ask begin again at 0. May switch. */
enum err object_next_overwrites(struct object_service *s, const struct map_bucket *b,
                                struct span key, uint32_t *out,
                                struct errbuf *eb) MUST_CHECK;
struct object_put;
/* size: STORE_SIZE_UNKNOWN when the request gave no length. Computes MD5 and the requested checksums, in slices,
 * with a yield between them. */
struct object_put_options {
    uint64_t size;
    uint8_t checksum_algorithm; /* wire/checksum.h: computed and kept; 0: none */
    bool
        sum_as_upload; /* of a part: the algorithm of its upload is computed, not required */
    const struct object_condition *condition; /* borrowed until the commit; NULL: none */
};
enum err object_put_begin(struct object_service *s, const struct map_bucket *b,
                          struct span key, const struct object_put_options *o,
                          struct object_put **out, struct errbuf *eb) MUST_CHECK;
enum err object_put_write(struct object_put *p, const void *data, size_t len,
                          struct errbuf *eb) MUST_CHECK;
/* A buffer to receive the next bytes into: at most *len; then object_put_filled() with the number received. For a
 * body of known size that is not complete. *at is NULL where this is not possible: then use object_put_write().
 * Both may switch. */
enum err object_put_room(struct object_put *p, void **at, size_t *len,
                         struct errbuf *eb) MUST_CHECK;
void object_put_filled(struct object_put *p, size_t len);
/* The whole body, of known size and not empty, which the caller keeps until commit or abort: written without a
 * copy where possible. May switch. */
enum err object_put_zero_copy(struct object_put *p, struct span body,
                              struct errbuf *eb) MUST_CHECK;
/* After the last byte, before commit: the checksums of the body. */
struct object_sums {
    uint8_t md5[16];
    uint8_t checksum[DIGEST_MAX];
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
/* ERR_OK whether or not the object existed. In a versioned bucket the current version gets a delete marker. */
enum err object_delete(struct object_service *s, const struct map_bucket *b,
                       struct span key, struct errbuf *eb) MUST_CHECK;
struct object_delete_options {
    const struct object_version
        *version; /* this version, permanently; NULL: the object */
    const struct object_condition *condition;
};
struct object_deleted {
    bool marker; /* a delete marker was created, or removed */
    bool named;  /* `version` is that of the marker, or of what was removed */
    struct object_version version;
};
enum err object_delete_with(struct object_service *s, const struct map_bucket *b,
                            struct span key, const struct object_delete_options *o,
                            struct object_deleted *out, struct errbuf *eb) MUST_CHECK;
/* Copies `len` bytes of an open object into an open put: reads are verified, checksums computed again. */
enum err object_copy_body(struct object_get *from, uint64_t first, uint64_t len,
                          struct object_put *to, struct errbuf *eb) MUST_CHECK;
/* Changes the metadata without the bytes: `edit` changes its argument (and may keep texts in the arena); it is
 * called again after a concurrent change. Native buckets only: ERR_NOT_BUILT. */
typedef enum err object_edit(struct object_meta *meta, void *arg, struct arena *a,
                             struct errbuf *eb);
enum err object_change_meta(struct object_service *s, const struct map_bucket *b,
                            struct span key, const struct object_version *v,
                            const struct object_condition *c, object_edit *edit,
                            void *arg, struct arena *a, struct object_info *info,
                            struct errbuf *eb) MUST_CHECK;

/* Tags of an attached bucket's object: the remote has them, they are not cached. "a=b&c=d" (wire/s3tags.h); empty:
 * none. May switch. */
enum err object_remote_tags(struct object_service *s, const struct map_bucket *b,
                            struct span key, struct arena *a, struct span *tags,
                            struct errbuf *eb) MUST_CHECK;
enum err object_set_remote_tags(struct object_service *s, const struct map_bucket *b,
                                struct span key, struct span tags,
                                struct errbuf *eb) MUST_CHECK;

/* ---- listing ---- */
struct object_list_options {
    struct span prefix, delimiter;
    struct span after; /* key > after; a common prefix given here skips its keys */
    uint32_t max;      /* at most 1,000 */
};
struct object_entry {
    struct span name; /* key, or common prefix */
    bool is_prefix;
    uint64_t size;
    int64_t mtime_ms;
    struct span etag; /* of a key; in the arena */
};
struct object_page {
    struct object_entry
        *entries; /* in the arena, byte order, common prefixes among them */
    uint32_t count;
    bool truncated;
    struct span next_after; /* `after` of the next page */
    bool stale;             /* the backend is down: only the cached objects are listed */
};
enum err object_list(struct object_service *s, const struct map_bucket *b,
                     const struct object_list_options *o, struct arena *a,
                     struct object_page *out, struct errbuf *eb) MUST_CHECK;
struct object_version_list {
    struct span prefix, delimiter;
    struct span after; /* as above */
    const struct object_version
        *after_version; /* of `after`: only older versions follow */
    uint32_t max;
};
struct object_version_entry {
    struct span name; /* key, or common prefix */
    bool is_prefix, is_marker, latest;
    uint64_t size;
    int64_t mtime_ms;
    char etag[160];
    struct object_version version;
};
struct object_version_page {
    struct object_version_entry *entries; /* in the arena */
    uint32_t count;
    bool truncated;
    bool stale; /* as in struct object_page */
};
/* Native buckets, versioned or not. */
enum err object_version_list(struct object_service *s, const struct map_bucket *b,
                             const struct object_version_list *o, struct arena *a,
                             struct object_version_page *out,
                             struct errbuf *eb) MUST_CHECK;
/* Closes a bucket before it is removed: no write is accepted any more (ERR_BUSY). ERR_OK: it has no objects and is closed; its uploads
 * in progress are aborted.
 * When it is not removed after all, call object_bucket_reopen(). ERR_NOT_EMPTY; ERR_BUSY: another removal is in
 * flight. Attached buckets can always be removed: their remote is not changed. */
enum err object_bucket_close(struct object_service *s, const struct map_bucket *b,
                             struct errbuf *eb) MUST_CHECK;
void object_bucket_reopen(struct object_service *s, const struct map_bucket *b);
/* The same for the part of this node, where another one has made the bucket closing in the map, and removes it. */
enum err object_bucket_close_here(struct object_service *s, const struct map_bucket *b,
                                  struct errbuf *eb) MUST_CHECK;
void object_bucket_reopen_here(struct object_service *s, const struct map_bucket *b);

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
    uint64_t want_size;                       /* of the object, or OBJECT_ANY_SIZE */
    const struct object_condition *condition; /* NULL: none */
    uint8_t
        want_algorithm; /* of the object's checksum, if the client sent it; 0: not sent */
    uint8_t want_checksum[32];
    uint8_t want_type;   /* 0: not sent */
    bool any_part_size;  /* parts but the last may have less than 5 MiB */
    uint32_t overwrites; /* object_next_overwrites() */
};
/* What is wrong with the list. Nothing has changed. */
enum object_complete_why {
    COMPLETE_OK,
    COMPLETE_BAD_PART,
    COMPLETE_TOO_SMALL,
    COMPLETE_WRONG_SIZE,
    COMPLETE_NO_CHECKSUM, /* a part of a COMPOSITE upload has no checksum */
    COMPLETE_WRONG_TYPE,
    COMPLETE_BAD_DIGEST,
    COMPLETE_OTHER
};
struct object_bad_part {
    enum object_complete_why why;
    uint32_t number; /* the part in question, if any */
    uint64_t size;   /* COMPLETE_TOO_SMALL */
};
enum err object_upload_complete(struct object_service *s, const struct map_bucket *b,
                                struct span key, struct span upload_id,
                                const struct object_complete *what, struct arena *a,
                                struct object_info *out, struct object_bad_part *bad,
                                struct errbuf *eb) MUST_CHECK;
enum err object_upload_abort(struct object_service *s, const struct map_bucket *b,
                             struct span key, struct span upload_id,
                             struct errbuf *eb) MUST_CHECK;
struct object_upload {
    struct span key, upload_id; /* a common prefix has no id */
    int64_t begun_ms;
    uint8_t checksum_algorithm, checksum_type; /* 0: none, or not said */
};
struct object_upload_list_options {
    struct span prefix, delimiter;
    struct span after_key, after_id; /* a common prefix as key skips its uploads */
    uint32_t max;                    /* at most 1,000 */
};
struct object_upload_page {
    struct object_upload
        *entries; /* in the arena; by key, then start time, prefixes among them */
    uint32_t count;
    bool truncated;
};
/* For an attached bucket: the remote's page. */
enum err object_upload_list(struct object_service *s, const struct map_bucket *b,
                            const struct object_upload_list_options *o, struct arena *a,
                            struct object_upload_page *out, struct errbuf *eb) MUST_CHECK;
/* The metadata given at the start of an upload; empty for an attached bucket. */
enum err object_upload_meta(struct object_service *s, const struct map_bucket *b,
                            struct span key, struct span upload_id, struct arena *a,
                            struct object_meta *out, struct errbuf *eb) MUST_CHECK;
