/* batchload: what a batch wins over GETs, one connection each, with a client that reads every byte and looks at none:
 *
 *     batchload PORT BUCKET PREFIX COUNT ROUNDS
 *
 * GETs /BUCKET/PREFIX0000 ... one after the other, then asks for the same in one POST /BUCKET?batch. Prints, as JSON, seconds of the
 * best round of each, bytes, and milliseconds to the first byte of a batch's body.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ROOM (1u << 20)

static char room[ROOM];

static double
now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int
dial(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((unsigned short)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        perror("connect");
        exit(1);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void
send_all(int fd, const char *at, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, at, len, 0);

        if (n <= 0) {
            perror("send");
            exit(1);
        }
        at += n;
        len -= (size_t)n;
    }
}

static size_t
receive(int fd, char *at, size_t len)
{
    ssize_t n = recv(fd, at, len, 0);

    if (n <= 0) {
        fprintf(stderr, "the server closed the connection\n");
        exit(1);
    }
    return (size_t)n;
}

/* Reads a head into `room`; returns its length, *have what has come. */
static size_t
read_head(int fd, size_t *have)
{
    char *end;

    *have = 0;
    do {
        *have += receive(fd, room + *have, ROOM - 1 - *have);
        room[*have] = '\0';
        end = strstr(room, "\r\n\r\n");
    } while (end == NULL);
    if (strncmp(room, "HTTP/1.1 200", 12) != 0) {
        fprintf(stderr, "%.200s\n", room);
        exit(1);
    }
    return (size_t)(end - room) + 4;
}

static size_t
get_one(int fd, const char *bucket, const char *prefix, int i)
{
    char ask[512];
    int n =
        snprintf(ask, sizeof ask, "GET /%s/%s%04d HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                 bucket, prefix, i);
    size_t have, head, body;
    const char *length;

    send_all(fd, ask, (size_t)n);
    head = read_head(fd, &have);
    length = strcasestr(room, "content-length:");
    body = length != NULL ? strtoul(length + 15, NULL, 10) : 0;
    for (size_t left = head + body - have; left > 0;)
        left -= receive(fd, room, left < ROOM ? left : ROOM);
    return body;
}

/* Reads a chunked body to its end; *first: when its first byte came. */
static size_t
read_chunked(int fd, size_t at, size_t have, double *first)
{
    size_t bytes = 0, left = 0;
    bool data = false;

    for (;;) {
        char *line, *end;

        if (at == have) {
            have = receive(fd, room, ROOM - 1);
            at = 0;
        }
        if (*first == 0)
            *first = now_s();
        if (data) { /* the chunk and its CRLF */
            size_t n = have - at < left ? have - at : left;

            at += n;
            left -= n;
            data = left > 0;
            continue;
        }
        room[have] = '\0';
        line = room + at;
        end = memchr(line, '\n', have - at);
        if (end == NULL) {
            memmove(room, line, have - at);
            have -= at;
            at = 0;
            have += receive(fd, room + have, ROOM - 1 - have);
            continue;
        }
        left = strtoul(line, NULL, 16);
        at = (size_t)(end + 1 - room);
        if (left == 0) {
            if (have - at < 2)
                receive(fd, room, 2);
            return bytes;
        }
        bytes += left;
        left += 2;
        data = true;
    }
}

static size_t
get_batch(int fd, const char *bucket, const char *list, size_t len, double *first)
{
    char ask[512];
    int n = snprintf(ask, sizeof ask,
                     "POST /%s?batch HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: "
                     "%zu\r\nContent-Type: text/plain\r\n\r\n",
                     bucket, len);
    size_t have, head;
    double began = now_s(), came = 0;

    send_all(fd, ask, (size_t)n);
    send_all(fd, list, len);
    head = read_head(fd, &have);
    n = (int)read_chunked(fd, head, have, &came);
    *first = came - began;
    return (size_t)n;
}

int
main(int argc, char **argv)
{
    int port = argc == 6 ? atoi(argv[1]) : 0, count = argc == 6 ? atoi(argv[4]) : 0;
    int rounds = argc == 6 ? atoi(argv[5]) : 0, fd;
    double singles = 1e9, batch = 1e9, first = 1e9;
    size_t bytes = 0, packed = 0, len = 0;
    char *list;

    if (count <= 0 || rounds <= 0) {
        fprintf(stderr, "batchload PORT BUCKET PREFIX COUNT ROUNDS\n");
        return 2;
    }
    list = malloc((size_t)count * 128);
    for (int i = 0; i < count; i++)
        len += (size_t)snprintf(list + len, 128, "%s%04d\n", argv[3], i);
    fd = dial(port);
    for (int r = 0; r < rounds; r++) {
        double began = now_s(), ready;

        bytes = 0;
        for (int i = 0; i < count; i++)
            bytes += get_one(fd, argv[2], argv[3], i);
        singles = now_s() - began < singles ? now_s() - began : singles;
        began = now_s();
        packed = get_batch(fd, argv[2], list, len, &ready);
        batch = now_s() - began < batch ? now_s() - began : batch;
        first = ready < first ? ready : first;
    }
    printf(
        "{\"singles_s\": %.6f, \"batch_s\": %.6f, \"ratio\": %.2f, \"first_ms\": %.3f, "
        "\"bytes\": %zu, \"archive_bytes\": %zu}\n",
        singles, batch, singles / batch, first * 1e3, bytes, packed);
    free(list);
    close(fd);
    return 0;
}
