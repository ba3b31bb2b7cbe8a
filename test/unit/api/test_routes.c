/* api: each row of docs/s3.md is sent to a server; each route stands behind the gate; what once ended the server, or let
 * a web page in, does not. Protects S4. */
#include <time.h>
#include <unistd.h>

#include "api/s3/s3.h"
#include "base/log.h"
#include "folder.h"
#include "rt/time.h"
#include "unit/api/api_rig.h"

static char folder[] = "/tmp/fb-api-XXXXXX";

/* A route's path with a real bucket and key, and its sub-resource. */
static void
target_of(char out[256], const char *path, const char *sub)
{
    const char *place = strcmp(path, "/") == 0         ? "/"
                        : strcmp(path, "/bucket") == 0 ? "/bkt"
                                                       : "/bkt/key";

    snprintf(out, 256, "%s%s%s%s", place, sub != NULL ? "?" : "", sub != NULL ? sub : "",
             sub != NULL && strcmp(sub, "uploadId") == 0 ? "=0&partNumber=1" : "");
}

static struct span
body_for(const char *method)
{
    return method[0] == 'P' ? SPAN("x") : (struct span){NULL, 0};
}

static int
send_route(struct site *s, const char *method, const char *target,
           const struct field *headers, size_t count, struct buf *out)
{
    struct ask q = {.method = method,
                    .target = target,
                    .body = body_for(method),
                    .headers = headers,
                    .header_count = count};

    return site_ask(s, &q, out);
}

/* ---- docs/s3.md ---- */

struct page_row {
    char operation[96], method[8], path[16], sub[32], header[48], here[16];
};

/* "| GetObject | `GET /bucket/key?sub` + `header` | works | note |" */
static bool
read_row(const char *line, struct page_row *out)
{
    char request[160] = "";
    const char *plus, *mark;

    *out = (struct page_row){.operation = ""};
    if (sscanf(line, "| %95[^|]| `%159[^|]| %15[a-z]", out->operation, request,
               out->here) != 3)
        return false;
    if (sscanf(request, "%7s %15[^?` ]", out->method, out->path) != 2)
        return false;
    mark = strchr(request, '?');
    if (mark != NULL)
        sscanf(mark, "?%31[^` ]", out->sub);
    plus = strstr(request, " + `");
    if (plus != NULL)
        sscanf(plus, " + `%47[^`]", out->header);
    return true;
}

#define ROWS_MAX 200
static struct page_row rows[ROWS_MAX];
static size_t row_count;

static void
read_page(void)
{
    FILE *f = fopen("docs/s3.md", "r");
    char line[512];

    REQUIRE(f != NULL);
    while (fgets(line, sizeof line, f) != NULL && row_count < ROWS_MAX)
        row_count += read_row(line, &rows[row_count]);
    fclose(f);
}

static void
each_row_answers_as_the_page_says(struct site *s)
{
    for (size_t i = 0; i < row_count; i++) {
        const struct page_row *r = &rows[i];
        struct field header = {span_of(r->header), SPAN("x")};
        bool not_built = strcmp(r->here, "not") == 0;
        char target[256];
        struct buf out;
        int status;

        target_of(target, r->path, r->sub[0] != '\0' ? r->sub : NULL);
        status = send_route(s, r->method, target, &header, r->header[0] != '\0', &out);
        CHECK(not_built || strcmp(r->here, "works") == 0 ||
              strcmp(r->here, "differs") == 0);
        CHECK(status != 0 && status != 405);
        CHECK((status == 501) == not_built);
        if (status == 501)
            CHECK(out.len > 0 && strstr(out.at, "NotImplemented") != NULL &&
                  strcasestr(out.at, r->header[0] != '\0' ? r->header : r->sub) != NULL);
        if ((status == 501) != not_built || status == 405)
            fprintf(stderr, "  ... %s: %s %s is %d\n", r->operation, r->method, target,
                    status);
        buf_fini(&out);
    }
}

static void
each_route_is_on_the_page(void)
{
    struct s3_route_name n;
    size_t routes = 0;

    for (; s3_route_at(routes, &n); routes++) {
        bool found = false;

        for (size_t i = 0; i < row_count && !found; i++)
            found = strcmp(rows[i].method, n.method) == 0 &&
                    strcmp(rows[i].path, n.path) == 0 &&
                    strcmp(rows[i].sub, n.sub != NULL ? n.sub : "") == 0 &&
                    strcmp(rows[i].here, "not") != 0;
        CHECK(found);
        if (!found)
            fprintf(stderr, "  ... docs/s3.md lacks %s %s?%s\n", n.method, n.path,
                    n.sub != NULL ? n.sub : "");
    }
    CHECK(routes > 30 && row_count > routes);
}

/* Every name that selects something, with every method: an operation, or 501 by its name. */
static void
no_sub_resource_is_ignored(struct site *s)
{
    static const char *const methods[] = {"GET", "PUT", "POST", "DELETE"};
    static const char *const paths[] = {"/bucket", "/bucket/key"};

    for (size_t i = 0; s3_sub_at(i) != NULL; i++)
        for (size_t m = 0; m < ARRAY_LEN(methods); m++)
            for (size_t p = 0; p < ARRAY_LEN(paths); p++) {
                struct s3_route_name n = {.sub = NULL};
                bool routed = false;
                char target[256];
                struct buf out;
                int status;

                for (size_t r = 0; s3_route_at(r, &n) && !routed; r++)
                    routed = n.sub != NULL && strcmp(n.sub, s3_sub_at(i)) == 0 &&
                             strcmp(n.method, methods[m]) == 0 &&
                             strcmp(n.path, paths[p]) == 0;
                target_of(target, paths[p], s3_sub_at(i));
                status = send_route(s, methods[m], target, NULL, 0, &out);
                CHECK(routed ? status != 501 : status == 501);
                if (routed ? status == 501 : status != 501)
                    fprintf(stderr, "  ... %s %s is %d\n", methods[m], target, status);
                buf_fini(&out);
            }
}

/* ---- the gate ---- */

static void
authorization(char out[320], const char *key, const char *date)
{
    snprintf(out, 320,
             "AWS4-HMAC-SHA256 Credential=%s/%.8s/us-east-1/s3/aws4_request, "
             "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
             "Signature=%064d",
             key, date, 7);
}

/* No credentials, an unknown user, and a wrong signature. */
static void
refused(struct site *s, const char *method, const char *target, const char *key)
{
    static const char *const codes[] = {"AccessDenied", "InvalidAccessKeyId",
                                        "SignatureDoesNotMatch"};
    time_t now = (time_t)(rt_wall_ns() / 1000000000u);
    char date[32], auth[2][320];
    struct tm tm;

    strftime(date, sizeof date, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
    authorization(auth[0], "UNKNOWN", date);
    authorization(auth[1], key, date);
    for (int i = 0; i < 3; i++) {
        struct field headers[] = {
            {SPAN("x-amz-date"), span_of(date)},
            {SPAN("x-amz-content-sha256"), SPAN("UNSIGNED-PAYLOAD")},
            {SPAN("authorization"), span_of(auth[i == 2])}};
        struct buf out;
        int status = send_route(s, method, target, headers, i == 0 ? 0 : 3, &out);

        CHECK_U64((unsigned)status, 403);
        if (strcmp(method, "HEAD") != 0)
            CHECK_SAYS(out.len > 0 ? out.at : "", codes[i]);
        if (status != 403)
            fprintf(stderr, "  ... %s %s, case %d\n", method, target, i);
        buf_fini(&out);
    }
}

static void
the_gate_is_before_every_route(struct site *s)
{
    static const struct {
        const char *method, *target;
    } more[] = {
        {"GET", "/_/"},          {"GET", "/_/metrics"},   {"GET", "/_/stat"},
        {"GET", "/_/buckets"},   {"POST", "/_/buckets"},  {"GET", "/_/bench/16"},
        {"HEAD", "/_/metrics"},  {"GET", "/_/nothing"},   {"POST", "/_/livez"},
        {"GET", "/s3/bkt/key"},  {"PUT", "/bkt?policy"},  {"POST", "/bkt/key"},
        {"DELETE", "/"},         {"GET", "/%5F/metrics"}, {"GET", "/_/livez/"},
        {"GET", "/_/readyz%20"}, {"PUT", "/BAD_NAME"},
    };
    struct s3_route_name n;
    char *text = NULL, *key, target[256];
    size_t len;

    REQUIRE(rt_file_load(s->dir, "credentials", 4096, &text, &len, &s->eb) == ERR_OK);
    key = strstr(text, "aws_access_key_id = ") + strlen("aws_access_key_id = ");
    *strchr(key, '\n') = '\0';
    for (size_t i = 0; s3_route_at(i, &n); i++) {
        if (n.need == NEED_NOTHING || n.need == NEED_FORM) /* not signed: test_matrix */
            continue;
        target_of(target, n.path, n.sub);
        refused(s, n.method, target, key);
    }
    for (size_t i = 0; i < ARRAY_LEN(more); i++)
        refused(s, more[i].method, more[i].target, key);
    free(text);
}

static int
status_of(struct site *s, const char *method, const char *target)
{
    struct ask q = {.method = method, .target = target};

    return site_status(s, &q);
}

static void
probes_are_open(struct site *s)
{
    CHECK_U64((unsigned)status_of(s, "GET", "/_/livez"), 200);
    CHECK_U64((unsigned)status_of(s, "GET", "/_/readyz"), 200);
    api_set_ready(s->api, false);
    CHECK_U64((unsigned)status_of(s, "GET", "/_/livez"), 200);
    CHECK_U64((unsigned)status_of(s, "GET", "/_/readyz"), 503);
    api_set_ready(s->api, true);
}

struct drained {
    struct site *site;
    bool whole;
};

static void
drain(void *arg)
{
    struct drained *d = arg;

    d->whole = http_server_drain(d->site->server, deadline_in_ms(PATIENCE_MS));
}

/* Last of all: the server is on its way out. */
static void
probes_answer_while_draining(struct site *s)
{
    struct drained d = {.site = s};
    struct rt_group g;

    rt_group_begin(&g);
    CHECK(rt_group_start(&g, drain, &d) == ERR_OK);
    rt_yield();
    CHECK_U64((unsigned)status_of(s, "GET", "/_/livez"), 200);
    CHECK_U64((unsigned)status_of(s, "GET", "/_/readyz"), 503);
    CHECK_U64((unsigned)status_of(s, "GET", "/bkt/key"), 503);
    rt_group_join(&g);
    CHECK(d.whole);
}

/* ---- what went wrong once ---- */

static void
a_web_page_may_not_write(struct site *s)
{
    static const struct {
        const char *method, *origin;
        int status;
    } cases[] = {
        {"PUT", "http://evil.example", 403},       {"PUT", "null", 403},
        {"DELETE", "https://127.0.0.1.evil", 403}, {"PUT", "http://localhost:3000", 200},
        {"PUT", "http://127.0.0.1", 200},          {"GET", "http://evil.example", 200},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct field origin = {SPAN("origin"), span_of(cases[i].origin)};
        struct buf out;

        CHECK_U64((unsigned)send_route(s, cases[i].method, "/bkt/page", &origin, 1, &out),
                  (unsigned)cases[i].status == 200 && cases[i].method[0] == 'G'
                      ? 200u
                      : (unsigned)cases[i].status);
        buf_fini(&out);
    }
}

/* 10,000 parts with checksums went past the request's arena, which ends the process. */
static void
a_complete_of_all_parts(struct site *s)
{
    struct ask q = {.method = "POST", .target = "/bkt/many?uploads"};
    char target[128], *id;
    struct buf out, doc;

    CHECK_U64((unsigned)site_ask(s, &q, &out), 200);
    id = strstr(out.at, "<UploadId>");
    REQUIRE(id != NULL);
    snprintf(target, sizeof target, "/bkt/many?uploadId=%.32s",
             id + strlen("<UploadId>"));
    buf_fini(&out);
    buf_init(&doc, 4u << 20);
    buf_puts(&doc, "<CompleteMultipartUpload>");
    for (unsigned i = 1; i <= 10000; i++)
        buf_printf(&doc,
                   "<Part><PartNumber>%u</PartNumber><ETag>&quot;"
                   "0123456789abcdef0123456789abcdef&quot;</ETag><ChecksumSHA256>"
                   "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=</ChecksumSHA256></Part>",
                   i);
    buf_puts(&doc, "</CompleteMultipartUpload>");
    CHECK(!doc.full);
    q.target = target;
    q.body = buf_span(&doc);
    CHECK_U64((unsigned)site_ask(s, &q, &out), 400);
    CHECK_SAYS(out.at, "InvalidPart");
    buf_fini(&out);
    buf_fini(&doc);
}

static void
odd_parameters(struct site *s)
{
    char target[2300];

    CHECK_U64((unsigned)status_of(s, "GET",
                                  "/bkt/page?response-content-type=a%0d%0ax-evil:%20b"),
              400);
    memset(target, 'k', sizeof target);
    memcpy(target, "/bkt?uploads&prefix=", 20);
    target[sizeof target - 1] = '\0';
    CHECK_U64((unsigned)status_of(s, "GET", target), 400);
    memcpy(target, "/bkt?list-type=2&pre", 20);
    memcpy(target + 20, "fix=", 4);
    CHECK_U64((unsigned)status_of(s, "GET", target), 400);
    CHECK_U64((unsigned)status_of(s, "GET", "/bkt?uploads&prefix=zz&key-marker=a"), 200);
}

/* ---- running ---- */

static void
open_world(void *arg)
{
    struct site s = {.path = folder};
    struct ask q = {.method = "PUT", .target = "/bkt", .body = SPAN("")};

    (void)arg;
    REQUIRE(site_open(&s) == ERR_OK);
    CHECK_U64((unsigned)site_status(&s, &q), 200);
    q.target =
        "/bkt/stays"; /* so that the row of DeleteBucket finds a bucket that is not empty */
    CHECK_U64((unsigned)site_status(&s, &q), 200);
    each_row_answers_as_the_page_says(&s);
    no_sub_resource_is_ignored(&s);
    a_web_page_may_not_write(&s);
    a_complete_of_all_parts(&s);
    odd_parameters(&s);
    probes_answer_while_draining(&s);
    site_close(&s);
}

static void
guarded_world(void *arg)
{
    struct site s = {.path = folder, .auth_required = true, .epoch = 1};

    (void)arg;
    REQUIRE(site_open(&s) == ERR_OK);
    the_gate_is_before_every_route(&s);
    probes_are_open(&s);
    site_close(&s);
}

static void
test_the_page_the_table_and_the_server_agree(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1};
    struct errbuf eb = {{0}};

    REQUIRE(mkdtemp(folder) != NULL);
    read_page();
    each_route_is_on_the_page();
    CHECK(rt_run(&o, open_world, NULL, &eb) == ERR_OK);
    CHECK(rt_run(&o, guarded_world, NULL, &eb) == ERR_OK);
    folder_remove(folder);
}

/* ---- front-ends ---- */

static void
test_the_prefix_chooses_the_front_end(void)
{
    static const struct {
        const char *path;
        bool bucket_in_host, objects;
        const char *prefix;
    } cases[] = {
        {"/", false, true, "/"},          {"/bkt/key", false, true, "/"},
        {"/_/stat", false, false, "/_/"}, {"/_/", false, false, "/_/"},
        {"/_", false, true, "/"},         {"/s3", false, true, "/s3"},
        {"/s3/bkt", false, true, "/s3"},  {"/s3bucket/key", false, true, "/"},
        {"/_/stat", true, true, "/"},     {"/s3/bkt", true, true, "/"},
        {"", false, true, "/"},           {"*", false, true, "/"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct front_end *f =
            front_end_of(span_of(cases[i].path), cases[i].bucket_in_host);

        CHECK_STR(f->prefix, cases[i].prefix);
        CHECK(f->serves_objects == cases[i].objects);
        CHECK(f->handle != NULL && f->identify != NULL && f->write_error != NULL);
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_the_prefix_chooses_the_front_end);
    RUN(test_the_page_the_table_and_the_server_agree);
    return check_done();
}
