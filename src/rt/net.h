/* net: byte streams (TCP, Unix, pipes, TLS over any of them) and listeners.
 *
 * A stream belongs to one loop. A fiber at a time receives, a fiber at a time sends.
 * Memory given to a call is touched only during the call. rt_stream_close() may be called
 * at any time by the owner; a wait of another fiber on it ends with ERR_CLOSED.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"
#include "rt/fiber.h"

struct stream;
struct listener;

struct rt_listen_options {
    const char *congestion; /* TCP; connections inherit it; NULL: the system's */
    bool unlink_first;      /* Unix: a leftover socket file is removed */
    unsigned backlog;       /* 0: 4,096 */
};

/* "127.0.0.1", "::1", "0.0.0.0", "unix:/path". Port 0 picks one. SO_REUSEADDR is set. */
enum err rt_listen(const char *addr, uint16_t port, const struct rt_listen_options *o,
                   struct listener **out, struct errbuf *eb) MUST_CHECK;
uint16_t rt_listener_port(const struct listener *l);
/* From now on every connection is handed to the loop with the fewest; there on_stream
 * runs outside any fiber: it takes the stream, and typically parks it. Descriptors out:
 * accepting pauses and resumes. */
void rt_listener_serve(struct listener *l, void (*on_stream)(struct stream *s, void *arg),
                       void *arg);
/* Connections on their way to their loops still reach on_stream; whoever frees `arg` does
 * it by rt_retire(). */
void rt_listener_close(struct listener **lp);
/* For tests and simple servers: takes one connection on this loop. Not together with
 * serve. May switch. */
enum err rt_accept(struct listener *l, struct deadline by, struct stream **out,
                   struct errbuf *eb) MUST_CHECK;

/* Host names are resolved in a pool of their own. May switch. */
enum err rt_connect(const char *host, uint16_t port, struct deadline by,
                    struct stream **out,
                    struct errbuf *eb) MUST_CHECK; /* host as in rt_listen, or a name */
/* The same where a name must not lead everywhere: what `host` resolves to, and is of a class in `refuse` (bits 1 << enum ip_class),
 * is not connected to; nothing else left: ERR_DENIED, with the address. What `host` itself says (an address, "localhost") is
 * not asked about. */
enum err rt_connect_within(const char *host, uint16_t port, unsigned refuse,
                           struct deadline by, struct stream **out,
                           struct errbuf *eb) MUST_CHECK;
enum err rt_pipe(struct stream **a, struct stream **b); /* two ends in one process */

/* Receives at least 1 byte; *n = 0 with ERR_OK is the end of the stream. May switch. */
enum err rt_recv(struct stream *s, void *buf, size_t len, struct deadline by, size_t *n,
                 struct errbuf *eb) MUST_CHECK;
/* Sends all of it, or fails: then an unknown part is sent and the stream is good for
 * closing only. May switch. */
enum err rt_send(struct stream *s, const void *buf, size_t len, struct deadline by,
                 struct errbuf *eb) MUST_CHECK;
/* The same for pieces; iov is changed. */
enum err rt_sendv(struct stream *s, struct iovec *iov, int count, struct deadline by,
                  struct errbuf *eb) MUST_CHECK;
/* The same, when more is sent as soon as it is at hand: the kernel may hold back what does not fill a segment until then (200 ms at
 * most), which saves a small segment, its acknowledgement and maybe a wake-up. Only pieces by reference are held back. */
enum err rt_sendv_more(struct stream *s, struct iovec *iov, int count, struct deadline by,
                       struct errbuf *eb) MUST_CHECK;
/* Ends the sending direction (TLS: close_notify first). May switch. */
enum err rt_send_end(struct stream *s, struct deadline by) MUST_CHECK;
void rt_stream_close(struct stream **sp); /* NULL is fine; never waits */
/* The same, but the peer sees a reset instead of an end (TCP): so that what was cut short
 * can't look whole. */
void rt_stream_reset(struct stream **sp);

/* Nothing to do until the peer speaks: no fiber is held. When bytes (or the end) are
 * there `on_ready` runs as a new fiber with ERR_OK; ERR_TIMEOUT at `by`; ERR_CANCELLED
 * after rt_unpark(). Out of stacks: the stream stays parked until there is one. */
void rt_park(struct stream *s, struct deadline by,
             void (*on_ready)(void *arg, enum err why), void *arg);
void rt_unpark(struct stream *s); /* no effect unless parked */
void rt_resume(
    struct stream
        *s); /* its fiber runs as if bytes were there; no effect unless parked */

/* For what can be answered at once: when a parked stream may have bytes `inline_handler` runs first, on the loop's own stack. It
 * must not switch, and not close a stream. True: seen to, no fiber is made and the stream stays parked. Never for TLS. */
void rt_on_inline(struct stream *s, bool (*inline_handler)(void *arg), void *arg);
/* In a inline_handler or rt_after_poll(), on a stream without a layer: what can be had, or sent, now; 0 when that is nothing, be it for
 * an end or an error, which a fiber's rt_recv() or rt_sendv() then meets. */
size_t rt_try_recv(struct stream *s, void *buf, size_t len);
size_t rt_try_sendv(struct stream *s, const struct iovec *iov, int count);
/* Moves the deadline of a parked stream, later only; wakes it when more bytes are there already. False: it is on its way
 * to its fiber. */
bool rt_park_later(struct stream *s, struct deadline by);
/* False when a call of rt_recv() would surely wait: spares one system call before
 * parking. */
bool rt_may_have_bytes(const struct stream *s);

/* "127.0.0.1:51234"; for logs. Loopback: the other end is this host. */
const char *rt_stream_peer(const struct stream *s);
bool rt_stream_is_loopback(const struct stream *s);
bool rt_stream_is_tls(const struct stream *s);
/* Bytes the kernel still holds for the peer; 0 in sim. */
void rt_stream_set_lowat(struct stream *s, unsigned bytes); /* TCP_NOTSENT_LOWAT */
