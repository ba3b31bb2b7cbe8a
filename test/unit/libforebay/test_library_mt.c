/* library: libforebay against a server of the test's own, whose answers are written beforehand: what it sends, what it tries
 * again, where it goes on, what a fork leaves, and that many threads may use one handle. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "check.h"
#include "libforebay/forebay.h"

#define ANSWERS_MOST 64
#define TEXT_MOST    4096

/* The server: answer i goes to request i, over however many connections they come. */
static struct {
    int listener, port;
    pthread_t thread;
    atomic_bool end;
    pthread_mutex_t lock;
    struct answer {
        const char *bytes;
        size_t len;
        bool close; /* the connection, behind the answer */
        bool hang;  /* sends nothing until the end */
    } answers[ANSWERS_MOST];
    unsigned answer_count, requests, connections;
    char asked[ANSWERS_MOST][TEXT_MOST]; /* heads and bodies as they came */
} server;

static size_t
request_length(const char *text, size_t len)
{
    const char *end = memmem(text, len, "\r\n\r\n", 4), *at;
    size_t body = 0;

    if (end == NULL)
        return SIZE_MAX;
    at = strcasestr(text, "content-length: ");
    if (at != NULL && at < end)
        body = strtoul(at + 16, NULL, 10);
    return (size_t)(end + 4 - text) + body;
}

static bool
server_wait(int fd)
{
    while (!atomic_load(&server.end)) {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        if (poll(&p, 1, 20) > 0)
            return true;
    }
    return false;
}

static void *
serve_connection(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char text[TEXT_MOST];
    size_t have = 0;
    bool on = true;

    while (on && server_wait(fd)) {
        ssize_t n = recv(fd, text + have, sizeof text - 1 - have, 0);
        struct answer a = {"HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n", 37, false,
                           false};
        size_t whole;

        if (n <= 0)
            break;
        have += (size_t)n;
        text[have] = '\0';
        whole = request_length(text, have);
        if (whole > have)
            continue;
        pthread_mutex_lock(&server.lock);
        if (server.requests < ANSWERS_MOST)
            memcpy(server.asked[server.requests], text, have + 1);
        if (server.answer_count > 0)
            a = server.answers[MIN(server.requests, server.answer_count - 1)];
        server.requests++;
        pthread_mutex_unlock(&server.lock);
        have = 0;
        while (a.hang && !atomic_load(&server.end))
            usleep(5000);
        on = send(fd, a.bytes, a.len, MSG_NOSIGNAL) == (ssize_t)a.len && !a.close;
    }
    close(fd);
    return NULL;
}

static void *
serve(void *arg)
{
    pthread_t threads[256];
    unsigned count = 0;

    (void)arg;
    while (server_wait(server.listener) && count < ARRAY_LEN(threads)) {
        int fd = accept(server.listener, NULL, NULL);

        if (fd < 0)
            continue;
        pthread_mutex_lock(&server.lock);
        server.connections++;
        pthread_mutex_unlock(&server.lock);
        if (pthread_create(&threads[count], NULL, serve_connection,
                           (void *)(intptr_t)fd) != 0)
            abort();
        count++;
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return NULL;
}

static void
server_start(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;

    server.answer_count = server.requests = server.connections = 0;
    memset(server.asked, 0, sizeof server.asked);
    atomic_store(&server.end, false);
    pthread_mutex_init(&server.lock, NULL);
    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server.listener, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(server.listener, 64) != 0 ||
        getsockname(server.listener, (struct sockaddr *)&at, &len) != 0 ||
        pthread_create(&server.thread, NULL, serve, NULL) != 0)
        abort();
    server.port = ntohs(at.sin_port);
}

static void
server_stop(void)
{
    atomic_store(&server.end, true);
    pthread_join(server.thread, NULL);
    close(server.listener);
}

static void
answer_bytes(const void *bytes, size_t len, bool close_behind)
{
    REQUIRE(server.answer_count < ANSWERS_MOST);
    server.answers[server.answer_count++] =
        (struct answer){bytes, len, close_behind, false};
}

static void
answer(const char *text)
{
    answer_bytes(text, strlen(text), false);
}

static struct forebay *
open_handle(unsigned connections, unsigned attempts)
{
    char url[64];
    struct forebay_options o = {.size = sizeof o,
                                .endpoint = url,
                                .access_key = "AK",
                                .secret_key = "SK",
                                .connections = connections,
                                .attempts = attempts};
    struct forebay *f = NULL;
    struct forebay_error e;

    snprintf(url, sizeof url, "http://127.0.0.1:%d", server.port);
    CHECK(forebay_open(&o, &f, &e) == FOREBAY_OK);
    return f;
}

#define HEAD_OF(status, length, more)                                                    \
    "HTTP/1.1 " status "\r\nContent-Length: " length "\r\n" more "\r\n"

/* ---- one object ---- */

static void
test_a_get_goes_on_where_it_broke_off(void)
{
    struct forebay_error e;
    struct forebay *f;
    void *data;
    char into[4];
    size_t got;

    server_start();
    answer_bytes(HEAD_OF("200 OK", "10", "ETag: \"v1\"\r\n") "abcd",
                 sizeof HEAD_OF("200 OK", "10", "ETag: \"v1\"\r\n") - 1 + 4, true);
    answer(HEAD_OF("503 Busy", "0", "Retry-After: 0\r\n"));
    answer(HEAD_OF("206 Part", "6", "Content-Range: bytes 4-9/10\r\n") "efghij");
    answer(HEAD_OF("206 Part", "4", "Content-Range: bytes 3-6/10\r\n") "defg");
    f = open_handle(0, 0);
    CHECK(forebay_get(f, "bkt", "a b/c", 0, FOREBAY_TO_END, &data, &got, &e) ==
          FOREBAY_OK);
    CHECK(got == 10 && memcmp(data, "abcdefghij", 10) == 0);
    CHECK_SAYS(server.asked[0], "GET /bkt/a%20b/c HTTP/1.1\r\n");
    CHECK_SAYS(server.asked[0], "Credential=AK/");
    CHECK(strcasestr(server.asked[0], "\r\nrange:") == NULL);
    CHECK_SAYS(server.asked[2], "range: bytes=4-\r\n");
    CHECK_SAYS(server.asked[2], "if-match: \"v1\"\r\n");
    forebay_free(data);
    CHECK(forebay_get_into(f, "bkt", "k", 3, into, 4, &got, &e) == FOREBAY_OK);
    CHECK(got == 4 && memcmp(into, "defg", 4) == 0);
    CHECK_SAYS(server.asked[3], "range: bytes=3-6\r\n");
    CHECK_U64(server.connections, 2); /* kept, but where the server closed it */
    forebay_close(&f);
    server_stop();
}

static void
test_answers_become_codes(void)
{
    static const struct {
        const char *answer;
        int code, status;
        const char *says;
    } rows[] = {
        {HEAD_OF("404 No", "0", ""), FOREBAY_NOT_FOUND, 404, "s3://bkt/key"},
        {HEAD_OF("403 No", "55",
                 "") "<Error><Code>AccessDenied</Code><Message>No</Message>  ",
         FOREBAY_DENIED, 403, ""},
        {HEAD_OF("412 No", "0", ""), FOREBAY_CHANGED, 412, ""},
        {HEAD_OF("416 No", "0", ""), FOREBAY_RANGE, 416, ""},
        {HEAD_OF("400 No", "0", ""), FOREBAY_INVALID, 400, ""},
        {HEAD_OF("301 No", "0", ""), FOREBAY_SERVER, 301, ""},
        {HEAD_OF("503 No", "0", ""), FOREBAY_BUSY, 503, "after 2 attempts"},
        {"rubbish\r\n\r\n", FOREBAY_SERVER, 0, "not HTTP"},
        {HEAD_OF("200 OK", "3", "") "abc", FOREBAY_SERVER, 200, "range"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct forebay_error e;
        struct forebay *f;
        void *data;
        size_t got;

        server_start();
        answer(rows[i].answer);
        f = open_handle(0, 2);
        CHECK(forebay_get(f, "bkt", "key", 5, 3, &data, &got, &e) == rows[i].code);
        CHECK_U64(e.code, rows[i].code);
        CHECK_U64(e.status, rows[i].status);
        CHECK_SAYS(e.text, rows[i].says);
        CHECK(data == NULL && e.item == FOREBAY_NO_ITEM);
        forebay_close(&f);
        server_stop();
    }
}

static void
test_arguments_are_checked_before_anything_is_sent(void)
{
    struct forebay_options no_size = {0},
                           half = {.size = sizeof half, .access_key = "AK"};
    struct forebay_options bad = {.size = sizeof bad, .endpoint = "ftp://x"};
    const char *objects[] = {"a", ""};
    const uint64_t len[] = {1, 0};
    struct forebay_wanted w = {.count = 2, .objects = objects};
    struct forebay_batch *b;
    struct forebay_error e;
    struct forebay *f = NULL;
    char long_key[1100];
    void *data;
    size_t got;

    CHECK(forebay_open(&no_size, &f, &e) == FOREBAY_INVALID);
    CHECK_SAYS(e.text, "sizeof");
    CHECK(forebay_open(&half, &f, &e) == FOREBAY_INVALID);
    CHECK_SAYS(e.text, "secret_key");
    CHECK(forebay_open(&bad, &f, &e) == FOREBAY_INVALID);
    CHECK_SAYS(e.text, "http://");
    CHECK(f == NULL);
    server_start();
    f = open_handle(0, 0);
    memset(long_key, 'k', sizeof long_key);
    long_key[sizeof long_key - 1] = '\0';
    CHECK(forebay_get(f, "B", "k", 0, 1, &data, &got, &e) == FOREBAY_INVALID);
    CHECK_SAYS(e.text, "\"B\" cannot be a bucket's name");
    CHECK(forebay_get(f, "bkt", "", 0, 1, &data, &got, &e) == FOREBAY_INVALID);
    CHECK(forebay_get(f, "bkt", long_key, 0, 1, &data, &got, &e) == FOREBAY_INVALID);
    CHECK_SAYS(e.text, "at most 1024");
    CHECK(forebay_get(f, "bkt", "k", 0, 0, &data, &got, &e) == FOREBAY_INVALID);
    CHECK(forebay_get_batch(f, "bkt", &w, &b, &e) == FOREBAY_INVALID);
    CHECK_U64(e.item, 1);
    objects[1] = "b";
    w.len = len;
    CHECK(forebay_get_batch(f, "bkt", &w, &b, &e) == FOREBAY_INVALID);
    CHECK_SAYS(e.text, "item 1, \"b\"");
    w.count = 2000000;
    CHECK(forebay_get_batch(f, "bkt", &w, &b, &e) == FOREBAY_INVALID);
    CHECK_SAYS(e.text, "1 to 1000000");
    CHECK_U64(server.requests, 0);
    forebay_close(&f);
    server_stop();
}

static void
test_small_calls(void)
{
    struct forebay_info info;
    struct forebay_error e;
    struct forebay *f;

    server_start();
    answer(HEAD_OF("200 OK", "77",
                   "ETag: \"e\"\r\nContent-Type: image/png\r\nLast-Modified: Wed, 01 Jan "
                   "2025 00:00:00 GMT\r\n"));
    answer(HEAD_OF("200 OK", "0", ""));
    answer("HTTP/1.1 204 No\r\n\r\n");
    f = open_handle(0, 0);
    CHECK(forebay_head(f, "bkt", "k", &info, &e) == FOREBAY_OK);
    CHECK(info.size == 77 && info.mtime_ms == 1735689600000);
    CHECK_STR(info.etag, "e");
    CHECK_STR(info.content_type, "image/png");
    CHECK(forebay_put(f, "bkt", "k", "123456789", 9, &e) == FOREBAY_OK);
    CHECK_SAYS(server.asked[1], "x-amz-checksum-crc32c: 4waSgw==\r\n");
    CHECK_SAYS(server.asked[1], "\r\n\r\n123456789");
    CHECK(forebay_remove(f, "bkt", "k", &e) == FOREBAY_OK);
    CHECK_U64(server.connections, 1);
    forebay_close(&f);
    server_stop();
}

/* ---- batches ---- */

static size_t
put_frame(char *out, uint32_t index, uint32_t status, const char *bytes, size_t len)
{
    uint64_t numbers[3] = {index, status, len};
    unsigned width[3] = {4, 4, 8}, at = 0;

    for (unsigned i = 0; i < 3; i++)
        for (unsigned k = width[i]; k-- > 0;)
            out[at++] = (char)(numbers[i] >> (8 * k));
    memcpy(out + at, bytes, len);
    return at + len;
}

/* A chunked answer of `frames`, in chunks of `piece` bytes; cut: without its end. */
static size_t
put_answer(char *out, const char *frames, size_t len, size_t piece, bool cut)
{
    size_t n =
        (size_t)sprintf(out, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");

    for (size_t i = 0; i < len; i += piece) {
        size_t take = MIN(piece, len - i);

        n += (size_t)sprintf(out + n, "%zx\r\n", take);
        memcpy(out + n, frames + i, take);
        n += take;
        memcpy(out + n, "\r\n", 2);
        n += 2;
    }
    return cut ? n : n + (size_t)sprintf(out + n, "0\r\n\r\n");
}

static void
test_a_batch_goes_on_with_the_items_that_are_missing(void)
{
    static const char *const objects[] = {"k\"0", "s.tar", "k2", "k3"};
    static const char *const members[] = {NULL, "m/1", NULL, NULL};
    static const uint64_t first[] = {0, 0, 5, 0};
    static const uint64_t len[] = {FOREBAY_TO_END, FOREBAY_TO_END, 3, FOREBAY_TO_END};
    struct forebay_wanted w = {
        .count = 4, .objects = objects, .members = members, .first = first, .len = len};
    char frames[256], one[512], two[512];
    const struct forebay_part *parts;
    struct forebay_batch *b = NULL;
    struct forebay_error e;
    struct forebay *f;
    const char *bytes;
    size_t n, cut, count, all;

    for (size_t piece = 1; piece < 90; piece = piece * 3 + 1) {
        n = put_frame(frames, 0, 200, "zero", 4);
        n += put_frame(frames + n, 1, 404, "", 0);
        n += put_frame(frames + n, 2, 200, "two", 3);
        cut = put_answer(one, frames, n - 1, piece, true); /* item 2 lacks a byte */
        n = put_frame(frames, 0, 200, "two", 3);
        n += put_frame(frames + n, 1, 200, "", 0);
        n = put_answer(two, frames, n, piece, false);
        server_start();
        answer_bytes(one, cut, true);
        answer_bytes(two, n, false);
        f = open_handle(0, 0);
        CHECK(forebay_get_batch(f, "bkt", &w, &b, &e) == FOREBAY_OK);
        REQUIRE(b != NULL);
        bytes = forebay_batch_bytes(b, &all);
        parts = forebay_batch_parts(b, &count);
        REQUIRE(count == 4);
        CHECK(parts[0].len == 4 && memcmp(bytes + parts[0].offset, "zero", 4) == 0);
        CHECK(parts[1].found == 0 && parts[1].len == 0);
        CHECK(parts[2].len == 3 && memcmp(bytes + parts[2].offset, "two", 3) == 0);
        CHECK(parts[3].found == 1 && parts[3].len == 0);
        CHECK(parts[3].offset <= all);
        CHECK_SAYS(server.asked[0], "POST /bkt?batch=&format=frames HTTP/1.1\r\n");
        CHECK_SAYS(
            server.asked[0],
            "{\"items\":[{\"object\":\"k\\\"0\"},{\"object\":\"s.tar\",\"member\":\"m/"
            "1\"},{\"object\":\"k2\",\"start\":5,\"end\":7},{\"object\":\"k3\"}]}");
        CHECK_SAYS(server.asked[1], "{\"items\":[{\"object\":\"k2\",\"start\":5,\"end\":"
                                    "7},{\"object\":\"k3\"}]}");
        forebay_batch_free(&b);
        forebay_close(&f);
        server_stop();
    }
}

static void
test_a_batch_names_the_item_that_fails(void)
{
    static const char *const objects[] = {"a", "b", "c"};
    static const char refused[] =
        HEAD_OF("416 No", "94", "") "<Error><Code>InvalidRange</Code><Message>item 0, it "
                                    "begins behind the end</Message></Error>   ";
    struct forebay_wanted w = {.count = 3, .objects = objects};
    char frames[128], one[256], all_missing[256];
    struct forebay_batch *b;
    struct forebay_error e;
    struct forebay *f;
    size_t n;

    n = put_frame(frames, 0, 200, "x", 1);
    server_start();
    answer_bytes(one, put_answer(one, frames, n, 99, true), true);
    answer_bytes(refused, sizeof refused - 1, false);
    f = open_handle(0, 0);
    CHECK(forebay_get_batch(f, "bkt", &w, &b, &e) == FOREBAY_RANGE);
    CHECK(b == NULL);
    CHECK_U64(e.item, 1);
    CHECK_SAYS(e.text, "item 1, \"b\"");
    forebay_close(&f);
    server_stop();

    n = put_frame(frames, 0, 200, "x", 1);
    n += put_frame(frames + n, 1, 200, "y", 1);
    n += put_frame(frames + n, 2, 404, "", 0);
    server_start();
    answer_bytes(all_missing, put_answer(all_missing, frames, n, 99, false), false);
    f = open_handle(0, 0);
    w.fail_on_missing = 1;
    CHECK(forebay_get_batch(f, "bkt", &w, &b, &e) == FOREBAY_NOT_FOUND);
    CHECK_U64(e.item, 2);
    CHECK_SAYS(e.text, "\"c\" does not exist");
    forebay_close(&f);
    server_stop();

    n = put_frame(frames, 0, 200, "x", 1);
    n += put_frame(frames + n, 2, 200, "y", 1); /* out of order */
    server_start();
    answer_bytes(all_missing, put_answer(all_missing, frames, n, 99, false), false);
    f = open_handle(0, 0);
    CHECK(forebay_get_batch(f, "bkt", &w, &b, &e) == FOREBAY_SERVER);
    CHECK_SAYS(e.text, "where item 1 was due");
    forebay_close(&f);
    server_stop();

    n = put_frame(frames, 0, 200, "0123456789abcdefxyz", 19);
    server_start();
    answer_bytes(all_missing, put_answer(all_missing, frames, n, 99, false), false);
    f = open_handle(0, 0);
    w.limit = 16;
    CHECK(forebay_get_batch(f, "bkt", &w, &b, &e) == FOREBAY_TOO_LARGE);
    CHECK_SAYS(e.text, "over 16 bytes");
    forebay_close(&f);
    server_stop();
}

/* ---- listings ---- */

static void
test_a_listing_follows_its_pages(void)
{
#define ENTRY(key)                                                                       \
    "<Contents><Key>" key "</Key><LastModified>2025-01-01T00:00:00.000Z</LastModified>"  \
    "<ETag>\"e\"</ETag><Size>7</Size></Contents>"
#define PAGE_ONE                                                                         \
    "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t/1</"      \
    "NextContinuationToken><EncodingType>url</EncodingType>" ENTRY(                      \
        "a%20b") "</ListBucketResult>"
#define PAGE_TWO                                                                         \
    "<ListBucketResult><IsTruncated>false</IsTruncated>" ENTRY(                          \
        "c") "<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes></ListBucketResult>"
    const struct forebay_listing *l = NULL;
    static char one[1024], two[1024];
    struct forebay_error e;
    struct forebay *f;

    server_start();
    snprintf(one, sizeof one, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
             sizeof PAGE_ONE - 1, PAGE_ONE);
    snprintf(two, sizeof two, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
             sizeof PAGE_TWO - 1, PAGE_TWO);
    answer(one);
    answer(two);
    f = open_handle(0, 0);
    CHECK(forebay_list(f, "bkt", "p", "/", "after", 0, &l, &e) == FOREBAY_OK);
    REQUIRE(l != NULL);
    CHECK_U64(l->count, 3);
    CHECK(l->keys_len == 9 && memcmp(l->keys, "a b\0c\0d/\0", 9) == 0);
    CHECK(l->sizes[0] == 7 && l->mtimes_ms[1] == 1735689600000);
    CHECK(l->is_prefix[0] == 0 && l->is_prefix[2] == 1 && l->truncated == 0);
    CHECK_SAYS(server.asked[0], "prefix=p&delimiter=%2F&start-after=after");
    CHECK_SAYS(server.asked[1], "continuation-token=t%2F1");
    forebay_listing_free(&l);
    forebay_close(&f);
    server_stop();
}

/* ---- connections, threads, processes ---- */

static void
test_a_connection_that_the_server_closed_is_replaced(void)
{
    struct forebay_error e;
    struct forebay_info info;
    struct forebay *f;

    server_start();
    answer_bytes(HEAD_OF("200 OK", "1", ""), sizeof HEAD_OF("200 OK", "1", "") - 1, true);
    f = open_handle(0, 1); /* one attempt: this is no retry */
    for (int i = 0; i < 5; i++)
        CHECK(forebay_head(f, "bkt", "k", &info, &e) == FOREBAY_OK);
    CHECK_U64(server.requests, 5);
    forebay_close(&f);
    server_stop();
}

static void *
get_many(void *arg)
{
    struct forebay_error e;
    char into[8];
    size_t got;

    for (int i = 0; i < 200; i++) {
        CHECK(forebay_get_into(arg, "bkt", "k", 0, into, 8, &got, &e) == FOREBAY_OK);
        CHECK(got == 4 && memcmp(into, "body", 4) == 0);
    }
    return NULL;
}

static void
test_threads_share_a_handle(void)
{
    pthread_t threads[8];
    struct forebay *f;

    server_start();
    answer(HEAD_OF("206 Part", "4", "Content-Range: bytes 0-3/4\r\n") "body");
    f = open_handle(3, 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        REQUIRE(pthread_create(&threads[i], NULL, get_many, f) == 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    CHECK_U64(server.requests, 1600);
    CHECK(server.connections <= 3);
    forebay_close(&f);
    server_stop();
}

static void
test_a_child_connects_anew(void)
{
    struct forebay_error e;
    struct forebay_info info;
    struct forebay *f;
    int status = -1;
    pid_t child;

    server_start();
    answer(HEAD_OF("200 OK", "1", ""));
    f = open_handle(0, 1);
    CHECK(forebay_head(f, "bkt", "k", &info, &e) == FOREBAY_OK);
    child = fork();
    if (child == 0) {
        int rc = forebay_head(f, "bkt", "k", &info, &e);

        rc |= forebay_head(f, "bkt", "k", &info, &e);
        forebay_close(&f);
        _exit(rc);
    }
    REQUIRE(child > 0);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(forebay_head(f, "bkt", "k", &info, &e) == FOREBAY_OK);
    CHECK_U64(server.connections, 2); /* the parent's is still good */
    forebay_close(&f);
    server_stop();
}

static void
on_signal(int signo)
{
    (void)signo;
}

static void *
signal_main(void *arg)
{
    pthread_t main_thread = *(pthread_t *)arg;

    while (!atomic_load(&server.end)) { /* until the call has seen one */
        pthread_kill(main_thread, SIGUSR1);
        usleep(10000);
    }
    return NULL;
}

static void
test_a_signal_ends_a_wait_where_that_is_wanted(void)
{
    struct sigaction handler = {.sa_handler = on_signal}, old;
    char url[64];
    struct forebay_options o = {
        .size = sizeof o, .endpoint = url, .unsigned_requests = 1, .interruptible = 1};
    pthread_t self = pthread_self(), killer;
    struct forebay_error e;
    struct forebay *f = NULL;
    struct forebay_info info;

    server_start();
    server.answers[server.answer_count++] = (struct answer){"", 0, true, true};
    snprintf(url, sizeof url, "http://127.0.0.1:%d", server.port);
    REQUIRE(forebay_open(&o, &f, &e) == FOREBAY_OK);
    sigaction(SIGUSR1, &handler, &old);
    REQUIRE(pthread_create(&killer, NULL, signal_main, &self) == 0);
    CHECK(forebay_head(f, "bkt", "k", &info, &e) == FOREBAY_INTERRUPTED);
    atomic_store(&server.end, true);
    pthread_join(killer, NULL);
    sigaction(SIGUSR1, &old, NULL);
    forebay_close(&f);
    server_stop();
}

static void
test_no_server_is_unreachable(void)
{
    struct forebay_info info;
    struct forebay_error e;
    struct forebay *f;

    server_start();
    server_stop(); /* its port is free now */
    f = open_handle(0, 2);
    CHECK(forebay_head(f, "bkt", "k", &info, &e) == FOREBAY_UNREACHABLE);
    CHECK_SAYS(e.text, "after 2 attempts");
    CHECK_SAYS(e.text, "127.0.0.1");
    forebay_close(&f);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    unsetenv("http_proxy");
    RUN(test_a_get_goes_on_where_it_broke_off);
    RUN(test_answers_become_codes);
    RUN(test_arguments_are_checked_before_anything_is_sent);
    RUN(test_small_calls);
    RUN(test_a_batch_goes_on_with_the_items_that_are_missing);
    RUN(test_a_batch_names_the_item_that_fails);
    RUN(test_a_listing_follows_its_pages);
    RUN(test_a_connection_that_the_server_closed_is_replaced);
    RUN(test_threads_share_a_handle);
    RUN(test_a_child_connects_anew);
    RUN(test_a_signal_ends_a_wait_where_that_is_wanted);
    RUN(test_no_server_is_unreachable);
    return check_done();
}
