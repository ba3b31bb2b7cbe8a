/* auth: users from files: who is let in, which files are refused and how, the first user, loopback and Host. */
#include <sys/stat.h>
#include <unistd.h>

#include "auth/auth.h"
#include "base/mem.h"
#include "check.h"
#include "rt/loop.h"

static char folder[] = "/tmp/fb-auth-XXXXXX";

static void
write_file(const char *name, unsigned mode, const char *text)
{
    FILE *f = fopen(name, "w");

    REQUIRE(f != NULL);
    fputs(text, f);
    fclose(f);
    CHECK(chmod(name, mode) == 0);
}

static const struct {
    const char *text;
    unsigned mode;
    enum err rc;
    const char *says;
} files[] = {
    {"[a]\naws_access_key_id = AK\naws_secret_access_key = SK\n", 0600, ERR_OK, ""},
    {"[a]\naws_access_key_id=AK\naws_secret_access_key=SK\n[b]\naws_access_key_id=AL\n"
     "aws_secret_access_key=SL\n",
     0400, ERR_OK, ""},
    {"[a]\naws_access_key_id = AK\naws_secret_access_key = SK\n", 0640, ERR_DENIED,
     "mode 0640"},
    {"[a]\naws_access_key_id = AK\naws_secret_access_key = SK\n", 0604, ERR_DENIED,
     "chmod 600"},
    {"[a]\naws_access_key_id = AK\n", 0600, ERR_BAD_REQUEST, "[a] needs both"},
    {"", 0600, ERR_BAD_REQUEST, "no profile"},
    {"aws_access_key_id = AK\n", 0600, ERR_BAD_REQUEST, ":1: expected a [profile]"},
    {"[a]\naws_access_key_id=AK\naws_secret_access_key=S1\n[b]\naws_access_key_id=AK\n"
     "aws_secret_access_key=S2\n",
     0600, ERR_EXISTS, "is already that of [a]"},
};

static void
load_each(struct rt_dir *dir)
{
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct auth_options o = {0};
        struct errbuf eb = {{0}};
        struct auth *a = NULL;
        enum err rc;

        write_file("keys", files[i].mode, files[i].text);
        CHECK(auth_new(&o, &a, &eb) == ERR_OK);
        rc = auth_load(a, dir, "keys", &eb);
        CHECK_STR(err_name(rc), err_name(files[i].rc));
        CHECK_SAYS(eb.text, files[i].says);
        CHECK(strstr(eb.text, "SK") == NULL && strstr(eb.text, "S1") == NULL);
        if (rc == ERR_OK) {
            const struct auth_key *k = auth_find(a, SPAN("AK"));

            REQUIRE(k != NULL);
            CHECK_STR(k->secret, "SK");
            CHECK(k->token == NULL && k->expires_ms == 0);
            CHECK_STR(k->user->name, "a");
            CHECK(auth_may(k->user, AUTH_ADMIN, SPAN("*"), SPAN("")));
            CHECK(auth_find(a, SPAN("A")) == NULL);
            CHECK(auth_find(a, SPAN("AKK")) == NULL);
        }
        auth_free(&a);
        CHECK(unlink("keys") == 0);
    }
}

static void
make_first(struct rt_dir *dir)
{
    struct auth_options o = {0};
    struct errbuf eb = {{0}};
    struct auth *a = NULL, *b = NULL;
    char *text = NULL, *key;
    struct stat st;
    size_t len;

    CHECK(auth_new(&o, &a, &eb) == ERR_OK && auth_new(&o, &b, &eb) == ERR_OK);
    CHECK(auth_make_first(a, dir, "first", &eb) == ERR_OK);
    CHECK(stat("first", &st) == 0 && (st.st_mode & 07777) == 0600);
    CHECK(auth_make_first(b, dir, "first", &eb) == ERR_OK); /* the same user again */
    REQUIRE(rt_file_load(dir, "first", 4096, &text, &len, &eb) == ERR_OK);
    key = strstr(text, "aws_access_key_id = ");
    REQUIRE(key != NULL);
    key += strlen("aws_access_key_id = ");
    *strchr(key, '\n') = '\0';
    CHECK_U64(strlen(key), 18);
    REQUIRE(auth_find(a, span_of(key)) != NULL && auth_find(b, span_of(key)) != NULL);
    CHECK_STR(auth_find(b, span_of(key))->secret, auth_find(a, span_of(key))->secret);
    CHECK_U64(strlen(auth_find(a, span_of(key))->secret), 40);
    free(text);
    auth_free(&a);
    auth_free(&b);
    unlink("first");
}

static void
world(void *arg)
{
    struct errbuf eb = {{0}};
    struct rt_dir *dir = NULL;

    (void)arg;
    REQUIRE(rt_dir_open(folder, &dir, &eb) == ERR_OK);
    load_each(dir);
    make_first(dir);
    rt_dir_close(&dir);
}

static void
test_files(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1};
    struct errbuf eb = {{0}};

    REQUIRE(mkdtemp(folder) != NULL && chdir(folder) == 0);
    CHECK(rt_run(&o, world, NULL, &eb) == ERR_OK);
    CHECK(rmdir(folder) == 0);
}

static void
test_hosts_of_the_anonymous(void)
{
    static const struct {
        const char *host;
        bool ok;
    } rows[] = {
        {"127.0.0.1", true},
        {"127.0.0.1:9000", true},
        {"localhost", true},
        {"LOCALHOST:1", true},
        {"b.localhost:9", true},
        {"[::1]:9000", true},
        {"[::1]", true},
        {"127.9.9.9", true},
        {"s3.example.org", true},
        {"b.s3.example.org", true},
        {"example.org", false},
        {"evil.example", false},
        {"127.0.0.1.evil", false},
        {"notlocalhost", false},
        {"127.0.0", false},
        {"127.0.0.1.", false},
        {"127.0.0.256", false},
        {"[::2]", false},
        {"xs3.example.org", false},
        {"", false},
        {"[::1", false},
        {"localhost.evil.example", false},
    };
    static const char *const domains[] = {"s3.example.org"};
    struct auth_options o = {.required = false};
    struct auth *a = NULL;
    struct errbuf eb = {{0}};

    REQUIRE(auth_new(&o, &a, &eb) == ERR_OK);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bool ok = auth_host_ok(a, span_of(rows[i].host), domains, 1);

        CHECK(ok == rows[i].ok);
        if (ok != rows[i].ok)
            fprintf(stderr, "  ... host \"%s\"\n", rows[i].host);
    }
    CHECK(auth_anonymous_ok(a, true) && !auth_anonymous_ok(a, false));
    auth_free(&a);
    o.required = true;
    REQUIRE(auth_new(&o, &a, &eb) == ERR_OK);
    CHECK(!auth_anonymous_ok(a, true));
    auth_free(&a);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_files);
    RUN(test_hosts_of_the_anonymous);
    return check_done();
}
