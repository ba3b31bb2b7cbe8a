/* internal: what the files of the api room share. */
#pragma once
#include "api/api.h"
#include "base/arena.h"
#include "wire/fault.h"
#include "wire/query.h"
#include "wire/s3name.h"

struct api {
    struct api_options options;
    struct span domains[API_DOMAINS_MAX];
    struct sigv4_cache **keys; /* signing keys, one set a loop */
    _Atomic bool ready;
    char *bench; /* /_/bench/SIZE: bytes to send from; NULL when off */
};
#define API_BENCH_MAX (16u << 20)

/* Who is asking, and how its body is framed. Filled by gate(). */
struct caller {
    const struct auth_user *user;
    bool signed_request;
    struct sigv4_auth auth;
    struct hmac_key key; /* signing key: chunk signatures need it */
};

/* One request on its way. Lives on the fiber's arena. */
struct request {
    struct api *api;
    struct http_request *http;
    struct arena *arena;
    struct query query;
    struct s3_name name;
    struct caller caller;
    const struct map_bucket *bucket; /* one reference, or NULL */
    struct arena *work; /* owned; NULL until request_work(): large documents */
    struct fault fault;
    enum metric_op op;
};

/* The one gate: every route but livez and readyz stands behind it. ERR_OK: `caller` is known. */
enum err gate(struct request *q) MUST_CHECK;

/* admin/admin.c: everything under /_/. */
void admin_handle(struct request *q);
/* s3/route.c: everything else. */
void s3_handle(struct request *q);

/* make_bucket.c: both in the map and in the log, or not at all. `backend` NULL: native. Unless *made is NULL it is one
 * reference, on error too. May switch. */
enum err make_bucket(struct request *q, struct span name,
                     const struct map_backend *backend, const struct map_bucket **made,
                     struct errbuf *eb) MUST_CHECK;

/* make_bucket.c: settings of a bucket, in the map and in the log. The request's own q->bucket stays what it was. May
 * switch. */
enum err change_bucket(struct request *q, const struct map_bucket *b,
                       map_bucket_edit *change, void *arg, struct errbuf *eb) MUST_CHECK;

/* Turns a code and sentence of a lower room into the fault of this request. */
enum err fault_from(struct request *q, enum err code, const struct errbuf *eb);
/* Answers with the fault of the request as XML (or bare for HEAD); the connection stays if it can. */
void answer_fault(struct request *q);
/* An arena of WORK_BYTES_MAX for documents that are too large for the request's own; it lives as long. */
struct arena *request_work(struct request *q);
#define WORK_BYTES_MAX (24u << 20)
/* The two ids every answer has. */
void put_ids(struct request *q);
