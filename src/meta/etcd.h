/* etcd: what the files of the etcd backend share. Only this room includes it.
 *
 * etcd.c opens, closes and translates; etcd_call.c sends one request to one of the endpoints and knows what an error
 * means; etcd_watch.c follows the changes; etcd_json.c has the bytes. All of it runs on loop 0: calls of other loops come
 * there, so nothing here needs a lock.
 */
#pragma once
#include "http/client.h"
#include "meta/backend.h"
#include "meta/etcd_json.h"
#include "rt/sync.h"

#define ETCD_QUIET_MS 15000u /* a watch without a byte: its connection is closed */

struct etcd_endpoint {
    char *host; /* owned */
    uint16_t port;
    bool tls;
};

struct etcd {
    struct meta base; /* first */
    char *prefix;     /* owned */
    size_t prefix_len;
    struct etcd_endpoint endpoints[META_ENDPOINTS_MAX];
    unsigned endpoint_count;
    unsigned at;                   /* the endpoint that answered last */
    char *user, *password, *token; /* owned; NULL: none */
    struct tls_context *tls;       /* owned */
    struct http_client *http;      /* owned */
    uint64_t timeout_ms;
    uint64_t cluster; /* 0: not known yet */
    uint64_t seen;    /* the highest revision of an answer */
    bool refused;     /* it is another etcd, or an older state of it */

    struct {
        struct rt_group group; /* one fiber */
        bool started, stopping;
        uint64_t next; /* the first revision that was not reported */
    } watch;
};

static inline struct span
etcd_prefix(const struct etcd *e)
{
    return (struct span){e->prefix, e->prefix_len};
}

/* ---- etcd_call.c ---- */

struct etcd_request {
    const char *path; /* "/v3/kv/range" */
    struct span body;
    bool changes;  /* is not sent again when it may have been carried out */
    bool no_token; /* a log-in: etcd refuses one that comes with an old token */
};
/* Sends it until an endpoint answers, or the time is over. *maybe (changes only): etcd may have carried it out, or may
 * still do so. ERR_RANGE: a revision that was compacted. May switch. */
enum err etcd_call(struct etcd *e, const struct etcd_request *r, struct deadline by,
                   struct buf *out, bool *maybe, struct errbuf *eb) MUST_CHECK;
/* Begins a request at the current endpoint whose answer is a stream. The caller ends *call. May switch. */
enum err etcd_stream_begin(struct etcd *e, const struct etcd_request *r,
                           struct http_call **call, struct errbuf *eb) MUST_CHECK;
/* The next endpoint is tried next. */
void etcd_elsewhere(struct etcd *e);
/* What the header of an answer says: another cluster, or a revision below `seen_before` (e->seen when the request was
 * sent), is refused from here on. ERR_UNAVAILABLE. */
enum err etcd_check_head(struct etcd *e, uint64_t cluster, uint64_t revision,
                         uint64_t seen_before, struct errbuf *eb) MUST_CHECK;

/* ---- etcd_watch.c ---- */

enum err etcd_watch_start(struct etcd *e, struct errbuf *eb) MUST_CHECK;
void etcd_watch_stop(struct etcd *e); /* May switch. */
