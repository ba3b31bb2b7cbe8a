/* A request to any of three nodes gets the answer of the node that owns its key: whole bodies both ways, ranges, conditions,
 * uploads in parts, refusals. Nodes that are down, without a lease, or behind a later map never answer wrongly. */
#include "base/log.h"
#include "unit/api/gateways.h"

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
ON_LOOP(ais)

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
    RUN(test_ais);
    return check_done();
}
