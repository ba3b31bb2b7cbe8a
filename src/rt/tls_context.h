/* tls_context: what all TLS streams of one side share; inside `rt` only. rt/tls.h has the contract. */
#pragma once
#include <openssl/ssl.h>
#include <stdatomic.h>

#include "rt/tls.h"

/* What a file was when it was read. */
struct tls_stamp {
    uint64_t inode, size;
    int64_t changed_ns;
};
struct tls_context {
    _Atomic(SSL_CTX *) ssl_ctx; /* owned; a server's is replaced by tls_server_adopt() */
    bool server;
    /* Of a server: on loop 0, or before others see it. */
    char *files[2]; /* owned: certificate, key */
    struct tls_stamp stamps[2];
    _Atomic int64_t ends_s; /* of the certificate */
};

/* Names the server that is wanted: verified, and sent as SNI unless it is an address. */
bool tls_expect_host(SSL *ssl, const char *host);
/* A context without certificates: versions, ciphers, groups. */
struct tls_context *tls_context_new(bool server);
/* Moves what one side wrote to the other; both are memory BIOs. */
void tls_memory_move(SSL *from, SSL *to);
SSL *tls_memory_new(SSL_CTX *x);
/* Makes what is made once in a process; called with the first context. */
void tls_prepare(void);
