/* plain_stream: a TCP or TLS connection of a thread that has no loop. For libforebay, which lives in other people's
 * programs: calls block the calling thread until a deadline, and nothing here touches the runtime, starts a thread or
 * handles a signal. On a loop use rt/net.h.
 *
 * Errors: ERR_TIMEOUT, ERR_CLOSED (no connection, or lost), ERR_DENIED (the certificate), ERR_CANCELLED (a signal handler
 * ran, and the stream is interruptible).
 * Threads: a stream belongs to one thread at a time; a plain_tls is immutable.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "rt/time.h"

struct plain_tls; /* what all TLS streams of a client share */
enum err plain_tls_new(const char *ca_file, bool no_verify, struct plain_tls **out,
                       struct errbuf *eb) MUST_CHECK;
void plain_tls_free(struct plain_tls **tp); /* NULL is fine */

struct deadline plain_deadline_ms(uint64_t ms);

struct plain_stream;
struct plain_target {
    const char *host; /* name or address */
    uint16_t port;
    bool interruptible;
};
enum err plain_connect(const struct plain_target *to, struct deadline by,
                       struct plain_stream **out, struct errbuf *eb) MUST_CHECK;
/* TLS over the connection; `name` is verified, and sent unless it is an address. */
enum err plain_handshake(struct plain_stream *s, const struct plain_tls *tls,
                         const char *name, struct deadline by,
                         struct errbuf *eb) MUST_CHECK;
/* Each wait for the peer takes at most `idle_ms`. */
enum err plain_send(struct plain_stream *s, const void *data, size_t len,
                    uint64_t idle_ms, struct errbuf *eb) MUST_CHECK;
/* At least one byte; *n = 0: the peer has ended the stream. */
enum err plain_recv(struct plain_stream *s, void *buf, size_t len, uint64_t idle_ms,
                    size_t *n, struct errbuf *eb) MUST_CHECK;
/* Whether nothing has arrived, the end included: what is expected of a connection that waits for its next request. */
bool plain_is_quiet(const struct plain_stream *s);
void plain_close(struct plain_stream **sp); /* NULL is fine */
/* In a child after fork(), of a stream that another thread of the parent was using: closes the descriptor and leaves the
 * memory, which that thread may have been changing. */
void plain_abandon(struct plain_stream **sp);

/* ERR_CANCELLED: a signal handler ran, and `interruptible`. */
enum err plain_sleep_ms(uint64_t ms, bool interruptible) MUST_CHECK;
/* The number of this process; another one behind a fork(). */
int plain_process(void);
