#include "rt/tls.h"

#include <assert.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rt/internal.h"
#include "rt/tls_context.h"

/* One turn: what is encrypted before it is sent, or received before it is decrypted. Buffers of this size exist only
 * while bytes are in transit, so an idle stream costs what OpenSSL keeps (about 16 KB). */
#define TURN_BYTES (64u << 10)
/* After encrypting this much without a wait the fiber yields. */
#define YIELD_BYTES (256u << 10)
/* A handshake costs 0.3 to 1.1 ms of this loop and can't be interrupted. */
#define HANDSHAKES_A_TURN 4u

struct turn {
    size_t from, to; /* bytes [from, to) are still to be consumed */
    unsigned char at[TURN_BYTES];
};

struct tls {
    SSL *ssl; /* owned; its BIO is ours and points here */
    struct stream *stream;
    struct turn *in;  /* owned; NULL when empty. Received cipher text. */
    struct turn *out; /* owned; NULL when empty. Cipher text to be sent. */
    struct rt_cond flushed;
    bool flushing;  /* a fiber is sending what was in `out` */
    bool raw_end;   /* the stream below ended */
    bool clean_end; /* after a close_notify */
    bool
        sending; /* a fiber is in tls_sendv(): its part of `out` must not delay the receiver */
    bool sent_end;
    enum err failed; /* sticky: nothing is sent or received any more */
};

/* ---- our BIO: from and to the turns; never waits, says "later" when empty or full ---- */
static int
on_bio_read(BIO *bio, char *buf, size_t len, size_t *n)
{
    struct tls *t = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    *n = 0;
    if (t->in == NULL) {
        if (!t->raw_end)
            BIO_set_retry_read(bio);
        return 0;
    }
    assert(t->in->from < t->in->to); /* else it would have been freed */
    *n = MIN(len, t->in->to - t->in->from);
    memcpy(buf, t->in->at + t->in->from, *n);
    t->in->from += *n;
    if (t->in->from == t->in->to) {
        free(t->in);
        t->in = NULL;
    }
    return 1;
}

static int
on_bio_write(BIO *bio, const char *buf, size_t len, size_t *n)
{
    struct tls *t = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    *n = 0;
    if (t->out == NULL) {
        t->out = xmalloc(sizeof *t->out);
        t->out->from = t->out->to = 0;
    }
    assert(t->out->to <= TURN_BYTES);
    *n = MIN(len, TURN_BYTES - t->out->to);
    if (*n == 0) {
        BIO_set_retry_write(bio);
        return 0;
    }
    memcpy(t->out->at + t->out->to, buf, *n);
    t->out->to += *n;
    return 1;
}

static long
on_bio_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
    const struct tls *t = BIO_get_data(bio);

    (void)num;
    (void)ptr;
    switch (cmd) {
    case BIO_CTRL_FLUSH:
        return 1;
    case BIO_CTRL_EOF:
        return t->in == NULL && t->raw_end;
    case BIO_CTRL_PENDING:
        return t->in != NULL ? (long)(t->in->to - t->in->from) : 0;
    default:
        return 0;
    }
}

static BIO_METHOD *
bio_method(void)
{
    static BIO_METHOD *
        made; /* made by the first context, before streams exist; lives as long as the process */

    if (made == NULL) {
        made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "forebay stream");
        assert(made != NULL);
        BIO_meth_set_read_ex(made, on_bio_read);
        BIO_meth_set_write_ex(made, on_bio_write);
        BIO_meth_set_ctrl(made, on_bio_ctrl);
    }
    return made;
}

void
tls_prepare(void)
{
    (void)bio_method();
}

/* ---- moving turns ---- */

/* Sends all of `out`, including what other fibers add meanwhile. May switch. */
static enum err
tls_flush(struct tls *t, struct deadline by, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    while (t->flushing) {
        rc = rt_cond_wait(&t->flushed, by);
        if (rc != ERR_OK)
            return err_set(eb, rc, "sending to %s: %s", rt_stream_peer(t->stream),
                           rc == ERR_TIMEOUT ? "timed out" : "cancelled");
    }
    t->flushing = true;
    while (rc == ERR_OK && t->out != NULL && t->failed == ERR_OK) {
        struct turn *turn = t->out;
        struct iovec iov = {turn->at + turn->from, turn->to - turn->from};

        assert(turn->from < turn->to);
        t->out = NULL;
        rc = stream_sendv_raw(t->stream, &iov, 1, by, eb);
        free(turn);
    }
    if (rc != ERR_OK && t->failed == ERR_OK)
        t->failed = rc; /* an unknown part of a record was sent: nothing may follow it */
    assert(t->flushing);
    t->flushing = false;
    rt_cond_broadcast(&t->flushed);
    return rc;
}

/* Receives what has arrived, waiting if necessary. Sets raw_end at the end. May switch. */
static enum err
tls_receive(struct tls *t, struct deadline by, struct errbuf *eb)
{
    struct turn *turn;
    enum err rc;
    size_t n = 0;

    assert(t->in == NULL);
    turn = xmalloc(sizeof *turn);
    rc = stream_recv_raw(t->stream, turn->at, sizeof turn->at, by, &n, eb);
    if (rc != ERR_OK || n == 0) {
        free(turn);
        t->raw_end = rc == ERR_OK;
        return rc;
    }
    assert(n <= TURN_BYTES);
    assert(t->in == NULL); /* one receiver */
    turn->from = 0;
    turn->to = n;
    t->in = turn;
    return ERR_OK;
}

/* Sends the alert with the reason, if that is possible without waiting. */
static void
send_alert(struct tls *t)
{
    struct iovec iov;

    if (t->out == NULL || t->flushing || t->stream->closed)
        return;
    iov = (struct iovec){t->out->at + t->out->from, t->out->to - t->out->from};
    if (t->stream->ops->try_sendv(t->stream, &iov, 1) >= 0) {
        free(t->out);
        t->out = NULL;
    }
}

/* Turns OpenSSL's error into a sentence; empties its queue. */
static enum err
ssl_failed(struct tls *t, const char *doing, struct errbuf *eb)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    long verdict = SSL_get_verify_result(t->ssl);
    const char *peer = rt_stream_peer(t->stream);
    enum err rc;

    if (verdict != X509_V_OK && !SSL_is_server(t->ssl) &&
        SSL_get_verify_mode(t->ssl) != SSL_VERIFY_NONE)
        rc = err_set(eb, ERR_DENIED, "the certificate of %s is refused: %s", peer,
                     X509_verify_cert_error_string(verdict));
    else if (t->raw_end)
        rc = err_set(eb, ERR_CLOSED,
                     "%s %s: truncated: the connection ended without close_notify", doing,
                     peer);
    else
        rc = err_set(eb, ERR_CLOSED, "%s %s: tls: %s", doing, peer,
                     reason != NULL ? reason : "unknown error");
    ERR_clear_error();
    assert(rc != ERR_OK);
    t->failed = rc;
    send_alert(t);
    return rc;
}

static enum err
refuse_failed(const struct tls *t, struct errbuf *eb)
{
    assert(t->failed != ERR_OK);
    return err_set(eb, t->failed, "the tls stream of %s has failed before",
                   rt_stream_peer(t->stream));
}

/* ---- handshakes ---- */

/* Waits until this loop may begin another handshake in its turn. May switch. */
static void
await_slot(void)
{
    static _Thread_local uint64_t turn_ns;
    static _Thread_local unsigned begun;

    while (turn_ns == loop_self->now_ns && begun >= HANDSHAKES_A_TURN && !rt_cancelled())
        rt_yield();
    if (turn_ns != loop_self->now_ns) {
        turn_ns = loop_self->now_ns;
        begun = 0;
    }
    begun++;
}

static enum err
tls_handshake(struct tls *t, struct deadline by, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    for (;;) {
        int ok, why;

        if (t->in != NULL || SSL_is_server(t->ssl) == 0)
            await_slot();
        ERR_clear_error();
        ok = SSL_do_handshake(t->ssl);
        why = ok == 1 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, ok);
        if (why != SSL_ERROR_NONE && why != SSL_ERROR_WANT_READ &&
            why != SSL_ERROR_WANT_WRITE)
            return ssl_failed(t, "handshake with", eb);
        if (t->out != NULL)
            rc = tls_flush(t, by, eb);
        if (rc == ERR_OK && why == SSL_ERROR_NONE)
            return ERR_OK;
        if (rc == ERR_OK && why == SSL_ERROR_WANT_READ && t->in == NULL)
            rc =
                t->raw_end ? ssl_failed(t, "handshake with", eb) : tls_receive(t, by, eb);
        if (rc != ERR_OK) {
            t->failed = rc;
            return rc;
        }
    }
}

/* ---- the layer ---- */
static enum err
tls_recv(struct stream *s, void *buf, size_t len, struct deadline by, size_t *n,
         struct errbuf *eb)
{
    struct tls *t = s->tls;
    enum err rc;

    *n = 0;
    for (;;) {
        size_t got = 0;
        int ok, why;

        if (t->failed != ERR_OK)
            return refuse_failed(t, eb);
        if (t->clean_end || len == 0)
            return ERR_OK;
        ERR_clear_error();
        ok = SSL_read_ex(t->ssl, (char *)buf + *n, len - *n, &got);
        why = ok ? SSL_ERROR_NONE : SSL_get_error(t->ssl, ok);
        *n += got;
        if (*n == len || (*n > 0 && why != SSL_ERROR_NONE))
            return ERR_OK; /* an error comes again with the next call */
        if (why == SSL_ERROR_NONE)
            continue;
        if (why == SSL_ERROR_ZERO_RETURN) {
            t->clean_end = true;
            return ERR_OK;
        }
        if ((why != SSL_ERROR_WANT_READ || t->raw_end) && why != SSL_ERROR_WANT_WRITE)
            return ssl_failed(t, "receiving from", eb);
        /* A key update needs a reply. An active sender sends it for us: the receiver must not wait for a sender, or
         * two ends that both send much would deadlock. */
        if (why == SSL_ERROR_WANT_WRITE || (t->out != NULL && !t->sending)) {
            rc = tls_flush(t, by, eb);
            if (rc != ERR_OK)
                return rc;
        }
        if (why == SSL_ERROR_WANT_READ && t->in == NULL) {
            rc = tls_receive(t, by, eb);
            if (rc != ERR_OK)
                return rc;
        }
    }
}

/* Encrypts one piece into records and sends whenever a turn is full. */
static enum err
tls_encrypt(struct tls *t, const char *at, size_t len, size_t *since_yield,
            struct deadline by, struct errbuf *eb)
{
    while (len > 0) {
        size_t n = 0;
        int ok, why;

        if (t->failed != ERR_OK)
            return refuse_failed(t, eb);
        ERR_clear_error();
        ok = SSL_write_ex(t->ssl, at, MIN(len, TURN_BYTES), &n);
        why = ok ? SSL_ERROR_NONE : SSL_get_error(t->ssl, ok);
        if (why == SSL_ERROR_WANT_WRITE) {
            enum err rc = tls_flush(t, by, eb);

            if (rc != ERR_OK) {
                t->failed = rc; /* OpenSSL holds part of a record */
                return rc;
            }
        } else if (why != SSL_ERROR_NONE) {
            return ssl_failed(t, "sending to", eb);
        }
        at += n;
        len -= n;
        *since_yield += n;
        if (*since_yield >= YIELD_BYTES) {
            *since_yield = 0;
            rt_yield();
        }
    }
    return ERR_OK;
}

/* Without bytes: only the handshake. */
static enum err
tls_sendv(struct stream *s, struct iovec *iov, int count, struct deadline by,
          struct errbuf *eb)
{
    struct tls *t = s->tls;
    size_t since_yield = 0;
    enum err rc;

    if (t->failed != ERR_OK)
        return refuse_failed(t, eb);
    if (t->sent_end)
        return err_set(eb, ERR_CLOSED, "sending to %s: after the end", rt_stream_peer(s));
    rc = SSL_is_init_finished(t->ssl) ? ERR_OK : tls_handshake(t, by, eb);
    assert(!t->sending); /* one sender */
    t->sending = true;
    for (int i = 0; rc == ERR_OK && i < count; i++)
        rc = tls_encrypt(t, iov[i].iov_base, iov[i].iov_len, &since_yield, by, eb);
    if (rc == ERR_OK)
        rc = tls_flush(t, by, eb);
    t->sending = false;
    return rc;
}

static enum err
tls_send_end(struct stream *s, struct deadline by)
{
    struct tls *t = s->tls;
    enum err rc;

    if (t->failed != ERR_OK)
        return t->failed;
    if (!t->sent_end) {
        int ok;

        ERR_clear_error();
        ok = SSL_shutdown(t->ssl); /* 0: sent; 1: the peer's had arrived before */
        t->sent_end = true;
        if (ok < 0 && SSL_get_error(t->ssl, ok) != SSL_ERROR_WANT_WRITE)
            return ssl_failed(t, "ending", NULL);
        rc = tls_flush(t, by, NULL);
        if (rc == ERR_OK && ok < 0) { /* the turn was full */
            (void)SSL_shutdown(t->ssl);
            rc = tls_flush(t, by, NULL);
        }
        if (rc != ERR_OK)
            return rc;
    }
    return stream_send_end_raw(s, by);
}

static bool
tls_has_bytes(const struct stream *s)
{
    const struct tls *t = s->tls;

    return t->failed != ERR_OK || t->clean_end || t->raw_end || t->in != NULL ||
           SSL_has_pending(t->ssl);
}

/* No close_notify: a close without rt_send_end() tells the peer that the data is truncated. */
static void
tls_destroy(struct stream *s)
{
    struct tls *t = s->tls;

    if (t == NULL)
        return;
    assert(!t->flushing);
    assert(!t->sending);
    SSL_free(t->ssl);
    free(t->in);
    free(t->out);
    free(t);
    s->tls = NULL;
}

static const struct stream_layer layer = {
    .recv = tls_recv,
    .sendv = tls_sendv,
    .send_end = tls_send_end,
    .has_bytes = tls_has_bytes,
    .destroy = tls_destroy,
};

/* ---- wrapping ---- */

/* From here on nothing goes over the stream in the clear, whatever the handshake results in. */
static struct tls *
tls_wrap(struct tls_context *c, struct stream *s)
{
    struct tls *t = xcalloc(1, sizeof *t);
    BIO *bio = BIO_new(bio_method());

    assert(s->layer == NULL);
    assert(s->tls == NULL);
    assert(!s->parked);
    t->stream = s;
    rt_cond_init(&t->flushed);
    /* SSL_new() takes its own reference before this fiber can switch. */
    t->ssl = SSL_new(atomic_load_explicit(&c->ssl_ctx, memory_order_acquire));
    if (t->ssl == NULL || bio == NULL)
        abort(); /* out of memory, as in xmalloc() */
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    SSL_set_bio(t->ssl, bio, bio);
    s->layer = &layer;
    s->tls = t;
    return t;
}

enum err
rt_tls_accept(struct tls_context *c, struct stream *s, struct deadline by,
              struct errbuf *eb)
{
    struct tls *t = tls_wrap(c, s);

    assert(c->server);
    SSL_set_accept_state(t->ssl);
    return rt_sendv(s, NULL, 0, by, eb);
}

enum err
rt_tls_connect(struct tls_context *c, struct stream *s, const char *host,
               struct deadline by, struct errbuf *eb)
{
    struct tls *t = tls_wrap(c, s);

    assert(!c->server);
    SSL_set_connect_state(t->ssl);
    if (!tls_expect_host(t->ssl, host)) {
        t->failed = ERR_BAD_REQUEST;
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\" can't be the name of a tls server",
                       host);
    }
    return rt_sendv(s, NULL, 0, by, eb);
}
