/* s3xml: the documents of S3 as structs: those a server reads, and those a client does.
 *
 * Read leniently: with or without declaration and namespace, any order of elements,
 * unknown elements skipped. Memory: results lie in the arena given; its limit bounds them
 * (ERR_TOO_LARGE).
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/span.h"
#include "wire/checksum.h"
#include "wire/fault.h"

#define S3XML_PARTS_MAX       10000
#define S3XML_DELETE_MAX      1000
#define S3XML_BODY_MAX        (1024 * 1024)
#define S3XML_DELETE_BODY_MAX (2 * 1024 * 1024)
/* 10,000 parts, pretty-printed, with checksums */
#define S3XML_COMPLETE_BODY_MAX (4 * 1024 * 1024)

/* ---- The server reads ---- */

struct s3xml_part {
    unsigned number;           /* 1..10000 */
    struct span etag;          /* without quotes; may be empty */
    struct checksum_value sum; /* CHECKSUM_NONE when the part has none */
};
struct s3xml_complete {
    struct s3xml_part *parts;
    size_t count;
};
/* MalformedXML; InvalidArgument for a part number outside 1..10000; InvalidPartOrder. */
enum err s3xml_complete_parse(struct span doc, struct arena *a,
                              struct s3xml_complete *out, struct fault *f) MUST_CHECK;

struct s3xml_delete_item {
    struct span key;
    struct span version; /* empty: none */
    struct span etag;    /* without quotes; at is NULL when there is no condition */
    bool has_condition;  /* ETag, LastModifiedTime or Size stood there */
    bool has_size, has_mtime;
    uint64_t size;
    int64_t mtime_s;
};
struct s3xml_delete {
    struct s3xml_delete_item *items;
    size_t count;
    bool quiet;
};
enum err s3xml_delete_parse(struct span doc, struct arena *a, struct s3xml_delete *out,
                            struct fault *f) MUST_CHECK;

/* VersioningConfiguration: Enabled or Suspended; anything else: IllegalVersioningConfigurationException. MFA delete:
 * NotImplemented. */
enum err s3xml_versioning_parse(struct span doc, struct arena *a, bool *enabled,
                                struct fault *f) MUST_CHECK;

/* CreateBucketConfiguration; an empty document is fine: location is empty then. */
enum err s3xml_create_bucket_parse(struct span doc, struct arena *a,
                                   struct span *location, struct fault *f) MUST_CHECK;

/* ---- The client reads ---- */

/* ListBucketResult of both versions. */
struct s3xml_list_entry {
    struct span key;
    struct span etag; /* without quotes */
    uint64_t size;
    int64_t mtime_ms; /* since 1970 */
    bool is_prefix;   /* a common prefix: only `key` is set */
};
struct s3xml_list {
    struct s3xml_list_entry *entries; /* keys and prefixes in the order of the document */
    size_t count;
    bool truncated;
    struct span next_token;  /* v2 */
    struct span next_marker; /* v1, only with a delimiter */
    bool url_encoded;        /* EncodingType url: keys here are decoded already */
};
/* Reads a listing while it arrives, at any split:
 *
 *     while (at = s3xml_list_room(r, &room), n = what is received into `at`, at most `room`, n > 0)
 *         rc = s3xml_list_feed(r, n, eb);
 *     rc = s3xml_list_end(r, arena, &list, eb);
 *
 * BAD_REQUEST: the document is no listing. TOO_LARGE: it has more than 16 MiB, or the arena cannot hold it. */
struct s3xml_list_reader;
struct s3xml_list_reader *s3xml_list_begin(void); /* the caller owns it */
void s3xml_list_free(struct s3xml_list_reader **rp);
/* Room for the next bytes, valid until the next call. */
char *s3xml_list_room(struct s3xml_list_reader *r, size_t *room);
enum err s3xml_list_feed(struct s3xml_list_reader *r, size_t len,
                         struct errbuf *eb) MUST_CHECK;
/* True once the continuation token and at least one name have arrived; the token is copied into the arena. The rest of
 * the document may still prove malformed. */
bool s3xml_list_token(const struct s3xml_list_reader *r, struct arena *a,
                      struct span *token);
enum err s3xml_list_end(struct s3xml_list_reader *r, struct arena *a,
                        struct s3xml_list *out, struct errbuf *eb) MUST_CHECK;

struct s3xml_bucket_entry {
    struct span name;
    int64_t created_ms;
};
struct s3xml_bucket_list {
    struct s3xml_bucket_entry *entries;
    size_t count;
    struct span next_token;
};
enum err s3xml_buckets_parse(struct span doc, struct arena *a,
                             struct s3xml_bucket_list *out, struct errbuf *eb) MUST_CHECK;

struct s3xml_error {
    struct span code, message, request_id, resource, region;
};
/* ERR_OK when the document is an <Error> (under any status), NOT_FOUND when it is
 * something else. */
enum err s3xml_error_parse(struct span doc, struct arena *a, struct s3xml_error *out,
                           struct errbuf *eb) MUST_CHECK;

/* InitiateMultipartUploadResult, CompleteMultipartUploadResult, CopyObjectResult,
 * CopyPartResult: what a client needs of them. NOT_FOUND with *out_error filled when the
 * document is an <Error> (possible under status 200). */
struct s3xml_result {
    struct span root; /* name of the root element */
    struct span upload_id, etag, location, bucket, key;
    struct checksum_value sum;
};
enum err s3xml_result_parse(struct span doc, struct arena *a, struct s3xml_result *out,
                            struct s3xml_error *out_error, struct errbuf *eb) MUST_CHECK;

struct s3xml_part_list {
    struct s3xml_part_entry {
        unsigned number;
        uint64_t size;
        struct span etag;
        int64_t mtime_ms;
    } * parts;
    size_t count;
    bool truncated;
    unsigned next_marker;
};
enum err s3xml_parts_parse(struct span doc, struct arena *a, struct s3xml_part_list *out,
                           struct errbuf *eb) MUST_CHECK;

/* ListMultipartUploadsResult; with EncodingType url the keys here are decoded. */
struct s3xml_upload_entry {
    struct span key, upload_id; /* a common prefix has no id */
    int64_t begun_ms;
    bool is_prefix;
};
struct s3xml_upload_list {
    struct s3xml_upload_entry *entries; /* in the order of the document */
    size_t count;
    bool truncated, url_encoded;
    struct span next_key, next_id;
};
enum err s3xml_uploads_parse(struct span doc, struct arena *a,
                             struct s3xml_upload_list *out, struct errbuf *eb) MUST_CHECK;

/* ListVersionsResult; with EncodingType url the keys here are decoded. */
struct s3xml_version_entry {
    struct span key, version_id;
    struct span etag; /* without quotes; a delete marker has none, and no size */
    uint64_t size;
    int64_t mtime_ms;
    bool is_latest, is_marker;
};
struct s3xml_version_list {
    struct s3xml_version_entry *entries; /* in the order of the document */
    size_t count;
    bool truncated;
    struct span next_key, next_id;
};
enum err s3xml_versions_parse(struct span doc, struct arena *a,
                              struct s3xml_version_list *out,
                              struct errbuf *eb) MUST_CHECK;

/* DeleteResult of DeleteObjects. */
struct s3xml_delete_result {
    struct s3xml_delete_failure {
        struct span key, code, message;
    } * failures;
    size_t failure_count;
    size_t deleted_count;
};
enum err s3xml_delete_result_parse(struct span doc, struct arena *a,
                                   struct s3xml_delete_result *out,
                                   struct errbuf *eb) MUST_CHECK;
