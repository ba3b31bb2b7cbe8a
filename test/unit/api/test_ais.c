/* ais: each row of the route table stands in docs/ais.md and behind the gate; objects, versions, checksums, appends,
 * uploads and listings hold what the contract says; bad input gets an error document of AIS, never a 5xx. Protects S4. */
#include <unistd.h>

#include "api/ais/ais.h"
#include "api/ais/documents.h"
#include "api/ais/token.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "folder.h"
#include "rt/time.h"
#include "unit/api/api_rig.h"

static char folder[32];
#define KEY "a shared key of tests"

static const char *const methods[] = {
#define X(name) [HTTP_METHOD_##name] = #name,
    HTTP_METHOD_TABLE(X)
#undef X
};

/* ---- asking ---- */

static char answer[1 << 20];

/* The status; the body in `answer`. `credentials`: of Authorization, or NULL. */
static int
ask_with(struct site *s, const char *method, const char *target, const char *body,
         const char *credentials)
{
    struct field headers[] = {{SPAN("authorization"), span_of(credentials)}};
    struct ask q = {.method = method,
                    .target = target,
                    .body = body != NULL ? span_of(body) : (struct span){NULL, 0},
                    .headers = headers,
                    .header_count = credentials != NULL ? 1 : 0};
    struct buf out;
    int status = site_ask(s, &q, &out);

    snprintf(answer, sizeof answer, "%.*s", (int)MIN(out.len, sizeof answer - 1), out.at);
    buf_fini(&out);
    return status;
}

static int
ask_ais(struct site *s, const char *method, const char *target, const char *body)
{
    return ask_with(s, method, target, body, NULL);
}

static void
wants(struct site *s, const char *method, const char *target, const char *body,
      int status, const char *says)
{
    int got = ask_ais(s, method, target, body);

    CHECK_U64((unsigned)got, (unsigned)status);
    CHECK_SAYS(answer, says);
    if (got != status)
        fprintf(stderr, "  ... %s %s: %s\n", method, target, answer);
}

/* ---- the table ---- */

static void
target_of_row(const struct ais_route *r, char out[256])
{
    const char *path = ais_place_path(r->place);
    char place[96];

    snprintf(place, sizeof place, "%s", path);
    if (r->place == AIS_OBJECT)
        snprintf(place, sizeof place, "/v1/objects/bkt/key");
    else if (r->place == AIS_OBJECTS)
        snprintf(place, sizeof place, "/v1/objects/bkt");
    else if (r->place == AIS_BUCKET)
        snprintf(place, sizeof place, "/v1/buckets/bkt");
    if (r->select == AIS_BY_QUERY || r->select == AIS_BY_KEY || r->select == AIS_BY_WHAT)
        snprintf(out, 256, "%s?%s=x", place, r->select == AIS_BY_WHAT ? "what" : r->name);
    else
        snprintf(out, 256, "%s?what=smap", place);
}

static void
body_of_row(const struct ais_route *r, char out[128])
{
    snprintf(out, 128, "{\"action\":\"%s\",\"value\":{}}",
             r->select == AIS_BY_ACTION ? r->name : "");
}

static void
each_route_is_on_the_page(void)
{
    static char page[1 << 16];
    FILE *f = fopen("docs/ais.md", "r");
    size_t n;

    REQUIRE(f != NULL);
    n = fread(page, 1, sizeof page - 1, f);
    page[n] = '\0';
    fclose(f);
    for (size_t i = 0; ais_route_at(i) != NULL; i++) {
        const struct ais_route *r = ais_route_at(i);
        const char *name = r->name != NULL ? r->name : "";
        char request[128];
        bool found = false;

        snprintf(request, sizeof request, "`%s %s`", methods[r->method],
                 ais_place_path(r->place));
        for (const char *at = page; (at = strstr(at, request)) != NULL && !found; at++) {
            const char *end = strchr(at, '\n'), *word = strstr(at, name);

            found = word != NULL && end != NULL && word < end;
        }
        CHECK(found);
        if (!found)
            fprintf(stderr, "  ... docs/ais.md lacks %s %s\n", request, name);
    }
}

static void
each_route_is_behind_the_gate(struct site *s)
{
    for (size_t i = 0; ais_route_at(i) != NULL; i++) {
        const struct ais_route *r = ais_route_at(i);
        char target[256], body[128];
        const char *sent =
            r->select == AIS_BY_ACTION || r->method == HTTP_METHOD_PUT ? body : NULL;
        int none, rubbish, basic;

        if (r->place == AIS_HEALTH)
            continue;
        target_of_row(r, target);
        body_of_row(r, body);
        none = ask_with(s, methods[r->method], target, sent, NULL);
        rubbish = ask_with(s, methods[r->method], target, sent, "Bearer rubbish");
        basic = ask_with(s, methods[r->method], target, sent, "Basic bm86dGhpbmc=");
        /* These have rights of each bucket, or make none: an anonymous caller gets an empty answer. */
        CHECK(none == 401 || r->scope == AIS_ON_NOTHING);
        CHECK_U64((unsigned)rubbish, 401);
        CHECK_U64((unsigned)basic, 401);
        if (none != 401 || rubbish != 401 || basic != 401)
            fprintf(stderr, "  ... %s %s %s: %d %d %d\n", methods[r->method], target,
                    body, none, rubbish, basic);
    }
    CHECK_U64((unsigned)ask_with(s, "GET", "/v1/health", NULL, NULL), 200);
}

/* ---- tokens ---- */

static size_t
put_url64(const void *data, size_t len, char *out)
{
    size_t n = base64_encode(data, len, out);

    while (n > 0 && out[n - 1] == '=')
        n--;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(out[i] == '+' ? '-' : out[i] == '/' ? '_' : out[i]);
    out[n] = '\0';
    return n;
}

/* "Bearer x" with these claims, signed with `key`. */
static void
make_token(const char *header, const char *claims, const char *key, char out[2048])
{
    size_t n = (size_t)sprintf(out, "Bearer ");
    unsigned char mac[32];

    n += put_url64(header, strlen(header), out + n);
    out[n++] = '.';
    n += put_url64(claims, strlen(claims), out + n);
    hash_hmac_sha256(key, strlen(key), out + 7, n - 7, mac);
    out[n++] = '.';
    put_url64(mac, sizeof mac, out + n);
}

#define HS256 "{\"alg\":\"HS256\",\"typ\":\"JWT\"}"

static void
tokens_carry_rights(struct site *s)
{
    static const struct {
        const char *header, *claims, *key;
        int get, put, other, smap;
        const char *says; /* to the GET */
    } rows[] = {
        {HS256, "{\"sub\":\"a\",\"exp\":9999999999,\"admin\":true}", KEY, 404, 200, 404,
         200, "ais://bkt/none"},
        {HS256,
         "{\"sub\":\"a\",\"exp\":9999999999,\"clusters\":[{\"id\":\"\",\"perm\":\"1\"}]}",
         KEY, 404, 403, 404, 403, "ais://bkt/none"},
        {HS256,
         "{\"sub\":\"a\",\"exp\":9999999999,\"clusters\":[{\"id\":\"\",\"perm\":\"1\"}],"
         "\"buckets\":[{\"bck\":{\"name\":\"bkt\",\"provider\":\"ais\"},\"perm\":\"4\"}]"
         "}",
         KEY, 403, 200, 404, 403, "insufficient permissions"},
        {HS256, "{\"sub\":\"a\",\"exp\":9999999999}", KEY, 403, 403, 403, 403,
         "insufficient permissions"},
        {HS256, "{\"sub\":\"a\",\"exp\":1,\"admin\":true}", KEY, 401, 401, 401, 401,
         "token expired"},
        {HS256, "{\"sub\":\"a\",\"admin\":true}", KEY, 401, 401, 401, 401, "exp"},
        {HS256, "{\"exp\":9999999999,\"admin\":true}", KEY, 401, 401, 401, 401, "sub"},
        {HS256, "{\"sub\":\"a\",\"exp\":9999999999,\"admin\":true}", "another", 401, 401,
         401, 401, "signature"},
        {"{\"alg\":\"none\"}", "{\"sub\":\"a\",\"exp\":9999999999,\"admin\":true}", KEY,
         401, 401, 401, 401, "HS256"},
        {HS256, "[1]", KEY, 401, 401, 401, 401, "JSON Web Token"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char token[2048];

        make_token(rows[i].header, rows[i].claims, rows[i].key, token);
        CHECK_U64((unsigned)ask_with(s, "GET", "/v1/objects/bkt/none", NULL, token),
                  (unsigned)rows[i].get);
        CHECK_SAYS(answer, rows[i].says);
        CHECK_U64((unsigned)ask_with(s, "PUT", "/v1/objects/bkt/some", "x", token),
                  (unsigned)rows[i].put);
        CHECK_U64((unsigned)ask_with(s, "GET", "/v1/objects/other/none", NULL, token),
                  (unsigned)rows[i].other);
        CHECK_U64((unsigned)ask_with(s, "GET", "/v1/daemon?what=smap", NULL, token),
                  (unsigned)rows[i].smap);
    }
}

/* What a token opened is not served from the response cache to a caller without one. */
static void
cached_responses_keep_to_their_callers(struct site *s)
{
    static const char *const targets[] = {"/v1/objects/bkt/cached",
                                          "/v1/objects/bkt/cached?provider=ais"};
    char token[2048];

    make_token(HS256, "{\"sub\":\"a\",\"exp\":9999999999,\"admin\":true}", KEY, token);
    CHECK_U64((unsigned)ask_with(s, "PUT", targets[0], "secret", token), 200);
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        for (int k = 0; k < 3; k++)
            CHECK_U64((unsigned)ask_with(s, "GET", targets[i], NULL, token), 200);
        CHECK_U64((unsigned)ask_with(s, "GET", targets[i], NULL, NULL), 401);
    }
}

/* A GET with a query is served from the response cache; a write, another object and other parameters are not. */
static void
cached_responses_follow_writes(struct site *s)
{
    int64_t hits;

    wants(s, "PUT", "/v1/objects/bkt/hot", "one", 200, "");
    for (int k = 0; k < 3; k++)
        wants(s, "GET", "/v1/objects/bkt/hot?provider=ais", NULL, 200, "one");
    hits = metric_read(M_RESPONSE_CACHE_HITS, 0);
    wants(s, "GET", "/v1/objects/bkt/hot?provider=ais", NULL, 200, "one");
    CHECK(metric_read(M_RESPONSE_CACHE_HITS, 0) > hits);
    wants(s, "PUT", "/v1/objects/bkt/hot", "two", 200, "");
    wants(s, "GET", "/v1/objects/bkt/hot?provider=ais", NULL, 200, "two");
    wants(s, "GET", "/v1/objects/bkt/hot?provider=aws", NULL, 404, "aws://bkt");
    wants(s, "GET", "/v1/objects/bkt/hot?provider=ais&archpath=x", NULL, 400, "");
    wants(s, "DELETE", "/v1/objects/bkt/hot", NULL, 200, "");
    wants(s, "GET", "/v1/objects/bkt/hot?provider=ais", NULL, 404, "ais://bkt/hot");
}

/* ---- objects ---- */

static void
versions_count_from_one(struct site *s)
{
    wants(s, "POST", "/v1/buckets/ver", "{\"action\":\"create-bck\"}", 200, "");
    wants(s, "POST", "/v1/buckets/ver", "{\"action\":\"create-bck\"}", 409,
          "bucket \\\"ais://ver\\\" already exists");
    for (int i = 1; i <= 3; i++) {
        char says[32];

        wants(s, "PUT", "/v1/objects/ver/o",
              i == 1   ? "one"
              : i == 2 ? "two"
                       : "three",
              200, "");
        snprintf(says, sizeof says, "\"version\":\"%d\"", i);
        wants(
            s, "GET", "/v1/buckets/ver",
            "{\"action\":\"list\",\"value\":{\"props\":\"name,size,checksum,version\"}}",
            200, says);
    }
    wants(s, "GET", "/v1/objects/ver/o", NULL, 200, "three");
    wants(s, "DELETE", "/v1/objects/ver/o", NULL, 200, "");
    wants(s, "DELETE", "/v1/objects/ver/o", NULL, 404, "ais://ver/o");
    wants(s, "GET", "/v1/objects/ver/o", NULL, 404, "ErrNotFound");
}

static int
put_sum(struct site *s, const char *type, const char *value)
{
    struct field headers[] = {{SPAN("ais-checksum-type"), span_of(type)},
                              {SPAN("ais-checksum-value"), span_of(value)}};
    struct ask q = {.method = "PUT",
                    .target = "/v1/objects/bkt/sum",
                    .body = SPAN("abc"),
                    .headers = headers,
                    .header_count = 2};
    struct buf out;
    int status = site_ask(s, &q, &out);

    snprintf(answer, sizeof answer, "%.*s", (int)out.len, out.at != NULL ? out.at : "");
    buf_fini(&out);
    return status;
}

/* Every type is verified, whatever the bucket's is; the stored one is of the bucket's type. */
static void
checksums_are_verified(struct site *s)
{
    static const struct {
        const char *type, *value;
    } right[] = {
        {"xxhash", "44bc2cf5ad770999"},
        {"xxhash2", "44bc2cf5ad770999"},
        {"md5", "900150983cd24fb0d6963f7d28e17f72"},
        {"crc32c", "364b3fb7"},
        {"sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"sha512", "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
                   "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"},
    };

    for (size_t i = 0; i < ARRAY_LEN(right); i++) {
        char says[64];

        CHECK_U64((unsigned)put_sum(s, right[i].type, right[i].value), 200);
        CHECK_U64((unsigned)put_sum(s, right[i].type, "badchecksum"), 400);
        snprintf(says, sizeof says, "BAD DATA CHECKSUM: %s(badchecksum != %.16s",
                 right[i].type, right[i].value);
        CHECK_SAYS(answer, says);
        CHECK_SAYS(answer, "ErrBadCksum");
        wants(
            s, "GET", "/v1/buckets/bkt",
            "{\"action\":\"list\",\"value\":{\"prefix\":\"sum\",\"props\":\"checksum\"}}",
            200, "\"checksum\":\"44bc2cf5ad770999\"");
    }
    CHECK_U64((unsigned)put_sum(s, "crc99", "1"), 400);
}

/* The same checksum again changes nothing, unless the client says so. */
static void
same_bytes_are_no_new_version(struct site *s)
{
    wants(s, "DELETE", "/v1/objects/bkt/sum", NULL, 200, "");
    for (int i = 0; i < 3; i++)
        CHECK_U64((unsigned)put_sum(s, "xxhash2", "44bc2cf5ad770999"), 200);
    wants(s, "GET", "/v1/buckets/bkt",
          "{\"action\":\"list\",\"value\":{\"prefix\":\"sum\",\"props\":\"version\"}}",
          200, "\"version\":\"1\"");
}

static void
uploads_need_all_their_parts(struct site *s)
{
    char id[64], target[160];

    wants(s, "POST", "/v1/objects/bkt/mp", "{\"action\":\"mpt-upload\"}", 200, "");
    snprintf(id, sizeof id, "%.60s", answer);
    snprintf(target, sizeof target, "/v1/objects/bkt/mp?uploadId=%s&partNumber=2", id);
    wants(s, "PUT", target, "two", 200, "");
    wants(s, "PUT", target, "", 400, "invalid size (0)");
    snprintf(target, sizeof target, "/v1/objects/bkt/mp?uploadId=%s&partNumber=1", id);
    wants(s, "PUT", target, "one", 200, "");
    snprintf(target, sizeof target, "/v1/objects/bkt/mp?uploadId=%s&partNumber=0", id);
    wants(s, "PUT", target, "one", 400, "");
    snprintf(target, sizeof target, "/v1/objects/bkt/mp?uploadId=%s", id);
    wants(s, "POST", target, "{\"action\":\"mpt-complete\",\"value\":[]}", 400,
          "no chunks");
    wants(s, "POST", target,
          "{\"action\":\"mpt-complete\",\"value\":[{\"part-number\":1}]}", 400,
          "partial completion is not allowed");
    wants(s, "POST", target,
          "{\"action\":\"mpt-complete\",\"value\":[{\"part-number\":1},{\"part-number\":"
          "1}]}",
          400, "partial completion is not allowed");
    wants(s, "GET", "/v1/objects/bkt/mp", NULL, 404, "ais://bkt/mp");
    wants(s, "POST", target,
          "{\"action\":\"mpt-complete\",\"value\":[{\"part-number\":2},{\"part-number\":"
          "1}]}",
          200, "");
    wants(s, "GET", "/v1/objects/bkt/mp", NULL, 200, "onetwo");
    wants(s, "POST", target,
          "{\"action\":\"mpt-complete\",\"value\":[{\"part-number\":1},{\"part-number\":"
          "2}]}",
          404, "does not exist");
    wants(s, "PUT", "/v1/objects/bkt/mp?uploadId=nothing&partNumber=1", "x", 404,
          "does not exist");
}

static void
names_and_namespaces(struct site *s)
{
    wants(s, "POST", "/v1/buckets/AIS_only", "{\"action\":\"create-bck\"}", 200, "");
    wants(s, "PUT", "/v1/objects/AIS_only/k", "here", 200, "");
    wants(s, "GET", "/s3/AIS_only/k", NULL, 200, "here");
    wants(s, "PUT", "/s3/AIS_only2", NULL, 400, "InvalidBucketName");
    wants(s, "POST", "/v1/buckets/bkt?namespace=%40%23ns", "{\"action\":\"create-bck\"}",
          200, "");
    wants(s, "PUT", "/v1/objects/bkt/k?namespace=%40%23ns", "inside", 200, "");
    wants(s, "GET", "/v1/objects/bkt/k?namespace=%40%23ns", NULL, 200, "inside");
    wants(s, "GET", "/v1/objects/bkt/k", NULL, 404, "ais://bkt/k");
    wants(s, "GET", "/v1/objects/bkt/k?provider=aws", NULL, 404, "aws://bkt");
    wants(s, "GET", "//v1/objects/AIS_only/k", NULL, 200, "here");
    wants(s, "DELETE", "/v1/buckets/AIS_only", "{\"action\":\"destroy-bck\"}", 200, "");
    wants(s, "GET", "/v1/objects/AIS_only/k", NULL, 404,
          "bucket \\\"ais://AIS_only\\\" does not exist");
}

/* What is wrong is said, with a status that clients do not repeat. */
static void
bad_input_is_no_fault_of_ours(struct site *s)
{
    static const struct {
        const char *method, *target, *body;
        int status;
    } rows[] = {
        {"GET", "/v1/nowhere", NULL, 404},
        {"GET", "/v1", NULL, 404},
        {"GET", "/v1/daemon?what=nothing", NULL, 400},
        {"GET", "/v1/reverse/daemon?what=smap", NULL, 404},
        {"GET", "/v1/objects/bkt/%zz", NULL, 400},
        {"GET", "/v1/objects/bkt/a/../b", NULL, 400},
        {"GET", "/v1/objects/bkt/dir/", NULL, 400},
        {"PUT", "/v1/objects/bkt/%FF", "x", 400},
        {"PUT", "/v1/objects/nobucket/k", "x", 404},
        {"PUT", "/v1/objects/bkt/k?object_to=rubbish", NULL, 400},
        {"PUT", "/v1/objects/bkt/nosuch?object_to=ais/%40%23/nobucket/x", NULL, 404},
        {"PUT", "/v1/objects/bkt/k?append_type=flush", NULL, 400},
        {"PUT", "/v1/objects/bkt/k?append_type=append&append_handle=rubbish", "x", 400},
        {"PUT", "/v1/objects/bkt/k?append_type=prepend", "x", 400},
        {"POST", "/v1/buckets/bkt", "{", 400},
        {"POST", "/v1/buckets/bkt", "[]", 400},
        {"POST", "/v1/buckets/bkt", "{\"action\":7}", 400},
        {"POST", "/v1/buckets/bkt", "{\"action\":\"nothing\"}", 400},
        {"POST", "/v1/buckets/a/b", "{\"action\":\"create-bck\"}", 400},
        {"POST", "/v1/buckets/..", "{\"action\":\"create-bck\"}", 400},
        {"POST", "/v1/buckets/", "{\"action\":\"create-bck\"}", 400},
        {"POST", "/v1/buckets/b%20b", "{\"action\":\"create-bck\"}", 400},
        {"POST", "/v1/buckets/new?provider=other", "{\"action\":\"create-bck\"}", 400},
        {"POST", "/v1/buckets/new",
         "{\"action\":\"create-bck\",\"value\":{\"nothing\":1}}", 400},
        {"POST", "/v1/buckets/new",
         "{\"action\":\"create-bck\",\"value\":{\"checksum\":{\"type\":\"x\"}}}", 400},
        {"PATCH", "/v1/buckets/bkt",
         "{\"action\":\"set-bprops\",\"value\":{\"mirror\":{\"enabled\":1}}}", 400},
        {"PATCH", "/v1/buckets/bkt",
         "{\"action\":\"set-bprops\",\"value\":{\"access\":\"-1\"}}", 400},
        {"GET", "/v1/buckets/bkt", "{\"action\":\"list\",\"value\":[]}", 400},
        {"GET", "/v1/buckets/bkt", "{\"action\":\"list\",\"value\":{\"pagesize\":\"x\"}}",
         400},
        {"GET", "/v1/buckets/bkt",
         "{\"action\":\"list\",\"value\":{\"props\":\"colour\"}}", 400},
        {"GET", "/v1/buckets/bkt", "{\"action\":\"list\",\"value\":{\"flags\":-1}}", 400},
        {"PATCH", "/v1/objects/bkt/sum", "{\"value\":{\"a b\":\"c\"}}", 400},
        {"PATCH", "/v1/objects/bkt/sum", "{\"value\":{\"a\":\"c\\r\\nd\"}}", 400},
        {"PATCH", "/v1/objects/bkt/sum", "{\"value\":[]}", 400},
        {"PUT", "/v1/cluster/set-config?nothing.at.all=1", NULL, 400},
        {"DELETE", "/v1/objects/bkt/sum", "{\"action\":\"evict-listrange\"}", 400},
        {"DELETE", "/v1/buckets/bkt", "{\"action\":\"evict-remote-bck\"}", 400},
        {"PUT", "/v1/health", NULL, 405},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int status = ask_ais(s, rows[i].method, rows[i].target, rows[i].body);

        CHECK_U64((unsigned)status, (unsigned)rows[i].status);
        if (status != 405)
            CHECK_SAYS(answer, "\"message\":");
        if (status != rows[i].status)
            fprintf(stderr, "  ... %s %s %s: %s\n", rows[i].method, rows[i].target,
                    rows[i].body != NULL ? rows[i].body : "", answer);
    }
}

/* Each names the field. The bucket "bkt" has no shards. */
static void
dsort_specs_are_checked(struct site *s)
{
#define SPEC(more)                                                                       \
    "{\"input_bck\":{\"name\":\"bkt\"},\"input_format\":{\"template\":\"in-{0..3}\"},"   \
    "\"input_extension\":\".tar\",\"output_format\":\"new-%03d\","                       \
    "\"output_shard_size\":\"10KB\"" more "}"
    static const struct {
        const char *body;
        int status;
        const char *says;
    } rows[] = {
        {"{}", 400, "input_bck"},
        {"{\"input_bck\":{\"name\":\"bkt\"}}", 400, "input_format"},
        {SPEC(",\"input_bck\":{\"name\":\"none\"}"), 404, "ais://none"},
        {SPEC(",\"input_format\":{\"objnames\":[1]}"), 400, "input_format.objnames"},
        {SPEC(",\"input_format\":{\"objnames\":[\"a\",\"\"]}"), 400, "name 1"},
        {SPEC(",\"input_format\":{\"template\":\"in\"}"), 501, "input_extension"},
        {SPEC(",\"input_format\":{\"template\":\"a\\nb{0..1}\"}"), 400, "line end"},
        {SPEC(",\"output_format\":\"one\""), 400, "output_format"},
        {SPEC(",\"output_extension\":\".txt\""), 400, "output_extension"},
        {SPEC(",\"output_shard_size\":\"1\""), 400, "output_shard_size"},
        {SPEC(",\"output_shard_size\":\"much\""), 400, "output_shard_size"},
        {SPEC(",\"algorithm\":[]"), 400, "algorithm"},
        {SPEC(",\"algorithm\":{\"kind\":\"odd\"}"), 400, "algorithm.kind"},
        {SPEC(",\"algorithm\":{\"kind\":\"content\"}"), 400, "algorithm.extension"},
        {SPEC(",\"algorithm\":{\"kind\":\"content\",\"extension\":\".c\","
              "\"content_key_type\":\"odd\"}"),
         400, "algorithm.content_key_type"},
        {SPEC(",\"algorithm\":{\"kind\":\"none\",\"decreasing\":true}"), 400,
         "algorithm.decreasing"},
        {SPEC(",\"algorithm\":{\"kind\":\"shuffle\",\"seed\":\"x\"}"), 400, "seed"},
        {SPEC(",\"ekm_file\":\"http://host/ekm\""), 501, "ekm_file"},
        {SPEC(",\"duplicated_records\":\"abort\""), 501, "duplicated_records"},
        {SPEC(",\"missing_shards\":\"odd\""), 400, "missing_shards"},
        {SPEC(",\"dry_run\":1"), 400, "dry_run"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        wants(s, "POST", "/v1/sort", rows[i].body, rows[i].status, rows[i].says);
#undef SPEC
    wants(s, "GET", "/v1/sort", NULL, 200, "[]");
    wants(s, "GET", "/v1/sort?uuid=srt-none", NULL, 404, "srt-none");
    wants(s, "GET", "/v1/sort?regex=(", NULL, 400, "regex");
    wants(s, "DELETE", "/v1/sort/abort", NULL, 400, "uuid");
    wants(s, "DELETE", "/v1/sort/abort?uuid=srt-none", NULL, 404, "srt-none");
    wants(s, "DELETE", "/v1/sort?uuid=srt-none", NULL, 404, "srt-none");
}

/* A body that nests without end, and one that is over the limit. */
static void
large_messages_end(struct site *s)
{
    size_t len = MIB(1);
    char *body = xmalloc(len + 1);

    memset(body, '[', len);
    body[len] = '\0';
    CHECK_U64((unsigned)ask_ais(s, "POST", "/v1/buckets/bkt", body), 400);
    memset(body, ' ', len);
    memcpy(body, "{\"action\":\"create-bck\",\"value\":", 31);
    memset(body + 31, '[', len - 31);
    CHECK_U64((unsigned)ask_ais(s, "POST", "/v1/buckets/bkt", body), 400);
    CHECK_U64((unsigned)ask_ais(s, "POST", "/v1/sort", body), 400);
    free(body);
}

static void
documents_are_json(struct site *s)
{
    const char *what;
    char target[128];

    for (int cluster = 0; cluster < 2; cluster++)
        for (size_t i = 0; ais_what_at(cluster != 0, i, &what); i++) {
            json_t *doc;

            if (strcmp(what, "log") == 0 || strcmp(what, "target_ips") == 0 ||
                strcmp(what, "tls_certificate") == 0)
                continue;
            snprintf(target, sizeof target, "/v1/%s?what=%s",
                     cluster != 0 ? "cluster" : "daemon", what);
            CHECK_U64((unsigned)ask_ais(s, "GET", target, NULL), 200);
            doc = json_loads(answer, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
            CHECK(doc != NULL || strcmp(what, "software_version") == 0);
            if (doc == NULL)
                fprintf(stderr, "  ... %s: %.100s\n", target, answer);
            json_decref(doc);
        }
}

static void
access_of_a_bucket_counts(struct site *s)
{
    wants(s, "POST", "/v1/buckets/ro",
          "{\"action\":\"create-bck\",\"value\":{\"access\":\"771\"}}", 200, "");
    wants(s, "PUT", "/v1/objects/ro/k", "x", 403, "access");
    wants(s, "GET", "/v1/objects/ro/k", NULL, 404, "ais://ro/k");
    wants(s, "PATCH", "/v1/buckets/ro", "{\"action\":\"reset-bprops\"}", 200, "");
    wants(s, "PUT", "/v1/objects/ro/k", "x", 200, "");
}

/* ---- the tests ---- */

static void
open_and_run(bool auth, void (*const *steps)(struct site *s))
{
    struct site s = {.path = folder,
                     .auth_required = auth,
                     .token_key = SPAN(KEY),
                     .block_cache_bytes = MIB(64)};

    CHECK_U64(site_open(&s), ERR_OK);
    if (!auth)
        wants(&s, "POST", "/v1/buckets/bkt", "{\"action\":\"create-bck\"}", 200, "");
    else {
        char token[2048];

        make_token(HS256, "{\"sub\":\"a\",\"exp\":9999999999,\"admin\":true}", KEY,
                   token);
        ask_with(&s, "POST", "/v1/buckets/bkt", "{\"action\":\"create-bck\"}", token);
    }
    for (size_t i = 0; steps[i] != NULL; i++)
        steps[i](&s);
    site_close(&s);
}

static void
run_open(void *arg)
{
    static void (*const steps[])(struct site *) = {versions_count_from_one,
                                                   checksums_are_verified,
                                                   same_bytes_are_no_new_version,
                                                   uploads_need_all_their_parts,
                                                   names_and_namespaces,
                                                   bad_input_is_no_fault_of_ours,
                                                   dsort_specs_are_checked,
                                                   large_messages_end,
                                                   documents_are_json,
                                                   access_of_a_bucket_counts,
                                                   cached_responses_follow_writes,
                                                   NULL};

    (void)arg;
    open_and_run(false, steps);
}

static void
run_closed(void *arg)
{
    static void (*const steps[])(struct site *) = {
        each_route_is_behind_the_gate, tokens_carry_rights,
        cached_responses_keep_to_their_callers, NULL};

    (void)arg;
    open_and_run(true, steps);
}

static void
run_world(void (*world)(void *arg))
{
    struct rt_options o = {.loops = 1, .fibers_max = 2000};
    struct errbuf eb = {{0}};

    snprintf(folder, sizeof folder, "/tmp/fb-ais-XXXXXX");
    REQUIRE(mkdtemp(folder) != NULL);
    CHECK(rt_run(&o, world, NULL, &eb) == ERR_OK);
    folder_remove(folder);
}

static void
test_objects_buckets_and_bad_input(void)
{
    run_world(run_open);
}

static void
test_every_route_is_behind_the_gate(void)
{
    run_world(run_closed);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(each_route_is_on_the_page);
    RUN(test_objects_buckets_and_bad_input);
    RUN(test_every_route_is_behind_the_gate);
    return check_done();
}
