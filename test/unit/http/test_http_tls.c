/* TLS on both ends: server and client with verification; what is refused; idle
 * connections resume. */
#include "unit/http/http_rig.h"
#include "unit/rt/certs.h"

static struct certs certs;

static struct tls_context *
server_context(const char *name)
{
    char cert[128], key[128];
    struct tls_server_options o = {.cert_file = certs_path(&certs, name, "crt", cert),
                                   .key_file = certs_path(&certs, name, "key", key)};
    struct tls_context *c = NULL;
    struct errbuf eb = {0};

    if (tls_server_new(&o, &c, &eb) != ERR_OK)
        fprintf(stderr, "%s\n", eb.text);
    CHECK(c != NULL);
    return c;
}

static struct tls_context *
client_context(const char *ca)
{
    char file[128];
    struct tls_client_options o = {.ca_file = certs_path(&certs, ca, "crt", file)};
    struct tls_context *c = NULL;
    struct errbuf eb = {0};

    if (tls_client_new(&o, &c, &eb) != ERR_OK)
        fprintf(stderr, "%s\n", eb.text);
    CHECK(c != NULL);
    return c;
}

static struct http_call_request
request_to(const struct rig *rig, const char *target)
{
    return (struct http_call_request){.host = "127.0.0.1",
                                      .port = rig->port,
                                      .tls = true,
                                      .tls_name = "localhost",
                                      .method = "GET",
                                      .target = span_of(target),
                                      .length = HTTP_NO_BODY};
}

static void
talk(struct rig *rig)
{
    static const char *const targets[] = {"/x", "/size/3000000", "/chunked/200000", "/x"};
    static const size_t sizes[] = {2, 3000000, 200000, 2};
    struct http_client_stats stats;
    struct buf out;

    buf_init(&out, 4u << 20);
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        struct http_call_request req = request_to(rig, targets[i]);
        struct errbuf eb = {0};
        int status = 0;

        buf_clear(&out);
        if (http_call_simple(rig->client, &req, SPAN(""), &status, &out, NULL, NULL,
                             &eb) != ERR_OK)
            fprintf(stderr, "%s: %s\n", targets[i], eb.text);
        CHECK_U64(status, 200);
        CHECK_U64(out.len, sizes[i]);
        CHECK(rt_sleep_ms(20) == ERR_OK); /* long enough to be parked, on both sides */
    }
    http_client_stats(rig->client, &stats);
    CHECK_U64(stats.connects, 1);
    CHECK_U64(stats.reused, 3);
    buf_fini(&out);
}

static void
test_calls_over_tls(void)
{
    struct rig rig = {.options = {.tls = server_context("localhost")},
                      .client_options = {.tls = client_context("ca")}};

    rig_everywhere(&rig, talk);
    tls_context_free(&rig.options.tls);
    tls_context_free(&rig.client_options.tls);
}

static void
refused(struct rig *rig)
{
    struct http_call_request req = request_to(rig, "/x");
    struct http_call *call = NULL;
    struct errbuf eb = {0};
    enum err rc = http_call_begin(rig->client, &req, &call, &eb);

    CHECK(rc == ERR_DENIED);
    CHECK(call == NULL);
    CHECK_SAYS(eb.text, "TLS with 127.0.0.1:");
    CHECK_U64(rig->handled, 0);
}

static void
test_certificates_that_are_not_right_are_refused(void)
{
    static const struct {
        const char *cert, *ca;
    } rows[] = {{"localhost", "other-ca"}, {"elsewhere", "ca"}, {"expired", "ca"}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rig rig = {.options = {.tls = server_context(rows[i].cert)},
                          .client_options = {.tls = client_context(rows[i].ca)}};

        rig_everywhere(&rig, refused);
        tls_context_free(&rig.options.tls);
        tls_context_free(&rig.client_options.tls);
    }
}

/* A client that speaks no TLS to such a port gets no answer, and no handler runs. */
static void
plain(struct rig *rig)
{
    struct http_call_request req = request_to(rig, "/x");
    struct errbuf eb = {0};
    struct buf out;
    int status;

    req.tls = false;
    buf_init(&out, 1000);
    CHECK(http_call_simple(rig->client, &req, SPAN(""), &status, &out, NULL, NULL, &eb) !=
          ERR_OK);
    CHECK_U64(rig->handled, 0);
    buf_fini(&out);
}

static void
test_plain_text_to_a_tls_port(void)
{
    struct rig rig = {.options = {.tls = server_context("localhost")}};

    rig_everywhere(&rig, plain);
    tls_context_free(&rig.options.tls);
}

int
main(int argc, char **argv)
{
    static const struct cert_wish wishes[] = {
        {.file = "localhost", .names = "DNS:localhost,IP:127.0.0.1"},
        {.file = "elsewhere", .names = "DNS:elsewhere.example"},
        {.file = "expired", .names = "DNS:localhost", .expired = true},
    };

    CHECK_MAIN(argc, argv);
    certs_begin(&certs);
    for (size_t i = 0; i < ARRAY_LEN(wishes); i++)
        certs_add(&certs, &wishes[i]);
    RUN(test_calls_over_tls);
    RUN(test_certificates_that_are_not_right_are_refused);
    RUN(test_plain_text_to_a_tls_port);
    for (size_t i = 0; i < ARRAY_LEN(wishes); i++)
        certs_remove(&certs, wishes[i].file);
    certs_end(&certs);
    return check_done();
}
