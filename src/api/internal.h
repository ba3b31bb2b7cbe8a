/* internal: what the files of the api room share. */
#pragma once
#include "api/api.h"
#include "api/audit.h"
#include "base/arena.h"
#include "shard/member.h"
#include "wire/fault.h"
#include "wire/query.h"
#include "wire/s3name.h"

struct api {
    struct api_options options;
    struct span domains[API_DOMAINS_MAX];
    struct sigv4_cache **keys;           /* signing keys, one set a loop */
    struct signature_cache **signatures; /* one table a loop */
    _Atomic bool ready, access_log;
    _Atomic bool backing_up;          /* one backup at a time */
    struct response_cache *responses; /* NULL without a block cache */
    struct trace *trace;
    uint64_t began_ns;               /* rt_now_ns() of the start */
    struct shard_service *shards;    /* indexes of shards that were read */
    struct xacts *xacts;             /* jobs of AIS that live in memory */
    struct ais_summaries *summaries; /* ais/summary.h */
    struct peers *peers;             /* borrowed; NULL: none */
    char *bench; /* /_/bench/SIZE: bytes to send from; NULL when off */
};
#define API_BENCH_MAX (16u << 20)

/* The rights that a route requires of its caller; the gate checks them (promise S4). */
enum need {
    NEED_ADMIN_ALL, /* the admin API: admin on every bucket */
    NEED_ADMIN,     /* admin on this bucket */
    NEED_MAKE_BUCKET,
    NEED_READ_ACL, /* the access control list of this bucket or key */
    NEED_WRITE_ACL,
    NEED_READ, /* this key */
    NEED_WRITE,
    NEED_WRITE_TAGS, /* write; where the policy asks for the tags in the body the operation checks */
    NEED_LIST,      /* list on the query's prefix */
    NEED_ANY_RIGHT, /* any right in this bucket */
    NEED_USER,      /* any user: the answer shows only what the user's rights cover */
    NEED_NOTHING,   /* no right: a CORS preflight */
    NEED_FORM,      /* decided by the fields of a form: the operation checks */
    NEED_EACH_KEY,  /* write on each key in the body: the operation calls caller_may() */
    NEED_CALLER,    /* anonymous callers too: the route requires single rights itself */
};

/* The caller, and how its body is framed. Filled by gate(). */
enum caller_kind {
    CALLER_ANONYMOUS, /* no credentials: public rights of buckets only */
    CALLER_LOCAL,     /* no credentials, on loopback without `auth`: all rights */
    CALLER_KEY,       /* a user's key and a valid signature, or its secret */
    CALLER_TOKEN,     /* a bearer token; its own rights count */
};
/* The rights that a bearer token carries. Those on a bucket replace those on all buckets. */
struct token_rights {
    auth_rights everywhere;
    unsigned count;
    struct token_bucket {
        struct span bucket; /* uname */
        auth_rights rights;
    } * at;
};
struct caller {
    enum caller_kind kind;
    struct span name; /* of the user; "anonymous" */
    bool signed_request;
    const struct auth_key
        *signed_by; /* the key that signed; valid while auth_serial() is `users` */
    uint64_t users;
    struct auth_charge charge;        /* for a user with limits; on_done() ends it */
    const struct token_rights *token; /* with CALLER_TOKEN */
    uint8_t
        by_object; /* the permission of an object's list that let the caller in; 0: other rights did */
    struct sigv4_auth auth;
    struct hmac_key key; /* signing key: chunk signatures need it */
};

struct request;
struct ais_request;

/* Of a request with PEER_TRUSTED: the caller whose rights the sending node has checked. */
#define PEER_USER_FIELD "forebay-user"

/* A protocol below a prefix of the path: a row of the table in front_end.c. */
struct front_end {
    const char *prefix;  /* "/_/": paths below it; "/s3": itself and paths below it */
    size_t skip;         /* bytes of the path before the bucket name */
    bool serves_objects; /* a plain GET below it is a read of an object */
    bool splits_itself;  /* `handle` finds bucket and key in the path */
    void (*handle)(struct request *q);
    /* The user that signed the request; *user is NULL when it has no credentials. On error the fault is set. */
    enum err (*identify)(struct request *q, const struct auth_user **user);
    void (*write_error)(struct request *q); /* answers with the fault of the request */
    bool
        tells_missing; /* a caller without rights learns that there is no such bucket, as with AWS */
};
/* Never NULL. `bucket_in_host`: the path is a key. */
const struct front_end *front_end_of(struct span path, bool bucket_in_host);

/* One request. Lives in the request's arena. */
struct request {
    struct api *api;
    const struct front_end *front; /* never NULL */
    struct http_request *http;
    struct arena *arena;
    struct query query;
    struct s3_name name;
    struct caller caller;
    const struct map_bucket *bucket; /* one reference, or NULL */
    struct arena *work; /* owned; NULL until request_work(): large documents */
    struct buf audit;   /* pending audit lines (audit.h) */
    struct fault fault;
    const struct object_info
        *marker; /* the delete marker that caused the fault; reported in the reply */
    enum metric_op op;
    struct ais_request *ais; /* of the AIS API; NULL elsewhere */
    const char *action;      /* the route's name in the policy language; NULL: none */
    struct span
        object_tags; /* of the object that is there, where the policy asks for them */
    struct span
        request_tags; /* that a body gives; NULL `at`: those of the header x-amz-tagging */
    const struct cors_rule *cors; /* its lines go into every answer; NULL: none */
    bool cors_any;                /* it allows every origin */
    const struct peer_head *from; /* another node passed it on; NULL: a client's own */
    uint64_t node_epoch;          /* of the map by which the key is here */
    uint32_t relayed_to;          /* the node that answers it; 0: this one */
    /* Serial of the map when the request began: the response cache keys decisions by it (response_cache.h). */
    uint64_t map_serial;
};

/* The access check of every route except livez and readyz. ERR_OK: `caller` is set and has the rights that the route
 * needs. Never switches when it admits. */
enum err gate(struct request *q, enum need need) MUST_CHECK;
/* Sets the caller to the user of key `k`, whose signature was valid. */
void gate_admit_key(struct request *q, const struct auth_key *k);
/* Of a request with PEER_TRUSTED: every right, under the name of the caller that the sending node has checked. */
void gate_admit_node(struct request *q);
/* True if the caller has these rights now. For names in a body or header: keys to delete, the source of a copy. Reads the
 * current snapshot of users. Call after gate() only. */
bool caller_may(const struct request *q, auth_rights wanted, struct span bucket,
                struct span key);
/* The same; a fault AccessDenied when not. */
enum err caller_require(struct request *q, auth_rights wanted, struct span bucket,
                        struct span key) MUST_CHECK;
/* True if the caller has any right in this bucket. */
bool caller_has_any_right(const struct request *q, struct span bucket);

/* request.c: finds bucket, key and front-end, in path or virtual-host style. On error the fault is set. */
enum err request_split_name(struct request *q) MUST_CHECK;
/* An arena of WORK_BYTES_MAX for documents that are too large for the request's own; it lives as long. */
struct arena *request_work(struct request *q);
#define WORK_BYTES_MAX (24u << 20)
/* Adds the two request ids of every reply, and the CORS headers. */
void request_put_ids(struct request *q);
/* x-amz-request-id and x-amz-id-2: the first two lines of every reply. request_write_ids() overwrites the id in such lines. */
#define REQUEST_IDS_LEN 66u
void request_ids_header(struct http_request *http);
void request_write_ids(char lines[REQUEST_IDS_LEN], const char id[16]);
/* gate.c: true if this GET may read its key. False: gate() must decide; no fault is set. The name must be split. Never switches. */
bool gate_may_read(struct request *q);

/* admin/admin.c: the admin API, under /_/. */
void admin_handle(struct request *q);
/* Enumerates its pages, for the test that checks the gate on each; false: no more. */
bool admin_page_at(size_t index, const char **method, const char **path, enum need *need);
/* ais/route.c, ais/identify.c, ais/error.c: the AIS API, under /v1. */
void ais_handle(struct request *q);
enum err ais_identify(struct request *q, const struct auth_user **user) MUST_CHECK;
void ais_write_error(struct request *q);
/* s3/route.c, s3/identify.c: the S3 API. */
void s3_handle(struct request *q);
enum err s3_identify(struct request *q, const struct auth_user **user) MUST_CHECK;

/* make_bucket.c: creates a bucket in the map and in the log, or in neither. `backend` NULL: native. `access` NULL: its owner is the caller. *made, unless NULL, is a reference that
 * the caller owns, on error too. May switch. */
enum err make_bucket_as(struct request *q, const struct map_bucket_id *id,
                        const struct map_backend *backend,
                        const struct map_bucket_access *access,
                        const struct map_bucket **made, struct errbuf *eb) MUST_CHECK;
enum err make_bucket(struct request *q, struct span name,
                     const struct map_backend *backend,
                     const struct map_bucket_access *access,
                     const struct map_bucket **made, struct errbuf *eb) MUST_CHECK;

/* make_bucket.c: changes a bucket's settings in the map and in the log. q->bucket still is the old snapshot. May
 * switch. */
enum err change_bucket(struct request *q, const struct map_bucket *b,
                       map_bucket_edit *change, void *arg, struct errbuf *eb) MUST_CHECK;
/* make_bucket.c: the same with its name; a native one. May switch. */
enum err rename_bucket(struct request *q, const struct map_bucket *b,
                       const struct map_bucket_id *to, struct errbuf *eb) MUST_CHECK;

/* close_bucket.c: closes an empty bucket on all nodes, as object_bucket_close() does on one; or opens it again. May switch. */
enum err bucket_close_everywhere(struct request *q, const struct map_bucket *b,
                                 struct errbuf *eb) MUST_CHECK;
void bucket_reopen_everywhere(struct request *q, const struct map_bucket *b);

/* fault.c: sets the request's fault from an error code and message; returns the code. */
enum err fault_from(struct request *q, enum err code, const struct errbuf *eb);
const char *fault_name(const struct request *q); /* the protocol's error name */
/* Replies with the fault as XML, without a body for HEAD; keeps the connection if possible. */
void fault_answer_xml(struct request *q);
