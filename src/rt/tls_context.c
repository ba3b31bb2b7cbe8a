#include "rt/tls_context.h"

#include <arpa/inet.h>
#include <assert.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/mem.h"
#include "rt/loop.h"
#include "rt/time.h"

static const char session_id_context[] = "forebay";

static enum err
openssl_failed(struct errbuf *eb, const char *what, const char *subject)
{
    unsigned long code = ERR_peek_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    enum err rc = err_set(eb, ERR_BAD_REQUEST, "%s \"%s\": %s", what, subject,
                          reason != NULL ? reason : "can't be read");

    ERR_clear_error();
    return rc;
}

/* Versions, ciphers and manners are the same on both sides. */
static SSL_CTX *
new_ssl_ctx(bool server)
{
    SSL_CTX *x = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    int ok = x != NULL;

    ok = ok && SSL_CTX_set_min_proto_version(x, TLS1_2_VERSION);
    ok = ok && SSL_CTX_set_cipher_list(x, "ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL:!PSK");
    ok =
        ok && SSL_CTX_set_ciphersuites(x, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                          "TLS_CHACHA20_POLY1305_SHA256");
    ok = ok && SSL_CTX_set1_groups_list(x, "X25519:P-256:P-384");
    if (!ok)
        abort(); /* out of memory, or an OpenSSL without these: neither can be served */
    SSL_CTX_set_options(x, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                               SSL_OP_CIPHER_SERVER_PREFERENCE |
                               SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(x, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                            SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return x;
}

void
tls_memory_move(SSL *from, SSL *to)
{
    char *at;
    long len = BIO_get_mem_data(SSL_get_wbio(from), &at);

    if (len > 0)
        (void)BIO_write(SSL_get_rbio(to), at, (int)len);
    (void)BIO_reset(SSL_get_wbio(from));
}

SSL *
tls_memory_new(SSL_CTX *x)
{
    SSL *ssl = SSL_new(x);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());

    if (ssl == NULL || in == NULL || out == NULL)
        abort();
    BIO_set_mem_eof_return(in, -1);
    SSL_set_bio(ssl, in, out);
    return ssl;
}

/* The first handshake of a process seeds the generator, reads openssl.cnf and makes tables: here, not while
 * a loop serves. For a server it also proves that certificate and key can do one. */
static bool
tls_warm_up(SSL_CTX *x, bool server)
{
    SSL_CTX *peer_ctx = server ? new_ssl_ctx(false) : NULL;
    SSL *ssl = tls_memory_new(x), *peer = server ? tls_memory_new(peer_ctx) : NULL;
    bool ok = !server;

    if (server) {
        SSL_set_accept_state(ssl);
        SSL_set_connect_state(peer);
        for (int i = 0; i < 4 && !ok; i++) {
            (void)SSL_do_handshake(peer);
            tls_memory_move(peer, ssl);
            ok = SSL_do_handshake(ssl) == 1;
            tls_memory_move(ssl, peer);
        }
    } else {
        SSL_set_connect_state(ssl);
        (void)SSL_do_handshake(ssl); /* as far as the first message */
    }
    SSL_free(peer);
    SSL_free(ssl);
    SSL_CTX_free(peer_ctx);
    if (ok)
        ERR_clear_error();
    return ok;
}

struct tls_context *
tls_context_new(bool server)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct tls_context *c = xcalloc(1, sizeof *c);

    pthread_once(&once, tls_prepare);
    ERR_clear_error();
    c->server = server;
    atomic_store(&c->ssl_ctx, new_ssl_ctx(server));
    return c;
}

/* All zeros for a file that is not there: it differs from any that is. */
static struct tls_stamp
stamp_of(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return (struct tls_stamp){0};
    return (struct tls_stamp){.inode = st.st_ino,
                              .size = (uint64_t)st.st_size,
                              .changed_ns =
                                  st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec};
}

/* The end of the certificate's life, seconds since 1970. */
static int64_t
tls_end_of(const X509 *certificate)
{
    struct tm tm;

    if (certificate == NULL || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &tm) != 1)
        return 0;
    return (int64_t)timegm(&tm);
}

/* A key behind a passphrase is refused with a message: there is no terminal to ask. */
static int
no_passphrase(char *buf, int size, int writing, void *arg)
{
    (void)buf;
    (void)size;
    (void)writing;
    (void)arg;
    return -1;
}

static enum err
check_key_mode(const char *path, struct errbuf *eb)
{
    struct stat st;

    if (stat(path, &st) == 0 && (st.st_mode & 07) != 0)
        return err_set(eb, ERR_DENIED,
                       "private key \"%s\" has mode %04o, so every user can read it; run "
                       "chmod 600 on it",
                       path, st.st_mode & 07777);
    return ERR_OK;
}

enum err
tls_server_new(const struct tls_server_options *o, struct tls_context **out,
               struct errbuf *eb)
{
    struct tls_context *c = tls_context_new(true);
    SSL_CTX *x = atomic_load(&c->ssl_ctx);
    enum err rc = ERR_OK;

    assert(o->cert_file != NULL);
    assert(o->key_file != NULL);
    *out = NULL;
    c->files[0] = xstrdup(o->cert_file);
    c->files[1] = xstrdup(o->key_file);
    for (int i = 0; i < 2; i++) /* before reading, so that a later change is detected */
        c->stamps[i] = stamp_of(c->files[i]);
    /* Tickets carry all state; their keys live in this one context, so every loop resumes them. */
    SSL_CTX_set_session_cache_mode(x, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_session_id_context(x, (const unsigned char *)session_id_context,
                                   sizeof session_id_context - 1);
    SSL_CTX_set_num_tickets(x, 1);
    SSL_CTX_set_default_passwd_cb(x, no_passphrase);
    rc = check_key_mode(o->key_file, eb);
    if (rc != ERR_OK) {
        tls_context_free(&c);
        return rc;
    }
    if (SSL_CTX_use_certificate_chain_file(x, o->cert_file) != 1)
        rc = openssl_failed(eb, "certificate", o->cert_file);
    else if (SSL_CTX_use_PrivateKey_file(x, o->key_file, SSL_FILETYPE_PEM) != 1)
        rc = openssl_failed(eb, "private key", o->key_file);
    else if (SSL_CTX_check_private_key(x) != 1)
        rc = openssl_failed(eb, "private key", o->key_file);
    else if (!tls_warm_up(x, true))
        rc = openssl_failed(eb, "certificate", o->cert_file);
    if (rc == ERR_OK)
        atomic_store(&c->ends_s, tls_end_of(SSL_CTX_get0_certificate(x)));
    else
        tls_context_free(&c);
    *out = c;
    return rc;
}

static void
free_ssl_ctx(void *x)
{
    SSL_CTX_free(x);
}

void
tls_server_adopt(struct tls_context *c, struct tls_context **renewed)
{
    SSL_CTX *old = atomic_exchange_explicit(
        &c->ssl_ctx, atomic_exchange(&(*renewed)->ssl_ctx, NULL), memory_order_acq_rel);

    assert(c->server);
    assert((*renewed)->server);
    assert(old != NULL);
    for (int i = 0; i < 2; i++) {
        free(c->files[i]);
        c->files[i] = (*renewed)->files[i];
        (*renewed)->files[i] = NULL;
        c->stamps[i] = (*renewed)->stamps[i];
    }
    atomic_store(&c->ends_s, atomic_load(&(*renewed)->ends_s));
    tls_context_free(renewed);
    rt_retire(free_ssl_ctx, old); /* another loop may be about to acquire a reference */
}

bool
tls_server_is_stale(const struct tls_context *c)
{
    assert(c->server);
    for (int i = 0; i < 2; i++) {
        struct tls_stamp now = stamp_of(c->files[i]);

        if (memcmp(&now, &c->stamps[i], sizeof now) != 0)
            return true;
    }
    return false;
}

int64_t
tls_server_ends_s(const struct tls_context *c)
{
    assert(c->server);
    return atomic_load(&c->ends_s);
}

enum err
tls_client_new(const struct tls_client_options *o, struct tls_context **out,
               struct errbuf *eb)
{
    struct tls_context *c = tls_context_new(false);
    SSL_CTX *x = atomic_load(&c->ssl_ctx);
    enum err rc = ERR_OK;

    *out = NULL;
    SSL_CTX_set_session_cache_mode(x, SSL_SESS_CACHE_OFF);
    if (!o->insecure_no_verify) {
        SSL_CTX_set_verify(x, SSL_VERIFY_PEER, NULL);
        if (o->ca_file != NULL && SSL_CTX_load_verify_locations(x, o->ca_file, NULL) != 1)
            rc = openssl_failed(eb, "certificate authority", o->ca_file);
        else if (o->ca_file == NULL && SSL_CTX_set_default_verify_paths(x) != 1)
            rc = openssl_failed(eb, "certificate authorities", "of the system");
    }
    if (rc == ERR_OK)
        (void)tls_warm_up(x, false);
    if (rc != ERR_OK)
        tls_context_free(&c);
    *out = c;
    return rc;
}

void
tls_context_free(struct tls_context **cp)
{
    if (*cp == NULL)
        return;
    SSL_CTX_free(atomic_load(&(*cp)->ssl_ctx));
    free((*cp)->files[0]);
    free((*cp)->files[1]);
    free(*cp);
    *cp = NULL;
}

bool
tls_expect_host(SSL *ssl, const char *host)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    size_t len = strlen(host);
    unsigned char address[16];
    char name[256];

    assert(param != NULL);
    /* Our clock, which may be virtual. */
    X509_VERIFY_PARAM_set_time(param, (time_t)(rt_wall_ns() / 1000000000u));
    if (len == 0 || len >= sizeof name)
        return false;
    memcpy(name, host, len + 1);
    if (name[len - 1] == '.') /* the root of DNS: not part of a certificate's names */
        name[len - 1] = '\0';
    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1;
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}
