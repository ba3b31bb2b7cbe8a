/* forebay: objects, byte ranges, batches and listings of a Forebay server, from any program.
 *
 *     struct forebay_error e;
 *     struct forebay *f;
 *     if (forebay_open(NULL, &f, &e) != FOREBAY_OK)       server and keys as the command line finds them
 *         errx(1, "%s", e.text);
 *     rc = forebay_get(f, "bucket", "key", 0, FOREBAY_TO_END, &data, &len, &e);
 *     forebay_free(data);
 *     forebay_close(&f);
 *
 * Threads: a handle may be used by any number of threads; each call in progress has a connection of its own. Calls block
 * the calling thread. The library starts no thread, installs no signal handler and keeps no global state.
 * Fork: a child may use a handle of its parent: the first call closes the inherited descriptors and connects again. A
 * call that another thread of the parent had in progress does not exist in the child.
 * Retries: a failure that may pass (no connection, a timeout, 429, 5xx) is tried again up to `attempts` times, later and
 * later, or when Retry-After says. A body that breaks off is resumed where it broke off, under If-Match; a batch goes on
 * with the items that are missing. Only progress resets the count.
 * Memory: what a call returns belongs to the caller and outlives the handle. Text arguments are borrowed during the call.
 * Results: FOREBAY_OK, or a code and, in struct forebay_error, a sentence. Nothing is returned with an error.
 * Servers: get, put, head, list and remove speak S3 to any server; a batch is a request of Forebay's own (docs/s3.md).
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum forebay_code {
    FOREBAY_OK,
    FOREBAY_INVALID,   /* an argument, a setting or a name; repeating does not help */
    FOREBAY_DENIED,    /* keys or rights */
    FOREBAY_NOT_FOUND, /* bucket, object, or member of a shard */
    FOREBAY_RANGE,     /* the range begins behind the end */
    FOREBAY_CHANGED, /* the object was replaced while it was read; or a condition failed */
    FOREBAY_TOO_LARGE, /* beyond a limit, which the sentence names */
    FOREBAY_DAMAGED, /* the server has no undamaged copy, or cut the answer off at this item */
    FOREBAY_UNREACHABLE, /* no connection, or no answer in time, after all attempts */
    FOREBAY_BUSY,   /* the server refused for load or lack of space, after all attempts */
    FOREBAY_SERVER, /* any other answer */
    FOREBAY_INTERRUPTED /* a signal arrived: see `interruptible` */
};

#define FOREBAY_NO_ITEM UINT64_MAX
struct forebay_error {
    int code;   /* enum forebay_code */
    int status; /* of HTTP; 0: there was no answer */
    uint64_t
        item; /* of a batch: the item that failed, counted from 0; else FOREBAY_NO_ITEM */
    char text[512];
};

/* 0 and NULL stand for the defaults. Zero it, then set `size` to sizeof. */
struct forebay_options {
    size_t size;
    /* The command line's rules: these, the environment (FOREBAY_ENDPOINT, AWS_...), a profile of
     * ~/.config/forebay/config.toml, AWS's files; then http://127.0.0.1:9000 and us-east-1. */
    const char *endpoint, *profile, *region, *ca_bundle;
    const char *access_key, *secret_key, *session_token; /* instead of those found */
    int unsigned_requests;                               /* use no keys */
    int no_verify_tls;
    unsigned connections; /* [16] calls at a time; further ones wait, at most 1,024 */
    unsigned attempts;    /* [6] of a request that fails in passing */
    unsigned connect_ms, idle_ms; /* [5,000, 60,000] to connect; without a byte */
    int interruptible; /* a signal handler that ran ends a waiting call: FOREBAY_INTERRUPTED */
};

struct forebay;
int forebay_open(const struct forebay_options *options, struct forebay **out,
                 struct forebay_error *e);
void forebay_close(struct forebay **f); /* no call may be in progress; NULL is fine */
const char *forebay_endpoint(const struct forebay *f);
const char *forebay_version(void);

/* ---- objects ---- */
#define FOREBAY_TO_END UINT64_MAX
/* `len` bytes from `first` on, fewer where the object ends; all of it: 0 and FOREBAY_TO_END. *data has *len bytes and is
 * freed with forebay_free(). */
int forebay_get(struct forebay *f, const char *bucket, const char *key, uint64_t first,
                uint64_t len, void **data, size_t *got, struct forebay_error *e);
/* The same into the caller's memory: up to `room` bytes from `first` on, received without a copy. */
int forebay_get_into(struct forebay *f, const char *bucket, const char *key,
                     uint64_t first, void *to, size_t room, size_t *got,
                     struct forebay_error *e);
void forebay_free(void *data); /* NULL is fine */

struct forebay_info {
    uint64_t size;
    int64_t mtime_ms; /* since 1970; 0: not given */
    char etag[128], content_type[128];
};
int forebay_head(struct forebay *f, const char *bucket, const char *key,
                 struct forebay_info *out, struct forebay_error *e);
/* One request, at most 5 GiB; the bytes carry a CRC32C that the server verifies. */
int forebay_put(struct forebay *f, const char *bucket, const char *key, const void *data,
                size_t len, struct forebay_error *e);
/* An object that does not exist is removed already: FOREBAY_OK. */
int forebay_remove(struct forebay *f, const char *bucket, const char *key,
                   struct forebay_error *e);

/* ---- batches ---- */
/* What is wanted, as arrays of `count`; those that are NULL say nothing of any item. A member is the path of a file inside
 * the archive `objects[i]` (tar, tgz, tar.lz4, zip). `first` and `len` count in the object or member; unlike
 * those of forebay_get(), a range that passes the end is FOREBAY_RANGE. */
struct forebay_wanted {
    size_t count;                /* 1 to FOREBAY_BATCH_MAX */
    const char *const *objects;  /* each of them a key */
    const char *const *members;  /* NULL entries: the object itself */
    const char *const *buckets;  /* NULL entries: the call's bucket */
    const uint64_t *first, *len; /* len[i] FOREBAY_TO_END: up to the end */
    int fail_on_missing;         /* FOREBAY_NOT_FOUND with the item instead of a mark */
    uint64_t limit;              /* [64 GiB] bytes of the answer: FOREBAY_TOO_LARGE */
};
#define FOREBAY_BATCH_MAX 1000000u
struct forebay_part {
    uint64_t offset, len; /* in the bytes of the batch */
    uint64_t found;       /* 0: there is no such object or member */
};
struct forebay_batch; /* immutable; any thread */
/* Strictly in order: part i is item i. One request for each 32,768 items or 4 MiB of names. */
int forebay_get_batch(struct forebay *f, const char *bucket,
                      const struct forebay_wanted *wanted, struct forebay_batch **out,
                      struct forebay_error *e);
const void *forebay_batch_bytes(const struct forebay_batch *b, size_t *len);
const struct forebay_part *forebay_batch_parts(const struct forebay_batch *b,
                                               size_t *count);
void forebay_batch_free(struct forebay_batch **b); /* NULL is fine */

/* ---- listings ---- */
/* Columns of `count` rows in the order of keys. keys and etags are texts one behind the other, each with its NUL. */
struct forebay_listing {
    size_t count;
    const char *keys, *etags;
    size_t keys_len, etags_len;
    const uint64_t *sizes;
    const int64_t *mtimes_ms;
    const unsigned char *is_prefix; /* 1: a common prefix, not an object */
    int truncated;                  /* there are more than `limit` */
};
/* Keys that begin with `prefix` and come after `after`, up to `limit` (0: all) of them. With a delimiter, names up to its
 * next occurrence are rolled into one prefix. NULL: none of the three. Pages are followed inside. */
int forebay_list(struct forebay *f, const char *bucket, const char *prefix,
                 const char *delimiter, const char *after, size_t limit,
                 const struct forebay_listing **out, struct forebay_error *e);
void forebay_listing_free(const struct forebay_listing **l); /* NULL is fine */

#ifdef __cplusplus
}
#endif
