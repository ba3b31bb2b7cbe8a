/* Protects S1 (as far as files go) and S10: profiles are read exactly, errors name file and line, never a value. */
#include "auth/auth.h"
#include "auth/credentials.h"
#include "check.h"

static const struct {
    const char *text;
    unsigned profiles; /* before the end or the error */
    const char *says;  /* part of the error, or NULL */
} rows[] = {
    {"", 0, NULL},
    {"# nothing\n\n; here\n", 0, NULL},
    {"[a]\naws_access_key_id=K\naws_secret_access_key=S\n", 1, NULL},
    {"[a]\r\naws_access_key_id = K\r\naws_secret_access_key = S\r\n[b]\n", 2, NULL},
    {"[ a b ]\nregion = eu\nAWS_ACCESS_KEY_ID = K\n", 1, NULL},
    {"aws_access_key_id=K\n", 0, "f:1: expected a [profile] first"},
    {"[a]\n\nnonsense\n", 0, "f:3: expected NAME = VALUE"},
    {"[a]\naws_secret_access_key =\n", 0, "f:2: the value of aws_secret_access_key"},
    {"[a]\naws_secret_access_key = hid den\n", 0,
     "f:2: the value of aws_secret_access_key"},
};

static void
test_rows(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct credentials_cursor c = credentials_cursor(span_of(rows[i].text));
        struct credentials_profile p;
        struct errbuf eb = {{0}};
        enum err rc;
        unsigned n = 0;

        while (credentials_next(&c, &p, "f", &rc, &eb))
            n++;
        CHECK_U64(n, rows[i].profiles);
        CHECK((rc != ERR_OK) == (rows[i].says != NULL));
        if (rows[i].says != NULL)
            CHECK_SAYS(eb.text, rows[i].says);
        CHECK(strstr(eb.text, "hid") == NULL);
    }
}

static void
test_values(void)
{
    struct credentials_cursor c = credentials_cursor(
        SPAN("[one]\naws_access_key_id = A=B\naws_secret_access_key = s/e+c=\n"
             "aws_session_token=t\n[two]\n"));
    struct credentials_profile p;
    enum err rc;

    REQUIRE(credentials_next(&c, &p, "f", &rc, NULL));
    CHECK(span_is(p.name, "one") && span_is(p.access_key, "A=B"));
    CHECK(span_is(p.secret_key, "s/e+c=") && span_is(p.session_token, "t"));
    REQUIRE(credentials_next(&c, &p, "f", &rc, NULL));
    CHECK(span_is(p.name, "two") && p.access_key.len == 0);
    CHECK(!credentials_next(&c, &p, "f", &rc, NULL) && rc == ERR_OK);
}

static void
test_host_names(void)
{
    static const struct {
        const char *host;
        bool ok;
    } hosts[] = {
        {"localhost", true},
        {"LOCALHOST:9000", true},
        {"b.localhost:9000", true},
        {"127.0.0.1:9000", true},
        {"127.1.2.3", true},
        {"[::1]:9000", true},
        {"127.0.0.1.evil.com", false},
        {"127.0.0.256", false},
        {"127.0.0", false},
        {"evil.com", false},
        {"notlocalhost", false},
        {"localhost.evil.com", false},
        {"127.0.0.1.", false},
        {"", false},
        {"s3.my.example", true},
        {"b.s3.my.example:80", true},
        {"xs3.my.example", false},
        {"[::1", false},
    };
    const char *domains[] = {"s3.my.example"};
    struct auth_options o = {0};
    struct auth *a = NULL;

    REQUIRE(auth_new(&o, &a, NULL) == ERR_OK);
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        if (auth_host_ok(a, span_of(hosts[i].host), domains, 1) != hosts[i].ok)
            fprintf(stderr, "host \"%s\"\n", hosts[i].host);
        CHECK(auth_host_ok(a, span_of(hosts[i].host), domains, 1) == hosts[i].ok);
    }
    auth_free(&a);
}

int
main(void)
{
    RUN(test_rows);
    RUN(test_values);
    RUN(test_host_names);
    return check_done();
}
