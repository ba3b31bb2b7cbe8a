/* internal: what the files of the cloud room share. */
#pragma once
#include "base/table.h"
#include "cloud/breaker.h"
#include "cloud/cloud.h"
#include "cloud/endpoint.h"
#include "cloud/throttle.h"

#define CLIENTS_MAX    10000
#define RETRY_BASE_MS  50
#define RETRY_BOUND_MS 5000

struct cloud_client {
    char *settings; /* owned: the key of the table */
    struct s3_client *s3;
    struct breaker breaker;
    struct throttle throttle;  /* of GETs */
    struct endpoint *endpoint; /* borrowed from the cloud */
    int64_t expires_s;         /* of its keys, since 1970; 0: never */
    bool renewing;
    uint64_t renew_ns; /* no attempt before */
    struct rt_cond renewed;
};
struct client_set {
    struct table by_settings; /* on its loop only */
};
struct cloud {
    struct cloud_options options;
    struct secrets *secrets;    /* owned; NULL: none are stored */
    struct proxies proxies;     /* never changed */
    struct client_set *clients; /* one a loop */
    struct endpoints endpoints;
};
/* The client for these settings on this loop; makes a missing one. May switch. */
enum err cloud_client_of(struct cloud *c, const struct map_backend *b,
                         struct cloud_client **out, struct errbuf *eb) MUST_CHECK;
/* ERR_BACKEND while the breaker is open; the outcome of the call is reported by cloud_report(). */
enum err cloud_check_breaker(struct cloud_client *cc, struct s3_failure *f,
                             struct errbuf *eb) MUST_CHECK;
void cloud_report(struct cloud_client *cc, enum err rc, const struct s3_failure *f);

/* A client of the caller's own, outside the table: the caller frees it. May switch. */
enum err cloud_client_make(struct cloud *c, const struct map_backend *b,
                           struct s3_client **out, int64_t *expires_s,
                           struct errbuf *eb) MUST_CHECK;

#define RETRY_RENEW_BYTES (1u << 20)
/* The retry budget of one call: tries and time. */
struct retry {
    struct deadline until;
    uint64_t base_ms;
    unsigned tries, left;
};
void retry_begin(struct retry *r, const struct cloud *c);
/* Waits before the next try; false: the budget is used up. May switch. */
bool retry_wait(struct retry *r, const struct s3_failure *f, enum err rc);
enum err backend_error(enum err rc, struct errbuf *eb);

/* Labels of M_BACKEND_REQUESTS. */
enum { B_GET, B_HEAD, B_PUT, B_DELETE, B_LIST, B_OTHER };
