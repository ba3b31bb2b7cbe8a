/* net: byte streams (TCP, Unix, pipes, TLS over any of them) and listeners.
 *
 * A stream belongs to one loop. At most one fiber receives and one fiber sends at a time. A call touches the
 * caller's memory only until it returns. The owner may call rt_stream_close() at any time; a wait of another fiber
 * on the stream then ends with ERR_CLOSED. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"
#include "rt/fiber.h"

struct stream;
struct listener;

struct rt_listen_options {
    const char *congestion; /* TCP; connections inherit it; NULL: the system default */
    bool unlink_first;      /* Unix: a leftover socket file is removed */
    unsigned backlog;       /* 0: 4,096 */
};

/* "127.0.0.1", "::1", "0.0.0.0", "unix:/path". Port 0 picks one. SO_REUSEADDR is set. */
enum err rt_listen(const char *addr, uint16_t port, const struct rt_listen_options *o,
                   struct listener **out, struct errbuf *eb) MUST_CHECK;
uint16_t rt_listener_port(const struct listener *l);
/* From now on the listener hands every connection to the loop with the fewest connections. There on_stream runs
 * outside any fiber; it owns the stream, and typically parks it. Without free descriptors the listener pauses and
 * resumes. */
void rt_listener_serve(struct listener *l, void (*on_stream)(struct stream *s, void *arg),
                       void *arg);
/* Connections in transit to their loops still reach on_stream, so free `arg` by rt_retire(). */
void rt_listener_close(struct listener **lp);
/* For tests and simple servers: accepts one connection on this loop. Not together with serve. May switch. */
enum err rt_accept(struct listener *l, struct deadline by, struct stream **out,
                   struct errbuf *eb) MUST_CHECK;

/* Resolves host names in a thread pool of their own. May switch. */
enum err rt_connect(const char *host, uint16_t port, struct deadline by,
                    struct stream **out,
                    struct errbuf *eb) MUST_CHECK; /* host as in rt_listen, or a name */
/* The same, with a guard against server-side request forgery: addresses that `host` resolves to and whose class is
 * in `refuse` (bits 1 << enum ip_class) are not connected to. If no address is left: ERR_DENIED, with the address.
 * An address, or "localhost", in `host` itself is not checked. */
enum err rt_connect_within(const char *host, uint16_t port, unsigned refuse,
                           struct deadline by, struct stream **out,
                           struct errbuf *eb) MUST_CHECK;
enum err rt_pipe(struct stream **a, struct stream **b); /* two ends in one process */

/* Receives at least 1 byte; *n = 0 with ERR_OK is the end of the stream. May switch. */
enum err rt_recv(struct stream *s, void *buf, size_t len, struct deadline by, size_t *n,
                 struct errbuf *eb) MUST_CHECK;
/* Sends all of it, or fails: then an unknown part has been sent, and the stream is only good for closing. May
 * switch. */
enum err rt_send(struct stream *s, const void *buf, size_t len, struct deadline by,
                 struct errbuf *eb) MUST_CHECK;
/* The same for several pieces; changes iov. */
enum err rt_sendv(struct stream *s, struct iovec *iov, int count, struct deadline by,
                  struct errbuf *eb) MUST_CHECK;
/* The same, when the caller sends more soon: the kernel may hold back an incomplete segment until then, at most 200
 * ms. That saves a small segment, its acknowledgement and possibly a wake-up. Only zero-copy pieces are held back. */
enum err rt_sendv_more(struct stream *s, struct iovec *iov, int count, struct deadline by,
                       struct errbuf *eb) MUST_CHECK;
/* Ends the sending direction (TLS: close_notify first). May switch. */
enum err rt_send_end(struct stream *s, struct deadline by) MUST_CHECK;
void rt_stream_close(struct stream **sp); /* NULL is fine; never waits */
/* The same, but the peer sees a reset instead of an end (TCP), so that a truncated body cannot look complete. */
void rt_stream_reset(struct stream **sp);

/* Parks a stream until the peer sends: no fiber waits for it. When bytes (or the end) arrive, on_ready runs as a new
 * fiber with ERR_OK; at `by` with ERR_TIMEOUT; after rt_unpark() with ERR_CANCELLED. Without a free stack the stream
 * stays parked until there is one. */
void rt_park(struct stream *s, struct deadline by,
             void (*on_ready)(void *arg, enum err why), void *arg);
void rt_unpark(struct stream *s); /* no effect unless parked */
void rt_resume(
    struct stream
        *s); /* its fiber runs as if bytes were there; no effect unless parked */

/* An inline handler, for what can be answered without a fiber: when a parked stream may have bytes, the handler runs
 * first, on the loop's own stack. It must not switch and must not close a stream. True: handled; the stream stays
 * parked. Never used for TLS. */
void rt_on_inline(struct stream *s, bool (*inline_handler)(void *arg), void *arg);
/* In an inline handler or rt_after_poll(), on a stream without TLS: receives, or sends, what is possible now. 0 when
 * that is nothing; an end or an error is then reported by the next rt_recv() or rt_sendv() of a fiber. */
size_t rt_try_recv(struct stream *s, void *buf, size_t len);
size_t rt_try_sendv(struct stream *s, const struct iovec *iov, int count);
/* Moves the deadline of a parked stream, later only; wakes it when more bytes have arrived already. False: its fiber
 * has been started. */
bool rt_park_later(struct stream *s, struct deadline by);
/* False when rt_recv() would certainly wait: saves a system call before parking. */
bool rt_may_have_bytes(const struct stream *s);

/* "127.0.0.1:51234", for logs. Loopback: the peer is this host. */
const char *rt_stream_peer(const struct stream *s);
bool rt_stream_is_loopback(const struct stream *s);
bool rt_stream_is_tls(const struct stream *s);
/* Bytes the kernel still holds for the peer; 0 in sim. */
void rt_stream_set_lowat(struct stream *s, unsigned bytes); /* TCP_NOTSENT_LOWAT */
