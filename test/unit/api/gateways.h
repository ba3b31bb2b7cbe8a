/* gateways: several nodes in one program, each with its own disk, and a map that the test makes. Each has the same buckets,
 * as meta would give them. */
#pragma once
#include <unistd.h>

#include "folder.h"
#include "map/node_place.h"
#include "peer/peer.h"
#include "unit/api/api_rig.h"

#define GATEWAYS 3

struct gateway {
    struct site site;
    struct nodes *nodes;
    struct peers *peers;
    struct bay *bay;
    uint64_t lease_ns;
    char folder[40], address[40];
};
struct bay {
    struct gateway at[GATEWAYS];
    struct node_map *map; /* owned: the newest */
    unsigned fetched;
};

static const unsigned char gateway_key[32] = {5}, gateway_cluster[16] = {6};

static uint64_t
gateway_lease(void *arg)
{
    return ((struct gateway *)arg)->lease_ns;
}

static enum err
gateway_fetch(void *arg, uint64_t epoch, struct errbuf *eb)
{
    struct gateway *g = arg;

    (void)eb;
    (void)epoch;
    g->bay->fetched++;
    nodes_publish(g->nodes, g->bay->map);
    nodes_acknowledge(g->nodes, g->bay->map->epoch);
    return ERR_OK;
}

/* The newest map for node i. */
static void
gateway_publish(struct bay *b, unsigned i)
{
    struct gateway *g = &b->at[i];

    nodes_publish(g->nodes, b->map);
    nodes_acknowledge(g->nodes, b->map->epoch);
    CHECK(disks_raise_map_epoch(g->site.disks, b->map->epoch, &g->site.eb) == ERR_OK);
}

static void
gateway_open(struct bay *b, unsigned i)
{
    struct gateway *g = &b->at[i];
    struct peer_options o = {
        .key = gateway_key, .cluster_id = gateway_cluster, .self = i + 1, .name = "n"};
    uint16_t port;

    snprintf(g->folder, sizeof g->folder, "/tmp/gateways-XXXXXX");
    REQUIRE(mkdtemp(g->folder) != NULL);
    g->bay = b;
    g->lease_ns = 1000000000;
    g->nodes = nodes_new(&(struct nodes_options){.self = i + 1,
                                                 .lease_left_ns = gateway_lease,
                                                 .fetch_map = gateway_fetch,
                                                 .arg = g});
    g->site = (struct site){
        .path = g->folder, .nodes = g->nodes, .block_cache_bytes = 16u << 20};
    if (site_open(&g->site) != ERR_OK) {
        fprintf(stderr, "%s\n", g->site.eb.text);
        abort();
    }
    api_peer_handler(g->site.api, &o);
    REQUIRE(peer_start(&o, &g->peers, &g->site.eb) == ERR_OK);
    REQUIRE(peer_listen(g->peers, "127.0.0.1", 0, &port, &g->site.eb) == ERR_OK);
    api_set_peers(g->site.api, g->peers);
    snprintf(g->address, sizeof g->address, "127.0.0.1:%u", port);
}

static struct bay *
bay_open(void)
{
    struct bay *b = xcalloc(1, sizeof *b);

    b->map = node_map_new(5);
    b->map->cluster = xstrdup("bay");
    for (unsigned i = 0; i < GATEWAYS; i++) {
        struct node_entry *n;
        char name[16];

        gateway_open(b, i);
        snprintf(name, sizeof name, "node-%u", i);
        CHECK(node_map_add(b->map, span_of(name), &n, NULL) == ERR_OK);
        n->state = NODE_UP;
        n->control = xstrdup(b->at[i].address);
        b->map->now.at[i].number = n->number;
        b->map->now.at[i].weight = MAP_NODE_WEIGHT;
    }
    b->map->now.count = GATEWAYS;
    for (unsigned i = 0; i < GATEWAYS; i++)
        gateway_publish(b, i);
    return b;
}

static void
bay_close(struct bay **bp)
{
    struct bay *b = *bp;

    *bp = NULL;
    for (unsigned i = 0; i < GATEWAYS; i++) {
        struct gateway *g = &b->at[i];

        http_client_free(&g->site.client);
        http_server_stop(&g->site.server);
    }
    for (unsigned i = 0; i < GATEWAYS; i++)
        peer_stop(&b->at[i].peers);
    for (unsigned i = 0; i < GATEWAYS; i++) {
        site_close(&b->at[i].site);
        nodes_free(&b->at[i].nodes);
        folder_remove(b->at[i].folder);
    }
    node_map_free(&b->map);
    free(b);
}

/* Which node owns a key of a bucket, from 0. */
static unsigned
owner_of_key(const struct bay *b, const char *bucket, const char *key)
{
    char text[200];
    int n = snprintf(text, sizeof text, "ais/@#/%s/%s", bucket, key);

    return node_place_owner(b->map, node_place_digest((struct span){text, (size_t)n}))
               ->number -
           1;
}

/* "PREFIX-N", the first one that node `owner` has. */
static const char *
key_at(const struct bay *b, unsigned owner, const char *prefix, char out[64])
{
    for (unsigned i = 0;; i++) {
        snprintf(out, 64, "%s-%u", prefix, i);
        if (owner_of_key(b, "bay", out) == owner)
            return out;
    }
}

/* An answer: status, body and head lines that the test wants. */
struct answer {
    int status;
    struct buf body; /* buf_fini() */
    char etag[80], length[24], retry_after[8], range[64], id[24], checksum[64],
        colour[16];
};

static void
answer_header(const struct http_head *h, const char *name, char *out, size_t room)
{
    struct span v = fields_get(http_fields(h), name);

    snprintf(out, room, "%.*s", SPAN_ARG(v));
}

static void
answer_head(const struct http_head *h, void *arg)
{
    struct answer *a = arg;

    answer_header(h, "etag", a->etag, sizeof a->etag);
    answer_header(h, "content-length", a->length, sizeof a->length);
    answer_header(h, "retry-after", a->retry_after, sizeof a->retry_after);
    answer_header(h, "content-range", a->range, sizeof a->range);
    answer_header(h, "x-amz-request-id", a->id, sizeof a->id);
    answer_header(h, "x-amz-meta-colour", a->colour, sizeof a->colour);
    answer_header(h, "x-amz-checksum-crc32c", a->checksum, sizeof a->checksum);
}

/* Asks node `by`. `body` NULL: none. Returns the status, 0 without a whole answer. */
static int
ask_gateway(struct bay *b, unsigned by, const char *method, const char *target,
            const char *body, size_t len, const struct field *headers, size_t count,
            struct answer *out)
{
    struct site *s = &b->at[by].site;
    struct http_call_request req = {.host = "127.0.0.1",
                                    .port = s->port,
                                    .method = method,
                                    .target = span_of(target),
                                    .headers = {headers, count},
                                    .length = body != NULL ? (int64_t)len : HTTP_NO_BODY,
                                    .by = deadline_in_ms(PATIENCE_MS)};

    *out = (struct answer){0};
    buf_init(&out->body, 64u << 20);
    s->eb = (struct errbuf){{0}};
    if (http_call_simple(s->client, &req, (struct span){body, body != NULL ? len : 0},
                         &out->status, &out->body, answer_head, out, &s->eb) != ERR_OK)
        out->status = 0;
    buf_putc(&out->body, '\0');
    out->body.len--;
    return out->status;
}

/* The same; the body is only checked for `says`. */
static int
ask_simply(struct bay *b, unsigned by, const char *method, const char *target,
           const char *body, const char *says)
{
    struct answer a;
    int status = ask_gateway(b, by, method, target, body, body != NULL ? strlen(body) : 0,
                             NULL, 0, &a);

    CHECK_SAYS(a.body.at, says);
    buf_fini(&a.body);
    return status;
}

/* The bucket "bay", on all nodes. */
static void
make_bay(struct bay *b)
{
    for (unsigned i = 0; i < GATEWAYS; i++) {
        const struct map_bucket *made;

        REQUIRE(map_bucket_create(b->at[i].site.map, SPAN("bay"), NULL, 1, &made, NULL) ==
                ERR_OK);
        map_bucket_drop(&made);
    }
}
