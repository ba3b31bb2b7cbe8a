/* plain_stream: blocking connections; see plain_stream.h.
 *
 * Sockets are non-blocking: a call tries first and waits in poll(2) only when it must, so that deadlines hold for TLS as
 * well. OpenSSL writes through a BIO of this file, because its own would raise SIGPIPE in a program that does not ignore it.
 */
#include "rt/plain_stream.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

#define PIECE_MAX (1u << 30) /* of one call to OpenSSL, which counts with int */

struct plain_tls {
    SSL_CTX *ctx;    /* owned */
    BIO_METHOD *bio; /* owned */
};
struct plain_stream {
    int fd;
    bool interruptible;
    SSL *ssl; /* owned; NULL: clear text */
    char *peer;
};

/* ---- time ---- */

static uint64_t
plain_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct deadline
plain_deadline_ms(uint64_t ms)
{
    return (struct deadline){plain_now_ns() + ms * 1000000u};
}

int
plain_process(void)
{
    return (int)getpid();
}

enum err
plain_sleep_ms(uint64_t ms, bool interruptible)
{
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) != 0)
        if (errno == EINTR && interruptible)
            return ERR_CANCELLED;
    return ERR_OK;
}

/* Until the descriptor is ready for `events`. */
static enum err
plain_wait(const struct plain_stream *s, short events, struct deadline by,
           const char *what, struct errbuf *eb)
{
    for (;;) {
        struct pollfd p = {.fd = s->fd, .events = events};
        uint64_t now = plain_now_ns();
        uint64_t left_ms = by.at_ns > now ? (by.at_ns - now + 999999) / 1000000 : 0;
        int n = poll(&p, 1, left_ms > 3600000 ? 3600000 : (int)left_ms);

        if (n > 0)
            return ERR_OK;
        if (n < 0 && errno == EINTR && s->interruptible)
            return err_set(eb, ERR_CANCELLED, "interrupted by a signal");
        if (n < 0 && errno != EINTR)
            return err_errno(eb, ERR_CLOSED, errno, "%s %s", what, s->peer);
        if (n == 0 && plain_now_ns() >= by.at_ns)
            return err_set(eb, ERR_TIMEOUT, "%s %s: nothing happened for too long", what,
                           s->peer);
    }
}

/* ---- TLS ---- */

static int
bio_write(BIO *b, const char *data, int len)
{
    const struct plain_stream *s = BIO_get_data(b);
    ssize_t n = send(s->fd, data, (size_t)len, MSG_NOSIGNAL);

    BIO_clear_retry_flags(b);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(b);
    return (int)n;
}

static int
bio_read(BIO *b, char *data, int len)
{
    const struct plain_stream *s = BIO_get_data(b);
    ssize_t n = recv(s->fd, data, (size_t)len, 0);

    BIO_clear_retry_flags(b);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(b);
    return (int)n;
}

static long
bio_ctrl(BIO *b, int what, long number, void *ptr)
{
    (void)b;
    (void)number;
    (void)ptr;
    return what == BIO_CTRL_FLUSH ? 1 : 0;
}

static enum err
tls_error(struct errbuf *eb, enum err code, const char *what)
{
    char text[160] = "no reason given";
    unsigned long e = ERR_peek_last_error();

    if (e != 0)
        ERR_error_string_n(e, text, sizeof text);
    ERR_clear_error();
    return err_set(eb, code, "%s: %s", what, text);
}

enum err
plain_tls_new(const char *ca_file, bool no_verify, struct plain_tls **out,
              struct errbuf *eb)
{
    struct plain_tls *t = xcalloc(1, sizeof *t);
    bool ok;

    t->ctx = SSL_CTX_new(TLS_client_method());
    t->bio = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "plain stream");
    ok = t->ctx != NULL && t->bio != NULL && BIO_meth_set_write(t->bio, bio_write) == 1 &&
         BIO_meth_set_read(t->bio, bio_read) == 1 &&
         BIO_meth_set_ctrl(t->bio, bio_ctrl) == 1 &&
         SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION) == 1;
    if (ok && ca_file != NULL && SSL_CTX_load_verify_file(t->ctx, ca_file) != 1) {
        plain_tls_free(&t);
        return tls_error(eb, ERR_BAD_REQUEST, ca_file);
    }
    ok = ok && (ca_file != NULL || SSL_CTX_set_default_verify_paths(t->ctx) == 1);
    if (!ok) {
        plain_tls_free(&t);
        return tls_error(eb, ERR_INTERNAL, "TLS could not be set up");
    }
    SSL_CTX_set_verify(t->ctx, no_verify ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(t->ctx,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    *out = t;
    return ERR_OK;
}

void
plain_tls_free(struct plain_tls **tp)
{
    struct plain_tls *t = *tp;

    *tp = NULL;
    if (t == NULL)
        return;
    SSL_CTX_free(t->ctx);
    BIO_meth_free(t->bio);
    free(t);
}

/* What a call of OpenSSL waits for; ERR_OK: try again. */
static enum err
tls_wait(struct plain_stream *s, int result, struct deadline by, const char *what,
         struct errbuf *eb)
{
    int saved = errno;

    switch (SSL_get_error(s->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return plain_wait(s, POLLIN, by, what, eb);
    case SSL_ERROR_WANT_WRITE:
        return plain_wait(s, POLLOUT, by, what, eb);
    case SSL_ERROR_SYSCALL:
        ERR_clear_error();
        return err_errno(eb, ERR_CLOSED, saved != 0 ? saved : ECONNRESET, "%s %s", what,
                         s->peer);
    default:
        return tls_error(eb, ERR_CLOSED, s->peer);
    }
}

static bool
tls_set_name(SSL *ssl, const char *name)
{
    X509_VERIFY_PARAM *p = SSL_get0_param(ssl);

    if (X509_VERIFY_PARAM_set1_ip_asc(p, name) == 1)
        return true; /* an address is not sent as a name */
    ERR_clear_error();
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

enum err
plain_handshake(struct plain_stream *s, const struct plain_tls *tls, const char *name,
                struct deadline by, struct errbuf *eb)
{
    BIO *bio = BIO_new(tls->bio);
    long verified;
    int rc;

    assert(s->ssl == NULL);
    s->ssl = SSL_new(tls->ctx);
    if (s->ssl == NULL || bio == NULL || !tls_set_name(s->ssl, name)) {
        BIO_free(bio);
        return tls_error(eb, ERR_INTERNAL, "a TLS connection could not be made");
    }
    ERR_clear_error();
    BIO_set_data(bio, s);
    BIO_set_init(bio, 1);
    SSL_set_bio(s->ssl, bio, bio);
    while ((rc = SSL_connect(s->ssl)) != 1) {
        enum err waited;

        verified = SSL_get_verify_result(s->ssl);
        if (verified != X509_V_OK && SSL_get_verify_mode(s->ssl) != SSL_VERIFY_NONE) {
            ERR_clear_error();
            return err_set(eb, ERR_DENIED,
                           "the certificate of %s is not accepted: %s (ca_bundle names "
                           "the authority to trust)",
                           name, X509_verify_cert_error_string(verified));
        }
        waited = tls_wait(s, rc, by, "TLS with", eb);
        if (waited != ERR_OK)
            return waited;
    }
    return ERR_OK;
}

/* ---- connecting ---- */

static enum err
connect_address(struct plain_stream *s, const struct addrinfo *a, struct deadline by,
                struct errbuf *eb)
{
    int one = 1, error = 0;
    socklen_t len = sizeof error;
    enum err rc = ERR_OK;

    s->fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd < 0)
        return err_errno(eb, ERR_BUSY, errno, "a socket to %s", s->peer);
    if (connect(s->fd, a->ai_addr, a->ai_addrlen) != 0)
        error = errno;
    if (error == EINPROGRESS || error == EINTR) {
        rc = plain_wait(s, POLLOUT, by, "connecting to", eb);
        if (rc == ERR_OK && getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
            error = errno;
    }
    if (rc == ERR_OK && error != 0)
        rc = err_errno(eb, ERR_CLOSED, error, "connecting to %s", s->peer);
    if (rc != ERR_OK) {
        close(s->fd);
        s->fd = -1;
        return rc;
    }
    setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(s->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    return ERR_OK;
}

enum err
plain_connect(const struct plain_target *to, struct deadline by,
              struct plain_stream **out, struct errbuf *eb)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *list = NULL;
    struct plain_stream *s = xcalloc(1, sizeof *s);
    char port[8];
    int error;
    enum err rc = ERR_CLOSED;

    *out = NULL;
    s->fd = -1;
    s->interruptible = to->interruptible;
    s->peer = xasprintf("%s:%u", to->host, to->port);
    snprintf(port, sizeof port, "%u", to->port);
    error = getaddrinfo(to->host, port, &hints, &list);
    if (error != 0)
        err_set(eb, ERR_CLOSED, "resolving \"%s\": %s", to->host, gai_strerror(error));
    for (const struct addrinfo *a = list; a != NULL && rc == ERR_CLOSED; a = a->ai_next)
        rc = connect_address(s, a, by, eb);
    if (list != NULL)
        freeaddrinfo(list);
    if (rc != ERR_OK) {
        plain_close(&s);
        return rc;
    }
    *out = s;
    return ERR_OK;
}

/* ---- bytes ---- */

enum err
plain_send(struct plain_stream *s, const void *data, size_t len, uint64_t idle_ms,
           struct errbuf *eb)
{
    const char *at = data;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && len > 0) {
        int piece = (int)MIN(len, PIECE_MAX);
        ssize_t n;

        ERR_clear_error(); /* the queue is the thread's, and not ours alone */
        n = s->ssl != NULL ? SSL_write(s->ssl, at, piece)
                           : send(s->fd, at, (size_t)piece, MSG_NOSIGNAL);

        if (n > 0) {
            at += n;
            len -= (size_t)n;
        } else if (s->ssl != NULL) {
            rc = tls_wait(s, (int)n, plain_deadline_ms(idle_ms), "sending to", eb);
        } else if (errno == EAGAIN) {
            rc = plain_wait(s, POLLOUT, plain_deadline_ms(idle_ms), "sending to", eb);
        } else if (errno != EINTR) {
            rc = err_errno(eb, ERR_CLOSED, errno, "sending to %s", s->peer);
        }
    }
    return rc;
}

enum err
plain_recv(struct plain_stream *s, void *buf, size_t len, uint64_t idle_ms, size_t *n,
           struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(len > 0);
    *n = 0;
    while (rc == ERR_OK) {
        int piece = (int)MIN(len, PIECE_MAX);
        ssize_t got;

        ERR_clear_error();
        got = s->ssl != NULL ? SSL_read(s->ssl, buf, piece)
                             : recv(s->fd, buf, (size_t)piece, 0);

        if (got > 0) {
            *n = (size_t)got;
            return ERR_OK;
        }
        if (s->ssl != NULL && SSL_get_error(s->ssl, (int)got) == SSL_ERROR_ZERO_RETURN)
            return ERR_OK;
        if (s->ssl != NULL)
            rc = tls_wait(s, (int)got, plain_deadline_ms(idle_ms), "waiting for", eb);
        else if (got == 0)
            return ERR_OK;
        else if (errno == EAGAIN)
            rc = plain_wait(s, POLLIN, plain_deadline_ms(idle_ms), "waiting for", eb);
        else if (errno != EINTR)
            rc = err_errno(eb, ERR_CLOSED, errno, "receiving from %s", s->peer);
    }
    return rc;
}

bool
plain_is_quiet(const struct plain_stream *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLIN};

    return (s->ssl == NULL || SSL_pending(s->ssl) == 0) && poll(&p, 1, 0) == 0;
}

void
plain_close(struct plain_stream **sp)
{
    struct plain_stream *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    SSL_free(s->ssl);
    if (s->fd >= 0)
        close(s->fd);
    free(s->peer);
    free(s);
}

void
plain_abandon(struct plain_stream **sp)
{
    struct plain_stream *s = *sp;

    *sp = NULL;
    if (s != NULL && s->fd >= 0)
        close(s->fd);
}
