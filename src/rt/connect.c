/* connect: outgoing connections of the real engines; host names are resolved in a thread pool of their own. */
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ip.h"
#include "base/mem.h"
#include "rt/real.h"
#include "rt/socket.h"

enum { ADDRESSES_MAX = 8 };

/* On the heap: fibers have small stacks. */
struct resolving {
    const char *host;
    uint16_t port;
    int error; /* of getaddrinfo */
    unsigned count;
    struct {
        union address a;
        socklen_t len;
    } of[ADDRESSES_MAX];
};

static void
resolve_work(void *arg)
{
    struct resolving *r = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *list = NULL;

    r->error = getaddrinfo(r->host, NULL, &hints, &list);
    for (struct addrinfo *i = list;
         r->error == 0 && i != NULL && r->count < ADDRESSES_MAX; i = i->ai_next) {
        union address *a = &r->of[r->count].a;

        if (i->ai_addrlen > sizeof *a)
            continue;
        memcpy(a, i->ai_addr, i->ai_addrlen);
        if (a->any.sa_family == AF_INET)
            a->v4.sin_port = htons(r->port);
        else if (a->any.sa_family == AF_INET6)
            a->v6.sin6_port = htons(r->port);
        else
            continue;
        r->of[r->count++].len = i->ai_addrlen;
    }
    if (list != NULL)
        freeaddrinfo(list);
}

static enum err
connect_resolve(struct resolving *r, struct deadline by, struct errbuf *eb)
{
    enum err rc;

    if (address_parse(r->host, r->port, &r->of[0].a, &r->of[0].len)) {
        r->count = 1;
        return ERR_OK;
    }
    rc = pool_run(POOL_RESOLVE, resolve_work, r, by);
    if (rc != ERR_OK)
        return err_set(eb, rc, "resolving '%s': %s", r->host, err_name(rc));
    if (r->error != 0)
        return err_set(eb, ERR_CLOSED, "resolving '%s': %s", r->host,
                       gai_strerror(r->error));
    if (r->count == 0)
        return err_set(eb, ERR_CLOSED, "resolving '%s': no address of IPv4 or IPv6",
                       r->host);
    return ERR_OK;
}

/* A full backlog of a Unix socket is EAGAIN and makes no event: retry a little later. */
static enum err
begin_connect(int fd, const union address *a, socklen_t len, struct deadline by,
              int *error)
{
    for (;;) {
        enum err rc;

        *error = connect(fd, &a->any, len) == 0 ? 0 : errno;
        if (*error != EAGAIN || a->any.sa_family != AF_UNIX)
            return ERR_OK;
        rc = deadline_passed(by) ? ERR_TIMEOUT : rt_sleep_ms(1);
        if (rc != ERR_OK)
            return rc;
    }
}

static enum err
wait_connected(struct stream *s, int fd, struct deadline by, struct errbuf *eb)
{
    socklen_t len;
    int error = 0;
    enum err rc;

    assert(s->sender == NULL);
    s->sender = rt_self();
    while (!s->may_out) {
        rc = fiber_wait(by);
        if (rc != ERR_OK) {
            s->sender = NULL;
            return err_set(eb, rc, "connecting to %s: %s", s->peer, err_name(rc));
        }
    }
    s->sender = NULL;
    len = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    if (error != 0)
        return err_errno(eb, ERR_CLOSED, error, "connecting to %s", s->peer);
    return ERR_OK;
}

static enum err
connect_one(const union address *a, socklen_t len, struct deadline by,
            struct stream **out, struct errbuf *eb)
{
    char text[ADDRESS_TEXT];
    int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
        error;
    enum err rc;

    assert(len > 0);
    assert(len <= sizeof *a);
    address_text(a, text);
    if (fd < 0)
        return err_errno(eb, ERR_BUSY, errno, "a socket to %s", text);
    rc = begin_connect(fd, a, len, by, &error);
    if (rc != ERR_OK || (error != 0 && error != EINPROGRESS)) {
        close(fd);
        return rc != ERR_OK ? err_set(eb, rc, "connecting to %s: %s", text, err_name(rc))
                            : err_errno(eb, ERR_CLOSED, error, "connecting to %s", text);
    }
    rc = socket_stream(fd, a, error == 0, out, eb);
    if (rc == ERR_OK && error != 0)
        rc = wait_connected(*out, fd, by, eb);
    if (rc != ERR_OK)
        rt_stream_close(out);
    return rc;
}

static enum ip_class
connect_class_of(const union address *a)
{
    return a->any.sa_family == AF_INET6
               ? ip_class_of(a->v6.sin6_addr.s6_addr, 16)
               : ip_class_of((const unsigned char *)&a->v4.sin_addr.s_addr, 4);
}

/* Removes the addresses that the name must not lead to. The addresses checked here are those that are connected to:
 * there is no second look-up. */
static enum err
keep_allowed(struct resolving *r, unsigned refuse, struct errbuf *eb)
{
    union address found = {0};
    unsigned kept = 0;
    char text[ADDRESS_TEXT];

    if (strcasecmp(r->host, "localhost") == 0) /* the name itself says loopback */
        refuse &= ~(1u << IP_LOOPBACK);
    for (unsigned i = 0; i < r->count; i++) {
        if ((refuse >> connect_class_of(&r->of[i].a) & 1) != 0)
            found = r->of[i].a;
        else
            r->of[kept++] = r->of[i];
    }
    assert(kept <= r->count);
    r->count = kept;
    if (kept > 0)
        return ERR_OK;
    address_text(&found, text);
    return err_set(
        eb, ERR_DENIED,
        "the name '%s' resolves to %s, which is %s: connections there are not allowed",
        r->host, text, ip_class_name(connect_class_of(&found)));
}

enum err
real_connect(const char *host, uint16_t port, unsigned refuse, struct deadline by,
             struct stream **out, struct errbuf *eb)
{
    struct resolving *r = xcalloc(1, sizeof *r);
    union address literal;
    socklen_t ignored;
    enum err rc;

    r->host = host;
    r->port = port;
    rc = connect_resolve(r, by, eb);
    assert(r->count <= ADDRESSES_MAX);
    assert(rc != ERR_OK || r->count > 0);
    if (rc == ERR_OK && refuse != 0 && !address_parse(host, port, &literal, &ignored))
        rc = keep_allowed(r, refuse, eb);
    for (unsigned i = 0; rc == ERR_OK && i < r->count; i++) {
        rc = connect_one(&r->of[i].a, r->of[i].len, by, out, eb);
        if (rc != ERR_CLOSED)
            break; /* connected, cancelled or late; else try the next address */
        if (i + 1 < r->count)
            rc = ERR_OK;
    }
    free(r);
    return rc;
}
