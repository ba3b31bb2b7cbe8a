/* tls: OpenSSL over memory BIOs on a stream; TLS 1.2 at least, 1.3 preferred, AEAD only.
 *
 * A context is made once and shared by all loops. Wrapping changes the stream in place: rt_recv and rt_send
 * then carry plain text. A handshake that fails leaves the stream good for closing only.
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

/* May switch. `host`: the name to verify and to send (SNI). */
enum err rt_tls_accept(struct tls_context *c, struct stream *s, struct deadline by,
                       struct errbuf *eb) MUST_CHECK;
enum err rt_tls_connect(struct tls_context *c, struct stream *s, const char *host,
                        struct deadline by, struct errbuf *eb) MUST_CHECK;
