/* s3: the operations of the S3 API, one function each, and what they share.
 *
 * An operation returns ERR_OK when it has answered, else the request's fault says what to answer. route.c has the
 * table; docs/s3.md is checked against it.
 */
#pragma once
#include "api/internal.h"
#include "wire/awschunked.h"
#include "wire/checksum.h"
#include "wire/s3xml.h"
#include "wire/xml.h"

#define S3_PUT_MAX       (5ull << 30)
#define S3_METADATA_MAX  2048
#define S3_PAGE_MAX      1000
#define S3_UPLOAD_ID_MAX 1024
#define OWNER_ID         "0000000000000000000000000000000000000000000000000000000000000001"

typedef enum err s3_operation(struct request *q);

/* bucket.c */
s3_operation s3_list_all_buckets, s3_create_bucket, s3_head_bucket_op, s3_delete_bucket;
s3_operation s3_bucket_location, s3_bucket_probe;
/* list.c, list_versions.c, list_uploads.c */
s3_operation s3_list_v1_or_v2, s3_list_versions, s3_list_uploads;
/* get.c */
s3_operation s3_get_object, s3_head_object;
/* Sends the body from the piece at hand on, and ends the answer, whose head is begun. */
enum err s3_send_body(struct request *q, struct object_get *get, struct span piece);
/* object_get_begin_version(), and the object's checksum with it where it is wanted. The caller ends *out. */
enum err s3_open_object(struct request *q, const struct map_bucket *b, struct span key,
                        const struct object_version *v, bool with_sum,
                        struct object_info *info, struct object_get **out,
                        struct errbuf *eb) MUST_CHECK;
/* attributes.c, copy.c */
s3_operation s3_object_attributes, s3_copy_object;
enum err s3_copy_part(struct request *q, struct span upload_id, uint32_t number);
/* version.c */
s3_operation s3_get_versioning, s3_put_versioning;
/* tagging.c */
s3_operation s3_get_object_tags, s3_put_object_tags, s3_delete_object_tags;
s3_operation s3_get_bucket_tags, s3_put_bucket_tags, s3_delete_bucket_tags;
/* batch.c */
s3_operation s3_batch;
s3_operation s3_shard_index;
/* acl.c */
s3_operation s3_get_acl, s3_put_acl;
bool s3_has_grant_header(const struct request *q);
/* The list of an object that this request makes, in the request's arena: of x-amz-acl (`canned`, or a form's field) and
 * x-amz-grant-*. Empty where the object is the bucket owner's and private. */
enum err s3_acl_of_new_object(struct request *q, struct span canned,
                              struct object_meta *meta) MUST_CHECK;
/* Owner, list and ownership of the bucket that this request makes. */
enum err s3_access_of_new_bucket(struct request *q,
                                 struct map_bucket_access *out) MUST_CHECK;
/* True if the list of the bucket gives anything to anybody but its owner. */
bool s3_bucket_list_gives_others(const struct map_bucket *b);
/* policy.c */
s3_operation s3_get_policy, s3_put_policy, s3_delete_policy, s3_get_policy_status;
s3_operation s3_get_public_block, s3_put_public_block, s3_delete_public_block;
s3_operation s3_get_ownership, s3_put_ownership, s3_delete_ownership;
/* AccessDenied where the header names another owner. */
enum err s3_expected_owner(struct request *q, const struct map_bucket *b,
                           enum http_field header) MUST_CHECK;
enum err s3_ownership_of(struct request *q, struct span text,
                         enum map_ownership *out) MUST_CHECK;
/* put.c */
s3_operation s3_put_object;
/* delete.c */
s3_operation s3_delete_object, s3_delete_objects;
/* One of a list, whose rights are checked. On error the fault is set. */
enum err s3_delete_item(struct request *q, const struct s3xml_delete_item *item,
                        struct object_deleted *done) MUST_CHECK;
/* multipart.c */
s3_operation s3_create_upload, s3_put_part, s3_complete_upload, s3_abort_upload;
s3_operation s3_list_parts;
/* cors.c */
s3_operation s3_preflight, s3_put_bucket_cors, s3_get_bucket_cors, s3_delete_bucket_cors;
/* A request with an Origin: the rule that its answer will tell. */
void s3_cors_match(struct request *q);
/* form.c */
s3_operation s3_post_form;
/* form_auth.c: the form has a policy or claims a key. */
bool s3_form_is_signed(struct fields form);
/* The user whose key signed the policy of the form becomes the caller. `form`: names in lower case. */
enum err s3_form_identify(struct request *q, struct fields form,
                          int64_t *now_s) MUST_CHECK;
/* route.c */
s3_operation s3_not_built;
/* The table and the names that select something, for the test that holds docs/s3.md and the gate against them.
 * `path` is "/", "/bucket" or "/bucket/key". False, NULL: no more. */
struct s3_route_name {
    const char *method, *path, *sub; /* sub NULL: none */
    enum need need;
};
bool s3_route_at(size_t index, struct s3_route_name *out);
const char *s3_sub_at(size_t index);

/* page.c: what every listing asks for and repeats in its answer. */
struct s3_page_query {
    struct span prefix, delimiter;
    uint64_t max; /* 0 to S3_PAGE_MAX entries */
    bool url;     /* names are sent percent-encoded */
};
/* max_name: of the parameter, "max-keys". */
enum err s3_page_query(struct request *q, const char *max_name,
                       struct s3_page_query *out) MUST_CHECK;
/* max_name: of the element, "MaxKeys". */
void s3_put_page_query(struct xml *x, const char *max_name,
                       const struct s3_page_query *p);
void s3_put_common_prefix(struct xml *x, struct span prefix,
                          const struct s3_page_query *p);

/* body.c: the body of an upload, decoded and checked as it comes. */
struct s3_body {
    struct request *q;
    struct checksum_request sums; /* what was promised */
    struct awschunked *chunked;   /* NULL: plain */
    struct digest sha256;         /* of a plain body whose hash is known */
    bool check_sha256;
    uint64_t size; /* of the decoded body, or OBJECT_SIZE_UNKNOWN */
    uint64_t got;
    struct iobuf *buf; /* owned; NULL until the first read */
    struct span in;    /* received, not yet decoded */
    bool ended;
};
/* Checks lengths and checksum headers, before anything is read. */
enum err s3_body_begin(struct request *q, struct s3_body *b) MUST_CHECK;
/* The next piece of the decoded body; len 0: it is complete, and hash, length and chunk signatures were right. */
enum err s3_body_next(struct s3_body *b, struct span *piece) MUST_CHECK;
/* After the end: are the object's sums what headers or trailer said? */
enum err s3_body_check_sums(struct s3_body *b, const struct object_sums *got) MUST_CHECK;
void s3_body_end(struct s3_body *b);
/* The whole of a small document, in the request's work arena. */
enum err s3_body_document(struct request *q, size_t limit, bool demand_sum,
                          struct span *doc) MUST_CHECK;
/* Streams the body into `put`, checks all sums. */
enum err s3_body_to_put(struct s3_body *b, struct object_put *put) MUST_CHECK;

/* headers.c: metadata between headers and objects. */
enum err s3_meta_from_headers(struct request *q, struct object_meta *out) MUST_CHECK;
/* The same from the fields of a form, names in lower case. They are kept as they are: no bytes that no header can hold. */
enum err s3_meta_from_fields(struct request *q, struct fields f,
                             struct object_meta *out) MUST_CHECK;
/* Headers that change what an upload means and are not built: 501 by name. */
enum err s3_refuse_unbuilt(struct request *q) MUST_CHECK;
void s3_put_object_headers(struct request *q, const struct object_info *info);
/* The same with the version and where the bytes come from: what stands in the head of every GET. */
void s3_put_found_headers(struct request *q, const struct object_info *info);
void s3_put_checksum_header(struct request *q, const struct object_meta *meta);
void s3_put_etag(struct request *q, const char *etag);
/* Which checksum is computed and kept of an object whose sender gave `given`. Of an attached bucket: the remote decides. */
uint8_t s3_checksum_kept(const struct map_bucket *b, enum checksum_kind given);

/* identify.c: the key of caller.auth, not expired and with its token: its signature is still to be checked. */
enum err s3_find_key(struct request *q, const struct auth_key **out,
                     int64_t *now_s) MUST_CHECK;

/* The header x-amz-tagging; empty: none. */
enum err s3_tags_header(struct request *q, struct span *out) MUST_CHECK;

/* conditions.c: what a write demands; *out in the request's arena, NULL: nothing. */
/* PUT, Complete, copy: If-Match, If-None-Match: *. */
enum err s3_write_condition(struct request *q,
                            const struct object_condition **out) MUST_CHECK;
/* DELETE: If-Match, size, time. */
enum err s3_delete_condition(struct request *q,
                             const struct object_condition **out) MUST_CHECK;
/* The same of one item of DeleteObjects; `room` is what *out points to. */
enum err s3_item_condition(struct request *q, const struct s3xml_delete_item *item,
                           struct object_condition *room,
                           const struct object_condition **out) MUST_CHECK;
/* fault_from(), which names the condition that did not hold. */
enum err s3_condition_fault(struct request *q, const struct object_condition *c,
                            enum err rc, const struct errbuf *eb);

/* version.c: ids. `text` with a NULL `at`: *out is NULL. InvalidArgument. */
enum err s3_version_of(struct request *q, struct span text,
                       const struct object_version **out) MUST_CHECK;
enum err s3_version_requested(struct request *q, const struct object_version **out)
    MUST_CHECK; /* ?versionId */
void s3_put_version(struct request *q, const char *header,
                    const struct object_version *v);
/* x-amz-version-id, where the bucket has versions. */
void s3_put_version_of(struct request *q, const struct object_info *info);
/* The same of what this request has written: AWS names no version where versioning is suspended. */
void s3_put_new_version(struct request *q, const struct object_info *info);
/* fault_from() for an object that was looked for: NoSuchKey, NoSuchVersion, or what a delete marker means. */
enum err s3_missing(struct request *q, const struct object_version *v,
                    const struct object_info *info, enum err rc, const struct errbuf *eb);

/* answers */
/* `name` empty: no user in particular. */
void s3_xml_owner(struct xml *x, struct span name);
void s3_xml_initiator(struct xml *x, struct span name); /* of an upload, and its owner */
/* The owner of an object or upload with this kept list. */
struct span s3_owner_of(const struct map_bucket *b, struct span kept_acl);
/* <ChecksumCRC32>…</> and <ChecksumType>, where there is one. */
void s3_xml_checksum(struct xml *x, const struct object_meta *m);
/* A document under way, of at most `max` bytes below `root`. It points into itself: not to be moved. */
struct s3_document {
    struct buf body; /* owned */
    struct xml xml;
};
void s3_document_begin(struct s3_document *d, size_t max, const char *root);
/* Ends it and sends it with 200, or InternalError where it has grown over `max`. */
enum err s3_document_answer(struct request *q, struct s3_document *d);
/* The same of a document that is text. Takes nothing; the caller frees `body`. */
enum err s3_answer_xml(struct request *q, const struct buf *body);
enum err s3_answer_empty(struct request *q, int status);
enum err s3_fault(struct request *q, enum s3_code code);
/* Finds the bucket of the request and keeps a reference in it. */
enum err s3_find_bucket(struct request *q) MUST_CHECK;
