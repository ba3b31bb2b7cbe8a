/* proxy: URLs of proxies, what goes without one, and what a proxy may say to CONNECT. */
#include "base/mem.h"
#include "check.h"
#include "wire/proxy.h"

struct url {
    const char *text;
    const char *name;          /* NULL: refused */
    const char *authorization; /* or, when refused, a part of the sentence */
};
static const struct url urls[] = {
    {"http://p.example:3128", "p.example:3128", NULL},
    {"HTTP://p.example:3128/", "p.example:3128", NULL},
    {"p.example:8080", "p.example:8080", NULL},
    {"p.example", "p.example:80", NULL},
    {"http://10.0.0.1:1", "10.0.0.1:1", NULL},
    {"http://[fd00::1]:3128", "[fd00::1]:3128", NULL},
    {"http://[fd00::1]", "[fd00::1]:80", NULL},
    {"http://u:p@h:1", "h:1", "Basic dTpw"},
    {"http://u:p%40%3A%2F@h:1", "h:1", "Basic dTpwQDov"},
    {"http://u:p@x@h:1", "h:1", "Basic dTpwQHg="},
    {"u@h:1", "h:1", "Basic dQ=="},
    {"https://h:1", NULL, "of kind \"https\""},
    {"socks5://s3cret:s3cret@h:1", NULL, "of kind \"socks5\""},
    {"http://", NULL, "expected http://"},
    {"http://u:s3cret@", NULL, "expected http://"},
    {"http://u:s3cret%zz@h:1", NULL, "percent-encoded"},
    {"http://s3cret:s3cret:h", NULL, "a port is"},
    {"http://h:0", NULL, "a port is"},
    {"http://h:65536", NULL, "a port is"},
    {"http://[::1", NULL, "without ']'"},
    {"http://[::1]x", NULL, "version 6"},
    {"http://[h]:1", NULL, "version 6"},
    {"http://h/s3cret", NULL, "expected http://"},
    {"http://h h", NULL, "expected http://"},
    {"http://h?s3cret", NULL, "expected http://"},
};

static void
test_urls(void)
{
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        const struct url *u = &urls[i];
        struct proxies p;
        struct errbuf eb = {{0}};
        enum err rc = proxies_init(&p, NULL, u->text, NULL, &eb);

        CHECK((rc == ERR_OK) == (u->name != NULL));
        if (rc != ERR_OK) {
            CHECK_SAYS(eb.text, u->authorization);
            CHECK(strstr(eb.text, "s3cret") == NULL);
            continue;
        }
        CHECK_STR(p.https.name, u->name);
        CHECK((p.https.authorization != NULL) == (u->authorization != NULL));
        if (u->authorization != NULL)
            CHECK_STR(p.https.authorization, u->authorization);
        CHECK(p.http.host == NULL);
        proxies_fini(&p);
    }
}

static void
test_which(void)
{
    struct proxies p;

    CHECK(proxies_init(&p, "plain:1", "http://u:p@tunnel:2", "no.example", NULL) ==
          ERR_OK);
    CHECK(proxies_for(&p, "h", 80, false) == &p.http);
    CHECK(proxies_for(&p, "h", 443, true) == &p.https);
    CHECK(proxies_for(&p, "no.example", 443, true) == NULL);
    /* Never: what is on this machine. */
    CHECK(proxies_for(&p, "localhost", 80, false) == NULL);
    CHECK(proxies_for(&p, "LocalHost.", 80, false) == NULL);
    CHECK(proxies_for(&p, "a.localhost", 80, false) == NULL);
    CHECK(proxies_for(&p, "127.3.2.1", 80, false) == NULL);
    CHECK(proxies_for(&p, "::1", 80, false) == NULL);
    CHECK(proxies_for(&p, "unix:/run/x", 80, false) == NULL);
    CHECK(proxies_for(NULL, "h", 80, false) == NULL);
    proxies_authorize(&p, SPAN("a:b"));
    CHECK_STR(p.http.authorization, "Basic YTpi");
    CHECK_STR(p.https.authorization, "Basic dTpw"); /* its own */
    proxies_fini(&p);
    proxies_fini(&p);
    CHECK(proxies_init(&p, "", "", NULL, NULL) == ERR_OK);
    CHECK(proxies_for(&p, "h", 80, false) == NULL);
    proxies_fini(&p);
}

struct except {
    const char *rules, *host;
    uint16_t port;
    bool without;
};
static const struct except excepts[] = {
    {"", "h", 80, false},
    {"*", "anything.example", 80, true},
    {"a.example", "a.example", 80, true},
    {"a.example", "A.EXAMPLE", 80, true},
    {"A.Example", "a.example.", 80, true},
    {"a.example.", "a.example", 80, true},
    {"a.example", "b.a.example", 80, true},
    {"a.example", "ba.example", 80, false},
    {"a.example", "example", 80, false},
    {".a.example", "a.example", 80, true},
    {".a.example", "b.a.example", 80, true},
    {"*.a.example", "b.a.example", 80, true},
    {"*.a.example", "a.example", 80, false},
    {"x,a.example", "a.example", 80, true},
    {" x , a.example ", "a.example", 80, true},
    {"x a.example", "a.example", 80, true},
    {"a.example:81", "a.example", 80, false},
    {"a.example:81", "a.example", 81, true},
    {"a.example:x", "a.example", 81, false},
    {"10.0.0.0/8", "10.200.0.1", 80, true},
    {"10.0.0.0/8", "11.0.0.1", 80, false},
    {"10.0.0.0/0", "11.0.0.1", 80, true},
    {"10.0.0.0/33", "10.0.0.1", 80, false},
    {"10.0.0.0/", "10.0.0.1", 80, false},
    {"/8", "10.0.0.1", 80, false},
    {"10.0.0.0/8", "a.example", 80, false},
    {"fd00::/8", "fd12::1", 80, true},
    {"fd00::/8", "fe80::1", 80, false},
    {"10.0.0.1", "10.0.0.1", 80, true},
    {"10.0.0.1:81", "10.0.0.1", 80, false},
    {"10.0.0.1:80", "10.0.0.1", 80, true},
    {"0.0.1", "10.0.0.1", 80, false},
    {"[fd00::1]", "fd00::1", 80, true},
    {"[fd00::1]:80", "fd00::1", 80, true},
    {"[fd00::1]:81", "fd00::1", 80, false},
    {"fd00::1", "fd00:0::1", 80, true},
    {".", "h", 80, false},
    {"*.", "h", 80, false},
    {":80", "h", 80, false},
    {",,,", "h", 80, false},
};

static void
test_what_goes_without(void)
{
    for (size_t i = 0; i < ARRAY_LEN(excepts); i++) {
        const struct except *e = &excepts[i];

        if (proxy_is_excepted(e->rules, e->host, e->port) != e->without)
            fprintf(stderr, "\"%s\" and %s:%u\n", e->rules, e->host, e->port);
        CHECK(proxy_is_excepted(e->rules, e->host, e->port) == e->without);
    }
}

struct said {
    const char *text;
    enum err rc;
    const char *says;
};
static const struct said saids[] = {
    {"HTTP/1.1 200 Connection established\r\n\r\n", ERR_OK, ""},
    {"HTTP/1.0 200 OK\r\nVia: x\r\nContent-Length: 5\r\n\r\n", ERR_OK, ""},
    {"HTTP/1.1 204 No\r\n\r\n", ERR_OK, ""},
    {"", ERR_BUSY, ""},
    {"HTTP/1.1 200 OK\r\n", ERR_BUSY, ""},
    {"HTTP/1.1 200 OK\r\n\r\nhello", ERR_BACKEND, "5 bytes of its own"},
    {"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\n\r\n", ERR_BACKEND,
     "credentials (407)"},
    {"HTTP/1.1 403 No\r\nContent-Length: 3\r\n\r\nno", ERR_BACKEND,
     "refused the tunnel: 403"},
    {"HTTP/1.1 302 Go\r\nLocation: http://x/\r\n\r\n", ERR_BACKEND,
     "refused the tunnel: 302"},
    {"HTTP/1.1 100 Continue\r\n\r\n", ERR_BACKEND, "with 100"},
    {"HTTP/1.1 200 OK\nX: y\n\n", ERR_BACKEND, "does not speak HTTP"},
    {"SSH-2.0-x\r\n", ERR_BACKEND, "does not speak HTTP"},
};

static void
test_response_cache(void)
{
    char *long_one = xcalloc(1, PROXY_RESPONSE_ROOM);
    struct errbuf eb = {{0}};

    for (size_t i = 0; i < ARRAY_LEN(saids); i++) {
        eb.text[0] = '\0';
        CHECK(proxy_response(saids[i].text, strlen(saids[i].text), &eb) == saids[i].rc);
        CHECK_SAYS(eb.text, saids[i].says);
    }
    memset(long_one, 'a', PROXY_RESPONSE_ROOM);
    memcpy(long_one, "HTTP/1.1 200 OK\r\nX: ", 20);
    CHECK(proxy_response(long_one, PROXY_RESPONSE_ROOM, &eb) == ERR_BACKEND);
    CHECK_SAYS(eb.text, "over 16384 bytes");
    free(long_one);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_urls);
    RUN(test_which);
    RUN(test_what_goes_without);
    RUN(test_response_cache);
    return check_done();
}
