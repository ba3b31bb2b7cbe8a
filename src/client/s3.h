/* s3: an S3 client over http, used by the CLI, the benchmarks and cloud backends.
 *
 * One s3_client is one endpoint with one set of credentials; it uses the connection pool of the calling loop.
 * Calls sign with SigV4, check lengths, and turn error answers into an enum err with the server's code and message
 * in the sentence. Only a stale pooled connection is retried: the caller knows what may be repeated (struct
 * s3_failure says whether a retry may help). Fibers only; everything may switch.
 */
#pragma once
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"
#include "rt/time.h"
#include "wire/proxy.h"
#include "wire/s3xml.h"

struct s3_client;
struct s3_call; /* a GET or PUT whose body is in flight */

struct s3_credentials {
    char *access_key; /* NULL: anonymous */
    char *secret_key;
    char *session_token; /* NULL: none */
};
struct s3_options {
    const char *endpoint;              /* "http://host:port" | "https://host[:port]" */
    const char *region;                /* NULL: us-east-1 */
    struct s3_credentials credentials; /* borrowed during s3_client_new */
    bool virtual_host;                 /* bucket.host instead of /bucket */
    bool plain; /* not S3: `bucket` is a path of any depth, or empty; read only */
    bool requester_pays; /* sends x-amz-request-payer with each request */
    const char *ca_file; /* NULL: the system's */
    bool insecure_no_verify;
    const struct proxies *proxies; /* borrowed for the client's life; NULL: none */
    unsigned
        refuse; /* networks to which the endpoint's name must not lead: rt_connect_within() */
    uint64_t connect_ms, first_byte_ms, idle_ms; /* 0: 5,000, 30,000, 30,000 */
    unsigned connections;                        /* a loop; 0: 64 */
};
/* The proxies: a URL, or "none", or (NULL, "") those of the environment: http_proxy, https_proxy and no_proxy,
 * lower case before upper case. HTTP_PROXY is ignored where a web server could set it from a request header
 * (REQUEST_METHOD). `credentials`: a private file with USER:PASSWORD; then a URL must not contain any. May switch. */
struct s3_proxy_options {
    const char *http, *https, *except, *credentials;
};
enum err s3_proxies_find(const struct s3_proxy_options *o, struct proxies *out,
                         struct errbuf *eb) MUST_CHECK;
enum err s3_client_new(const struct s3_options *o, struct s3_client **out,
                       struct errbuf *eb) MUST_CHECK;
void s3_client_free(struct s3_client **cp);
/* Later requests reject cached versions: a Forebay server asks its remote first. */
void s3_client_want_latest(struct s3_client *c, bool yes);
/* Signs later requests with these keys, which are taken. Only on the loop that uses the client. */
void s3_client_set_credentials(struct s3_client *c, struct s3_credentials *keys);

/* Facts about a failed answer, for retry decisions. */
struct s3_failure {
    int status;    /* 0: no answer came */
    char code[64]; /* "NoSuchKey" or "" */
    uint64_t retry_after_ms;
    bool retry; /* a retry may help: no answer, 5xx, 429, 408, SlowDown, RequestTimeout */
    bool
        unsent; /* of a change: no byte of the request left, as there was no connection */
    char
        region[32]; /* the actual region of the bucket, if the server names it; else "" */
};

struct s3_object_info {
    uint64_t size;        /* of the whole object */
    uint64_t body_length; /* of this answer */
    uint64_t range_first; /* of this answer */
    bool partial;
    bool ranges; /* the server supports ranges */
    bool
        stale; /* a Forebay server could not ask the bucket's remote: this is its cached version */
    struct span etag; /* without quotes; the spans of this struct lie in the arena */
    struct span last_modified;
    int64_t mtime_ms;
    int64_t date_ms; /* of the answer, by the same clock; 0: not given */
    struct span content_type, cache_control, content_disposition, content_encoding,
        content_language, expires;
    struct span version_id, storage_class;
    struct span checksum_name, checksum_value,
        checksum_type; /* "crc32", base64, "FULL_OBJECT" */
    struct span sse,
        sse_kms; /* x-amz-server-side-encryption and whether KMS or SSE-C took part */
    struct {
        struct span name, value;
    } * user;
    uint32_t user_count;
};

enum err s3_head(struct s3_client *c, struct span bucket, struct span key,
                 struct arena *a, struct s3_object_info *out, struct s3_failure *f,
                 struct errbuf *eb) MUST_CHECK;

/* The same, with the stored checksums. */
enum err s3_head_sums(struct s3_client *c, struct span bucket, struct span key,
                      struct arena *a, struct s3_object_info *out, struct s3_failure *f,
                      struct errbuf *eb) MUST_CHECK;

/* HEAD of one part of an object that was uploaded in parts: out->body_length is the part's, out->size the whole.
 * Servers that do not know part numbers describe the whole: then out->partial is false. */
enum err s3_head_part(struct s3_client *c, struct span bucket, struct span key,
                      uint32_t part, struct arena *a, struct s3_object_info *out,
                      struct s3_failure *f, struct errbuf *eb) MUST_CHECK;

struct s3_get {
    struct span bucket, key;
    bool range;
    uint64_t first, last; /* last inclusive; UINT64_MAX: open */
    struct span if_match; /* ETag without quotes, or empty */
    bool checksum_mode;   /* ask for x-amz-checksum-* */
};
/* On ERR_OK the head is in *out, and s3_read returns the body; call s3_end in every case. */
enum err s3_get_begin(struct s3_client *c, const struct s3_get *g, struct arena *a,
                      struct s3_object_info *out, struct s3_call **call,
                      struct s3_failure *f, struct errbuf *eb) MUST_CHECK;
/* *n = 0: the end, and the length was right. ERR_INCOMPLETE: the body was cut short. */
enum err s3_read(struct s3_call *call, void *buf, size_t len, size_t *n,
                 struct errbuf *eb) MUST_CHECK;
/* A page of our own, of unknown length, as a stream: "/_/backup". Read it like a GET. */
enum err s3_page_begin(struct s3_client *c, struct span path, struct s3_call **call,
                       struct s3_failure *f, struct errbuf *eb) MUST_CHECK;
/* POST /BUCKET?batch (docs/s3.md): its answer is read like a GET. Servers other than ours refuse it. */
struct s3_batch_get {
    struct span bucket, list;
    bool json;          /* else the list is text */
    struct span format; /* empty: tar */
    bool fail_on_missing;
};
enum err s3_batch_begin(struct s3_client *c, const struct s3_batch_get *b,
                        struct s3_call **call, struct s3_failure *f,
                        struct errbuf *eb) MUST_CHECK;
void s3_end(struct s3_call **cp); /* NULL is fine; an unread body closes the connection */

struct s3_header {
    struct span name, value;
};
struct s3_put {
    struct span bucket, key;
    uint64_t size;
    const struct s3_header *headers; /* content-type, x-amz-meta-..., if-none-match */
    uint32_t header_count;
    const char *sha256_hex; /* of the body where known; NULL: unsigned payload */
    const char *md5_base64; /* or NULL */
    struct span upload_id;  /* a part: with the number */
    uint32_t part_number;
    bool *connected; /* NULL, or set to true before the first byte may leave */
};
enum err s3_put_begin(struct s3_client *c, const struct s3_put *p, struct s3_call **call,
                      struct errbuf *eb) MUST_CHECK;
enum err s3_write(struct s3_call *call, const void *data, size_t len,
                  struct errbuf *eb) MUST_CHECK;
/* Waits for the answer. *etag lies in the arena, without quotes. s3_end in every case. */
enum err s3_put_finish(struct s3_call *call, struct arena *a, struct span *etag,
                       struct s3_failure *f, struct errbuf *eb) MUST_CHECK;

enum err s3_delete(struct s3_client *c, struct span bucket, struct span key,
                   struct s3_failure *f, struct errbuf *eb) MUST_CHECK;
/* The same with conditions as headers. */
enum err s3_delete_if(struct s3_client *c, struct span bucket, struct span key,
                      const struct s3_header *headers, uint32_t header_count,
                      struct s3_failure *f, struct errbuf *eb) MUST_CHECK;
/* Tags of an object, as the document <Tagging>: in the arena. */
enum err s3_tags_get(struct s3_client *c, struct span bucket, struct span key,
                     struct arena *a, struct span *doc, struct s3_failure *f,
                     struct errbuf *eb) MUST_CHECK;
/* `doc` empty: removes all tags. */
enum err s3_tags_set(struct s3_client *c, struct span bucket, struct span key,
                     struct span doc, struct s3_failure *f, struct errbuf *eb) MUST_CHECK;

/* Deletes up to S3_DELETE_MAX keys in one request. ERR_OK with *refused: how many were not deleted; *first
 * describes the first one. ERR_NOT_BUILT: the server does not support DeleteObjects. */
#define S3_DELETE_MAX 1000
struct s3_refusal {
    struct span key, code, message; /* in the arena */
};
enum err s3_delete_many(struct s3_client *c, struct span bucket, const struct span *keys,
                        uint32_t count, struct arena *a, struct s3_refusal *first,
                        uint32_t *refused, struct s3_failure *f,
                        struct errbuf *eb) MUST_CHECK;

/* Copies within the server: a whole object up to 5 GiB, or a range of it as a part of an upload. */
struct s3_copy {
    struct span from_bucket, from_key, bucket, key;
    struct span if_match;  /* ETag of the source without quotes, or empty */
    struct span upload_id; /* a part: with number and range (last inclusive) */
    uint32_t part_number;
    uint64_t first, last;
};
enum err s3_copy(struct s3_client *c, const struct s3_copy *copy, struct arena *a,
                 struct span *etag, struct s3_failure *f, struct errbuf *eb) MUST_CHECK;

struct s3_list {
    struct span bucket, prefix, delimiter, start_after, token;
    uint32_t max_keys; /* 0: 1,000 */
    /* Called as soon as the arriving page has revealed its token and a name; NULL: not wanted. It must not switch,
     * and must not rely on the page before the call has returned it. */
    void (*on_token)(void *arg, struct span token);
    void *arg;
};
struct s3_list_page {
    struct s3xml_list_entry *entries; /* decoded, in byte order, prefixes among them */
    uint32_t count;
    bool truncated;
    bool
        stale; /* a Forebay server could not ask the bucket's remote: these are its cached objects */
    struct span next_token;
};
enum err s3_list_objects(struct s3_client *c, const struct s3_list *l, struct arena *a,
                         struct s3_list_page *out, struct s3_failure *f,
                         struct errbuf *eb) MUST_CHECK;

struct s3_bucket_entry {
    struct span name;
    int64_t created_ms;
};
enum err s3_list_buckets(struct s3_client *c, struct arena *a,
                         struct s3_bucket_entry **out, uint32_t *count,
                         struct s3_failure *f, struct errbuf *eb) MUST_CHECK;
enum err s3_bucket_make(struct s3_client *c, struct span bucket, struct s3_failure *f,
                        struct errbuf *eb) MUST_CHECK;
enum err s3_bucket_head(struct s3_client *c, struct span bucket, struct s3_failure *f,
                        struct errbuf *eb) MUST_CHECK;
/* Where a Forebay server says that the objects of an attached bucket live; empty spans: not attached, or another server.
 * In the arena. */
struct s3_bucket_remote {
    struct span endpoint, bucket;
};
enum err s3_bucket_remote(struct s3_client *c, struct span bucket, struct arena *a,
                          struct s3_bucket_remote *out, struct s3_failure *f,
                          struct errbuf *eb) MUST_CHECK;
enum err s3_bucket_remove(struct s3_client *c, struct span bucket, struct s3_failure *f,
                          struct errbuf *eb) MUST_CHECK;

enum err s3_upload_begin(struct s3_client *c, struct span bucket, struct span key,
                         const struct s3_header *headers, uint32_t header_count,
                         struct arena *a, struct span *upload_id, struct s3_failure *f,
                         struct errbuf *eb) MUST_CHECK;
struct s3_part {
    uint32_t number;
    struct span etag;
};
enum err s3_upload_complete(struct s3_client *c, struct span bucket, struct span key,
                            struct span upload_id, const struct s3_part *parts,
                            uint32_t count, struct arena *a, struct span *etag,
                            struct s3_failure *f, struct errbuf *eb) MUST_CHECK;
struct s3_completion {
    struct span bucket, key, upload_id;
    const struct s3_part *parts;
    uint32_t count;
    const struct s3_header *headers; /* conditions */
    uint32_t header_count;
};
enum err s3_upload_complete_if(struct s3_client *c, const struct s3_completion *w,
                               struct arena *a, struct span *etag, struct s3_failure *f,
                               struct errbuf *eb) MUST_CHECK;
enum err s3_upload_abort(struct s3_client *c, struct span bucket, struct span key,
                         struct span upload_id, struct s3_failure *f,
                         struct errbuf *eb) MUST_CHECK;

struct s3_upload_list {
    struct span prefix, delimiter, key_marker, id_marker;
    uint32_t max_uploads;
};
struct s3_upload_entry {
    struct span key, upload_id; /* a common prefix has no id */
    int64_t begun_ms;
};
struct s3_upload_page {
    struct s3_upload_entry *entries; /* in byte order, prefixes among them */
    uint32_t count;
    bool truncated;
};
enum err s3_upload_list(struct s3_client *c, struct span bucket,
                        const struct s3_upload_list *l, struct arena *a,
                        struct s3_upload_page *out, struct s3_failure *f,
                        struct errbuf *eb) MUST_CHECK;
struct s3_part_entry {
    uint32_t number;
    uint64_t size;
    struct span etag; /* without quotes */
    int64_t mtime_ms;
};
struct s3_part_page {
    struct s3_part_entry *parts;
    uint32_t count;
    bool truncated;
};
enum err s3_part_list(struct s3_client *c, struct span bucket, struct span key,
                      struct span upload_id, uint32_t after, uint32_t max,
                      struct arena *a, struct s3_part_page *out, struct s3_failure *f,
                      struct errbuf *eb) MUST_CHECK;

/* Versions of the keys that begin with a prefix. The page lies in the arena. */
struct s3_version_list {
    struct span prefix, key_marker, id_marker;
};
enum err s3_version_list(struct s3_client *c, struct span bucket,
                         const struct s3_version_list *l, struct arena *a,
                         struct s3xml_version_list *out, struct s3_failure *f,
                         struct errbuf *eb) MUST_CHECK;
/* Deletes one version, or one delete marker, for ever. */
enum err s3_version_delete(struct s3_client *c, struct span bucket, struct span key,
                           struct span version, struct s3_failure *f,
                           struct errbuf *eb) MUST_CHECK;
/* Copies an older version onto its key: it becomes the latest one, the others stay. */
enum err s3_version_restore(struct s3_client *c, struct span bucket, struct span key,
                            struct span version, struct s3_failure *f,
                            struct errbuf *eb) MUST_CHECK;

/* Any other signed request with small bodies. For our own pages under /_/ and rare operations. */
struct s3_request {
    const char *method;
    struct span path;  /* decoded key bytes after '/': "/bucket/key" */
    struct span query; /* already encoded, without '?' */
    const struct s3_header *headers;
    uint32_t header_count;
    struct span body;
};
/* An answer with any status is ERR_OK; below 200 and from 300 on *body is an error message. */
enum err s3_request(struct s3_client *c, const struct s3_request *r, struct arena *a,
                    int *status, struct span *body, struct errbuf *eb) MUST_CHECK;

/* A presigned URL for one object, for `method` "GET", "PUT" or "HEAD", valid up to 7 days. Needs no network. In
 * the arena. ERR_BAD_REQUEST without credentials. */
enum err s3_presign(struct s3_client *c, const char *method, struct span bucket,
                    struct span key, uint64_t expires_s, struct arena *a,
                    struct span *url, struct errbuf *eb) MUST_CHECK;

/* Finds credentials as AWS tools do: environment, profile files (AWS_PROFILE, AWS_SHARED_CREDENTIALS_FILE,
 * AWS_CONFIG_FILE). *out is owned: s3_credentials_fini. ERR_NOT_FOUND: there are none. */
enum err s3_credentials_chain(const char *profile, struct s3_credentials *out,
                              char **region, struct errbuf *eb) MUST_CHECK;
void s3_credentials_fini(struct s3_credentials *c); /* wipes */
