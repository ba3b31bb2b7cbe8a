/* Requests between nodes: who is let in, epochs, bodies both ways, early refusals and broken answers; frames that are
 * damaged, cut or repeated; heads of requests as text. */
#include "base/hash.h"
#include "base/mem.h"
#include "check.h"
#include "peer/peer.h"
#include "rt/frames.h"
#include "rt/loop.h"

#define BODY_BYTES (1u << 20)

static const unsigned char key_a[32] = {1, 2, 3}, key_b[32] = {4};
static const unsigned char id_a[16] = {7}, id_b[16] = {8};

struct node {
    struct peers *peers;
    uint64_t epoch, wanted; /* of its map; asked of catch_up last */
    enum err catch_up;
    uint16_t port;
    char address[32];
    unsigned handled;
    struct peer_head last;
    uint64_t body_bytes, body_sum;
};

static void
serve_echo(struct http_request *r, struct node *n)
{
    char *piece = arena_alloc(r->arena, 65536);
    uint64_t length = (uint64_t)http_body_length(r);
    size_t got = 1;

    CHECK(http_reply_began(r) == false);
    n->body_bytes = n->body_sum = 0;
    while (http_body_read(r, piece, 65536, &got, NULL) == ERR_OK && got > 0) {
        n->body_sum = hash_crc32c((uint32_t)n->body_sum, piece, got);
        n->body_bytes += got;
    }
    CHECK(http_reply_begin(r, 200, (int64_t)length) == ERR_OK);
    for (uint64_t left = length; left > 0;) {
        size_t len = MIN(left, 50000u);

        memset(piece, 'e', len);
        if (http_reply_write(r, piece, len) != ERR_OK)
            return;
        left -= len;
    }
    (void)http_reply_end(r);
}

static void
node_handle(struct http_request *r, const struct peer_head *head, void *arg)
{
    struct node *n = arg;

    n->handled++;
    n->last = *head;
    CHECK_STR(r->id, head->id);
    if (span_is(r->head->path, "/refuse")) {
        (void)http_reply(r, 403, SPAN("no"));
    } else if (span_is(r->head->path, "/break")) {
        CHECK(http_reply_begin(r, 200, 100) == ERR_OK);
        CHECK(http_reply_write(r, "half", 4) == ERR_OK);
        http_reply_abort(r);
    } else if (span_is(r->head->path, "/who")) {
        CHECK_STR(r->peer, "192.0.2.1:99");
        CHECK(r->is_loopback && !r->is_tls);
        (void)http_reply(r, 200, SPAN("you"));
    } else {
        serve_echo(r, n);
    }
}

static uint64_t
node_epoch(void *arg)
{
    return ((struct node *)arg)->epoch;
}

static enum err
node_catch_up(void *arg, uint64_t epoch, struct errbuf *eb)
{
    struct node *n = arg;

    n->wanted = epoch;
    if (n->catch_up != ERR_OK)
        return err_set(eb, n->catch_up, "etcd does not answer");
    n->epoch = epoch;
    return ERR_OK;
}

static void
node_open(struct node *n, uint32_t self, const unsigned char *key,
          const unsigned char *id)
{
    struct errbuf eb = {{0}};

    *n = (struct node){.epoch = 5};
    REQUIRE(peer_start(&(struct peer_options){.key = key,
                                              .cluster_id = id,
                                              .self = self,
                                              .name = "n",
                                              .handle = node_handle,
                                              .epoch = node_epoch,
                                              .catch_up = node_catch_up,
                                              .arg = n},
                       &n->peers, &eb) == ERR_OK);
    REQUIRE(peer_listen(n->peers, "127.0.0.1", 0, &n->port, &eb) == ERR_OK);
    snprintf(n->address, sizeof n->address, "127.0.0.1:%u", n->port);
}

static struct peer_target
target_of(const struct node *n, uint32_t number, uint64_t epoch)
{
    return (struct peer_target){n->address, number, epoch};
}

/* A GET; the status, or 0 with the sentence in eb. */
static int
ask_path(struct node *from, struct peer_target to, const char *path, struct buf *body,
         uint64_t *stale, struct errbuf *eb)
{
    struct peer_request req = {.method = "GET",
                               .target = span_of(path),
                               .length = HTTP_NO_BODY,
                               .flags = PEER_LOOPBACK,
                               .id = "0123456789abcdef",
                               .client = "192.0.2.1:99"};
    const struct http_head *head;
    struct http_call *call;
    char piece[100];
    size_t n = 0;
    int status;
    enum err rc;

    *stale = 0;
    buf_clear(body);
    if (peer_call_begin(from->peers, &to, &req, &call, eb) != ERR_OK)
        return 0;
    if (http_call_finish(call, &head, eb) != ERR_OK) {
        http_call_end(&call);
        return 0;
    }
    status = head->code;
    *stale = peer_stale_epoch(head);
    while ((rc = http_call_read(call, piece, sizeof piece, &n, eb)) == ERR_OK && n > 0)
        buf_put(body, piece, n);
    http_call_end(&call);
    return rc == ERR_OK ? status : -1;
}

static void
run_who_is_let_in(void *arg)
{
    struct node a, b, other_key, other_cluster;
    struct errbuf eb = {{0}};
    struct buf body;
    uint64_t stale;

    (void)arg;
    buf_init(&body, 4096);
    node_open(&a, 1, key_a, id_a);
    node_open(&b, 2, key_a, id_a);
    node_open(&other_key, 1, key_b, id_a);
    node_open(&other_cluster, 1, key_a, id_b);
    CHECK(ask_path(&a, target_of(&b, 2, 5), "/who", &body, &stale, &eb) == 200);
    CHECK(span_is(buf_span(&body), "you"));
    CHECK(b.last.from == 1 && b.last.to == 2 && b.last.epoch == 5);
    CHECK_STR(b.last.client, "192.0.2.1:99");
    CHECK(ask_path(&other_key, target_of(&b, 2, 5), "/who", &body, &stale, &eb) == 0);
    CHECK_SAYS(eb.text, "certificate");
    CHECK(ask_path(&other_cluster, target_of(&b, 2, 5), "/who", &body, &stale, &eb) == 0);
    CHECK_SAYS(eb.text, "certificate");
    /* The address of another node. */
    CHECK(ask_path(&a, target_of(&b, 3, 5), "/who", &body, &stale, &eb) == 0);
    CHECK_SAYS(eb.text, "node 3");
    CHECK_U64(b.handled, 1);
    peer_stop(&other_cluster.peers);
    peer_stop(&other_key.peers);
    peer_stop(&b.peers);
    CHECK(ask_path(&a, target_of(&b, 2, 5), "/who", &body, &stale, &eb) == 0);
    peer_stop(&a.peers);
    buf_fini(&body);
}

/* A client without a certificate gets no answer, whatever it verifies. */
static void
run_no_certificate(void *arg)
{
    struct tls_client_options o = {.insecure_no_verify = true};
    struct http_call_request req = {.host = "127.0.0.1",
                                    .tls = true,
                                    .method = "GET",
                                    .target = SPAN("/who"),
                                    .length = HTTP_NO_BODY};
    struct http_client *client = NULL;
    struct tls_context *tls = NULL;
    struct errbuf eb = {{0}};
    struct node b;
    struct buf body;
    int status = 0;

    (void)arg;
    buf_init(&body, 4096);
    node_open(&b, 2, key_a, id_a);
    req.port = b.port;
    REQUIRE(tls_client_new(&o, &tls, &eb) == ERR_OK);
    REQUIRE(http_client_new(&(struct http_client_options){.tls = tls, .frames = true},
                            &client, &eb) == ERR_OK);
    CHECK(http_call_simple(client, &req, SPAN(""), &status, &body, NULL, NULL, &eb) !=
          ERR_OK);
    CHECK_U64(status, 0);
    CHECK_U64(b.handled, 0);
    http_client_free(&client);
    tls_context_free(&tls);
    peer_stop(&b.peers);
    buf_fini(&body);
}

static void
run_epochs(void *arg)
{
    struct errbuf eb = {{0}};
    struct node a, b;
    struct buf body;
    uint64_t stale;

    (void)arg;
    buf_init(&body, 4096);
    node_open(&a, 1, key_a, id_a);
    node_open(&b, 2, key_a, id_a);
    CHECK(ask_path(&a, target_of(&b, 2, 4), "/who", &body, &stale, &eb) == PEER_STALE);
    CHECK_U64(stale, 5);
    CHECK_U64(b.handled, 0);
    CHECK(ask_path(&a, target_of(&b, 2, 9), "/who", &body, &stale, &eb) == 200);
    CHECK_U64(b.wanted, 9);
    CHECK_U64(b.handled, 1);
    b.catch_up = ERR_UNAVAILABLE;
    CHECK(ask_path(&a, target_of(&b, 2, 12), "/who", &body, &stale, &eb) == 503);
    CHECK_SAYS(body.at, "etcd does not answer");
    CHECK_U64(stale, 0);
    CHECK_U64(b.handled, 1);
    peer_stop(&b.peers);
    peer_stop(&a.peers);
    buf_fini(&body);
}

/* Sends a body of BODY_BYTES, and reads one of as many. Returns the status. */
static int
exchange(struct node *a, struct node *b, const char *path, bool expect, bool *sent_all,
         uint32_t *sum, uint64_t *got)
{
    struct peer_request req = {.method = "PUT",
                               .target = span_of(path),
                               .length = BODY_BYTES,
                               .expect_continue = expect,
                               .id = "0123456789abcdef"};
    struct peer_target to = target_of(b, 2, 5);
    const struct http_head *head;
    struct errbuf eb = {{0}};
    struct http_call *call;
    char *piece = xmalloc(100000);
    int status = 0;
    size_t n = 0;

    *sum = 0;
    *got = 0;
    *sent_all = false;
    CHECK(peer_call_begin(a->peers, &to, &req, &call, &eb) == ERR_OK);
    for (size_t left = BODY_BYTES; left > 0; left -= n) {
        n = MIN(left, 100000u);
        memset(piece, (int)(left % 251), n);
        *sum = hash_crc32c(*sum, piece, n);
        CHECK(http_call_write(call, piece, n, &eb) == ERR_OK);
    }
    if (http_call_finish(call, &head, &eb) == ERR_OK) {
        status = head->code;
        *sent_all = http_call_sent_all(call);
        while (http_call_read(call, piece, 100000, &n, &eb) == ERR_OK && n > 0)
            *got += n;
    }
    http_call_end(&call);
    free(piece);
    return status;
}

static void
run_bodies(void *arg)
{
    struct node a, b;
    uint64_t got;
    uint32_t sum;
    bool sent_all;

    (void)arg;
    node_open(&a, 1, key_a, id_a);
    node_open(&b, 2, key_a, id_a);
    for (int expect = 0; expect < 2; expect++) {
        CHECK(exchange(&a, &b, "/echo", expect, &sent_all, &sum, &got) == 200);
        CHECK(sent_all);
        CHECK_U64(got, BODY_BYTES);
        CHECK_U64(b.body_bytes, BODY_BYTES);
        CHECK_U64(b.body_sum, sum);
    }
    /* With Expect not a byte of the body leaves. */
    CHECK(exchange(&a, &b, "/refuse", true, &sent_all, &sum, &got) == 403);
    CHECK(!sent_all);
    CHECK(exchange(&a, &b, "/refuse", false, &sent_all, &sum, &got) == 403);
    peer_stop(&b.peers);
    peer_stop(&a.peers);
}

static void
run_broken_answer(void *arg)
{
    struct errbuf eb = {{0}};
    struct node a, b;
    struct buf body;
    uint64_t stale;

    (void)arg;
    buf_init(&body, 4096);
    node_open(&a, 1, key_a, id_a);
    node_open(&b, 2, key_a, id_a);
    CHECK(ask_path(&a, target_of(&b, 2, 5), "/break", &body, &stale, &eb) <= 0);
    CHECK(body.len < 100);
    peer_stop(&b.peers);
    peer_stop(&a.peers);
    buf_fini(&body);
}

/* ---- frames ---- */

static void
put_frame(struct buf *out, const char *text, uint32_t number, uint32_t damage)
{
    uint32_t len = (uint32_t)strlen(text);
    struct frame_head h = {.len = len, .number = number};
    unsigned char head[FRAME_HEAD_BYTES];

    h.crc = hash_crc32c(frame_crc_begin(len, number), text, len) ^ damage;
    frame_head_put(&h, head);
    buf_put(out, head, sizeof head);
    buf_put(out, text, len);
}

static void
run_frames(void *arg)
{
    static const struct {
        uint32_t number, damage;
        size_t cut;
        enum err want;
        const char *says;
    } rows[] = {
        {1, 0, 0, ERR_OK, ""},
        {1, 4, 0, ERR_CORRUPT, "frame 1 has CRC-32C"},
        {0, 0, 0, ERR_CORRUPT, "frame 0 where frame 1 should follow"},
        {2, 0, 0, ERR_CORRUPT, "frame 2 where frame 1 should follow"},
        {1, 0, 1, ERR_CLOSED, "within a frame"},
        {1, 0, 9, ERR_CLOSED, "within a frame"},
    };

    (void)arg;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct stream *plain, *framed;
        struct errbuf eb = {{0}};
        struct buf bytes;
        char got[64];
        size_t n;

        REQUIRE(rt_pipe(&plain, &framed) == ERR_OK);
        rt_frames_begin(framed);
        buf_init(&bytes, 4096);
        put_frame(&bytes, "first", 0, 0);
        put_frame(&bytes, "second", rows[i].number, rows[i].damage);
        CHECK(rt_send(plain, bytes.at, bytes.len - rows[i].cut, deadline_in_ms(60000),
                      &eb) == ERR_OK);
        rt_stream_close(&plain);
        /* In two pieces, from what is held. */
        CHECK(rt_recv(framed, got, 3, deadline_in_ms(60000), &n, &eb) == ERR_OK);
        CHECK(n == 3 && memcmp(got, "fir", 3) == 0);
        CHECK(rt_recv(framed, got, 3, deadline_in_ms(60000), &n, &eb) == ERR_OK);
        CHECK(n == 2 && memcmp(got, "st", 2) == 0);
        CHECK(rt_recv(framed, got, sizeof got, deadline_in_ms(60000), &n, &eb) ==
              rows[i].want);
        if (rows[i].want == ERR_OK) {
            CHECK(n == 6 && memcmp(got, "second", 6) == 0);
            CHECK(rt_recv(framed, got, sizeof got, deadline_in_ms(60000), &n, &eb) ==
                  ERR_OK);
            CHECK(n == 0);
        } else {
            CHECK_SAYS(eb.text, rows[i].says);
            CHECK(rt_recv(framed, got, sizeof got, deadline_in_ms(60000), &n, &eb) ==
                  rows[i].want);
        }
        rt_stream_close(&framed);
        buf_fini(&bytes);
    }
}

/* A wait that ends within a frame loses nothing of it. */
static void
run_interrupted_frame(void *arg)
{
    struct stream *plain, *framed;
    struct errbuf eb = {{0}};
    struct buf bytes;
    char got[64];
    size_t n;

    (void)arg;
    REQUIRE(rt_pipe(&plain, &framed) == ERR_OK);
    rt_frames_begin(framed);
    buf_init(&bytes, 4096);
    put_frame(&bytes, "abcdefgh", 0, 0);
    for (size_t i = 0; i < bytes.len; i++) {
        CHECK(rt_send(plain, bytes.at + i, 1, deadline_in_ms(60000), &eb) == ERR_OK);
        if (i + 1 < bytes.len)
            CHECK(rt_recv(framed, got, sizeof got, (struct deadline){0}, &n, &eb) ==
                  ERR_TIMEOUT);
    }
    CHECK(rt_recv(framed, got, sizeof got, deadline_in_ms(60000), &n, &eb) == ERR_OK);
    CHECK(n == 8 && memcmp(got, "abcdefgh", 8) == 0);
    rt_stream_close(&plain);
    rt_stream_close(&framed);
    buf_fini(&bytes);
}

/* ---- heads ---- */

static void
test_heads(void)
{
    static const struct {
        const char *text;
        enum err want;
        const char *says;
    } rows[] = {
        {"", ERR_BAD_REQUEST, "serves other nodes"},
        {"x", ERR_BAD_REQUEST, "serves other nodes"},
        {"2 anything", ERR_NOT_IMPLEMENTED, "version 2 of the protocol"},
        {"1 0 2 5 1 0123456789abcdef -", ERR_BAD_REQUEST, "bad numbers"},
        {"1 1 2 0 1 0123456789abcdef -", ERR_BAD_REQUEST, "bad numbers"},
        {"1 1 2 5 8 0123456789abcdef -", ERR_BAD_REQUEST, "bad numbers"},
        {"1 1 4294967296 5 1 0123456789abcdef -", ERR_BAD_REQUEST, "bad numbers"},
        {"1 1 2 5 1 0123456789abcdeF -", ERR_BAD_REQUEST, "request id"},
        {"1 1 2 5 1 0123456789abcdef", ERR_BAD_REQUEST, "client"},
        {"1 1 2 5 1 0123456789abcdef - more", ERR_BAD_REQUEST, "client"},
        {"1 1 2 5 1 0123456789abcdef -", ERR_OK, ""},
        {"1 1 2 5 7 0123456789abcdef [::1]:5", ERR_OK, ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[PEER_HEAD_TEXT_MAX];
        struct errbuf eb = {{0}};
        struct peer_head h;

        CHECK(peer_head_parse(span_of(rows[i].text), &h, &eb) == rows[i].want);
        CHECK_SAYS(eb.text, rows[i].says);
        if (rows[i].want == ERR_OK) {
            text[peer_head_format(&h, text)] = '\0';
            CHECK_STR(text, rows[i].text);
        }
    }
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
ON_LOOP(who_is_let_in)
ON_LOOP(no_certificate)
ON_LOOP(epochs)
ON_LOOP(bodies)
ON_LOOP(broken_answer)
ON_LOOP(frames)
ON_LOOP(interrupted_frame)

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_heads);
    RUN(test_frames);
    RUN(test_interrupted_frame);
    RUN(test_who_is_let_in);
    RUN(test_no_certificate);
    RUN(test_epochs);
    RUN(test_bodies);
    RUN(test_broken_answer);
    return check_done();
}
