/* client: an S3 client against a server of the test's own: what it sends, and what it makes of every answer. */
#include "base/log.h"
#include "client/s3.h"
#include "unit/cloud/fake_remote.h"

#define SIZE 200000u

static char body[SIZE];

struct rig {
    struct fake fake;
    struct s3_client *s3;
    struct arena *arena;
    struct s3_failure f;
    struct errbuf eb;
};

static void
begin(struct rig *g, unsigned fail_times, int status)
{
    fake_set(&g->fake, body, SIZE);
    g->fake.requests = 0;
    g->fake.fail_times = fail_times;
    g->fake.fail_status = status;
    g->fake.cut_times = 0;
    g->fake.document = "";
    g->eb = (struct errbuf){{0}};
    arena_reset(g->arena);
}

static enum err
get(struct rig *g, const struct s3_get *what, struct s3_object_info *info, uint64_t *got)
{
    static char piece[70000];
    struct s3_call *call = NULL;
    size_t n = 1;
    enum err rc = s3_get_begin(g->s3, what, g->arena, info, &call, &g->f, &g->eb);

    *got = 0;
    while (rc == ERR_OK && n > 0) {
        rc = s3_read(call, piece, sizeof piece, &n, &g->eb);
        if (rc == ERR_OK)
            CHECK(memcmp(piece, body + info->range_first + *got, n) == 0);
        *got += rc == ERR_OK ? n : 0;
    }
    s3_end(&call);
    return rc;
}

static void
objects(struct rig *g)
{
    struct s3_get all = {.bucket = SPAN("b"), .key = SPAN("dir/a b+c%2F~\xc3\xa9")};
    struct s3_get part = {
        .bucket = SPAN("b"), .key = SPAN("k"), .range = true, .first = 5, .last = 14};
    struct s3_object_info info;
    uint64_t got;

    begin(g, 0, 0);
    CHECK(get(g, &all, &info, &got) == ERR_OK);
    CHECK_U64(got, SIZE);
    CHECK_STR(g->fake.last_target, "/b/dir/a%20b%2Bc%252F~%C3%A9");
    CHECK_SAYS(g->fake.last_authorization, "Credential=AK/");
    CHECK(info.size == SIZE && span_is(info.etag, g->fake.etag) && !info.partial);
    REQUIRE(info.user_count == 1);
    CHECK(span_is(info.user[0].name, "color") && span_is(info.user[0].value, "green"));
    CHECK_U64(info.mtime_ms, 1735689600000);

    CHECK(get(g, &part, &info, &got) == ERR_OK);
    CHECK(got == 10 && info.partial && info.range_first == 5 && info.size == SIZE);
    part.if_match = SPAN("another");
    CHECK(get(g, &part, &info, &got) == ERR_PRECONDITION);
    part.first = SIZE;
    part.last = UINT64_MAX;
    part.if_match = SPAN("");
    CHECK(get(g, &part, &info, &got) == ERR_RANGE);

    CHECK(s3_head(g->s3, SPAN("b"), SPAN("k"), g->arena, &info, &g->f, &g->eb) == ERR_OK);
    CHECK_U64(info.size, SIZE);
    g->fake.body = NULL;
    CHECK(s3_head(g->s3, SPAN("b"), SPAN("k"), g->arena, &info, &g->f, &g->eb) ==
          ERR_NOT_FOUND);
    CHECK(get(g, &all, &info, &got) == ERR_NOT_FOUND);
    CHECK_STR(g->f.code, "NoSuchKey");
    CHECK(!g->f.retry);

    begin(g, 0, 0);
    g->fake.cut_times = 1;
    g->fake.cut_after = 100000;
    CHECK(get(g, &all, &info, &got) != ERR_OK);
    CHECK(got <= 100000);
}

static void
answers(struct rig *g)
{
    static const struct {
        int status;
        enum err rc;
        bool retry;
    } rows[] = {
        {403, ERR_DENIED, false},      {404, ERR_NOT_FOUND, false},
        {500, ERR_BACKEND, true},      {501, ERR_NOT_IMPLEMENTED, false},
        {503, ERR_BUSY, true},         {429, ERR_BUSY, true},
        {307, ERR_BACKEND, false},     {301, ERR_BACKEND, false},
        {400, ERR_BAD_REQUEST, false}, {507, ERR_NO_SPACE, true},
    };
    struct s3_get all = {.bucket = SPAN("b"), .key = SPAN("k")};
    struct s3_object_info info;
    uint64_t got;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum err rc;

        begin(g, 1, rows[i].status);
        g->fake.plain_errors = true;
        rc = get(g, &all, &info, &got);
        CHECK_STR(err_name(rc), err_name(rows[i].rc));
        CHECK(g->f.retry == rows[i].retry);
        CHECK(g->f.status == rows[i].status && g->eb.text[0] != '\0');
        CHECK_U64(g->fake.requests,
                  1); /* nothing is repeated here, no redirect followed */
    }
    g->fake.plain_errors = false;
}

static void
uploads(struct rig *g)
{
    struct s3_put p = {.bucket = SPAN("b"), .key = SPAN("k"), .size = SIZE};
    struct s3_part parts[] = {{1, SPAN("aa")}, {2, SPAN("bb")}};
    struct s3_call *call = NULL;
    struct span etag, id;

    begin(g, 0, 0);
    REQUIRE(s3_put_begin(g->s3, &p, &call, &g->eb) == ERR_OK);
    CHECK(s3_write(call, body, SIZE, &g->eb) == ERR_OK);
    CHECK(s3_put_finish(call, g->arena, &etag, &g->f, &g->eb) == ERR_OK);
    CHECK(span_is(etag, g->fake.etag));
    CHECK(g->fake.stored.len == SIZE && memcmp(g->fake.stored.at, body, SIZE) == 0);
    s3_end(&call);

    g->fake.document = "<InitiateMultipartUploadResult><UploadId>u/1</UploadId>"
                       "</InitiateMultipartUploadResult>";
    CHECK(s3_upload_begin(g->s3, SPAN("b"), SPAN("k"), NULL, 0, g->arena, &id, &g->f,
                          &g->eb) == ERR_OK);
    CHECK(span_is(id, "u/1"));
    CHECK_STR(g->fake.last_target, "/b/k?uploads=");
    g->fake.document = "<CompleteMultipartUploadResult><ETag>\"e-2\"</ETag>"
                       "</CompleteMultipartUploadResult>";
    CHECK(s3_upload_complete(g->s3, SPAN("b"), SPAN("k"), id, parts, 2, g->arena, &etag,
                             &g->f, &g->eb) == ERR_OK);
    CHECK_STR(g->fake.last_target, "/b/k?uploadId=u%2F1");
    /* 200 is a success only with the right document. */
    g->fake.document = "<Error><Code>InternalError</Code><Message>no</Message></Error>";
    CHECK(s3_upload_complete(g->s3, SPAN("b"), SPAN("k"), id, parts, 2, g->arena, &etag,
                             &g->f, &g->eb) == ERR_BACKEND);
    CHECK(g->f.retry && strcmp(g->f.code, "InternalError") == 0);
    g->fake.document = "";
    CHECK(s3_upload_complete(g->s3, SPAN("b"), SPAN("k"), id, parts, 2, g->arena, &etag,
                             &g->f, &g->eb) == ERR_BACKEND);
    CHECK(g->f.retry);
}

/* A page that would not fit where it is to go is an error, not the end of the process. */
static void
lists(struct rig *g)
{
    struct s3_list l = {
        .bucket = SPAN("b"), .prefix = SPAN("p/ q"), .delimiter = SPAN("/")};
    struct arena *small = arena_new(256, 1024);
    struct s3_list_page page;
    struct buf doc;

    begin(g, 0, 0);
    buf_init(&doc, 1u << 20);
    buf_puts(&doc, "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>true"
                   "</IsTruncated><NextContinuationToken>t</NextContinuationToken>");
    for (int i = 0; i < 200; i++)
        buf_printf(&doc, "<Contents><Key>k%03d%%20</Key><Size>%d</Size></Contents>", i,
                   i);
    buf_puts(&doc, "<CommonPrefixes><Prefix>a%2F</Prefix></CommonPrefixes>"
                   "</ListBucketResult>");
    buf_putc(&doc, '\0');
    g->fake.document = doc.at;
    CHECK(s3_list_objects(g->s3, &l, g->arena, &page, &g->f, &g->eb) == ERR_OK);
    CHECK_U64(page.count, 201);
    CHECK(page.truncated && span_is(page.next_token, "t"));
    CHECK(page.entries[0].is_prefix && span_is(page.entries[0].key, "a/"));
    CHECK(span_is(page.entries[200].key, "k199 ") && page.entries[200].size == 199);
    CHECK_SAYS(g->fake.last_target, "prefix=p%2F%20q");
    CHECK(s3_list_objects(g->s3, &l, small, &page, &g->f, &g->eb) == ERR_BACKEND);
    CHECK_SAYS(g->eb.text, "too large");
    g->fake.document = "<html>";
    CHECK(s3_list_objects(g->s3, &l, g->arena, &page, &g->f, &g->eb) == ERR_BACKEND);
    buf_fini(&doc);
    arena_free(&small);
}

static void
endpoints(void)
{
    static const char *const wrong[] = {
        "127.0.0.1:9000", "ftp://h",       "http://",
        "http://:80",     "http://h:0",    "http://h:65536",
        "http://u@h",     "http://h/path", "http://h\r\nX-Evil: a",
        "http://h?x",     "http://h#x",    "http://a b",
    };

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct s3_options o = {.endpoint = wrong[i]};
        struct s3_client *c = NULL;
        struct errbuf eb = {{0}};

        CHECK(s3_client_new(&o, &c, &eb) == ERR_BAD_REQUEST && c == NULL);
        CHECK(eb.text[0] != '\0');
        s3_client_free(&c);
    }
}

static void
world(void *arg)
{
    struct rig *g = arg;
    struct s3_options o = {
        .credentials = {.access_key = (char *)"AK", .secret_key = (char *)"secret"}};

    fake_start(&g->fake);
    g->arena = arena_new(4096, 1u << 20);
    o.endpoint = g->fake.endpoint;
    REQUIRE(s3_client_new(&o, &g->s3, &g->eb) == ERR_OK);
    objects(g);
    answers(g);
    uploads(g);
    lists(g);
    endpoints();
    s3_client_free(&g->s3);
    arena_free(&g->arena);
    fake_stop(&g->fake);
}

static void
test_against_a_server_of_our_own(void)
{
    static struct rig g;
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1};
    struct errbuf eb = {{0}};

    for (size_t i = 0; i < SIZE; i++)
        body[i] = (char)(i * 7 + i / 251);
    CHECK(rt_run(&o, world, &g, &eb) == ERR_OK);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_against_a_server_of_our_own);
    return check_done();
}
