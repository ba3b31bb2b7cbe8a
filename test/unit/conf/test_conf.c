/* Options: precedence and origin, typed files, the environment, sentences that name value
 * and limits, and that what is shown reads back the same. */
#include "conf/conf.h"

#include <unistd.h>

#include "base/buf.h"
#include "check.h"
#include "wire/json.h"

/* ---- the table itself ---- */

static void
test_no_name_is_anothers_table(void)
{
    for (unsigned a = 0; a < OPT_COUNT_; a++) {
        struct span name = span_of(conf_option_name((enum conf_option)a));
        enum conf_option id;

        CHECK(conf_find(name, &id) && id == a); /* and none is there twice */
        for (unsigned b = 0; b < OPT_COUNT_; b++) {
            struct span other = span_of(conf_option_name((enum conf_option)b));

            CHECK(!(span_starts(other, name) && other.len > name.len &&
                    other.at[name.len] == '.'));
        }
    }
}

static void
test_defaults(void)
{
    struct conf *c = conf_new();
    size_t count = 0;

    CHECK_STR(conf_text(c, OPT_LISTEN), "127.0.0.1:9000");
    CHECK_STR(conf_text(c, OPT_CREDENTIALS), "");
    CHECK(!conf_bool(c, OPT_AUTH));
    CHECK_U64(conf_u64(c, OPT_HTTP_HEADER_TIMEOUT), 10000);
    CHECK_U64(conf_u64(c, OPT_MEMORY_BUFFERS), CONF_AUTO);
    CHECK_U64(conf_enum(c, OPT_ENGINE), 0);
    CHECK_U64(conf_enum(c, OPT_LOG_LEVEL), 1);
    CHECK_STR(conf_list(c, OPT_S3_DOMAINS, &count)[0], "localhost");
    CHECK_U64(count, 1);
    CHECK_STR(conf_where(c, OPT_LISTEN), "default");
    CHECK(conf_origin(c, OPT_LISTEN) == CONF_DEFAULT);
    conf_free(&c);
    CHECK(c == NULL);
    conf_free(&c);
}

/* ---- precedence ---- */

static void
test_the_stronger_source_wins_in_any_order(void)
{
    static char *const environ_1[] = {"FOREBAY_LOOPS=2", "PATH=/bin", NULL};
    static const char file[] = "\nloops = 1\n";

    /* Each bit of `order` says which of the three comes first; all six orders. */
    for (int order = 0; order < 6; order++) {
        static const char steps[6][4] = {"fes", "fse", "efs", "esf", "sfe", "sef"};
        struct conf *c = conf_new();
        struct errbuf eb = {0};

        for (const char *s = steps[order]; *s != '\0'; s++) {
            if (*s == 'f')
                CHECK(conf_toml(c, "f.toml", SPAN(file), &eb) == ERR_OK);
            else if (*s == 'e')
                CHECK(conf_env(c, environ_1, &eb) == ERR_OK);
            else
                CHECK(conf_set(c, "loops=3", "--set", &eb) == ERR_OK);
        }
        CHECK_U64(conf_u64(c, OPT_LOOPS), 3);
        CHECK_STR(conf_where(c, OPT_LOOPS), "--set");
        conf_free(&c);
    }
}

static void
test_origins(void)
{
    static char *const environ_1[] = {"FOREBAY_LOG__LEVEL=warn",
                                      "FOREBAY_S3__DOMAINS=a.org, b.org", NULL};
    struct conf *c = conf_new();
    struct errbuf eb = {0};
    const char *const *domains;
    size_t count;

    CHECK(conf_toml(c, "f.toml",
                    SPAN("loops = 1\n[log]\nlevel = 'debug'\nformat = \"json\"\n"),
                    &eb) == ERR_OK);
    CHECK(conf_env(c, environ_1, &eb) == ERR_OK);
    CHECK(conf_set_option(c, OPT_LISTEN, "[::1]:0", "--listen", &eb) == ERR_OK);
    CHECK(conf_set(c, "workers=3", "--set", &eb) == ERR_OK);
    CHECK(conf_set(c, "workers=4", "--set", &eb) == ERR_OK); /* the last one */
    CHECK_STR(conf_where(c, OPT_LOOPS), "f.toml:1");
    CHECK_STR(conf_where(c, OPT_LOG_FORMAT), "f.toml:4");
    CHECK_STR(conf_where(c, OPT_LOG_LEVEL), "FOREBAY_LOG__LEVEL");
    CHECK(conf_origin(c, OPT_LOG_LEVEL) == CONF_ENVIRONMENT);
    CHECK_U64(conf_enum(c, OPT_LOG_LEVEL), 2);
    CHECK_U64(conf_enum(c, OPT_LOG_FORMAT), 1);
    CHECK_STR(conf_text(c, OPT_LISTEN), "[::1]:0");
    CHECK_STR(conf_where(c, OPT_LISTEN), "--listen");
    CHECK_U64(conf_u64(c, OPT_WORKERS), 4);
    domains = conf_list(c, OPT_S3_DOMAINS, &count);
    CHECK(count == 2 && strcmp(domains[0], "a.org") == 0 &&
          strcmp(domains[1], "b.org") == 0);
    conf_free(&c);
}

/* ---- files ---- */

static void
test_file_values_are_typed(void)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"lisen = \"x\"",
         "f.toml:1: there is no option \"lisen\": did you mean \"listen\"?"},
        {"\n[http]\nidle_timout = \"5s\"",
         "f.toml:3: there is no option \"http.idle_timout\": did you mean "
         "\"http.idle_timeout\"?"},
        {"[index]\nmemory = \"1MiB\"", "f.toml:2: the option \"index.memory\" was "
                                       "renamed: it is \"memory.memtable\" now"},
        {"header_timeout = \"5s\"", "did you mean \"http.header_timeout\"?"},
        {"zebra = 1", "there is no option \"zebra\"; `forebay config show` lists them"},
        {"loops = \"4\"", "f.toml:1: loops: wants an integer, not a string"},
        {"loops = -1", "-1 is negative"},
        {"loops = 257", "257 is not within 0 and 256"},
        {"auth = \"true\"", "wants true or false, not a string"},
        {"listen = 9000", "wants a string, not an integer"},
        {"listen = \"\"", "0 bytes is not within 1 and 255"},
        {"listen = \"a\\u0000b\"", "a NUL"},
        {"s3.domains = \"x\"", "wants an array of strings, not a string"},
        {"s3.domains = [\"\"]", "empty"},
        {"http.idle_timeout = 5",
         "wants a duration with its unit like \"10s\", not an integer"},
        {"http.idle_timeout = \"5\"", "\"5\" is not a duration"},
        {"http.idle_timeout = \"2d\"", "2d is not within 100ms and 1d"},
        {"memory.buffers = true",
         "wants a size like \"64MiB\" or an integer of bytes, not a boolean"},
        {"memory.memtable = \"auto\"", "\"auto\""},
        {"memory.buffers = \"1KiB\"", "1KiB is not within 16MiB and 1TiB"},
        {"engine = \"kqueue\"", "\"kqueue\" is none of auto|uring|epoll"},
        {"loops = 1\nloops = 2", "f.toml:2: \"loops\" is defined a second time"},
        {"loops = \n", "f.toml:1: no value"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct conf *c = conf_new();
        struct errbuf eb = {0};

        CHECK(conf_toml(c, "f.toml", span_of(rows[i].text), &eb) != ERR_OK);
        CHECK_SAYS(eb.text, rows[i].says);
        conf_free(&c);
    }
}

static void
test_file_values(void)
{
    static const char text[] = "memory.buffers = 33554432 # bytes\n"
                               "memory.block_cache = \"1.5GiB\"\n"
                               "[http]\nidle_timeout = \"2m\"\nconnections = 1_000\n"
                               "[s3]\ndomains = ['a', \"b\", ]\n";
    struct conf *c = conf_new();
    struct errbuf eb = {0};
    size_t count;

    CHECK(conf_toml(c, "f.toml", SPAN(text), &eb) == ERR_OK);
    CHECK_U64(conf_u64(c, OPT_MEMORY_BUFFERS), 32 << 20);
    CHECK_U64(conf_u64(c, OPT_MEMORY_BLOCK_CACHE), GIB(3) / 2);
    CHECK_U64(conf_u64(c, OPT_HTTP_IDLE_TIMEOUT), 120000);
    CHECK_U64(conf_u64(c, OPT_HTTP_CONNECTIONS), 1000);
    CHECK_STR(conf_list(c, OPT_S3_DOMAINS, &count)[1], "b");
    CHECK(conf_toml(c, "g.toml", SPAN("s3.domains = []"), &eb) == ERR_OK);
    conf_list(c, OPT_S3_DOMAINS, &count);
    CHECK_U64(count, 0);
    conf_free(&c);
}

static void
test_files_of_the_disk(void)
{
    char path[] = "/tmp/forebay-test-conf-XXXXXX";
    int fd = mkstemp(path);
    struct conf *c = conf_new();
    struct errbuf eb = {0};

    REQUIRE(fd >= 0);
    CHECK(write(fd, "loops = 7\n", 10) == 10);
    close(fd);
    CHECK(conf_file(c, path, &eb) == ERR_OK);
    CHECK_U64(conf_u64(c, OPT_LOOPS), 7);
    CHECK_SAYS(conf_where(c, OPT_LOOPS), ":1");
    unlink(path);
    CHECK(conf_file(c, path, &eb) == ERR_NOT_FOUND);
    CHECK_SAYS(eb.text, "No such file");
    CHECK(conf_file(c, "/", &eb) == ERR_IO); /* a folder */
    conf_free(&c);
}

/* ---- environment and command line ---- */

static void
test_environment(void)
{
    static const struct {
        char *entry;
        const char *says; /* NULL: taken or left alone */
    } rows[] = {
        {"FOREBAY_HTTP__HEADER_TIMEOUT=5s", NULL},
        {"FOREBAY_CACHE__BUDGET=1GiB", NULL},
        {"FOREBAY_AUTH=true", NULL},
        {"FOREBAY_ENDPOINT=http://x", NULL},                 /* the client's */
        {"FOREBAY_PORT_9000_TCP=tcp://10.0.0.1:9000", NULL}, /* Kubernetes' */
        {"FOREBAY_SERVICE_HOST=10.0.0.1", NULL},
        {"forebay_loops=x", NULL}, /* another name */
        {"FOREBAY_", NULL},
        {"FOREBAY_LOOPS=many", "FOREBAY_LOOPS: loops: \"many\" is not a whole number"},
        {"FOREBAY_AUTH=yes", "\"yes\" is neither true nor false"},
        {"FOREBAY_HTTP__HEADER_TIMOUT=5s",
         "FOREBAY_HTTP__HEADER_TIMOUT: there is no option "
         "\"http.header_timout\": did you mean \"http.header_timeout\"?"},
        {"FOREBAY_HTTP_HEADER_TIMEOUT=5s",
         "the option \"http.header_timeout\" is written with two underscores"},
        {"FOREBAY_MEMORY__HOT=0",
         "the option \"memory.hot\" was renamed: it is \"memory.block_cache\" now"},
        {"FOREBAY_INSECURE__HTTP=true",
         "there is no option \"insecure.http\": did you mean \"insecure_http\"?"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *const environ_1[] = {rows[i].entry, NULL};
        struct conf *c = conf_new();
        struct errbuf eb = {0};
        enum err rc = conf_env(c, environ_1, &eb);

        CHECK((rc == ERR_OK) == (rows[i].says == NULL));
        if (rows[i].says != NULL)
            CHECK_SAYS(eb.text, rows[i].says);
        conf_free(&c);
    }
}

static void
test_set(void)
{
    static const struct {
        const char *pair, *says;
    } rows[] = {
        {"cache.budgt=1GiB",
         "--set: there is no option \"cache.budgt\": did you mean \"cache.budget\"?"},
        {"memory.hot=0", "--set: the option \"memory.hot\" was renamed: it is "
                         "\"memory.block_cache\" now"},
        {"index.memory=1MiB", "was renamed: it is \"memory.memtable\" now"},
        {"disk.move_rate=1MiB", "was renamed: it is \"disk.rebalance_rate\" now"},
        {"cache.budget", "a value is missing: write cache.budget=VALUE"},
        {"cache.budget=lots", "--set: cache.budget: \"lots\" is not a size"},
        {"cache.budget=", "is not a size"},
        {"=1", "there is no option \"\""},
        {"s3.domains=a,,b", "an empty item in a list"},
        {"s3.domains=a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q",
         "17 items is not within 0 and 16"},
    };
    struct conf *c = conf_new();
    struct errbuf eb = {0};
    size_t count;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK(conf_set(c, rows[i].pair, "--set", &eb) != ERR_OK);
        CHECK_SAYS(eb.text, rows[i].says);
    }
    CHECK(conf_set(c, "credentials=/a=b", "--set", &eb) ==
          ERR_OK); /* the first "=" divides */
    CHECK_STR(conf_text(c, OPT_CREDENTIALS), "/a=b");
    CHECK(conf_set(c, "s3.domains=", "--set", &eb) == ERR_OK);
    conf_list(c, OPT_S3_DOMAINS, &count);
    CHECK_U64(count, 0);
    conf_free(&c);
}

/* ---- showing ---- */

static char *
shown(const struct conf *c, enum conf_form form)
{
    struct buf b;
    char *text;

    buf_init(&b, 1 << 20);
    conf_show(c, form, &b);
    CHECK(!b.full);
    text = xmemdup0(b.at, b.len);
    buf_fini(&b);
    return text;
}

/* What is shown as TOML is a file that says the same, whatever was set. */
static void
test_shown_toml_reads_back(void)
{
    static const char *const pairs[] = {"listen=[::]:1",
                                        "cache.budget=1000003",
                                        "http.idle_timeout=90s",
                                        "credentials=/a \"b\"\\c\t\xc3\xa9",
                                        "auth=true",
                                        "engine=epoll",
                                        "s3.domains=x.org,\"q\"",
                                        "memory.block_cache=0"};

    for (int form = CONF_AS_TOML; form <= CONF_AS_TOML_ORIGIN; form++) {
        struct conf *a = conf_new(), *b = conf_new();
        struct errbuf eb = {0};
        char *first, *second;

        for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
            CHECK(conf_set(a, pairs[i], "--set", &eb) == ERR_OK);
        first = shown(a, (enum conf_form)form);
        CHECK(conf_toml(b, "shown", span_of(first), &eb) == ERR_OK);
        CHECK_STR(eb.text, "");
        free(first);
        first = shown(a, CONF_AS_TOML);
        second = shown(b, CONF_AS_TOML);
        CHECK_STR(second, first);
        free(first);
        free(second);
        conf_free(&a);
        conf_free(&b);
    }
}

static void
test_show(void)
{
    struct conf *c = conf_new();
    struct errbuf eb = {0};
    char *text;

    CHECK(conf_set(c, "http.idle_timeout=90s", "--set", &eb) == ERR_OK);
    CHECK(conf_set(c, "log.level=warn", "--set", &eb) == ERR_OK);
    text = shown(c, CONF_AS_TOML_ORIGIN);
    CHECK_SAYS(text, "listen = \"127.0.0.1:9000\"               # default, restart\n");
    CHECK_SAYS(text, "http.idle_timeout = \"90s\"               # --set, restart\n");
    CHECK_SAYS(text, "log.level = \"warn\"                      # --set\n");
    free(text);
    text = shown(c, CONF_AS_JSON);
    CHECK_SAYS(text, "{\"name\":\"http.idle_timeout\",\"value\":90000,\"unit\":\"ms\","
                     "\"default\":\"75s\","
                     "\"origin\":\"flag\",\"where\":\"--set\",\"restart\":true,");
    CHECK_SAYS(text, "{\"name\":\"s3.domains\",\"value\":[\"localhost\"],");
    CHECK_SAYS(text, "{\"name\":\"log.level\",\"value\":\"warn\",\"default\":\"info\",");
    free(text);
    conf_free(&c);
}

static void
test_explain(void)
{
    struct errbuf eb = {0};
    struct buf b;

    buf_init(&b, 1 << 16);
    CHECK(conf_explain(SPAN("http.idle_timeout"), &b, &eb) == ERR_OK);
    buf_putc(&b, '\0');
    CHECK_SAYS(b.at, "duration, 100ms to 1d; default 75s; changes at the next start");
    CHECK_SAYS(b.at, "FOREBAY_HTTP__IDLE_TIMEOUT=... or --set http.idle_timeout=...");
    buf_clear(&b);
    CHECK(conf_explain(SPAN("log"), &b, &eb) == ERR_OK);
    buf_putc(&b, '\0');
    CHECK_SAYS(b.at, "log.level\n");
    CHECK_SAYS(b.at,
               "one of debug, info, warn, error; default info; changes by a reload");
    CHECK_SAYS(b.at, "log.format\n");
    CHECK(conf_explain(SPAN("lo"), &b, &eb) == ERR_NOT_FOUND);
    buf_fini(&b);
}

/* docs/options.md is what the table says. Write it with FOREBAY_WRITE_DOCS=1. */
static void
test_reference_page_is_current(void)
{
    struct buf want, have;
    FILE *f;
    char *p;
    size_t n;

    buf_init(&want, 1 << 20);
    buf_init(&have, 1 << 20);
    conf_reference(&want);
    if (getenv("FOREBAY_WRITE_DOCS") != NULL) {
        f = fopen("docs/options.md", "w");
        REQUIRE(f != NULL);
        CHECK(fwrite(want.at, 1, want.len, f) == want.len);
        fclose(f);
    }
    f = fopen("docs/options.md", "r");
    REQUIRE(f != NULL);
    while ((p = buf_reserve(&have, 4096)) != NULL && (n = fread(p, 1, 4096, f)) > 0)
        have.len += n;
    fclose(f);
    CHECK(span_eq(buf_span(&want), buf_span(&have)));
    buf_fini(&want);
    buf_fini(&have);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_no_name_is_anothers_table);
    RUN(test_defaults);
    RUN(test_the_stronger_source_wins_in_any_order);
    RUN(test_origins);
    RUN(test_file_values_are_typed);
    RUN(test_file_values);
    RUN(test_files_of_the_disk);
    RUN(test_environment);
    RUN(test_set);
    RUN(test_shown_toml_reads_back);
    RUN(test_show);
    RUN(test_explain);
    RUN(test_reference_page_is_current);
    return check_done();
}
