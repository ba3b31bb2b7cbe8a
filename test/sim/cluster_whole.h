/* cluster_whole: whole nodes of this tree in a simulated cluster: what `forebay serve DIR --etcd ...` opens, from the disks to
 * the S3 API over HTTP, each on disks and clocks of its own. Clients sign their requests.
 *
 * A value is an object whose body begins with the number; every eighth one has 300,000 bytes, so that it is no part of a log.
 */
#pragma once
#include "base/md5.h"
#include "base/num.h"
#include "node/internal.h"
#include "rt/file.h"
#include "rt/sim_trouble.h"
#include "sim/cluster_world.h"
#include "wire/sigv4.h"

#define WHOLE_USER "sim"
#define WHOLE_SECRET                                                                     \
    "0123456789abcdef0123456789abcdef01234567" /* of simulated nodes only */
#define WHOLE_BIG 300000u

/* Bugs on purpose. */
enum {
    WHOLE_PLANT_LYING_DISK = 1, /* disks say that they synced, and did not */
};

/* ---- a node ---- */

/* As an administrator would: the cluster's key, and a file of users. */
static inline enum err
whole_write_files(const char *mount, struct errbuf *eb)
{
    static const char key[] =
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";
    static const char users[] =
        "[" WHOLE_USER "]\naws_access_key_id = " WHOLE_USER
        "-key-id-0001\naws_secret_access_key = " WHOLE_SECRET "\n";
    struct rt_dir *d = NULL;
    enum err rc = rt_dir_open(mount, &d, eb);

    if (rc == ERR_OK)
        rc = rt_file_store(d, "cluster.key", key, sizeof key - 1, 0600, eb);
    if (rc == ERR_OK)
        rc = rt_file_store(d, "users", users, sizeof users - 1, 0600, eb);
    rt_dir_close(&d);
    return rc;
}

/* One life of the process. */
static inline void
whole_once(struct cluster_node *at)
{
    const char *dirs[] = {"/data"};
    struct node_options o = {.dirs = dirs,
                             .dir_count = 1,
                             .addr = at->addr,
                             .port = 80,
                             .insecure_http = true,
                             .live = {.credentials = "/etc/users"},
                             .block_cache_bytes = MIB(4),
                             .cache_budget = MIB(64),
                             .memory_limit = MIB(512),
                             .drain_ms = 2000,
                             .http = {.linger_ms = 100},
                             .cluster = {.etcd = "http://10.0.1.1:2379",
                                         .name = "bay",
                                         .key_file = "/etc/cluster.key",
                                         .node = at->name}};
    struct node n = {.o = &o};
    struct rt_group g;
    bool asked = false;

    at->own = &n;
    rt_group_begin(&g);
    if (rt_group_start(&g, node_run, &n) != ERR_OK)
        return;
    while (g.alive > 0 && rt_sleep_ms(20) == ERR_OK) {
        at->in = n.http != NULL && n.members != NULL && n.port != 0 &&
                 members_state_now(n.members) == MEMBERS_IN &&
                 members_lease_left_ns(n.members) > 0;
        at->failed = at->in ? 0 : at->failed;
        if (at->stop && !asked)
            node_end(&n);
        asked = asked || at->stop;
    }
    rt_group_join(&g);
    at->in = false;
    at->own = NULL;
    at->failed += n.rc != ERR_OK;
    if (n.rc != ERR_OK && !rt_cancelled())
        LOG(LOG_WARN, "sim.node", n.eb.text, L_TEXT("node", at->name));
}

static inline void
whole_run(void *arg)
{
    struct cluster_node *at = arg;
    struct errbuf eb = {{0}};

    if (whole_write_files("/etc", &eb) != ERR_OK) {
        CHECK(rt_cancelled());
        return;
    }
    if ((*(unsigned *)at->world->arg & WHOLE_PLANT_LYING_DISK) != 0)
        sim_trouble(at->host, "/data", &(struct sim_trouble){.lies = true});
    while (!at->stop && !rt_cancelled()) {
        whole_once(at);
        (void)!rt_sleep_ms(500);
    }
}

/* ---- a client ---- */

static inline struct span
whole_body(struct arena *a, uint32_t value)
{
    size_t len = value % 8 == 0 ? WHOLE_BIG : value % 8 == 1 ? 5000 : 16;
    char *text = arena_alloc(a, len);

    memset(text, 'x', len);
    (void)snprintf(text, 12, "%010u", value);
    text[10] = '\n';
    return (struct span){text, len};
}

static inline void
whole_fill(struct cluster_ask *a)
{
    unsigned char sum[16];
    struct span expected;
    struct md5 m;

    snprintf(a->target, sizeof a->target, "/bucket/key-%u", a->op.key);
    if (strcmp(a->method, "PUT") == 0)
        a->body = whole_body(a->arena, a->op.value);
    if (a->op.call != HISTORY_SWAP)
        return;
    expected = whole_body(a->arena, a->op.expected);
    md5_init(&m);
    md5_add(&m, expected.at, expected.len);
    md5_end(&m, sum);
    for (unsigned i = 0; i < 16; i++)
        snprintf(a->condition + 1 + (size_t)2 * i, 3, "%02x", sum[i]);
    a->condition[0] = a->condition[33] = '"';
    a->condition[34] = '\0';
}

static inline uint32_t
whole_value_of(struct span body)
{
    uint64_t n = 0;
    struct arena *a;
    bool same;

    if (body.len < 11 || num_u64((struct span){body.at, 10}, &n) != ERR_OK ||
        n >= UINT32_MAX)
        return UINT32_MAX;
    a = arena_new(4096, MIB(1));
    same = span_eq(whole_body(a, (uint32_t)n), body);
    arena_free(&a);
    return same ? (uint32_t)n : UINT32_MAX;
}

static inline size_t
whole_sign(struct cluster_ask *a, struct fields sent, struct field *add)
{
    struct sigv4_creds creds = {.access_key = SPAN(WHOLE_USER "-key-id-0001"),
                                .secret = SPAN(WHOLE_SECRET),
                                .token = SPAN(""),
                                .region = SPAN("us-east-1")};
    struct sigv4_request req = {
        .method = span_of(a->method), .path = span_of(a->target), .headers = sent};
    struct query none = {NULL, 0};
    struct sigv4_signed *s = arena_alloc(a->arena, sizeof *s);

    CHECK(sigv4_sign(&req, &none, &creds, SPAN("UNSIGNED-PAYLOAD"), NULL,
                     (int64_t)(rt_wall_ns() / 1000000000u), a->arena, s) == ERR_OK);
    memcpy(add, s->add, s->add_count * sizeof *add);
    return s->add_count;
}

static inline void
whole_prepare(struct cluster_world *w)
{
    int status = 0;

    for (unsigned tries = 0; status != 200 && tries < 100; tries++) {
        struct cluster_ask a = {.w = w,
                                .gateway = &w->nodes[0],
                                .arena = arena_new(4096, MIB(1)),
                                .method = "PUT",
                                .target = "/bucket",
                                .body = SPAN("")};
        struct buf out;

        buf_init(&out, 4096);
        if (cluster_send(&a, &out, &status) != ERR_OK || status != 200)
            (void)!rt_sleep_ms(200);
        if (status != 200 && getenv("V") != NULL)
            fprintf(stderr, "PUT /bucket: %d %.*s\n", status, (int)out.len, out.at);
        buf_fini(&out);
        arena_free(&a.arena);
    }
    CHECK_U64(status, 200);
    (void)!rt_sleep_ms(1000); /* every node learns of it */
}

static inline bool
whole_had_no_effect(int status)
{
    return status == 400 || status == 403;
}

static inline uint64_t
whole_live(uint64_t seed, unsigned plant)
{
    static const struct cluster_kind kind = {.run = whole_run,
                                             .fill = whole_fill,
                                             .sign = whole_sign,
                                             .value_of = whole_value_of,
                                             .had_no_effect = whole_had_no_effect,
                                             .prepare = whole_prepare,
                                             .power = true,
                                             .direct = false};
    void *kept[CLUSTER_NODES] = {NULL};

    return cluster_live(seed, &kind, &plant, kept);
}
