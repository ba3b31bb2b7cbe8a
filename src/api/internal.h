/* internal: what the files of the api room share. */
#pragma once
#include "api/api.h"
#include "api/audit.h"
#include "base/arena.h"
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
    char *bench; /* /_/bench/SIZE: bytes to send from; NULL when off */
};
#define API_BENCH_MAX (16u << 20)

/* What a route asks of its caller; the gate's table of rights (promise S4). */
enum need {
    NEED_ADMIN_ALL, /* our own pages: admin on every bucket */
    NEED_ADMIN,     /* of this bucket */
    NEED_READ,      /* this key */
    NEED_WRITE,
    NEED_LIST,      /* what begins with the query's prefix */
    NEED_ANY_RIGHT, /* any right in this bucket */
    NEED_USER,      /* any user: the answer shows only what the user's rights cover */
    NEED_NOTHING,   /* nothing: a preflight */
    NEED_FORM,      /* what a form's own fields say: the operation asks */
    NEED_EACH_KEY, /* write, on each key that the body names: the operation asks caller_may() */
};

/* The caller, and how its body is framed. Filled by gate(). */
enum caller_kind {
    CALLER_ANONYMOUS, /* no credentials: what buckets allow to everybody */
    CALLER_LOCAL,     /* no credentials, on loopback without `auth`: everything */
    CALLER_KEY,       /* a user's key and a right signature */
};
struct caller {
    enum caller_kind kind;
    struct span name; /* of the user; "anonymous" */
    bool signed_request;
    const struct auth_key
        *signed_by; /* the key that signed; valid while auth_serial() is `users` */
    uint64_t users;
    struct auth_charge charge; /* of a user with limits; ended by on_done() */
    struct sigv4_auth auth;
    struct hmac_key key; /* signing key: chunk signatures need it */
};

struct request;

/* A protocol below a prefix of the path: a row of the table in front_end.c. */
struct front_end {
    const char *prefix;  /* "/_/": what is below it; "/s3": itself and what is below it */
    size_t skip;         /* bytes of the path that are no part of a name */
    bool serves_objects; /* a plain GET below it is a read of an object */
    void (*handle)(struct request *q);
    /* The user that signed the request; *user is NULL when it has no credentials. An error has set the fault. */
    enum err (*identify)(struct request *q, const struct auth_user **user);
    void (*write_error)(struct request *q); /* answers with the fault of the request */
};
/* Never NULL. */
const struct front_end *front_end_of(struct span path, bool bucket_in_host);

/* One request on its way. Lives on the fiber's arena. */
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
    struct buf
        audit; /* lines that are not written yet (audit.h); empty until the first */
    struct fault fault;
    const struct object_info *marker; /* a delete marker is why: the answer says so */
    enum metric_op op;
    const struct cors_rule *cors; /* its lines go into every answer; NULL: none */
    bool cors_any;                /* it allows every origin */
    /* As they stood when it began: what was decided by them may be kept (response_cache.h). */
    uint64_t map_serial;
};

/* The one gate: every route but livez and readyz stands behind it. ERR_OK: `caller` is known and has what the route
 * needs. Never switches when it admits. */
enum err gate(struct request *q, enum need need) MUST_CHECK;
/* A signature of this key was right: the caller is its user. */
void gate_admit_key(struct request *q, const struct auth_key *k);
/* May this caller do that, now? For what the body or a header names: keys to delete, the source of a copy. Asks the
 * users as they are at this moment; must not be called before gate(). */
bool caller_may(const struct request *q, auth_rights wanted, struct span bucket,
                struct span key);
/* The same; a fault AccessDenied when not. */
enum err caller_require(struct request *q, auth_rights wanted, struct span bucket,
                        struct span key) MUST_CHECK;
/* Has the caller any right in this bucket? */
bool caller_has_any_right(const struct request *q, struct span bucket);

/* request.c: bucket and key, whichever way they were named, and the front-end they belong to; else the fault says what is
 * wrong. */
enum err request_split_name(struct request *q) MUST_CHECK;
/* An arena of WORK_BYTES_MAX for documents that are too large for the request's own; it lives as long. */
struct arena *request_work(struct request *q);
#define WORK_BYTES_MAX (24u << 20)
/* The two ids every answer has, and the lines that CORS wants. */
void request_put_ids(struct request *q);
/* x-amz-request-id and x-amz-id-2: the first two lines of every answer; and the id written over that in such lines. */
#define REQUEST_IDS_LEN 66u
void request_ids_header(struct http_request *http);
void request_write_ids(char lines[REQUEST_IDS_LEN], const char id[16]);
/* gate.c: may this GET read its key? Sets no fault: false means that gate() has to decide. Its name is
 * split. Never switches. */
bool gate_may_read(struct request *q);

/* admin/admin.c: everything under /_/. */
void admin_handle(struct request *q);
/* Its pages, for the test that holds the gate before each; false: no more. */
bool admin_page_at(size_t index, const char **method, const char **path, enum need *need);
/* s3/route.c, s3/identify.c: the S3 API. */
void s3_handle(struct request *q);
enum err s3_identify(struct request *q, const struct auth_user **user) MUST_CHECK;

/* make_bucket.c: both in the map and in the log, or not at all. `backend` NULL: native. Unless *made is NULL it is one
 * reference, on error too. May switch. */
enum err make_bucket(struct request *q, struct span name,
                     const struct map_backend *backend, const struct map_bucket **made,
                     struct errbuf *eb) MUST_CHECK;

/* make_bucket.c: settings of a bucket, in the map and in the log. The request's own q->bucket stays what it was. May
 * switch. */
enum err change_bucket(struct request *q, const struct map_bucket *b,
                       map_bucket_edit *change, void *arg, struct errbuf *eb) MUST_CHECK;

/* fault.c: turns a code and sentence of a lower room into the fault of this request; returns the code. */
enum err fault_from(struct request *q, enum err code, const struct errbuf *eb);
const char *fault_name(const struct request *q); /* as the protocol calls it */
/* Answers with the fault of the request as XML (or bare for HEAD); the connection stays if it can. */
void fault_answer_xml(struct request *q);
