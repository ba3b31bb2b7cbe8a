/* Protects: one TLS context serves all loops at once; connections are parked, woken and closed where they live. */
#include "base/mem.h"
#include "certs.h"
#include "check.h"
#include "rt/loop.h"
#include "rt/tls.h"

#define LOOPS   3u
#define CLIENTS 8u /* at a time, on each loop */
#define ROUNDS  4u

static struct certs certs;
static struct tls_context *server, *client;
static uint16_t port;

static struct deadline
soon(void)
{
    return deadline_in_ms(PATIENCE_MS);
}

/* ---- the server: a greeting a connection, then parked for the next ---- */
static void
echo(void *arg, enum err why)
{
    struct stream *s = arg;
    char buf[64];
    size_t n = 0;

    if (why == ERR_OK)
        why = rt_recv(s, buf, sizeof buf, soon(), &n, NULL);
    if (why == ERR_OK && n > 0)
        why = rt_send(s, buf, n, soon(), NULL);
    if (why == ERR_OK && n > 0) {
        rt_park(s, soon(), echo, s);
        return;
    }
    /* A client goes when it has all its echoes, and checks them; what it had not read, a session ticket, makes that
     * a reset. When the last has gone the run ends, and cancels who still waits here. */
    CHECK(why == ERR_OK || why == ERR_CLOSED || why == ERR_CANCELLED);
    rt_stream_close(&s);
}

static void
greet(void *arg, enum err why)
{
    struct stream *s = arg;

    if (why == ERR_OK)
        why = rt_tls_accept(server, s, soon(), NULL);
    if (why == ERR_OK) {
        rt_park(s, soon(), echo, s);
        return;
    }
    CHECK(why == ERR_OK);
    rt_stream_close(&s);
}

static void
on_stream(struct stream *s, void *arg)
{
    (void)arg;
    rt_park(s, soon(), greet, s);
}

/* ---- clients ---- */
static enum err
talk(struct stream *s, struct errbuf *eb)
{
    char text[32], buf[64];
    enum err rc = rt_tls_connect(client, s, "127.0.0.1", soon(), eb);

    for (unsigned i = 0; rc == ERR_OK && i < ROUNDS; i++) {
        size_t len =
            (size_t)snprintf(text, sizeof text, "loop %u round %u", rt_loop_index(), i);
        size_t got = 0, n = 1;

        rc = rt_send(s, text, len, soon(), eb);
        while (rc == ERR_OK && got < len && n > 0) {
            rc = rt_recv(s, buf + got, sizeof buf - got, soon(), &n, eb);
            got += n;
        }
        CHECK(rc != ERR_OK || (got == len && memcmp(buf, text, len) == 0));
    }
    return rc == ERR_OK ? rt_send_end(s, soon()) : rc;
}

static void
one_client(void *arg)
{
    struct stream *s = NULL;
    struct errbuf eb = {0};
    enum err rc = rt_connect("127.0.0.1", port, soon(), &s, &eb);

    (void)arg;
    if (rc == ERR_OK)
        rc = talk(s, &eb);
    if (rc != ERR_OK)
        fprintf(stderr, "%s: %s\n", err_name(rc), eb.text);
    CHECK(rc == ERR_OK);
    rt_stream_close(&s);
}

static void
many_clients(void *arg)
{
    struct rt_group g;

    (void)arg;
    rt_group_begin(&g);
    for (unsigned i = 0; i < CLIENTS; i++)
        CHECK(rt_group_start(&g, one_client, NULL) == ERR_OK);
    rt_group_join(&g);
}

static void
call_loop(void *arg)
{
    CHECK(rt_call(*(unsigned *)arg, many_clients, NULL) == ERR_OK);
}

static void
run(void *arg)
{
    struct listener *l = NULL;
    struct errbuf eb = {0};
    struct rt_group g;
    unsigned loops[LOOPS];

    (void)arg;
    REQUIRE(rt_listen("127.0.0.1", 0, NULL, &l, &eb) == ERR_OK);
    port = rt_listener_port(l);
    rt_listener_serve(l, on_stream, NULL);
    rt_group_begin(&g);
    for (unsigned i = 0; i < LOOPS; i++) {
        loops[i] = i;
        CHECK(rt_group_start(&g, call_loop, &loops[i]) == ERR_OK);
    }
    rt_group_join(&g);
    rt_listener_close(&l);
}

static void
test_one_context_for_all_loops(void)
{
    static const enum rt_engine engines[] = {RT_EPOLL, RT_URING};
    struct errbuf eb = {0};

    for (unsigned i = 0; i < ARRAY_LEN(engines); i++) {
        enum err rc = rt_run(&(struct rt_options){.engine = engines[i], .loops = LOOPS},
                             run, NULL, &eb);

        if (engines[i] == RT_URING && rc != ERR_OK)
            fprintf(stderr, "no io_uring here: %s\n", eb.text);
        else
            CHECK(rc == ERR_OK);
    }
}

int
main(int argc, char **argv)
{
    char crt[128], key[128];
    struct errbuf eb = {0};

    CHECK_MAIN(argc, argv);
    certs_begin(&certs);
    certs_add(&certs, &(struct cert_wish){"good", "IP:127.0.0.1", false, false});
    CHECK(tls_server_new(
              &(struct tls_server_options){certs_path(&certs, "good", "crt", crt),
                                           certs_path(&certs, "good", "key", key)},
              &server, &eb) == ERR_OK);
    CHECK(tls_client_new(&(struct tls_client_options){.ca_file = certs_path(&certs, "ca",
                                                                            "crt", crt)},
                         &client, &eb) == ERR_OK);
    RUN(test_one_context_for_all_loops);
    tls_context_free(&server);
    tls_context_free(&client);
    certs_remove(&certs, "good");
    certs_end(&certs);
    return check_done();
}
