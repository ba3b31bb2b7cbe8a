/* internal: what the files of the object room share. */
#pragma once
#include <stdatomic.h>

#include "object/object.h"
#include "rt/sync.h"
#include "wire/checksum.h"

struct fetch;
struct key_table;
struct list_prefetch;
struct md5_job;
struct numbered;
struct readahead;
struct tier;
struct upload_expiry;

/* Of one loop: the bytes queued for hashing. */
struct hashing {
    struct md5_job *jobs; /* of some turns; on the stacks of their fibers */
    unsigned job_count;
    bool in_a_hurry;       /* one of them is not the end of a body: more will come */
    struct list lagging;   /* struct hash_stream */
    bool led;              /* a fiber hashes for all of them */
    struct rt_cond fuller; /* one more stream waits for its digest */
    uint64_t patience_ns;  /* how long a round of patient streams waits for others */
    unsigned in_vain;      /* rounds in a row that waited for nothing */
};

struct object_service {
    struct object_options options;
    struct key_table *
        *keys; /* one a loop: keys with a fetch or a write-through in flight */
    _Atomic unsigned remote_readers;
    struct hashing *hashing;             /* one a loop, hasher.c */
    struct revalidate_table *revalidate; /* owned */
    struct tier *tier;                   /* owned */
    struct upload_expiry *upload_expiry; /* owned */
    struct readahead *readahead;         /* owned */
    struct list_prefetch *list_prefetch; /* owned */
    struct numbered *quotas;             /* owned; quota.h */
    object_on_change *on_change;         /* object_watch(); NULL: none */
    void *on_change_arg;
};
static inline void
object_changed(struct object_service *s, const struct map_bucket *b, struct span key)
{
    if (s->on_change != NULL)
        s->on_change(s->on_change_arg, b->id, key);
}

#define PIECE_BYTES (256u << 10) /* the size of a piece for a reader of a fetch */
#define HELD_BACK                                                                        \
    (16u << 10) /* the bytes of a fetch held back until length and checksum agree */

/* ERR_BUSY: concurrent changes have used up the request's retries. */
enum err object_busy(struct errbuf *eb, const char *doing) MUST_CHECK;
/* This node owns the key, as the front-ends have seen to. ERR_NOT_IMPLEMENTED: a request that names keys of several nodes and
 * cannot reach those of others: it must not take them for absent. ERR_UNAVAILABLE: as nodes_route(). */
enum err object_must_be_here(const struct object_service *s, const struct map_bucket *b,
                             struct span key, struct errbuf *eb) MUST_CHECK;
struct disks_key object_disk_key(const struct map_bucket *b, struct span key);

/* info.c */
/* The information of an index entry; reads the metadata unless the entry is plain. */
enum err info_from_entry(struct object_service *s, const struct disks_key *k,
                         const struct entry *entry, struct arena *a,
                         struct object_info *out, struct errbuf *eb) MUST_CHECK;
/* The same, with the metadata at hand. */
void info_from_meta(const struct entry *entry, const struct object_meta *meta,
                    struct object_info *out);
/* The backend's description of an object, as our metadata. Spans are borrowed from `from`. */
enum err meta_from_backend(const struct s3_object_info *from, struct arena *a,
                           struct object_meta *out, struct errbuf *eb) MUST_CHECK;
void info_copy(struct arena *a, const struct object_info *from, struct object_info *out);

/* version.c */
void version_of_entry(const struct entry *entry, struct object_version *out);
/* A version that is here. ERR_NOT_FOUND with info->is_marker: it is a delete marker. */
enum err info_of_version(struct object_service *s, const struct map_bucket *b,
                         struct span key, const struct object_version *v, struct arena *a,
                         struct entry *entry, struct object_info *info,
                         struct errbuf *eb) MUST_CHECK;
/* get.c: a buffer for pieces of an answer, unless *buf has one. The answer may have begun, so this waits for
 * memory, at most IOBUF_WAIT_MS, before it fails. */
enum err reader_buffer(struct iobuf **buf, uint64_t want, struct deadline by,
                       struct errbuf *eb) MUST_CHECK;
/* get.c: counts bytes that were served locally: a hit in a cached bucket. */
void get_count_local(const struct map_bucket *b, uint64_t bytes);
void get_count_cached(uint64_t bytes); /* a hit, of a cached bucket */
/* get.c: object_get_begin() for a prefetch; `pace` is borrowed. Bytes are not copied out: pieces have a length and
 * no address. */
enum err get_begin_background(struct object_service *s, const struct map_bucket *b,
                              struct span key, struct pace *pace, struct arena *a,
                              struct object_info *info, struct object_get **out,
                              struct errbuf *eb) MUST_CHECK;
/* prefetch.c: object_prefetch(), but only the first bytes of a very large object. */
enum err prefetch_first_bytes(struct object_service *s, const struct map_bucket *b,
                              struct span key, struct errbuf *eb) MUST_CHECK;
/* get.c: reads the version of an index entry. */
struct object_get *get_of_entry(struct object_service *s, const struct map_bucket *b,
                                struct span key, const struct entry *entry,
                                struct arena *a, const struct object_info *info);

/* fetch_join.c: one fetch for all waiting readers. */
struct fetch_reader;
/* The backend is fine (its failures are ERR_BACKEND), but keeping the bytes here failed: a reader can continue at
 * the backend. */
static inline bool
keeping_failed(enum err rc)
{
    return rc == ERR_BUSY || rc == ERR_IO || rc == ERR_NO_SPACE || rc == ERR_UNAVAILABLE;
}
/* Joins the fetch of a key, or starts it. */
/* `prefetch`: keep the object whatever the admission policy says, at this pace; NULL: an ordinary read. */
enum fetch_join_result {
    FETCH_JOIN_READ,   /* *out is to be read, then left */
    FETCH_JOIN_BYPASS, /* nothing can be kept (no space, over budget): read directly */
    FETCH_JOIN_LOCAL,  /* the index has an entry now: look it up again */
};
enum err fetch_join(struct object_service *s, const struct map_bucket *b, struct span key,
                    struct pace *prefetch, struct arena *a, struct object_info *info,
                    struct fetch_reader **out, enum fetch_join_result *how,
                    struct errbuf *eb) MUST_CHECK;
/* The same for one chunk, in two steps, so that the following chunks are in flight while one is read.
 * fetch_join_chunk_begin() does not wait for the backend; fetch_join_chunk_await() does: *how as above (never
 * FETCH_JOIN_LOCAL). ERR_NOT_FOUND: the remote has another version, and this one ended here. fetch_reader_leave()
 * in every case. */
struct fetch_chunk;
enum err fetch_join_chunk_begin(struct object_service *s, const struct map_bucket *b,
                                const struct fetch_chunk *chunk, struct pace *prefetch,
                                struct fetch_reader **out, struct errbuf *eb) MUST_CHECK;
enum err fetch_join_chunk_await(struct fetch_reader *g, enum object_source *source,
                                enum fetch_join_result *how,
                                struct errbuf *eb) MUST_CHECK;
/* Is this the answer of a fetch that cannot be kept? It can be read once, from the first byte on. */
bool fetch_reader_is_relay(const struct fetch_reader *g);
/* How far the fetch has come, for readers that want bytes far ahead of it; *proved: all bytes agree with the checksum. */
uint64_t fetch_reader_landed(struct fetch_reader *g, bool *proved);
/* This reader gets the bytes from `offset` on only when the fetch is proved. */
void fetch_reader_hold(struct fetch_reader *g, uint64_t offset);
/* The ETag of the fetched version, in the arena; false: no fiber is free to ask for it, and without it versions
 * could be mixed. */
bool fetch_reader_etag(struct fetch_reader *g, struct arena *a, struct span *out);
/* This reader wants a part only: the fetch continues when it leaves. */
void fetch_reader_keep(struct fetch_reader *g);
/* Copies up to `len` bytes at `offset` into buf (NULL: only counts them); waits for the first of them. *local: the
 * object is whole and on disk now; read *entry instead. */
enum err fetch_reader_read(struct fetch_reader *g, uint64_t offset, void *buf, size_t len,
                           size_t *n, bool *local, struct entry *entry,
                           struct errbuf *eb) MUST_CHECK;
void fetch_reader_leave(struct fetch_reader **gp); /* NULL is fine */
enum err key_tables_start(struct object_service *s);
void key_tables_stop(struct object_service *s);

/* write_through.c: writes to cached buckets, one at a time for each key. */
/* Until write_lock_end() no other write of the key is in flight, and no fetch of it is kept. */
struct write_lock;
enum err write_lock_begin(struct object_service *s, const struct map_bucket *b,
                          struct span key, struct write_lock **out,
                          struct errbuf *eb) MUST_CHECK;
void write_lock_end(struct write_lock **tp); /* NULL is fine */

/* The ETag text of an MD5 and a part count, or of `text` when it is not empty. */
void etag_of(const uint8_t md5[16], uint32_t parts, struct span text, char out[160]);

/* list.c: the common prefix that `key`, which begins with `prefix`, falls into; points into `key`; empty: none. */
struct span group_of(struct span prefix, struct span delimiter, struct span key);
