/* ais: the AIS v1 API, under /v1: the API of NVIDIA AIStore, for its clients as they are. One node answers as a cluster of
 * one: it is the gateway ("proxy") and the only target, under two ids.
 *
 * route.c finds the row of one table by method, place of the path, and the action, `what` or query parameter that the row
 * selects. An operation returns ERR_OK when it has answered; else the request's error says what to answer (error.c).
 * docs/ais.md has the table of operations, which a test holds against the rows.
 *
 *     route.c     the table; path, bucket, message and rights of a request, then its operation
 *     place.c     which place of the API a path names
 *     bucket.c    buckets by (provider, namespace, name); the text "ais://NAME"
 *     message.c   the action message of a body, and members of JSON objects
 *     error.c     errors: the document, its names and status
 *     identify.c  bearer tokens (token.c) and our own keys
 *     cluster.c, config.c, node.c   documents of the cluster and of the node
 *     make.c, props.c, summary.c, list.c   buckets and listings
 *     get.c, head.c, put.c, append.c, parts.c, change.c   objects
 *     dsort.c, dsort_show.c   specs of dsort as jobs "reshard", and these jobs as JobInfo
 *     checksum.c  checksum types of AIS and what is stored of them
 */
#pragma once
#include <jansson.h>

#include "api/internal.h"
#include "wire/checksum.h"
#include "wire/json.h"

#define AIS_MESSAGE_MAX                                                                  \
    (4u << 20) /* bytes of an action message: long lists of names come in one */
#define AIS_DOCUMENT_MAX (8u << 20) /* bytes of a JSON answer */
#define AIS_ID_TEXT      9          /* of a node: 8 letters and digits, NUL */
#define AIS_VERSION_TEXT "5.0.0"    /* the AIStore version whose API this is */

/* Places of the API: a path without names. */
#define AIS_PLACE_TABLE(X)                                                               \
    X(HEALTH, "/v1/health")                                                              \
    X(DAEMON, "/v1/daemon")                                                              \
    X(DAEMON_SET, "/v1/daemon/set-config")                                               \
    X(DAEMON_MOUNTPATHS, "/v1/daemon/mountpaths")                                        \
    X(REVERSE, "/v1/reverse/daemon")                                                     \
    X(REVERSE_SET, "/v1/reverse/daemon/set-config")                                      \
    X(REVERSE_MOUNTPATHS, "/v1/reverse/daemon/mountpaths")                               \
    X(CLUSTER, "/v1/cluster")                                                            \
    X(CLUSTER_SET, "/v1/cluster/set-config")                                             \
    X(CLUSTER_OTHER, "/v1/cluster/other")                                                \
    X(BUCKETS, "/v1/buckets")                                                            \
    X(BUCKET, "/v1/buckets/BUCKET")                                                      \
    X(OBJECTS, "/v1/objects/BUCKET")                                                     \
    X(OBJECT, "/v1/objects/BUCKET/OBJECT")                                               \
    X(BATCH, "/v1/ml/moss")                                                              \
    X(DOWNLOAD, "/v1/download")                                                          \
    X(DOWNLOAD_ABORT, "/v1/download/abort")                                              \
    X(DOWNLOAD_REMOVE, "/v1/download/remove")                                            \
    X(SORT, "/v1/sort")                                                                  \
    X(SORT_ABORT, "/v1/sort/abort")                                                      \
    X(ETL, "/v1/etl")                                                                    \
    X(TOKENS, "/v1/tokens")
enum ais_place {
    AIS_NOWHERE,
#define X(id, path) AIS_##id,
    AIS_PLACE_TABLE(X)
#undef X
        AIS_PLACES_
};

/* How a row is chosen among those of its method and place; the first that fits counts. */
enum ais_select {
    AIS_ALWAYS,
    AIS_BY_ACTION, /* the `action` of the message */
    AIS_BY_WHAT,   /* the query parameter `what` */
    AIS_BY_QUERY,  /* a query parameter with a value */
    AIS_BY_KEY,    /* a query parameter, with or without a value */
};
/* On what the rights of a row are required. */
enum ais_scope {
    AIS_ON_NOTHING,
    AIS_ON_CLUSTER,
    AIS_ON_BUCKET, /* of a listing: on its prefix */
    AIS_ON_OBJECT,
    AIS_ON_EITHER, /* the cluster or the bucket */
};
enum ais_flags {
    AIS_FINDS_BUCKET = 1,  /* 404 without the bucket; q->bucket is set */
    AIS_NAMES_BUCKET = 2,  /* the path names a bucket, which need not exist */
    AIS_FINDS_CLOSING = 4, /* with FINDS: a bucket that is being removed counts */
};

typedef enum err ais_operation(struct request *q);
struct ais_route {
    enum http_method method;
    enum ais_place place;
    enum ais_select select;
    const char *name; /* of the action, `what` or parameter; NULL with AIS_ALWAYS */
    enum ais_scope scope;
    auth_rights rights;
    unsigned flags;
    enum metric_op op;
    ais_operation *run;
};
/* For the tests of docs/ais.md and of the gate; NULL: no more. */
const struct ais_route *ais_route_at(size_t index);
const char *ais_place_path(enum ais_place place);

/* A bucket as AIS names it. */
struct ais_bucket {
    enum map_provider provider;
    struct span ns, name; /* ns "": the global namespace */
    const char *text;     /* "ais://NAME", "ais://@#NS/NAME" */
    struct span uname;    /* in the map, whether or not there is such a bucket */
    bool elsewhere;       /* in the namespace of another cluster */
};

/* What this front-end keeps of a request; q->ais, in its arena. */
struct ais_request {
    enum ais_place place;
    struct span rest; /* decoded: the path behind the place */
    struct ais_bucket bucket;
    struct span object;
    json_t *message; /* owned; NULL: no body */
    const char *action, *name;
    const json_t *value; /* borrowed of `message`; NULL: none */
    /* The error, unless q->fault tells it. */
    int status;
    const char *tcode;
    /* The bearer token that was verified; NULL: none. Owned. */
    json_t *token;
};

/* ---- error.c ---- */
/* Sets status, code and sentence; `tcode` may be NULL. */
enum err ais_fault(struct request *q, int status, const char *tcode, const char *fmt, ...)
    PRINTF(4, 5);
/* The error of a lower room. */
enum err ais_fault_from(struct request *q, enum err rc, const struct errbuf *eb);
enum err ais_no_bucket(struct request *q, const struct ais_bucket *b);
enum err ais_no_object(struct request *q, const struct ais_bucket *b, struct span object);
void ais_write_error(struct request *q);

/* ---- message.c ---- */
/* Reads the body; an empty one is no message. Once. */
enum err ais_read_message(struct request *q) MUST_CHECK;
/* A member, its name in any case; NULL: none, or null. */
json_t *ais_member(const json_t *object, const char *name);
/* Members with an answer for those that are not there. ERR_BAD_REQUEST: another type. Numbers and booleans may be text. */
enum err ais_text(struct request *q, const json_t *object, const char *name,
                  const char **out) MUST_CHECK; /* "" */
enum err ais_number(struct request *q, const json_t *object, const char *name,
                    uint64_t *out) MUST_CHECK; /* 0 */
enum err ais_flag(struct request *q, const json_t *object, const char *name,
                  bool *out) MUST_CHECK;
/* A boolean of the query: 1, t, true, y, yes, on. */
bool ais_query_flag(const struct request *q, const char *name);
/* A decimal number in quotes, as Go wants 64 bits. */
void ais_put_number(struct json *j, const char *key, uint64_t value);
/* RFC 3339 with a zone; 0: the zero time of Go. */
void ais_put_time(struct json *j, const char *key, int64_t ms);
/* A document of JSON, and its answer with status 200. */
struct ais_document {
    struct buf text; /* owned */
    struct json j;
};
void ais_document_begin(struct ais_document *d);
enum err ais_document_answer(struct request *q, struct ais_document *d);
enum err ais_answer_text(struct request *q, int status, struct span text);
enum err ais_answer_empty(struct request *q, int status);

/* ---- place.c ---- */
/* True if a path is of this API. */
bool ais_is_path(struct span path);
/* Fills place, rest, and name and object of q->ais. */
enum err ais_find_place(struct request *q) MUST_CHECK;

/* ---- bucket.c ---- */
bool ais_provider_of(struct span text, enum map_provider *out); /* "" is ais */
/* From provider, namespace ("@uuid#name") and name; checks the name. */
enum err ais_bucket_name(struct request *q, struct span provider, struct span ns,
                         struct span name, struct ais_bucket *out) MUST_CHECK;
/* "PROVIDER/NAMESPACE/NAME/", and what stands behind it. */
enum err ais_bucket_uname(struct request *q, struct span uname, struct ais_bucket *out,
                          struct span *object) MUST_CHECK;
/* {"name", "provider", "namespace": {"uuid", "name"}} */
enum err ais_bucket_json(struct request *q, const json_t *o,
                         struct ais_bucket *out) MUST_CHECK;
void ais_bucket_put(struct json *j, const char *key, const struct map_bucket *b);
/* *out is one reference. ERR_NO_BUCKET with the error set. */
enum err ais_bucket_find(struct request *q, const struct ais_bucket *b,
                         const struct map_bucket **out) MUST_CHECK;
/* "ais://NAME" of a bucket of the map, in the arena. */
const char *ais_bucket_text(struct arena *a, const struct map_bucket *b);
/* ais_fault() unless the name can be one of an object. */
enum err ais_object_check(struct request *q, struct span object) MUST_CHECK;

/* ---- route.c ---- */
/* 403 unless the caller has these rights: on every bucket, on that of the request, or on its object. */
enum err ais_require(struct request *q, enum ais_scope scope,
                     auth_rights rights) MUST_CHECK;

/* ---- identify.c ---- */
enum err ais_identify(struct request *q, const struct auth_user **user) MUST_CHECK;

/* ---- cluster.c ---- */
/* The ids of this node as gateway and as target, and of the cluster, from its identity. */
struct ais_ids {
    char gateway[AIS_ID_TEXT], target[AIS_ID_TEXT], cluster[AIS_ID_TEXT + 4];
};
void ais_ids(const struct api *a, struct ais_ids *out);

void ais_handle(struct request *q);
