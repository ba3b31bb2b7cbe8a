/* tls_context: what all TLS streams of one side share; inside `rt` only. rt/tls.h has the contract. */
#pragma once
#include <openssl/ssl.h>

#include "rt/tls.h"

struct tls_context {
    SSL_CTX *ssl_ctx; /* owned */
    bool server;
};

/* Names the server that is wanted: verified, and sent as SNI unless it is an address. */
bool tls_expect_host(SSL *ssl, const char *host);
/* Makes what is made once in a process; called with the first context. */
void tls_prepare(void);
