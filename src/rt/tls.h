/* tls: OpenSSL over any stream. TLS 1.2 at least, 1.3 preferred, AEAD only.
 *
 * A context is made once and shared by all loops, session tickets included. Wrapping changes the stream in place:
 * rt_recv and rt_send then carry plain text, and rt_park() and rt_may_have_bytes() take decrypted bytes into
 * account. Buffers (64 KiB each way) exist only while bytes are in transit.
 *
 * Ends: rt_send_end() sends a close_notify; a stream closed without it looks truncated to the peer. Likewise
 * rt_recv() reports the end only after the peer's close_notify, else ERR_CLOSED, "truncated". Failures are sticky:
 * after a refused handshake, or a send that was cancelled within a record, the stream is only good for closing;
 * nothing ever goes over it in the clear. */
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

/* Replaces a server's certificate while it serves: the caller makes a new context (tls_server_new(), inside
 * rt_blocking()), and `c` adopts its content. New connections get the new certificate and new session ticket keys;
 * open streams keep theirs. Frees *renewed and sets it to NULL. On loop 0. */
void tls_server_adopt(struct tls_context *c, struct tls_context **renewed);
/* Whether the files have changed since they were read. Reads the file system: inside rt_blocking(). */
bool tls_server_is_stale(const struct tls_context *c);
/* When the certificate ends, seconds since 1970. Any loop. */
int64_t tls_server_ends_s(const struct tls_context *c);

/* Both ends of connections between members of a group that share a secret. The authority's private key is that secret (an
 * Ed25519 key); each member issues itself a certificate for `name`, without an end. Both ends require one of this authority.
 * TLS 1.3 only; no session is resumed. ERR_INTERNAL: OpenSSL refuses, with its reason. */
struct tls_group_options {
    const unsigned char *authority; /* 32 bytes, secret */
    const char *name;               /* as rt_tls_connect() of others names this one */
};
enum err tls_group_new(const struct tls_group_options *o, struct tls_context **server,
                       struct tls_context **client, struct errbuf *eb) MUST_CHECK;

/* May switch; at most a few handshakes per turn of the loop, the others yield. `host`: the name or address that the
 * certificate must carry; a name is sent as SNI. ERR_DENIED: the peer's certificate is refused. ERR_CLOSED: the peer
 * has no TLS version or cipher in common. */
enum err rt_tls_accept(struct tls_context *c, struct stream *s, struct deadline by,
                       struct errbuf *eb) MUST_CHECK;
enum err rt_tls_connect(struct tls_context *c, struct stream *s, const char *host,
                        struct deadline by, struct errbuf *eb) MUST_CHECK;
