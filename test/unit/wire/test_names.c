/* Queries, bucket and key names, error codes. */
#include "check.h"

#include "base/mem.h"
#include "wire/query.h"
#include "wire/s3name.h"

static struct arena *arena;
static struct fault fault;

/* ---- query ---- */

static void
test_query(void)
{
    static const struct {
        const char *raw, *decoded; /* name=value; in order */
    } rows[] = {
        {"", ""},
        {"uploads", "uploads=;"},
        {"uploads=", "uploads=;"},
        {"a=1&b=2", "a=1;b=2;"},
        {"&&a=1&", "a=1;"},
        {"a=b=c", "a=b=c;"},
        {"=x", "=x;"},
        {"prefix=a+b%2Bc%2f%C3%A9", "prefix=a b+c/\xc3\xa9;"},
        {"a=2&a=1", "a=2;a=1;"},
        {"%61=%62", "a=b;"},
        {"a=%26%3d", "a=&=;"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct query q;
        struct buf b;

        buf_init(&b, 1024);
        REQUIRE(query_parse(span_of(rows[i].raw), arena, &q, &fault) == ERR_OK);
        for (size_t k = 0; k < q.count; k++)
            buf_printf(&b, "%.*s=%.*s;", SPAN_ARG(q.at[k].name), SPAN_ARG(q.at[k].value));
        CHECK(span_is(buf_span(&b), rows[i].decoded));
        buf_fini(&b);
    }

    static const char *const bad[] = {"a=%", "a=%4", "a=%zz", "%", "a&b%2"};
    struct query q;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK(query_parse(span_of(bad[i]), arena, &q, &fault) == ERR_BAD_REQUEST);
        CHECK_U64(fault.code, S3_InvalidURI);
    }
    char many[2 * (QUERY_PARAMS_MAX + 1) + 1] = "";
    for (size_t i = 0; i < QUERY_PARAMS_MAX; i++)
        strcat(many, "a&");
    CHECK(query_parse(span_of(many), arena, &q, &fault) == ERR_OK);
    strcat(many, "a");
    CHECK(query_parse(span_of(many), arena, &q, &fault) == ERR_BAD_REQUEST);
    CHECK_SAYS(fault.message, "at most 128");
}

static void
test_query_values(void)
{
    struct query q;
    uint64_t n;

    REQUIRE(query_parse(SPAN("max-keys=10&x=&n=-1&big=99999999999999999999"), arena, &q,
                        &fault) == ERR_OK);
    CHECK(query_has(&q, "x") && !query_has(&q, "y"));
    CHECK(query_get(&q, "x").at != NULL && query_get(&q, "x").len == 0);
    CHECK(query_get(&q, "y").at == NULL);
    CHECK(query_u64(&q, "max-keys", 1000, 0, 1000, &n, &fault) == ERR_OK && n == 10);
    CHECK(query_u64(&q, "y", 1000, 0, 5, &n, &fault) == ERR_OK && n == 1000);
    CHECK(query_u64(&q, "max-keys", 1, 11, 20, &n, &fault) == ERR_BAD_REQUEST);
    CHECK_SAYS(fault.message, "between 11 and 20");
    CHECK(span_is(fault.extra[0].value, "max-keys") &&
          span_is(fault.extra[1].value, "10"));
    CHECK(query_u64(&q, "x", 1, 0, 20, &n, &fault) == ERR_BAD_REQUEST);
    CHECK(query_u64(&q, "n", 1, 0, 20, &n, &fault) == ERR_BAD_REQUEST);
    CHECK(query_u64(&q, "big", 1, 0, UINT64_MAX, &n, &fault) == ERR_BAD_REQUEST);

    struct buf b;
    buf_init(&b, 256);
    query_put(&b, "list-type", SPAN("2"));
    query_put(&b, "prefix", SPAN("a b+c/\xc3\xa9"));
    CHECK(span_is(buf_span(&b), "list-type=2&prefix=a%20b%2Bc%2F%C3%A9"));
    buf_fini(&b);
}

/* ---- paths ---- */

static void
test_split(void)
{
    static const struct span domains[] = {
        {"s3.lan", 6}, {"lan", 3}, {"s3.eu.example.com", 17}};
    static const struct {
        const char *path, *host, *bucket, *key;
    } rows[] = {
        {"/", "h", "", ""},
        {"/b", "h", "b", ""},
        {"/b/", "h", "b", ""},
        {"/b/k", "h:9000", "b", "k"},
        {"/b//", "h", "b", "/"},
        {"/b/a//b", "h", "b", "a//b"},
        {"/b/../x/.", "h", "b", "../x/."},
        {"/b/a+b", "h", "b", "a+b"},
        {"/b/dir/a%20b%2Bc%252F~%C3%A9.txt", "h", "b", "dir/a b+c%2F~\xc3\xa9.txt"},
        {"/b/a%2Fb", "h", "b", "a/b"},
        {"/b%2Fa", "h", "b", "a"},
        {"/b/%21%2A%27%28%29", "h", "b", "!*'()"},
        {"/b/%c3%a9", "h", "b", "\xc3\xa9"},
        {"/b/%01%0d", "h", "b", "\1\r"},
        /* virtual hosts */
        {"/k", "b.s3.lan", "b", "k"},
        {"/", "b.s3.lan:9000", "b", ""},
        {"/a/b", "My.Bucket.S3.LAN", "my.bucket", "a/b"},
        {"/b/k", "s3.lan", "b", "k"},
        {"/b/k", "S3.LAN:80", "b", "k"},
        {"/b/k", "lan", "b", "k"},
        {"/k", "b.lan", "b", "k"},
        {"/k", "b.s3.lan.", "b", "k"},
        {"/k", "b.s3.eu.example.com", "b", "k"},
        {"/b/k", "xs3.eu.example.com", "b", "k"},
        {"/b/k", ".s3.eu.example.com", "b", "k"},
        {"/b/k", "127.0.0.1:9000", "b", "k"},
        {"/b/k", "[::1]:9000", "b", "k"},
        {"/b/k", "", "b", "k"},
        {"//k", "b.s3.lan", "b", "/k"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct s3_name n;

        CHECK(s3_name_split(span_of(rows[i].path), span_of(rows[i].host), domains,
                            ARRAY_LEN(domains), arena, &n, &fault) == ERR_OK);
        CHECK(span_is(n.bucket, rows[i].bucket));
        CHECK(span_is(n.key, rows[i].key));
    }
}

static void
test_bad_paths(void)
{
    char long_path[4000] = "/b/";
    struct s3_name n;
    static const struct {
        const char *path;
        enum s3_code code;
    } rows[] = {
        {"", S3_InvalidURI},          {"b/k", S3_InvalidURI},
        {"/b/%", S3_InvalidURI},      {"/b/%zz", S3_InvalidURI},
        {"/b/%ff", S3_InvalidURI},    {"/b/%ed%a0%80", S3_InvalidURI},
        {"/b/%c0%80", S3_InvalidURI}, {"/b/\xff", S3_InvalidURI},
        {"//b/k", S3_InvalidURI},     {"//", S3_InvalidURI},
        {"/%2Fb", S3_InvalidURI},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK(s3_name_split(span_of(rows[i].path), SPAN("h"), NULL, 0, arena, &n,
                            &fault) == ERR_BAD_REQUEST);
        CHECK_U64(fault.code, rows[i].code);
    }
    for (unsigned i = 0; i < 1024; i++)
        strcat(long_path, i % 2 ? "%61" : "a");
    CHECK(s3_name_split(span_of(long_path), SPAN("h"), NULL, 0, arena, &n, &fault) ==
          ERR_OK);
    CHECK_U64(n.key.len, 1024);
    strcat(long_path, "a");
    CHECK(s3_name_split(span_of(long_path), SPAN("h"), NULL, 0, arena, &n, &fault) ==
          ERR_BAD_REQUEST);
    CHECK_U64(fault.code, S3_KeyTooLongError);
    REQUIRE(fault.extra_count == 2);
    CHECK(span_is(fault.extra[0].value, "1025"));
    CHECK_STR(fault.extra[1].name, "MaxSizeAllowed");
}

static void
test_bucket_names(void)
{
    static const struct {
        const char *name;
        bool good;
    } rows[] = {
        {"abc", true},
        {"my-bucket", true},
        {"my.bucket", true},
        {"0-9", true},
        {"a--b", true},
        {"1.2.3", true},
        {"1.2.3.4.5", true},
        {"256.1.1.1", true},
        {"ab", false},
        {"", false},
        {"Abc", false},
        {"a_b", false},
        {"-abc", false},
        {"abc-", false},
        {".abc", false},
        {"abc.", false},
        {"a..b", false},
        {"a.-b", false},
        {"a-.b", false},
        {"192.168.0.1", false},
        {"a/b", false},
        {"a b", false},
        {"\xc3\xa9\xc3\xa9", false},
        {"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz01234567890", true},
        {"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz012345678901", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_U64(s3_bucket_ok(span_of(rows[i].name)), rows[i].good);
        CHECK((s3_bucket_check(span_of(rows[i].name), &fault) == ERR_OK) == rows[i].good);
    }
    CHECK_U64(fault.code, S3_InvalidBucketName);
}

static void
test_copy_sources(void)
{
    static const struct {
        const char *value, *bucket, *key, *version; /* bucket NULL: refused */
    } rows[] = {
        {"b/k", "b", "k", ""},
        {"/b/k", "b", "k", ""},
        {"b/a%20b%2Bc/%C3%A9", "b", "a b+c/\xc3\xa9", ""},
        {"b/a+b", "b", "a+b", ""},
        {"b%2Fkey", "b", "key", ""},
        {"b/k?versionId=3%2F", "b", "k", "3%2F"},
        {"b/k%3FversionId=3", "b", "k?versionId=3", ""},
        {"b", NULL, NULL, NULL},
        {"", NULL, NULL, NULL},
        {"b/", NULL, NULL, NULL},
        {"//k", NULL, NULL, NULL},
        {"b/k?version=1", NULL, NULL, NULL},
        {"b/k?versionId=", NULL, NULL, NULL},
        {"b/%zz", NULL, NULL, NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct s3_copy_source s;
        enum err rc = s3_copy_source_parse(span_of(rows[i].value), arena, &s, &fault);

        CHECK((rc == ERR_OK) == (rows[i].bucket != NULL));
        if (rc == ERR_OK)
            CHECK(span_is(s.bucket, rows[i].bucket) && span_is(s.key, rows[i].key) &&
                  span_is(s.version, rows[i].version));
        else
            CHECK_U64(s3_code_status(fault.code), 400);
    }
}

/* ---- faults ---- */

static void
test_codes(void)
{
    for (enum s3_code c = S3_OK + 1; c < S3_CODE_COUNT_; c++) {
        CHECK(s3_code_err(c) != ERR_OK);
        CHECK(s3_code_name(c)[0] != '\0' && s3_code_message(c)[0] != '\0');
    }
    CHECK(fault_set(NULL, S3_NoSuchKey, NULL) == ERR_NOT_FOUND);
    CHECK(fault_set(&fault, S3_SlowDown, "%d", 1) == ERR_BUSY);
    CHECK_STR(fault.message, "1");
    fault_argument(&fault, "n", SPAN("v"), "wrong %s", "x");
    CHECK_U64(fault.extra_count, 2);
    CHECK(fault_set(&fault, S3_NoSuchKey, NULL) == ERR_NOT_FOUND);
    CHECK_U64(fault.extra_count, 0);
    CHECK_STR(fault.message, "The specified key does not exist.");
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    arena = arena_new(4096, 1 << 20);
    RUN(test_query);
    RUN(test_query_values);
    RUN(test_split);
    RUN(test_bad_paths);
    RUN(test_bucket_names);
    RUN(test_copy_sources);
    RUN(test_codes);
    arena_free(&arena);
    return check_done();
}
