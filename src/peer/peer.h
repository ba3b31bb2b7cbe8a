/* peer: requests between the nodes of one cluster: TLS 1.3 from the cluster's own authority, checked frames, and in each
 * request the protocol version and the epoch of the sender's map.
 *
 * A request between nodes is an HTTP/1.1 request with one field more, `forebay-peer` (struct peer_head). The bytes of a
 * connection travel in frames with a CRC-32C each (rt/frames.h), inside TLS. Both ends prove that they have the cluster
 * key: each node issues itself a certificate at its start, of the authority whose private key is derived from the cluster
 * key and the cluster id. Nothing has to be distributed but the key.
 *
 * The server has request places of its own, so that relayed requests do not starve those of clients. It refuses in words:
 * another protocol version, a request for another node, an epoch older than its map's (421, with its own epoch). A newer one
 * makes it fetch the map first.
 *
 * Fibers: start, listen and stop on loop 0; calls on any loop. On the wire: docs/formats.md, section 14.
 */
#pragma once
#include "http/client.h"
#include "http/server.h"

#define PEER_PROTOCOL    1u
#define PEER_KEY_BYTES   32u
#define PEER_ADDRESS_MAX 64u /* of a client: "[IPv6]:PORT" */
#define PEER_FIELD       "forebay-peer"
#define PEER_EPOCH_FIELD "forebay-epoch" /* in a 421: the epoch of the receiver's map */
#define PEER_STALE       421

/* What a request between nodes carries besides the request. */
enum {
    PEER_LOOPBACK = 1, /* the client reached the gateway over loopback */
    PEER_TLS = 2,      /* by TLS */
    PEER_TRUSTED =
        4, /* no client's request: the sender has checked the caller's rights */
};
struct peer_head {
    uint32_t protocol; /* PEER_PROTOCOL */
    uint32_t from, to; /* numbers of nodes */
    uint64_t epoch;    /* of the sender's map */
    unsigned flags;    /* a sum of the above */
    char id[17]; /* of the request, 16 hex digits, the same in the logs of both nodes */
    char client[PEER_ADDRESS_MAX]; /* "127.0.0.1:51234"; "" of a node's own request */
};
#define PEER_HEAD_TEXT_MAX (128 + PEER_ADDRESS_MAX)
size_t peer_head_format(const struct peer_head *h, char out[PEER_HEAD_TEXT_MAX]);
/* ERR_BAD_REQUEST: it is none; ERR_NOT_IMPLEMENTED: of another protocol version, with both named. */
enum err peer_head_parse(struct span text, struct peer_head *out,
                         struct errbuf *eb) MUST_CHECK;

struct peer_options {
    const unsigned char *key;        /* of the cluster, PEER_KEY_BYTES */
    const unsigned char *cluster_id; /* 16 bytes */
    uint32_t self;
    const char *name;                         /* of this node, for its certificate */
    const struct http_server_options *server; /* limits; NULL: defaults */
    const struct http_client_options *client; /* limits; NULL: defaults */
    /* Serves requests of other nodes, as http_handler.handle; `head` is lent until it returns. The request has the client's
     * address, the client's flags and the gateway's id already. */
    void (*handle)(struct http_request *r, const struct peer_head *head, void *arg);
    struct http_handler
        handler; /* the other callbacks; `handle`, `prefetch`, `try_inline` unused */
    /* Of this node's map; on any loop. */
    uint64_t (*epoch)(void *arg);
    enum err (*catch_up)(void *arg, uint64_t epoch, struct errbuf *eb); /* may switch */
    void *arg;                                                          /* of all three */
};
struct peers;
/* ERR_BAD_REQUEST, ERR_INTERNAL: OpenSSL refuses. On ERR_OK the caller owns *out. */
enum err peer_start(const struct peer_options *o, struct peers **out,
                    struct errbuf *eb) MUST_CHECK;
/* May switch. */
enum err peer_listen(struct peers *p, const char *addr, uint16_t port, uint16_t *bound,
                     struct errbuf *eb) MUST_CHECK;
/* Refuses new requests, and waits for those in flight, or until `by`. May switch. */
bool peer_drain(struct peers *p, struct deadline by);
/* No call may be left. NULL is fine. May switch. */
void peer_stop(struct peers **pp);

struct peer_target {
    const char *address; /* HOST:PORT of its peer port */
    uint32_t number;
    uint64_t epoch; /* of the map by which it was chosen */
};
struct peer_request {
    const char *method;
    struct span target, host; /* raw; host: the Host field, may be empty */
    struct fields headers;    /* borrowed until peer_call_begin() returns */
    int64_t length;           /* as in struct http_call_request */
    bool expect_continue;
    unsigned flags;
    const char *id, *client; /* NULL: none */
    struct deadline by;
};
/* One request to another node, over kept connections; goes on with http_call_write() and so on (http/client.h).
 * ERR_UNAVAILABLE: the node can't be reached, or it has another cluster key. May switch. */
enum err peer_call_begin(struct peers *p, const struct peer_target *to,
                         const struct peer_request *req, struct http_call **out,
                         struct errbuf *eb) MUST_CHECK;
/* The epoch in the head of a 421 of the other node; 0: it is another answer. */
uint64_t peer_stale_epoch(const struct http_head *head);
