/* A request to any of three nodes gets the answer of the node that owns its key: whole bodies both ways, ranges, conditions,
 * uploads in parts, refusals. Nodes that are down, without a lease, or behind a later map never answer wrongly. */
#include "base/hash.h"
#include "base/log.h"
#include "unit/api/gateways.h"
#include "unit/cloud/fake_remote.h"
#include "wire/query.h"

#define LARGE (3u << 20)

static void
fill_pattern(char *at, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (char)(i * 7 + i / 251 + seed);
}

/* Every node puts, every other one gets: small, and larger than any buffer. */
static void
run_put_and_get(void *arg)
{
    static const size_t sizes[] = {0, 5, 20000, 300000, LARGE};
    struct bay *b = bay_open();
    char *body = xmalloc(LARGE), key[64], target[100];

    (void)arg;
    make_bay(b);
    for (unsigned i = 0; i < ARRAY_LEN(sizes); i++)
        for (unsigned owner = 0; owner < GATEWAYS; owner++) {
            unsigned by = (owner + i) % GATEWAYS;
            struct answer a, head;
            char etag[80];

            snprintf(target, sizeof target, "/bay/%s",
                     key_at(b, owner, i % 2 ? "odd" : "even", key));
            fill_pattern(body, sizes[i], i + owner);
            CHECK_U64(
                (unsigned)ask_gateway(b, by, "PUT", target, body, sizes[i], NULL, 0, &a),
                200);
            CHECK(strlen(a.id) == 16);
            snprintf(etag, sizeof etag, "%s", a.etag);
            buf_fini(&a.body);
            for (unsigned g = 0; g < GATEWAYS; g++) {
                CHECK_U64(
                    (unsigned)ask_gateway(b, g, "GET", target, NULL, 0, NULL, 0, &a),
                    200);
                CHECK_STR(a.etag, etag);
                CHECK_U64(a.body.len, sizes[i]);
                CHECK(sizes[i] == 0 || memcmp(a.body.at, body, sizes[i]) == 0);
                CHECK_U64(
                    (unsigned)ask_gateway(b, g, "HEAD", target, NULL, 0, NULL, 0, &head),
                    200);
                CHECK_STR(head.length, a.length);
                CHECK_STR(head.etag, etag);
                buf_fini(&a.body);
                buf_fini(&head.body);
            }
        }
    bay_close(&b);
    free(body);
}

static void
run_conditions_and_ranges(void *arg)
{
    struct bay *b = bay_open();
    struct field h[1];
    struct answer a;
    char key[64], target[100], etag[80];

    (void)arg;
    make_bay(b);
    snprintf(target, sizeof target, "/bay/%s", key_at(b, 2, "k", key));
    CHECK_U64((unsigned)ask_gateway(b, 0, "PUT", target, "0123456789", 10, NULL, 0, &a),
              200);
    snprintf(etag, sizeof etag, "%s", a.etag);
    buf_fini(&a.body);
    h[0] = (struct field){SPAN("range"), SPAN("bytes=2-4")};
    CHECK_U64((unsigned)ask_gateway(b, 1, "GET", target, NULL, 0, h, 1, &a), 206);
    CHECK_STR(a.range, "bytes 2-4/10");
    CHECK(span_is(buf_span(&a.body), "234"));
    buf_fini(&a.body);
    h[0] = (struct field){SPAN("range"), SPAN("bytes=20-")};
    CHECK_U64((unsigned)ask_gateway(b, 1, "GET", target, NULL, 0, h, 1, &a), 416);
    buf_fini(&a.body);
    h[0] = (struct field){SPAN("if-none-match"), span_of(etag)};
    CHECK_U64((unsigned)ask_gateway(b, 1, "GET", target, NULL, 0, h, 1, &a), 304);
    CHECK_U64(a.body.len, 0);
    buf_fini(&a.body);
    h[0] = (struct field){SPAN("if-none-match"), SPAN("*")};
    CHECK_U64((unsigned)ask_gateway(b, 1, "PUT", target, "x", 1, h, 1, &a), 412);
    buf_fini(&a.body);
    h[0] = (struct field){SPAN("content-md5"), SPAN("1B2M2Y8AsgTpgAmY7PhCfg==")};
    CHECK_U64((unsigned)ask_gateway(b, 1, "PUT", target, "x", 1, h, 1, &a), 400);
    CHECK_SAYS(a.body.at, "BadDigest");
    buf_fini(&a.body);
    CHECK_U64((unsigned)ask_simply(b, 1, "GET", "/bay/none", NULL, "NoSuchKey"), 404);
    CHECK_U64((unsigned)ask_simply(b, 1, "GET", "/elsewhere/k", NULL, "NoSuchBucket"),
              404);
    CHECK_U64((unsigned)ask_simply(b, 1, "DELETE", target, NULL, ""), 204);
    for (unsigned g = 0; g < GATEWAYS; g++)
        CHECK_U64((unsigned)ask_simply(b, g, "GET", target, NULL, "NoSuchKey"), 404);
    bay_close(&b);
}

static void
run_parts(void *arg)
{
    struct bay *b = bay_open();
    size_t part = 5u << 20;
    char *body = xmalloc(part), key[64], target[200], id[100] = "", list[400];
    struct answer a;
    const char *at;

    (void)arg;
    make_bay(b);
    key_at(b, 1, "big", key);
    snprintf(target, sizeof target, "/bay/%s?uploads", key);
    CHECK_U64((unsigned)ask_gateway(b, 0, "POST", target, NULL, 0, NULL, 0, &a), 200);
    at = strstr(a.body.at, "<UploadId>");
    REQUIRE(at != NULL);
    snprintf(id, sizeof id, "%.*s", (int)strcspn(at + 10, "<"), at + 10);
    buf_fini(&a.body);
    at = list;
    snprintf(list, sizeof list, "<CompleteMultipartUpload>");
    for (unsigned p = 1; p <= 2; p++) {
        size_t used = strlen(list), len = p == 1 ? part : 1000;

        fill_pattern(body, len, p);
        snprintf(target, sizeof target, "/bay/%s?partNumber=%u&uploadId=%s", key, p, id);
        CHECK_U64((unsigned)ask_gateway(b, p, "PUT", target, body, len, NULL, 0, &a),
                  200);
        snprintf(list + used, sizeof list - used,
                 "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", p, a.etag);
        buf_fini(&a.body);
    }
    snprintf(list + strlen(list), sizeof list - strlen(list),
             "</CompleteMultipartUpload>");
    snprintf(target, sizeof target, "/bay/%s?uploadId=%s", key, id);
    CHECK_U64((unsigned)ask_simply(b, 2, "POST", target, list, "CompleteMultipart"), 200);
    snprintf(target, sizeof target, "/bay/%s", key);
    CHECK_U64((unsigned)ask_gateway(b, 0, "GET", target, NULL, 0, NULL, 0, &a), 200);
    CHECK_U64(a.body.len, part + 1000);
    fill_pattern(body, part, 1);
    CHECK(memcmp(a.body.at, body, part) == 0);
    buf_fini(&a.body);
    bay_close(&b);
    free(body);
}

/* The owner is down by the map, does not answer, or has no lease: 503 with Retry-After, never 404. */
static void
run_owner_away(void *arg)
{
    struct bay *b = bay_open();
    struct answer a;
    char key[64], target[100];

    (void)arg;
    make_bay(b);
    snprintf(target, sizeof target, "/bay/%s", key_at(b, 1, "k", key));
    CHECK_U64((unsigned)ask_simply(b, 0, "PUT", target, "body", ""), 200);
    CHECK_U64((unsigned)ask_simply(b, 1, "GET", target, NULL, "body"), 200);
    CHECK_U64((unsigned)ask_simply(b, 1, "GET", target, NULL, "body"), 200);

    b->at[1].lease_ns = 0;
    for (unsigned g = 0; g < GATEWAYS; g++) {
        CHECK_U64((unsigned)ask_gateway(b, g, "GET", target, NULL, 0, NULL, 0, &a), 503);
        CHECK_STR(a.retry_after, "1");
        buf_fini(&a.body);
        CHECK_U64((unsigned)ask_simply(b, g, "PUT", target, "x", ""), 503);
    }
    /* It knows neither buckets nor users for sure, and still passes on. */
    CHECK_U64((unsigned)ask_simply(b, 1, "GET", "/elsewhere/k", NULL, ""), 503);
    CHECK_U64((unsigned)ask_simply(b, 1, "GET", "/bay?location", NULL, ""), 503);
    snprintf(target, sizeof target, "/bay/%s", key_at(b, 2, "k", key));
    CHECK_U64((unsigned)ask_simply(b, 1, "PUT", target, "two", ""), 200);
    CHECK_U64((unsigned)ask_simply(b, 1, "GET", target, NULL, "two"), 200);
    CHECK_U64((unsigned)ask_simply(b, 1, "GET", "/_/livez", NULL, ""), 200);
    b->at[1].lease_ns = 1;

    b->map->epoch++;
    node_map_find(b->map, 2)->state = NODE_DOWN;
    gateway_publish(b, 0);
    gateway_publish(b, 2);
    snprintf(target, sizeof target, "/bay/%s", key_at(b, 1, "k", key));
    CHECK_U64((unsigned)ask_gateway(b, 0, "GET", target, NULL, 0, NULL, 0, &a), 503);
    CHECK_STR(a.retry_after, "1");
    CHECK_SAYS(a.body.at, "node 2 (node-1), which holds the key, is down");
    buf_fini(&a.body);
    CHECK_U64((unsigned)ask_simply(b, 2, "DELETE", target, NULL, "is down"), 503);

    /* Up by the map, and its port is closed. */
    b->map->epoch++;
    node_map_find(b->map, 2)->state = NODE_UP;
    free(node_map_find(b->map, 2)->control);
    node_map_find(b->map, 2)->control = xstrdup("127.0.0.1:1");
    gateway_publish(b, 0);
    CHECK_U64((unsigned)ask_simply(b, 0, "GET", target, NULL, "node 2"), 503);
    bay_close(&b);
}

/* A key moves to another node while gateways still have the map before. */
static void
run_later_map(void *arg)
{
    struct bay *b = bay_open();
    char *body = xmalloc(LARGE), key[64], target[100];
    struct answer a;

    (void)arg;
    make_bay(b);
    /* Node 2 leaves the placement: its keys go to the others. */
    snprintf(target, sizeof target, "/bay/%s", key_at(b, 1, "k", key));
    b->map->epoch++;
    b->map->now.at[1] = b->map->now.at[2];
    b->map->now.count = 2;
    gateway_publish(b, 1);
    gateway_publish(b, 2);
    /* Node 1 asks node 2, which has the later map; nothing of a large body is lost. */
    fill_pattern(body, LARGE, 9);
    CHECK_U64((unsigned)ask_gateway(b, 0, "PUT", target, body, LARGE, NULL, 0, &a), 200);
    buf_fini(&a.body);
    CHECK_U64(b->fetched, 1);
    CHECK_U64(nodes_epoch(b->at[0].nodes), 6);
    for (unsigned g = 0; g < GATEWAYS; g++) {
        CHECK_U64((unsigned)ask_gateway(b, g, "GET", target, NULL, 0, NULL, 0, &a), 200);
        CHECK(a.body.len == LARGE && memcmp(a.body.at, body, LARGE) == 0);
        buf_fini(&a.body);
    }
    /* The owner has an earlier map than the gateway: it fetches the newest first. */
    b->map->epoch++;
    gateway_publish(b, 0);
    gateway_publish(b, 1);
    CHECK_U64((unsigned)ask_gateway(b, 1, "GET", target, NULL, 0, NULL, 0, &a), 200);
    buf_fini(&a.body);
    for (unsigned i = 0; i < 2; i++) {
        snprintf(target, sizeof target, "/bay/%s", key_at(b, i == 0 ? 0 : 2, "s", key));
        CHECK_U64((unsigned)ask_simply(b, 1, "PUT", target, "small", ""), 200);
        CHECK_U64((unsigned)ask_simply(b, 1, "GET", target, NULL, "small"), 200);
    }
    CHECK_U64(nodes_epoch(b->at[2].nodes), 7);
    bay_close(&b);
    free(body);
}

/* An answer from the response cache is one of a key that this node owns by the map of now. */
static void
run_cached_answer_of_former_owner(void *arg)
{
    struct bay *b = bay_open();
    char key[64], target[100];

    (void)arg;
    make_bay(b);
    snprintf(target, sizeof target, "/bay/%s", key_at(b, 1, "k", key));
    CHECK_U64((unsigned)ask_simply(b, 1, "PUT", target, "old", ""), 200);
    for (unsigned i = 0; i < 4; i++)
        CHECK_U64((unsigned)ask_simply(b, 1, "GET", target, NULL, "old"), 200);
    b->map->epoch++;
    b->map->now.at[1] = b->map->now.at[2];
    b->map->now.count = 2;
    for (unsigned g = 0; g < GATEWAYS; g++)
        gateway_publish(b, g);
    CHECK_U64((unsigned)ask_simply(b, 0, "PUT", target, "new", ""), 200);
    for (unsigned i = 0; i < 4; i++)
        CHECK_U64((unsigned)ask_simply(b, 1, "GET", target, NULL, "new"), 200);
    bay_close(&b);
}

/* A bucket "far" on all nodes that mirrors a remote; "/far/KEY" for a key that node 1 owns. */
static void
make_far(struct bay *b, struct fake *f, char target[100])
{
    struct map_backend at = {
        .bucket = (char *)"there", .credentials = (char *)"", .path_style = true};
    bool here = false;

    at.endpoint = f->endpoint;
    for (unsigned i = 0; i < GATEWAYS; i++) {
        const struct map_bucket *made;

        REQUIRE(map_bucket_create(b->at[i].site.map, SPAN("far"), &at, 1, &made, NULL) ==
                ERR_OK);
        for (unsigned k = 0; i == 1 && !here; k++) {
            snprintf(target, 100, "/far/k-%u", k);
            here = nodes_owns(b->at[1].nodes, made, span_of(target + 5));
        }
        map_bucket_drop(&made);
    }
}

/* Node 1 goes away, or comes back, by a map that all nodes learn. */
static void
move_node_1(struct bay *b, enum node_state state)
{
    struct node_entry *n = node_map_find(b->map, 2);

    n->state = state;
    n->since = ++b->map->epoch;
    for (unsigned g = 0; g < GATEWAYS; g++)
        gateway_publish(b, g);
}

/* What the owner kept before it went away is compared with the remote, once, when it is back. */
static void
run_kept_before_it_was_away(void *arg)
{
    struct bay *b = bay_open();
    struct fake f;
    char target[100];
    unsigned heads, gets;

    (void)arg;
    fake_start(&f);
    fake_set(&f, "old", 3);
    make_far(b, &f, target);
    for (unsigned i = 0; i < 4; i++)
        CHECK_U64((unsigned)ask_simply(b, 1, "GET", target, NULL, "old"), 200);
    CHECK_U64(f.gets, 1);
    CHECK_U64(f.heads, 0);
    /* Unchanged meanwhile: one HEAD, no GET. */
    move_node_1(b, NODE_DOWN);
    move_node_1(b, NODE_UP);
    for (unsigned i = 0; i < 4; i++)
        CHECK_U64((unsigned)ask_simply(b, 1, "GET", target, NULL, "old"), 200);
    CHECK_U64(f.gets, 1);
    CHECK_U64(f.heads, 1);
    /* A map that changes no node: nothing is asked. */
    b->map->epoch++;
    for (unsigned g = 0; g < GATEWAYS; g++)
        gateway_publish(b, g);
    CHECK_U64((unsigned)ask_simply(b, 1, "GET", target, NULL, "old"), 200);
    CHECK_U64(f.heads, 1);
    /* Another node writes while it is away. */
    move_node_1(b, NODE_DOWN);
    CHECK_U64((unsigned)ask_simply(b, 0, "PUT", target, "newer", ""), 200);
    CHECK_U64(f.puts, 1);
    move_node_1(b, NODE_UP);
    heads = f.heads;
    gets = f.gets;
    for (unsigned i = 0; i < 4; i++)
        CHECK_U64((unsigned)ask_simply(b, 1, "GET", target, NULL, "newer"), 200);
    CHECK_U64(f.heads, heads + 1);
    CHECK_U64(f.gets, gets + 1);
    /* Another node deletes while it is away. */
    move_node_1(b, NODE_DOWN);
    CHECK_U64((unsigned)ask_simply(b, 2, "DELETE", target, NULL, ""), 204);
    move_node_1(b, NODE_UP);
    CHECK_U64((unsigned)ask_simply(b, 1, "GET", target, NULL, "NoSuchKey"), 404);
    bay_close(&b);
    fake_stop(&f);
}

/* AIS: objects by their own routes, over any node. */
static void
run_ais(void *arg)
{
    struct bay *b = bay_open();
    char key[64], target[100];

    (void)arg;
    make_bay(b);
    snprintf(target, sizeof target, "/v1/objects/bay/%s", key_at(b, 2, "a", key));
    CHECK_U64((unsigned)ask_simply(b, 0, "PUT", target, "ais body", ""), 200);
    for (unsigned g = 0; g < GATEWAYS; g++) {
        CHECK_U64((unsigned)ask_simply(b, g, "GET", target, NULL, "ais body"), 200);
        CHECK_U64((unsigned)ask_simply(b, g, "HEAD", target, NULL, ""), 200);
    }
    CHECK_U64((unsigned)ask_simply(b, 1, "DELETE", target, NULL, ""), 200);
    CHECK_U64((unsigned)ask_simply(b, 0, "GET", target, NULL, ""), 404);
    bay_close(&b);
}

/* ---- many keys ---- */

/* Puts "PREFIX000" to "PREFIXnnn", each through another node. */
static void
put_many(struct bay *b, const char *prefix, unsigned count)
{
    char target[100];

    for (unsigned i = 0; i < count; i++) {
        snprintf(target, sizeof target, "/bay/%s%03u", prefix, i);
        CHECK_U64((unsigned)ask_simply(b, i % GATEWAYS, "PUT", target, "body", ""), 200);
    }
}

static unsigned
count_of(const char *text, const char *what)
{
    unsigned n = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

/* The names of <Key> on a page, appended to `all` with a blank each; returns the mark of the next page, or "". */
static void
take_keys(const char *page, const char *element, struct buf *all)
{
    for (const char *at = page; (at = strstr(at, element)) != NULL;) {
        at += strlen(element);
        buf_printf(all, "%.*s ", (int)strcspn(at, "<"), at);
    }
}

static void
text_between(const char *page, const char *element, char out[300])
{
    const char *at = strstr(page, element);

    snprintf(out, 300, "%.*s", at != NULL ? (int)strcspn(at + strlen(element), "<") : 0,
             at != NULL ? at + strlen(element) : "");
}

/* Pages of every size hold all names once, in order, through a node that changes with every page. */
static void
run_lists(void *arg)
{
    static const unsigned sizes[] = {1, 7, 40, 1000};
    struct bay *b = bay_open();
    struct buf want;

    (void)arg;
    make_bay(b);
    buf_init(&want, KIB(64));
    put_many(b, "a/", 20);
    put_many(b, "b", 60);
    for (unsigned i = 0; i < 20; i++)
        buf_printf(&want, "a/%03u ", i);
    for (unsigned i = 0; i < 60; i++)
        buf_printf(&want, "b%03u ", i);
    for (unsigned s = 0; s < ARRAY_LEN(sizes); s++) {
        char target[600], token[300] = "";
        struct buf all;
        unsigned pages = 0;

        buf_init(&all, KIB(64));
        do {
            struct answer a;
            struct buf encoded;

            buf_init(&encoded, KIB(4));
            query_put(&encoded, "continuation-token", span_of(token));
            snprintf(target, sizeof target, "/bay?list-type=2&max-keys=%u%s%.*s",
                     sizes[s], token[0] != '\0' ? "&" : "",
                     token[0] != '\0' ? (int)encoded.len : 0, encoded.at);
            CHECK_U64((unsigned)ask_gateway(b, pages++ % GATEWAYS, "GET", target, NULL, 0,
                                            NULL, 0, &a),
                      200);
            CHECK(count_of(a.body.at, "<Key>") <= sizes[s]);
            take_keys(a.body.at, "<Key>", &all);
            text_between(a.body.at, "<NextContinuationToken>", token);
            buf_fini(&a.body);
            buf_fini(&encoded);
        } while (token[0] != '\0' && pages < 200);
        CHECK(span_eq(buf_span(&all), buf_span(&want)));
        buf_fini(&all);
    }
    /* A common prefix whose keys lie on all nodes stands there once. */
    for (unsigned g = 0; g < GATEWAYS; g++) {
        struct answer a;

        CHECK_U64((unsigned)ask_gateway(b, g, "GET", "/bay?delimiter=/&max-keys=3", NULL,
                                        0, NULL, 0, &a),
                  200);
        CHECK_U64(count_of(a.body.at, "<Prefix>a/</Prefix>"), 1);
        CHECK_U64(count_of(a.body.at, "<Key>"), 2);
        CHECK_SAYS(a.body.at, "<Key>b001</Key>");
        buf_fini(&a.body);
        CHECK_U64((unsigned)ask_gateway(b, g, "GET", "/bay?versions&max-keys=50", NULL, 0,
                                        NULL, 0, &a),
                  200);
        CHECK_U64(count_of(a.body.at, "<Key>"), 50);
        CHECK_SAYS(a.body.at, "<NextKeyMarker>b029</NextKeyMarker>");
        buf_fini(&a.body);
    }
    /* Without one of the nodes there is no list, for it would leave out what is there. */
    b->at[2].lease_ns = 0;
    CHECK_U64((unsigned)ask_simply(b, 0, "GET", "/bay?list-type=2", NULL, ""), 503);
    CHECK_U64((unsigned)ask_simply(b, 2, "GET", "/bay?list-type=2", NULL, ""), 503);
    bay_close(&b);
    buf_fini(&want);
}

static void
run_upload_lists(void *arg)
{
    struct bay *b = bay_open();
    char target[100], key[64];
    struct buf all;
    struct answer a;

    (void)arg;
    make_bay(b);
    for (unsigned i = 0; i < 9; i++) {
        snprintf(target, sizeof target, "/bay/%u-%s?uploads", i, key_at(b, 0, "u", key));
        CHECK_U64((unsigned)ask_simply(b, i % GATEWAYS, "POST", target, NULL, "UploadId"),
                  200);
    }
    CHECK_U64((unsigned)ask_gateway(b, 1, "GET", "/bay?uploads&max-uploads=4", NULL, 0,
                                    NULL, 0, &a),
              200);
    CHECK_U64(count_of(a.body.at, "<Upload>"), 4);
    buf_fini(&a.body);
    CHECK_U64((unsigned)ask_gateway(b, 2, "GET", "/bay?uploads", NULL, 0, NULL, 0, &a),
              200);
    buf_init(&all, KIB(8));
    take_keys(a.body.at, "<Key>", &all);
    CHECK_U64(count_of(all.at, " "), 9);
    CHECK(all.at[0] == '0' && strstr(all.at, " 8-") != NULL);
    buf_fini(&all);
    buf_fini(&a.body);
    bay_close(&b);
}

/* DeleteObjects, in the client's order; then the bucket, which must be empty on every node. */
static void
run_deletes(void *arg)
{
    struct bay *b = bay_open();
    struct field md5[1];
    struct buf doc, all;
    struct digest d;
    struct answer a;
    unsigned char sum[DIGEST_MAX];
    char text[40];

    (void)arg;
    make_bay(b);
    put_many(b, "k", 30);
    CHECK_U64((unsigned)ask_simply(b, 0, "DELETE", "/bay", NULL, "BucketNotEmpty"), 409);
    buf_init(&doc, KIB(64));
    buf_puts(&doc, "<Delete>");
    for (unsigned i = 30; i > 1; i--)
        buf_printf(&doc, "<Object><Key>k%03u</Key>%s</Object>", i - 1,
                   i == 5 ? "<ETag>00000000000000000000000000000000</ETag>" : "");
    buf_puts(&doc, "</Delete>");
    digest_init(&d, DIGEST_MD5);
    digest_add(&d, doc.at, doc.len);
    digest_end(&d, sum);
    base64_encode(sum, 16, text);
    md5[0] = (struct field){SPAN("content-md5"), span_of(text)};
    CHECK_U64(
        (unsigned)ask_gateway(b, 1, "POST", "/bay?delete", doc.at, doc.len, md5, 1, &a),
        200);
    CHECK_U64(count_of(a.body.at, "<Deleted>"), 28);
    CHECK_U64(count_of(a.body.at, "PreconditionFailed"), 1);
    buf_init(&all, KIB(8));
    take_keys(a.body.at, "<Key>", &all);
    CHECK(strncmp(all.at, "k029 k028 k027 ", 15) == 0);
    CHECK_SAYS(all.at, "k005 k004 k003 k002 k001 ");
    buf_fini(&all);
    buf_fini(&a.body);
    CHECK_U64((unsigned)ask_gateway(b, 2, "GET", "/bay", NULL, 0, NULL, 0, &a), 200);
    CHECK_U64(count_of(a.body.at, "<Key>"), 2);
    buf_fini(&a.body);

    /* Whatever node still has one: the bucket stays, and takes writes. */
    CHECK_U64((unsigned)ask_simply(b, 0, "DELETE", "/bay", NULL, "BucketNotEmpty"), 409);
    CHECK_U64((unsigned)ask_simply(b, 1, "DELETE", "/bay", NULL, "BucketNotEmpty"), 409);
    CHECK_U64((unsigned)ask_simply(b, 2, "DELETE", "/bay", NULL, "BucketNotEmpty"), 409);
    put_many(b, "again", 6);
    for (unsigned i = 0; i < 6; i++) {
        char target[40];

        snprintf(target, sizeof target, "/bay/again%03u", i);
        CHECK_U64((unsigned)ask_simply(b, i % 2, "DELETE", target, NULL, ""), 204);
    }
    CHECK_U64((unsigned)ask_simply(b, 0, "DELETE", "/bay/k000", NULL, ""), 204);
    CHECK_U64((unsigned)ask_simply(b, 0, "DELETE", "/bay/k004", NULL, ""), 204);
    b->at[1].lease_ns = 0;
    CHECK_U64((unsigned)ask_simply(b, 0, "DELETE", "/bay", NULL, ""), 503);
    b->at[1].lease_ns = 1;
    CHECK_U64((unsigned)ask_simply(b, 0, "DELETE", "/bay", NULL, ""), 204);
    CHECK_U64((unsigned)ask_simply(b, 0, "GET", "/bay", NULL, "NoSuchBucket"), 404);
    bay_close(&b);
    buf_fini(&doc);
}

/* The source of a copy, whole or a range, lies on one node and the copy on another. */
static void
run_copies(void *arg)
{
    struct bay *b = bay_open();
    char *body = xmalloc(LARGE), from[64], to[64], target[400], source[300], id[300];
    struct field h[4];
    struct answer a;

    (void)arg;
    make_bay(b);
    fill_pattern(body, LARGE, 3);
    for (unsigned owner = 0; owner < GATEWAYS; owner++) {
        unsigned other = (owner + 1) % GATEWAYS;
        char etag[80];

        snprintf(target, sizeof target, "/bay/%s", key_at(b, owner, "from", from));
        snprintf(source, sizeof source, "bay/%s", from);
        h[0] = (struct field){SPAN("x-amz-meta-colour"), SPAN("blue")};
        h[1] = (struct field){SPAN("content-type"), SPAN("text/bay")};
        h[2] = (struct field){SPAN("x-amz-tagging"), SPAN("a=1")};
        CHECK_U64((unsigned)ask_gateway(b, 0, "PUT", target, body, LARGE, h, 3, &a), 200);
        snprintf(etag, sizeof etag, "%s", a.etag);
        buf_fini(&a.body);
        key_at(b, other, "to", to);
        snprintf(target, sizeof target, "/bay/%s", to);
        h[0] = (struct field){SPAN("x-amz-copy-source"), span_of(source)};
        CHECK_U64((unsigned)ask_gateway(b, 2, "PUT", target, NULL, 0, h, 1, &a), 200);
        CHECK_SAYS(a.body.at, "CopyObjectResult");
        buf_fini(&a.body);
        CHECK_U64((unsigned)ask_gateway(b, 1, "GET", target, NULL, 0, NULL, 0, &a), 200);
        CHECK(a.body.len == LARGE && memcmp(a.body.at, body, LARGE) == 0);
        CHECK_STR(a.etag, etag);
        CHECK_STR(a.colour, "blue");
        buf_fini(&a.body);
        snprintf(target, sizeof target, "/bay/%s?tagging", to);
        CHECK_U64((unsigned)ask_simply(b, 0, "GET", target, NULL, "<Key>a</Key>"), 200);

        /* Conditions and absence of the source. */
        snprintf(target, sizeof target, "/bay/%s", to);
        h[1] = (struct field){SPAN("x-amz-copy-source-if-none-match"), span_of(etag)};
        CHECK_U64((unsigned)ask_gateway(b, 2, "PUT", target, NULL, 0, h, 2, &a), 412);
        buf_fini(&a.body);
        snprintf(source, sizeof source, "bay/%s", key_at(b, owner, "none", from));
        h[0].value = span_of(source);
        CHECK_U64((unsigned)ask_gateway(b, 2, "PUT", target, NULL, 0, h, 1, &a), 404);
        CHECK_SAYS(a.body.at, "NoSuchKey");
        buf_fini(&a.body);

        /* A part of it. */
        snprintf(target, sizeof target, "/bay/%s?uploads", to);
        CHECK_U64((unsigned)ask_gateway(b, 2, "POST", target, NULL, 0, NULL, 0, &a), 200);
        text_between(a.body.at, "<UploadId>", source);
        snprintf(id, sizeof id, "%s", source);
        buf_fini(&a.body);
        snprintf(source, sizeof source, "bay/%s", key_at(b, owner, "from", from));
        snprintf(target, sizeof target, "/bay/%s?partNumber=1&uploadId=%s", to, id);
        h[0] = (struct field){SPAN("x-amz-copy-source"), span_of(source)};
        h[1] = (struct field){SPAN("x-amz-copy-source-range"), SPAN("bytes=100-100099")};
        CHECK_U64((unsigned)ask_gateway(b, 2, "PUT", target, NULL, 0, h, 2, &a), 200);
        CHECK_SAYS(a.body.at, "CopyPartResult");
        buf_fini(&a.body);
    }
    bay_close(&b);
    free(body);
}

/* Sends a head, and `some` bytes of its body, by hand; the first line of what comes back, or "". */
static struct stream *
raw_put(struct bay *b, unsigned by, const char *target, const char *lines, size_t length,
        size_t some, char first[40])
{
    struct stream *s = NULL;
    char head[500], *body = xcalloc(1, some + 1), got[500] = "";
    int n =
        snprintf(head, sizeof head,
                 "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n%s\r\n",
                 target, length, lines);
    size_t len = 0;

    CHECK(rt_connect("127.0.0.1", b->at[by].site.port, deadline_in_ms(PATIENCE_MS), &s,
                     NULL) == ERR_OK);
    CHECK(rt_send(s, head, (size_t)n, deadline_in_ms(PATIENCE_MS), NULL) == ERR_OK);
    if (some > 0)
        CHECK(rt_send(s, body, some, deadline_in_ms(PATIENCE_MS), NULL) == ERR_OK);
    else
        CHECK(rt_recv(s, got, sizeof got - 1, deadline_in_ms(PATIENCE_MS), &len, NULL) ==
              ERR_OK);
    snprintf(first, 40, "%.*s", (int)strcspn(got, "\r"), got);
    free(body);
    return s;
}

/* The body is asked for only when the owner wants it; a client that leaves leaves nothing behind at the owner. */
static void
run_bodies_that_do_not_come(void *arg)
{
    struct bay *b = bay_open();
    char key[64], target[100], first[40];
    struct stream *s;

    (void)arg;
    make_bay(b);
    snprintf(target, sizeof target, "/bay/%s", key_at(b, 1, "k", key));
    s = raw_put(b, 0, target, "Expect: 100-continue\r\n", 1000, 0, first);
    CHECK_SAYS(first, "100 Continue");
    rt_stream_close(&s);
    s = raw_put(b, 0, target, "Expect: 100-continue\r\nContent-MD5: none\r\n", 1000, 0,
                first);
    CHECK_SAYS(first, "400 Bad Request");
    rt_stream_close(&s);
    s = raw_put(b, 0, target, "", LARGE, 500000, first);
    rt_stream_close(&s);
    for (unsigned g = 0; g < GATEWAYS; g++)
        CHECK_U64((unsigned)ask_simply(b, g, "GET", target, NULL, "NoSuchKey"), 404);
    CHECK_U64((unsigned)ask_simply(b, 2, "PUT", target, "whole", ""), 200);
    CHECK_U64((unsigned)ask_simply(b, 0, "GET", target, NULL, "whole"), 200);
    bay_close(&b);
}

static void
on_loop(fiber_fn *fn)
{
    struct errbuf eb = {{0}};

    CHECK(rt_run(&(struct rt_options){.engine = RT_EPOLL, .loops = 1}, fn, NULL, &eb) ==
          ERR_OK);
}

#define ON_LOOP(name)                                                                    \
    static void test_##name(void)                                                        \
    {                                                                                    \
        on_loop(run_##name);                                                             \
    }
ON_LOOP(put_and_get)
ON_LOOP(conditions_and_ranges)
ON_LOOP(parts)
ON_LOOP(owner_away)
ON_LOOP(later_map)
ON_LOOP(cached_answer_of_former_owner)
ON_LOOP(kept_before_it_was_away)
ON_LOOP(ais)
ON_LOOP(lists)
ON_LOOP(upload_lists)
ON_LOOP(deletes)
ON_LOOP(copies)
ON_LOOP(bodies_that_do_not_come)

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_put_and_get);
    RUN(test_conditions_and_ranges);
    RUN(test_parts);
    RUN(test_owner_away);
    RUN(test_later_map);
    RUN(test_cached_answer_of_former_owner);
    RUN(test_kept_before_it_was_away);
    RUN(test_ais);
    RUN(test_lists);
    RUN(test_upload_lists);
    RUN(test_deletes);
    RUN(test_copies);
    RUN(test_bodies_that_do_not_come);
    return check_done();
}
