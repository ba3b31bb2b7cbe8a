/* What was sent from the block cache arrives as it was, however late it is read and whatever has taken its place meanwhile: a socket
 * may hold our pages long after the call. Protects V1. */
#include <arpa/inet.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "rt/net.h"
#include "rt/sendable.h"
#include "store/segment/block_cache.h"
#include "store/store_block_cache.h"
#include "store/store_entry.h"
#include "unit/rt/engines.h"

#define SOON  deadline_in_ms(PATIENCE_MS)
#define PIECE (200u << 10) /* neither all of a piece nor whole pages: */
#define ODD   77u

static char *scratch;

static struct content_id
id_of(unsigned n)
{
    struct content_id id = {{0}};

    memcpy(id.bytes, &n, sizeof n);
    return id;
}

static uint32_t
make(unsigned n, char *out)
{
    uint32_t len = PIECE + n % 7 * 4096 + ODD;

    memset(out, (int)(n * 131), len);
    for (uint32_t i = 0; i < len; i += 64)
        out[i] = (char)(i / 64);
    return len;
}

static void
add(struct block_cache *h, unsigned n)
{
    struct content_id id = id_of(n);
    uint32_t len = make(n, scratch);

    block_cache_add(h, &id, 0, scratch, len);
}

static void
meet(struct stream **a, struct stream **b)
{
    struct listener *l = NULL;
    struct errbuf eb = {{0}};

    REQUIRE(rt_listen("127.0.0.1", 0, NULL, &l, &eb) == ERR_OK);
    REQUIRE(rt_connect("127.0.0.1", rt_listener_port(l), SOON, a, &eb) == ERR_OK);
    REQUIRE(rt_accept(l, SOON, b, &eb) == ERR_OK);
    rt_listener_close(&l);
}

static void
send_piece(struct block_cache *h, struct stream *to, unsigned n)
{
    struct content_id id = id_of(n);
    struct block_cache_pin pin;

    REQUIRE(block_cache_get(h, &id, 0, &pin));
    CHECK(rt_send(to, pin.at, pin.len, SOON, NULL) == ERR_OK);
    block_cache_unpin(h, &pin);
}

static void
receive(struct stream *from, unsigned n, uint32_t len)
{
    uint32_t at = 0;
    char got[8192];

    CHECK(make(n, scratch) >= len);

    while (at < len) {
        size_t more = 0;

        REQUIRE(rt_recv(from, got, MIN(sizeof got, len - at), SOON, &more, NULL) ==
                ERR_OK);
        REQUIRE(more > 0);
        CHECK(memcmp(got, scratch + at, more) == 0);
        at += (uint32_t)more;
    }
}

static void
hear_piece(struct stream *from, unsigned n)
{
    receive(from, n, make(n, scratch));
}

/* Sent, taken out by others, written over, and only then read. */
static void
late_readers(void *arg)
{
    struct block_cache *h = block_cache_new(MIB(2));
    struct stream *a, *b;
    unsigned next = 1000;

    (void)arg;
    scratch = xmalloc(BLOCK_CACHE_PIECE + 8192);
    meet(&a, &b);
    for (unsigned n = 0; n < 20; n++) {
        struct content_id id = id_of(n);
        struct block_cache_pin pin;

        add(h, n);
        send_piece(h, a, n);
        for (unsigned others = 0; others < 3 * MIB(2) / PIECE; others++)
            add(h, next++); /* the ring comes by three times */
        CHECK(!block_cache_get(h, &id, 0, &pin));
        hear_piece(b, n);
    }
    rt_stream_close(&a);
    rt_stream_close(&b);
    block_cache_free(&h);
    free(scratch);
}
REAL_CASE(test_late_readers_get_what_was_sent, 1, late_readers)

/* One piece is more than the socket has room for: the rest waits, and what the pipe held is sent again. All but the last say that
 * more will come: nothing of them is left behind. */
static enum err
send_more(struct stream *to, const char *at, size_t len, bool more)
{
    struct iovec one = {(void *)(uintptr_t)at, len};

    return (more ? rt_sendv_more : rt_sendv)(to, &one, 1, SOON, NULL);
}

struct slow {
    struct stream *to;
    const char *at;
    uint32_t len;
    const struct block_cache_pin *pins;
};

static void
send_all(void *arg)
{
    struct slow *s = arg;

    for (unsigned i = 0; i < 40; i++)
        CHECK(send_more(s->to, s->at, s->len, i < 39) == ERR_OK);
}

static const char *
pin_again(struct block_cache *h, struct block_cache_pin *pin)
{
    struct content_id id = id_of(3);

    CHECK(block_cache_get(h, &id, 0, pin));
    return pin->at;
}

static void
slow_readers(void *arg)
{
    struct block_cache *h = block_cache_new(MIB(2));
    struct stream *a, *b;
    struct rt_group sender;
    struct content_id id = id_of(3);
    struct block_cache_pin pin;
    struct slow s;
    enum err rc;

    (void)arg;
    scratch = xmalloc(BLOCK_CACHE_PIECE + 8192);
    meet(&a, &b);
    add(h, 3);
    REQUIRE(block_cache_get(h, &id, 0, &pin));
    s = (struct slow){a, pin.at, pin.len, NULL};
    rt_group_begin(&sender);
    REQUIRE(rt_group_start(&sender, send_all, &s) == ERR_OK);
    for (unsigned i = 0; i < 40; i++) {
        if (i % 10 == 0)
            CHECK(rt_sleep_ms(5) == ERR_OK);
        hear_piece(b, 3);
    }
    rt_group_join(&sender);
    block_cache_unpin(h, &pin);
    rt_stream_close(&b);
    rc = ERR_OK;
    for (unsigned i = 0; i < 1000 && rc == ERR_OK; i++) { /* until the reset is here */
        rc = rt_send(a, pin_again(h, &pin), PIECE, SOON, NULL);
        block_cache_unpin(h, &pin);
    }
    CHECK(rc != ERR_OK);
    block_cache_free(&h);
    rt_stream_close(&a);
    free(scratch);
}
REAL_CASE(test_slow_readers_get_all_of_it, 1, slow_readers)

/* The descriptor of this process that is connected to `port`. */
static int
socket_to(uint16_t port)
{
    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t len = sizeof peer;

        if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
            peer.sin_family == AF_INET && ntohs(peer.sin_port) == port)
            return fd;
    }
    return -1;
}

/* The window is wide by now, and loopback delivers within the call. */
static bool
holds_back(int fd)
{
    int unsent = 0;

    CHECK(ioctl(fd, SIOCOUTQNSD, &unsent) == 0);
    return unsent > 0;
}

#define BIT ((33u << 10) + ODD) /* by reference; two of them fit into any window */

/* While more is announced the kernel holds back what fills no segment; what is copied is never held back, and nothing is at the end. */
static void
held_back(void *arg)
{
    struct block_cache *h = block_cache_new(MIB(2));
    struct content_id id = id_of(3);
    struct listener *l = NULL;
    struct stream *a, *b;
    struct block_cache_pin pin;
    int fd;

    (void)arg;
    scratch = xmalloc(BLOCK_CACHE_PIECE + 8192);
    REQUIRE(rt_listen("127.0.0.1", 0, NULL, &l, NULL) == ERR_OK);
    REQUIRE(rt_connect("127.0.0.1", rt_listener_port(l), SOON, &a, NULL) == ERR_OK);
    REQUIRE(rt_accept(l, SOON, &b, NULL) == ERR_OK);
    fd = socket_to(rt_listener_port(l));
    REQUIRE(fd >= 0);
    add(h, 3);
    REQUIRE(block_cache_get(h, &id, 0, &pin));
    for (unsigned round = 0; round < 10; round++) {
        CHECK(send_more(a, scratch, BIT, true) == ERR_OK);
        CHECK(!holds_back(fd));
        receive(b, 3, BIT);
    }
    for (unsigned round = 0; round < 9; round++) {
        CHECK(send_more(a, pin.at, BIT, true) == ERR_OK);
        CHECK(holds_back(fd));
        CHECK(send_more(a, round % 3 == 1 ? scratch : pin.at, BIT, false) == ERR_OK);
        CHECK(!holds_back(fd));
        receive(b, 3, BIT);
        receive(b, 3, BIT);
        if (round % 2 == 0)
            CHECK(send_more(a, scratch, BIT, false) == ERR_OK);
        CHECK(!holds_back(fd));
        if (round % 2 == 0)
            receive(b, 3, BIT);
    }
    block_cache_unpin(h, &pin);
    block_cache_free(&h);
    rt_listener_close(&l);
    rt_stream_close(&a);
    rt_stream_close(&b);
    free(scratch);
}
REAL_CASE(test_what_fills_no_segment_waits_for_more, 1, held_back)

/* ---- heads ---- */

#define HEAD 300u

static void
send_headed(struct stream *to, const struct block_cache_pin *pin, unsigned n)
{
    char head[HEAD];
    struct iovec both[] = {{head, sizeof head}, {(void *)(uintptr_t)pin->at, BIT}};

    memset(head, (int)(n % 251), sizeof head);
    CHECK(rt_sendv(to, both, 2, SOON, NULL) == ERR_OK);
}

static void
hear_headed(struct stream *from, unsigned n)
{
    char head[HEAD];

    for (size_t at = 0, more = 0; at < sizeof head; at += more) {
        REQUIRE(rt_recv(from, head + at, sizeof head - at, SOON, &more, NULL) == ERR_OK);
        REQUIRE(more > 0);
    }
    for (size_t at = 0; at < sizeof head; at++)
        CHECK_U64((unsigned char)head[at], n % 251);
    receive(from, 3, BIT);
}

/* One is read after so many others that the memory for heads has come round three times. */
static void
late_heads(void *arg)
{
    struct block_cache *h = block_cache_new(MIB(2));
    struct content_id id = id_of(3);
    struct stream *late[2], *busy[2];
    struct block_cache_pin pin;

    (void)arg;
    scratch = xmalloc(BLOCK_CACHE_PIECE + 8192);
    meet(&late[0], &late[1]);
    meet(&busy[0], &busy[1]);
    add(h, 3);
    REQUIRE(block_cache_get(h, &id, 0, &pin));
    for (unsigned round = 0, n = 0; round < 2; round++) {
        unsigned first = n++;

        send_headed(late[0], &pin, first);
        for (unsigned i = 0; i < 2500; i++, n++) {
            send_headed(busy[0], &pin, n);
            hear_headed(busy[1], n);
        }
        hear_headed(late[1], first);
    }
    block_cache_unpin(h, &pin);
    block_cache_free(&h);
    for (unsigned i = 0; i < 2; i++) {
        rt_stream_close(&late[i]);
        rt_stream_close(&busy[i]);
    }
    free(scratch);
}
REAL_CASE(test_heads_stay_as_they_were_sent, 1, late_heads)

static bool
goes_in_front(struct sendable_pipe *p, size_t len, size_t behind, size_t portion)
{
    static char head[4096];
    struct iovec front[] = {{head, len / 2}, {head + len / 2, len - len / 2}}, out = {0};
    struct iovec piece = {NULL, behind};

    for (size_t i = 0; i < len; i++)
        head[i] = (char)(i * 7);
    if (!sendable_front(p, front, 2, &piece, 1, portion, &out))
        return false;
    CHECK_U64(out.iov_len, len);
    CHECK(memcmp(out.iov_base, head, len) == 0);
    CHECK_U64((uintptr_t)out.iov_base / 4096, ((uintptr_t)out.iov_base + len - 1) / 4096);
    return true;
}

static void
test_which_heads_go_in_front(void)
{
    struct sendable_pipe p = {0};

    CHECK(goes_in_front(&p, 340, 100000, MIB(1)));
    CHECK(goes_in_front(&p, 1, 40000, MIB(1)));
    CHECK(goes_in_front(&p, 1024, KIB(256), MIB(1)));
    CHECK(!goes_in_front(&p, 1025, 100000, MIB(1)));
    CHECK(!goes_in_front(&p, 0, 100000, MIB(1)));
    CHECK(goes_in_front(&p, 340, 15 * 4096, MIB(1)));
    CHECK(!goes_in_front(&p, 340, 16 * 4096, MIB(1))); /* 17 pages: no call less */
    CHECK(goes_in_front(&p, 340, 17 * 4096, MIB(1)));
    CHECK(!goes_in_front(&p, 340, MIB(1), MIB(1))); /* does not fit */
    CHECK(!goes_in_front(&p, 340, KIB(256), KIB(256)));
    for (unsigned i = 0; i < 2000; i++)
        CHECK(goes_in_front(&p, 1 + i % 1024, 100000, MIB(1)));
    p.open = true;
    p.room = KIB(64);
    CHECK(goes_in_front(&p, 340, KIB(32), MIB(1)));
    CHECK(!goes_in_front(&p, 340, 100000, MIB(1)));
    p.open = false;
    p.useless = true;
    CHECK(!goes_in_front(&p, 340, 100000, MIB(1)));
    sendable_pipe_free(&p);
    sendable_pipe_free(&p);
}

/* Four pieces and what stands before them are one send, each time. */
static void
send_together(void *arg)
{
    struct slow *s = arg;

    for (unsigned i = 0; i < 10; i++) {
        struct iovec iov[5] = {{(void *)(uintptr_t)s->at, s->len}};

        for (unsigned n = 1; n < 5; n++)
            iov[n] = (struct iovec){(void *)(uintptr_t)s->pins[n].at, s->pins[n].len};
        CHECK(rt_sendv(s->to, iov, 5, SOON, NULL) == ERR_OK);
    }
}

static void
several_at_once(void *arg)
{
    struct block_cache *h = block_cache_new(MIB(4));
    struct block_cache_pin pins[5];
    struct rt_group sender;
    struct stream *a, *b;
    struct slow s;
    char *head;

    (void)arg;
    scratch = xmalloc(BLOCK_CACHE_PIECE + 8192);
    head = xmalloc(BLOCK_CACHE_PIECE + 8192);
    meet(&a, &b);
    for (unsigned n = 1; n < 5; n++) {
        struct content_id id = id_of(n);

        add(h, n);
        REQUIRE(block_cache_get(h, &id, 0, &pins[n]));
    }
    s = (struct slow){a, head, make(9, head), pins};
    rt_group_begin(&sender);
    REQUIRE(rt_group_start(&sender, send_together, &s) == ERR_OK);
    for (unsigned i = 0; i < 10; i++) {
        hear_piece(b, 9);
        for (unsigned n = 1; n < 5; n++)
            hear_piece(b, n);
    }
    rt_group_join(&sender);
    for (unsigned n = 1; n < 5; n++)
        block_cache_unpin(h, &pins[n]);
    free(head);
    block_cache_free(&h);
    rt_stream_close(&a);
    rt_stream_close(&b);
    free(scratch);
}
REAL_CASE(test_pieces_go_together, 1, several_at_once)

static void
test_regions_come_and_go(void)
{
    struct sendable *many[20];

    for (unsigned i = 0; i < ARRAY_LEN(many); i++) {
        many[i] = sendable_new(MIB(1));
        CHECK(i > 3 || sendable_has(sendable_at(many[i]), RT_ZERO_COPY_MIN));
        CHECK(!sendable_has(sendable_at(many[i]), RT_ZERO_COPY_MIN - 1));
        CHECK(!sendable_has(many, RT_ZERO_COPY_MIN));
    }
    for (unsigned i = 0; i < ARRAY_LEN(many); i++) {
        const char *at = sendable_at(many[i]);

        sendable_free(&many[i]);
        CHECK(!sendable_has(at, RT_ZERO_COPY_MIN));
    }
    sendable_free(&many[0]);
}

/* ---- who is let in ---- */

enum { ROUNDS = 20, SET = 100 };

/* A read as a disk would see it: true when it came to a piece that is not there and was let in. */
static bool
reads(struct block_cache *h, unsigned n)
{
    struct content_id id = id_of(n);

    if (block_cache_has(h, &id, 0) || !block_cache_wants(h, &id, 0))
        return false;
    add(h, n);
    return true;
}

static unsigned
reads_round(struct block_cache *h, unsigned first, unsigned count)
{
    unsigned let_in = 0;

    for (unsigned i = 0; i < count; i++)
        let_in += reads(h, first + i);
    return let_in;
}

/* Sets that are larger than it, read again and again, do not put each other out with every read; what comes again soon is let
 * in, and what is no longer read does not stay for ever. */
static void
test_more_than_there_is_room_for(void)
{
    struct block_cache *h = block_cache_new(MIB(8));
    struct block_cache *large = block_cache_new(MIB(64));
    unsigned let_in = 0, there = 0;

    scratch = xmalloc(BLOCK_CACHE_PIECE);
    for (unsigned i = 0; i < 4; i++)
        reads_round(h, 0, SET);
    CHECK(block_cache_bytes(h) > MIB(4)); /* a second read fills it */
    for (unsigned i = 0; i < ROUNDS; i++)
        let_in += reads_round(h, 0, SET);
    CHECK(let_in > 0 && let_in <= ROUNDS * SET / 16);

    CHECK(!reads(h, 5000)); /* once is not enough, twice is */
    CHECK(reads(h, 5000));

    for (unsigned i = 0; i < 60 * SET && there < 4; i++) { /* another set */
        reads(h, 1000 + i % SET);
        there = 0;
        for (unsigned n = 1000; n < 1000 + SET; n++) {
            struct content_id id = id_of(n);

            there += block_cache_has(h, &id, 0);
        }
    }
    CHECK(there >= 4);

    block_cache_shrink(h, MIB(2)); /* there is room again */
    reads(h, 6000);
    reads_round(h, 3000, SET / 4);
    CHECK(reads(h, 6000));

    for (unsigned i = 0; i < 2; i++) /* a set for which there is room is there at once */
        let_in = reads_round(large, 0, SET);
    CHECK_U64(let_in, SET);
    CHECK_U64(reads_round(large, 0, SET), 0);
    block_cache_free(&large);
    block_cache_free(&h);
    free(scratch);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_late_readers_get_what_was_sent);
    RUN(test_slow_readers_get_all_of_it);
    RUN(test_pieces_go_together);
    RUN(test_what_fills_no_segment_waits_for_more);
    RUN(test_heads_stay_as_they_were_sent);
    RUN(test_which_heads_go_in_front);
    RUN(test_regions_come_and_go);
    RUN(test_more_than_there_is_room_for);
    return check_done();
}
