/* socket: streams over descriptors, for the real engines; addresses as people write them.
 * Inside `rt` only. */
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "rt/internal.h"

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un path;
    struct sockaddr_storage room;
};
/* "127.0.0.1", "::1", "unix:/path". False: none of these (a name?). */
bool address_parse(const char *text, uint16_t port, union address *out, socklen_t *len);
#define ADDRESS_TEXT 64
void address_text(const union address *a, char out[ADDRESS_TEXT]);
bool address_is_loopback(const union address *a);

/* Takes a nonblocking descriptor: on error it is closed. `writable`: it is known to be
 * connected. */
enum err socket_stream(int fd, const union address *peer, bool writable,
                       struct stream **out, struct errbuf *eb) MUST_CHECK;
