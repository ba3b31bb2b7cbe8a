/* internal: what the files of the client room share. */
#pragma once
#include "client/endpoint.h"
#include "client/failure.h"
#include "client/s3.h"
#include "http/client.h"
#include "wire/query.h"
#include "wire/s3xml.h"
#include "wire/sigv4.h"
#include "wire/xml.h"

struct s3_client {
    struct http_client *http;
    struct tls_context *tls;
    struct s3_endpoint at;
    bool virtual_host, anonymous, plain, requester_pays, latest;
    char *region;
    struct s3_credentials credentials; /* owned, wiped */
    struct sigv4_cache **keys;         /* one a loop */
};

/* The parameters of one request. */
struct s3_call_spec {
    const char *method;
    struct span bucket, key;
    const struct param *params; /* query, not encoded */
    uint32_t param_count;
    const struct s3_header *headers;
    uint32_t header_count;
    int64_t length;         /* of the body, or HTTP_NO_BODY */
    const char *sha256_hex; /* NULL: UNSIGNED-PAYLOAD */
    bool expect;
    bool *connected; /* as in struct http_call_request */
};
struct s3_call {
    struct http_call *http;
    struct arena *arena; /* owned: the request's text, and the head of an error */
    const struct http_head *head;
    struct span bucket, key; /* of a PUT, for error messages; in the arena */
};

/* Signs and sends the head. The call owns its arena. */
enum err call_begin(struct s3_client *c, const struct s3_call_spec *o,
                    struct s3_call **out, struct errbuf *eb) MUST_CHECK;
/* Waits for the answer. A status outside 2xx is read whole and becomes an error and `f`. */
enum err call_finish(struct s3_call *call, const struct s3_call_spec *o,
                     struct s3_failure *f, struct errbuf *eb) MUST_CHECK;
/* Reads the rest of the answer into the arena, at most `limit` bytes. */
enum err call_document(struct s3_call *call, size_t limit, struct arena *a,
                       struct span *out, struct errbuf *eb) MUST_CHECK;
/* Sends the request, and waits for a head with status 2xx; the caller ends *out in any case; it may be NULL. */
enum err call_ask(struct s3_client *c, const struct s3_call_spec *o, struct span body,
                  struct s3_call **out, struct s3_failure *f,
                  struct errbuf *eb) MUST_CHECK;
/* The whole call, for requests with a small body and a small answer. */
enum err call_simple(struct s3_client *c, const struct s3_call_spec *o, struct span body,
                     struct arena *a, struct span *answer, struct s3_failure *f,
                     struct errbuf *eb) MUST_CHECK;
/* Turns an <Error> document, under any status, into an error. */
enum err error_of_document(struct span doc, int status, const struct s3_call_spec *o,
                           struct s3_failure *f, struct errbuf *eb) MUST_CHECK;
