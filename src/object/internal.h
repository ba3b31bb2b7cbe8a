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

/* Of one loop: who has bytes to hash. */
struct hashing {
    struct md5_job *jobs; /* of some turns; they lie on stacks */
    unsigned job_count;
    bool in_a_hurry;     /* one of them is not the end of a body: more of it is to come */
    struct list lagging; /* struct hash_stream */
    bool led;            /* one of them hashes for all */
    struct rt_cond fuller; /* one more wants its sum */
    uint64_t patience_ns;  /* how long a round of patient streams waits for that */
    unsigned in_vain;      /* rounds for which nobody came, one after the other */
};

struct object_service {
    struct object_options options;
    struct key_table *
        *keys; /* one a loop: keys with a fetch or a write-through under way */
    _Atomic unsigned remote_readers;
    struct hashing *hashing;             /* one a loop, hasher.c */
    struct revalidate_table *revalidate; /* owned */
    struct tier *tier;                   /* owned */
    struct readahead *readahead;         /* owned */
    struct list_prefetch *list_prefetch; /* owned */
    struct numbered *quotas;             /* owned; quota.h */
};

#define PIECE_BYTES (256u << 10) /* what a reader of a fetch is given at a time */
#define HELD_BACK   (16u << 10)  /* of a fetch, until length and sum agree */

struct disks_key object_disk_key(const struct map_bucket *b, struct span key);

/* info.c */
/* What a entry says; reads the metadata unless the entry is plain. */
enum err info_from_entry(struct object_service *s, const struct disks_key *k,
                         const struct entry *entry, struct arena *a,
                         struct object_info *out, struct errbuf *eb) MUST_CHECK;
/* The same from metadata at hand. */
void info_from_meta(const struct entry *entry, const struct object_meta *meta,
                    struct object_info *out);
/* What a backend said of an object, as our metadata. Spans are borrowed from `from`. */
enum err meta_from_backend(const struct s3_object_info *from, struct arena *a,
                           struct object_meta *out, struct errbuf *eb) MUST_CHECK;
void info_copy(struct arena *a, const struct object_info *from, struct object_info *out);

/* version.c */
void version_of_entry(const struct entry *entry, struct object_version *out);
/* A version that is here. ERR_NOT_FOUND, with info->is_marker where it is a delete marker. */
enum err info_of_version(struct object_service *s, const struct map_bucket *b,
                         struct span key, const struct object_version *v, struct arena *a,
                         struct entry *entry, struct object_info *info,
                         struct errbuf *eb) MUST_CHECK;
/* get.c: a buffer for pieces of an answer, unless *buf is one. The answer may have begun: it waits for memory rather than to be cut,
 * IOBUF_WAIT_MS at most. */
enum err reader_buffer(struct iobuf **buf, uint64_t want, struct deadline by,
                       struct errbuf *eb) MUST_CHECK;
/* get.c: bytes were served from here; of a cached bucket that is a hit. */
void get_count_local(const struct map_bucket *b, uint64_t bytes);
/* get.c: the same as object_get_begin(), by nobody who waits for it; `pace` is borrowed. What comes is not copied out: pieces have a
 * length and no bytes. */
enum err get_begin_background(struct object_service *s, const struct map_bucket *b,
                              struct span key, struct pace *pace, struct arena *a,
                              struct object_info *info, struct object_get **out,
                              struct errbuf *eb) MUST_CHECK;
/* bring.c: object_prefetch(), but of a very large object its begin only. */
enum err prefetch_first_bytes(struct object_service *s, const struct map_bucket *b,
                              struct span key, struct errbuf *eb) MUST_CHECK;
/* get.c: reading what a entry names. */
struct object_get *get_of_entry(struct object_service *s, const struct map_bucket *b,
                                struct span key, const struct entry *entry,
                                struct arena *a, const struct object_info *info);

/* cold.c: one fetch for all who wait. */
struct fetch_reader;
/* The backend has its bytes (what fails there is ERR_BACKEND), and it is our keeping that failed: they can be read on at the backend. */
static inline bool
keeping_failed(enum err rc)
{
    return rc == ERR_BUSY || rc == ERR_IO || rc == ERR_NO_SPACE || rc == ERR_UNAVAILABLE;
}
/* Joins or starts the fetch of a key. */
/* `prefetch`: it is to be kept, whatever the policy says of it, at this pace; NULL: somebody reads it. */
enum fetch_join_result {
    FETCH_JOIN_READ,   /* *out is to be read, then left */
    FETCH_JOIN_BYPASS, /* nothing can be kept (no space, over budget): read directly */
    FETCH_JOIN_LOCAL,  /* there is a entry now: look again */
};
enum err fetch_join(struct object_service *s, const struct map_bucket *b, struct span key,
                    struct pace *prefetch, struct arena *a, struct object_info *info,
                    struct fetch_reader **out, enum fetch_join_result *how,
                    struct errbuf *eb) MUST_CHECK;
/* The same for one chunk, in two steps, so that the next ones are on their way while one is read. fetch_join_chunk_begin() does not
 * wait for the backend. fetch_join_chunk_await() does: *how as above (never FETCH_JOIN_LOCAL); ERR_NOT_FOUND: the remote has another
 * version, and the one that this is a chunk of ended here. fetch_reader_leave() in every case. */
struct fetch_chunk;
enum err fetch_join_chunk_begin(struct object_service *s, const struct map_bucket *b,
                                const struct fetch_chunk *chunk, struct pace *prefetch,
                                struct fetch_reader **out, struct errbuf *eb) MUST_CHECK;
enum err fetch_join_chunk_await(struct fetch_reader *g, enum object_source *source,
                                enum fetch_join_result *how,
                                struct errbuf *eb) MUST_CHECK;
/* Is this the answer of a fetch that cannot be kept? Then it is read once, from the first byte on. */
bool fetch_reader_is_relay(const struct fetch_reader *g);
/* How far the fetch has come; for readers who want bytes far ahead of it. */
uint64_t fetch_reader_landed(struct fetch_reader *g);
/* The ETag of what is fetched, in the arena; false: no fiber is free to ask for it, and without it versions could be mixed. */
bool fetch_reader_etag(struct fetch_reader *g, struct arena *a, struct span *out);
/* This reader wants a part only: the fetch goes on when it leaves. */
void fetch_reader_keep(struct fetch_reader *g);
/* Up to `len` bytes at `offset` into buf (NULL: they are only counted); waits until there are some. *local: the object is whole and on disk now,
 * read *entry instead. */
enum err fetch_reader_read(struct fetch_reader *g, uint64_t offset, void *buf, size_t len,
                           size_t *n, bool *local, struct entry *entry,
                           struct errbuf *eb) MUST_CHECK;
void fetch_reader_leave(struct fetch_reader **gp); /* NULL is fine */
enum err key_tables_start(struct object_service *s);
void key_tables_stop(struct object_service *s);

/* through.c: writes to cached buckets. */
/* From here to write_lock_end() no other write of the key is under way and no fetch of it will be kept. */
struct write_lock;
enum err write_lock_begin(struct object_service *s, const struct map_bucket *b,
                          struct span key, struct write_lock **out,
                          struct errbuf *eb) MUST_CHECK;
void write_lock_end(struct write_lock **tp); /* NULL is fine */

/* etag text of an info-less pair */
void etag_of(const uint8_t md5[16], uint32_t parts, struct span text, char out[160]);

/* list.c: the common prefix that a key which begins with `prefix` falls into, within `key`; empty: none. */
struct span group_of(struct span prefix, struct span delimiter, struct span key);
