/* tls: OpenSSL on a stream, whatever carries its bytes; TLS 1.2 at least, 1.3 preferred, AEAD only.
 *
 * A context is made once and shared by all loops, session tickets included. Wrapping changes the stream in
 * place: rt_recv and rt_send then carry plain text, rt_park() and rt_may_have_bytes() know of what is decrypted
 * already. Buffers (64 KiB each way) exist only while bytes are under way.
 *
 * Ends: rt_send_end() sends a close_notify; a stream closed without it looks cut off to the peer. Likewise
 * rt_recv() says "end" only after the peer's close_notify, else ERR_CLOSED, "truncated".
 * Failures are sticky: after one (a refused handshake, a send that was cancelled in the middle of a record) the
 * stream is good for closing only; nothing ever goes over it in the clear.
 */
#pragma once
#include "rt/net.h"

struct tls_context;

struct tls_server_options {
    const char *cert_file; /* PEM chain */
    const char *key_file;  /* PEM */
};
struct tls_client_options {
    const char *ca_file; /* PEM; NULL: the system's */
    bool insecure_no_verify;
};
/* Reads files: set-up only, not on a busy loop. */
enum err tls_server_new(const struct tls_server_options *o, struct tls_context **out,
                        struct errbuf *eb) MUST_CHECK;
enum err tls_client_new(const struct tls_client_options *o, struct tls_context **out,
                        struct errbuf *eb) MUST_CHECK;
void tls_context_free(struct tls_context **cp);

/* A server's certificate, renewed while it serves: a renewed context is made (tls_server_new(), inside rt_blocking()), and
 * `c` takes what is in it. New connections get the new certificate and new keys for session tickets; streams that are
 * open keep what they have. *renewed is freed and NULL. On loop 0. */
void tls_server_adopt(struct tls_context *c, struct tls_context **renewed);
/* Have the files changed since they were read? Asks the file system: inside rt_blocking(). */
bool tls_server_is_stale(const struct tls_context *c);
/* When the certificate ends, seconds since 1970. Any loop. */
int64_t tls_server_ends_s(const struct tls_context *c);

/* May switch; a few handshakes a turn of the loop at most, the others yield. `host`: the name or address that
 * the certificate must carry; a name is sent as SNI. ERR_DENIED: the peer's certificate is refused;
 * ERR_CLOSED: he speaks no TLS that we accept. */
enum err rt_tls_accept(struct tls_context *c, struct stream *s, struct deadline by,
                       struct errbuf *eb) MUST_CHECK;
enum err rt_tls_connect(struct tls_context *c, struct stream *s, const char *host,
                        struct deadline by, struct errbuf *eb) MUST_CHECK;
