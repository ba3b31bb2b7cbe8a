/* Protects: TLS over any stream, on all engines; a peer with a wrong certificate is refused; what was cut off
 * never looks whole; nothing goes in the clear after a failed handshake. */
#include <unistd.h>

#include "base/mem.h"
#include "certs.h"
#include "check.h"
#include "rt/sim.h"
#include "rt/sync.h"
#include "rt/tls.h"
#include "rt/tls_context.h"

#define BIG (10u << 20)

static struct certs certs;
static struct tls_context *server, *client;
static size_t big = BIG; /* bytes each way */

/* ---- worlds ---- */
static void
on_engines(fiber_fn *fn)
{
    static const enum rt_engine engines[] = {RT_EPOLL, RT_URING};
    struct errbuf eb = {0};
    struct sim *sim;
    enum err rc;

    for (unsigned i = 0; i < ARRAY_LEN(engines); i++) {
        rc =
            rt_run(&(struct rt_options){.engine = engines[i], .loops = 1}, fn, NULL, &eb);
        if (engines[i] == RT_URING && rc != ERR_OK)
            fprintf(stderr, "no io_uring here: %s\n", eb.text);
        else
            CHECK(rc == ERR_OK);
    }
    sim = sim_new(&(struct sim_options){.seed = 7, .max_delay_us = 300});
    CHECK(sim_run_world(sim, fn, NULL, &eb) == ERR_OK);
    sim_free(&sim);
}

static struct deadline
soon(void)
{
    return deadline_in_ms(PATIENCE_MS);
}

/* ---- pairs ---- */
struct side {
    struct stream *s;
    enum err rc;
    struct errbuf eb;
};

static void
accept_tls(void *arg)
{
    struct side *side = arg;

    side->rc = rt_tls_accept(server, side->s, soon(), &side->eb);
}

/* Handshakes on both ends. */
static enum err
shake(struct stream *a, struct stream *b, struct tls_context *c, const char *host,
      struct errbuf *eb, struct side *other)
{
    struct rt_group g;
    enum err rc;

    *other = (struct side){.s = b};
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, accept_tls, other) == ERR_OK);
    rc = rt_tls_connect(c, a, host, soon(), eb);
    rt_group_join(&g);
    return rc;
}

static void
pair(struct stream **a, struct stream **b)
{
    struct side other;
    struct errbuf eb = {0};

    CHECK(rt_pipe(a, b) == ERR_OK);
    CHECK(!rt_stream_is_tls(*a));
    CHECK(shake(*a, *b, client, "localhost", &eb, &other) == ERR_OK);
    CHECK(other.rc == ERR_OK);
    CHECK(rt_stream_is_tls(*a) && rt_stream_is_tls(*b));
}

static void
close_both(struct stream **a, struct stream **b)
{
    rt_stream_close(a);
    rt_stream_close(b);
}

static char
pattern(size_t i)
{
    return (char)(i * 7 + (i >> 12));
}

/* ---- bytes ---- */
static void
send_big(void *arg)
{
    struct side *side = arg;
    char *data = xmalloc(big);

    for (size_t i = 0; i < big; i++)
        data[i] = pattern(i);
    side->rc = rt_send(side->s, data, big, soon(), &side->eb);
    if (side->rc == ERR_OK)
        side->rc = rt_send_end(side->s, soon());
    free(data);
}

static void
receive_big(struct stream *s)
{
    char *buf = xmalloc(100000);
    size_t total = 0, n = 1;
    unsigned wrong = 0;
    struct errbuf eb = {0};

    while (n > 0) {
        enum err rc = rt_recv(s, buf, 100000, soon(), &n, &eb);

        if (rc != ERR_OK) {
            fprintf(stderr, "after %zu bytes: %s\n", total, eb.text);
            CHECK(rc == ERR_OK);
            break;
        }
        for (size_t i = 0; i < n; i++)
            wrong += buf[i] != pattern(total + i);
        total += n;
    }
    CHECK_U64(total, big);
    CHECK_U64(wrong, 0);
    free(buf);
}

static void
receive_big_fiber(void *arg)
{
    receive_big(arg);
}

/* All four at once: each end sends and receives in fibers of its own. */
static void
exchange(struct stream *a, struct stream *b)
{
    struct side from_a = {.s = a}, from_b = {.s = b};
    struct rt_group g;

    rt_group_begin(&g);
    CHECK(rt_group_start(&g, send_big, &from_a) == ERR_OK);
    CHECK(rt_group_start(&g, send_big, &from_b) == ERR_OK);
    CHECK(rt_group_start(&g, receive_big_fiber, a) == ERR_OK);
    receive_big(b);
    rt_group_join(&g);
    CHECK(from_a.rc == ERR_OK && from_b.rc == ERR_OK);
}

static void
big_both_ways(void *arg)
{
    struct stream *a, *b;

    (void)arg;
    pair(&a, &b);
    exchange(a, b);
    close_both(&a, &b);
}

static void
big_over_tcp(void *arg)
{
    struct listener *l;
    struct stream *a, *b;
    struct side other;
    struct errbuf eb = {0};

    (void)arg;
    CHECK(rt_listen("127.0.0.1", 0, NULL, &l, &eb) == ERR_OK);
    CHECK(rt_connect("127.0.0.1", rt_listener_port(l), soon(), &a, &eb) == ERR_OK);
    CHECK(rt_accept(l, soon(), &b, &eb) == ERR_OK);
    CHECK(shake(a, b, client, "127.0.0.1", &eb, &other) == ERR_OK);
    CHECK(other.rc == ERR_OK);
    exchange(a, b);
    close_both(&a, &b);
    rt_listener_close(&l);
}

static void
test_ten_mebibytes_each_way(void)
{
    on_engines(big_both_ways);
}

static void
test_ten_mebibytes_each_way_over_tcp(void)
{
    on_engines(big_over_tcp);
}

static void
send_20000(void *arg)
{
    struct side *side = arg;
    char data[200];

    for (size_t i = 0; i < 20000 && side->rc == ERR_OK; i += sizeof data) {
        for (size_t k = 0; k < sizeof data; k++)
            data[k] = pattern(i + k);
        side->rc = rt_send(side->s, data, sizeof data, soon(), &side->eb);
    }
}

static void
tiny_reads(void *arg)
{
    struct stream *a, *b;
    struct rt_group g;
    struct side side;
    unsigned wrong = 0;

    (void)arg;
    pair(&a, &b);
    side = (struct side){.s = a};
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, send_20000, &side) == ERR_OK);
    for (size_t i = 0; i < 20000; i++) {
        char c = 0;
        size_t n = 0;

        if (rt_recv(b, &c, 1, soon(), &n, NULL) != ERR_OK || n != 1 || c != pattern(i))
            wrong++;
    }
    CHECK_U64(wrong, 0);
    rt_group_join(&g);
    CHECK(side.rc == ERR_OK);
    close_both(&a, &b);
}

static void
test_reads_of_one_byte(void)
{
    on_engines(tiny_reads);
}

/* Other delays, other pieces, other turns of the two fibers on each end. */
static void
test_under_many_seeds(void)
{
    big = 300000;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct sim *sim =
            sim_new(&(struct sim_options){.seed = seed, .max_delay_us = 1u << seed % 10});

        CHECK(sim_run_world(sim, big_both_ways, NULL, NULL) == ERR_OK);
        sim_free(&sim);
    }
    big = BIG;
}

/* ---- ends ---- */
static void
half_close(void *arg)
{
    struct stream *a, *b;
    char buf[16];
    size_t n = 9;

    (void)arg;
    pair(&a, &b);
    CHECK(rt_send(a, "question", 8, soon(), NULL) == ERR_OK);
    CHECK(rt_send_end(a, soon()) == ERR_OK);
    CHECK(rt_recv(b, buf, sizeof buf, soon(), &n, NULL) == ERR_OK && n == 8);
    CHECK(rt_recv(b, buf, sizeof buf, soon(), &n, NULL) == ERR_OK && n == 0);
    CHECK(rt_send(b, "answer", 6, soon(), NULL) == ERR_OK);
    CHECK(rt_recv(a, buf, sizeof buf, soon(), &n, NULL) == ERR_OK && n == 6);
    CHECK(memcmp(buf, "answer", 6) == 0);
    CHECK(rt_send(a, "more", 4, soon(), NULL) == ERR_CLOSED);
    CHECK(rt_send_end(b, soon()) == ERR_OK);
    CHECK(rt_recv(a, buf, sizeof buf, soon(), &n, NULL) == ERR_OK && n == 0);
    CHECK(rt_recv(a, buf, sizeof buf, soon(), &n, NULL) == ERR_OK && n == 0);
    close_both(&a, &b);
}

static void
test_either_direction_ends_by_itself(void)
{
    on_engines(half_close);
}

static void
cut_off(void *arg)
{
    struct stream *a, *b;
    struct errbuf eb = {0};
    char buf[16];
    size_t n = 9;

    (void)arg;
    pair(&a, &b);
    CHECK(rt_send(b, "?", 1, soon(), NULL) ==
          ERR_OK); /* a close with bytes unread would be a reset */
    CHECK(rt_recv(a, buf, sizeof buf, soon(), &n, NULL) == ERR_OK && n == 1);
    CHECK(rt_send(a, "half of it", 10, soon(), NULL) == ERR_OK);
    rt_stream_close(&a);
    CHECK(rt_recv(b, buf, sizeof buf, soon(), &n, NULL) == ERR_OK && n == 10);
    CHECK(rt_recv(b, buf, sizeof buf, soon(), &n, &eb) == ERR_CLOSED);
    CHECK_SAYS(eb.text, "truncated");
    CHECK(rt_recv(b, buf, sizeof buf, soon(), &n, &eb) == ERR_CLOSED);
    rt_stream_close(&b);
}

static void
test_an_end_without_close_notify_is_no_end(void)
{
    on_engines(cut_off);
}

/* ---- parking ---- */
struct parked {
    struct rt_cond done;
    bool fired;
    enum err why;
};

static void
on_ready(void *arg, enum err why)
{
    struct parked *p = arg;

    p->fired = true;
    p->why = why;
    rt_cond_broadcast(&p->done);
}

static void
park_with_plaintext(void *arg)
{
    struct stream *a, *b;
    struct parked p = {0};
    char buf[64];
    size_t n;

    (void)arg;
    rt_cond_init(&p.done);
    pair(&a, &b);
    CHECK(rt_send(a, "0123456789", 10, soon(), NULL) == ERR_OK);
    CHECK(rt_recv(b, buf, 3, soon(), &n, NULL) == ERR_OK && n == 3);
    CHECK(rt_may_have_bytes(b));
    rt_park(b, soon(), on_ready, &p); /* nothing more will come from the peer */
    if (!p.fired)
        CHECK(rt_cond_wait(&p.done, soon()) == ERR_OK);
    CHECK(p.why == ERR_OK);
    CHECK(rt_recv(b, buf, sizeof buf, soon(), &n, NULL) == ERR_OK && n == 7);
    p.fired = false;
    rt_park(b, soon(), on_ready, &p); /* and the plain way */
    CHECK(rt_send(a, "x", 1, soon(), NULL) == ERR_OK);
    while (!p.fired)
        CHECK(rt_cond_wait(&p.done, soon()) == ERR_OK);
    CHECK(rt_recv(b, buf, sizeof buf, soon(), &n, NULL) == ERR_OK && n == 1);
    close_both(&a, &b);
}

static void
test_parking_sees_decrypted_bytes(void)
{
    on_engines(park_with_plaintext);
}

/* ---- who is it ---- */
static const struct verify_case {
    const char *cert, *host, *ca, *says; /* says NULL: accepted */
    bool insecure;
} verify_cases[] = {
    {"good", "localhost", "ca", NULL, false},
    {"good", "localhost.", "ca", NULL, false},
    {"good", "127.0.0.1", "ca", NULL, false},
    {"good", "a.wild.test", "ca", NULL, false},
    {"good", "a.b.wild.test", "ca", "hostname mismatch", false},
    {"good", "example.com", "ca", "hostname mismatch", false},
    {"good", "127.0.0.2", "ca", "IP address mismatch", false},
    {"good", "localhost", "other-ca", "unable to get local issuer certificate", false},
    {"expired", "localhost", "ca", "expired", false},
    {"self", "localhost", "ca", "self-signed", false},
    {"self", "localhost", "ca", NULL, true},
    {"good", "", "ca", "can't be the name", false},
};

static void
verify_one(const struct verify_case *v)
{
    struct stream *a, *b;
    struct tls_context *theirs = server, *ours = NULL;
    struct errbuf eb = {0};
    struct side other;
    char crt[128], key[128], ca[128];
    enum err rc;

    rc = tls_server_new(
        &(struct tls_server_options){certs_path(&certs, v->cert, "crt", crt),
                                     certs_path(&certs, v->cert, "key", key)},
        &server, &eb);
    CHECK(rc == ERR_OK);
    rc = tls_client_new(
        &(struct tls_client_options){certs_path(&certs, v->ca, "crt", ca), v->insecure},
        &ours, &eb);
    CHECK(rc == ERR_OK);
    CHECK(rt_pipe(&a, &b) == ERR_OK);
    if (v->host[0] == '\0') {
        CHECK(rt_tls_connect(ours, a, v->host, soon(), &eb) == ERR_BAD_REQUEST);
        CHECK_SAYS(eb.text, v->says);
    } else {
        rc = shake(a, b, ours, v->host, &eb, &other);
        CHECK(rc == (v->says == NULL ? ERR_OK : ERR_DENIED));
        if (v->says != NULL)
            CHECK_SAYS(eb.text, v->says);
    }
    if (v->says != NULL) /* and nothing goes out in the clear */
        CHECK(rt_send(a, "secret", 6, soon(), &eb) != ERR_OK);
    close_both(&a, &b);
    tls_context_free(&ours);
    tls_context_free(&server);
    server = theirs;
}

static void
verify_all(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < ARRAY_LEN(verify_cases); i++)
        verify_one(&verify_cases[i]);
}

static void
test_names_dates_and_issuers_are_verified(void)
{
    on_engines(verify_all);
}

static void
plain_client(void *arg)
{
    struct stream *a, *b;
    struct errbuf eb = {0};

    (void)arg;
    CHECK(rt_pipe(&a, &b) == ERR_OK);
    CHECK(rt_send(a, "GET / HTTP/1.1\r\n\r\n", 18, soon(), NULL) == ERR_OK);
    CHECK(rt_tls_accept(server, b, soon(), &eb) == ERR_CLOSED);
    CHECK_SAYS(eb.text, "handshake");
    CHECK(rt_send(b, "secret", 6, soon(), &eb) == ERR_CLOSED);
    CHECK_SAYS(eb.text, "failed before");
    CHECK(rt_send_end(b, soon()) == ERR_CLOSED);
    close_both(&a, &b);
    CHECK(rt_pipe(&a, &b) == ERR_OK);
    rt_stream_close(&a);
    CHECK(rt_tls_accept(server, b, soon(), &eb) == ERR_CLOSED);
    rt_stream_close(&b);
}

static void
test_who_does_not_speak_tls_is_refused(void)
{
    on_engines(plain_client);
}

/* ---- with an OpenSSL of the test at the other end, over memory ---- */
static SSL *
memory_ssl(SSL_CTX *x, bool accept)
{
    SSL *ssl = SSL_new(x);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());

    BIO_set_mem_eof_return(in, -1);
    SSL_set_bio(ssl, in, out);
    if (accept)
        SSL_set_accept_state(ssl);
    else
        SSL_set_connect_state(ssl);
    return ssl;
}

static void
carry(SSL *from, SSL *to)
{
    char *at;
    long len = BIO_get_mem_data(SSL_get_wbio(from), &at);

    if (len > 0)
        BIO_write(SSL_get_rbio(to), at, (int)len);
    (void)BIO_reset(SSL_get_wbio(from));
}

static bool
meet(SSL *theirs, SSL *ours)
{
    bool ok = false;

    for (int round = 0; round < 3 && !ok; round++) {
        (void)SSL_do_handshake(theirs);
        carry(theirs, ours);
        ok = SSL_do_handshake(ours) == 1 && SSL_is_init_finished(theirs);
        carry(ours, theirs);
    }
    return ok;
}

/* Old versions and weak ciphers, offered by a client that would take them. */
static bool
accepts(int max_version, const char *ciphers)
{
    SSL_CTX *x = SSL_CTX_new(TLS_client_method());
    SSL *theirs, *ours;
    bool ok;

    SSL_CTX_set_security_level(x, 0);
    SSL_CTX_set_min_proto_version(x, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(x, max_version);
    CHECK(ciphers == NULL || SSL_CTX_set_cipher_list(x, ciphers) == 1);
    theirs = memory_ssl(x, false);
    ours = memory_ssl(atomic_load(&server->ssl_ctx), true);
    ok = meet(theirs, ours);
    SSL_free(theirs);
    SSL_free(ours);
    SSL_CTX_free(x);
    return ok;
}

static void
test_only_modern_versions_and_ciphers(void)
{
    CHECK(accepts(TLS1_3_VERSION, NULL));
    CHECK(accepts(TLS1_2_VERSION, NULL));
    CHECK(accepts(TLS1_2_VERSION, "ECDHE-ECDSA-AES256-GCM-SHA384"));
    CHECK(!accepts(TLS1_2_VERSION, "ECDHE-ECDSA-AES128-SHA256"));
    CHECK(!accepts(TLS1_2_VERSION, "ECDHE-ECDSA-AES128-SHA"));
    CHECK(!accepts(TLS1_2_VERSION, "AES128-GCM-SHA256"));
    CHECK(!accepts(TLS1_1_VERSION, NULL));
}

static SSL_SESSION *kept;

static int
on_session(SSL *ssl, SSL_SESSION *session)
{
    (void)ssl;
    SSL_SESSION_free(kept);
    kept = session;
    return 1;
}

/* Any loop takes the ticket of any other: they share the context. */
static void
test_sessions_resume(void)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    for (unsigned i = 0; i < ARRAY_LEN(versions); i++) {
        SSL_CTX *x = SSL_CTX_new(TLS_client_method());

        kept = NULL;
        SSL_CTX_set_max_proto_version(x, versions[i]);
        SSL_CTX_set_session_cache_mode(x, SSL_SESS_CACHE_CLIENT);
        SSL_CTX_sess_set_new_cb(x, on_session);
        for (int again = 0; again < 2; again++) {
            SSL *theirs = memory_ssl(x, false),
                *ours = memory_ssl(atomic_load(&server->ssl_ctx), true);
            char byte;

            CHECK(again == 0 || SSL_set_session(theirs, kept) == 1);
            CHECK(meet(theirs, ours));
            CHECK(SSL_session_reused(ours) == again);
            CHECK(SSL_write(ours, "x", 1) == 1);
            carry(ours, theirs);
            CHECK(SSL_read(theirs, &byte, 1) == 1); /* takes the ticket as well */
            SSL_shutdown(theirs); /* else the session counts as broken */
            SSL_free(theirs);
            SSL_free(ours);
        }
        SSL_SESSION_free(kept);
        SSL_CTX_free(x);
    }
}

/* ---- cancellation ---- */
static void
connect_tls(void *arg)
{
    struct side *side = arg;

    side->rc = rt_tls_connect(client, side->s, "localhost", DEADLINE_NEVER, &side->eb);
}

static void
cancel_handshake(void *arg)
{
    struct side side = {0};
    struct stream *b;
    struct rt_group g;

    (void)arg;
    CHECK(rt_pipe(&side.s, &b) == ERR_OK);
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, connect_tls, &side) == ERR_OK);
    CHECK(rt_sleep_ms(5) == ERR_OK); /* it waits for an answer now */
    rt_group_cancel(&g);
    rt_group_join(&g);
    CHECK(side.rc == ERR_CANCELLED);
    CHECK(rt_send(side.s, "secret", 6, soon(), NULL) == ERR_CANCELLED);
    close_both(&side.s, &b);

    CHECK(rt_pipe(&side.s, &b) == ERR_OK);
    CHECK(rt_tls_connect(client, side.s, "localhost", deadline_in_ms(5), NULL) ==
          ERR_TIMEOUT);
    close_both(&side.s, &b);

    CHECK(rt_pipe(&side.s, &b) == ERR_OK); /* closed under a fiber that waits in it */
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, connect_tls, &side) == ERR_OK);
    CHECK(rt_sleep_ms(5) == ERR_OK);
    rt_stream_close(&side.s);
    rt_group_join(&g);
    CHECK(side.rc == ERR_CLOSED);
    rt_stream_close(&b);
}

static void
test_a_handshake_can_be_cancelled(void)
{
    on_engines(cancel_handshake);
}

/* ---- many at once ---- */
enum { CROWD = 24 };

static void
connect_tls_soon(void *arg)
{
    struct side *side = arg;

    side->rc = rt_tls_connect(client, side->s, "localhost", soon(), &side->eb);
}

/* A handshake takes two steps on each end. Four a turn, and a turn is 1 us of the simulator's time: so all of them
 * take 24 us at least; at once they would take about ten. */
static void
crowd_fiber(void *arg)
{
    static struct side ours[CROWD], theirs[CROWD];
    struct rt_group g;
    uint64_t begin = rt_now_ns();

    (void)arg;
    rt_group_begin(&g);
    for (unsigned i = 0; i < CROWD; i++) {
        CHECK(rt_pipe(&theirs[i].s, &ours[i].s) == ERR_OK);
        CHECK(rt_group_start(&g, connect_tls_soon, &theirs[i]) == ERR_OK);
        CHECK(rt_group_start(&g, accept_tls, &ours[i]) == ERR_OK);
    }
    rt_group_join(&g);
    CHECK(rt_now_ns() - begin >= 24000);
    for (unsigned i = 0; i < CROWD; i++) {
        CHECK(ours[i].rc == ERR_OK && theirs[i].rc == ERR_OK);
        close_both(&ours[i].s, &theirs[i].s);
    }
}

static void
test_few_handshakes_a_turn(void)
{
    struct sim *sim = sim_new(&(struct sim_options){.seed = 5, .calm = true});

    CHECK(sim_run_world(sim, crowd_fiber, NULL, NULL) == ERR_OK);
    sim_free(&sim);
}

/* In the simulator: every wait of a session in turn is cancelled; LeakSanitizer sees what stays. */
static void
small_session(void *arg)
{
    struct stream *a, *b;
    struct side other;
    char buf[8];
    size_t n = 5;
    enum err rc;

    (void)arg;
    if (rt_pipe(&a, &b) != ERR_OK)
        return;
    rc = shake(a, b, client, "localhost", NULL, &other);
    if (rc == ERR_OK)
        rc = rt_send(a, "hello", 5, soon(), NULL);
    if (rc == ERR_OK)
        rc = rt_send_end(a, soon());
    if (rc == ERR_OK && other.rc == ERR_OK)
        rc = rt_recv(b, buf, sizeof buf, soon(), &n, NULL);
    CHECK(rc != ERR_OK || n == 5 || other.rc != ERR_OK);
    close_both(&a, &b);
}

static void
test_every_wait_of_a_session_cancelled(void)
{
    uint64_t waits = 1;

    for (uint64_t nth = 0; nth <= waits; nth++) {
        struct sim *sim = sim_new(&(struct sim_options){.seed = 3, .max_delay_us = 100});
        struct errbuf eb = {0};

        if (nth > 0)
            sim_disturb_wait(sim, nth, nth % 2 == 0 ? ERR_CANCELLED : ERR_IO);
        CHECK(sim_run_world(sim, small_session, NULL, &eb) == ERR_OK);
        if (nth == 0)
            waits = sim_waits(sim);
        sim_free(&sim);
    }
    CHECK(waits >= 4);
}

int
main(int argc, char **argv)
{
    static const struct cert_wish wishes[] = {
        {"good", "DNS:localhost,IP:127.0.0.1,DNS:*.wild.test", false, false},
        {"expired", "DNS:localhost", true, false},
        {"self", "DNS:localhost", false, true},
    };
    char crt[128], key[128];
    struct errbuf eb = {0};

    CHECK_MAIN(argc, argv);
    certs_begin(&certs);
    for (unsigned i = 0; i < ARRAY_LEN(wishes); i++)
        certs_add(&certs, &wishes[i]);
    CHECK(tls_server_new(
              &(struct tls_server_options){certs_path(&certs, "good", "crt", crt),
                                           certs_path(&certs, "good", "key", key)},
              &server, &eb) == ERR_OK);
    CHECK(tls_client_new(&(struct tls_client_options){.ca_file = certs_path(&certs, "ca",
                                                                            "crt", crt)},
                         &client, &eb) == ERR_OK);

    RUN(test_ten_mebibytes_each_way);
    RUN(test_ten_mebibytes_each_way_over_tcp);
    RUN(test_under_many_seeds);
    RUN(test_reads_of_one_byte);
    RUN(test_either_direction_ends_by_itself);
    RUN(test_an_end_without_close_notify_is_no_end);
    RUN(test_parking_sees_decrypted_bytes);
    RUN(test_names_dates_and_issuers_are_verified);
    RUN(test_who_does_not_speak_tls_is_refused);
    RUN(test_only_modern_versions_and_ciphers);
    RUN(test_sessions_resume);
    RUN(test_a_handshake_can_be_cancelled);
    RUN(test_few_handshakes_a_turn);
    RUN(test_every_wait_of_a_session_cancelled);

    tls_context_free(&server);
    tls_context_free(&client);
    for (unsigned i = 0; i < ARRAY_LEN(wishes); i++)
        certs_remove(&certs, wishes[i].file);
    certs_end(&certs);
    return check_done();
}
