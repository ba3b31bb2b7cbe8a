/* The socket that a small server of the bench listens on: loopback, non-blocking, answers sent at once. */
#pragma once
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

/* -1: errno says why. */
static inline int
listen_on(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
        return -1;
    /* The ring of a killed predecessor lets go of its sockets late. */
    for (int i = 0; bind(fd, (struct sockaddr *)&a, sizeof a) != 0; i++) {
        if (errno != EADDRINUSE || i == 40)
            return -1;
        usleep(50000);
    }
    return listen(fd, 4096) == 0 ? fd : -1;
}
